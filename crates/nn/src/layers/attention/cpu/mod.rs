//! Attention on CPUs: its kernels, and its passes over blocks. The formula is in the module above.

mod backward;
mod forward;
mod stage;
#[cfg(test)]
mod tests;

pub(crate) use backward::{Incoming, Outgoing, backward_in, backward_out};
pub(crate) use forward::{Forward, forward};
pub(crate) use stage::{Attended, Stage, backward_pass, forward_pass, weights};

use crate::channels::Channels;
use crate::cpu::simd::{LANES, Simd};
use crate::network::{Clamp, Gate, Network};
use crate::real::Real;

/// The variant of attention that a network computes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub(crate) channels: Channels,
    /// With edge features only.
    pub(crate) gate: Option<Gate>,
    pub(crate) clamp: Clamp,
}

impl Form {
    pub(crate) fn of(network: &Network) -> Self {
        let gate = network.edge_stream.then_some(network.gate);
        Self { channels: network.channels, gate, clamp: network.clamp }
    }

    /// Width and heads with padding.
    fn sizes(&self) -> (usize, usize) {
        (self.channels.padded_width(), self.channels.padded_heads())
    }

    /// 1/√d_k.
    #[inline(always)]
    fn scale<S: Simd>(&self) -> S::V {
        S::splat(S::T::from_f64(1.0 / (self.channels.per_head() as f64).sqrt()))
    }
}

/// No edge features.
const PLAIN: u8 = 0;
/// [`Gate::PerChannel`].
const CHANNEL: u8 = 1;
/// [`Gate::Scalar`].
const SCALAR: u8 = 2;

/// Calls a method with the kind of gate, the number of heads per register, and of registers per
/// row, as constants where they are usual.
macro_rules! with_shape {
    ($form:expr, $this:ident . $method:ident :: <$s:ident>()) => {{
        let channels = $form.channels;
        let shape = (channels.padded_heads().min(LANES), channels.padded_width() / LANES);
        match ($form.gate, shape) {
            (None, (8, 4)) => $this.$method::<$s, 8, 4, PLAIN>(),
            (None, (8, 5)) => $this.$method::<$s, 8, 5, PLAIN>(),
            (None, (8, _)) => $this.$method::<$s, 8, 0, PLAIN>(),
            (None, (1, _)) => $this.$method::<$s, 1, 0, PLAIN>(),
            (None, (2, _)) => $this.$method::<$s, 2, 0, PLAIN>(),
            (None, (4, _)) => $this.$method::<$s, 4, 0, PLAIN>(),
            (None, _) => $this.$method::<$s, 16, 0, PLAIN>(),
            (Some(Gate::PerChannel), (8, 4)) => $this.$method::<$s, 8, 4, CHANNEL>(),
            (Some(Gate::PerChannel), (8, 5)) => $this.$method::<$s, 8, 5, CHANNEL>(),
            (Some(Gate::PerChannel), (8, _)) => $this.$method::<$s, 8, 0, CHANNEL>(),
            (Some(Gate::PerChannel), (1, _)) => $this.$method::<$s, 1, 0, CHANNEL>(),
            (Some(Gate::PerChannel), (2, _)) => $this.$method::<$s, 2, 0, CHANNEL>(),
            (Some(Gate::PerChannel), (4, _)) => $this.$method::<$s, 4, 0, CHANNEL>(),
            (Some(Gate::PerChannel), _) => $this.$method::<$s, 16, 0, CHANNEL>(),
            (Some(Gate::Scalar), (1, _)) => $this.$method::<$s, 1, 0, SCALAR>(),
            (Some(Gate::Scalar), (2, _)) => $this.$method::<$s, 2, 0, SCALAR>(),
            (Some(Gate::Scalar), (4, _)) => $this.$method::<$s, 4, 0, SCALAR>(),
            (Some(Gate::Scalar), (8, _)) => $this.$method::<$s, 8, 0, SCALAR>(),
            (Some(Gate::Scalar), _) => $this.$method::<$s, 16, 0, SCALAR>(),
        }
    }};
}
use with_shape;

/// Most registers per row that are kept in registers; wider rows are added up in memory.
const KEPT: usize = 5;

/// Where the registers of a group of heads begin in a row.
#[inline(always)]
fn registers<const NV: usize>(d: usize, group: usize, groups: usize) -> impl Iterator<Item = usize> + Clone {
    // With a constant count the loops unroll and sums stay in registers.
    let (start, end, step) = if NV > 0 { (0, NV, 1) } else { (group, d / LANES, groups) };
    (0..(end - start).div_ceil(step)).map(move |i| (start + i * step) * LANES)
}
