//! The models against the PyTorch oracle: outputs, hidden states, losses, gradients, statistics, three Adam steps.
//!
//! `GT_FIXTURES=DIR` runs the same comparison on the model files of another folder.

mod support;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use gt_models::{norm_name, parameter_name};
use gt_nn::cpu::{Adam, Edges, Engine, Isa};
use gt_nn::{Loss, Norm, Real, Stream};
use support::Fixture;

/// Compares relative to the largest entry of a family.
struct Checker<'a> {
    fixture: &'a Fixture,
    what: String,
}

impl Checker<'_> {
    fn largest(&self, prefix: &str) -> f64 {
        let family = self.fixture.tensors.iter().filter(|(key, _)| key.starts_with(prefix));
        family.flat_map(|(_, values)| values).fold(1e-12, |m, v| m.max(v.abs()))
    }

    fn close<T: Real>(&self, key: &str, found: &[T], largest: f64, tolerance: f64) {
        let Some(expected) = self.fixture.tensors.get(key) else { return };
        assert_eq!(found.len(), expected.len(), "{} {}: {key}", self.fixture.name, self.what);
        for (at, (f, e)) in found.iter().zip(expected).enumerate() {
            let off = (f.to_f64() - e).abs() / largest;
            assert!(
                off <= tolerance,
                "{} {}: {key}[{at}] is {f}, expected {e}: off by {off:.1e}",
                self.fixture.name,
                self.what
            );
        }
    }
}

fn run<T: Real>(fixture: &Fixture, isa: Isa, edges: Edges, tolerance: f64) {
    let network = fixture.network();
    let batch = fixture.batch();
    let target = batch.target().unwrap();
    let kind = if fixture.graph_task() { Loss::L1 } else { Loss::CrossEntropy { weighted: true } };
    let mut engine = Engine::<T>::new(network.clone(), isa);
    let names: Vec<String> = engine.parameters().list().iter().map(|p| parameter_name(&network, p.role())).collect();
    for (index, name) in names.iter().enumerate() {
        let values: Vec<T> = fixture.tensors[&format!("param.{name}")].iter().map(|&v| T::from_f64(v)).collect();
        engine.set_parameter(index, &values);
    }
    let stored = fixture.tensors.keys().filter(|key| key.starts_with("param.")).count();
    assert_eq!(stored, names.len(), "{}: parameters", fixture.name);
    engine.refresh();
    let check = Checker { fixture, what: format!("{} {} {edges:?}", std::any::type_name::<T>(), isa.name()) };

    let loss = engine.train(&batch, edges, kind, target);
    check.close("out.train", &engine.outputs(), check.largest("out.train"), tolerance);
    for layer in 0..=network.layers {
        check.close(&format!("hidden.h.{layer}"), &engine.hidden_nodes(layer), check.largest("hidden"), tolerance);
        if network.edge_stream && edges == Edges::Sparse {
            let found = engine.hidden_edges(layer);
            let d = network.channels.width();
            let mut listed = vec![T::ZERO; found.len()];
            for (edge, &at) in batch.in_to_list().iter().enumerate() {
                listed[at as usize * d..(at as usize + 1) * d].copy_from_slice(&found[edge * d..(edge + 1) * d]);
            }
            check.close(&format!("hidden.e.{layer}"), &listed, check.largest("hidden"), tolerance);
        }
    }
    let expected = fixture.tensors["loss.f64"][0];
    assert!(
        (loss - expected).abs() <= tolerance * expected.abs().max(1e-3),
        "{}: loss {loss}, expected {expected}",
        fixture.name
    );
    for (index, name) in names.iter().enumerate() {
        check.close(&format!("grad.{name}"), &engine.gradient(index), check.largest("grad."), tolerance);
    }
    let running = |engine: &Engine<T>, step: &str, tolerance: f64| {
        if network.norm != Norm::Batch {
            return;
        }
        for layer in 0..network.layers {
            for number in 1..=network.norms() {
                for stream in [Stream::Node, Stream::Edge] {
                    if stream == Stream::Edge && !network.edge_stream {
                        continue;
                    }
                    let (mean, var) = engine.running(layer, stream, number);
                    let key = format!("{step}.{}.running", norm_name(&network, layer, stream, number));
                    assert!(fixture.tensors.contains_key(&format!("{key}_mean")), "{}: {key}", fixture.name);
                    check.close(&format!("{key}_mean"), &mean, check.largest(&format!("{step}.")), tolerance);
                    check.close(&format!("{key}_var"), &var, check.largest(&format!("{step}.")), tolerance);
                }
            }
        }
    };
    running(&engine, "bn1", tolerance);
    check.close("out.eval", &engine.clone().predict(&batch, edges), check.largest("out.eval"), tolerance);

    // Three steps on the same batch.
    let adam = Adam { lr: 7e-4, ..Default::default() };
    engine.step(&adam);
    for _ in 0..2 {
        engine.train(&batch, edges, kind, target);
        engine.step(&adam);
    }
    let single = tolerance > 2e-6;
    let batch_norm = network.norm == Norm::Batch;
    // Steps along zero gradients are noise; how much of it reaches the output, a single-precision run of the oracle tells.
    let noise: HashMap<String, f64> = serde_json::from_str(&fixture.metadata["f32_dev"]).unwrap();
    let loose = |family: &str| match batch_norm && single {
        true => (4.0 * noise[family] / check.largest(family)).max(1e-3),
        false => 10.0 * tolerance,
    };
    if batch_norm {
        running(&engine, "bn3", loose("bn3"));
    }
    check.close(
        "out.eval_adam3",
        &engine.clone().predict(&batch, edges),
        check.largest("out.eval_adam3"),
        loose("out.eval_adam3"),
    );
    let skipped = fixture.listed("zero_grad_params");
    for (index, name) in names.iter().enumerate().filter(|(_, name)| !skipped.contains(name)) {
        let (Some(expected), Some(gradient)) =
            (fixture.tensors.get(&format!("adam3.{name}")), fixture.tensors.get(&format!("grad.{name}")))
        else {
            continue;
        };
        for ((f, e), g) in engine.parameter(index).iter().zip(expected).zip(gradient) {
            // Adam turns rounding noise in a tiny gradient into a whole step.
            let allowed = if g.abs() < 1e-6 {
                3.0 * 7e-4 + 1e-6
            } else if single {
                (4.0 * noise["adam3_excl_zero_grad"]).max(2e-5)
            } else {
                2e-6
            };
            assert!(
                (f.to_f64() - e).abs() <= allowed,
                "{}: adam3.{name} is {f}, expected {e} (gradient {g:e})",
                fixture.name
            );
        }
    }
}

fn folders() -> Vec<PathBuf> {
    match std::env::var_os("GT_FIXTURES") {
        // Tests run in their crate's folder; a relative path is one of the workspace, from where they are started.
        Some(folder) => vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder)],
        None => {
            let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
            vec![own, Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures")]
        }
    }
}

fn fixtures() -> Vec<Fixture> {
    let mut found = Vec::new();
    for folder in folders() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            say(&format!("skipped: {} is not here", folder.display()));
            continue;
        };
        let mut paths: Vec<PathBuf> =
            entries.map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "safetensors")).collect();
        paths.sort();
        found.extend(paths.iter().filter_map(|path| Fixture::read(path)));
    }
    eprintln!("{} model fixtures", found.len());
    found
}

#[test]
fn parity_in_single_precision_on_every_instruction_set() {
    for fixture in fixtures() {
        for isa in [Isa::Avx512, Isa::Avx2, Isa::Portable].into_iter().filter(|isa| isa.available()) {
            run::<f32>(&fixture, isa, Edges::Sparse, 1e-5);
        }
        if fixture.is_full() {
            run::<f32>(&fixture, Isa::detect(), Edges::Full, 1e-5);
        }
    }
}

#[test]
fn parity_in_double_precision_of_the_same_code() {
    for fixture in fixtures() {
        run::<f64>(&fixture, Isa::Portable, Edges::Sparse, 1e-6);
    }
}

/// Writes past the test harness, which keeps the output of passing tests to itself.
fn say(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{text}");
}
