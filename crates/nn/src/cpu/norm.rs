//! The normalisations of a network: which one, its state, and the barriers at which the parts'
//! statistics are merged in fixed order.

use super::batch_norm::{BatchNorm, Moments};
use super::engine::Engine;
use super::gradient::Gradient;
use super::layer_norm;
use crate::network::Norm;
use crate::parameters::Affine;
use crate::real::Real;
use crate::stream::{Pair, Stream};

/// A normalisation's state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Site<T> {
    pub(crate) batch: BatchNorm<T>,
    pub(crate) running_mean: Vec<T>,
    pub(crate) running_var: Vec<T>,
}

impl<T: Real> Engine<T> {
    /// A normalisation of a layer (those of the branches, then that of the feed-forward half): its
    /// state, and where γ and β lie.
    pub(crate) fn norm_site(&self, layer: usize, number: usize, stream: Stream) -> (&Site<T>, Affine) {
        (self.sites[layer][number].of(stream), self.layout.layers[layer].norm(number, stream))
    }

    /// The normalisation that the stream after so many layers still needs. There is none before the
    /// first layer, nor where layers normalise before they add their input.
    pub(crate) fn stream_norm(&self, layers: usize, stream: Stream) -> Option<(&Site<T>, Affine)> {
        let late = layers > 0 && self.network.normalises_late();
        late.then(|| self.norm_site(layers - 1, self.network.branches.len(), stream))
    }

    /// y = norm(x), with a normalisation whose statistics are known.
    pub(crate) fn normalise(&self, site: &Site<T>, affine: Affine, x: &[T], y: &mut [T]) {
        match self.network.norm {
            Norm::Batch => site.batch.apply(self.isa, x, y),
            Norm::Layer => {
                let (gamma, beta) = (&self.values[affine.weight.range()], &self.values[affine.bias.range()]);
                layer_norm::forward(self.isa, &self.mask, gamma, beta, x, y);
            }
            Norm::None => y.copy_from_slice(x),
        }
    }

    /// dx from dy; a layer normalisation's dγ and dβ are added to `gradient`.
    pub(crate) fn normalise_backward(
        &self,
        site: &Site<T>,
        affine: Affine,
        x: &[T],
        dy: &[T],
        dx: &mut [T],
        gradient: &mut Gradient<T>,
    ) {
        match self.network.norm {
            Norm::Batch => site.batch.backward(self.isa, dy, x, dx),
            Norm::Layer => {
                let gamma = &self.values[affine.weight.range()];
                let (dgamma, dbeta) = gradient.both(affine);
                layer_norm::backward(self.isa, &self.mask, gamma, x, dy, dx, dgamma, dbeta);
            }
            Norm::None => dx.copy_from_slice(dy),
        }
    }

    /// The barrier of the forward pass: merges the parts' moments.
    pub(crate) fn finish_statistics(&mut self, layer: usize, number: usize, train: bool) {
        if self.network.norm != Norm::Batch {
            return;
        }
        let Self { network, layout, values, sites, work, .. } = self;
        let width = network.channels.padded_width();
        let regions = &layout.layers[layer];
        let pair = &mut sites[layer][number];
        let place = if number < network.branches.len() { number } else { 0 };
        let parts = &work.parts[..work.plan.parts.len()];
        let mut finish = |site: &mut Site<T>, affine: Affine, of: fn(&Pair<Moments<T>>) -> &Moments<T>| {
            let (gamma, beta) = (&values[affine.weight.range()], &values[affine.bias.range()]);
            if train {
                work.moments.reset(width);
                parts.iter().for_each(|part| work.moments.merge(of(&part.moments[place])));
                site.batch.train(&work.moments, gamma, beta, &mut site.running_mean, &mut site.running_var);
            } else {
                site.batch.infer(gamma, beta, &site.running_mean, &site.running_var);
            }
        };
        finish(&mut pair.node, regions.norm(number, Stream::Node), |moments| &moments.node);
        if network.normalises_edges(number) {
            finish(&mut pair.edge, regions.norm(number, Stream::Edge), |moments| &moments.edge);
        }
    }

    /// The barrier of the backward pass: merges the parts' sums.
    pub(crate) fn finish_gradients(&mut self, layer: usize, number: usize) {
        if self.network.norm != Norm::Batch {
            return;
        }
        let with_edges = self.edge_gradient(layer) && self.network.normalises_edges(number);
        let Self { network, layout, sites, work, .. } = self;
        let width = network.channels.padded_width();
        let regions = &layout.layers[layer];
        let pair = &mut sites[layer][number];
        let place = if number < network.branches.len() { number } else { 0 };
        let count = work.plan.parts.len();
        let parts = &mut work.parts[..count];
        let sums = &mut work.sums;
        let mut finish = |site: &mut Site<T>, affine: Affine, of: fn(&Pair<Vec<T>>) -> &Vec<T>| {
            sums.clear();
            sums.resize(2 * width, T::ZERO);
            for part in parts.iter() {
                sums.iter_mut().zip(of(&part.sums[place])).for_each(|(sum, &value)| *sum += value);
            }
            // The first part's gradient takes them; which one does not matter for the sum.
            let Some(first) = parts.first_mut() else { return };
            let (dgamma, dbeta) = first.gradient.both(affine);
            site.batch.finish_gradient(sums, dgamma, dbeta);
        };
        finish(&mut pair.node, regions.norm(number, Stream::Node), |sums| &sums.node);
        if with_edges {
            finish(&mut pair.edge, regions.norm(number, Stream::Edge), |sums| &sums.edge);
        }
    }
}
