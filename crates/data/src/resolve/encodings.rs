//! Positional encodings that a file stores.
//!
//! A file has an encoding if a graph of the first chunk has it. Each graph with nodes then needs
//! the encoding.

use gt_graph::Level;
use gt_graph::encoding::{Coordinates, EncodingKind, Encodings};

use super::Wanted;
use crate::raw::{RawColumn, RawGraphs};
use crate::reason::{Problem, Reason};

/// Encodings of the accepted graphs.
pub(super) struct EncodingRows([Rows; 3]);

/// The order of encodings in raw graphs.
const KINDS: [EncodingKind; 3] = [EncodingKind::Laplacian, EncodingKind::RandomWalk, EncodingKind::WeisfeilerLehman];

/// Rows of one encoding.
#[derive(Default)]
struct Rows {
    read: bool,
    /// Whether the file has the encoding.
    stored: bool,
    roles: bool,
    /// Values per node: the model's width, otherwise the width of the first graph with nodes.
    width: Option<usize>,
    /// Whether the width is the model's, or a graph with this width has been accepted.
    settled: bool,
    coordinates: Vec<f32>,
    indices: Vec<u32>,
}

impl EncodingRows {
    /// Prepares the wanted encodings. An expected encoding has the width that the model reads.
    pub(super) fn new(wanted: Wanted) -> Self {
        let width = wanted.encoding.flatten().map(|only| only.width);
        Self(KINDS.map(|kind| {
            let (read, roles) = (wanted.has_encoding(kind), kind == EncodingKind::WeisfeilerLehman);
            let width = if roles { Some(1) } else { width };
            Rows { read, roles, width, settled: width.is_some(), ..Rows::default() }
        }))
    }

    /// Determines from the first graphs which encodings the file has.
    pub(super) fn begin(&mut self, raw: &RawGraphs) {
        for (rows, column) in self.0.iter_mut().zip(&raw.encodings) {
            let mut graphs = (0..raw.count).filter(|graph| !raw.broken.contains_key(graph));
            rows.stored = rows.read && graphs.any(|graph| column.is_present(graph));
        }
    }

    pub(super) fn judge(&mut self, raw: &[RawColumn; 3], graph: usize, nodes: usize) -> Result<(), Reason> {
        self.0.iter_mut().zip(raw).filter(|(rows, _)| rows.read).try_for_each(|(rows, column)| {
            let present = column.is_present(graph);
            match (rows.stored, present) {
                (false, true) if nodes > 0 => Err(Reason::column(&column.name, Problem::Unknown)),
                (true, false) if nodes > 0 => Err(Reason::column(&column.name, Problem::Missing)),
                (true, true) => rows.read(column, graph, nodes),
                _ => Ok(()),
            }
        })
    }

    /// Keeps the rows of the last graph.
    pub(super) fn keep(&mut self) {
        self.0.iter_mut().for_each(|rows| rows.settled = rows.width.is_some());
    }

    /// Removes the rows of the last graph. `nodes` is the number of nodes that remain.
    pub(super) fn forget(&mut self, nodes: usize) {
        for rows in &mut self.0 {
            rows.coordinates.truncate(nodes * rows.width.unwrap_or(0));
            rows.indices.truncate(nodes);
            rows.width = rows.width.filter(|_| rows.settled);
        }
    }

    /// Returns the rows that were kept since the last call.
    pub(super) fn take(&mut self) -> Encodings {
        let [laplacian, random_walk, roles] = &mut self.0;
        let coordinates = |rows: &mut Rows| {
            let width = rows.width.filter(|_| rows.stored)?;
            let mut values = std::mem::take(&mut rows.coordinates);
            values.shrink_to_fit();
            Some(Coordinates { width, values })
        };
        Encodings {
            laplacian: coordinates(laplacian),
            random_walk: coordinates(random_walk),
            weisfeiler_lehman: roles.width.filter(|_| roles.stored).map(|_| std::mem::take(&mut roles.indices)),
        }
    }
}

impl Rows {
    fn read(&mut self, column: &RawColumn, graph: usize, nodes: usize) -> Result<(), Reason> {
        let first = column.width(graph).unwrap_or(0);
        let width = self.width.unwrap_or(first);
        let block = column.block(Level::Node, graph, nodes, width)?;
        if nodes > 0 {
            self.width = Some(width);
        }
        let appended = if self.roles {
            column.append_indices(block, &mut self.indices, Problem::NotARole)
        } else {
            column.append_reals(block, &mut self.coordinates)
        };
        appended.map_err(|(at, problem)| Reason::cell(Level::Node, at / width.max(1), &column.name, problem))
    }
}
