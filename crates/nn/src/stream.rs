//! The two streams of rows that a network computes: nodes and edges.

/// The stream that a value or parameter belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Nodes.
    Node,
    /// Edges.
    Edge,
}

/// One value per stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pair<T> {
    pub(crate) node: T,
    pub(crate) edge: T,
}

impl<T> Pair<T> {
    pub(crate) fn of(&self, stream: Stream) -> &T {
        match stream {
            Stream::Node => &self.node,
            Stream::Edge => &self.edge,
        }
    }

    pub(crate) fn of_mut(&mut self, stream: Stream) -> &mut T {
        match stream {
            Stream::Node => &mut self.node,
            Stream::Edge => &mut self.edge,
        }
    }
}
