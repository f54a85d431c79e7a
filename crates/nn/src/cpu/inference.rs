//! Inference: nothing waits for a batch's statistics, so a block of whole graphs goes through all
//! layers while it is in cache.

use super::buffer::Buffer;
use super::engine::Engine;
use super::plan::{Divide, Extent, Span, divisible, for_parts};
use super::stage::with_parts;
use super::workspace::{Local, PartState};
use super::{head, input};
use crate::layers::{Attended, Kept, LayerRows, Pass, Stage};
use crate::network::HeadInput;
use crate::real::Real;
use crate::stream::{Pair, Stream};

divisible! {
    /// The rows of the streams that the head reads.
    Source { nodes: [node], edges: [edge] }
}

/// Runs all layers over a plan of whole graphs, and leaves the rows that the head reads.
pub(crate) fn forward<T: Real>(engine: &mut Engine<T>) {
    for layer in 0..engine.network.layers {
        (0..engine.network.norms()).for_each(|number| engine.finish_statistics(layer, number, false));
    }
    let mut head = std::mem::take(&mut engine.work.head);
    with_parts(engine, |engine, parts| {
        let arrays = match engine.network.reads {
            HeadInput::Edges => Source { node: &mut [], edge: head.source_mut() },
            _ => Source { node: head.source_mut(), edge: &mut [] },
        };
        for_parts(&engine.work.plan, parts, arrays, &|blocks, part: &Span, state, mut out| {
            for block in blocks {
                let mut local = std::mem::take(&mut state.local);
                layers(engine, block, part, state, &mut local, &mut out);
                state.local = local;
            }
        });
    });
    engine.work.head = head;
}

fn layers<T: Real>(
    engine: &Engine<T>,
    block: &Span,
    part: &Span,
    state: &mut PartState<T>,
    local: &mut Local<T>,
    out: &mut Source<'_, T>,
) {
    let network = &engine.network;
    let (d, wide) = (network.channels.padded_width(), head::source_width(network));
    let (n, e) = (block.nodes.len(), if network.edge_stream { block.edges.len() } else { 0 });
    let Local { stream, layer: activations } = local;
    let Pair { node, edge } = stream;
    input::embed_block(engine, block, state, &mut node[..n * d], &mut edge[..e * d]);
    let mut read = |layer: usize, node: &[T], edge: &[T], scratch: &mut Buffer<T>| {
        let (stream, x, to) = match network.reads {
            HeadInput::Edges => (Stream::Edge, edge, &mut out.edge[block.edge_rows(part, wide)]),
            _ => (Stream::Node, node, &mut out.node[block.node_rows(part, wide)]),
        };
        head::read_layer(engine, layer, stream, x, scratch, to);
    };
    if network.layers == 0 {
        read(0, &node[..n * d], &edge[..e * d], &mut state.scratch.node.dx);
    }
    for layer in 0..network.layers {
        let stage = Stage::of(Pass { engine, layer, branch: 0, train: false });
        let Kept { own: [qkv, weight, inverse, proj, attended, score], x } = activations.branch_mut(0);
        let qkv = &mut qkv[..n * 3 * d];
        stage.project([&node[..n * d], &[]], &mut state.scratch.node.y, qkv);
        let mut attended = Attended { inverse, attended, middle: x.node, weight, proj, score, middle_e: x.edge };
        // The arrays begin with the block itself.
        stage.attend(block, block, qkv, [&edge[..e * d], &[]], state, &mut attended);
        let (branches, Pair { node: hidden, edge: hidden_e }) = activations.feed_forward();
        for (stream, rows, to, hidden) in
            [(Stream::Node, &block.nodes, &mut *node, hidden), (Stream::Edge, &block.edges, &mut *edge, hidden_e)]
        {
            if stream == Stream::Edge && !engine.edge_output(layer, false) {
                continue;
            }
            let width = engine.layout.layers[layer].feed_forward.of(stream).first.weight.columns;
            let (site, affine) = engine.norm_site(layer, 0, stream);
            let u = &mut state.scratch.of_mut(stream).y[..rows.len() * d];
            engine.normalise(site, affine, &branches.of(0).1.of(stream)[..rows.len() * d], u);
            let (hidden, to) = (&mut hidden[..rows.len() * width], &mut to[..rows.len() * d]);
            engine.feed_forward(LayerRows { layer, stream, rows }, u, &[], hidden, to);
        }
        if network.head_reads(layer + 1) {
            read(layer + 1, &node[..n * d], &edge[..e * d], &mut state.scratch.node.dx);
        }
    }
}
