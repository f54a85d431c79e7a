//! Initial weights of the parameters, as the published code's library draws them.
//!
//! Every branch and layer declares how its parameters are drawn; [`Init`] has the rules.
//!
//! Each parameter has its own random stream, numbered by the parameter's position in the list of
//! files. So the values depend on the seed alone.

use gt_nn::{Init, Network, Real, Weights};
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
    // A bias is drawn with the width of the weight before it.
    let mut inputs = 1;
    for (index, parameter) in list.iter().enumerate() {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(index as u64);
        let shape = parameter.shape();
        let count = parameter.len();
        let values: Vec<T> = match parameter.init() {
            Init::Normal => normals(&mut random, count),
            Init::One => vec![T::ONE; count],
            Init::Zero => vec![T::ZERO; count],
            Init::Glorot => {
                let bound = (6.0 / (shape[0] + shape[1]) as f64).sqrt();
                (0..count).map(|_| T::from_f64(bound * (2.0 * unit(&mut random) - 1.0))).collect()
            }
            Init::GlorotNormal => {
                let fans = match shape[..] {
                    [_, heads, per_head] => heads * per_head + per_head,
                    _ => shape.iter().sum(),
                };
                let deviation = T::from_f64((4.0 / fans as f64).sqrt());
                normals::<T>(&mut random, count).into_iter().map(|v| v * deviation).collect()
            }
            Init::Linear => {
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
    use gt_nn::{Branch, Channels, Role};

    use super::*;

    /// The largest value of each parameter of the convolutions, weights before biases.
    fn largest(branch: Branch) -> (f64, f64) {
        let network = Network::new(Channels::new(54, 1), 1).with_branches(&[branch], false);
        let weights: Weights<f64> = initial_weights(&network, 41);
        let of = |name| {
            let at = weights.parameters().list().iter().position(|p| p.role() == Role::Branch(0, name)).unwrap();
            weights.parameter(at).into_iter().map(f64::abs).fold(0.0, f64::max)
        };
        (of("conv.weight"), of("conv.bias"))
    }

    #[test]
    fn convolutions_begin_as_the_library_draws_them_and_means_as_linear_layers() {
        // √(6/108) and 1/√54: of 2,916 values the largest is near the bound.
        let near = |value: f64, bound: f64| value <= bound && value > 0.98 * bound;
        let (weight, bias) = largest(Branch::Gcn);
        assert!(near(weight, (6.0f64 / 108.0).sqrt()) && bias == 0.0, "{weight} {bias}");
        let (weight, bias) = largest(Branch::GcnMean);
        assert!(near(weight, 1.0 / 54f64.sqrt()) && bias > 0.0, "{weight} {bias}");
    }
}
