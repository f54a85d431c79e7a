//! Both passes of a convolution. The backward pass needs all sums' gradients before it gathers
//! any, so it takes two parts.

use super::gather::{Direction, Gather};
use crate::cpu::plan::{Divide, Extent, divisible, for_parts};
use crate::cpu::product::{Epilogue, product};
use crate::cpu::stage::wide;
use crate::cpu::tile::{Tile, TileMut};
use crate::cpu::workspace::PartState;
use crate::layers::{BranchBack, BranchLayer, Kept, Pass};
use crate::real::Real;
use crate::stream::Stream;

divisible! {
    /// Outputs of the forward pass.
    Passed { nodes: [summed, x], edges: [] }
}

divisible! {
    /// Gradients of the nodes' rows.
    Back { nodes: [dy, dx, dsums], edges: [] }
}

divisible! {
    /// The result of the backward pass.
    Returned { nodes: [g], edges: [] }
}

pub(super) fn forward<T: Real>(mean: bool, pass: &Pass<'_, T>, parts: &mut [PartState<T>], kept: Kept<'_, T>) {
    let Pass { engine, .. } = *pass;
    let (d, isa, topology) = (pass.width(), engine.isa, &engine.work.topology);
    let affine = pass.regions().linear(0);
    let h = pass.input(Stream::Node);
    let Kept { own: [summed, ..], x } = kept;
    for_parts(&engine.work.plan, parts, Passed { summed, x: x.node }, &|blocks, part, state, out| {
        pass.reset_moments(state);
        for block in blocks {
            let (rows, n) = (block.node_rows(part, d), block.nodes.len());
            let to = &mut out.summed[rows.clone()];
            let (nodes, direction) = (block.nodes.clone(), Direction::Forward);
            Gather { topology, direction, mean, nodes, width: d, from: h, to }.run_on(isa);
            let x = &mut out.x[rows];
            let epilogue = Epilogue { bias: Some(engine.vector(affine.bias)), ..Default::default() };
            product(isa, Tile::new(to, n, d), engine.weight(affine.weight), TileMut::new(x, n, d), epilogue);
            pass.add_moments(state, Stream::Node, x);
        }
    });
}

pub(super) fn backward<T: Real>(
    of: super::Gcn,
    pass: &Pass<'_, T>,
    parts: &mut [PartState<T>],
    back: BranchBack<'_, T>,
) {
    let (Pass { engine, .. }, mean) = (*pass, of.mean);
    let (d, isa, topology) = (pass.width(), engine.isa, &engine.work.topology);
    let affine = pass.regions().linear(0);
    let ([summed, ..], x) = pass.kept();
    let [dx, dsums, ..] = back.between.cut(of.passed(&engine.network, pass.rows()));
    let arrays = Back { dy: back.dy.node, dx, dsums: &mut *dsums };
    for_parts(&engine.work.plan, parts, arrays, &|blocks, part, state, back: Back<'_, T>| {
        pass.reset(state);
        for block in blocks {
            let (rows, all, n) = (block.node_rows(part, d), wide(&block.nodes, d), block.nodes.len());
            let dx = &mut back.dx[rows.clone()];
            let x = &x.node[all.clone()];
            pass.normalise_backward(Stream::Node, x, &back.dy[rows.clone()], dx, &mut state.gradient);
            engine.add_affine_gradient(affine, &summed[all], dx, &mut state.gradient, &[]);
            let to = TileMut::new(&mut back.dsums[rows], n, d);
            product(isa, Tile::new(dx, n, d), engine.transpose(affine.weight), to, Epilogue::default());
        }
    });
    let dsums = &*dsums;
    for_parts(&engine.work.plan, parts, Returned { g: back.g.node }, &|blocks, part, state, out| {
        for block in blocks {
            let g = &mut out.g[block.node_rows(part, d)];
            let to = &mut state.scratch.node.y[..g.len()];
            let (nodes, direction) = (block.nodes.clone(), Direction::Backward);
            Gather { topology, direction, mean, nodes, width: d, from: dsums, to }.run_on(isa);
            let keep = if pass.returns(Stream::Node) { T::ONE } else { T::ZERO };
            g.iter_mut().zip(&*to).for_each(|(g, &v)| *g = *g * keep + v);
            pass.leave(Stream::Node, &block.nodes, g, state);
        }
    });
}
