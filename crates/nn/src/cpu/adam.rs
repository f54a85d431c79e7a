//! Adam and AdamW, with clipping of the gradient's norm.
//!
//! * `m ← β₁m + (1 − β₁)g`
//! * `v ← β₂v + (1 − β₂)g²`
//! * `θ ← θ − lr·(m/(1 − β₁ᵗ))/(√(v/(1 − β₂ᵗ)) + ε)`
//!
//! Adam adds weight decay to the gradient. AdamW subtracts `lr·λ·θ` from the parameter. With a
//! largest norm, g is first scaled by `min(1, norm/(‖g‖ + 1e-6))`, with ‖g‖ over all parameters.
//! Parameters that no gradient can reach (the last layer's edge stream) do not change, not even by
//! decay. Neither do frozen parameters.

use rayon::prelude::*;

use super::buffer::Buffer;
use super::engine::{Engine, in_pool};
use super::simd::{Kernel, LANES, Simd};
use crate::real::Real;
use crate::weights::OptimizerState;

/// Options of an optimizer step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// Learning rate.
    pub lr: f64,
    /// β₁.
    pub beta1: f64,
    /// β₂.
    pub beta2: f64,
    /// ε.
    pub epsilon: f64,
    /// λ.
    pub weight_decay: f64,
    /// Whether the decay is decoupled from the gradient (AdamW).
    pub decoupled: bool,
    /// Largest norm of the gradient; 0 for no limit.
    pub clip: f64,
}

impl Default for Adam {
    fn default() -> Self {
        Self { lr: 1e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0, decoupled: false, clip: 0.0 }
    }
}

/// Moments of the gradients.
#[derive(Clone, Debug, Default)]
pub(crate) struct AdamState<T> {
    pub(crate) first: Buffer<T>,
    pub(crate) second: Buffer<T>,
    pub(crate) steps: u32,
}

/// Values per task: fixed, so that sums do not depend on the number of threads.
const CHUNK: usize = 1 << 14;

impl<T: Real> Engine<T> {
    /// Takes the optimizer's state.
    pub fn load_optimizer(&mut self, state: &OptimizerState<T>) {
        let size = self.values.len();
        self.adam.first.size(size);
        self.adam.second.size(size);
        self.adam.first.copy_from_slice(&state.first);
        self.adam.second.copy_from_slice(&state.second);
        self.adam.steps = state.steps;
    }

    /// The optimizer's state.
    pub fn optimizer(&self) -> OptimizerState<T> {
        let mut state = OptimizerState::new(&self.network);
        // Before the first step there are no moments.
        if !self.adam.first.is_empty() {
            state.first.copy_from_slice(&self.adam.first);
            state.second.copy_from_slice(&self.adam.second);
        }
        state.steps = self.adam.steps;
        state
    }

    /// Adds the last gradients to a sum, or starts it with them.
    pub fn accumulate(&mut self, first: bool) {
        let Self { accumulated, gradient, .. } = self;
        accumulated.size(gradient.len());
        if first {
            accumulated.copy_from_slice(gradient);
        } else {
            accumulated.iter_mut().zip(&**gradient).for_each(|(sum, &value)| *sum += value);
        }
    }

    /// Makes the gradients the mean of the `count` last accumulated ones (those of the last batch,
    /// for one). Returns their norm.
    pub(crate) fn gather_gradients(&mut self, count: usize) -> f64 {
        if count > 1 {
            let share = T::from_f64(1.0 / count as f64);
            self.gradient.iter_mut().zip(&*self.accumulated).for_each(|(to, &sum)| *to = sum * share);
        }
        norm(&self.gradient)
    }

    /// One step along the gradients of the last [`Engine::train`]. Returns the gradient's norm
    /// before clipping.
    pub fn step(&mut self, adam: &Adam) -> f64 {
        in_pool(|| self.step_in_pool(adam))
    }

    fn step_in_pool(&mut self, adam: &Adam) -> f64 {
        let (isa, reached) = (self.isa, self.reached());
        let Self { values, gradient, adam: state, frozen, .. } = self;
        state.first.size(values.len());
        state.second.size(values.len());
        state.steps += 1;
        // Frozen parameters have no share in the norm.
        frozen.iter().for_each(|&at| gradient[at] = T::ZERO);
        let kept: Vec<T> = frozen.iter().map(|&at| values[at]).collect();
        let norm = norm(gradient);
        let scale = if adam.clip > 0.0 { (adam.clip / (norm + 1e-6)).min(1.0) } else { 1.0 };
        let t = f64::from(state.steps);
        let (c1, c2) = (1.0 - adam.beta1.powf(t), 1.0 - adam.beta2.powf(t));
        for range in reached {
            let zipped = values[range.clone()]
                .par_chunks_mut(CHUNK)
                .zip(state.first[range.clone()].par_chunks_mut(CHUNK))
                .zip(state.second[range.clone()].par_chunks_mut(CHUNK))
                .zip(gradient[range].par_chunks(CHUNK));
            zipped.for_each(|(((value, first), second), gradient)| {
                T::dispatch(isa, Update { adam, scale, c1, c2, value, first, second, gradient });
            });
        }
        // Weight decay has moved them.
        for (&at, value) in self.frozen.iter().zip(kept) {
            self.values[at] = value;
            self.adam.first[at] = T::ZERO;
            self.adam.second[at] = T::ZERO;
        }
        self.refresh();
        norm
    }

    /// Ranges of the parameters that a gradient can reach.
    fn reached(&self) -> [std::ops::Range<usize>; 2] {
        let idle = self.layout.idle(&self.network);
        [0..idle.start, idle.end..self.values.len()]
    }
}

/// √Σg², in sixteen sums that do not wait for each other; the array is padded to whole registers.
fn norm<T: Real>(gradient: &[T]) -> f64 {
    let mut sums = [0.0; LANES];
    for values in gradient.as_chunks::<LANES>().0 {
        for (sum, g) in sums.iter_mut().zip(values) {
            *sum += g.to_f64() * g.to_f64();
        }
    }
    sums.iter().sum::<f64>().sqrt()
}

struct Update<'a, T> {
    adam: &'a Adam,
    scale: f64,
    c1: f64,
    c2: f64,
    value: &'a mut [T],
    first: &'a mut [T],
    second: &'a mut [T],
    gradient: &'a [T],
}

impl<T: Real> Kernel<T> for Update<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T = T>>(self) {
        let constant = |value: f64| S::splat(T::from_f64(value));
        let Adam { lr, beta1, beta2, epsilon, weight_decay, decoupled, .. } = *self.adam;
        let coupled = constant(if decoupled { 0.0 } else { weight_decay });
        let keep = constant(if decoupled { 1.0 - lr * weight_decay } else { 1.0 });
        let (b1, o1, b2, o2) = (constant(beta1), constant(1.0 - beta1), constant(beta2), constant(1.0 - beta2));
        let (step, spread, epsilon, scale) =
            (constant(-lr / self.c1), constant(1.0 / self.c2), constant(epsilon), constant(self.scale));
        debug_assert_eq!(self.value.len() % LANES, 0);
        for at in (0..self.value.len()).step_by(LANES) {
            // SAFETY: regions are padded to sixteen values, and the four slices are of one length.
            unsafe {
                let value = S::load(self.value.as_ptr().add(at));
                let g = S::fma(coupled, value, S::mul(scale, S::load(self.gradient.as_ptr().add(at))));
                let m = S::fma(o1, g, S::mul(b1, S::load(self.first.as_ptr().add(at))));
                let v = S::fma(S::mul(o2, g), g, S::mul(b2, S::load(self.second.as_ptr().add(at))));
                S::store(self.first.as_mut_ptr().add(at), m);
                S::store(self.second.as_mut_ptr().add(at), v);
                let divisor = S::add(S::sqrt(S::mul(v, spread)), epsilon);
                S::store(self.value.as_mut_ptr().add(at), S::fma(step, S::div(m, divisor), S::mul(value, keep)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Isa;
    use crate::cpu::testing::{assert_close, each_isa, numbers};

    const COUNT: usize = 5 * LANES;

    /// Compares three updates of the kernel with the formulas.
    fn check<T: Real>(isa: Isa, adam: &Adam, scale: f64, tolerance: f64) {
        let (mut value, mut first, mut second) = (numbers::<T>(COUNT, 1), vec![T::ZERO; COUNT], vec![T::ZERO; COUNT]);
        let mut expected: Vec<f64> = value.iter().map(|v| v.to_f64()).collect();
        let mut moments = vec![(0.0, 0.0); COUNT];
        for t in 1..=3 {
            let gradient = numbers::<T>(COUNT, 10 + t as u64);
            let (c1, c2) = (1.0 - adam.beta1.powi(t), 1.0 - adam.beta2.powi(t));
            let update = Update {
                adam,
                scale,
                c1,
                c2,
                value: &mut value,
                first: &mut first,
                second: &mut second,
                gradient: &gradient,
            };
            T::dispatch(isa, update);
            for ((theta, (m, v)), g) in expected.iter_mut().zip(&mut moments).zip(&gradient) {
                let decay = adam.weight_decay * *theta;
                let g = scale * g.to_f64() + if adam.decoupled { 0.0 } else { decay };
                *theta -= if adam.decoupled { adam.lr * decay } else { 0.0 };
                *m = adam.beta1 * *m + (1.0 - adam.beta1) * g;
                *v = adam.beta2 * *v + (1.0 - adam.beta2) * g * g;
                *theta -= adam.lr * (*m / c1) / ((*v / c2).sqrt() + adam.epsilon);
            }
            assert_close(&value, &expected, tolerance);
        }
    }

    #[test]
    fn updates_follow_the_formulas_on_every_instruction_set() {
        for (weight_decay, decoupled) in [(0.0, false), (0.2, false), (0.2, true)] {
            for scale in [1.0, 0.25] {
                let adam = Adam { lr: 0.05, beta1: 0.8, epsilon: 1e-3, weight_decay, decoupled, ..Default::default() };
                check::<f64>(Isa::Portable, &adam, scale, 1e-13);
                each_isa(|isa| check::<f32>(isa, &adam, scale, 2e-6));
            }
        }
    }

    #[test]
    fn the_norm_is_that_of_all_values() {
        for registers in [0, 1, 7] {
            let gradient = numbers::<f32>(registers * LANES, 5);
            let expected = gradient.iter().map(|&g| f64::from(g) * f64::from(g)).sum::<f64>().sqrt();
            assert!((norm(&gradient) - expected).abs() <= 1e-12 * expected);
        }
    }
}
