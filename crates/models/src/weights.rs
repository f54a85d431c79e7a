//! Weights in safetensors files: parameters and running statistics under their published names.
//!
//! Everything else that belongs to a model (configuration, schema, normalisation) is one JSON text in the header, under `graph_transformer`: a single
//! key, because the format does not order its header's keys and the same model must give the same bytes.

use std::collections::{BTreeMap, HashMap};

use gt_nn::cpu::Engine;
use gt_nn::{Norm, Parameter, Real, Stream};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use crate::names::{norm_name, parameter_name};

/// The header key of everything that is not a tensor.
pub const HEADER_KEY: &str = "graph_transformer";

/// Why weights do not fit a model.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The file is damaged, or none.
    #[error("not a readable safetensors file: {0}")]
    Format(#[from] safetensors::SafeTensorError),
    /// Tensors are missing, unknown, of another shape or type, or not finite: all of them.
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

/// The first few, and how many more.
fn join(misfits: &[Misfit]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = misfits.iter().take(SHOWN).map(Misfit::to_string).collect();
    let more = misfits.len().saturating_sub(SHOWN);
    let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
    shown.join("; ") + &rest
}

/// Tensors by name, wherever they come from.
pub(crate) type NamedTensors = BTreeMap<String, NamedTensor>;

/// A tensor with its values.
pub(crate) struct NamedTensor {
    pub(crate) shape: Vec<usize>,
    /// Or the type that is no float.
    pub(crate) values: Result<Vec<f64>, String>,
}

/// All tensors of a model as the bytes of a safetensors file, in single precision.
pub fn save_weights<T: Real>(engine: &Engine<T>, header: &str) -> Vec<u8> {
    let mut tensors: BTreeMap<String, (Vec<usize>, Vec<u8>)> = BTreeMap::new();
    let bytes = |values: Vec<T>| values.iter().flat_map(|v| (v.to_f64() as f32).to_le_bytes()).collect::<Vec<u8>>();
    for (index, parameter) in engine.parameters().list().iter().enumerate() {
        let name = parameter_name(engine.network(), parameter.role());
        tensors.insert(name, (parameter.shape(), bytes(engine.parameter(index))));
    }
    for (name, layer, stream, number) in statistics(engine) {
        let (mean, var) = engine.running(layer, stream, number);
        let shape = vec![mean.len()];
        tensors.insert(format!("{name}.running_mean"), (shape.clone(), bytes(mean)));
        tensors.insert(format!("{name}.running_var"), (shape, bytes(var)));
    }
    let views = tensors.iter().map(|(name, (shape, data))| {
        (name, TensorView::new(Dtype::F32, shape.clone(), data).expect("lengths follow from shapes"))
    });
    let metadata = HashMap::from([(HEADER_KEY.to_owned(), header.to_owned())]);
    safetensors::serialize(views, Some(metadata)).expect("plain tensors serialise")
}

/// Sets all tensors of a model from the bytes of a safetensors file, and returns its header text, if it has one.
///
/// # Errors
/// All tensors that are missing, unknown, of another shape, or not finite; the engine is then unchanged.
pub fn load_weights<T: Real>(engine: &mut Engine<T>, bytes: &[u8]) -> Result<Option<String>, WeightsError> {
    let file = SafeTensors::deserialize(bytes)?;
    let tensors = file.iter().map(|(name, view)| {
        let values = match view.dtype() {
            Dtype::F32 => Ok(view.data().as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b).into()).collect()),
            Dtype::F64 => Ok(view.data().as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b)).collect()),
            found => Err(format!("{found:?}")),
        };
        (name.to_owned(), NamedTensor { shape: view.shape().to_vec(), values })
    });
    load_tensors(engine, tensors.collect())?;
    read_header(bytes)
}

/// The header text of a safetensors file of this project.
pub(crate) fn read_header(bytes: &[u8]) -> Result<Option<String>, WeightsError> {
    let (_, header) = SafeTensors::read_metadata(bytes)?;
    Ok(header.metadata().as_ref().and_then(|m| m.get(HEADER_KEY)).cloned())
}

/// Sets all tensors of a model.
pub(crate) fn load_tensors<T: Real>(engine: &mut Engine<T>, mut tensors: NamedTensors) -> Result<(), WeightsError> {
    let mut misfits = Vec::new();
    let mut take = |name: String, expected: Vec<usize>| -> Vec<T> {
        let problem = match tensors.remove(&name) {
            None => Misfit::Missing(name),
            Some(NamedTensor { shape, .. }) if shape != expected => Misfit::Shape { name, found: shape, expected },
            Some(NamedTensor { values: Err(found), .. }) => Misfit::Kind { name, found },
            Some(NamedTensor { values: Ok(values), .. }) => match values.iter().position(|v| !v.is_finite()) {
                Some(index) => Misfit::NotFinite { name, index, value: values[index] },
                None => return values.into_iter().map(T::from_f64).collect(),
            },
        };
        misfits.push(problem);
        Vec::new()
    };
    let list = engine.parameters().list().to_vec();
    let name = |parameter: &Parameter| parameter_name(engine.network(), parameter.role());
    let parameters: Vec<Vec<T>> = list.iter().map(|p| take(name(p), p.shape())).collect();
    let width = engine.network().channels.width();
    let sites = statistics(engine);
    let running: Vec<[Vec<T>; 2]> = sites
        .iter()
        .map(|(name, ..)| ["running_mean", "running_var"].map(|part| take(format!("{name}.{part}"), vec![width])))
        .collect();
    // A counter that the published code's library keeps beside its statistics; it plays no role at this momentum.
    let left = tensors.into_keys().filter(|name| !name.ends_with(".num_batches_tracked"));
    misfits.extend(left.map(Misfit::Unknown));
    if !misfits.is_empty() {
        return Err(WeightsError::Misfits(misfits));
    }
    parameters.iter().enumerate().for_each(|(index, values)| engine.set_parameter(index, values));
    for ((_, layer, stream, number), [mean, var]) in sites.into_iter().zip(running) {
        engine.set_running(layer, stream, number, &mean, &var);
    }
    engine.refresh();
    Ok(())
}

/// Moments of all gradients as the bytes of a safetensors file, with the number of steps taken.
pub fn save_moments(engine: &Engine<f32>) -> Vec<u8> {
    let mut tensors: BTreeMap<String, (Vec<usize>, Vec<u8>)> = BTreeMap::new();
    let bytes = |values: Vec<f32>| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    for (index, parameter) in engine.parameters().list().iter().enumerate() {
        let name = parameter_name(engine.network(), parameter.role());
        let (first, second) = engine.moments(index);
        tensors.insert(format!("first.{name}"), (parameter.shape(), bytes(first)));
        tensors.insert(format!("second.{name}"), (parameter.shape(), bytes(second)));
    }
    let views = tensors.iter().map(|(name, (shape, data))| {
        (name, TensorView::new(Dtype::F32, shape.clone(), data).expect("lengths follow from shapes"))
    });
    let metadata = HashMap::from([(HEADER_KEY.to_owned(), engine.steps().to_string())]);
    safetensors::serialize(views, Some(metadata)).expect("plain tensors serialise")
}

/// Sets the moments of all gradients from such a file.
///
/// # Errors
/// If it is damaged, or of another model.
pub fn load_moments(engine: &mut Engine<f32>, bytes: &[u8]) -> Result<(), WeightsError> {
    let file = SafeTensors::deserialize(bytes)?;
    let steps = read_header(bytes)?.and_then(|text| text.parse().ok());
    let steps = steps.ok_or_else(|| WeightsError::Misfits(vec![Misfit::Missing("number of steps".into())]))?;
    let read = |name: String, shape: Vec<usize>| -> Result<Vec<f32>, WeightsError> {
        let misfit = |misfit| WeightsError::Misfits(vec![misfit]);
        let view = file.tensor(&name).map_err(|_| misfit(Misfit::Missing(name.clone())))?;
        if view.shape() != shape || view.dtype() != Dtype::F32 {
            return Err(misfit(Misfit::Shape { name, found: view.shape().to_vec(), expected: shape }));
        }
        Ok(view.data().as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
    };
    let list = engine.parameters().list().to_vec();
    let mut all = Vec::with_capacity(list.len());
    for parameter in &list {
        let name = parameter_name(engine.network(), parameter.role());
        let first = read(format!("first.{name}"), parameter.shape())?;
        all.push((first, read(format!("second.{name}"), parameter.shape())?));
    }
    all.iter().enumerate().for_each(|(index, (first, second))| engine.set_moments(index, first, second));
    engine.set_steps(steps);
    Ok(())
}

/// Running mean and variance of every batch normalisation.
pub type RunningStatistics = Vec<(Vec<f32>, Vec<f32>)>;

/// Copies the running statistics, which a forward pass in training moves even where no step follows.
pub fn running_statistics(engine: &Engine<f32>) -> RunningStatistics {
    statistics(engine).into_iter().map(|(_, layer, stream, number)| engine.running(layer, stream, number)).collect()
}

/// Puts such a copy back.
pub fn set_running_statistics(engine: &mut Engine<f32>, values: &RunningStatistics) {
    for ((_, layer, stream, number), (mean, var)) in statistics(engine).into_iter().zip(values) {
        engine.set_running(layer, stream, number, mean, var);
    }
}

/// Whether all running statistics are finite numbers.
pub fn has_finite_statistics(engine: &Engine<f32>) -> bool {
    running_statistics(engine).iter().flat_map(|(mean, var)| mean.iter().chain(var)).all(|v| v.is_finite())
}

/// Whether all parameters and running statistics are finite numbers, as [`load_weights`] demands.
pub fn is_finite(engine: &Engine<f32>) -> bool {
    let mut parameters = (0..engine.parameters().list().len()).flat_map(|index| engine.parameter(index));
    parameters.all(|v| v.is_finite()) && has_finite_statistics(engine)
}

/// Every batch normalisation: its name, layer, stream and number.
fn statistics<T: Real>(engine: &Engine<T>) -> Vec<(String, usize, Stream, usize)> {
    let network = engine.network();
    if network.norm != Norm::Batch {
        return Vec::new();
    }
    let streams: &[Stream] = if network.edge_stream { &[Stream::Node, Stream::Edge] } else { &[Stream::Node] };
    let norms = network.norms();
    let of_layer = |layer| streams.iter().flat_map(move |&s| (1..=norms).map(move |n| (layer, s, n)));
    let sites = (0..network.layers).flat_map(of_layer);
    sites.map(|(layer, stream, number)| (norm_name(network, layer, stream, number), layer, stream, number)).collect()
}

#[cfg(test)]
mod tests {
    use gt_nn::cpu::Isa;

    use super::*;
    use crate::{PublishedEncoding, PublishedSet, initialise};

    fn engine(norm: Norm, seed: u64) -> Engine<f32> {
        let mut network = PublishedSet::Zinc.network(PublishedEncoding::Laplacian, norm);
        network.layers = 2;
        let mut engine = Engine::new(network, Isa::detect());
        initialise(&mut engine, seed);
        engine
    }

    #[test]
    fn saved_weights_load_to_the_same_bytes() {
        for norm in [Norm::Batch, Norm::Layer] {
            let mut first = engine(norm, 1);
            if norm == Norm::Batch {
                first.set_running(1, Stream::Edge, 2, &[0.25; 64], &[3.0; 64]);
            }
            let bytes = save_weights(&first, "{\"answer\": 42}");
            let mut second = engine(norm, 2);
            assert_ne!(save_weights(&second, ""), bytes);
            assert_eq!(load_weights(&mut second, &bytes).unwrap().as_deref(), Some("{\"answer\": 42}"));
            assert_eq!(save_weights(&second, "{\"answer\": 42}"), bytes);
        }
    }

    #[test]
    fn names_are_those_of_the_published_state_dictionary() {
        let bytes = save_weights(&engine(Norm::Batch, 1), "");
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
    fn misfits_are_named_and_change_nothing() {
        let good = engine(Norm::Batch, 1);
        let complaint = |bytes: &[u8]| {
            let mut target = engine(Norm::Batch, 2);
            let before = save_weights(&target, "");
            let message = load_weights(&mut target, bytes).unwrap_err().to_string();
            assert_eq!(save_weights(&target, ""), before);
            message
        };
        // The layer norm's names differ, so batch norms are missing there.
        let layer_norm = complaint(&save_weights(&engine(Norm::Layer, 1), ""));
        assert!(layer_norm.starts_with("tensor `layers.0.batch_norm1_h.weight` is missing; tensor `"), "{layer_norm}");
        // Of 2 layers: 16 + 16 missing (parameters and statistics), 16 unknown; 8 are shown.
        assert!(layer_norm.ends_with("; and 40 more"), "{layer_norm}");
        let mut deeper = good.network().clone();
        deeper.layers = 3;
        let deeper = save_weights(&Engine::<f32>::new(deeper, Isa::detect()), "");
        assert!(complaint(&deeper).contains("tensor `layers.2.FFN_h_layer1.bias` belongs to no part of this model"));
        let mut wider = good.network().clone();
        wider.node.categorical = vec![29];
        let wider = save_weights(&Engine::<f32>::new(wider, Isa::detect()), "");
        assert_eq!(complaint(&wider), "tensor `embedding_h.weight` has shape [29, 64], expected [28, 64]");
        let mut poisoned = good.clone();
        let mut values = poisoned.parameter(0);
        values[5] = f32::NAN;
        poisoned.set_parameter(0, &values);
        assert_eq!(
            complaint(&save_weights(&poisoned, "")),
            "tensor `embedding_h.weight`, value 5: NaN is not a finite number"
        );
        assert!(complaint(b"not a file").starts_with("not a readable safetensors file"));
    }
}
