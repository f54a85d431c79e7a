//! Weights in safetensors files: parameters and running statistics under their published names.
//!
//! The other parts of a model (configuration, schema, normalisation) are one JSON text in the
//! header, under `graph_transformer`. There is a single key because the format does not order its
//! header's keys, and the same model must give the same bytes.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use gt_nn::{Network, NormSite, OptimizerState, Parameters, Real, Weights};
use safetensors::tensor::View;
use safetensors::{Dtype, SafeTensors};

use crate::names::{norm_name, parameter_name};
use crate::one_line::one_line;

/// The header key of everything that is not a tensor.
pub(crate) const HEADER_KEY: &str = "graph_transformer";

/// Why weights do not fit a model.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The bytes are no safetensors file, or a damaged one.
    #[error("not a readable safetensors file: {}", one_line(.0))]
    Format(#[from] safetensors::SafeTensorError),
    /// Tensors are missing, unknown, or of another shape or type: all of them. If all fit: tensors
    /// with a value that is not finite.
    #[error("{}", join(.0))]
    Misfits(Vec<Misfit>),
}

/// What is wrong with a tensor.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Misfit {
    /// A tensor of the model is not in the file.
    #[error("tensor `{0}` is missing")]
    Missing(String),
    /// A tensor of the file is not in the model.
    #[error("tensor `{0}` belongs to no part of this model")]
    Unknown(String),
    /// A tensor has another shape.
    #[error("tensor `{name}` has shape {found:?}, expected {expected:?}")]
    Shape {
        /// Name of the tensor.
        name: String,
        /// Shape in the file.
        found: Vec<usize>,
        /// Shape in the model.
        expected: Vec<usize>,
    },
    /// A tensor holds something else than floats.
    #[error("tensor `{name}` holds {found}, expected F32 or F64")]
    Kind {
        /// Name of the tensor.
        name: String,
        /// Type in the file.
        found: String,
    },
    /// A value is infinite or NaN.
    #[error("tensor `{name}`, value {index}: {value} is not a finite number")]
    NotFinite {
        /// Name of the tensor.
        name: String,
        /// Position in the tensor.
        index: usize,
        /// The value.
        value: f64,
    },
}

/// The first few misfits as a text, and the number of the others.
fn join(misfits: &[Misfit]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = misfits.iter().take(SHOWN).map(one_line).collect();
    let more = misfits.len().saturating_sub(SHOWN);
    let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
    shown.join("; ") + &rest
}

/// Tensors by name, wherever they come from.
pub(crate) type NamedTensors<'a> = BTreeMap<String, NamedTensor<'a>>;

/// A tensor of a file, whose values are decoded once its shape is known to fit.
pub(crate) struct NamedTensor<'a> {
    pub(crate) shape: Vec<usize>,
    /// The values, or the name of a type that is no float.
    pub(crate) values: Result<LazyValues<'a>, String>,
}

/// Decodes the values of a tensor.
pub(crate) type LazyValues<'a> = Box<dyn FnOnce() -> Vec<f64> + 'a>;

/// A tensor in single precision whose bytes are computed when it is written, so memory never holds
/// a second copy of all tensors.
struct Tensor<'a> {
    shape: Vec<usize>,
    bytes: Box<dyn Fn() -> Vec<u8> + 'a>,
}

impl<'a> Tensor<'a> {
    fn new<T: Real>(shape: Vec<usize>, values: impl Fn() -> Vec<T> + 'a) -> Self {
        let bytes = move || values().iter().flat_map(|value| (value.to_f64() as f32).to_le_bytes()).collect();
        Self { shape, bytes: Box::new(bytes) }
    }
}

impl View for Tensor<'_> {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        (self.bytes)().into()
    }

    fn data_len(&self) -> usize {
        size_of::<f32>() * self.shape.iter().product::<usize>()
    }
}

/// All tensors of a model as the bytes of a safetensors file, in single precision.
pub(crate) fn save_weights<T: Real>(weights: &Weights<T>, header: &str) -> Vec<u8> {
    let network = weights.network();
    let parameters = weights.parameters().list().iter().enumerate().map(|(index, parameter)| {
        let tensor = Tensor::new(parameter.shape(), move || weights.parameter(index));
        (parameter_name(network, parameter.role()), tensor)
    });
    let statistics = network.norm_sites().into_iter().flat_map(|site| {
        [0, 1].map(|part| {
            let tensor = Tensor::new(vec![network.channels.width()], move || weights.running(site)[part].clone());
            (running_name(network, site, RUNNING[part]), tensor)
        })
    });
    serialize(parameters.chain(statistics), header)
}

fn serialize<'a>(tensors: impl Iterator<Item = (String, Tensor<'a>)>, header: &str) -> Vec<u8> {
    let metadata = HashMap::from([(HEADER_KEY.to_owned(), header.to_owned())]);
    safetensors::serialize(tensors, Some(metadata)).expect("plain tensors serialise")
}

/// Weights of a network from the bytes of a safetensors file.
///
/// # Errors
/// All tensors that are missing, unknown, of another shape, or not finite.
pub(crate) fn load_weights<T: Real>(network: &Network, bytes: &[u8]) -> Result<Weights<T>, WeightsError> {
    let file = SafeTensors::deserialize(bytes)?;
    let tensors = file.iter().map(|(name, view)| {
        let data = view.data();
        let values: Result<LazyValues<'_>, String> = match view.dtype() {
            Dtype::F32 => {
                Ok(Box::new(move || data.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b).into()).collect()))
            }
            Dtype::F64 => {
                Ok(Box::new(move || data.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b)).collect()))
            }
            found => Err(format!("{found:?}")),
        };
        (name.to_owned(), NamedTensor { shape: view.shape().to_vec(), values })
    });
    weights_from(network, tensors.collect())
}

/// The header text of a safetensors file of this project.
pub(crate) fn read_header(bytes: &[u8]) -> Result<Option<String>, WeightsError> {
    let (_, header) = SafeTensors::read_metadata(bytes)?;
    Ok(header.metadata().as_ref().and_then(|m| m.get(HEADER_KEY)).cloned())
}

/// Weights of a network out of named tensors, all of which the network must know. Names, types and
/// shapes are compared before the weights are built, so a network can claim no memory that the
/// tensors do not fill.
pub(crate) fn weights_from<T: Real>(
    network: &Network,
    mut tensors: NamedTensors<'_>,
) -> Result<Weights<T>, WeightsError> {
    let parameters = Parameters::new(network);
    let sites = network.norm_sites();
    ensure_fit(network, &parameters, &sites, &tensors)?;
    let mut misfits = Vec::new();
    let mut take = |name: String| -> Vec<T> {
        let tensor = tensors.remove(&name).and_then(|tensor| tensor.values.ok());
        let values = tensor.expect("names and types fit")();
        if let Some(index) = values.iter().position(|value| !value.is_finite()) {
            misfits.push(Misfit::NotFinite { name, index, value: values[index] });
        }
        values.into_iter().map(T::from_f64).collect()
    };
    let mut weights = Weights::zeros(network);
    for (index, parameter) in parameters.list().iter().enumerate() {
        weights.set_parameter(index, &take(parameter_name(network, parameter.role())));
    }
    for site in sites {
        let [mean, variance] = RUNNING.map(|part| take(running_name(network, site, part)));
        weights.set_running(site, [&mean, &variance]);
    }
    if misfits.is_empty() { Ok(weights) } else { Err(WeightsError::Misfits(misfits)) }
}

/// Checks that tensors have the names, types and shapes of a network.
fn ensure_fit(
    network: &Network,
    parameters: &Parameters,
    sites: &[NormSite],
    tensors: &NamedTensors<'_>,
) -> Result<(), WeightsError> {
    let width = network.channels.width();
    let of_parameters = parameters.list().iter().map(|p| (parameter_name(network, p.role()), p.shape()));
    let of_sites = sites.iter().flat_map(|site| RUNNING.map(|part| (running_name(network, *site, part), vec![width])));
    let mut known = HashSet::new();
    let mut misfits = Vec::new();
    for (name, expected) in of_parameters.chain(of_sites) {
        match tensors.get(&name) {
            None => misfits.push(Misfit::Missing(name.clone())),
            Some(NamedTensor { shape, .. }) if *shape != expected => {
                misfits.push(Misfit::Shape { name: name.clone(), found: shape.clone(), expected });
            }
            Some(NamedTensor { values: Err(found), .. }) => {
                misfits.push(Misfit::Kind { name: name.clone(), found: found.clone() });
            }
            Some(_) => {}
        }
        known.insert(name);
    }
    // A counter that the published code's library keeps with its statistics; it has no effect at
    // this momentum.
    let unknown = |name: &&String| !known.contains(*name) && !name.ends_with(".num_batches_tracked");
    misfits.extend(tensors.keys().filter(unknown).cloned().map(Misfit::Unknown));
    if misfits.is_empty() { Ok(()) } else { Err(WeightsError::Misfits(misfits)) }
}

/// The two running statistics of a normalisation, as published.
const RUNNING: [&str; 2] = ["running_mean", "running_var"];

fn running_name(network: &Network, site: NormSite, part: &str) -> String {
    format!("{}.{part}", norm_name(network, site.layer, site.stream, site.number))
}

/// The two moments of a parameter's gradients.
const MOMENTS: [&str; 2] = ["first", "second"];

/// An optimizer's state as the bytes of a safetensors file.
pub fn save_optimizer(network: &Network, state: &OptimizerState) -> Vec<u8> {
    let parameters = Parameters::new(network);
    let moments = parameters.list().iter().enumerate().flat_map(|(index, parameter)| {
        [0, 1].map(|moment| {
            let name = format!("{}.{}", MOMENTS[moment], parameter_name(network, parameter.role()));
            (name, Tensor::new(parameter.shape(), move || state.moments(index)[moment].clone()))
        })
    });
    serialize(moments, &state.steps.to_string())
}

/// An optimizer's state from the bytes that [`save_optimizer`] made for a network.
///
/// ```
/// use graph_transformer_models::{load_optimizer, save_optimizer};
/// use gt_nn::{Channels, Network, OptimizerState, Parameters};
///
/// let network = Network::new(Channels::new(8, 2), 1);
/// let count = Parameters::new(&network).list()[0].len();
/// let mut state = OptimizerState::new(&network);
/// state.steps = 7;
/// state.set_moments(0, [&vec![0.5; count], &vec![0.125; count]]);
///
/// let bytes = save_optimizer(&network, &state);
/// assert_eq!(load_optimizer(&network, &bytes)?, state);
/// assert!(load_optimizer(&Network::new(Channels::new(16, 2), 1), &bytes).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the file is damaged, or of another model.
pub fn load_optimizer(network: &Network, bytes: &[u8]) -> Result<OptimizerState, WeightsError> {
    let file = SafeTensors::deserialize(bytes)?;
    let misfit = |misfit| WeightsError::Misfits(vec![misfit]);
    let mut state = OptimizerState::new(network);
    let steps = read_header(bytes)?.and_then(|text| text.parse().ok());
    state.steps = steps.ok_or_else(|| misfit(Misfit::Missing("number of steps".into())))?;
    let read = |name: String, shape: Vec<usize>| -> Result<Vec<f32>, WeightsError> {
        let view = file.tensor(&name).map_err(|_| misfit(Misfit::Missing(name.clone())))?;
        if view.shape() != shape || view.dtype() != Dtype::F32 {
            return Err(misfit(Misfit::Shape { name, found: view.shape().to_vec(), expected: shape }));
        }
        Ok(view.data().as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
    };
    for (index, parameter) in Parameters::new(network).list().iter().enumerate() {
        let name = parameter_name(network, parameter.role());
        let [first, second] = MOMENTS.map(|moment| read(format!("{moment}.{name}"), parameter.shape()));
        state.set_moments(index, [&first?, &second?]);
    }
    Ok(state)
}

#[cfg(test)]
mod tests {
    use gt_nn::{Norm, Stream};

    use super::*;
    use crate::{PublishedEncoding, PublishedSet, initial_weights};

    fn weights(norm: Norm, seed: u64) -> Weights {
        let mut network = PublishedSet::Zinc.network(PublishedEncoding::Laplacian, norm);
        network.layers = 2;
        initial_weights(&network, seed)
    }

    #[test]
    fn saved_weights_load_to_the_same_bytes() {
        for norm in [Norm::Batch, Norm::Layer] {
            let mut first = weights(norm, 1);
            if norm == Norm::Batch {
                let site = NormSite { layer: 1, number: 2, stream: Stream::Edge };
                first.set_running(site, [&[0.25; 64], &[3.0; 64]]);
            }
            let bytes = save_weights(&first, "{\"answer\": 42}");
            assert_ne!(save_weights(&weights(norm, 2), ""), bytes);
            assert_eq!(read_header(&bytes).unwrap().as_deref(), Some("{\"answer\": 42}"));
            assert_eq!(load_weights::<f32>(first.network(), &bytes).unwrap(), first);
        }
    }

    #[test]
    fn a_saved_optimizer_loads_to_the_same_state() {
        let network = weights(Norm::Batch, 1).network().clone();
        let mut state = OptimizerState::new(&network);
        let count = Parameters::new(&network).list()[3].len();
        state.set_moments(3, [&vec![0.5; count], &vec![0.125; count]]);
        state.steps = 7;
        assert_eq!(load_optimizer(&network, &save_optimizer(&network, &state)).unwrap(), state);
    }

    #[test]
    fn names_are_those_of_the_published_state_dictionary() {
        let bytes = save_weights(&weights(Norm::Batch, 1), "");
        let file = SafeTensors::deserialize(&bytes).unwrap();
        for name in [
            "embedding_h.weight",
            "embedding_lap_pos_enc.bias",
            "layers.0.attention.proj_e.weight",
            "layers.1.O_e.bias",
            "layers.1.FFN_h_layer1.weight",
            "layers.0.batch_norm2_e.running_var",
            "MLP_layer.FC_layers.2.weight",
        ] {
            assert!(file.tensor(name).is_ok(), "{name}");
        }
        assert_eq!(file.tensor("layers.1.FFN_h_layer1.weight").unwrap().shape(), [128, 64]);
    }

    #[test]
    fn misfits_are_named() {
        let good = weights(Norm::Batch, 1);
        let misfits = |bytes: &[u8]| match load_weights::<f32>(good.network(), bytes) {
            Err(WeightsError::Misfits(misfits)) => misfits,
            other => panic!("{other:?}"),
        };
        let saved = |change: &dyn Fn(&mut Network)| {
            let mut network = good.network().clone();
            change(&mut network);
            save_weights(&Weights::<f32>::zeros(&network), "")
        };
        // The layer norm's names differ, so batch norms are missing: 16 parameters and 16
        // statistics of 2 layers.
        let layer_norm = misfits(&saved(&|network| network.norm = Norm::Layer));
        let missing = |misfit: &&Misfit| matches!(misfit, Misfit::Missing(_));
        assert_eq!((layer_norm.iter().filter(missing).count(), layer_norm.len()), (32, 48));
        assert_eq!(layer_norm[0], Misfit::Missing("layers.0.batch_norm1_h.weight".into()));
        let text = WeightsError::Misfits(layer_norm).to_string();
        assert!(text.ends_with("; and 40 more"), "{text}");
        let deeper = misfits(&saved(&|network| network.layers = 3));
        assert!(deeper.contains(&Misfit::Unknown("layers.2.FFN_h_layer1.bias".into())));
        let wider = misfits(&saved(&|network| network.node.categorical = vec![29]));
        let shape = Misfit::Shape { name: "embedding_h.weight".into(), found: vec![29, 64], expected: vec![28, 64] };
        assert_eq!(wider, [shape]);
        let mut poisoned = good.clone();
        let mut values = poisoned.parameter(0);
        values[5] = f32::INFINITY;
        poisoned.set_parameter(0, &values);
        let name = "embedding_h.weight".to_owned();
        let infinite = Misfit::NotFinite { name, index: 5, value: f64::INFINITY };
        assert_eq!(misfits(&save_weights(&poisoned, "")), [infinite]);
        assert!(matches!(load_weights::<f32>(good.network(), b"not a file"), Err(WeightsError::Format(_))));
    }
}
