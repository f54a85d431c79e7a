//! The passes through a layer: its branches one after the other, the barrier at which their
//! normalisations get their statistics, the sum, and the feed-forward half.

use super::combine::{self, LayerRows};
use super::{BranchBack, Combine, Pass, feed_forward};
use crate::cpu::buffer::Buffer;
use crate::cpu::engine::Engine;
use crate::cpu::plan::{Span, for_parts};
use crate::cpu::stage::{Gradients, edge_rows, wide, with_parts};
use crate::real::Real;
use crate::stream::{Pair, Stream};

/// The forward pass through a layer; `attended` is called when its branches have run.
pub(crate) fn forward<T: Real>(
    engine: &mut Engine<T>,
    layer: usize,
    train: bool,
    attended: &mut impl FnMut(&Engine<T>),
) {
    if engine.network.keeps_inputs() {
        keep_inputs(engine, layer);
    }
    let kept = if train { layer } else { 0 };
    let mut activations = std::mem::take(&mut engine.work.layers[kept]);
    let count = engine.network.branches.len();
    with_parts(engine, |engine, parts| {
        for (branch, of) in engine.network.branches.iter().enumerate() {
            of.forward(&Pass { engine, layer, branch, train }, parts, activations.branch_mut(branch));
        }
    });
    engine.work.layers[kept] = activations;
    attended(engine);
    (0..count).for_each(|branch| engine.finish_statistics(layer, branch, train));
    if engine.network.feed_forward {
        feed_forward::forward(engine, layer, train);
        engine.finish_statistics(layer, count, train);
    } else {
        combine::join(engine, layer, train);
    }
}

/// Normalises a layer's input for the branches that read it of the whole batch.
fn keep_inputs<T: Real>(engine: &mut Engine<T>, layer: usize) {
    let index = engine.stream_index(layer);
    let mut inputs = std::mem::take(&mut engine.work.inputs[index]);
    with_parts(engine, |engine, parts| {
        let arrays = Gradients { node: &mut inputs.node, edge: &mut inputs.edge };
        for_parts(&engine.work.rows, parts, arrays, &|_, part: &Span, _, to| {
            let d = engine.network.channels.padded_width();
            let x = &engine.work.streams[index];
            engine.layer_input(layer, Stream::Node, &x.node[wide(&part.nodes, d)], to.node);
            if engine.network.edge_stream {
                engine.layer_input(layer, Stream::Edge, &x.edge[wide(&part.edges, d)], to.edge);
            }
        });
    });
    engine.work.inputs[index] = inputs;
}

/// The backward pass through a layer, from the gradient of its output to that of its input.
pub(crate) fn backward<T: Real>(engine: &mut Engine<T>, layer: usize) {
    let count = engine.network.branches.len();
    engine.zero_idle_gradients(layer);
    if engine.network.feed_forward {
        engine.finish_gradients(layer, count);
        feed_forward::backward(engine, layer);
    } else {
        combine::join_backward(engine, layer);
    }
    (0..count).for_each(|branch| engine.finish_gradients(layer, branch));
    if count == 1 { branch_backward(engine, layer, 0) } else { add_branches(engine, layer) }
}

/// The backward pass through a branch, in place.
fn branch_backward<T: Real>(engine: &mut Engine<T>, layer: usize, branch: usize) {
    let mut gradients = std::mem::take(&mut engine.work.gradients);
    let mut between = std::mem::take(&mut engine.work.between);
    let mut dy = std::mem::take(&mut engine.work.dy[branch]);
    let mut shared = std::mem::take(&mut engine.work.dshared_edges);
    with_parts(engine, |engine, parts| {
        let g = Gradients { node: &mut gradients.node, edge: &mut gradients.edge };
        let dy = Gradients { node: &mut dy.node, edge: &mut dy.edge };
        let back = BranchBack { g, dy, dshared_edges: &mut shared, between: &mut between };
        engine.network.branches[branch].backward(&Pass { engine, layer, branch, train: true }, parts, back);
    });
    engine.work.gradients = gradients;
    engine.work.between = between;
    engine.work.dy[branch] = dy;
    engine.work.dshared_edges = shared;
}

/// The backward passes through several branches: each begins with the gradient of the sum, and
/// their results are added up in the order of the branches.
fn add_branches<T: Real>(engine: &mut Engine<T>, layer: usize) {
    let own = std::mem::take(&mut engine.work.own_gradients);
    let incoming = std::mem::replace(&mut engine.work.gradients, own);
    let mut collected = std::mem::take(&mut engine.work.collected);
    for branch in 0..engine.network.branches.len() {
        begin_branch(engine, layer, branch, &incoming);
        branch_backward(engine, layer, branch);
        collect(engine, layer, branch, &mut collected);
    }
    let own = std::mem::replace(&mut engine.work.gradients, collected);
    engine.work.own_gradients = own;
    engine.work.collected = incoming;
}

/// Gives a branch its own copy of the gradient of the sum, dropped as its output was.
fn begin_branch<T: Real>(engine: &mut Engine<T>, layer: usize, branch: usize, incoming: &Pair<Buffer<T>>) {
    let mut own = std::mem::take(&mut engine.work.gradients);
    with_parts(engine, |engine, parts| {
        let d = engine.network.channels.padded_width();
        let drops = matches!(engine.network.branches[branch].facts().combine, Combine::SumWithNorm(_));
        let arrays = Gradients { node: &mut own.node, edge: &mut own.edge };
        for_parts(&engine.work.rows, parts, arrays, &|_, part: &Span, _, to| {
            for (stream, rows, to) in [
                (Stream::Node, &part.nodes, to.node),
                (Stream::Edge, &part.edges, edge_rows(engine, to.edge, part, part)),
            ] {
                to.copy_from_slice(&incoming.of(stream)[wide(rows, if to.is_empty() { 0 } else { d })]);
                if drops {
                    engine.drop_output(branch, LayerRows { layer, stream, rows }, to);
                }
            }
        });
    });
    engine.work.gradients = own;
}

/// Adds a branch's result to those of the branches before it; the last one completes the sum.
fn collect<T: Real>(engine: &mut Engine<T>, layer: usize, branch: usize, collected: &mut Pair<Buffer<T>>) {
    with_parts(engine, |engine, parts| {
        let d = engine.network.channels.padded_width();
        let reads_edges = Pass { engine, layer, branch, train: true }.reads_edges();
        let last = branch + 1 == engine.network.branches.len();
        let arrays = Gradients { node: &mut collected.node, edge: &mut collected.edge };
        for_parts(&engine.work.rows, parts, arrays, &|_, part: &Span, state, to| {
            if last {
                state.reset_sums(d);
            }
            for (stream, rows, to) in [(Stream::Node, &part.nodes, to.node), (Stream::Edge, &part.edges, to.edge)] {
                let found = &engine.work.gradients.of(stream)[wide(rows, if to.is_empty() { 0 } else { d })];
                let contributes = stream == Stream::Node || reads_edges;
                match (branch, contributes) {
                    (0, true) => to.copy_from_slice(found),
                    (0, false) => to.fill(T::ZERO),
                    (_, true) => to.iter_mut().zip(found).for_each(|(to, &value)| *to += value),
                    (_, false) => {}
                }
                if last && !to.is_empty() {
                    engine.complete_gradient(layer, stream, rows, to, state);
                }
            }
        });
    });
}
