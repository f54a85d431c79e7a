//! The layers that GPUs compute so far: one branch, as published.

use super::error::CpuOnly;
use crate::layers::Branch;
use crate::network::Network;

/// Layers that GPUs compute. The kernels know them by these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LayerKind {
    /// Attention, then a feed-forward half.
    Attention,
    /// A convolution.
    Convolution,
    /// Additive attention.
    AdditiveAttention,
    /// Gated messages.
    Gated,
}

impl LayerKind {
    /// The layers of a network that GPUs compute; see [`check_layers`].
    pub(crate) fn of(network: &Network) -> Self {
        let kind = check_layers(network);
        kind.expect("networks are checked before they come to a GPU")
    }
}

/// The layers of a network.
///
/// # Errors
/// If only CPUs compute them so far.
pub(crate) fn check_layers(network: &Network) -> Result<LayerKind, CpuOnly> {
    let [branch] = network.branches[..] else {
        return Err(CpuOnly::SeveralBranches);
    };
    let kind = match branch {
        Branch::Attention => LayerKind::Attention,
        Branch::Gcn | Branch::GcnMean => LayerKind::Convolution,
        Branch::Gat => LayerKind::AdditiveAttention,
        Branch::GatedGcn => LayerKind::Gated,
        _ => return Err(CpuOnly::Branch(branch.name())),
    };
    match (kind, network.feed_forward) {
        (LayerKind::Attention, true)
        | (LayerKind::Convolution | LayerKind::AdditiveAttention | LayerKind::Gated, false) => Ok(kind),
        (_, true) => Err(CpuOnly::FeedForward),
        (_, false) => Err(CpuOnly::NoFeedForward),
    }
}

/// Whether a convolution takes means.
pub(crate) fn averages(network: &Network) -> bool {
    network.branches == [Branch::GcnMean]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Channels;

    #[test]
    fn layers_that_only_cpus_compute_are_refused_by_name() {
        use Branch::{Attention, GatedGcn, Gcn};
        let of = |branches: &[Branch], feed_forward| {
            check_layers(&Network::new(Channels::new(8, 2), 1).with_branches(branches, feed_forward))
        };
        assert_eq!(of(&[Attention], true), Ok(LayerKind::Attention));
        assert_eq!(of(&[GatedGcn], false), Ok(LayerKind::Gated));
        assert_eq!(of(&[Attention], false), Err(CpuOnly::NoFeedForward));
        assert_eq!(of(&[Gcn], true), Err(CpuOnly::FeedForward));
        assert_eq!(of(&[Attention, Gcn], true), Err(CpuOnly::SeveralBranches));
        for branch in Branch::ALL {
            // Every branch is either computed in its published form, or refused.
            let published = of(&[branch], branch.facts().feed_forward);
            assert!(published.is_ok() || published == Err(CpuOnly::Branch(branch.name())), "{branch:?}");
        }
    }
}
