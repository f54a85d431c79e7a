//! The state of a network on no device: parameters, running statistics, and the optimizer's
//! moments.
//!
//! Values lie in the arrangement that all backends share, so that moving them to a device is a
//! copy. Files and users see single parameters in the published layout, through
//! [`Weights::parameter`].

use std::sync::Arc;

use crate::network::{Network, Norm};
use crate::parameters::{Parameter, Parameters};
use crate::real::Real;
use crate::stream::Stream;

/// A batch normalisation of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NormSite {
    /// The layer.
    pub layer: usize,
    /// From 1 on: the normalisations of the layer's branches, then that of its feed-forward half.
    pub number: usize,
    /// The stream that is normalised.
    pub stream: Stream,
}

impl NormSite {
    /// Position among the running statistics that backends keep.
    pub(crate) fn index(self, network: &Network) -> usize {
        let streams = if network.edge_stream { 2 } else { 1 };
        let stream = usize::from(self.stream == Stream::Edge);
        (network.norm_places() * self.layer + self.number - 1) * streams + stream
    }
}

impl Network {
    /// Normalisations of each stream that backends have room for in a layer. Some are not used: a
    /// layer may have only one, and a branch may leave edges alone.
    pub(crate) fn norm_places(&self) -> usize {
        self.norms().max(2)
    }

    /// Number of running means, and of running variances, that backends keep.
    fn running_pairs(&self) -> usize {
        let streams = if self.edge_stream { 2 } else { 1 };
        if self.norm == Norm::Batch { self.norm_places() * self.layers * streams } else { 0 }
    }

    /// All batch normalisations: layer, number, nodes before edges.
    pub fn norm_sites(&self) -> Vec<NormSite> {
        if self.norm != Norm::Batch {
            return Vec::new();
        }
        let mut sites = Vec::new();
        for layer in 0..self.layers {
            for number in 1..=self.norms() {
                sites.push(NormSite { layer, number, stream: Stream::Node });
                if self.normalises_edges(number - 1) {
                    sites.push(NormSite { layer, number, stream: Stream::Edge });
                }
            }
        }
        sites
    }
}

/// What training leaves as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frozen {
    /// Positions in the list of the network's parameters.
    pub parameters: Vec<usize>,
    /// Batch normalisations whose running statistics stay.
    pub sites: Vec<NormSite>,
}

/// Running mean and variance of one batch normalisation, `[padded width]` each.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunningPair<T> {
    pub(crate) mean: Vec<T>,
    pub(crate) variance: Vec<T>,
}

/// Parameters and running statistics of a network.
///
/// ```
/// use graph_transformer_nn::{Channels, Network, Weights};
///
/// let mut weights = Weights::<f32>::zeros(&Network::new(Channels::new(8, 2), 1));
/// let ones = vec![1.0; weights.parameters().list()[0].len()];
/// weights.set_parameter(0, &ones);
/// assert_eq!(weights.parameter(0), ones);
/// assert!(weights.is_finite());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Weights<T = f32> {
    network: Network,
    layout: Arc<Parameters>,
    pub(crate) values: Vec<T>,
    pub(crate) running: Vec<RunningPair<T>>,
}

impl<T: Real> Weights<T> {
    /// Weights whose parameters are all 0, with running means 0 and running variances 1.
    pub fn zeros(network: &Network) -> Self {
        let layout = Arc::new(Parameters::new(network));
        let width = network.channels.padded_width();
        let running = || RunningPair { mean: vec![T::ZERO; width], variance: vec![T::ONE; width] };
        let running = (0..network.running_pairs()).map(|_| running()).collect();
        Self { network: network.clone(), values: vec![T::ZERO; layout.size()], layout, running }
    }

    /// The network of the weights.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The list of all parameters, with their roles and shapes.
    pub fn parameters(&self) -> &Parameters {
        &self.layout
    }

    /// The values of a parameter, in the layout of files.
    pub fn parameter(&self, index: usize) -> Vec<T> {
        gather(&self.layout.list()[index], &self.values)
    }

    /// Sets a parameter, in the layout of files.
    ///
    /// # Panics
    /// If the number of values is not that of the parameter.
    pub fn set_parameter(&mut self, index: usize, values: &[T]) {
        scatter(&self.layout.list()[index], values, &mut self.values);
    }

    /// Running mean and variance of a batch normalisation, `[width]` each.
    pub fn running(&self, site: NormSite) -> [Vec<T>; 2] {
        let channels = self.network.channels;
        let order = |values: &[T]| (0..channels.width()).map(|c| values[channels.place(c)]).collect();
        let RunningPair { mean, variance } = &self.running[site.index(&self.network)];
        [order(mean), order(variance)]
    }

    /// Sets the running mean and variance of a batch normalisation, `[width]` each.
    ///
    /// # Panics
    /// If the lengths differ from the network's width.
    pub fn set_running(&mut self, site: NormSite, [mean, variance]: [&[T]; 2]) {
        let channels = self.network.channels;
        assert_eq!((mean.len(), variance.len()), (channels.width(), channels.width()));
        let running = &mut self.running[site.index(&self.network)];
        for c in 0..channels.width() {
            running.mean[channels.place(c)] = mean[c];
            running.variance[channels.place(c)] = variance[c];
        }
    }

    /// Whether all parameters and running statistics are finite numbers.
    pub fn is_finite(&self) -> bool {
        let running = self.running.iter().flat_map(|pair| pair.mean.iter().chain(&pair.variance));
        self.values.iter().chain(running).all(|value| value.is_finite())
    }
}

/// The moments that Adam keeps of past gradients.
#[derive(Clone, Debug, PartialEq)]
pub struct OptimizerState<T = f32> {
    layout: Arc<Parameters>,
    pub(crate) first: Vec<T>,
    pub(crate) second: Vec<T>,
    /// Steps taken.
    pub steps: u32,
}

impl<T: Real> OptimizerState<T> {
    /// The state before the first step.
    pub fn new(network: &Network) -> Self {
        let layout = Arc::new(Parameters::new(network));
        let zeros = vec![T::ZERO; layout.size()];
        Self { layout, first: zeros.clone(), second: zeros, steps: 0 }
    }

    /// First and second moment of a parameter's gradients, in the layout of files.
    pub fn moments(&self, index: usize) -> [Vec<T>; 2] {
        [&self.first, &self.second].map(|moment| gather(&self.layout.list()[index], moment))
    }

    /// Sets the moments of a parameter.
    ///
    /// # Panics
    /// If the numbers of values are not those of the parameter.
    pub fn set_moments(&mut self, index: usize, [first, second]: [&[T]; 2]) {
        let parameter = &self.layout.list()[index];
        scatter(parameter, first, &mut self.first);
        scatter(parameter, second, &mut self.second);
    }
}

/// The values of a parameter in the layout of files, out of an arranged array.
pub(crate) fn gather<T: Copy>(parameter: &Parameter, arranged: &[T]) -> Vec<T> {
    parameter.places().map(|place| arranged[place]).collect()
}

/// Puts values in the layout of files into an arranged array.
pub(crate) fn scatter<T: Copy>(parameter: &Parameter, values: &[T], arranged: &mut [T]) {
    assert_eq!(values.len(), parameter.len(), "values of {:?}", parameter.role());
    parameter.places().zip(values).for_each(|(place, &value)| arranged[place] = value);
}
