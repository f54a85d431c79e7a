//! Each loss and its gradient against a plain reference, missing labels included.
//!
//! The head is one linear layer, y = W·x + b, on nodes; so its gradients are Σ dy·xᵀ and Σ dy, and
//! show every row's dy.

mod support;

use graph_transformer_nn::AttentionScope;
use graph_transformer_nn::cpu::{Engine, Isa};
use graph_transformer_nn::{HeadInput, Loss, Network, Norm, Role, WeightOrBias};
use gt_graph::{GraphBatch, MISSING_CLASS, TargetRows};
use support::{batch, fill, mixed, network};

const LOSSES: [Loss; 5] =
    [Loss::L1, Loss::Mse, Loss::CrossEntropy { weighted: false }, Loss::CrossEntropy { weighted: true }, Loss::Bce];
const WIDTH: usize = 6;
const OUTPUTS: usize = 3;

fn perceptron() -> Network {
    Network { norm: Norm::Layer, reads: HeadInput::Nodes, head: vec![OUTPUTS], ..network(WIDTH, 2, true) }
}

/// Loss and dy of outputs `[rows, OUTPUTS]`.
fn reference(loss: Loss, y: &[f64], target: TargetRows<'_>) -> (f64, Vec<f64>) {
    let label = |at: usize| target.get(at);
    let present = (0..target.len()).filter(|&at| label(at).is_some()).count() as f64;
    let mut value = 0.0;
    let mut dy = vec![0.0; y.len()];
    match loss {
        Loss::L1 | Loss::Mse | Loss::Bce => {
            for (at, t) in (0..y.len()).filter_map(|at| label(at).map(|t| (at, t))) {
                let sigmoid = 1.0 / (1.0 + (-y[at]).exp());
                let (term, slope) = match loss {
                    Loss::L1 => ((y[at] - t).abs(), (y[at] - t).signum()),
                    Loss::Mse => ((y[at] - t).powi(2), 2.0 * (y[at] - t)),
                    _ => (-(t * sigmoid.ln() + (1.0 - t) * (1.0 - sigmoid).ln()), sigmoid - t),
                };
                value += term / present;
                dy[at] = slope / present;
            }
        }
        Loss::CrossEntropy { weighted } => {
            let count = |class: f64| (0..target.len()).filter(|&at| label(at) == Some(class)).count() as f64;
            let weight = |class: f64| if weighted { (present - count(class)) / present } else { 1.0 };
            let total: f64 = (0..target.len()).filter_map(label).map(weight).sum();
            for (row, class) in (0..target.len()).filter_map(|at| label(at).map(|t| (at, t))) {
                if total == 0.0 {
                    break;
                }
                let logits = &y[row * OUTPUTS..(row + 1) * OUTPUTS];
                let normal: f64 = logits.iter().map(|v| v.exp()).sum();
                value -= weight(class) / total * (logits[class as usize].exp() / normal).ln();
                for (c, logit) in logits.iter().enumerate() {
                    let expected = f64::from(c == class as usize);
                    dy[row * OUTPUTS + c] = weight(class) / total * (logit.exp() / normal - expected);
                }
            }
        }
    }
    (value, dy)
}

fn engine() -> Engine<f64> {
    let mut engine = Engine::new(perceptron(), Isa::Portable);
    fill(&mut engine, 53);
    engine
}

fn head_gradient(engine: &Engine<f64>, part: WeightOrBias) -> Vec<f64> {
    let list = engine.parameters().list();
    engine.gradient(list.iter().position(|parameter| parameter.role() == Role::Head(0, part)).unwrap())
}

fn assert_close(what: &str, found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= 1e-12, "{what}[{at}] is {found}, expected {expected}");
    }
}

fn compare(what: &str, loss: Loss, batch: &GraphBatch, target: TargetRows<'_>) {
    let mut engine = engine();
    let value = engine.train(batch, AttentionScope::Sparse, loss, target);
    let y = engine.outputs();
    let (expected, dy) = reference(loss, &y, target);
    assert_close(&format!("{what}: loss"), &[value], &[expected]);
    let x = engine.hidden_nodes(engine.network().layers);
    let (mut weight, mut bias) = (vec![0.0; OUTPUTS * WIDTH], vec![0.0; OUTPUTS]);
    for (dy, x) in dy.chunks_exact(OUTPUTS).zip(x.chunks_exact(WIDTH)) {
        for o in 0..OUTPUTS {
            bias[o] += dy[o];
            (0..WIDTH).for_each(|i| weight[o * WIDTH + i] += dy[o] * x[i]);
        }
    }
    assert_close(&format!("{what}: weight"), &head_gradient(&engine, WeightOrBias::Weight), &weight);
    assert_close(&format!("{what}: bias"), &head_gradient(&engine, WeightOrBias::Bias), &bias);
}

/// Loss 0 and every gradient exactly 0, also after a pass that left other gradients behind.
fn assert_nothing_to_learn(what: &str, loss: Loss, batch: &GraphBatch, target: TargetRows<'_>) {
    let mut engine = engine();
    engine.train(batch, AttentionScope::Sparse, loss, batch.target().unwrap());
    assert!(head_gradient(&engine, WeightOrBias::Bias).iter().any(|&g| g != 0.0), "{what}: nothing to leave behind");
    assert_eq!(engine.train(batch, AttentionScope::Sparse, loss, target), 0.0, "{what}");
    for (index, parameter) in engine.parameters().list().iter().enumerate() {
        assert!(engine.gradient(index).iter().all(|&g| g == 0.0), "{what}: {:?}", parameter.role());
    }
}

#[test]
fn losses_and_their_gradients_follow_the_formulas() {
    for loss in LOSSES {
        for missing in [0.0, 0.2, 0.7] {
            let batch = batch(&perceptron(), &mixed(), loss, missing, 59);
            compare(&format!("{loss:?}, missing {missing}"), loss, &batch, batch.target().unwrap());
        }
    }
}

#[test]
fn without_any_label_loss_and_gradients_are_zero() {
    for loss in LOSSES {
        let batch = batch(&perceptron(), &mixed(), loss, 0.0, 61);
        let count = batch.target().unwrap().len();
        let (floats, classes) = (vec![f32::NAN; count], vec![MISSING_CLASS; count]);
        let target = match loss {
            Loss::L1 | Loss::Mse => TargetRows::Float(&floats),
            _ => TargetRows::Class(&classes),
        };
        assert_nothing_to_learn(&format!("{loss:?}"), loss, &batch, target);
    }
}

#[test]
fn weighted_cross_entropy_of_one_class_is_zero_with_zero_gradients() {
    let loss = Loss::CrossEntropy { weighted: true };
    let batch = batch(&perceptron(), &mixed(), loss, 0.0, 67);
    let count = batch.target().unwrap().len();
    for class in 0..OUTPUTS as u32 {
        let mut classes = vec![class; count];
        assert_nothing_to_learn(&format!("all of class {class}"), loss, &batch, TargetRows::Class(&classes));
        classes[1] = MISSING_CLASS;
        assert_nothing_to_learn(&format!("class {class} or missing"), loss, &batch, TargetRows::Class(&classes));
    }
}

#[test]
fn unweighted_cross_entropy_of_one_class_is_not_zero() {
    let loss = Loss::CrossEntropy { weighted: false };
    let batch = batch(&perceptron(), &mixed(), loss, 0.0, 71);
    let classes = vec![1; batch.target().unwrap().len()];
    compare("all of class 1", loss, &batch, TargetRows::Class(&classes));
    assert!(engine().train(&batch, AttentionScope::Sparse, loss, TargetRows::Class(&classes)) > 0.1);
}

#[test]
fn large_logits_do_not_overflow() {
    for loss in [Loss::Bce, Loss::CrossEntropy { weighted: false }] {
        let batch = batch(&perceptron(), &mixed(), loss, 0.0, 73);
        let mut engine = Engine::<f32>::new(perceptron(), Isa::detect());
        fill(&mut engine, 53);
        let bias = engine.parameters().list().len() - 1;
        engine.set_parameter(bias, &[-2e4, 0.0, 2e4]);
        engine.refresh();
        let value = engine.train(&batch, AttentionScope::Sparse, loss, batch.target().unwrap());
        assert!(value.is_finite() && value > 1e3, "{loss:?}: {value}");
        for index in 0..=bias {
            assert!(engine.gradient(index).iter().all(|g| g.is_finite()), "{loss:?}");
        }
    }
}
