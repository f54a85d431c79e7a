//! The models against the PyTorch oracle: outputs, hidden states, losses, gradients, statistics,
//! three Adam steps.
//!
//! `GT_FIXTURES=DIR` runs the same comparison on the model files of another folder.

mod support;

use gt_nn::AttentionScope;
use gt_nn::Real;
use gt_nn::cpu::Isa;
use support::comparison::{Comparison, adam};
use support::{Fixture, fixtures};

fn run<T: Real>(fixture: &Fixture, isa: Isa, edges: AttentionScope, tolerance: f64) {
    let batch = fixture.batch();
    let target = batch.target().unwrap();
    let mut engine = fixture.engine::<T>(isa);
    let network = fixture.network();
    let mut check =
        Comparison::new(fixture, format!("{} {} {edges:?}", std::any::type_name::<T>(), isa.name()), tolerance);
    let loss = engine.train(&batch, edges, fixture.loss(), target);
    for layer in 0..=network.layers {
        check.close(&format!("hidden.h.{layer}"), &engine.hidden_nodes(layer), "hidden");
        if network.edge_stream && edges == AttentionScope::Sparse {
            let found = engine.hidden_edges(layer);
            let d = network.channels.width();
            let mut listed = vec![T::ZERO; found.len()];
            for (edge, &at) in batch.in_to_list().iter().enumerate() {
                listed[at as usize * d..(at as usize + 1) * d].copy_from_slice(&found[edge * d..(edge + 1) * d]);
            }
            check.close(&format!("hidden.e.{layer}"), &listed, "hidden");
        }
    }
    let gradients: Vec<Vec<T>> = (0..engine.parameters().list().len()).map(|index| engine.gradient(index)).collect();
    check.first_pass(&engine.weights(), &gradients, &engine.outputs(), loss);
    check.inference(&engine.clone().predict(&batch, edges));
    // Three steps on the same batch.
    engine.step(&adam());
    for _ in 0..2 {
        engine.train(&batch, edges, fixture.loss(), target);
        engine.step(&adam());
    }
    check.three_steps(&engine.weights(), &engine.clone().predict(&batch, edges));
    let complaints = check.finish();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn parity_in_single_precision_on_every_instruction_set() {
    for fixture in fixtures() {
        for isa in [Isa::Avx512, Isa::Avx2, Isa::Portable].into_iter().filter(|isa| isa.available()) {
            run::<f32>(&fixture, isa, AttentionScope::Sparse, 1e-5);
        }
        if fixture.is_full() {
            run::<f32>(&fixture, Isa::detect(), AttentionScope::Full, 1e-5);
        }
    }
}

#[test]
fn parity_in_double_precision_of_the_same_code() {
    for fixture in fixtures() {
        run::<f64>(&fixture, Isa::Portable, AttentionScope::Sparse, 1e-6);
    }
}
