//! Pairs of nodes, graph by graph, and drawing pairs that no edge joins.

use std::collections::HashSet;

use gt_data::RandomStream;

/// Two nodes of one graph; in ascending order if links are undirected.
pub(crate) type Pair = (u32, u32);

/// The two nodes in ascending order.
pub(crate) fn ascending((a, b): Pair) -> Pair {
    (a.min(b), a.max(b))
}

/// Pairs of every graph of a set.
#[derive(Clone, Debug)]
pub(crate) struct PairLists {
    offsets: Vec<usize>,
    pairs: Vec<Pair>,
}

impl PairLists {
    /// An empty set, without graphs.
    pub(crate) fn new() -> Self {
        Self { offsets: vec![0], pairs: Vec::new() }
    }

    /// Appends a graph.
    pub(crate) fn push(&mut self, pairs: impl IntoIterator<Item = Pair>) {
        self.pairs.extend(pairs);
        self.offsets.push(self.pairs.len());
    }

    /// Pairs of a graph.
    pub(crate) fn of(&self, graph: usize) -> &[Pair] {
        &self.pairs[self.offsets[graph]..self.offsets[graph + 1]]
    }

    /// Pairs of all graphs.
    pub(crate) fn len(&self) -> usize {
        self.pairs.len()
    }
}

/// Draws `count` different pairs of different nodes that are not among `edges` (ascending), each
/// pair equally likely; if there are fewer pairs, all of them.
pub(crate) fn draw_non_edges(
    nodes: usize,
    directed: bool,
    edges: &[Pair],
    count: usize,
    random: &mut RandomStream,
) -> Vec<Pair> {
    let all = nodes * nodes.saturating_sub(1) / if directed { 1 } else { 2 };
    let count = count.min(all - edges.len());
    let free = |pair: &Pair| edges.binary_search(pair).is_err();
    if edges.len() + count > all / 2 {
        // There are then fewer than 2·(edges + count) pairs to look at.
        let nodes = nodes as u32;
        let after = |a: u32| (if directed { 0 } else { a + 1 }..nodes).filter(move |&b| a != b).map(move |b| (a, b));
        let mut pairs: Vec<Pair> = (0..nodes).flat_map(after).filter(free).collect();
        random.shuffle(&mut pairs);
        pairs.truncate(count);
        return pairs;
    }
    // Every other draw or more is taken.
    let (mut pairs, mut taken) = (Vec::with_capacity(count), HashSet::with_capacity(count));
    while pairs.len() < count {
        let (a, b) = (random.below(nodes as u32), random.below(nodes as u32 - 1));
        let pair = (a, b + u32::from(b >= a));
        let pair = if directed { pair } else { ascending(pair) };
        if free(&pair) && taken.insert(pair) {
            pairs.push(pair);
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(nodes: usize, directed: bool, edges: &[Pair], count: usize) -> Vec<Pair> {
        draw_non_edges(nodes, directed, edges, count, &mut RandomStream::new(3, 1, 0))
    }

    #[test]
    fn drawn_pairs_differ_and_are_no_edges_at_any_density() {
        for directed in [false, true] {
            let all: Vec<Pair> = (0..20)
                .flat_map(|a| (0..20).map(move |b| (a, b)))
                .filter(|&(a, b)| a < b || directed && a != b)
                .collect();
            for edges in [0, 10, all.len() / 2, all.len() - 3, all.len()] {
                let mut edges: Vec<Pair> = all.iter().copied().cycle().step_by(7).take(edges).collect();
                edges.sort_unstable();
                edges.dedup();
                for count in [0, 5, 60, 1_000] {
                    let drawn = draw(20, directed, &edges, count);
                    assert_eq!(drawn.len(), count.min(all.len() - edges.len()));
                    assert!(drawn.iter().all(|pair| all.contains(pair) && !edges.contains(pair)), "{drawn:?}");
                    assert_eq!(drawn.iter().collect::<HashSet<_>>().len(), drawn.len());
                }
            }
        }
    }

    #[test]
    fn graphs_without_pairs_give_none() {
        for nodes in [0, 1] {
            assert!(draw(nodes, false, &[], 9).is_empty() && draw(nodes, true, &[], 9).is_empty());
        }
        assert!(draw(2, false, &[(0, 1)], 9).is_empty());
        assert_eq!(draw(2, true, &[(0, 1)], 9), [(1, 0)]);
    }

    #[test]
    fn every_pair_without_an_edge_is_equally_likely() {
        // One of ten pairs is an edge; each of the other nine is drawn 2000 times of 18,000 on
        // average (deviation 42).
        for directed in [false, true] {
            let mut counts = std::collections::BTreeMap::new();
            for number in 0..if directed { 19_000 } else { 18_000 } {
                let mut random = RandomStream::new(3, 1, number);
                let pairs = draw_non_edges(5, directed, &[(1, 3)], 1, &mut random);
                *counts.entry(pairs[0]).or_insert(0) += 1;
            }
            let (left, mean) = if directed { (19, 1_000) } else { (9, 2_000) };
            assert_eq!(counts.len(), left);
            assert!(counts.values().all(|count: &i32| (count - mean).abs() < 250), "{counts:?}");
        }
    }
}
