//! Data sets to JSON lines.

use std::io::Write;
use std::ops::Range;
use std::path::Path;

use gt_graph::{FeatureRows, GraphRef, GraphStore, Level, TargetRows};

use crate::atomic::write_atomic;
use crate::columns as c;
use crate::dataset::Dataset;
use crate::error::{DataError, Result};
use crate::scalar::Scalar;
use crate::stored_schema::StoredSchema;

/// Writes a data set with one line per graph.
pub(crate) fn write(dataset: &Dataset, path: &Path) -> Result<()> {
    write_atomic(path, |out| {
        let mut line = Line::default();
        for graph in 0..dataset.graphs().len() {
            line.0.clear();
            line.record(dataset, graph);
            out.write_all(&line.0).map_err(|e| DataError::io(path, e))?;
        }
        Ok(())
    })
}

/// A line of text under construction.
#[derive(Default)]
struct Line(Vec<u8>);

impl Line {
    fn record(&mut self, dataset: &Dataset, index: usize) {
        let store = dataset.graphs();
        let graph = store.graph(index);
        self.0.push(b'{');
        if index == 0 {
            self.key(c::SCHEMA);
            self.0.extend_from_slice(StoredSchema::new(dataset.schema()).to_line().as_bytes());
        }
        if let Some(split) = dataset.split() {
            let names = |line: &mut Self, row: usize| line.text(split.name(row));
            match split.level {
                Level::Graph => {
                    self.key(c::SPLIT);
                    names(self, index);
                }
                Level::Node => self.key(c::NODE_SPLIT).list(store.node_range(index), names),
                Level::Edge => self.key(c::EDGE_SPLIT).list(store.edge_range(index), names),
            }
        }
        self.key(c::NUM_NODES).integer(graph.num_nodes() as u64);
        let layout = store.layout();
        self.features(
            &graph.node(),
            graph.num_nodes(),
            layout.node.categorical,
            layout.node.continuous,
            c::NODE_FEATURES,
        );
        self.key(c::EDGE_INDEX).list([graph.src(), graph.dst()], |line, ends| {
            line.list(ends, |line, &node| line.integer(node.into()));
        });
        self.features(
            &graph.edge(),
            graph.num_edges(),
            layout.edge.categorical,
            layout.edge.continuous,
            c::EDGE_FEATURES,
        );
        self.targets(store, &graph);
        for extra in dataset.extras() {
            if let Some(scalar) = Scalar::at(&extra.values, index) {
                self.key(extra.name()).0.extend_from_slice(scalar.to_json().as_bytes());
            }
        }
        self.encodings(store, index);
        self.0.extend_from_slice(b"}\n");
    }

    fn key(&mut self, name: &str) -> &mut Self {
        if self.0.last() != Some(&b'{') {
            self.0.push(b',');
        }
        self.text(name);
        self.0.push(b':');
        self
    }

    fn features(&mut self, rows: &FeatureRows<'_>, count: usize, a: usize, b: usize, names: [&str; 3]) {
        if a > 0 {
            self.key(names[0]).list(0..count, |line, row| {
                line.list(&rows.categorical[row * a..(row + 1) * a], |line, &v| line.integer(v.into()));
            });
        }
        if b > 0 {
            let name = if a > 0 { names[1] } else { names[0] };
            self.key(name).list(0..count, |line, row| {
                line.list(&rows.continuous[row * b..(row + 1) * b], |line, &v| line.real(v));
            });
        }
        if let Some(words) = &rows.multi_hot {
            self.key(names[2]).list(0..count, |line, row| line.list(words.row(row), |line, &v| line.integer(v.into())));
        }
    }

    fn targets(&mut self, store: &GraphStore, graph: &GraphRef<'_>) {
        let (Some(layout), Some(rows)) = (store.layout().target, graph.target()) else { return };
        let value = |line: &mut Self, at: usize| match (rows, rows.get(at)) {
            (_, None) => line.0.extend_from_slice(b"null"),
            (TargetRows::Float(values), _) => line.real(values[at]),
            (TargetRows::Class(values), _) => line.integer(values[at].into()),
        };
        let count = rows.len();
        let columns = layout.columns;
        self.key(c::Y);
        if layout.level == Level::Graph || columns == 1 {
            self.list(0..count, value);
        } else {
            self.list(0..count / columns.max(1), |line, row| line.list(row * columns..(row + 1) * columns, value));
        }
    }

    fn encodings(&mut self, store: &GraphStore, index: usize) {
        let nodes = store.node_range(index);
        let encodings = store.encodings();
        for (name, coordinates) in [(c::LAP_PE, &encodings.laplacian), (c::RW_PE, &encodings.random_walk)] {
            if let Some(coordinates) = coordinates {
                self.key(name).list(nodes.clone(), |line, node: usize| {
                    line.list(coordinates.rows(node..node + 1), |line, &v| line.real(v));
                });
            }
        }
        if let Some(roles) = &encodings.weisfeiler_lehman {
            self.key(c::WL_PE).list(&roles[Range { ..nodes }], |line, &role| line.integer(role.into()));
        }
    }

    fn list<T>(&mut self, items: impl IntoIterator<Item = T>, mut item: impl FnMut(&mut Self, T)) {
        self.0.push(b'[');
        for (at, value) in items.into_iter().enumerate() {
            if at > 0 {
                self.0.push(b',');
            }
            item(self, value);
        }
        self.0.push(b']');
    }

    fn integer(&mut self, value: u64) {
        self.0.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }

    /// Writes the shortest text that reads back as the same number, always recognisable as a real
    /// number.
    fn real(&mut self, value: f32) {
        write!(self.0, "{value:?}").expect("writing to memory");
    }

    fn text(&mut self, value: &str) {
        serde_json::to_writer(&mut self.0, value).expect("writing to memory");
    }
}
