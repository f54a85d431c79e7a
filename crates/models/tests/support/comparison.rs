//! What a fixture says must come out, and how far from it a computation may be.

use std::collections::HashMap;

use graph_transformer_models::norm_name;
use gt_nn::cpu::Adam;
use gt_nn::{Norm, Real, Weights};

use super::Fixture;

/// The oracle's optimiser.
pub fn adam() -> Adam {
    Adam { lr: 7e-4, ..Default::default() }
}

/// Compares relative to the largest entry of a family.
pub struct Comparison<'a> {
    fixture: &'a Fixture,
    /// Who computes.
    what: String,
    tolerance: f64,
    /// What was off: the worst entry of each tensor.
    complaints: Vec<String>,
}

impl<'a> Comparison<'a> {
    pub fn new(fixture: &'a Fixture, what: String, tolerance: f64) -> Self {
        Self { fixture, what, tolerance, complaints: Vec::new() }
    }

    /// What was off.
    pub fn finish(self) -> Vec<String> {
        self.complaints
    }

    fn largest(&self, prefix: &str) -> f64 {
        let family = self.fixture.tensors.iter().filter(|(key, _)| key.starts_with(prefix));
        family.flat_map(|(_, values)| values).fold(1e-12, |m, v| m.max(v.abs()))
    }

    /// A tensor, if the fixture has it, of the family whose names begin with `family`.
    pub fn close<T: Real>(&mut self, key: &str, found: &[T], family: &str) {
        self.close_within(key, found, family, self.tolerance);
    }

    fn close_within<T: Real>(&mut self, key: &str, found: &[T], family: &str, tolerance: f64) {
        let allowed = tolerance * self.largest(family);
        self.each_close(key, found, |_| allowed);
    }

    /// A tensor, if the fixture has it; `allowed` says how far off an entry may be.
    fn each_close<T: Real>(&mut self, key: &str, found: &[T], allowed: impl Fn(usize) -> f64) {
        let Some(expected) = self.fixture.tensors.get(key) else { return };
        let place = format!("{} {}: {key}", self.fixture.name, self.what);
        assert_eq!(found.len(), expected.len(), "{place}");
        let off = |at: usize| (found[at].to_f64() - expected[at]).abs() / allowed(at);
        // NaN is off, too.
        let bad = (0..found.len()).filter(|&at| off(at).is_nan() || off(at) > 1.0);
        if let Some(at) = bad.max_by(|&a, &b| off(a).total_cmp(&off(b))) {
            let text = format!(
                "{place}[{at}] is {}, expected {}: off by {:.1} times the allowed",
                found[at],
                expected[at],
                off(at)
            );
            self.complaints.push(text);
        }
    }

    /// Outputs, loss, gradients and running statistics after the first pass, before a step.
    pub fn first_pass<T: Real>(&mut self, weights: &Weights<T>, gradients: &[Vec<T>], outputs: &[T], loss: f64) {
        self.close("out.train", outputs, "out.train");
        let expected = self.fixture.tensors["loss.f64"][0];
        let off = (loss - expected).abs() / expected.abs().max(1e-3);
        if off.is_nan() || off > self.tolerance {
            self.complaints.push(format!("{} {}: loss {loss}, expected {expected}", self.fixture.name, self.what));
        }
        for (name, gradient) in self.fixture.names(weights).iter().zip(gradients) {
            self.close(&format!("grad.{name}"), gradient, "grad.");
        }
        self.running(weights, "bn1", self.tolerance);
    }

    /// Outputs in inference after the first pass, with its running statistics.
    pub fn inference<T: Real>(&mut self, outputs: &[T]) {
        self.close("out.eval", outputs, "out.eval");
    }

    /// Parameters, running statistics and outputs in inference after three steps.
    pub fn three_steps<T: Real>(&mut self, weights: &Weights<T>, outputs: &[T]) {
        let single = self.tolerance > 2e-6;
        let batch_norm = weights.network().norm == Norm::Batch;
        // Steps along zero gradients are noise; a single-precision run of the oracle shows how much
        // of the noise reaches the output.
        let noise: HashMap<String, f64> = serde_json::from_str(&self.fixture.metadata["f32_dev"]).unwrap();
        let loose = |family: &str| match batch_norm && single {
            true => (4.0 * noise[family] / self.largest(family)).max(1e-3),
            false => 10.0 * self.tolerance,
        };
        let (outputs_loose, running_loose) = (loose("out.eval_adam3"), if batch_norm { loose("bn3") } else { 0.0 });
        self.running(weights, "bn3", running_loose);
        self.close_within("out.eval_adam3", outputs, "out.eval_adam3", outputs_loose);
        let skipped = self.fixture.listed("zero_grad_params");
        let names = self.fixture.names(weights);
        for (index, name) in names.iter().enumerate().filter(|(_, name)| !skipped.contains(name)) {
            let Some(gradient) = self.fixture.tensors.get(&format!("grad.{name}")) else { continue };
            // Adam turns rounding noise in a tiny gradient into a whole step.
            let allowed = |at: usize| match gradient[at].abs() < 1e-6 {
                true => 3.0 * adam().lr + 1e-6,
                false if single => (4.0 * noise["adam3_excl_zero_grad"]).max(2e-5),
                false => 2e-6,
            };
            self.each_close(&format!("adam3.{name}"), &weights.parameter(index), allowed);
        }
    }

    fn running<T: Real>(&mut self, weights: &Weights<T>, step: &str, tolerance: f64) {
        let network = weights.network();
        for site in network.norm_sites() {
            let key = format!("{step}.{}.running", norm_name(network, site.layer, site.stream, site.number));
            let known = self.fixture.tensors.contains_key(&format!("{key}_mean"));
            assert!(known, "{}: {key}", self.fixture.name);
            let [mean, variance] = weights.running(site);
            self.close_within(&format!("{key}_mean"), &mean, &format!("{step}."), tolerance);
            self.close_within(&format!("{key}_var"), &variance, &format!("{step}."), tolerance);
        }
    }
}
