//! Adam, AdamW and clipping against the formulas, written out in double precision.

mod support;

use graph_transformer_nn::AttentionScope;
use graph_transformer_nn::cpu::{Adam, Engine, Isa};
use graph_transformer_nn::{Loss, Network, Norm, Role, Stream, WeightOrBias};
use support::{batch, fill, mixed, network};

const STEPS: i32 = 5;

/// Whether a parameter belongs to what follows the attention in the last layer's edge stream:
/// nothing reads it.
fn is_idle(role: Role, layers: usize) -> bool {
    match role {
        Role::Branch(layer, "O_e.weight" | "O_e.bias")
        | Role::FeedForward(layer, Stream::Edge, ..)
        | Role::Norm(layer, Stream::Edge, ..) => layer + 1 == layers,
        _ => false,
    }
}

/// A constant that batch normalisation takes off again: its gradient is rounding noise, too small
/// for a step compared with a large ε.
fn is_removed_by_batch_norm(role: Role) -> bool {
    let output = matches!(role, Role::Branch(_, "O.bias" | "O_h.bias" | "O_e.bias"));
    output || matches!(role, Role::FeedForward(_, _, 2, WeightOrBias::Bias))
}

fn parameters(engine: &Engine<f64>) -> Vec<Vec<f64>> {
    (0..engine.parameters().list().len()).map(|index| engine.parameter(index)).collect()
}

/// Compares five steps with the reference. Returns how often clipping took effect.
fn compare(network: &Network, adam: Adam) -> usize {
    let batch = batch(network, &mixed(), Loss::Mse, 0.0, 37);
    let mut engine = Engine::<f64>::new(network.clone(), Isa::Portable);
    fill(&mut engine, 41);
    let initial = parameters(&engine);
    let mut theta = initial.clone();
    let zeros: Vec<Vec<f64>> = theta.iter().map(|values| vec![0.0; values.len()]).collect();
    let (mut m, mut v) = (zeros.clone(), zeros);
    let roles: Vec<Role> = engine.parameters().list().iter().map(|parameter| parameter.role()).collect();
    let mut clipped = 0;
    for t in 1..=STEPS {
        engine.train(&batch, AttentionScope::Sparse, Loss::Mse, batch.target().unwrap());
        let gradients: Vec<Vec<f64>> = (0..roles.len()).map(|index| engine.gradient(index)).collect();
        let norm = gradients.iter().flatten().map(|g| g * g).sum::<f64>().sqrt();
        let returned = engine.step(&adam);
        assert!((returned - norm).abs() <= 1e-12 * norm, "step {t}: norm {returned}, expected {norm}");
        let scale = if adam.clip > 0.0 { (adam.clip / (norm + 1e-6)).min(1.0) } else { 1.0 };
        clipped += usize::from(scale < 1.0);
        for index in (0..roles.len()).filter(|&index| !is_idle(roles[index], network.layers)) {
            for at in 0..theta[index].len() {
                let (value, m, v) = (&mut theta[index][at], &mut m[index][at], &mut v[index][at]);
                let mut g = scale * gradients[index][at];
                if adam.decoupled {
                    *value -= adam.lr * adam.weight_decay * *value;
                } else {
                    g += adam.weight_decay * *value;
                }
                *m = adam.beta1 * *m + (1.0 - adam.beta1) * g;
                *v = adam.beta2 * *v + (1.0 - adam.beta2) * g * g;
                let (mean, square) = (*m / (1.0 - adam.beta1.powi(t)), *v / (1.0 - adam.beta2.powi(t)));
                *value -= adam.lr * mean / (square.sqrt() + adam.epsilon);
            }
        }
        for (index, found) in parameters(&engine).iter().enumerate() {
            for (at, (found, expected)) in found.iter().zip(&theta[index]).enumerate() {
                let off = (found - expected).abs();
                assert!(off <= 1e-12, "step {t}: {:?}[{at}] is {found}, expected {expected}", roles[index]);
            }
        }
    }
    let found = parameters(&engine);
    for (index, &role) in roles.iter().enumerate() {
        if is_idle(role, network.layers) {
            assert_eq!(found[index], initial[index], "{role:?} feeds nothing");
        } else if network.norm != Norm::Batch || !is_removed_by_batch_norm(role) {
            assert_ne!(found[index], initial[index], "{role:?} never moved");
        }
    }
    clipped
}

fn networks() -> [Network; 3] {
    [network(6, 3, true), network(7, 1, false), Network { norm: Norm::Layer, ..network(6, 2, true) }]
}

#[test]
fn adam_follows_the_formula() {
    for network in networks() {
        compare(&network, Adam { lr: 1e-2, ..Default::default() });
        compare(&network, Adam { lr: 3e-3, beta1: 0.8, beta2: 0.95, epsilon: 1e-3, ..Default::default() });
    }
}

#[test]
fn coupled_decay_is_part_of_the_gradient() {
    for network in networks() {
        compare(&network, Adam { lr: 1e-2, weight_decay: 0.1, ..Default::default() });
    }
}

#[test]
fn decoupled_decay_shrinks_the_parameters() {
    for network in networks() {
        compare(&network, Adam { lr: 1e-2, weight_decay: 0.1, decoupled: true, ..Default::default() });
    }
}

#[test]
fn clipping_scales_the_gradient_and_returns_the_norm_before_it() {
    for network in networks() {
        for decoupled in [false, true] {
            let adam = Adam { lr: 1e-2, epsilon: 1e-2, weight_decay: 0.05, decoupled, ..Default::default() };
            assert_eq!(compare(&network, Adam { clip: 0.05, ..adam }), STEPS as usize);
            assert_eq!(compare(&network, Adam { clip: 1e6, ..adam }), 0);
        }
    }
}

#[test]
fn parameters_of_the_last_edge_output_exist_and_have_no_gradient() {
    for network in [network(6, 3, true), Network { layers: 1, norm: Norm::Layer, ..network(6, 3, true) }] {
        let batch = batch(&network, &mixed(), Loss::Mse, 0.0, 43);
        let mut engine = Engine::<f64>::new(network.clone(), Isa::Portable);
        fill(&mut engine, 47);
        let roles: Vec<Role> = engine.parameters().list().iter().map(|parameter| parameter.role()).collect();
        let idle: Vec<usize> = (0..roles.len()).filter(|&index| is_idle(roles[index], network.layers)).collect();
        assert_eq!(idle.len(), 10, "output, two feed-forward layers and two normalisations, each with two parts");
        for _ in 0..2 {
            engine.train(&batch, AttentionScope::Sparse, Loss::Mse, batch.target().unwrap());
            for &index in &idle {
                assert!(engine.gradient(index).iter().all(|&g| g == 0.0), "{:?}", roles[index]);
            }
            engine.step(&Adam { weight_decay: 0.1, ..Default::default() });
        }
    }
}
