//! Data sets to native Parquet: one row per graph.
//!
//! Row groups are cut by size alone and encoded in parallel, so the bytes do not depend on the
//! number of threads.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, DictionaryArray, Float32Array, Int32Array, Int64Array, ListArray, StringArray};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{Field, FieldRef, Schema as ArrowSchema, SchemaRef};
use gt_graph::encoding::Coordinates;
use gt_graph::{FeatureLayout, Level, MISSING_CLASS, TargetKind, TargetLayout, TargetRows};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use rayon::prelude::*;

use super::checksums::{EncodedGroup, GroupEncoder, open};
use crate::atomic::write_atomic;
use crate::columns as c;
use crate::dataset::{Dataset, Splits};
use crate::error::{DataError, FileProblem, Result};
use crate::stored_schema::StoredSchema;

/// Numbers that end a row group: nodes plus edges, and graphs.
const GROUP_VALUES: usize = 1 << 20;
const GROUP_GRAPHS: usize = 1 << 16;

/// Writes a data set in the native format.
pub(crate) fn write(dataset: &Dataset, path: &Path) -> Result<()> {
    write_atomic(path, |out| {
        let failed = |e: parquet::errors::ParquetError| DataError::file(path, FileProblem::Encoder(e.to_string()));
        let schema: SchemaRef = Arc::new(ArrowSchema::new(
            Columns { dataset, graphs: 0..0 }.build(path)?.into_iter().map(|(field, _)| field).collect::<Vec<_>>(),
        ));
        let (mut file, encoder) = open(&mut *out, schema, properties()).map_err(failed)?;
        // One row group per thread is encoded at a time. All threads are busy, and memory stays
        // bounded.
        let groups: Vec<Range<usize>> = row_groups(dataset);
        for (wave, ranges) in groups.chunks(rayon::current_num_threads()).enumerate() {
            let first = wave * rayon::current_num_threads();
            let encoded: Vec<Result<EncodedGroup>> = ranges
                .par_iter()
                .enumerate()
                .map(|(i, range)| encode_group(dataset, range.clone(), &encoder, first + i, path))
                .collect();
            for group in encoded {
                file.append(group?).map_err(failed)?;
            }
        }
        file.close().map(|_| ()).map_err(failed)
    })
}

fn properties() -> WriterProperties {
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1).expect("level 1 exists")))
        // Statistics of node indices per page would help no query.
        .set_statistics_enabled(EnabledStatistics::None)
        .set_created_by(concat!("graph-transformer ", env!("CARGO_PKG_VERSION")).into())
        .build()
}

fn row_groups(dataset: &Dataset) -> Vec<Range<usize>> {
    let graphs = dataset.graphs();
    let mut groups = Vec::new();
    let (mut start, mut values) = (0, 0);
    for graph in 0..graphs.len() {
        values += graphs.node_range(graph).len() + graphs.edge_range(graph).len();
        if values >= GROUP_VALUES || graph + 1 - start >= GROUP_GRAPHS || graph + 1 == graphs.len() {
            groups.push(start..graph + 1);
            (start, values) = (graph + 1, 0);
        }
    }
    groups
}

fn encode_group(
    dataset: &Dataset,
    graphs: Range<usize>,
    encoder: &GroupEncoder,
    number: usize,
    path: &Path,
) -> Result<EncodedGroup> {
    let failed = |e: parquet::errors::ParquetError| DataError::file(path, FileProblem::Encoder(e.to_string()));
    let mut group = encoder.begin(number).map_err(failed)?;
    let columns = (Columns { dataset, graphs }).build(path)?;
    group.write(columns.iter().map(|(field, array)| (field.as_ref(), array))).map_err(failed)?;
    drop(columns);
    encoder.finish(group).map_err(failed)
}

/// Consecutive graphs of a data set as Arrow columns.
struct Columns<'a> {
    dataset: &'a Dataset,
    graphs: Range<usize>,
}

impl Columns<'_> {
    fn build(&self, path: &Path) -> Result<Vec<(FieldRef, ArrayRef)>> {
        let store = self.dataset.graphs();
        let mut columns: Vec<(&str, ArrayRef)> = Vec::new();
        let too_large = || DataError::file(path, FileProblem::TooLarge);

        if let Some(split) = self.dataset.split() {
            let (name, array) = self.split(split).ok_or_else(too_large)?;
            columns.push((name, array));
        }
        let sizes = self.graphs.clone().map(|g| store.node_range(g).len() as i64);
        columns.push((c::NUM_NODES, Arc::new(Int64Array::from_iter_values(sizes))));
        let node = &store.layout().node;
        columns.extend(self.features(Level::Node, node, c::NODE_FEATURES).ok_or_else(too_large)?);
        columns.push((c::EDGE_INDEX, self.edge_index().ok_or_else(too_large)?));
        let edge = &store.layout().edge;
        columns.extend(self.features(Level::Edge, edge, c::EDGE_FEATURES).ok_or_else(too_large)?);
        if let Some(layout) = store.layout().target {
            columns.push((c::Y, self.targets(layout).ok_or_else(too_large)?));
        }
        for extra in self.dataset.extras() {
            columns.push((extra.name(), extra.values.slice(self.graphs.start, self.graphs.len())));
        }
        let encodings = store.encodings();
        for (name, coordinates) in [(c::LAP_PE, &encodings.laplacian), (c::RW_PE, &encodings.random_walk)] {
            if let Some(coordinates) = coordinates {
                columns.push((name, self.coordinates(coordinates).ok_or_else(too_large)?));
            }
        }
        if let Some(roles) = &encodings.weisfeiler_lehman {
            let nodes = store.node_offsets()[self.graphs.start]..store.node_offsets()[self.graphs.end];
            let values = Int64Array::from_iter_values(roles[nodes].iter().map(|&r| i64::from(r)));
            columns.push((c::WL_PE, list(self.offsets(Level::Node).ok_or_else(too_large)?, Arc::new(values))));
        }
        columns.push((c::SCHEMA, self.schema()));
        Ok(columns
            .into_iter()
            .map(|(name, array)| (Arc::new(Field::new(name, array.data_type().clone(), true)), array))
            .collect())
    }

    /// The schema in every row, so that it survives row operations of other programs. A dictionary
    /// stores the text once.
    fn schema(&self) -> ArrayRef {
        let text = StoredSchema::new(self.dataset.schema()).to_line();
        let keys = Int32Array::from_value(0, self.graphs.len());
        Arc::new(DictionaryArray::new(keys, Arc::new(StringArray::from(vec![text]))))
    }

    /// Bounds of each graph's rows, relative to the first graph.
    fn offsets(&self, level: Level) -> Option<OffsetBuffer<i32>> {
        let store = self.dataset.graphs();
        let lengths = self.graphs.clone().map(|g| store.row_range(level, g).len());
        offsets(lengths)
    }

    fn split(&self, split: &Splits) -> Option<(&'static str, ArrayRef)> {
        let store = self.dataset.graphs();
        let mut text = StringBuilder::new();
        for graph in self.graphs.clone() {
            store.row_range(split.level, graph).for_each(|row| text.append_value(split.name(row)));
        }
        let text: ArrayRef = Arc::new(text.finish());
        Some(match split.level {
            Level::Graph => (c::SPLIT, text),
            Level::Node => (c::NODE_SPLIT, list(self.offsets(Level::Node)?, text)),
            Level::Edge => (c::EDGE_SPLIT, list(self.offsets(Level::Edge)?, text)),
        })
    }

    /// Categorical, continuous and multi-hot columns. If there is only one kind of numbers, its
    /// column has the first name.
    fn features(
        &self,
        level: Level,
        layout: &FeatureLayout,
        names: [&'static str; 3],
    ) -> Option<Vec<(&'static str, ArrayRef)>> {
        let store = self.dataset.graphs();
        let rows = |g: usize| if level == Level::Node { store.graph(g).node() } else { store.graph(g).edge() };
        let count: usize = self.graphs.clone().map(|g| store.row_range(level, g).len()).sum();
        let mut columns = Vec::new();
        if layout.categorical > 0 {
            let values = self.graphs.clone().flat_map(|g| rows(g).categorical).map(|&v| i64::from(v));
            let values = Int64Array::from_iter_values(values);
            columns.push((names[0], self.matrix(level, count, layout.categorical, Arc::new(values))?));
        }
        if layout.continuous > 0 {
            let values = Float32Array::from_iter_values(self.graphs.clone().flat_map(|g| rows(g).continuous).copied());
            let name = if layout.categorical > 0 { names[1] } else { names[0] };
            columns.push((name, self.matrix(level, count, layout.continuous, Arc::new(values))?));
        }
        if layout.multi_hot {
            let lists = || self.graphs.clone().filter_map(|g| rows(g).multi_hot);
            let values = Int64Array::from_iter_values(lists().flat_map(|l| l.indices).map(|&v| i64::from(v)));
            let inner =
                list(offsets(lists().flat_map(|l| l.offsets.windows(2).map(|w| w[1] - w[0])))?, Arc::new(values));
            columns.push((names[2], list(self.offsets(level)?, inner)));
        }
        Some(columns)
    }

    /// A list of rows with equal width for each graph.
    fn matrix(&self, level: Level, rows: usize, width: usize, values: ArrayRef) -> Option<ArrayRef> {
        let inner = list(offsets(std::iter::repeat_n(width, rows))?, values);
        Some(list(self.offsets(level)?, inner))
    }

    fn edge_index(&self) -> Option<ArrayRef> {
        let store = self.dataset.graphs();
        let edges: usize = self.graphs.clone().map(|g| store.edge_range(g).len()).sum();
        let mut values: Vec<i64> = Vec::with_capacity(2 * edges);
        for graph in self.graphs.clone().map(|g| store.graph(g)) {
            values.extend(graph.src().iter().map(|&v| i64::from(v)));
            values.extend(graph.dst().iter().map(|&v| i64::from(v)));
        }
        let lengths = self.graphs.clone().flat_map(|g| [store.edge_range(g).len(); 2]);
        let inner = list(offsets(lengths)?, Arc::new(Int64Array::from(values)));
        Some(list(offsets(std::iter::repeat_n(2, self.graphs.len()))?, inner))
    }

    fn targets(&self, layout: TargetLayout) -> Option<ArrayRef> {
        let TargetLayout { level, kind, columns } = layout;
        let store = self.dataset.graphs();
        let rows = || self.graphs.clone().filter_map(|g| store.graph(g).target());
        let values: ArrayRef = match kind {
            TargetKind::Float => {
                let floats: Vec<f32> = rows().filter_map(|t| t.floats()).flatten().copied().collect();
                let present = floats.iter().map(|v| !v.is_nan()).collect::<NullBuffer>();
                Arc::new(Float32Array::new(floats.into(), Some(present).filter(|n| n.null_count() > 0)))
            }
            TargetKind::Class => {
                let class = |&v: &u32| (v != MISSING_CLASS).then_some(i64::from(v));
                Arc::new(
                    rows().filter_map(|t: TargetRows<'_>| t.classes()).flatten().map(class).collect::<Int64Array>(),
                )
            }
        };
        match level {
            Level::Graph => Some(list(offsets(std::iter::repeat_n(columns, self.graphs.len()))?, values)),
            _ if columns == 1 => Some(list(self.offsets(level)?, values)),
            _ => {
                let count: usize = self.graphs.clone().map(|g| store.row_range(level, g).len()).sum();
                self.matrix(level, count, columns, values)
            }
        }
    }

    fn coordinates(&self, coordinates: &Coordinates) -> Option<ArrayRef> {
        let bounds = self.dataset.graphs().node_offsets();
        let nodes = bounds[self.graphs.start]..bounds[self.graphs.end];
        let values = Float32Array::from(coordinates.rows(nodes.clone()).to_vec());
        self.matrix(Level::Node, nodes.len(), coordinates.width, Arc::new(values))
    }
}

/// Offsets of lists with the given lengths; `None` beyond 2^31.
fn offsets(lengths: impl Iterator<Item = usize>) -> Option<OffsetBuffer<i32>> {
    let mut end = 0i32;
    let mut offsets = vec![0i32];
    for length in lengths {
        end = end.checked_add(i32::try_from(length).ok()?)?;
        offsets.push(end);
    }
    Some(OffsetBuffer::new(ScalarBuffer::from(offsets)))
}

fn list(offsets: OffsetBuffer<i32>, values: ArrayRef) -> ArrayRef {
    let element = Arc::new(Field::new("element", values.data_type().clone(), true));
    Arc::new(ListArray::new(element, offsets, values, None))
}
