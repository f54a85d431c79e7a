//! The edges of a block, as kernels follow them.

/// The edges of some consecutive nodes, the *own* ones.
///
/// Node and edge numbers are absolute. Arrays that are read at an edge's other end are *shared*:
/// they begin at `first_node` and `first_edge`, and hold every end. Arrays of own rows begin with
/// the first own node, or the first edge into it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edges<'a> {
    /// `[own nodes + 1]`
    pub(crate) in_offsets: &'a [u32],
    /// Source of each edge into a node, in in-order, of the whole batch.
    pub(crate) in_src: &'a [u32],
    /// `[own nodes + 1]`
    pub(crate) out_offsets: &'a [u32],
    /// Target of each edge out of a node, of the whole batch.
    pub(crate) out_dst: &'a [u32],
    /// In-order position of each edge out of a node, of the whole batch.
    pub(crate) out_to_in: &'a [u32],
    /// The first own node.
    pub(crate) own_node: usize,
    pub(crate) first_node: usize,
    pub(crate) first_edge: usize,
    pub(crate) shared_nodes: usize,
    pub(crate) shared_edges: usize,
}

impl Edges<'_> {
    pub(crate) fn nodes(&self) -> usize {
        self.in_offsets.len() - 1
    }

    pub(crate) fn edges(&self) -> usize {
        (self.in_offsets[self.nodes()] - self.in_offsets[0]) as usize
    }

    /// Checks every index that the kernels will follow. It is done once per batch; the kernels rely
    /// on it.
    pub(crate) fn check(&self) {
        let n = self.nodes();
        assert_eq!(self.out_offsets.len(), n + 1);
        assert!(self.in_offsets.is_sorted() && self.out_offsets.is_sorted());
        let ins = self.in_offsets[0] as usize..self.in_offsets[n] as usize;
        let outs = self.out_offsets[0] as usize..self.out_offsets[n] as usize;
        let among = |values: &[u32], first: usize, count: usize| {
            values.iter().all(|&v| (v as usize).wrapping_sub(first) < count)
        };
        assert!(among(&self.in_src[ins.clone()], self.first_node, self.shared_nodes));
        assert!(among(&self.out_dst[outs.clone()], self.first_node, self.shared_nodes));
        assert!(among(&self.out_to_in[outs], self.first_edge, self.shared_edges));
        assert!(self.own_node >= self.first_node && self.own_node + n <= self.first_node + self.shared_nodes);
        assert!(ins.start >= self.first_edge && ins.end <= self.first_edge + self.shared_edges);
    }
}
