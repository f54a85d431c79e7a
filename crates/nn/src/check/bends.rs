//! Gradients jump where a value crosses a bend: ReLU at 0, a clamp at its bounds, the largest of
//! two equal values. Where a value of a problem lies within rounding of a bend, a correct device
//! may compute the other side of the bend.

use gt_graph::GraphBatch;

use super::problems::{Problem, Random, all};
use super::{ADAM, CheckLine, gradients, tolerance};
use crate::cpu::{Engine, Isa};
use crate::cuda::Precision;

/// Noise on the parameters, relative: ten times and more what rounding in f32 does to the values of
/// a network.
const NOISE: f64 = 1e-5;

/// The network after a pass with every parameter a little larger or smaller.
fn nearby(engine: &Engine<f64>, problem: &Problem, batch: &GraphBatch, noise: f64, seed: u64) -> Engine<f64> {
    let mut nearby = engine.clone();
    let mut random = Random(seed);
    nearby.values.iter_mut().for_each(|value| *value *= 1.0 + noise * f64::from(random.symmetric()));
    nearby.refresh();
    nearby.train(batch, problem.edges, problem.loss, batch.target().expect("the problems have labels"));
    nearby
}

/// The largest distance between gradients and the mean of the gradients on either side, over all
/// batches, and its parameter. The distance is next to nothing, or half of a jump.
fn bend(problem: &Problem) -> CheckLine {
    let store = problem.graphs();
    let mut engine = problem.engine::<f64>(Isa::detect());
    let mut batch = GraphBatch::new();
    let mut line = CheckLine::default();
    for (number, graphs) in problem.batches().iter().enumerate() {
        batch.assemble(&store, graphs).expect("small graphs fit a batch");
        engine.set_dropout_key(Problem::dropout_key(number));
        engine.train(&batch, problem.edges, problem.loss, batch.target().expect("the problems have labels"));
        let reaches_inputs = engine.gradient(0).iter().any(|&g| g != 0.0);
        assert!(reaches_inputs, "{}: no gradient of batch {number} reaches the inputs", problem.name);
        for seed in 0..2 {
            let [above, below] = [NOISE, -NOISE].map(|noise| nearby(&engine, problem, &batch, noise, seed));
            let middle = |i| above.gradient(i).iter().zip(below.gradient(i)).map(|(a, b)| 0.5 * (a + b)).collect();
            gradients(middle, &engine, &mut line);
        }
        engine.step(&ADAM);
    }
    line
}

#[test]
fn no_problem_has_a_value_within_rounding_of_a_bend() {
    let most = 0.1 * tolerance(Precision::F32);
    let bent: Vec<String> = all()
        .iter()
        .map(|problem| (problem, bend(problem)))
        .filter(|(_, line)| line.gradients > most)
        .map(|(problem, line)| format!("{}: {:.1e} at {}", problem.name, line.gradients, line.worst))
        .collect();
    assert!(bent.is_empty(), "gradients jump; choose another seed for\n{}", bent.join("\n"));
}
