//! Data sets that exercise every kind of column.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::path::Path;

use arrow_array::{ArrayRef, RecordBatch};
use graph_transformer_data::{Dataset, Splits};
use gt_graph::encoding::{Coordinates, Encodings};
use gt_graph::{FeatureRows, GraphParts, GraphStore, Level, MISSING_CLASS, Ragged, TargetKind, TargetRows};
use gt_graph::{FeatureSchema, Schema, TargetColumn, TargetSchema, Vocabulary};

/// Numbers from a seed, for data whose values do not matter.
pub struct Draw(pub u64);

impl Draw {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Any finite `f32`, including subnormal numbers and negative zero.
    pub fn real(&mut self) -> f32 {
        loop {
            let value = f32::from_bits(self.next() as u32);
            if value.is_finite() {
                return value;
            }
        }
    }
}

/// Writes columns to a Parquet file as other programs do, without a stored schema.
pub fn write_columns(path: &Path, columns: Vec<(&str, ArrayRef)>) {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let out = std::fs::File::create(path).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(out, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// The columns of a generated data set.
#[derive(Clone, Debug)]
pub struct Shape {
    pub graphs: usize,
    pub largest: usize,
    pub node: (usize, usize, bool),
    pub edge: (usize, usize, bool),
    pub target: Option<(Level, TargetKind, usize)>,
    pub split: Option<Level>,
    pub encodings: bool,
}

/// Generates a data set with the given columns, including graphs without nodes or edges.
pub fn make(shape: &Shape, seed: u64) -> Dataset {
    let mut draw = Draw(seed);
    let features = |(a, b, hot): (usize, usize, bool), what: &str| FeatureSchema {
        categorical: (0..a).map(|i| Vocabulary::new(format!("{what}_kind{i}"), 7 + i)).collect(),
        continuous: (0..b).map(|i| format!("{what}_x{i}")).collect(),
        multi_hot: hot.then(|| Vocabulary::new(format!("{what}_words"), 50)),
        ..Default::default()
    };
    let schema = Schema {
        node: features(shape.node, "node"),
        edge: features(shape.edge, "edge"),
        target: shape.target.map(|(level, kind, columns)| TargetSchema {
            level,
            kind,
            columns: (0..columns)
                .map(|i| TargetColumn::new(format!("t{i}"), if kind == TargetKind::Class { 4 } else { 0 }))
                .collect(),
        }),
    };
    let mut store = GraphStore::new(schema.layout());
    for _ in 0..shape.graphs {
        let n = draw.below(shape.largest + 1);
        let e = if n == 0 { 0 } else { draw.below(3 * n) };
        let src: Vec<u32> = (0..e).map(|_| draw.below(n) as u32).collect();
        let dst: Vec<u32> = (0..e).map(|_| draw.below(n) as u32).collect();
        let node = Values::draw(&mut draw, shape.node, n);
        let edge = Values::draw(&mut draw, shape.edge, e);
        let rows = shape.target.map_or(0, |(level, _, columns)| level.rows(n, e) * columns);
        let floats: Vec<f32> = (0..rows).map(|_| if draw.below(4) == 0 { f32::NAN } else { draw.real() }).collect();
        let classes: Vec<u32> =
            (0..rows).map(|_| if draw.below(4) == 0 { MISSING_CLASS } else { draw.below(4) as u32 }).collect();
        store
            .push(GraphParts {
                num_nodes: n,
                src: &src,
                dst: &dst,
                node: node.rows(shape.node.2),
                edge: edge.rows(shape.edge.2),
                target: shape.target.map(|(_, kind, _)| match kind {
                    TargetKind::Float => TargetRows::Float(&floats),
                    TargetKind::Class => TargetRows::Class(&classes),
                }),
            })
            .unwrap();
    }
    let nodes = store.num_nodes();
    // Without nodes there is no row that shows the width of an encoding.
    if shape.encodings && nodes > 0 {
        store
            .set_encodings(Encodings {
                laplacian: Some(Coordinates { width: 3, values: (0..3 * nodes).map(|_| draw.real()).collect() }),
                random_walk: Some(Coordinates { width: 2, values: (0..2 * nodes).map(|_| draw.real()).collect() }),
                weisfeiler_lehman: Some((0..nodes).map(|_| draw.below(9) as u32).collect()),
            })
            .unwrap();
    }
    let rows = shape.split.map(|level| (level, store.rows(level)));
    let mut dataset = Dataset::new(schema, store).unwrap();
    if let Some((level, rows)) = rows {
        let mut split = Splits::new(level);
        (0..rows).for_each(|_| split.push(["train", "val", "test"][draw.below(3)]).unwrap());
        dataset.set_split(split).unwrap();
    }
    dataset
}

struct Values {
    categorical: Vec<u32>,
    continuous: Vec<f32>,
    offsets: Vec<usize>,
    indices: Vec<u32>,
}

impl Values {
    fn draw(draw: &mut Draw, (a, b, _): (usize, usize, bool), rows: usize) -> Self {
        let categorical = (0..rows * a).map(|_| draw.below(7) as u32).collect();
        let continuous = (0..rows * b).map(|_| draw.real()).collect();
        let mut offsets = vec![0];
        let mut indices = Vec::new();
        for _ in 0..rows {
            indices.extend((0..draw.below(4)).map(|_| draw.below(50) as u32));
            offsets.push(indices.len());
        }
        Self { categorical, continuous, offsets, indices }
    }

    fn rows(&self, hot: bool) -> FeatureRows<'_> {
        FeatureRows {
            categorical: &self.categorical,
            continuous: &self.continuous,
            multi_hot: hot.then_some(Ragged { offsets: &self.offsets, indices: &self.indices }),
        }
    }
}
