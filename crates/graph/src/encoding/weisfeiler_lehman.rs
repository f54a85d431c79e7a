//! Weisfeiler–Lehman roles, exactly as the published code feeds them to the network.
//!
//! All nodes start with colour 1. A round hashes the string `own_neighbour_neighbour…` with MD5:
//! decimal colours joined by `_`, those of the neighbours sorted as strings. The new colour is 1 +
//! the rank of the hex digest among the graph's distinct digests. Neighbours are undirected and
//! counted once, whatever the number and direction of the edges; a self loop makes a node its own
//! neighbour. The published code runs two rounds and discards the second, so one round is the
//! default: a relabelling, per graph, of the node's degree. Colours that a round does not change
//! end the procedure.
//!
//! | input | result |
//! |---|---|
//! | one node, or no edges | every node has role 1 |
//! | directed edges | as if undirected |
//! | multi-edges | as if single |

use std::collections::BTreeMap;

use md5::{Digest, Md5};

use super::Encoding;
use crate::error::GraphError;
use crate::store::GraphRef;

/// WL colour refinement with a fixed number of rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeisfeilerLehman {
    /// Number of rounds that take effect; the published code's is 1.
    pub rounds: usize,
}

impl Default for WeisfeilerLehman {
    fn default() -> Self {
        Self { rounds: 1 }
    }
}

impl Encoding for WeisfeilerLehman {
    type Value = u32;

    fn width(&self) -> usize {
        1
    }

    fn encode(&self, graph: GraphRef<'_>, out: &mut [u32]) -> Result<(), GraphError> {
        out.fill(1);
        let (offsets, neighbours) = undirected_neighbours(&graph);
        let mut digests = vec![[0u8; 16]; graph.num_nodes()];
        for _ in 0..self.rounds {
            let names = ColourNames::new(out.iter().copied().max().unwrap_or(0));
            let mut text = String::new();
            let mut ranks: Vec<u32> = Vec::new();
            // Nodes of equal neighbourhood share a digest, and a graph has far fewer neighbourhoods
            // than nodes.
            let mut known: BTreeMap<String, [u8; 16]> = BTreeMap::new();
            for (node, digest) in digests.iter_mut().enumerate() {
                ranks.clear();
                ranks.extend(
                    neighbours[offsets[node]..offsets[node + 1]].iter().map(|&j| names.rank[out[j as usize] as usize]),
                );
                ranks.sort_unstable();
                text.clear();
                text.push_str(&names.sorted[names.rank[out[node] as usize] as usize]);
                for &rank in &ranks {
                    text.push('_');
                    text.push_str(&names.sorted[rank as usize]);
                }
                *digest = match known.get(&text) {
                    Some(found) => *found,
                    None => {
                        let fresh: [u8; 16] = Md5::digest(text.as_bytes()).into();
                        known.insert(text.clone(), fresh);
                        fresh
                    }
                };
            }
            let mut ranked: Vec<[u8; 16]> = known.into_values().collect();
            ranked.sort_unstable();
            let mut changed = false;
            for (colour, digest) in out.iter_mut().zip(&digests) {
                let rank = ranked.binary_search(digest).expect("every digest was collected");
                changed |= *colour != rank as u32 + 1;
                *colour = rank as u32 + 1;
            }
            if !changed {
                break;
            }
        }
        Ok(())
    }
}

/// Colours as decimal strings, and their order as strings ("10" before "2").
struct ColourNames {
    sorted: Vec<String>,
    /// Position in `sorted`, by colour.
    rank: Vec<u32>,
}

impl ColourNames {
    fn new(largest: u32) -> Self {
        let mut sorted: Vec<String> = (0..=largest).map(|colour| colour.to_string()).collect();
        sorted.sort_unstable();
        let mut rank = vec![0; sorted.len()];
        for (position, name) in sorted.iter().enumerate() {
            rank[name.parse::<usize>().expect("a decimal number")] = position as u32;
        }
        Self { sorted, rank }
    }
}

/// Adjacency lists without direction and multiplicity: neighbours of node i are
/// `list[offsets[i]..offsets[i + 1]]`.
fn undirected_neighbours(graph: &GraphRef<'_>) -> (Vec<usize>, Vec<u32>) {
    let mut pairs: Vec<(u32, u32)> =
        graph.src().iter().zip(graph.dst()).flat_map(|(&s, &d)| [(s, d), (d, s)]).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let mut offsets = vec![0usize; graph.num_nodes() + 1];
    pairs.iter().for_each(|&(s, _)| offsets[s as usize + 1] += 1);
    for i in 0..graph.num_nodes() {
        offsets[i + 1] += offsets[i];
    }
    (offsets, pairs.into_iter().map(|(_, d)| d).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Graph, GraphParts};

    fn roles(num_nodes: usize, src: &[u32], dst: &[u32], rounds: usize) -> Vec<u32> {
        let graph = Graph::new(GraphParts { num_nodes, src, dst, ..Default::default() }).unwrap();
        let mut out = vec![0; num_nodes];
        WeisfeilerLehman { rounds }.encode(graph.view(), &mut out).unwrap();
        out
    }

    #[test]
    fn graphs_without_structure_have_one_role() {
        assert_eq!(roles(1, &[], &[], 1), [1]);
        assert_eq!(roles(4, &[], &[], 1), [1; 4]);
        assert_eq!(roles(0, &[], &[], 1), [0u32; 0]);
        assert_eq!(roles(2, &[0, 1], &[1, 0], 1), [1, 1]);
    }

    #[test]
    fn direction_and_multiplicity_do_not_matter_but_self_loops_do() {
        let path = roles(3, &[0, 1, 1, 2], &[1, 0, 2, 1], 1);
        assert_eq!(roles(3, &[0, 1], &[1, 2], 1), path);
        assert_eq!(roles(3, &[0, 0, 1, 2], &[1, 1, 2, 1], 1), path);
        assert_eq!(path[0], path[2]);
        assert_ne!(path[0], path[1]);
        assert_eq!(roles(2, &[0, 0], &[1, 0], 1).iter().collect::<std::collections::BTreeSet<_>>().len(), 2);
    }

    #[test]
    fn a_second_round_tells_apart_what_degrees_cannot() {
        // A path of six: ends, their neighbours and the middle differ after two rounds.
        let src = [0, 1, 1, 2, 2, 3, 3, 4, 4, 5];
        let dst = [1, 0, 2, 1, 3, 2, 4, 3, 5, 4];
        let one = roles(6, &src, &dst, 1);
        let two = roles(6, &src, &dst, 2);
        assert_eq!(one[1], one[2]);
        assert_ne!(two[1], two[2]);
    }
}
