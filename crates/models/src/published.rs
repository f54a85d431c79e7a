//! The published configurations of the Graph Transformer: ten layers, eight heads, about half a million parameters.

use gt_nn::{Channels, Input, Loss, Network, Norm, Readout, Reads};

/// The data sets of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishedSet {
    /// Molecules: graph regression, with edge features.
    Zinc,
    /// Planted patterns: node classification, 2 classes.
    Pattern,
    /// Clusters: node classification, 6 classes.
    Cluster,
}

/// The positional encoding that a configuration adds to its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishedEncoding {
    /// None.
    None,
    /// Laplacian eigenvectors.
    Laplacian,
    /// Weisfeiler–Lehman roles.
    WeisfeilerLehman,
}

impl PublishedSet {
    /// The network of a configuration.
    ///
    /// ```
    /// use gt_models::{PublishedEncoding, PublishedSet};
    /// use gt_nn::{Norm, Parameters};
    ///
    /// let network = PublishedSet::Zinc.network(PublishedEncoding::Laplacian, Norm::Batch);
    /// assert_eq!(Parameters::new(&network).count(), 588_929);
    /// ```
    pub fn network(self, encoding: PublishedEncoding, norm: Norm) -> Network {
        let zinc = self == PublishedSet::Zinc;
        let width = if zinc { 64 } else { 80 };
        let (types, outputs) = match self {
            PublishedSet::Zinc => (28, 1),
            PublishedSet::Pattern => (3, 2),
            PublishedSet::Cluster => (7, 6),
        };
        Network {
            norm,
            edge_stream: zinc,
            node: Input {
                categorical: vec![types],
                laplacian: if encoding == PublishedEncoding::Laplacian { self.laplacian_width() } else { 0 },
                roles: (encoding == PublishedEncoding::WeisfeilerLehman).then_some(if zinc { 37 } else { 100 }),
                ..Default::default()
            },
            edge: Input { categorical: if zinc { vec![4] } else { vec![] }, ..Default::default() },
            reads: if zinc { Reads::Graphs(Readout::Mean) } else { Reads::Nodes },
            head: vec![width / 2, width / 4, outputs],
            ..Network::new(Channels::new(width, 8), 10)
        }
    }

    /// Eigenvectors per node.
    pub fn laplacian_width(self) -> usize {
        match self {
            PublishedSet::Zinc => 8,
            PublishedSet::Pattern => 2,
            PublishedSet::Cluster => 10,
        }
    }

    /// Graphs per batch, on sparse or fully connected graphs.
    pub fn batch_size(self, full: bool) -> usize {
        match (self, full) {
            (PublishedSet::Zinc, _) => 128,
            (PublishedSet::Pattern, false) => 26,
            (PublishedSet::Cluster, false) => 32,
            (_, true) => 10,
        }
    }

    /// What is minimised.
    pub fn loss(self) -> Loss {
        match self {
            PublishedSet::Zinc => Loss::L1,
            _ => Loss::CrossEntropy { weighted: true },
        }
    }
}

#[cfg(test)]
mod tests {
    use gt_nn::Parameters;

    use super::*;

    #[test]
    fn all_published_parameter_counts() {
        use PublishedEncoding::{Laplacian, None, WeisfeilerLehman};
        let expected = [
            (PublishedSet::Zinc, [588_353, 588_929, 590_721]),
            (PublishedSet::Cluster, [523_146, 524_026, 531_146]),
            (PublishedSet::Pattern, [522_742, 522_982, 530_742]),
        ];
        for (set, counts) in expected {
            for (encoding, count) in [None, Laplacian, WeisfeilerLehman].into_iter().zip(counts) {
                for norm in [Norm::Batch, Norm::Layer] {
                    assert_eq!(
                        Parameters::new(&set.network(encoding, norm)).count(),
                        count,
                        "{set:?} {encoding:?} {norm:?}"
                    );
                }
            }
        }
    }
}
