//! The published configurations, about half a million parameters each. The Graph Transformer has
//! ten layers and eight heads. The networks that it is compared with have sixteen layers (Dwivedi
//! et al. 2020, from which the paper takes their numbers).

use gt_graph::{Level, Schema, TargetKind, TargetSchema};
use gt_nn::{Network, Norm};

use crate::Config;
use crate::config::{Encoding, Kind, MetricForm, Select};

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
    /// A published configuration on sparse graphs with batch normalisation. Change `model.norm` and
    /// `model.graph` for the other cells.
    pub fn config(self, encoding: PublishedEncoding) -> Config {
        let zinc = self == PublishedSet::Zinc;
        let mut config = Config::default();
        config.model.width = if zinc { 64 } else { 80 };
        config.model.edges = Some(zinc);
        config.model.encoding = match encoding {
            PublishedEncoding::None => Encoding::None,
            PublishedEncoding::Laplacian => Encoding::Laplacian,
            PublishedEncoding::WeisfeilerLehman => Encoding::Wl,
        };
        config.model.encoding_size = self.laplacian_width();
        config.model.roles = if zinc { 37 } else { 100 };
        config.optimizer.lr = if zinc { 7e-4 } else { 5e-4 };
        config.schedule.patience = if zinc { 15 } else { 10 };
        config.train.batch = self.batch_size(false);
        config.train.select = Select::Loss;
        config.model.metrics = MetricForm::Paper;
        config
    }

    /// A published configuration of a network that the Graph Transformer is compared with. For
    /// [`Kind::Transformer`], the Graph Transformer's own.
    pub(crate) fn baseline(self, kind: Kind, encoding: PublishedEncoding) -> Config {
        let zinc = self == PublishedSet::Zinc;
        let mut config = self.config(encoding);
        let (width, batch) = match kind {
            Kind::Transformer => return config,
            Kind::Gcn | Kind::GcnMean => (172, if zinc { 128 } else { 64 }),
            Kind::Gat => (176, 128),
            Kind::GatedGcn => (78, if zinc { 128 } else { 32 }),
        };
        config.model.kind = kind;
        config.model.layers = 16;
        config.model.width = width;
        config.model.heads = if kind.has_heads() { 8 } else { 1 };
        config.model.edges = None;
        if kind == Kind::GatedGcn && self == PublishedSet::Cluster {
            config.model.encoding_size = 20;
        }
        config.optimizer.lr = 1e-3;
        config.schedule.patience = if zinc { 10 } else { 5 };
        config.schedule.min_lr = 1e-5;
        config.train.batch = batch;
        config
    }

    /// The columns of the set's data.
    pub fn schema(self) -> Schema {
        let (node, edge, level, kind, classes): (usize, &[usize], _, _, _) = match self {
            PublishedSet::Zinc => (28, &[4], Level::Graph, TargetKind::Float, 0),
            PublishedSet::Pattern => (3, &[], Level::Node, TargetKind::Class, 2),
            PublishedSet::Cluster => (7, &[], Level::Node, TargetKind::Class, 6),
        };
        Schema::categorical(&[node], edge, TargetSchema::new(level, kind, &[classes]))
    }

    /// The network of a configuration.
    ///
    /// ```
    /// use graph_transformer_models::{PublishedEncoding, PublishedSet};
    /// use gt_nn::{Norm, Parameters};
    ///
    /// let network = PublishedSet::Zinc.network(PublishedEncoding::Laplacian, Norm::Batch);
    /// assert_eq!(Parameters::new(&network).count(), 588_929);
    /// ```
    pub fn network(self, encoding: PublishedEncoding, norm: Norm) -> Network {
        let mut config = self.config(encoding);
        config.model.norm = norm;
        config.network(&self.schema()).expect("the published configurations fit their data")
    }

    /// Eigenvectors per node.
    fn laplacian_width(self) -> usize {
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
