//! Does a device compute correctly? Outputs, loss, gradients, an optimizer step and inference of
//! small problems, compared with the CPU in f64.

#[cfg(test)]
mod bends;
mod problems;

use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};
use std::path::Path;

use gt_graph::{GraphBatch, Split};
use rayon::prelude::*;

use crate::backend::{
    Backend, BackendError, Cpu, Cuda, CudaDataset, CudaSettings, GraphSource, PassOutcome, PassPlan, TrainingPlan, run,
};
use crate::cpu::{Adam, Engine, Isa};
use crate::cuda::{CudaDevice, Precision};
use crate::parameters::Role;
use crate::weights::scatter;
use problems::Problem;

/// How far a device is from the CPU in f64, each relative to the largest value of its kind.
#[derive(Clone, Debug, Default)]
pub struct CheckLine {
    /// The problem.
    pub problem: String,
    /// Outputs in training.
    pub outputs: f64,
    /// Loss.
    pub loss: f64,
    /// Error of the gradients: length of the difference, relative to the longest gradient of all
    /// parameters of one role. Lengths are compared because a single entry jumps where a hidden
    /// value is within rounding of ReLU's bend.
    pub gradients: f64,
    /// The parameter with the largest error.
    pub worst: String,
    /// Parameters after a step along the device's own gradients, in units of the learning rate.
    pub step: f64,
    /// Outputs in inference, after the step, with running statistics.
    pub inference: f64,
    /// Whether every error is within [`tolerance`].
    pub good: bool,
}

/// The largest error that is put down to rounding.
pub fn tolerance(precision: Precision) -> f64 {
    match precision {
        Precision::F32 => 2e-5,
        Precision::Tf32 => 2e-1,
        Precision::Bf16 => 5e-1,
    }
}

/// Runs the built-in problems on a GPU, or on the CPU, and reports each result as it comes. `cache`
/// is a folder for compiled kernels.
///
/// ```no_run
/// use graph_transformer_nn::cuda::{CudaDevice, Precision};
/// use graph_transformer_nn::{check, tolerance};
///
/// let gpu = CudaDevice::open(0)?;
/// check(Some(&gpu), Precision::F32, None, |line| {
///     println!("{}: outputs differ by {:e}", line.problem, line.outputs);
///     assert!(line.good && line.outputs <= tolerance(Precision::F32));
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the GPU fails.
pub fn check(
    device: Option<&CudaDevice>,
    precision: Precision,
    cache: Option<&Path>,
    mut report: impl FnMut(CheckLine),
) -> Result<(), BackendError> {
    let problems = problems::all();
    if let (Some(device), Some(cache)) = (device, cache) {
        problems
            .par_iter()
            .try_for_each(|problem| device.prepare(&problem.network, precision, problem.usual(), cache))?;
    }
    for problem in problems {
        let store = problem.graphs();
        let source = GraphSource::new(&store, problem.edges);
        let weights = problem.engine::<f32>(Isa::detect()).weights();
        let batches = problem.batches();
        let mut backend: Box<dyn Backend> = match device {
            None => Box::new(Cpu::new(&source, &weights, problem.loss, Isa::detect())),
            Some(device) => {
                let batch = batches[0].len();
                let settings = CudaSettings { loss: problem.loss, batch, signs_per_graph: false, precision, cache };
                let data = CudaDataset::new(device, &source, &problem.network, problem.loss, &[Split::Train])?;
                Box::new(Cuda::new(&data, &weights, &settings, &[batches.concat()])?)
            }
        };
        report(compare(backend.as_mut(), precision, &problem)?);
    }
    Ok(())
}

const ADAM: Adam =
    Adam { lr: 1e-2, beta1: 0.9, beta2: 0.999, epsilon: 1e-3, weight_decay: 1e-2, decoupled: false, clip: 5.0 };

fn compare(backend: &mut dyn Backend, precision: Precision, problem: &Problem) -> Result<CheckLine, BackendError> {
    let store = problem.graphs();
    let mut reference = problem.engine::<f64>(Isa::Portable);
    let batches = problem.batches();
    let mut line = CheckLine { problem: problem.name.clone(), ..Default::default() };
    let mut batch = GraphBatch::new();
    let size = batches[0].len();
    for (number, ids) in batches.iter().enumerate() {
        let dropout_key = Problem::dropout_key(number);
        let step = TrainingPlan { adam: ADAM, dropout_key, accumulate: 1, skip_bad_steps: false, draws: (0, 0) };
        let plan = PassPlan { training: Some(step), ..PassPlan::evaluation(Split::Train, ids.clone(), size) };
        let PassOutcome { outputs, .. } = run(backend, plan)?;
        batch.assemble(&store, ids).expect("small graphs fit a batch");
        reference.set_dropout_key(dropout_key);
        let labels = batch.target().expect("the problems have labels");
        let expected = reference.train(&batch, problem.edges, problem.loss, labels);
        let loss = outputs.losses.first().copied().unwrap_or(f64::NAN);
        line.outputs = line.outputs.max(distance(&outputs.values, &reference.outputs()));
        line.loss = worse(line.loss, (loss - expected).abs() / expected.abs().max(1e-3));
        let ours: Vec<Vec<f64>> = backend.gradients()?.into_iter().map(in_f64).collect();
        gradients(|index| ours[index].clone(), &reference, &mut line);
        // The step is checked by itself, from the device's own gradients; everything after it is
        // checked from the device's own parameters.
        for (parameter, values) in reference.layout.list().iter().zip(&ours) {
            scatter(parameter, values, &mut reference.gradient);
        }
        reference.step(&ADAM);
        for (theirs, ours) in reference.values.iter_mut().zip(backend.weights()?.values) {
            line.step = worse(line.step, (f64::from(ours) - *theirs).abs() / ADAM.lr);
            *theirs = f64::from(ours);
        }
        reference.refresh();
    }
    let mut expected = Vec::new();
    for ids in &batches {
        batch.assemble(&store, ids).expect("small graphs fit a batch");
        expected.extend(reference.predict(&batch, problem.edges));
    }
    let found = run(backend, PassPlan::evaluation(Split::Train, batches.concat(), size))?;
    line.inference = distance(&found.outputs.values, &expected);
    let errors = [line.outputs, line.loss, line.gradients, line.step, line.inference];
    line.good = errors.into_iter().all(|error| error <= tolerance(precision));
    Ok(line)
}

fn in_f64(values: Vec<f32>) -> Vec<f64> {
    values.into_iter().map(f64::from).collect()
}

/// Largest difference, relative to the largest value; infinite where numbers are missing or not
/// finite.
fn distance(ours: &[f32], theirs: &[f64]) -> f64 {
    if ours.len() != theirs.len() || ours.iter().any(|v| !v.is_finite()) {
        return f64::INFINITY;
    }
    let largest = theirs.iter().fold(1e-12, |most: f64, v| most.max(v.abs()));
    ours.iter().zip(theirs).map(|(a, b)| (f64::from(*a) - b).abs() / largest).fold(0.0, f64::max)
}

/// The larger error; NaN counts as larger than every number.
fn worse(a: f64, b: f64) -> f64 {
    if b.is_nan() { f64::INFINITY } else { a.max(b) }
}

/// Parameters whose gradients are of one size: those of one role, or of one name in a branch.
type Group = (Discriminant<Role>, &'static str);

fn group(role: Role) -> Group {
    (discriminant(&role), if let Role::Branch(_, name) = role { name } else { "" })
}

/// Compares the gradients of all parameters, given by their numbers.
fn gradients(ours: impl Fn(usize) -> Vec<f64>, theirs: &Engine<f64>, line: &mut CheckLine) {
    let list = theirs.parameters().list();
    let length = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let mut longest: HashMap<Group, f64> = HashMap::new();
    let mut of_all = 0.0f64;
    for (index, parameter) in list.iter().enumerate() {
        let of_role = longest.entry(group(parameter.role())).or_insert(1e-12);
        *of_role = of_role.max(length(&mut theirs.gradient(index).into_iter()));
        of_all = of_all.max(*of_role);
    }
    for (index, parameter) in list.iter().enumerate() {
        let off = length(&mut ours(index).iter().zip(theirs.gradient(index)).map(|(a, b)| a - b));
        // Some gradients vanish but for rounding: a bias before a batch normalisation, say.
        let scale = longest[&group(parameter.role())].max(0.1 * of_all);
        let error = worse(0.0, off / scale);
        if error > line.gradients {
            line.gradients = error;
            line.worst = format!("{:?}", parameter.role());
        }
    }
}
