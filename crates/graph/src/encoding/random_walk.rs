//! Random-walk encoding: the probability of being back at the start after t steps.
//!
//! p_i(t) = ((D^-1 A)^t)_ii for t = 1..T. A step leaves node i along one of its out-edges, each
//! with equal probability (multi-edges count as often as they occur, a self loop stays). From a
//! node without out-edges the walk is lost, so an isolated node, a one-node graph and a graph
//! without edges give zeros. The values are sign-free and move with the nodes under any
//! renumbering.

use super::Encoding;
use crate::error::GraphError;
use crate::store::GraphRef;

/// Return probabilities of a simple random walk after 1..=`steps` steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomWalk {
    /// T, the number of values per node.
    pub steps: usize,
}

impl Encoding for RandomWalk {
    type Value = f32;

    fn width(&self) -> usize {
        self.steps
    }

    /// One walk distribution per start node with out-edges is pushed through the edges:
    /// O(nodes · edges · steps), no matrix.
    fn encode(&self, graph: GraphRef<'_>, out: &mut [f32]) -> Result<(), GraphError> {
        let n = graph.num_nodes();
        let mut out_degree = vec![0.0f64; n];
        for &s in graph.src() {
            out_degree[s as usize] += 1.0;
        }
        let leave: Vec<f64> = out_degree.iter().map(|&d| if d > 0.0 { 1.0 / d } else { 0.0 }).collect();
        let mut here = vec![0.0f64; n];
        let mut next = vec![0.0f64; n];
        for (start, row) in out.chunks_exact_mut(self.steps.max(1)).enumerate() {
            // A file may claim a million nodes without edges, and their walks are lost at once.
            if leave[start] == 0.0 {
                row.fill(0.0);
                continue;
            }
            here.fill(0.0);
            here[start] = 1.0;
            for value in row {
                next.fill(0.0);
                for (&s, &d) in graph.src().iter().zip(graph.dst()) {
                    next[d as usize] += here[s as usize] * leave[s as usize];
                }
                std::mem::swap(&mut here, &mut next);
                *value = here[start] as f32;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Graph, GraphParts};

    fn walk(num_nodes: usize, src: &[u32], dst: &[u32], steps: usize) -> Vec<f32> {
        let graph = Graph::new(GraphParts { num_nodes, src, dst, ..Default::default() }).unwrap();
        let mut out = vec![-1.0; num_nodes * steps];
        RandomWalk { steps }.encode(graph.view(), &mut out).unwrap();
        out
    }

    #[test]
    fn a_path_of_three_returns_at_even_steps_only() {
        let p = walk(3, &[0, 1, 1, 2], &[1, 0, 2, 1], 4);
        assert_eq!(p, [0.0, 0.5, 0.0, 0.5, 0.0, 1.0, 0.0, 1.0, 0.0, 0.5, 0.0, 0.5]);
    }

    #[test]
    fn multi_edges_weigh_double_and_self_loops_stay() {
        // 0 → 1 twice, 0 → 0 once, 1 → 0: p_0(1) = 1/3, p_0(2) = 1/9 + 2/3.
        let p = walk(2, &[0, 0, 0, 1], &[1, 1, 0, 0], 2);
        assert_eq!(p[0], 1.0 / 3.0);
        assert!((p[1] - 7.0 / 9.0).abs() < 1e-7);
    }

    #[test]
    fn lost_walks_and_edgeless_graphs_give_zeros() {
        assert_eq!(walk(2, &[0], &[1], 3), [0.0; 6]);
        assert_eq!(walk(1, &[], &[], 2), [0.0; 2]);
        assert_eq!(walk(0, &[], &[], 2), [0.0; 0]);
        // Quadratic time would be a million steps for each of a million nodes.
        assert_eq!(walk(1_000_000, &[5], &[5], 1).iter().sum::<f32>(), 1.0);
    }
}
