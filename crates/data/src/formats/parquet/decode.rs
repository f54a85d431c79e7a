//! Decodes native Parquet into raw graphs, one batch of rows at a time.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TypedDictionaryArray};
use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use gt_graph::Schema;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::ColumnChunkMetaData;

use super::arrays;
use super::claims::Claim;
use super::contained::contained;
use super::guard::{self, ColumnPages};
use crate::budget::{Budget, MOST_COLUMNS};
use crate::carried::{Carried, Cells};
use crate::columns as c;
use crate::error::{DataError, FileProblem, Result};
use crate::formats::ChunkLimits;
use crate::raw::{Bounds, RawColumn, RawFeatures, RawGraphs, RawTargets, RawTexts, Values};
use crate::reason::{Problem, Reason};
use crate::resolve::Wanted;
use crate::stored_schema::StoredSchema;

/// Price of a row, and of a number of a native column, in bytes of the budget.
const ROW: u64 = 64;
const NUMBER: u64 = 8;

/// Rows of the schema column to decode at a time. The first row usually holds the schema.
const SCHEMA_ROWS: usize = 64;

/// A checked, opened Parquet file.
pub(crate) struct Opened {
    file: File,
    metadata: ArrowReaderMetadata,
    /// Pages of each column in each row group.
    pages: Vec<Vec<ColumnPages>>,
    budget: Arc<Budget>,
}

/// Opens a Parquet file and checks its structure.
pub(crate) fn open(path: &Path) -> Result<Opened> {
    let damaged = |e: &dyn std::fmt::Display| DataError::file(path, FileProblem::Parquet(e.to_string()));
    let file = File::open(path).map_err(|e| DataError::io(path, e))?;
    let budget = Budget::of(&file).map_err(|e| DataError::io(path, e))?;
    guard::check_footer(&file).map_err(|e| damaged(&e))?;
    // The Arrow schema inside the metadata describes the columns a second time, so it is ignored.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let loaded = contained(|| ArrowReaderMetadata::load(&file, options.clone())).map_err(|e| damaged(&e))?;
    let metadata = loaded.map_err(|e| damaged(&e))?;
    if metadata.parquet_schema().num_columns() > MOST_COLUMNS {
        return Err(DataError::file(path, FileProblem::TooManyColumns));
    }
    let pages = guard::check_pages(&file, metadata.metadata(), budget.limit()).map_err(|e| damaged(&e))?;
    // Every row holds the text of the schema; a dictionary keeps a single copy in memory.
    let options = options.with_schema(Arc::new(with_dictionary(metadata.schema())));
    let file_metadata = Arc::clone(metadata.metadata());
    let loaded = contained(|| ArrowReaderMetadata::try_new(file_metadata, options)).map_err(|e| damaged(&e))?;
    Ok(Opened { file, metadata: loaded.map_err(|e| damaged(&e))?, pages, budget })
}

/// Returns the columns with a dictionary type for the schema texts.
fn with_dictionary(columns: &ArrowSchema) -> ArrowSchema {
    let texts = || DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let fields = columns.fields().iter().map(|field| match field.data_type() {
        DataType::Utf8 if field.name() == c::SCHEMA => Field::new(c::SCHEMA, texts(), field.is_nullable()).into(),
        _ => Arc::clone(field),
    });
    ArrowSchema::new(fields.collect::<Vec<_>>())
}

impl Opened {
    /// Names of the columns.
    pub(crate) fn names(&self) -> Vec<String> {
        self.metadata.schema().fields().iter().map(|f| f.name().clone()).collect()
    }

    /// The budget of the file.
    pub(crate) fn budget(&self) -> Arc<Budget> {
        Arc::clone(&self.budget)
    }

    /// Charges the wanted columns before they are decoded. `price` is the price of a number.
    pub(crate) fn charge(&self, path: &Path, price: u64, wanted: impl Fn(&str) -> bool) -> Result<()> {
        let problem = |problem| DataError::file(path, problem);
        let metadata = self.metadata.metadata();
        let rows = u64::try_from(metadata.file_metadata().num_rows()).unwrap_or(0);
        self.budget.charge(rows.saturating_mul(ROW)).map_err(problem)?;
        let columns = metadata.row_groups().iter().zip(&self.pages).flat_map(|(group, pages)| {
            group.columns().iter().zip(pages).map(|(column, pages)| (group.num_rows() as usize, column, pages))
        });
        let root = |column: &ColumnChunkMetaData| column.column_path().parts()[0].clone();
        let claims: Vec<(usize, Claim<'_>)> = columns
            .filter(|(_, column, _)| wanted(&root(column)))
            .map(|(rows, column, pages)| {
                let as_dictionary = root(column) == c::SCHEMA;
                (rows, Claim { column, pages, as_dictionary, price })
            })
            .collect();
        let sum = |bytes: &mut dyn Iterator<Item = u64>| bytes.fold(0, u64::saturating_add);
        let bound = sum(&mut claims.iter().map(|(_, claim)| claim.bound()));
        let fixed = sum(&mut claims.iter().map(|(_, claim)| claim.fixed()));
        if bound <= self.budget.left() {
            return self.budget.charge(bound).map_err(problem);
        }
        // The texts may be shorter than their bound. Without the texts, the columns must fit.
        if fixed > self.budget.left() {
            return self.budget.charge(fixed).map_err(problem);
        }
        for (rows, claim) in &claims {
            let damaged = |e: &dyn std::fmt::Display| problem(FileProblem::Parquet(e.to_string()));
            let counted = contained(|| claim.count(&self.file, *rows)).map_err(|e| damaged(&e))?;
            self.budget.charge(counted.map_err(|e| damaged(&e))?).map_err(problem)?;
        }
        Ok(())
    }

    /// Uncompressed bytes of all columns, as checked against the page headers.
    fn uncompressed_bytes(&self) -> usize {
        let groups = self.metadata.metadata().row_groups();
        let bytes = groups.iter().flat_map(|g| g.columns()).map(|c| c.uncompressed_size());
        usize::try_from(bytes.sum::<i64>()).unwrap_or(0)
    }

    /// Number of values in a column's leaf.
    fn values_of(&self, root: &str) -> usize {
        let groups = self.metadata.metadata().row_groups();
        let leaves = groups.iter().flat_map(|g| g.columns()).filter(|c| c.column_path().parts()[0] == root);
        usize::try_from(leaves.map(|c| c.num_values()).sum::<i64>()).unwrap_or(0)
    }

    /// Number of rows whose nodes and edges are within the limits, by the average of the row group
    /// with the largest graphs.
    fn batch_rows(&self, limits: ChunkLimits) -> usize {
        let groups = self.metadata.metadata().row_groups().iter().filter(|group| group.num_rows() > 0);
        let content = groups.map(|group| {
            let sized = |root: &str| root == c::NODE_FEAT || root == c::EDGE_INDEX;
            let leaves = group.columns().iter().filter(|column| sized(&column.column_path().parts()[0]));
            let values = leaves.map(|column| column.num_values()).max().unwrap_or(0);
            usize::try_from(values / group.num_rows()).unwrap_or(0)
        });
        (limits.content / content.max().unwrap_or(0).max(1)).clamp(1, limits.graphs)
    }

    /// Batches of the wanted columns.
    pub(crate) fn batches(&self, path: &Path, rows: usize, wanted: impl Fn(&str) -> bool) -> Result<Batches> {
        let damaged = |e: &dyn std::fmt::Display| DataError::file(path, FileProblem::Parquet(e.to_string()));
        let file = self.file.try_clone().map_err(|e| DataError::io(path, e))?;
        let fields = self.metadata.schema().fields().iter().enumerate();
        let roots = fields.filter(|(_, field)| wanted(field.name())).map(|(at, _)| at);
        let mask = ProjectionMask::roots(self.metadata.parquet_schema(), roots);
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_batch_size(rows)
            .with_projection(mask);
        let mut reader = contained(|| builder.build()).map_err(|e| damaged(&e))?.map_err(|e| damaged(&e))?;
        let mut path = Some(path.to_owned());
        Ok(Box::new(std::iter::from_fn(move || {
            let origin = path.as_ref()?;
            let damaged = |e: &dyn std::fmt::Display| DataError::file(origin, FileProblem::Parquet(e.to_string()));
            let batch = match contained(|| reader.next()) {
                Ok(next) => next?.map_err(|e| damaged(&e)),
                Err(e) => Err(damaged(&e)),
            };
            // No more batches follow an error.
            if batch.is_err() {
                path = None;
            }
            Some(batch)
        })))
    }

    /// The stored schema: the first text in the schema column, and the parsed schema.
    fn stored_schema(&self, path: &Path) -> Result<Option<(String, Schema)>> {
        if !self.names().iter().any(|name| name == c::SCHEMA) {
            return Ok(None);
        }
        for batch in self.batches(path, SCHEMA_ROWS, |name| name == c::SCHEMA)? {
            let batch = batch?;
            let text = schema_texts(path, batch.column(0))?.into_iter().flatten().next();
            if let Some(text) = text {
                return Ok(Some((text.to_owned(), StoredSchema::parse(text, path)?.schema)));
            }
        }
        Ok(None)
    }
}

/// The texts of the schema column.
fn schema_texts<'a>(path: &Path, column: &'a ArrayRef) -> Result<TypedDictionaryArray<'a, Int32Type, StringArray>> {
    let texts = column.as_dictionary_opt::<Int32Type>().and_then(|texts| texts.downcast_dict::<StringArray>());
    texts.ok_or_else(|| wrong_type(path, c::SCHEMA, "text", column))
}

/// Decoded batches of rows up to the first error.
type Batches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

fn wrong_type(path: &Path, column: &str, expected: &'static str, found: &ArrayRef) -> DataError {
    let found = found.data_type().to_string();
    DataError::file(path, FileProblem::ColumnType { column: column.into(), expected, found })
}

/// Reads native Parquet.
pub(crate) struct Decoder {
    path: PathBuf,
    names: Arc<[String]>,
    /// Text and content of the schema that the file states.
    schema: Option<(String, Schema)>,
    /// Names of the targets, if they have columns of their own.
    targets: Vec<String>,
    batches: Batches,
    /// Rows decoded so far.
    rows: usize,
    room: (usize, usize),
    budget: Arc<Budget>,
    /// Names of the carried columns.
    carried: Vec<String>,
}

impl Decoder {
    pub(crate) fn open(path: &Path, wanted: Wanted, limits: ChunkLimits) -> Result<Self> {
        let opened = open(path)?;
        opened.charge(path, NUMBER, |name| wanted.has_column(name))?;
        let names = opened.names();
        let schema = opened.stored_schema(path)?;
        let rows = opened.batch_rows(limits);
        // Targets have columns of their own only if the file has all of them.
        let own = |name: &String| names.contains(name);
        let targets: Vec<String> = match wanted.target_names().iter().all(own) && wanted.targets {
            true => wanted.target_names().to_vec(),
            false => Vec::new(),
        };
        let batches = opened.batches(path, rows, |name| wanted.has_column(name))?;
        // Memory is reserved for the claimed sizes, but not more than the file's own bytes justify.
        let most = opened.uncompressed_bytes() / 8;
        let room = (opened.values_of(c::NODE_FEAT).min(most), (opened.values_of(c::EDGE_INDEX) / 2).min(most));
        if let Some(column) = wanted.keep.columns.names().iter().find(|name| !names.contains(name)) {
            let problem = FileProblem::MissingColumn { column: column.clone(), found: names, hint: "" };
            return Err(DataError::file(path, problem));
        }
        let carried = match wanted.keep.columns.names() {
            [] => names.iter().filter(|name| wanted.carries(name) && !targets.contains(name)).cloned().collect(),
            named => named.to_vec(),
        };
        let budget = opened.budget();
        Ok(Self { path: path.into(), names: names.into(), schema, targets, batches, rows: 0, room, budget, carried })
    }

    /// The schema that the file states.
    pub(crate) fn schema(&self) -> Option<&Schema> {
        self.schema.as_ref().map(|(_, schema)| schema)
    }

    /// Expected numbers of nodes and edges, limited by what the bytes of the file justify.
    pub(crate) fn room(&self) -> (usize, usize) {
        self.room
    }

    /// The budget of the file.
    pub(crate) fn budget(&self) -> Arc<Budget> {
        Arc::clone(&self.budget)
    }

    /// Returns the next graphs.
    pub(crate) fn next(&mut self) -> Result<Option<RawGraphs>> {
        let Some(batch) = self.batches.next() else { return Ok(None) };
        let batch = batch?;
        self.check_schemas(&batch)?;
        self.rows += batch.num_rows();
        let carry = |name: &String| {
            let values = batch.column_by_name(name)?;
            Some(Carried::new(name, Cells::Typed(Arc::clone(values)), Bounds::Single))
        };
        let carried = self.carried.iter().filter_map(carry).collect();
        let column = |name: &str| -> Result<RawColumn> {
            let Some(array) = batch.column_by_name(name) else { return Ok(RawColumn::missing(name)) };
            let expected = "numbers or texts, or lists of them";
            arrays::column(name, array).ok_or_else(|| wrong_type(&self.path, name, expected, array))
        };
        let texts = |name: &'static str| -> Result<RawTexts> {
            let Some(array) = batch.column_by_name(name) else { return Ok(RawTexts::missing(name)) };
            arrays::texts(name, array).ok_or_else(|| wrong_type(&self.path, name, "text", array))
        };
        let [node, node_floats, node_words] = c::NODE_FEATURES;
        let [edge, edge_floats, edge_words] = c::EDGE_FEATURES;
        Ok(Some(RawGraphs {
            count: batch.num_rows(),
            names: [Arc::clone(&self.names), Arc::clone(&self.names)],
            broken: Default::default(),
            num_nodes: column(c::NUM_NODES)?,
            edge_index: column(c::EDGE_INDEX)?,
            node: RawFeatures::Native(Box::new([column(node)?, column(node_floats)?, column(node_words)?])),
            edge: RawFeatures::Native(Box::new([column(edge)?, column(edge_floats)?, column(edge_words)?])),
            targets: RawTargets::Native(match self.targets.is_empty() {
                true => vec![column(c::Y)?],
                false => self.targets.iter().map(|name| column(name)).collect::<Result<_>>()?,
            }),
            splits: [texts(c::SPLIT)?, texts(c::NODE_SPLIT)?, texts(c::EDGE_SPLIT)?],
            encodings: [column(c::LAP_PE)?, column(c::RW_PE)?, column(c::WL_PE)?],
            carried,
            origin: None,
        }))
    }

    /// Checks that all rows state the same schema. Joined files may state different ones.
    fn check_schemas(&self, batch: &RecordBatch) -> Result<()> {
        let (Some((first, schema)), Some(column)) = (&self.schema, batch.column_by_name(c::SCHEMA)) else {
            return Ok(());
        };
        let texts = schema_texts(&self.path, column)?;
        let mut known = vec![false; texts.values().len()];
        for (row, key) in texts.keys().iter().enumerate() {
            let Some(key) = key.map(|key| key as usize).filter(|&key| !known[key]) else { continue };
            let text = texts.values().value(key);
            known[key] = text == first || StoredSchema::parse(text, &self.path)?.schema == *schema;
            if !known[key] {
                let reason = Reason::column(c::SCHEMA, Problem::OtherSchema);
                return Err(DataError::graph(&self.path, self.rows + row, reason));
            }
        }
        Ok(())
    }
}

/// Converts carried numbers to one width, so that every format returns equal values.
pub(crate) fn widen(values: ArrayRef) -> ArrayRef {
    let kind = values.data_type();
    if !kind.is_integer() && !kind.is_floating() {
        return values;
    }
    let nulls = values.nulls().cloned();
    match arrays::numbers(&values) {
        Some(Values::Integers(numbers)) => Arc::new(Int64Array::new(numbers, nulls)),
        Some(Values::Reals(numbers)) => {
            let doubles = numbers.iter().map(|&v| f64::from(v)).collect();
            Arc::new(Float64Array::new(doubles, nulls))
        }
        _ => values,
    }
}
