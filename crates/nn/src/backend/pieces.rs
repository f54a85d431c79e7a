//! Passes in inference whose batches do not fit into memory, in smaller pieces.
//!
//! A graph's outputs do not depend on the other graphs of its batch, because statistics are fixed
//! in inference. So the pieces of a batch give the bytes of the whole batch.

use super::pass::{PassOrder, PassPlan};
use super::source::DataSource;
use crate::cpu::{BatchSize, PassMemory};
use crate::memory::{FreeMemory, LimitedBy, gigabytes};

/// A graph that does not fit into memory.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "graph {graph}: it takes about {} of memory ({nodes} nodes, {edges} edges), and {} of {} ({by}) are free; leave it out, or use a machine with more memory",
    gigabytes(*needed),
    gigabytes(*free),
    gigabytes(*limit)
)]
pub struct GraphTooLarge {
    /// The graph's number in the pass.
    pub graph: usize,
    /// Its nodes.
    pub nodes: usize,
    /// Its edges that the network follows.
    pub edges: usize,
    /// Bytes that a pass over the graph takes.
    pub needed: f64,
    /// Bytes that are free.
    pub free: f64,
    /// Bytes that the limit allows.
    pub limit: f64,
    /// What limits the memory.
    pub by: LimitedBy,
}

/// Divides the batches of a pass in inference that do not fit into the free memory. Returns the
/// order and the bytes of its largest batch.
///
/// `held` are bytes that earlier passes have taken and that this pass uses again.
///
/// # Errors
/// If a graph alone does not fit.
pub fn divide_batches(
    source: &dyn DataSource,
    plan: &PassPlan,
    memory: &PassMemory<'_>,
    held: f64,
    free: Option<FreeMemory>,
) -> Result<(PassOrder, f64), GraphTooLarge> {
    let order = &plan.order;
    let mut places = Vec::new();
    let mut most = 0f64;
    for number in plan.from..order.batches() {
        let mut piece = BatchSize::default();
        let first = order.graphs_before(number);
        for (at, &graph) in order.batch(number).iter().enumerate() {
            let size = source.size(plan, graph);
            let mut larger = piece;
            larger.add(size);
            let mut bytes = memory.bytes(&larger);
            if let Some(free) = free.filter(|free| bytes > free.bytes + held) {
                piece = BatchSize::from_iter([size]);
                bytes = memory.bytes(&piece);
                if bytes > free.bytes + held {
                    let (nodes, edges) = (size.nodes, size.followed);
                    let FreeMemory { bytes: free, limit, by } = free;
                    return Err(GraphTooLarge { graph, nodes, edges, needed: bytes, free: free + held, limit, by });
                }
                places.push(first + at);
            } else {
                piece = larger;
            }
            most = most.max(bytes);
        }
    }
    Ok((order.divided(places), most))
}
