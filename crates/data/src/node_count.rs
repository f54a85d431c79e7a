//! A stated number of nodes, and how far it is believed.

use gt_graph::MAX_INDEX;

/// Checks a stated number.
pub(crate) fn node_count(value: f64) -> Result<usize, String> {
    if value.is_nan() {
        Err("the number of nodes is missing".into())
    } else if value < 0.0 || value > MAX_INDEX as f64 {
        Err(format!("{value} is not a number of nodes"))
    } else {
        Ok(value as usize)
    }
}

/// Refuses a number that nothing in the file backs: a graph without rows for its nodes may have this many more than edge ends, because a
/// number alone must not be able to claim memory.
pub(crate) fn check_unbacked(nodes: usize, edges: usize) -> Result<(), String> {
    const UNBACKED_NODES: usize = 1 << 20;
    if nodes > 2 * edges + UNBACKED_NODES {
        return Err(format!("{nodes} nodes, but no features of nodes and only {edges} edges"));
    }
    Ok(())
}
