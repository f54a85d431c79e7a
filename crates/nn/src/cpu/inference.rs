//! Inference: nothing waits for a batch's statistics, so a block of whole graphs goes through all
//! layers while it is in cache.

use super::activations::LayerArrays;
use super::buffer::Buffer;
use super::engine::Engine;
use super::plan::{Divide, Extent, Span, divisible, for_parts};
use super::stage::{Attended, Stage, with_parts};
use super::workspace::{Local, Pair, PartState};
use super::{head, input};
use crate::Stream;
use crate::network::HeadInput;
use crate::real::Real;

divisible! {
    /// The rows of the streams that the head reads.
    Source { nodes: [node], edges: [edge] }
}

/// Runs all layers over a plan of whole graphs, and leaves the rows that the head reads.
pub(crate) fn forward<T: Real>(engine: &mut Engine<T>) {
    for layer in 0..engine.network.layers {
        engine.finish_statistics(layer, 0, false);
        engine.finish_statistics(layer, 1, false);
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
    let LayerArrays { qkv, weight, inverse, proj, halves } = activations.arrays_mut();
    let Pair { node: mut node_half, edge: mut edge_half } = halves;
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
        let stage = Stage { engine, layer, train: false };
        let qkv = &mut qkv[..n * 3 * d];
        stage.project([&node[..n * d], &[]], &mut state.scratch.node.y, qkv);
        let mut attended = Attended {
            inverse: &mut *inverse,
            attended: &mut *node_half.attended,
            middle: &mut *node_half.middle,
            weight: &mut *weight,
            proj: &mut *proj,
            score: &mut *edge_half.attended,
            middle_e: &mut *edge_half.middle,
        };
        // The arrays begin with the block itself.
        stage.attend(block, block, qkv, [&edge[..e * d], &[]], state, &mut attended);
        for (stream, rows, first, to, half) in [
            (Stream::Node, n, block.nodes.start, &mut *node, &mut node_half),
            (Stream::Edge, e, block.edges.start, &mut *edge, &mut edge_half),
        ] {
            if stream == Stream::Edge && !engine.edge_output(layer, false) {
                continue;
            }
            let y = match stream {
                Stream::Node => &mut state.scratch.node.y,
                Stream::Edge => &mut state.scratch.edge.y,
            };
            let hidden = engine.layout.layers[layer].half(stream).first.weight.columns;
            let x = [&half.middle[..rows * d], &[]];
            engine.half(layer, stream).forward(first, x, y, &mut half.hidden[..rows * hidden], &mut to[..rows * d]);
        }
        if network.head_reads(layer + 1) {
            read(layer + 1, &node[..n * d], &edge[..e * d], &mut state.scratch.node.dx);
        }
    }
}
