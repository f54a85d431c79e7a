//! Queries, keys, values; attention; output projection; the first normalisation's input and
//! moments.
//!
//! In a plan of whole graphs a block goes through the whole stage at once. In an open plan the keys
//! and values of every block must be complete before any block attends. The stage then runs in two
//! passes over all blocks, forward and backward.

use std::ops::Range;

use super::{Gradients, HalfBack, halves, wide, with_next, with_parts};
use crate::Stream;
use crate::cpu::activations::LayerArrays;
use crate::cpu::attention::{self, Form, Forward, Incoming, Outgoing};
use crate::cpu::engine::Engine;
use crate::cpu::gradient::Gradient;
use crate::cpu::plan::{Divide, Extent, Span, divisible, for_parts};
use crate::cpu::product::{Epilogue, product, product_tn};
use crate::cpu::symmetric;
use crate::cpu::tile::{Tile, TileMut};
use crate::cpu::workspace::{Between, Pair, PartState};
use crate::network::Norm;
use crate::real::Real;

divisible! {
    /// Outputs of the first pass.
    Projected { nodes: [qkv], edges: [] }
}

divisible! {
    /// Outputs of the second pass.
    Attended { nodes: [inverse, attended, middle], edges: [weight, proj, score, middle_e] }
}

/// Runs the stage.
pub(crate) fn attention_forward<T: Real>(engine: &mut Engine<T>, layer: usize, train: bool) {
    let kept = if train { layer } else { 0 };
    let mut activations = std::mem::take(&mut engine.work.layers[kept]);
    with_parts(engine, |engine, parts| {
        let LayerArrays { qkv, weight, inverse, proj, halves: Pair { node, edge } } = activations.arrays_mut();
        let attended = Attended {
            inverse,
            attended: node.attended,
            middle: node.middle,
            weight,
            proj,
            score: edge.attended,
            middle_e: edge.middle,
        };
        let stage = Stage { engine, layer, train };
        let (plan, d) = (&engine.work.plan, engine.network.channels.padded_width());
        let stream = &engine.work.streams[engine.stream_index(layer)];
        let nodes = |block: &Span| &stream.node[wide(&block.nodes, d)];
        let edges = |block: &Span| if stream.edge.is_empty() { &[] } else { &stream.edge[wide(&block.edges, d)] };
        if plan.open {
            for_parts(plan, parts, Projected { qkv }, &|blocks, part, state, out| {
                for (block, next) in with_next(blocks) {
                    let qkv = &mut out.qkv[block.node_rows(part, 3 * d)];
                    stage.project([nodes(block), nodes(next)], &mut state.scratch.node.y, qkv);
                }
            });
            let qkv = &*qkv;
            for_parts(plan, parts, attended, &|blocks, part, state, mut out| {
                state.reset_moments(d);
                for (block, next) in with_next(blocks) {
                    stage.input(nodes(block), &mut state.scratch.node.y);
                    stage.attend(block, part, qkv, [edges(block), edges(next)], state, &mut out);
                }
            });
        } else {
            for_parts(plan, parts, (Projected { qkv }, attended), &|blocks, part, state, (projected, mut out)| {
                state.reset_moments(d);
                for (block, next) in with_next(blocks) {
                    let qkv = &mut projected.qkv[block.node_rows(part, 3 * d)];
                    stage.project([nodes(block), nodes(next)], &mut state.scratch.node.y, qkv);
                    stage.attend(block, part, qkv, [edges(block), edges(next)], state, &mut out);
                }
            });
        }
    });
    engine.work.layers[kept] = activations;
}

/// A layer's stage.
#[derive(Clone, Copy)]
pub(crate) struct Stage<'a, T> {
    pub(crate) engine: &'a Engine<T>,
    pub(crate) layer: usize,
    pub(crate) train: bool,
}

impl<T: Real> Stage<'_, T> {
    fn width(&self) -> usize {
        self.engine.network.channels.padded_width()
    }

    /// y = a block's normalised nodes.
    fn input(&self, x: &[T], y: &mut [T]) {
        self.engine.layer_input(self.layer, Stream::Node, x, &mut y[..x.len()]);
    }

    /// Computes a block's input and its queries, keys and values. `next` is the block that is
    /// projected after it.
    pub(crate) fn project(&self, [x, next]: [&[T]; 2], y: &mut [T], qkv: &mut [T]) {
        let (engine, d) = (self.engine, self.width());
        let n = x.len() / d;
        self.input(x, y);
        let weight = engine.weight(engine.layout.layers[self.layer].qkv);
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
        let Self { engine, layer, train } = *self;
        let (isa, d, h) = (engine.isa, self.width(), engine.network.channels.padded_heads());
        let regions = &engine.layout.layers[layer];
        let PartState { scratch, moments, .. } = state;
        let moving = engine.network.norm == Norm::Batch && train;
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
        attention::forward(
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
        engine.drop_attended(layer, Stream::Node, block.nodes.start, attended);
        let middle = &mut out.middle[node_rows];
        engine.project(regions.node.output, attended, &scratch.node.y, middle);
        if moving {
            moments.node.add(isa, middle);
        }
        if engine.edge_output(layer, train) {
            if engine.network.symmetric_edges {
                symmetric::average(&engine.work.topology.mirror, block.edges.clone(), score);
            }
            engine.drop_attended(layer, Stream::Edge, block.edges.start, score);
            let middle = &mut out.middle_e[edge_rows];
            engine.project(regions.edge.output, score, ye, middle);
            if moving {
                moments.edge.add(isa, middle);
            }
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

/// Backward of [`attention_forward`].
pub(crate) fn attention_backward<T: Real>(engine: &mut Engine<T>, layer: usize) {
    let mut gradients = std::mem::take(&mut engine.work.gradients);
    let mut between = std::mem::take(&mut engine.work.between);
    with_parts(engine, |engine, parts| {
        let stage = Backward { engine, layer, half: halves(engine, layer) };
        let (plan, d) = (&engine.work.plan, engine.network.channels.padded_width());
        let arrays = Gradients { node: &mut gradients.node, edge: &mut gradients.edge };
        if plan.open {
            let passing = between.slices();
            for_parts(plan, parts, (arrays, passing), &|blocks, part, state, (mut g, mut passing)| {
                stage.reset(state);
                for (block, next) in with_next(blocks) {
                    let mut own = passing.rows_of(block, part, engine);
                    stage.incoming([block, next], part, state, &mut g, &mut own);
                }
            });
            let Between { dx, dattended, dqkv, dlogit, dscore } = &mut between;
            let shared = Shared { dout: dattended, dlogit, dscore };
            let arrays = Finishing { node: &mut gradients.node, dqkv };
            for_parts(plan, parts, arrays, &|blocks, part, state, out| {
                for (block, next) in with_next(blocks) {
                    let g = &mut out.node[block.node_rows(part, d)];
                    let dqkv = &mut out.dqkv[block.node_rows(part, 3 * d)];
                    stage.outgoing([block, next], state, g, &dx[wide(&block.nodes, d)], dqkv, &shared);
                }
            });
        } else {
            for_parts(plan, parts, arrays, &|blocks, part, state, mut g| {
                stage.reset(state);
                for (block, next) in with_next(blocks) {
                    let mut between = std::mem::take(&mut state.between);
                    let mut own = between.slices().first_rows(block, engine);
                    stage.incoming([block, next], part, state, &mut g, &mut own);
                    let Passing { dx, dattended, dqkv, dlogit, dscore } = own;
                    let shared = Shared { dout: dattended, dlogit, dscore };
                    stage.outgoing([block, next], state, &mut g.node[block.node_rows(part, d)], dx, dqkv, &shared);
                    state.between = between;
                }
            });
        }
    });
    engine.work.gradients = gradients;
    engine.work.between = between;
}

impl<T: Real> Between<T> {
    fn slices(&mut self) -> Passing<'_, T> {
        let Self { dx, dattended, dqkv, dlogit, dscore } = self;
        Passing { dx, dattended, dqkv, dlogit, dscore }
    }
}

impl<'a, T: Real> Passing<'a, T> {
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

    /// The first rows of the arrays, as many as a block has.
    fn first_rows(self, block: &Span, engine: &Engine<T>) -> Passing<'a, T> {
        let (d, h) = (engine.network.channels.padded_width(), engine.network.channels.padded_heads());
        let (n, e) = (block.nodes.len(), block.edges.len());
        Passing {
            dx: &mut self.dx[..n * d],
            dattended: &mut self.dattended[..n * d],
            dqkv: &mut self.dqkv[..n * 3 * d],
            dlogit: &mut self.dlogit[..e * h],
            dscore: &mut self.dscore[..if engine.network.edge_stream { e * d } else { 0 }],
        }
    }
}

/// Arrays that the second pass reads at the other end of an edge.
struct Shared<'a, T> {
    dout: &'a [T],
    dlogit: &'a [T],
    dscore: &'a [T],
}

struct Backward<'a, T> {
    engine: &'a Engine<T>,
    layer: usize,
    half: Pair<HalfBack<'a, T>>,
}

impl<T: Real> Backward<'_, T> {
    fn width(&self) -> usize {
        self.engine.network.channels.padded_width()
    }

    /// Whether the layer below has a batch normalisation that waits for sums.
    fn sums_needed(&self) -> bool {
        self.engine.network.norm == Norm::Batch && self.layer > 0
    }

    /// Zeroes the sums and gradients that a part adds to.
    fn reset(&self, state: &mut PartState<T>) {
        let Self { engine, layer, half } = self;
        let regions = &engine.layout.layers[*layer];
        state.reset_sums(self.width());
        let gradient = &mut state.gradient;
        gradient.zero(regions.qkv.range());
        gradient.zero(half.node.half.projection());
        if engine.network.edge_stream {
            gradient.zero(regions.projection.range());
        }
        if engine.edge_gradient(*layer) {
            gradient.zero(half.edge.half.projection());
        }
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
        let Self { engine, layer, half } = self;
        let (isa, d, h) = (engine.isa, self.width(), engine.network.channels.padded_heads());
        let (with_edges, edge_gradient) = (engine.network.edge_stream, engine.edge_gradient(*layer));
        let activations = engine.work.layers[*layer].arrays();
        let PartState { gradient, sums, scratch, .. } = state;
        let g_node = &g.node[block.node_rows(part, d)];
        half.node.output(engine, *layer, [&block.nodes, &next.nodes], g_node, own.dx, own.dattended, gradient);
        let e = if with_edges { block.edges.len() } else { 0 };
        let g_edge: &mut [T] = if with_edges { &mut g.edge[block.edge_rows(part, d)] } else { &mut [] };
        let edge_rows = if with_edges { wide(&block.edges, d) } else { 0..0 };
        let (ye, dx_e, dproj) =
            (&mut scratch.edge.y[..e * d], &mut scratch.edge.dx[..e * d], &mut scratch.edge.wide[..e * d]);
        if edge_gradient {
            half.edge.output(engine, *layer, [&block.edges, &next.edges], g_edge, dx_e, own.dscore, gradient);
            if engine.network.symmetric_edges {
                symmetric::average(&engine.work.topology.mirror, block.edges.clone(), own.dscore);
            }
        }
        attention::backward_in(
            isa,
            Incoming {
                form: Form::of(&engine.network),
                edges: engine.work.topology.edges_of(block, engine.work.plan.open),
                qkv: self.shared_rows(activations.qkv, &block.nodes, 3 * d),
                proj: &activations.proj[edge_rows.clone()],
                weight: &activations.weight[wide(&block.edges, h)],
                inverse: &activations.inverse[wide(&block.nodes, h)],
                out: &activations.halves.node.attended[wide(&block.nodes, d)],
                keep: T::from_f64(engine.kept()),
                dout: own.dattended,
                dscore: edge_gradient.then_some(&*own.dscore),
                dlogit: own.dlogit,
                dqkv: own.dqkv,
                dproj,
            },
        );
        if with_edges {
            let projection = engine.layout.layers[*layer].projection;
            let x = &engine.work.streams[*layer].edge[edge_rows];
            engine.layer_input(*layer, Stream::Edge, x, ye);
            let weight = TileMut::new(gradient.of(projection), d, d);
            let ahead = &activations.proj[wide(&next.edges, d)];
            product_tn(isa, Tile::new(ye, e, d), Tile::new(dproj, e, d), weight, ahead);
            let residual = (engine.network.residual && edge_gradient).then(|| Tile::new(dx_e, e, d));
            let ahead = &engine.work.streams[*layer].edge[wide(&next.edges, d)];
            let epilogue = Epilogue { residual, ahead, ..Default::default() };
            let weight = engine.transpose(projection);
            product(isa, Tile::new(dproj, e, d), weight, TileMut::new(g_edge, e, d), epilogue);
            engine.add_head_gradient(*layer, Stream::Edge, &block.edges, g_edge);
            if self.sums_needed() {
                engine.sites[layer - 1][1].edge.batch.add_gradient_sums(isa, g_edge, x, &mut sums.edge);
            }
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
        let Self { engine, layer, .. } = self;
        let (isa, d, h, n) = (engine.isa, self.width(), engine.network.channels.padded_heads(), block.nodes.len());
        let activations = engine.work.layers[*layer].arrays();
        let score_width = if engine.network.edge_stream { d } else { 0 };
        attention::backward_out(
            isa,
            Outgoing {
                form: Form::of(&engine.network),
                edges: engine.work.topology.edges_of(block, engine.work.plan.open),
                qkv: self.shared_rows(activations.qkv, &block.nodes, 3 * d),
                proj: self.shared_rows(activations.proj, &block.edges, score_width),
                weight: self.shared_rows(activations.weight, &block.edges, h),
                dout: shared.dout,
                dscore: engine.edge_gradient(*layer).then_some(shared.dscore),
                dlogit: shared.dlogit,
                dqkv,
            },
        );
        let x = &engine.work.streams[*layer].node[wide(&block.nodes, d)];
        let y = &mut state.scratch.node.y[..n * d];
        engine.layer_input(*layer, Stream::Node, x, y);
        let region = engine.layout.layers[*layer].qkv;
        let weight = TileMut::new(state.gradient.of(region), d, 3 * d);
        product_tn(
            isa,
            Tile::new(y, n, d),
            Tile::new(dqkv, n, 3 * d),
            weight,
            &activations.qkv[wide(&next.nodes, 3 * d)],
        );
        let residual = engine.network.residual.then(|| Tile::new(dx, n, d));
        let ahead = &engine.work.streams[*layer].node[wide(&next.nodes, d)];
        let epilogue = Epilogue { residual, ahead, ..Default::default() };
        product(isa, Tile::new(dqkv, n, 3 * d), engine.transpose(region), TileMut::new(g, n, d), epilogue);
        engine.add_head_gradient(*layer, Stream::Node, &block.nodes, g);
        if self.sums_needed() {
            engine.sites[layer - 1][1].node.batch.add_gradient_sums(isa, g, x, &mut state.sums.node);
        }
    }

    /// The rows that a block reads at the other end of its edges: its own rows where it consists of
    /// whole graphs, else all rows.
    fn shared_rows<'b>(&self, array: &'b [T], rows: &Range<usize>, width: usize) -> &'b [T] {
        if self.engine.work.plan.open { array } else { &array[wide(rows, width)] }
    }
}

impl<T: Real> HalfBack<'_, T> {
    /// From the gradient of the first normalisation's output to that of the attended values. `dx`
    /// keeps the gradient that the residual passes on.
    #[allow(clippy::too_many_arguments, reason = "one gradient in, two out, and where they belong")]
    fn output(
        &self,
        engine: &Engine<T>,
        layer: usize,
        [rows, next]: [&Range<usize>; 2],
        g: &[T],
        dx: &mut [T],
        dattended: &mut [T],
        gradient: &mut Gradient<T>,
    ) {
        let d = engine.network.channels.padded_width();
        let n = rows.len();
        let middle = &self.activations.middle[wide(rows, d)];
        engine.normalise_backward(self.sites[0], self.half.norms[0], middle, g, dx, gradient);
        let attended = self.activations.attended;
        let ahead = &self.activations.middle[wide(next, d)];
        engine.add_affine_gradient(self.half.output, &attended[wide(rows, d)], dx, gradient, ahead);
        let weight = engine.transpose(self.half.output.weight);
        let epilogue = Epilogue { ahead: &attended[wide(next, d)], ..Default::default() };
        product(engine.isa, Tile::new(dx, n, d), weight, TileMut::new(dattended, n, d), epilogue);
        engine.drop_attended(layer, self.stream, rows.start, dattended);
    }
}
