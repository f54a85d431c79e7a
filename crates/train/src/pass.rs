//! The passes of a run. Which graphs a pass takes, in which order and with which signs, depends on
//! the seed and the epoch alone. So a run can continue from any batch.

use gt_data::RandomStream;
use gt_graph::Split;
use gt_models::Config;
use gt_models::config::SignFlip;
use gt_nn::backend::{PassOrder, PassPlan, SignFlips, TrainingPlan};

use crate::prepared::Prepared;

const DOMAIN_ORDER: u8 = 32;
const DOMAIN_SIGNS: u8 = 33;
const DOMAIN_PAIRS: u8 = 34;
const DOMAIN_HIDING: u8 = 36;

/// The stream of a batch of an epoch.
fn stream(seed: u64, domain: u8, epoch: usize, batch: usize) -> RandomStream {
    RandomStream::new(seed, domain, (epoch as u64) << 28 | batch as u64)
}

/// The stream of a batch of a training pass; evaluation draws nothing.
fn training_stream(plan: &PassPlan, domain: u8, batch: usize) -> Option<RandomStream> {
    plan.training.map(|TrainingPlan { draws: (seed, epoch), .. }| stream(seed, domain, epoch, batch))
}

/// The random pairs of a training batch derive from this stream.
pub(crate) fn pair_stream(plan: &PassPlan, batch: usize) -> Option<RandomStream> {
    training_stream(plan, DOMAIN_PAIRS, batch)
}

/// The values that a training batch hides derive from this stream.
pub(crate) fn hiding_stream(plan: &PassPlan, batch: usize) -> Option<RandomStream> {
    training_stream(plan, DOMAIN_HIDING, batch)
}

/// The training pass of an epoch, from a batch on.
pub(crate) fn training_pass(
    data: &Prepared,
    config: &Config,
    (epoch, from): (usize, usize),
    lr: f64,
    dropout_key: u64,
) -> PassPlan {
    let train = &config.train;
    let order = training_order(data, config, epoch);
    let signs = signs(&order, train.sign_flip, train.seed, epoch, data.network.node.laplacian);
    let training = TrainingPlan {
        adam: config.optimizer.adam(lr),
        dropout_key,
        accumulate: train.accumulate.max(1),
        skip_bad_steps: train.skip_bad_steps,
        draws: (train.seed, epoch),
    };
    PassPlan { split: Split::Train, order, from, signs, training: Some(training) }
}

/// The graphs of an epoch, in batches.
pub(crate) fn training_order(data: &Prepared, config: &Config, epoch: usize) -> PassOrder {
    let mut graphs = data.graphs_of(Split::Train);
    RandomStream::new(config.train.seed, DOMAIN_ORDER, epoch as u64).shuffle(&mut graphs);
    PassOrder::new(graphs, config.train.batch)
}

/// Signs of all batches: one row for all graphs of a batch, or one each.
fn signs(order: &PassOrder, flip: SignFlip, seed: u64, epoch: usize, width: usize) -> Option<SignFlips> {
    if flip == SignFlip::Off {
        return None;
    }
    let per_graph = flip == SignFlip::Graph;
    let mut values = Vec::new();
    for batch in 0..order.batches() {
        let rows = if per_graph { order.batch(batch).len() } else { 1 };
        let mut random = stream(seed, DOMAIN_SIGNS, epoch, batch);
        values.extend((0..rows * width).map(|_| if random.below(2) == 0 { 1.0 } else { -1.0 }));
    }
    Some(SignFlips { values, per_graph })
}
