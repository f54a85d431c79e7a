//! The input stage: a row's embeddings and linear layers, added up.
//!
//! `x = Σ embedding[category] + W·continuous + b + Σ word vectors + W_λ·λ + b_λ` (the paper's eq. 1
//! and 2). Embeddings have no bias, as published, unless configured.

use std::ops::Range;

use gt_graph::encoding::Coordinates;
use gt_graph::{FeatureRows, GraphBatch};

use super::columns::add_column_sums;
use super::dropout::{Site, drop_values};
use super::engine::Engine;
use super::gradient::Gradient;
use super::plan::{Divide, Extent, Span, divisible, for_parts};
use super::product::{Epilogue, product, product_tn};
use super::stage::with_parts;
use super::symmetric;
use super::tile::{Tile, TileMut};
use super::workspace::PartState;
use crate::AttentionScope;
use crate::network::{Input, Network};
use crate::parameters::{Affine, InputRegions};
use crate::real::Real;
use crate::stream::{Pair, Stream};

/// The values of each row, in the engine's precision.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows<T> {
    rows: usize,
    /// `[rows, columns]`
    categorical: Vec<u32>,
    /// `[rows, continuous]`, or a column of ones.
    linear: Vec<T>,
    laplacian: Vec<T>,
    random_walk: Vec<T>,
    /// `[rows]`, cut to the vocabulary.
    roles: Vec<u32>,
    hot_offsets: Vec<usize>,
    hot_indices: Vec<u32>,
}

/// Copies the values that a network reads from a batch; memory is reused.
pub(crate) fn prepare<T: Real>(
    input: &mut Pair<Rows<T>>,
    network: &Network,
    batch: &GraphBatch,
    edges: AttentionScope,
    edge_count: usize,
) {
    let nodes = batch.num_nodes();
    input.node.take(&network.node, Some(batch.node()), nodes);
    let encodings = batch.encodings();
    let coordinates = |to: &mut Vec<T>, from: &Option<Coordinates>, width: usize, what: &str| {
        to.clear();
        if width > 0 {
            let from = from.as_ref().unwrap_or_else(|| panic!("the batch has no {what} encoding"));
            assert_eq!(from.width, width, "width of the {what} encoding");
            to.extend(from.values.iter().map(|&v| T::from_f64(v.into())));
        }
    };
    coordinates(&mut input.node.laplacian, &encodings.laplacian, network.node.laplacian, "Laplacian");
    coordinates(&mut input.node.random_walk, &encodings.random_walk, network.node.random_walk, "random-walk");
    input.node.roles.clear();
    if let Some(size) = network.node.roles {
        let roles = encodings.weisfeiler_lehman.as_ref().expect("the batch has no Weisfeiler-Lehman encoding");
        input.node.roles.extend(roles.iter().map(|&role| role.min(size as u32 - 1)));
    }
    if network.embeds_edges() {
        let rows = (edges == AttentionScope::Sparse).then(|| batch.edge());
        input.edge.take(&network.edge, rows, edge_count);
    }
}

impl<T: Real> Rows<T> {
    /// Copies features. Rows without features (edges that are not in the data) are 0.
    fn take(&mut self, input: &Input, rows: Option<FeatureRows<'_>>, count: usize) {
        self.rows = count;
        self.categorical.clear();
        self.linear.clear();
        self.hot_offsets.clear();
        self.hot_indices.clear();
        let columns = input.categorical.len();
        match rows {
            Some(rows) => {
                if !input.constant {
                    assert_eq!(
                        rows.categorical.len(),
                        count * columns,
                        "categorical columns of the batch and of the network"
                    );
                    assert_eq!(
                        rows.continuous.len(),
                        count * input.continuous,
                        "continuous columns of the batch and of the network"
                    );
                }
                if columns > 0 {
                    self.categorical.extend_from_slice(rows.categorical);
                }
                self.linear
                    .extend(rows.continuous.iter().take(count * input.continuous).map(|&v| T::from_f64(v.into())));
                if let (Some(_), Some(words)) = (input.multi_hot, rows.multi_hot) {
                    self.hot_offsets.extend(words.offsets.iter().map(|o| o - words.offsets[0]));
                    self.hot_indices.extend_from_slice(words.indices);
                }
            }
            None => {
                self.categorical.resize(count * columns, 0);
                self.linear.resize(count * input.continuous, T::ZERO);
                self.hot_offsets.resize(count + 1, 0);
            }
        }
        if input.constant {
            self.linear.resize(count, T::ONE);
        }
    }

    /// Embeds the rows of a block; `scratch` is as long as `out`.
    fn embed(
        &self,
        engine: &Engine<T>,
        regions: &InputRegions,
        stream: Stream,
        rows: Range<usize>,
        scratch: &mut [T],
        out: &mut [T],
    ) {
        let d = engine.network.channels.padded_width();
        match regions.bias {
            Some(bias) => out.chunks_exact_mut(d).for_each(|row| row.copy_from_slice(engine.vector(bias))),
            None => out.fill(T::ZERO),
        }
        for group in [Group::Features, Group::Encodings] {
            for (row, to) in rows.clone().zip(out.chunks_exact_mut(d)) {
                self.each_embedding(regions, group, row, d, |place| {
                    to.iter_mut().zip(&engine.values[place..place + d]).for_each(|(to, &value)| *to += value);
                });
            }
            for (affine, values) in self.linears(regions, group) {
                let width = values.len() / self.rows.max(1);
                let x = Tile::new(&values[rows.start * width..rows.end * width], rows.len(), width);
                let weight = Tile::new(engine.vector(affine.weight), width, d);
                let epilogue = Epilogue { bias: Some(engine.vector(affine.bias)), ..Default::default() };
                product(engine.isa, x, weight, TileMut::new(scratch, rows.len(), d), epilogue);
                out.iter_mut().zip(&*scratch).for_each(|(to, &value)| *to += value);
            }
            if group == Group::Features {
                engine.drop_input(stream, rows.start, out);
            }
        }
    }

    /// Adds the gradients of the parameters that embed the rows of a part; overwrites `g`.
    fn embed_backward(
        &self,
        engine: &Engine<T>,
        regions: &InputRegions,
        stream: Stream,
        rows: Range<usize>,
        g: &mut [T],
        gradient: &mut Gradient<T>,
    ) {
        let d = engine.network.channels.padded_width();
        let n = rows.len();
        for group in [Group::Encodings, Group::Features] {
            if group == Group::Features {
                engine.drop_input(stream, rows.start, g);
                if let Some(bias) = regions.bias {
                    add_column_sums(engine.isa, g, gradient.of(bias));
                }
            }
            for (affine, values) in self.linears(regions, group) {
                let width = values.len() / self.rows.max(1);
                let x = Tile::new(&values[rows.start * width..rows.end * width], n, width);
                let weight = TileMut::new(gradient.of(affine.weight), width, d);
                product_tn(engine.isa, x, Tile::new(g, n, d), weight, &[]);
                add_column_sums(engine.isa, g, gradient.of(affine.bias));
            }
            for (row, from) in rows.clone().zip(g.chunks_exact(d)) {
                self.each_embedding(regions, group, row, d, |place| {
                    gradient.at(place..place + d).iter_mut().zip(from).for_each(|(to, &value)| *to += value);
                });
            }
        }
    }

    /// Linear layers with the values they read.
    fn linears(&self, regions: &InputRegions, group: Group) -> impl Iterator<Item = (Affine, &[T])> {
        let of_group = match group {
            Group::Features => [(regions.linear, &self.linear[..]), (None, &[])],
            Group::Encodings => {
                [(regions.laplacian, &self.laplacian[..]), (regions.random_walk, &self.random_walk[..])]
            }
        };
        of_group.into_iter().filter_map(|(affine, values)| affine.map(|affine| (affine, values)))
    }

    /// Calls `each` with the place of every embedding row that a row adds.
    fn each_embedding(&self, regions: &InputRegions, group: Group, row: usize, d: usize, mut add: impl FnMut(usize)) {
        if group == Group::Encodings {
            if let Some(region) = regions.roles {
                add(region.offset + self.roles[row] as usize * d);
            }
            return;
        }
        let columns = regions.embeddings.len();
        for (column, region) in regions.embeddings.iter().enumerate() {
            let category = self.categorical[row * columns + column] as usize;
            assert!(category < region.rows, "category {category} of a vocabulary of {}", region.rows);
            add(region.offset + category * d);
        }
        if let Some(region) = regions.multi_hot {
            for &word in &self.hot_indices[self.hot_offsets[row]..self.hot_offsets[row + 1]] {
                assert!((word as usize) < region.rows, "index {word} of a vocabulary of {}", region.rows);
                add(region.offset + word as usize * d);
            }
        }
    }
}

/// The group of values that is embedded. Dropout lies between the two groups.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    Features,
    Encodings,
}

impl<T: Real> Engine<T> {
    /// Drops embedded features of nodes, or their gradients, in place.
    fn drop_input(&self, stream: Stream, first: usize, values: &mut [T]) {
        if stream == Stream::Node && self.work.training && self.network.input_dropout > 0.0 {
            let share = self.network.input_dropout;
            drop_values(share, self.dropout_key, Site::Input, first, &self.orders.stream, values);
        }
    }
}

divisible! {
    /// The two streams.
    Streams { nodes: [node], edges: [edge] }
}

/// Embeds all rows.
pub(crate) fn forward<T: Real>(engine: &mut Engine<T>) {
    let mut stream = std::mem::take(&mut engine.work.streams[0]);
    let mut shared = std::mem::take(&mut engine.work.shared_edges);
    with_parts(engine, |engine, parts| {
        let d = engine.network.channels.padded_width();
        let edge = if engine.network.shares_edges() { &mut shared } else { &mut stream.edge };
        let arrays = Streams { node: &mut stream.node, edge };
        for_parts(&engine.work.plan, parts, arrays, &|blocks, part: &Span, state, out| {
            for block in blocks {
                let edge_rows = if engine.network.embeds_edges() { block.edge_rows(part, d) } else { 0..0 };
                let (node, edge) = (&mut out.node[block.node_rows(part, d)], &mut out.edge[edge_rows]);
                embed_block(engine, block, state, node, edge);
            }
        });
    });
    engine.work.streams[0] = stream;
    engine.work.shared_edges = shared;
}

/// Embeds the rows of a block.
pub(crate) fn embed_block<T: Real>(
    engine: &Engine<T>,
    block: &Span,
    state: &mut PartState<T>,
    node: &mut [T],
    edge: &mut [T],
) {
    let (input, layout) = (&engine.work.input, &engine.layout);
    let scratch = &mut state.scratch.node.y[..node.len()];
    input.node.embed(engine, &layout.node, Stream::Node, block.nodes.clone(), scratch, node);
    if engine.network.embeds_edges() {
        let scratch = &mut state.scratch.edge.y[..edge.len()];
        input.edge.embed(engine, &layout.edge, Stream::Edge, block.edges.clone(), scratch, edge);
        if engine.network.symmetric_edges {
            symmetric::average(&engine.work.topology.mirror, block.edges.clone(), edge);
        }
    }
}

/// Adds the gradients of all parameters of the inputs.
pub(crate) fn backward<T: Real>(engine: &mut Engine<T>) {
    let mut gradients = std::mem::take(&mut engine.work.gradients);
    let mut shared = std::mem::take(&mut engine.work.dshared_edges);
    with_parts(engine, |engine, parts| {
        let input = &engine.work.input;
        let edge = if engine.network.shares_edges() { &mut shared } else { &mut gradients.edge };
        let arrays = Streams { node: &mut gradients.node, edge };
        // Symmetric edges are averaged with their reverses, so graphs stay whole.
        for_parts(&engine.work.plan, parts, arrays, &|_, part: &Span, state, g| {
            let gradient = &mut state.gradient;
            gradient.zero_all();
            input.node.embed_backward(engine, &engine.layout.node, Stream::Node, part.nodes.clone(), g.node, gradient);
            if engine.network.embeds_edges() {
                if engine.network.symmetric_edges {
                    symmetric::average(&engine.work.topology.mirror, part.edges.clone(), g.edge);
                }
                input.edge.embed_backward(
                    engine,
                    &engine.layout.edge,
                    Stream::Edge,
                    part.edges.clone(),
                    g.edge,
                    gradient,
                );
            }
        });
    });
    engine.work.gradients = gradients;
    engine.work.dshared_edges = shared;
}
