//! Initial weights of the parameters, as the published code's library draws them.
//!
//! * Linear layers: weight and bias uniform on ±1/√in.
//! * Embeddings: standard normal.
//! * Normalisations: γ = 1, β = 0.
//! * Convolutions: weight uniform on ±√(6/(in + out)), bias 0. Convolutions with means have linear
//!   layers.
//! * Additive attention: normal with variance 4/(in + out). The library counts vectors
//!   `[1, heads, d_k]` as heads·d_k inputs and d_k outputs.
//!
//! Each parameter has its own random stream, numbered by the parameter's position in the list of
//! files. So the values depend on the seed alone.

use gt_nn::{LayerKind, Network, Real, Role, WeightOrBias, Weights};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Draws the weights that the training of a network begins with.
///
/// ```
/// use graph_transformer_models::{PublishedEncoding, PublishedSet, initial_weights};
/// use gt_nn::{Norm, Weights};
///
/// let network = PublishedSet::Zinc.network(PublishedEncoding::None, Norm::Batch);
/// let weights: Weights = initial_weights(&network, 41);
/// assert_eq!(weights, initial_weights(&network, 41));
/// ```
pub fn initial_weights<T: Real>(network: &Network, seed: u64) -> Weights<T> {
    let mut weights = Weights::zeros(network);
    let list = weights.parameters().list().to_vec();
    let means = network.kind == LayerKind::Averaging;
    // A bias is drawn with the width of the weight before it.
    let mut inputs = 1;
    for (index, parameter) in list.iter().enumerate() {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(index as u64);
        let shape = parameter.shape();
        let count = parameter.len();
        let values: Vec<T> = match parameter.role() {
            Role::Embedding(..) | Role::MultiHot(_) | Role::Roles => normals(&mut random, count),
            Role::Norm(.., WeightOrBias::Weight) => vec![T::ONE; count],
            Role::Norm(.., WeightOrBias::Bias) => vec![T::ZERO; count],
            Role::Convolution(_, WeightOrBias::Weight) if !means => {
                let bound = (6.0 / (shape[0] + shape[1]) as f64).sqrt();
                (0..count).map(|_| T::from_f64(bound * (2.0 * unit(&mut random) - 1.0))).collect()
            }
            Role::Convolution(_, WeightOrBias::Bias) if !means => vec![T::ZERO; count],
            Role::Projection(_) | Role::SourceLogit(_) | Role::TargetLogit(_) => {
                let fans = match shape[..] {
                    [_, heads, per_head] => heads * per_head + per_head,
                    _ => shape.iter().sum(),
                };
                let deviation = T::from_f64((4.0 / fans as f64).sqrt());
                normals::<T>(&mut random, count).into_iter().map(|v| v * deviation).collect()
            }
            _ => {
                if let [_, input] = shape[..] {
                    inputs = input;
                }
                let bound = 1.0 / (inputs.max(1) as f64).sqrt();
                (0..count).map(|_| T::from_f64(bound * (2.0 * unit(&mut random) - 1.0))).collect()
            }
        };
        weights.set_parameter(index, &values);
    }
    weights
}

/// Uniform on 0..1, with 53 bits.
fn unit(random: &mut ChaCha8Rng) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Standard normal numbers (Box–Muller).
fn normals<T: Real>(random: &mut ChaCha8Rng, count: usize) -> Vec<T> {
    let mut values = Vec::with_capacity(count + 1);
    while values.len() < count {
        let radius = (-2.0 * (1.0 - unit(random)).ln()).sqrt();
        let angle = std::f64::consts::TAU * unit(random);
        values.extend([T::from_f64(radius * angle.cos()), T::from_f64(radius * angle.sin())]);
    }
    values.truncate(count);
    values
}

#[cfg(test)]
mod tests {
    use gt_nn::Channels;

    use super::*;

    /// The largest value of each parameter of the convolutions, weights before biases.
    fn largest(kind: LayerKind) -> (f64, f64) {
        let network = Network { kind, head: vec![1], ..Network::new(Channels::new(54, 1), 1) };
        let weights: Weights<f64> = initial_weights(&network, 41);
        let of = |part| {
            let at = weights.parameters().list().iter().position(|p| p.role() == Role::Convolution(0, part)).unwrap();
            weights.parameter(at).into_iter().map(f64::abs).fold(0.0, f64::max)
        };
        (of(WeightOrBias::Weight), of(WeightOrBias::Bias))
    }

    #[test]
    fn convolutions_begin_as_the_library_draws_them_and_means_as_linear_layers() {
        // √(6/108) and 1/√54: of 2,916 values the largest is near the bound.
        let near = |value: f64, bound: f64| value <= bound && value > 0.98 * bound;
        let (weight, bias) = largest(LayerKind::Convolution);
        assert!(near(weight, (6.0f64 / 108.0).sqrt()) && bias == 0.0, "{weight} {bias}");
        let (weight, bias) = largest(LayerKind::Averaging);
        assert!(near(weight, 1.0 / 54f64.sqrt()) && bias > 0.0, "{weight} {bias}");
    }
}
