//! The stages of a layer: attention up to the first normalisation's input, feed-forward up to the second's, forward and backward.

use super::attention;
use super::columns::add_column_sums;
use super::engine::{Engine, HalfActivations, LayerActivations, Pair, PartState, Scratch, Site};
use super::gradient::Gradient;
use super::plan::{Divide, Extent, Span, divisible, for_parts};
use super::product::{Epilogue, product, product_tn};
use super::tile::{Tile, TileMut};
use crate::network::Norm;
use crate::parameters::{Affine, Half, Region};
use crate::real::Real;

divisible! {
    /// What the attention stage writes.
    AttentionOut { graphs: [], nodes: [qkv, inverse, attended, middle], edges: [weight, proj, score, middle_e] }
}

divisible! {
    /// What the feed-forward stage writes.
    FeedForwardOut { graphs: [], nodes: [hidden, out], edges: [hidden_e, out_e] }
}

divisible! {
    /// Gradients of the two streams.
    Gradients { graphs: [], nodes: [node], edges: [edge] }
}

/// Rows of a block inside its part's array.
fn rows<T>(
    array: &[T],
    width: usize,
    block: &std::ops::Range<usize>,
    part: &std::ops::Range<usize>,
) -> std::ops::Range<usize> {
    debug_assert!(array.len() >= (block.end - part.start) * width);
    (block.start - part.start) * width..(block.end - part.start) * width
}

impl<T: Real> Engine<T> {
    fn weight(&self, region: Region) -> Tile<'_, T> {
        Tile::new(&self.values[region.range()], region.rows, region.columns)
    }

    fn transpose(&self, region: Region) -> Tile<'_, T> {
        Tile::new(&self.transposed[region.range()], region.columns, region.rows)
    }

    fn vector(&self, region: Region) -> &[T] {
        &self.values[region.range()]
    }

    /// out = x·W + b + residual
    fn project(&self, affine: Affine, x: &[T], residual: &[T], out: &mut [T]) {
        let (from, to) = (affine.weight.rows, affine.weight.columns);
        let n = out.len() / to;
        let residual = self.network.residual.then(|| Tile::new(residual, n, to));
        let epilogue = Epilogue { bias: Some(self.vector(affine.bias)), residual, ..Default::default() };
        product(self.isa, Tile::new(x, n, from), self.weight(affine.weight), TileMut::new(out, n, to), epilogue);
    }

    /// y = x, normalised by the second normalisation of the layer before.
    fn layer_input(
        &self,
        layer: usize,
        x: &[T],
        y: &mut [T],
        site: fn(&Pair<Site<T>>) -> &Site<T>,
        half: fn(&crate::parameters::Layer) -> &Half,
    ) {
        if layer == 0 {
            y.copy_from_slice(x);
        } else {
            let affine = half(&self.layout.layers[layer - 1]).norms[1];
            self.normalise(site(&self.sites[layer - 1][1]), affine, x, y);
        }
    }
}

/// Takes the mutable parts of the workspace out, so that the rest of the engine can be read beside them.
fn with_parts<T: Real, R>(engine: &mut Engine<T>, run: impl FnOnce(&Engine<T>, &mut [PartState<T>]) -> R) -> R {
    let mut parts = std::mem::take(&mut engine.work.parts);
    let result = run(engine, &mut parts);
    engine.work.parts = parts;
    result
}

/// Queries, keys, values; attention; output projection; the first normalisation's input and moments.
pub(crate) fn attention_forward<T: Real>(engine: &mut Engine<T>, layer: usize, train: bool) {
    let kept = if train { layer } else { 0 };
    let mut activations = std::mem::take(&mut engine.work.layers[kept]);
    with_parts(engine, |engine, parts| {
        let LayerActivations { qkv, weight, inverse, proj, halves } = &mut activations;
        let out = AttentionOut {
            qkv,
            inverse,
            attended: &mut halves.node.attended,
            middle: &mut halves.node.middle,
            weight,
            proj,
            score: &mut halves.edge.attended,
            middle_e: &mut halves.edge.middle,
        };
        for_parts(&engine.work.plan, parts, out, &|blocks, part, state, out| {
            attention_part(engine, layer, train, blocks, part, state, out);
        });
    });
    engine.work.layers[kept] = activations;
}

fn attention_part<T: Real>(
    engine: &Engine<T>,
    layer: usize,
    train: bool,
    blocks: &[Span],
    part: &Span,
    state: &mut PartState<T>,
    out: AttentionOut<'_, T>,
) {
    let isa = engine.isa;
    let (d, h) = (engine.network.channels.padded_width(), engine.network.channels.padded_heads());
    let with_edges = engine.network.edge_stream;
    let edge_output = engine.edge_output(layer, train);
    let stream = &engine.work.streams[if train { layer } else { 0 }];
    let regions = &engine.layout.layers[layer];
    let moments = engine.network.norm == Norm::Batch && train;
    state.moments.node.reset(d);
    state.moments.edge.reset(d);
    for block in blocks {
        let (n, e) = (block.nodes.len(), block.edges.len());
        let y = &mut state.scratch.node.y[..n * d];
        engine.layer_input(
            layer,
            &stream.node[block.nodes.start * d..block.nodes.end * d],
            y,
            |p| &p.node,
            |l| &l.node,
        );
        let wide = rows(out.qkv, 3 * d, &block.nodes, &part.nodes);
        let qkv = &mut out.qkv[wide];
        product(isa, Tile::new(y, n, d), engine.weight(regions.qkv), TileMut::new(qkv, n, 3 * d), Epilogue::default());

        let ye = if with_edges { &mut state.scratch.edge.y[..e * d] } else { &mut [] };
        let narrow_e = if with_edges { rows(out.proj, d, &block.edges, &part.edges) } else { 0..0 };
        let proj = &mut out.proj[narrow_e.clone()];
        if with_edges {
            engine.layer_input(
                layer,
                &stream.edge[block.edges.start * d..block.edges.end * d],
                ye,
                |p| &p.edge,
                |l| &l.edge,
            );
            product(
                isa,
                Tile::new(ye, e, d),
                engine.weight(regions.projection),
                TileMut::new(proj, e, d),
                Epilogue::default(),
            );
        }
        let narrow = rows(out.attended, d, &block.nodes, &part.nodes);
        attention::forward(
            isa,
            attention::Forward {
                channels: engine.network.channels,
                edges: engine.work.topology.edges_of(block),
                qkv,
                proj: with_edges.then_some(&*proj),
                score: &mut out.score[narrow_e.clone()],
                weight: &mut out.weight
                    [(block.edges.start - part.edges.start) * h..(block.edges.end - part.edges.start) * h],
                inverse: &mut out.inverse
                    [(block.nodes.start - part.nodes.start) * h..(block.nodes.end - part.nodes.start) * h],
                out: &mut out.attended[narrow.clone()],
            },
        );
        let middle = &mut out.middle[narrow.clone()];
        engine.project(regions.node.output, &out.attended[narrow], y, middle);
        if moments {
            state.moments.node.add(isa, middle);
        }
        if edge_output {
            let middle = &mut out.middle_e[narrow_e.clone()];
            engine.project(regions.edge.output, &out.score[narrow_e], ye, middle);
            if moments {
                state.moments.edge.add(isa, middle);
            }
        }
    }
}

/// First normalisation, feed-forward, the second normalisation's input and moments.
pub(crate) fn feed_forward<T: Real>(engine: &mut Engine<T>, layer: usize, train: bool) {
    let kept = if train { layer } else { 0 };
    let target = if train { layer + 1 } else { 0 };
    let mut activations = std::mem::take(&mut engine.work.layers[kept]);
    let mut stream = std::mem::take(&mut engine.work.streams[target]);
    with_parts(engine, |engine, parts| {
        let Pair { node, edge } = &mut activations.halves;
        let out = FeedForwardOut {
            hidden: &mut node.hidden,
            out: &mut stream.node,
            hidden_e: &mut edge.hidden,
            out_e: &mut stream.edge,
        };
        let (middle, middle_e) = (&node.middle, &edge.middle);
        let edge_output = engine.edge_output(layer, train);
        let moments = engine.network.norm == Norm::Batch && train;
        let [first, _] = &engine.sites[layer];
        let regions = &engine.layout.layers[layer];
        let d = engine.network.channels.padded_width();
        for_parts(&engine.work.plan, parts, out, &|blocks, part, state, out| {
            state.moments.node.reset(d);
            state.moments.edge.reset(d);
            for block in blocks {
                let half = |site: &Site<T>, half: &Half, x: &[T], y: &mut [T], hidden: &mut [T], out: &mut [T]| {
                    engine.normalise(site, half.norms[0], x, y);
                    let (n, wide) = (y.len() / d, half.first.weight.columns);
                    let epilogue =
                        Epilogue { bias: Some(engine.vector(half.first.bias)), relu: true, ..Default::default() };
                    product(
                        engine.isa,
                        Tile::new(y, n, d),
                        engine.weight(half.first.weight),
                        TileMut::new(hidden, n, wide),
                        epilogue,
                    );
                    engine.project(half.second, hidden, y, out);
                };
                let narrow = rows(out.out, d, &block.nodes, &part.nodes);
                let wide = rows(out.hidden, regions.node.first.weight.columns, &block.nodes, &part.nodes);
                let x = &middle[block.nodes.start * d..block.nodes.end * d];
                let y = &mut state.scratch.node.y[..x.len()];
                half(&first.node, &regions.node, x, y, &mut out.hidden[wide], &mut out.out[narrow.clone()]);
                if moments {
                    state.moments.node.add(engine.isa, &out.out[narrow]);
                }
                if edge_output {
                    let narrow = rows(out.out_e, d, &block.edges, &part.edges);
                    let wide = rows(out.hidden_e, regions.edge.first.weight.columns, &block.edges, &part.edges);
                    let x = &middle_e[block.edges.start * d..block.edges.end * d];
                    let y = &mut state.scratch.edge.y[..x.len()];
                    half(&first.edge, &regions.edge, x, y, &mut out.hidden_e[wide], &mut out.out_e[narrow.clone()]);
                    if moments {
                        state.moments.edge.add(engine.isa, &out.out_e[narrow]);
                    }
                }
            }
        });
    });
    engine.work.layers[kept] = activations;
    engine.work.streams[target] = stream;
}

/// Gradients of a linear layer's weight and bias.
fn add_affine_gradient<T: Real>(engine: &Engine<T>, affine: Affine, x: &[T], dy: &[T], gradient: &mut Gradient<T>) {
    let (from, to) = (affine.weight.rows, affine.weight.columns);
    let n = dy.len() / to;
    product_tn(
        engine.isa,
        Tile::new(x, n, from),
        Tile::new(dy, n, to),
        TileMut::new(gradient.of(affine.weight), from, to),
    );
    add_column_sums(engine.isa, dy, gradient.of(affine.bias));
}

/// What one stream's half of a layer needs going back.
struct HalfBack<'a, T> {
    sites: [&'a Site<T>; 2],
    half: &'a Half,
    activations: &'a HalfActivations<T>,
    /// The half's output before its normalisation.
    out: &'a [T],
}

impl<T: Real> HalfBack<'_, T> {
    /// Gradient of the second normalisation's output to that of the first's, for the rows of a block.
    fn feed_forward(
        &self,
        engine: &Engine<T>,
        rows: std::ops::Range<usize>,
        g: &mut [T],
        scratch: &mut Scratch<T>,
        gradient: &mut Gradient<T>,
        sums: &mut [T],
    ) {
        let d = engine.network.channels.padded_width();
        let isa = engine.isa;
        let n = rows.len();
        let narrow = rows.start * d..rows.end * d;
        let wide = self.half.first.weight.columns;
        let hidden = &self.activations.hidden[rows.start * wide..rows.end * wide];
        let Scratch { y, dx, wide: dhidden, .. } = scratch;
        let (y, dx, dhidden) = (&mut y[..n * d], &mut dx[..n * d], &mut dhidden[..n * wide]);
        engine.normalise_backward(self.sites[1], self.half.norms[1], &self.out[narrow.clone()], g, dx, gradient);
        add_affine_gradient(engine, self.half.second, hidden, dx, gradient);
        let epilogue = Epilogue { gate: Some(Tile::new(hidden, n, wide)), ..Default::default() };
        product(
            isa,
            Tile::new(dx, n, d),
            engine.transpose(self.half.second.weight),
            TileMut::new(dhidden, n, wide),
            epilogue,
        );
        let x = &self.activations.middle[narrow];
        engine.normalise(self.sites[0], self.half.norms[0], x, y);
        add_affine_gradient(engine, self.half.first, y, dhidden, gradient);
        let epilogue =
            Epilogue { residual: engine.network.residual.then(|| Tile::new(dx, n, d)), ..Default::default() };
        product(
            isa,
            Tile::new(dhidden, n, wide),
            engine.transpose(self.half.first.weight),
            TileMut::new(g, n, d),
            epilogue,
        );
        if engine.network.norm == Norm::Batch {
            self.sites[0].batch.add_gradient_sums(isa, g, x, sums);
        }
    }

    /// Gradient of the first normalisation's output to that of the attended values; `dx` keeps what the residual passes on.
    fn output(
        &self,
        engine: &Engine<T>,
        rows: std::ops::Range<usize>,
        g: &[T],
        scratch: &mut Scratch<T>,
        gradient: &mut Gradient<T>,
    ) {
        let d = engine.network.channels.padded_width();
        let n = rows.len();
        let narrow = rows.start * d..rows.end * d;
        let (dx, dattended) = (&mut scratch.dx[..n * d], &mut scratch.dattended[..n * d]);
        engine.normalise_backward(
            self.sites[0],
            self.half.norms[0],
            &self.activations.middle[narrow.clone()],
            g,
            dx,
            gradient,
        );
        add_affine_gradient(engine, self.half.output, &self.activations.attended[narrow], dx, gradient);
        let weight = engine.transpose(self.half.output.weight);
        product(engine.isa, Tile::new(dx, n, d), weight, TileMut::new(dattended, n, d), Epilogue::default());
    }
}

fn halves<'a, T: Real>(engine: &'a Engine<T>, layer: usize) -> Pair<HalfBack<'a, T>> {
    let [first, second] = &engine.sites[layer];
    let (activations, regions, out) =
        (&engine.work.layers[layer].halves, &engine.layout.layers[layer], &engine.work.streams[layer + 1]);
    Pair {
        node: HalfBack {
            sites: [&first.node, &second.node],
            half: &regions.node,
            activations: &activations.node,
            out: &out.node,
        },
        edge: HalfBack {
            sites: [&first.edge, &second.edge],
            half: &regions.edge,
            activations: &activations.edge,
            out: &out.edge,
        },
    }
}

fn reset_sums<T: Real>(state: &mut PartState<T>, width: usize) {
    for sums in [&mut state.sums.node, &mut state.sums.edge] {
        sums.clear();
        sums.resize(2 * width, T::ZERO);
    }
}

/// Backward of [`feed_forward`].
pub(crate) fn feed_forward_backward<T: Real>(engine: &mut Engine<T>, layer: usize) {
    let mut gradients = std::mem::take(&mut engine.work.gradients);
    with_parts(engine, |engine, parts| {
        let d = engine.network.channels.padded_width();
        let half = halves(engine, layer);
        let with_edges = engine.edge_gradient(layer);
        let arrays = Gradients { node: &mut gradients.node, edge: &mut gradients.edge };
        for_parts(&engine.work.plan, parts, arrays, &|blocks, part, state, g| {
            reset_sums(state, d);
            let PartState { gradient, sums, scratch, .. } = state;
            gradient.zero(half.node.half.feed_forward());
            if with_edges {
                gradient.zero(half.edge.half.feed_forward());
            }
            for block in blocks {
                let narrow = rows(g.node, d, &block.nodes, &part.nodes);
                half.node.feed_forward(
                    engine,
                    block.nodes.clone(),
                    &mut g.node[narrow],
                    &mut scratch.node,
                    gradient,
                    &mut sums.node,
                );
                if with_edges {
                    let narrow = rows(g.edge, d, &block.edges, &part.edges);
                    half.edge.feed_forward(
                        engine,
                        block.edges.clone(),
                        &mut g.edge[narrow],
                        &mut scratch.edge,
                        gradient,
                        &mut sums.edge,
                    );
                }
            }
        });
    });
    engine.work.gradients = gradients;
}

/// Backward of [`attention_forward`].
pub(crate) fn attention_backward<T: Real>(engine: &mut Engine<T>, layer: usize) {
    let mut gradients = std::mem::take(&mut engine.work.gradients);
    with_parts(engine, |engine, parts| {
        let arrays = Gradients { node: &mut gradients.node, edge: &mut gradients.edge };
        for_parts(&engine.work.plan, parts, arrays, &|blocks, part, state, g| {
            attention_part_backward(engine, layer, blocks, part, state, g);
        });
    });
    engine.work.gradients = gradients;
}

fn attention_part_backward<T: Real>(
    engine: &Engine<T>,
    layer: usize,
    blocks: &[Span],
    part: &Span,
    state: &mut PartState<T>,
    g: Gradients<'_, T>,
) {
    let isa = engine.isa;
    let (d, h) = (engine.network.channels.padded_width(), engine.network.channels.padded_heads());
    let (with_edges, edge_gradient) = (engine.network.edge_stream, engine.edge_gradient(layer));
    let half = halves(engine, layer);
    let activations = &engine.work.layers[layer];
    let regions = &engine.layout.layers[layer];
    let stream = &engine.work.streams[layer];
    let residual = engine.network.residual;
    let sums_needed = engine.network.norm == Norm::Batch && layer > 0;
    reset_sums(state, d);
    let PartState { gradient, sums, scratch, .. } = state;
    gradient.zero(regions.qkv.range());
    gradient.zero(half.node.half.projection());
    if with_edges {
        gradient.zero(regions.projection.range());
    }
    if edge_gradient {
        gradient.zero(half.edge.half.projection());
    }
    for block in blocks {
        let (n, e) = (block.nodes.len(), block.edges.len());
        let narrow = rows(g.node, d, &block.nodes, &part.nodes);
        let gn = &mut g.node[narrow];
        half.node.output(engine, block.nodes.clone(), gn, &mut scratch.node, gradient);
        let narrow_e = if with_edges { rows(g.edge, d, &block.edges, &part.edges) } else { 0..0 };
        let ge = &mut g.edge[narrow_e];
        if edge_gradient {
            half.edge.output(engine, block.edges.clone(), ge, &mut scratch.edge, gradient);
        }
        let Scratch { y, dx, dattended, wide, dlogit } = &mut scratch.node;
        let (y, dx, dqkv) = (&mut y[..n * d], &dx[..n * d], &mut wide[..n * 3 * d]);
        let narrow = block.nodes.start * d..block.nodes.end * d;
        let (edge_rows, edge_width) = if with_edges { (block.edges.clone(), d) } else { (0..0, 0) };
        let narrow_e = edge_rows.start * edge_width..edge_rows.end * edge_width;
        let dproj: &mut [T] = if with_edges { &mut scratch.edge.wide[..e * d] } else { &mut [] };
        attention::backward(
            isa,
            attention::Backward {
                channels: engine.network.channels,
                edges: engine.work.topology.edges_of(block),
                qkv: &activations.qkv[block.nodes.start * 3 * d..block.nodes.end * 3 * d],
                proj: with_edges.then(|| &activations.proj[narrow_e.clone()]),
                weight: &activations.weight[block.edges.start * h..block.edges.end * h],
                inverse: &activations.inverse[block.nodes.start * h..block.nodes.end * h],
                out: &activations.halves.node.attended[narrow.clone()],
                dout: &mut dattended[..n * d],
                dscore: edge_gradient.then(|| &scratch.edge.dattended[..e * d]),
                dlogit: &mut dlogit[..e * h],
                dqkv,
                dproj,
            },
        );
        let x = &stream.node[narrow];
        engine.layer_input(layer, x, y, |p| &p.node, |l| &l.node);
        let weight = gradient.of(regions.qkv);
        product_tn(isa, Tile::new(y, n, d), Tile::new(dqkv, n, 3 * d), TileMut::new(weight, d, 3 * d));
        let epilogue = Epilogue { residual: residual.then(|| Tile::new(dx, n, d)), ..Default::default() };
        product(isa, Tile::new(dqkv, n, 3 * d), engine.transpose(regions.qkv), TileMut::new(gn, n, d), epilogue);
        if sums_needed {
            engine.sites[layer - 1][1].node.batch.add_gradient_sums(isa, gn, x, &mut sums.node);
        }
        if with_edges {
            let Scratch { y, dx, wide, .. } = &mut scratch.edge;
            let (y, dx, dproj) = (&mut y[..e * d], &dx[..e * d], &wide[..e * d]);
            let x = &stream.edge[narrow_e];
            engine.layer_input(layer, x, y, |p| &p.edge, |l| &l.edge);
            let weight = gradient.of(regions.projection);
            product_tn(isa, Tile::new(y, e, d), Tile::new(dproj, e, d), TileMut::new(weight, d, d));
            let epilogue =
                Epilogue { residual: (residual && edge_gradient).then(|| Tile::new(dx, e, d)), ..Default::default() };
            product(
                isa,
                Tile::new(dproj, e, d),
                engine.transpose(regions.projection),
                TileMut::new(ge, e, d),
                epilogue,
            );
            if sums_needed {
                engine.sites[layer - 1][1].edge.batch.add_gradient_sums(isa, ge, x, &mut sums.edge);
            }
        }
    }
}
