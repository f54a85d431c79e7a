//! Native Parquet to data sets, batch of rows by batch of rows.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, ListArray, RecordBatch};
use arrow_schema::DataType;
use gt_graph::encoding::{Coordinates, Encodings};
use gt_graph::{FeatureLayout, FeatureRows, GraphParts, GraphStore, Layout, Level, Ragged};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};

use super::arrays::{Leaf, Numbers, append_categories, range, text};
use super::contained::contained;
use super::guard;
use crate::columns as c;
use crate::dataset::{Dataset, Extra, Splits};
use crate::error::{DataError, Result};
use crate::lenient::{self, Lenient, without_sizes};
use crate::node_count::{check_unbacked, node_count};
use crate::stored_schema::StoredSchema;
use crate::target_staging::TargetStaging;
use gt_graph::Schema;

/// Rows decoded at a time.
const BATCH: usize = 1024;

/// A checked, opened Parquet file.
pub(crate) struct Opened {
    file: File,
    metadata: ArrowReaderMetadata,
}

/// Opens a Parquet file and checks its skeleton.
pub(crate) fn open(path: &Path) -> Result<Opened> {
    let damaged = |e: &dyn std::fmt::Display| DataError::file(path, format!("not a readable Parquet file: {e}"));
    let file = File::open(path).map_err(|e| DataError::io(path, e))?;
    guard::check_footer(&file).map_err(|e| damaged(&e))?;
    // The Arrow schema inside the metadata is a second description of the same columns; one is enough to trust.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let loaded = contained(|| ArrowReaderMetadata::load(&file, options)).map_err(|e| damaged(&e))?;
    let metadata = loaded.map_err(|e| damaged(&e))?;
    guard::check_pages(&file, metadata.metadata()).map_err(|e| damaged(&e))?;
    Ok(Opened { file, metadata })
}

impl Opened {
    /// Names of the columns.
    pub(crate) fn names(&self) -> Vec<String> {
        self.metadata.schema().fields().iter().map(|f| f.name().clone()).collect()
    }

    /// The value of a metadata key.
    pub(crate) fn key(&self, key: &str) -> Option<&str> {
        let pairs = self.metadata.metadata().file_metadata().key_value_metadata()?;
        pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
    }

    /// Bytes of all columns, uncompressed, as checked against the page headers.
    fn uncompressed_bytes(&self) -> usize {
        let groups = self.metadata.metadata().row_groups();
        let bytes = groups.iter().flat_map(|g| g.columns()).map(|c| c.uncompressed_size());
        usize::try_from(bytes.sum::<i64>()).unwrap_or(0)
    }

    /// Values of a column's leaf.
    fn values_of(&self, root: &str) -> usize {
        let groups = self.metadata.metadata().row_groups();
        let leaves = groups.iter().flat_map(|g| g.columns()).filter(|c| c.column_path().parts()[0] == root);
        usize::try_from(leaves.map(|c| c.num_values()).sum::<i64>()).unwrap_or(0)
    }

    /// Batches of some columns, or of all.
    pub(crate) fn batches(
        &self,
        path: &Path,
        only: Option<&str>,
        rows: usize,
    ) -> Result<impl Iterator<Item = Result<RecordBatch>>> {
        let damaged = |e: &dyn std::fmt::Display| DataError::file(path, format!("not a readable Parquet file: {e}"));
        let file = self.file.try_clone().map_err(|e| DataError::io(path, e))?;
        let mut builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone()).with_batch_size(rows);
        if let Some(name) = only {
            builder = builder.with_projection(ProjectionMask::columns(self.metadata.parquet_schema(), [name]));
        }
        let mut reader = contained(|| builder.build()).map_err(|e| damaged(&e))?.map_err(|e| damaged(&e))?;
        let mut path = Some(path.to_owned());
        Ok(std::iter::from_fn(move || {
            let origin = path.as_ref()?;
            let damaged =
                |e: &dyn std::fmt::Display| DataError::file(origin, format!("not a readable Parquet file: {e}"));
            let batch = match contained(|| reader.next()) {
                Ok(next) => next?.map_err(|e| damaged(&e)),
                Err(e) => Err(damaged(&e)),
            };
            // After an error there is nothing more to be had.
            if batch.is_err() {
                path = None;
            }
            Some(batch)
        }))
    }
}

/// Reads a data set in the native layout.
pub(crate) fn read(path: &Path, lenient: Option<&mut Lenient>) -> Result<Dataset> {
    let opened = open(path)?;
    let names = opened.names();
    for required in [c::NUM_NODES, c::EDGE_INDEX] {
        if !names.iter().any(|n| n == required) {
            let found = names.join("`, `");
            let message = format!(
                "column `{required}` is missing; there are `{found}` (for tables of nodes and edges use --nodes and --edges)"
            );
            return Err(DataError::file(path, message));
        }
    }
    let schema = opened.key(c::SCHEMA_KEY).map(|text| StoredSchema::parse(text, path)).transpose()?.map(|s| s.schema);
    let schema = if lenient.is_some() { schema.as_ref().map(without_sizes) } else { schema };
    let layout = match &schema {
        Some(schema) => Layout { target: None, ..schema.layout() },
        None => find_layout(&opened, path)?,
    };
    let mut reader = Reader::new(path, layout, &names, lenient);
    // Room for what the file claims, but no more than its own bytes can justify.
    let most = opened.uncompressed_bytes() / 8;
    reader.store.reserve(opened.values_of(c::NODE_FEAT).min(most), (opened.values_of(c::EDGE_INDEX) / 2).min(most));
    for batch in opened.batches(path, None, BATCH)? {
        reader.read(&batch?)?;
    }
    reader.finish(schema)
}

/// Column counts of a file that does not state them: from the first row that has any.
fn find_layout(opened: &Opened, path: &Path) -> Result<Layout> {
    let names = opened.names();
    let has = |name: &str| names.iter().any(|n| n == name);
    let features = |[numbers, floats, words]: [&str; 3]| -> Result<FeatureLayout> {
        let mut layout = FeatureLayout { multi_hot: has(words), ..Default::default() };
        for name in [numbers, floats] {
            if has(name) {
                let (width, real) = find_width(opened, path, name)?;
                *if real { &mut layout.continuous } else { &mut layout.categorical } += width;
            }
        }
        Ok(layout)
    };
    Ok(Layout { node: features(c::NODE_FEATURES)?, edge: features(c::EDGE_FEATURES)?, target: None })
}

/// Width of a matrix column, and whether it holds real numbers.
fn find_width(opened: &Opened, path: &Path, name: &str) -> Result<(usize, bool)> {
    let mut kind = (0, false);
    for batch in opened.batches(path, Some(name), 64)? {
        let batch = batch?;
        let column =
            batch.column_by_name(name).ok_or_else(|| DataError::file(path, format!("column `{name}` is missing")))?;
        let matrix = Matrix::new(column).ok_or_else(|| not_a_matrix(path, name, column))?;
        let used = (0..matrix.outer.len()).flat_map(|row| range(matrix.outer, row)).next();
        kind.1 = matrix.leaf.is_real();
        if let Some(row) = used {
            return Ok((range(matrix.inner, row).len(), kind.1));
        }
    }
    Ok(kind)
}

fn not_a_matrix(path: &Path, name: &str, column: &ArrayRef) -> DataError {
    DataError::file(
        path,
        format!("column `{name}` should be a list of lists of numbers, but is {}", column.data_type()),
    )
}

/// A column of lists of lists of numbers.
struct Matrix<'a> {
    outer: &'a ListArray,
    inner: &'a ListArray,
    leaf: Leaf<'a>,
}

impl<'a> Matrix<'a> {
    fn new(column: &'a ArrayRef) -> Option<Self> {
        let outer = column.as_list_opt::<i32>()?;
        let inner = outer.values().as_list_opt::<i32>()?;
        Some(Self { outer, inner, leaf: Leaf::new(inner.values())? })
    }
}

struct Reader<'p> {
    path: &'p Path,
    lenient: Option<&'p mut Lenient>,
    store: GraphStore,
    targets: TargetStaging,
    splits: Option<Splits>,
    encodings: Encodings,
    extras: Vec<(String, Vec<ArrayRef>)>,
    /// Reused between graphs.
    scratch: Scratch,
}

#[derive(Default)]
struct Scratch {
    src: Vec<u32>,
    dst: Vec<u32>,
    node: FeatureScratch,
    edge: FeatureScratch,
}

#[derive(Default)]
struct FeatureScratch {
    categorical: Vec<u32>,
    continuous: Vec<f32>,
    offsets: Vec<usize>,
    indices: Vec<u32>,
}

impl FeatureScratch {
    fn clear(&mut self) {
        self.categorical.clear();
        self.continuous.clear();
        self.offsets.clear();
        self.indices.clear();
    }

    fn rows(&self, layout: &FeatureLayout) -> FeatureRows<'_> {
        FeatureRows {
            categorical: &self.categorical,
            continuous: &self.continuous,
            multi_hot: layout.multi_hot.then_some(Ragged { offsets: &self.offsets, indices: &self.indices }),
        }
    }
}

impl<'p> Reader<'p> {
    fn new(path: &'p Path, layout: Layout, names: &[String], lenient: Option<&'p mut Lenient>) -> Self {
        let has = |name: &str| names.iter().any(|n| n == name);
        let level = [(c::SPLIT, Level::Graph), (c::NODE_SPLIT, Level::Node), (c::EDGE_SPLIT, Level::Edge)];
        let extras = names.iter().filter(|n| !c::NATIVE.contains(&n.as_str()));
        let split = level.into_iter().find(|(name, _)| lenient.is_none() && has(name));
        Self {
            path,
            lenient,
            store: GraphStore::new(layout),
            targets: TargetStaging::default(),
            splits: split.map(|(_, level)| Splits::new(level)),
            encodings: Encodings {
                laplacian: has(c::LAP_PE).then(Coordinates::default),
                random_walk: has(c::RW_PE).then(Coordinates::default),
                weisfeiler_lehman: has(c::WL_PE).then(Vec::new),
            },
            extras: extras.map(|n| (n.clone(), Vec::new())).collect(),
            scratch: Scratch::default(),
        }
    }

    fn read(&mut self, batch: &RecordBatch) -> Result<()> {
        let first = self.store.len();
        let path = self.path;
        let matrix = |name: &'static str| match batch.column_by_name(name) {
            None => Ok(None),
            Some(column) => {
                let matrix = Matrix::new(column).ok_or_else(|| not_a_matrix(path, name, column))?;
                Ok(Some(Column { name, matrix }))
            }
        };
        let sizes = batch.column_by_name(c::NUM_NODES).and_then(Leaf::new);
        let Some(sizes @ Leaf { values: Numbers::Integer(_), .. }) = sizes else {
            return Err(DataError::file(path, "column `num_nodes` should hold integers"));
        };
        let edge_index =
            matrix(c::EDGE_INDEX)?.ok_or_else(|| DataError::file(path, "column `edge_index` is missing"))?;
        let node = [matrix(c::NODE_FEAT)?, matrix(c::NODE_FEAT_FLOAT)?, matrix(c::NODE_MULTI_HOT)?];
        let edge = [matrix(c::EDGE_ATTR)?, matrix(c::EDGE_ATTR_FLOAT)?, matrix(c::EDGE_MULTI_HOT)?];
        let coordinates = [matrix(c::LAP_PE)?, matrix(c::RW_PE)?];
        for row in 0..batch.num_rows() {
            let graph = first + row;
            let num_nodes =
                node_count(sizes.number(row)).map_err(|m| DataError::value(path, graph, c::NUM_NODES, m))?;
            if let Err(error) = self.read_graph(&edge_index, [&node, &edge], row, num_nodes) {
                let (Some(lenient), Some(reason)) = (&mut self.lenient, error.of_graph()) else { return Err(error) };
                lenient.stand_in(&mut self.store, 0, reason);
                continue;
            }
            for (column, own) in
                coordinates.iter().zip([&mut self.encodings.laplacian, &mut self.encodings.random_walk])
            {
                if let (Some(column), Some(own)) = (column, own) {
                    column
                        .coordinates(own, row, num_nodes)
                        .map_err(|m| DataError::value(path, graph, column.name, m))?;
                }
            }
        }
        if self.lenient.is_none() {
            self.read_targets(batch, first)?;
        }
        self.read_splits(batch, first)?;
        self.read_roles(batch, first)?;
        for (name, parts) in &mut self.extras {
            let column = batch
                .column_by_name(name)
                .ok_or_else(|| DataError::file(path, format!("column `{name}` is missing")))?;
            parts.push(column.clone());
        }
        Ok(())
    }

    fn read_graph(
        &mut self,
        edge_index: &Column<'_>,
        [node, edge]: [&[Option<Column<'_>>; 3]; 2],
        row: usize,
        num_nodes: usize,
    ) -> Result<()> {
        let (path, graph) = (self.path, self.store.len());
        self.read_edges(edge_index, row, graph)?;
        let edges = self.scratch.src.len();
        if node.iter().all(Option::is_none) {
            check_unbacked(num_nodes, edges).map_err(|m| DataError::value(path, graph, c::NUM_NODES, m))?;
        }
        let layout = self.store.layout().clone();
        read_features(path, node, &layout.node, &mut self.scratch.node, row, graph, (Level::Node, num_nodes))?;
        read_features(path, edge, &layout.edge, &mut self.scratch.edge, row, graph, (Level::Edge, edges))?;
        let Scratch { src, dst, node, edge } = &self.scratch;
        let (node, edge) = (node.rows(&layout.node), edge.rows(&layout.edge));
        let parts = GraphParts { num_nodes, src, dst, node, edge, target: None };
        lenient::push(&mut self.store, parts, path, self.lenient.as_deref_mut())
    }

    fn read_edges(&mut self, column: &Column<'_>, row: usize, graph: usize) -> Result<()> {
        let wrong = |message: String| DataError::value(self.path, graph, c::EDGE_INDEX, message);
        let Scratch { src, dst, .. } = &mut self.scratch;
        src.clear();
        dst.clear();
        let Matrix { outer, inner, leaf } = &column.matrix;
        let lists = range(outer, row);
        // A graph without edges may come as no list at all.
        if lists.is_empty() {
            return Ok(());
        }
        if lists.len() != 2 {
            return Err(wrong(format!("{} lists, expected two: sources and targets", lists.len())));
        }
        let Numbers::Integer(values) = &leaf.values else {
            return Err(wrong("node indices must be integers".into()));
        };
        for (list, out) in lists.zip([src, dst]) {
            let elements = range(inner, list);
            if let Some(at) = leaf.first_null(elements.clone()) {
                return Err(wrong(format!("element {} is null", at - elements.start)));
            }
            append_categories(&values[elements], out).map_err(|v| wrong(format!("{v} is not a node")))?;
        }
        Ok(())
    }

    fn read_targets(&mut self, batch: &RecordBatch, first: usize) -> Result<()> {
        let Some(column) = batch.column_by_name(c::Y) else {
            (0..batch.num_rows()).for_each(|_| self.targets.push_missing());
            return Ok(());
        };
        let strange = || {
            let kind = column.data_type();
            DataError::file(self.path, format!("column `y` should hold numbers, or lists of them, but is {kind}"))
        };
        if let Some(matrix) = Matrix::new(column) {
            for row in 0..batch.num_rows() {
                if column.is_null(row) {
                    self.targets.push_missing();
                    continue;
                }
                let rows = range(matrix.outer, row);
                let width = rows.clone().next().map_or(0, |r| range(matrix.inner, r).len());
                if let Some(odd) = rows.clone().find(|&r| range(matrix.inner, r).len() != width) {
                    let message = format!(
                        "row {} has {} values, row 0 has {width}",
                        odd - rows.start,
                        range(matrix.inner, odd).len()
                    );
                    return Err(DataError::value(self.path, first + row, c::Y, message));
                }
                let count = rows.len();
                let values = rows.flat_map(|r| range(matrix.inner, r)).map(|at| matrix.leaf.number(at));
                self.targets.push(values, count, true);
            }
            if matrix.leaf.is_real() {
                self.targets.mark_real();
            }
        } else if let Some(list) = column.as_list_opt::<i32>() {
            let leaf = Leaf::new(list.values()).ok_or_else(strange)?;
            for row in 0..batch.num_rows() {
                if column.is_null(row) {
                    self.targets.push_missing();
                } else {
                    let elements = range(list, row);
                    self.targets.push(elements.clone().map(|at| leaf.number(at)), elements.len(), false);
                }
            }
            if leaf.is_real() {
                self.targets.mark_real();
            }
        } else {
            let leaf = Leaf::new(column).ok_or_else(strange)?;
            (0..batch.num_rows()).for_each(|row| self.targets.push([leaf.number(row)], 1, false));
            if leaf.is_real() {
                self.targets.mark_real();
            }
        }
        Ok(())
    }

    fn read_splits(&mut self, batch: &RecordBatch, first: usize) -> Result<()> {
        let Some(splits) = &mut self.splits else { return Ok(()) };
        let name = match splits.level {
            Level::Graph => c::SPLIT,
            Level::Node => c::NODE_SPLIT,
            Level::Edge => c::EDGE_SPLIT,
        };
        let path = self.path;
        let column =
            batch.column_by_name(name).ok_or_else(|| DataError::file(path, format!("column `{name}` is missing")))?;
        let strange =
            || DataError::file(path, format!("column `{name}` should hold text, but is {}", column.data_type()));
        let (list, words) = match splits.level {
            Level::Graph => (None, text(column).ok_or_else(strange)?),
            _ => {
                let list = column.as_list_opt::<i32>().ok_or_else(strange)?;
                (Some(list), text(list.values()).ok_or_else(strange)?)
            }
        };
        for row in 0..batch.num_rows() {
            let elements = list.map_or(row..row + 1, |l| range(l, row));
            let rows = self.store.row_range(splits.level, first + row).len();
            if elements.len() != rows {
                let message = format!("{} entries for {rows} {}s", elements.len(), splits.level);
                return Err(DataError::value(path, first + row, name, message));
            }
            for at in elements {
                if words.is_null(at) {
                    return Err(DataError::value(path, first + row, name, "null is not a part of a split"));
                }
                splits
                    .push(words.value(at))
                    .ok_or_else(|| DataError::value(path, first + row, name, "more than 65,536 different parts"))?;
            }
        }
        Ok(())
    }

    fn read_roles(&mut self, batch: &RecordBatch, first: usize) -> Result<()> {
        let (Some(roles), Some(column)) = (&mut self.encodings.weisfeiler_lehman, batch.column_by_name(c::WL_PE))
        else {
            return Ok(());
        };
        let strange = || {
            DataError::file(
                self.path,
                format!("column `wl_pe` should be a list of integers, but is {}", column.data_type()),
            )
        };
        let list = column.as_list_opt::<i32>().ok_or_else(strange)?;
        let leaf = Leaf::new(list.values()).ok_or_else(strange)?;
        let Numbers::Integer(values) = &leaf.values else { return Err(strange()) };
        for row in 0..batch.num_rows() {
            let wrong = |message: String| DataError::value(self.path, first + row, c::WL_PE, message);
            let (elements, nodes) = (range(list, row), self.store.node_range(first + row).len());
            if nodes == 0 && self.lenient.as_ref().is_some_and(|l| l.unusable.contains_key(&(first + row))) {
                continue;
            }
            if elements.len() != nodes {
                return Err(wrong(format!("{} roles for {nodes} nodes", elements.len())));
            }
            if leaf.first_null(elements.clone()).is_some() {
                return Err(wrong("null is not a role".into()));
            }
            append_categories(&values[elements], roles).map_err(|v| wrong(format!("{v} is not a role")))?;
        }
        Ok(())
    }

    fn finish(mut self, schema: Option<Schema>) -> Result<Dataset> {
        let path = self.path;
        let declared = schema.as_ref().and_then(|s| s.target.as_ref());
        self.targets.finish(&mut self.store, declared, path)?;
        self.store.set_encodings(self.encodings).map_err(|e| DataError::file(path, e.to_string()))?;
        let mut extras = Vec::with_capacity(self.extras.len());
        for (name, parts) in self.extras {
            let parts: Vec<&dyn Array> = parts.iter().map(|p| p.as_ref()).collect();
            if parts.is_empty() {
                continue;
            }
            let values = arrow_select::concat::concat(&parts)
                .map_err(|e| DataError::file(path, format!("column `{name}`: {e}")))?;
            extras.push(Extra { name, values: widen(values) });
        }
        let schema = schema.ok_or_else(|| Schema::unnamed(self.store.layout()));
        Dataset::from_file(path, schema, self.store, self.splits, extras)
    }
}

/// A matrix column with its name.
struct Column<'a> {
    name: &'static str,
    matrix: Matrix<'a>,
}

impl Column<'_> {
    /// Checks that a row's lists are `rows` lists of `width` numbers, none missing; returns their values' positions.
    fn block(&self, row: usize, rows: usize, width: usize) -> Result<std::ops::Range<usize>, String> {
        let Matrix { outer, inner, leaf } = &self.matrix;
        let lists = range(outer, row);
        if lists.len() != rows {
            return Err(format!("{} rows, expected {rows}", lists.len()));
        }
        if lists.is_empty() {
            return Ok(0..0);
        }
        if let Some(odd) = lists.clone().find(|&l| range(inner, l).len() != width) {
            return Err(format!("row {} has {} values, expected {width}", odd - lists.start, range(inner, odd).len()));
        }
        let values = range(inner, lists.start).start..range(inner, lists.end - 1).end;
        // Inner lists are contiguous unless one of them is null with content, which no writer makes.
        if values.len() != rows * width {
            return Err("its lists overlap".into());
        }
        if let Some(at) = leaf.first_null(values.clone()) {
            return Err(format!("row {}, value {} is null", (at - values.start) / width, (at - values.start) % width));
        }
        Ok(values)
    }

    fn coordinates(&self, own: &mut Coordinates, row: usize, nodes: usize) -> Result<(), String> {
        let Numbers::Real(values) = &self.matrix.leaf.values else {
            return Err("coordinates must be real numbers".into());
        };
        if own.width == 0
            && let Some(list) = range(self.matrix.outer, row).next()
        {
            own.width = range(self.matrix.inner, list).len();
        }
        let block = self.block(row, nodes, own.width)?;
        if let Some(value) = values[block.clone()].iter().find(|v| !v.is_finite()) {
            return Err(format!("{value} is not a finite number"));
        }
        own.values.extend_from_slice(&values[block]);
        Ok(())
    }
}

/// Reads one graph's features of one level into `out`.
fn read_features(
    path: &Path,
    [numbers, floats, words]: &[Option<Column<'_>>; 3],
    layout: &FeatureLayout,
    out: &mut FeatureScratch,
    row: usize,
    graph: usize,
    (level, rows): (Level, usize),
) -> Result<()> {
    out.clear();
    for column in [numbers, floats].into_iter().flatten() {
        let wrong = |message| DataError::value(path, graph, column.name, message);
        let width = if column.matrix.leaf.is_real() { layout.continuous } else { layout.categorical };
        let block = column.block(row, rows, width).map_err(wrong)?;
        match &column.matrix.leaf.values {
            Numbers::Integer(values) => {
                append_categories(&values[block], &mut out.categorical).map_err(|v| {
                    wrong(format!(
                        "{v} is not a category (0, 1, 2, …); write numbers as floats to make them continuous"
                    ))
                })?;
            }
            Numbers::Real(values) => out.continuous.extend_from_slice(&values[block]),
        }
    }
    if layout.multi_hot {
        out.offsets.push(0);
    }
    if let Some(column) = words {
        let wrong = |message| DataError::value(path, graph, column.name, message);
        let Matrix { outer, inner, leaf } = &column.matrix;
        let Numbers::Integer(values) = &leaf.values else { return Err(wrong("indices must be integers".into())) };
        let lists = range(outer, row);
        if lists.len() != rows {
            return Err(wrong(format!("{} lists for {rows} {level}s", lists.len())));
        }
        for list in lists {
            let elements = range(inner, list);
            if leaf.first_null(elements.clone()).is_some() {
                return Err(wrong("null is not an index".into()));
            }
            append_categories(&values[elements], &mut out.indices)
                .map_err(|v| wrong(format!("{v} is not an index")))?;
            out.offsets.push(out.indices.len());
        }
    }
    Ok(())
}

/// Carried numbers in one width, so that they come back the same from every format.
fn widen(values: ArrayRef) -> ArrayRef {
    let kind = values.data_type().clone();
    let Some(leaf) = Leaf::new(&values).filter(|_| kind.is_integer() || kind.is_floating()) else { return values };
    let rows = 0..values.len();
    match (&leaf.values, kind) {
        (_, DataType::Int64 | DataType::Float64) => values,
        (Numbers::Integer(numbers), _) => {
            Arc::new(rows.map(|row| (!leaf.is_null(row)).then(|| numbers[row])).collect::<Int64Array>())
        }
        (Numbers::Real(numbers), _) => {
            Arc::new(rows.map(|row| (!leaf.is_null(row)).then(|| f64::from(numbers[row]))).collect::<Float64Array>())
        }
    }
}
