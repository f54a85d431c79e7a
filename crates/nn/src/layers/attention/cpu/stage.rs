//! Queries, keys, values; attention; output projection; the first normalisation's input and
//! moments.
//!
//! In a plan of whole graphs a block goes through the whole stage at once. In an open plan the keys
//! and values of every block must be complete before any block attends. The stage then runs in two
//! passes over all blocks, forward and backward.

use std::ops::Range;

use super::{Form, Forward, Incoming, Outgoing, backward_in, backward_out, forward};
use crate::cpu::dropout::{self, drop_values};
use crate::cpu::engine::Engine;
use crate::cpu::gradient::Gradient;
use crate::cpu::norm::Site;
use crate::cpu::plan::{Divide, Extent, Span, divisible, for_parts};
use crate::cpu::product::{Epilogue, product, product_tn};
use crate::cpu::stage::{Gradients, wide, with_next};
use crate::cpu::symmetric;
use crate::cpu::tile::{Tile, TileMut};
use crate::cpu::workspace::PartState;
use crate::layers::attention::{Attention, AttentionRegions};
use crate::layers::{Between, BranchBack, BranchLayer, Kept, MOST_PASSED, Pass, Rows};
use crate::parameters::Affine;
use crate::real::Real;
use crate::stream::Stream;

divisible! {
    /// Outputs of the first pass.
    Projected { nodes: [qkv], edges: [] }
}

divisible! {
    /// Outputs of the second pass.
    Attended { nodes: [inverse, attended, middle], edges: [weight, proj, score, middle_e] }
}

/// The forward pass of a layer.
pub(crate) fn forward_pass<T: Real>(pass: &Pass<'_, T>, parts: &mut [PartState<T>], kept: Kept<'_, T>) {
    let Kept { own: [qkv, weight, inverse, proj, attended, score], x } = kept;
    let attended = Attended { inverse, attended, middle: x.node, weight, proj, score, middle_e: x.edge };
    let stage = Stage::of(*pass);
    let Pass { engine, layer, .. } = *pass;
    let (plan, d) = (&engine.work.plan, pass.width());
    let stream = &engine.work.streams[engine.stream_index(layer)];
    let nodes = |block: &Span| &stream.node[wide(&block.nodes, d)];
    let edges = |block: &Span| if stream.edge.is_empty() { &[] } else { &stream.edge[wide(&block.edges, d)] };
    if plan.open {
        for_parts(plan, parts, Projected { qkv: &mut *qkv }, &|blocks, part, state, out| {
            for (block, next) in with_next(blocks) {
                let qkv = &mut out.qkv[block.node_rows(part, 3 * d)];
                stage.project([nodes(block), nodes(next)], &mut state.scratch.node.y, qkv);
            }
        });
        let qkv = &*qkv;
        for_parts(plan, parts, attended, &|blocks, part, state, mut out| {
            pass.reset_moments(state);
            for (block, next) in with_next(blocks) {
                stage.input(nodes(block), &mut state.scratch.node.y);
                stage.attend(block, part, qkv, [edges(block), edges(next)], state, &mut out);
            }
        });
    } else {
        for_parts(plan, parts, (Projected { qkv }, attended), &|blocks, part, state, (projected, mut out)| {
            pass.reset_moments(state);
            for (block, next) in with_next(blocks) {
                let qkv = &mut projected.qkv[block.node_rows(part, 3 * d)];
                stage.project([nodes(block), nodes(next)], &mut state.scratch.node.y, qkv);
                stage.attend(block, part, qkv, [edges(block), edges(next)], state, &mut out);
            }
        });
    }
}

/// A layer's attention.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stage<'a, T> {
    pass: Pass<'a, T>,
    regions: AttentionRegions,
}

impl<'a, T: Real> Stage<'a, T> {
    pub(crate) fn of(pass: Pass<'a, T>) -> Self {
        Self { pass, regions: pass.regions().into() }
    }

    /// y = a block's normalised nodes.
    fn input(&self, x: &[T], y: &mut [T]) {
        self.pass.engine.layer_input(self.pass.layer, Stream::Node, x, &mut y[..x.len()]);
    }

    /// Computes a block's input and its queries, keys and values. `next` is the block that is
    /// projected after it.
    pub(crate) fn project(&self, [x, next]: [&[T]; 2], y: &mut [T], qkv: &mut [T]) {
        let (engine, d) = (self.pass.engine, self.pass.width());
        let n = x.len() / d;
        self.input(x, y);
        let weight = engine.weight(self.regions.qkv);
        let epilogue = Epilogue { ahead: next, ..Default::default() };
        product(engine.isa, Tile::new(y, n, d), weight, TileMut::new(qkv, n, 3 * d), epilogue);
    }

    /// Computes the rest of the stage for a block. The input of the block is still in `scratch`,
    /// its edges are `xe`, and the edges of the next block are `next`.
    pub(crate) fn attend(
        &self,
        block: &Span,
        part: &Span,
        qkv: &[T],
        [xe, next]: [&[T]; 2],
        state: &mut PartState<T>,
        out: &mut Attended<'_, T>,
    ) {
        let Self { pass, regions } = *self;
        let Pass { engine, layer, train, .. } = pass;
        let (isa, d, h) = (engine.isa, pass.width(), engine.network.channels.padded_heads());
        let scratch = &mut state.scratch;
        let with_edges = engine.network.edge_stream;
        let edge_rows = if with_edges { block.edge_rows(part, d) } else { 0..0 };
        let e = if with_edges { block.edges.len() } else { 0 };
        let ye = &mut scratch.edge.y[..e * d];
        if with_edges {
            engine.layer_input(layer, Stream::Edge, xe, ye);
            let proj = TileMut::new(&mut out.proj[edge_rows.clone()], e, d);
            let epilogue = Epilogue { ahead: next, ..Default::default() };
            product(isa, Tile::new(ye, e, d), engine.weight(regions.projection), proj, epilogue);
        }
        let node_rows = block.node_rows(part, d);
        let attended = &mut out.attended[node_rows.clone()];
        let score = &mut out.score[edge_rows.clone()];
        forward(
            isa,
            Forward {
                form: Form::of(&engine.network),
                edges: engine.work.topology.edges_of(block, engine.work.plan.open),
                qkv,
                proj: &out.proj[edge_rows.clone()],
                score,
                weight: &mut out.weight[block.edge_rows(part, h)],
                inverse: &mut out.inverse[block.node_rows(part, h)],
                out: attended,
            },
        );
        drop_attended(&pass, Stream::Node, block.nodes.start, attended);
        let middle = &mut out.middle[node_rows];
        engine.project(regions.output.node, attended, &scratch.node.y, middle);
        pass.add_moments(state, Stream::Node, middle);
        if engine.edge_output(layer, train) {
            if engine.network.symmetric_edges {
                symmetric::average(&engine.work.topology.mirror, block.edges.clone(), score);
            }
            drop_attended(&pass, Stream::Edge, block.edges.start, score);
            let middle = &mut out.middle_e[edge_rows];
            engine.project(regions.output.edge, score, &state.scratch.edge.y[..e * d], middle);
            pass.add_moments(state, Stream::Edge, middle);
        }
    }
}

divisible! {
    /// Gradients between the two passes.
    Passing { nodes: [dx, dattended, dqkv], edges: [dlogit, dscore] }
}

divisible! {
    /// Outputs of the second pass of an open plan.
    Finishing { nodes: [node, dqkv], edges: [] }
}

/// Drops attended values or scores, or their gradients, in place; `first` is the number of the
/// first row.
fn drop_attended<T: Real>(pass: &Pass<'_, T>, stream: Stream, first: usize, values: &mut [T]) {
    let Pass { engine, layer, branch, .. } = *pass;
    if engine.work.training && engine.network.dropout > 0.0 {
        let site = dropout::Site::Branch(layer, branch, stream);
        drop_values(engine.network.dropout, engine.dropout_key, site, first, &engine.orders.stream, values);
    }
}

/// Backward of [`forward_pass`].
pub(crate) fn backward_pass<T: Real>(pass: &Pass<'_, T>, parts: &mut [PartState<T>], back: BranchBack<'_, T>) {
    let BranchBack { g, between, .. } = back;
    let engine = pass.engine;
    let stage = Backward::of(*pass);
    let (plan, d) = (&engine.work.plan, pass.width());
    let arrays = Gradients { node: g.node, edge: g.edge };
    if plan.open {
        let mut passing = Passing::new(between, pass, pass.rows());
        let slices = passing.reborrow();
        let Gradients { node, edge } = arrays;
        let first = Gradients { node: &mut *node, edge };
        for_parts(plan, parts, (first, slices), &|blocks, part, state, (mut g, mut passing)| {
            pass.reset(state);
            for (block, next) in with_next(blocks) {
                let mut own = passing.rows_of(block, part, engine);
                stage.incoming([block, next], part, state, &mut g, &mut own);
            }
        });
        let Passing { dx, dattended, dqkv, dlogit, dscore } = passing;
        let (dx, shared) = (&*dx, Shared { dout: dattended, dlogit, dscore });
        for_parts(plan, parts, Finishing { node, dqkv }, &|blocks, part, state, out| {
            for (block, next) in with_next(blocks) {
                let g = &mut out.node[block.node_rows(part, d)];
                let dqkv = &mut out.dqkv[block.node_rows(part, 3 * d)];
                stage.outgoing([block, next], state, g, &dx[wide(&block.nodes, d)], dqkv, &shared);
            }
        });
    } else {
        for_parts(plan, parts, arrays, &|blocks, part, state, mut g| {
            pass.reset(state);
            for (block, next) in with_next(blocks) {
                let mut between = std::mem::take(&mut state.between);
                let (nodes, edges) = (block.nodes.len(), block.edges.len());
                let rows = Rows { nodes, edges, stream_edges: if engine.network.edge_stream { edges } else { 0 } };
                let mut own = Passing::new(&mut between, pass, rows);
                stage.incoming([block, next], part, state, &mut g, &mut own);
                let Passing { dx, dattended, dqkv, dlogit, dscore } = own;
                let shared = Shared { dout: dattended, dlogit, dscore };
                stage.outgoing([block, next], state, &mut g.node[block.node_rows(part, d)], dx, dqkv, &shared);
                state.between = between;
            }
        });
    }
}

impl<'a, T: Real> Passing<'a, T> {
    /// The arrays for some rows, as long as [`Attention::passed`] says.
    fn new(between: &'a mut Between<T>, pass: &Pass<'_, T>, rows: Rows) -> Self {
        let lengths: [usize; MOST_PASSED] = Attention.passed(&pass.engine.network, rows);
        let [dx, dattended, dqkv, dlogit, dscore] = between.cut(lengths);
        Self { dx, dattended, dqkv, dlogit, dscore }
    }

    fn reborrow(&mut self) -> Passing<'_, T> {
        let Self { dx, dattended, dqkv, dlogit, dscore } = self;
        Passing { dx, dattended, dqkv, dlogit, dscore }
    }

    /// The rows of a block in arrays that begin with its part's.
    fn rows_of(&mut self, block: &Span, part: &Span, engine: &Engine<T>) -> Passing<'_, T> {
        let (d, h) = (engine.network.channels.padded_width(), engine.network.channels.padded_heads());
        let score = if engine.network.edge_stream { d } else { 0 };
        Passing {
            dx: &mut self.dx[block.node_rows(part, d)],
            dattended: &mut self.dattended[block.node_rows(part, d)],
            dqkv: &mut self.dqkv[block.node_rows(part, 3 * d)],
            dlogit: &mut self.dlogit[block.edge_rows(part, h)],
            dscore: &mut self.dscore[block.edge_rows(part, score)],
        }
    }
}

/// Arrays that the second pass reads at the other end of an edge.
struct Shared<'a, T> {
    dout: &'a [T],
    dlogit: &'a [T],
    dscore: &'a [T],
}

/// What the backward pass of one stream's output layer reads.
#[derive(Clone, Copy, Debug)]
struct Output<'a, T> {
    stream: Stream,
    site: &'a Site<T>,
    norm: Affine,
    affine: Affine,
    /// Input of the output layer.
    attended: &'a [T],
    /// Input of the normalisation.
    middle: &'a [T],
}

/// What the backward pass of a layer reads.
#[derive(Clone, Copy, Debug)]
struct Backward<'a, T> {
    pass: Pass<'a, T>,
    regions: AttentionRegions,
    qkv: &'a [T],
    weight: &'a [T],
    inverse: &'a [T],
    proj: &'a [T],
    node: Output<'a, T>,
    edge: Output<'a, T>,
}

impl<'a, T: Real> Backward<'a, T> {
    fn of(pass: Pass<'a, T>) -> Self {
        let regions = AttentionRegions::from(pass.regions());
        let ([qkv, weight, inverse, proj, attended, score], x) = pass.kept();
        let output = |stream, attended, middle| {
            let (site, norm) = pass.engine.norm_site(pass.layer, pass.branch, stream);
            Output { stream, site, norm, affine: *regions.output.of(stream), attended, middle }
        };
        let (node, edge) = (output(Stream::Node, attended, x.node), output(Stream::Edge, score, x.edge));
        Self { pass, regions, qkv, weight, inverse, proj, node, edge }
    }

    /// Output projections, the edges into the block's nodes, and all of its edge stream.
    fn incoming(
        &self,
        [block, next]: [&Span; 2],
        part: &Span,
        state: &mut PartState<T>,
        g: &mut Gradients<'_, T>,
        own: &mut Passing<'_, T>,
    ) {
        let Self { pass, regions, .. } = self;
        let Pass { engine, layer, .. } = *pass;
        let (isa, d, h) = (engine.isa, pass.width(), engine.network.channels.padded_heads());
        let (with_edges, edge_gradient) = (engine.network.edge_stream, engine.edge_gradient(layer));
        let PartState { gradient, scratch, .. } = &mut *state;
        let g_node = &g.node[block.node_rows(part, d)];
        self.node.backward(pass, [&block.nodes, &next.nodes], g_node, own.dx, own.dattended, gradient);
        let e = if with_edges { block.edges.len() } else { 0 };
        let g_edge: &mut [T] = if with_edges { &mut g.edge[block.edge_rows(part, d)] } else { &mut [] };
        let edge_rows = if with_edges { wide(&block.edges, d) } else { 0..0 };
        let (ye, dx_e, dproj) =
            (&mut scratch.edge.y[..e * d], &mut scratch.edge.dx[..e * d], &mut scratch.edge.wide[..e * d]);
        if edge_gradient {
            self.edge.backward(pass, [&block.edges, &next.edges], g_edge, dx_e, own.dscore, gradient);
            if engine.network.symmetric_edges {
                symmetric::average(&engine.work.topology.mirror, block.edges.clone(), own.dscore);
            }
        }
        backward_in(
            isa,
            Incoming {
                form: Form::of(&engine.network),
                edges: engine.work.topology.edges_of(block, engine.work.plan.open),
                qkv: self.shared_rows(self.qkv, &block.nodes, 3 * d),
                proj: &self.proj[edge_rows.clone()],
                weight: &self.weight[wide(&block.edges, h)],
                inverse: &self.inverse[wide(&block.nodes, h)],
                out: &self.node.attended[wide(&block.nodes, d)],
                keep: T::from_f64(engine.kept()),
                dout: own.dattended,
                dscore: edge_gradient.then_some(&*own.dscore),
                dlogit: own.dlogit,
                dqkv: own.dqkv,
                dproj,
            },
        );
        if with_edges {
            let x = &engine.work.streams[layer].edge[edge_rows];
            engine.layer_input(layer, Stream::Edge, x, ye);
            let weight = TileMut::new(gradient.of(regions.projection), d, d);
            let ahead = &self.proj[wide(&next.edges, d)];
            product_tn(isa, Tile::new(ye, e, d), Tile::new(dproj, e, d), weight, ahead);
            let residual = (engine.network.residual && edge_gradient).then(|| Tile::new(dx_e, e, d));
            let ahead = &engine.work.streams[layer].edge[wide(&next.edges, d)];
            let epilogue = Epilogue { residual, ahead, ..Default::default() };
            let weight = engine.transpose(regions.projection);
            product(isa, Tile::new(dproj, e, d), weight, TileMut::new(g_edge, e, d), epilogue);
            pass.leave(Stream::Edge, &block.edges, g_edge, state);
        }
    }

    /// The edges out of the block's nodes, and the projection of queries, keys and values.
    fn outgoing(
        &self,
        [block, next]: [&Span; 2],
        state: &mut PartState<T>,
        g: &mut [T],
        dx: &[T],
        dqkv: &mut [T],
        shared: &Shared<'_, T>,
    ) {
        let pass = &self.pass;
        let Pass { engine, layer, .. } = *pass;
        let (isa, d, h, n) = (engine.isa, pass.width(), engine.network.channels.padded_heads(), block.nodes.len());
        let score_width = if engine.network.edge_stream { d } else { 0 };
        backward_out(
            isa,
            Outgoing {
                form: Form::of(&engine.network),
                edges: engine.work.topology.edges_of(block, engine.work.plan.open),
                qkv: self.shared_rows(self.qkv, &block.nodes, 3 * d),
                proj: self.shared_rows(self.proj, &block.edges, score_width),
                weight: self.shared_rows(self.weight, &block.edges, h),
                dout: shared.dout,
                dscore: engine.edge_gradient(layer).then_some(shared.dscore),
                dlogit: shared.dlogit,
                dqkv,
            },
        );
        let x = &engine.work.streams[layer].node[wide(&block.nodes, d)];
        let y = &mut state.scratch.node.y[..n * d];
        engine.layer_input(layer, Stream::Node, x, y);
        let region = self.regions.qkv;
        let weight = TileMut::new(state.gradient.of(region), d, 3 * d);
        product_tn(isa, Tile::new(y, n, d), Tile::new(dqkv, n, 3 * d), weight, &self.qkv[wide(&next.nodes, 3 * d)]);
        let residual = engine.network.residual.then(|| Tile::new(dx, n, d));
        let ahead = &engine.work.streams[layer].node[wide(&next.nodes, d)];
        let epilogue = Epilogue { residual, ahead, ..Default::default() };
        product(isa, Tile::new(dqkv, n, 3 * d), engine.transpose(region), TileMut::new(g, n, d), epilogue);
        pass.leave(Stream::Node, &block.nodes, g, state);
    }

    /// The rows that a block reads at the other end of its edges: its own rows where it consists of
    /// whole graphs, else all rows.
    fn shared_rows<'b>(&self, array: &'b [T], rows: &Range<usize>, width: usize) -> &'b [T] {
        if self.pass.engine.work.plan.open { array } else { &array[wide(rows, width)] }
    }
}

impl<T: Real> Output<'_, T> {
    /// From the gradient of the normalisation's output to that of the attended values. `dx` keeps
    /// the gradient that the residual passes on.
    fn backward(
        &self,
        pass: &Pass<'_, T>,
        [rows, next]: [&Range<usize>; 2],
        g: &[T],
        dx: &mut [T],
        dattended: &mut [T],
        gradient: &mut Gradient<T>,
    ) {
        let (engine, d, n) = (pass.engine, pass.width(), rows.len());
        let Self { attended, middle, .. } = *self;
        engine.normalise_backward(self.site, self.norm, &middle[wide(rows, d)], g, dx, gradient);
        engine.add_affine_gradient(self.affine, &attended[wide(rows, d)], dx, gradient, &middle[wide(next, d)]);
        let weight = engine.transpose(self.affine.weight);
        let epilogue = Epilogue { ahead: &attended[wide(next, d)], ..Default::default() };
        product(engine.isa, Tile::new(dx, n, d), weight, TileMut::new(dattended, n, d), epilogue);
        drop_attended(pass, self.stream, rows.start, dattended);
    }
}

/// The weights of a layer whose attention has just run in inference. `[edges, heads]`
pub(crate) fn weights<T: Real>(engine: &Engine<T>, branch: usize) -> Vec<T> {
    let channels = engine.network.channels;
    let (heads, padded) = (channels.heads(), channels.padded_heads());
    let ([_, weight, inverse, ..], _) = engine.work.layers[0].branch(branch);
    let topology = &engine.work.topology;
    let mut weights = Vec::with_capacity(topology.edges() * heads);
    for node in 0..topology.nodes() {
        let inverse = &inverse[node * padded..][..heads];
        for edge in topology.into(node) {
            let exponentials = &weight[edge * padded..][..heads];
            // The sign says whether the clamp held.
            weights.extend(exponentials.iter().zip(inverse).map(|(&w, &inverse)| w.abs() * inverse));
        }
    }
    weights
}
