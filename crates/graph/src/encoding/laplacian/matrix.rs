//! The graph's matrix, cut into its connected components.
//!
//! An edge s → d adds ½ to A_sd and to A_ds; a self loop adds 1 to A_ss. The result is (A + Aᵀ) / 2
//! for any edge list, and A itself where every edge is listed both ways.

use std::borrow::Cow;

use crate::store::GraphRef;

/// The connected components of a graph, in the order of their first nodes, with edges in local
/// numbers.
pub(super) struct Components<'a> {
    /// Nodes of component c, ascending: `nodes[node_offsets[c]..node_offsets[c + 1]]`.
    node_offsets: Vec<usize>,
    nodes: Vec<u32>,
    edge_offsets: Vec<usize>,
    src: Cow<'a, [u32]>,
    dst: Cow<'a, [u32]>,
    /// Component of each node, and its number inside.
    pub(super) place: Vec<(u32, u32)>,
}

/// One component: edges between nodes `0..num_nodes`.
pub(super) struct Component<'a> {
    pub(super) num_nodes: usize,
    pub(super) src: &'a [u32],
    pub(super) dst: &'a [u32],
}

impl<'a> Components<'a> {
    pub(super) fn of(graph: &GraphRef<'a>) -> Self {
        let n = graph.num_nodes();
        let root = roots(graph);
        // Roots are the smallest nodes of their components, so this numbers components by first
        // node.
        let mut place = vec![(0u32, 0u32); n];
        let mut sizes: Vec<usize> = Vec::new();
        for i in 0..n {
            let component = if root[i] as usize == i {
                sizes.push(0);
                sizes.len() - 1
            } else {
                place[root[i] as usize].0 as usize
            };
            place[i] = (component as u32, sizes[component] as u32);
            sizes[component] += 1;
        }
        let node_offsets = offsets(&sizes);
        if sizes.len() <= 1 {
            let edge_offsets = if n == 0 { vec![0] } else { vec![0, graph.num_edges()] };
            let nodes = (0..n as u32).collect();
            let (src, dst) = (Cow::Borrowed(graph.src()), Cow::Borrowed(graph.dst()));
            return Self { node_offsets, nodes, edge_offsets, src, dst, place };
        }
        let mut nodes = vec![0u32; n];
        for (i, &(component, local)) in place.iter().enumerate() {
            nodes[node_offsets[component as usize] + local as usize] = i as u32;
        }
        let mut counts = vec![0usize; sizes.len()];
        graph.src().iter().for_each(|&s| counts[place[s as usize].0 as usize] += 1);
        let edge_offsets = offsets(&counts);
        let mut next = edge_offsets.clone();
        let mut src = vec![0u32; graph.num_edges()];
        let mut dst = src.clone();
        for (&s, &d) in graph.src().iter().zip(graph.dst()) {
            let (component, local) = place[s as usize];
            let at = &mut next[component as usize];
            src[*at] = local;
            dst[*at] = place[d as usize].1;
            *at += 1;
        }
        Self { node_offsets, nodes, edge_offsets, src: src.into(), dst: dst.into(), place }
    }

    pub(super) fn len(&self) -> usize {
        self.node_offsets.len() - 1
    }

    pub(super) fn component(&self, c: usize) -> Component<'_> {
        let edges = self.edge_offsets[c]..self.edge_offsets[c + 1];
        Component { num_nodes: self.nodes(c).len(), src: &self.src[edges.clone()], dst: &self.dst[edges] }
    }

    /// The graph's numbers of a component's nodes, ascending.
    pub(super) fn nodes(&self, c: usize) -> &[u32] {
        &self.nodes[self.node_offsets[c]..self.node_offsets[c + 1]]
    }
}

/// The smallest node of each node's component, by union–find.
fn roots(graph: &GraphRef<'_>) -> Vec<u32> {
    let mut parent: Vec<u32> = (0..graph.num_nodes() as u32).collect();
    fn find(parent: &mut [u32], mut i: u32) -> u32 {
        while parent[i as usize] != i {
            parent[i as usize] = parent[parent[i as usize] as usize];
            i = parent[i as usize];
        }
        i
    }
    for (&s, &d) in graph.src().iter().zip(graph.dst()) {
        let (a, b) = (find(&mut parent, s), find(&mut parent, d));
        parent[a.max(b) as usize] = a.min(b);
    }
    for i in 0..parent.len() {
        // A parent is never larger than its child, so it already points to its root.
        parent[i] = parent[parent[i] as usize];
    }
    parent
}

fn offsets(counts: &[usize]) -> Vec<usize> {
    let mut sum = 0;
    std::iter::once(0)
        .chain(counts.iter().map(|c| {
            sum += c;
            sum
        }))
        .collect()
}

/// D of a component, in the two forms that are needed.
pub(super) struct Degrees {
    /// D^-1/2, `[nodes]`.
    pub(super) inverse_root: Vec<f64>,
    /// The unit vector along D^1/2 · 1, which spans the null space where no degree had to be raised
    /// to 1.
    pub(super) null: Option<Vec<f64>>,
}

impl Degrees {
    pub(super) fn of(component: &Component<'_>) -> Self {
        let mut degree = vec![0.0f64; component.num_nodes];
        for ends in [component.src, component.dst] {
            ends.iter().for_each(|&i| degree[i as usize] += 0.5);
        }
        let inverse_root = degree.iter().map(|d| 1.0 / d.max(1.0).sqrt()).collect();
        let null = degree.iter().all(|&d| d >= 1.0).then(|| {
            let norm = degree.iter().sum::<f64>().sqrt();
            degree.iter().map(|d| d.sqrt() / norm).collect()
        });
        Self { inverse_root, null }
    }
}

/// D^-1/2 A D^-1/2 of a component by rows, columns ascending, every entry once.
pub(super) struct Sparse {
    pub(super) offsets: Vec<usize>,
    pub(super) columns: Vec<u32>,
    pub(super) values: Vec<f64>,
}

impl Sparse {
    pub(super) fn of(component: &Component<'_>, degrees: &Degrees) -> Self {
        let n = component.num_nodes;
        let mut counts = vec![0usize; n];
        for ends in [component.src, component.dst] {
            ends.iter().for_each(|&i| counts[i as usize] += 1);
        }
        let starts = offsets(&counts);
        // Sorting by column and then, stably, by row; the half entries are symmetric, so both sorts
        // have the same offsets.
        let mut by_column = vec![0u32; starts[n]];
        let mut next = starts.clone();
        let mut put = |list: &mut [u32], at: u32, value: u32| {
            list[next[at as usize]] = value;
            next[at as usize] += 1;
        };
        for (&s, &d) in component.src.iter().zip(component.dst) {
            put(&mut by_column, d, s);
            put(&mut by_column, s, d);
        }
        let mut by_row = vec![0u32; starts[n]];
        next.copy_from_slice(&starts);
        for column in 0..n {
            for &row in &by_column[starts[column]..starts[column + 1]] {
                by_row[next[row as usize]] = column as u32;
                next[row as usize] += 1;
            }
        }
        drop(by_column);
        let scale = &degrees.inverse_root;
        let (mut columns, mut values) = (Vec::new(), Vec::new());
        let mut offsets = Vec::with_capacity(n + 1);
        offsets.push(0);
        for row in 0..n {
            for same in by_row[starts[row]..starts[row + 1]].chunk_by(|a, b| a == b) {
                columns.push(same[0]);
                values.push(0.5 * same.len() as f64 * scale[row] * scale[same[0] as usize]);
            }
            offsets.push(columns.len());
        }
        Self { offsets, columns, values }
    }
}
