//! Both passes of GINE. Forward, a block gathers from the layer's input, which is complete.
//! Backward, all sums' gradients must be complete before any node gathers them, so it takes two
//! parts.

use super::Gine;
use super::kernels::{Edges, Messages, Returned};
use crate::cpu::dropout::{self, drop_values};
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
    Passed { nodes: [m, hidden, x], edges: [] }
}

divisible! {
    /// Gradients of the first part.
    Back { nodes: [g, dx, dm], edges: [] }
}

divisible! {
    /// Gradients of the second part.
    Finishing { nodes: [g], edges: [de] }
}

/// Drops outputs of the second linear layer, or their gradients, in place; `first` is the number of
/// the first row.
fn drop_outputs<T: Real>(pass: &Pass<'_, T>, first: usize, values: &mut [T]) {
    let Pass { engine, layer, branch, .. } = *pass;
    if engine.work.training && engine.network.dropout > 0.0 {
        let site = dropout::Site::Branch(layer, branch, Stream::Node);
        drop_values(engine.network.dropout, engine.dropout_key, site, first, &engine.orders.stream, values);
    }
}

pub(super) fn forward<T: Real>(pass: &Pass<'_, T>, parts: &mut [PartState<T>], kept: Kept<'_, T>) {
    let engine = pass.engine;
    let (d, isa, topology) = (pass.width(), engine.isa, &engine.work.topology);
    let (first, second) = (pass.regions().linear(0), pass.regions().linear(2));
    let (h, e) = (pass.input(Stream::Node), pass.edges());
    let Kept { own: [m, hidden, ..], x } = kept;
    for_parts(&engine.work.plan, parts, Passed { m, hidden, x: x.node }, &|blocks, part, state, out| {
        pass.reset_moments(state);
        for block in blocks {
            let (rows, n) = (block.node_rows(part, d), block.nodes.len());
            let (m, hidden, x) = (&mut out.m[rows.clone()], &mut out.hidden[rows.clone()], &mut out.x[rows]);
            Messages { topology, nodes: block.nodes.clone(), width: d, h, e, m: &mut *m }.run_on(isa);
            let epilogue = Epilogue { bias: Some(engine.vector(first.bias)), relu: true, ..Default::default() };
            product(isa, Tile::new(m, n, d), engine.weight(first.weight), TileMut::new(hidden, n, d), epilogue);
            let epilogue = Epilogue { bias: Some(engine.vector(second.bias)), ..Default::default() };
            product(isa, Tile::new(hidden, n, d), engine.weight(second.weight), TileMut::new(x, n, d), epilogue);
            drop_outputs(pass, block.nodes.start, x);
            if engine.network.residual {
                x.iter_mut().zip(&h[wide(&block.nodes, d)]).for_each(|(x, &h)| *x += h);
            }
            pass.add_moments(state, Stream::Node, x);
        }
    });
}

pub(super) fn backward<T: Real>(pass: &Pass<'_, T>, parts: &mut [PartState<T>], back: BranchBack<'_, T>) {
    let engine = pass.engine;
    let (d, isa, topology) = (pass.width(), engine.isa, &engine.work.topology);
    let (first, second) = (pass.regions().linear(0), pass.regions().linear(2));
    let ([m, hidden, ..], x) = pass.kept();
    let (h, e) = (pass.input(Stream::Node), pass.edges());
    let [dx, dm, ..] = back.between.cut(Gine.passed(&engine.network, pass.rows()));
    let arrays = Back { g: &mut *back.g.node, dx: &mut *dx, dm: &mut *dm };
    for_parts(&engine.work.plan, parts, arrays, &|blocks, part, state, out| {
        pass.reset(state);
        for block in blocks {
            let PartState { gradient, scratch, .. } = state;
            let (rows, all, n) = (block.node_rows(part, d), wide(&block.nodes, d), block.nodes.len());
            let dx = &mut out.dx[rows.clone()];
            pass.normalise_backward(Stream::Node, &x.node[all.clone()], &out.g[rows.clone()], dx, gradient);
            let (dropped, dhidden) = (&mut scratch.node.y[..n * d], &mut scratch.node.wide[..n * d]);
            dropped.copy_from_slice(dx);
            drop_outputs(pass, block.nodes.start, dropped);
            let hidden = &hidden[all.clone()];
            engine.add_affine_gradient(second, hidden, dropped, gradient, &[]);
            let epilogue = Epilogue { gate: Some(Tile::new(hidden, n, d)), ..Default::default() };
            let weight = engine.transpose(second.weight);
            product(isa, Tile::new(dropped, n, d), weight, TileMut::new(dhidden, n, d), epilogue);
            engine.add_affine_gradient(first, &m[all], dhidden, gradient, &[]);
            let (weight, dm) = (engine.transpose(first.weight), TileMut::new(&mut out.dm[rows], n, d));
            product(isa, Tile::new(dhidden, n, d), weight, dm, Epilogue::default());
        }
    });
    let (dx, dm) = (&*dx, &*dm);
    // The edge stream's gradient is replaced; that of shared edges collects every layer's.
    let add = engine.network.shares_edges();
    let arrays = Finishing { g: back.g.node, de: if add { back.dshared_edges } else { back.g.edge } };
    for_parts(&engine.work.plan, parts, arrays, &|blocks, part, state, out| {
        for block in blocks {
            let g = &mut out.g[block.node_rows(part, d)];
            let nodes = block.nodes.clone();
            Returned { topology, nodes: nodes.clone(), width: d, h, e, dm, dh: &mut *g }.run_on(isa);
            let de = &mut out.de[block.edge_rows(part, d)];
            Edges { topology, nodes, width: d, h, e, dm, add, de }.run_on(isa);
            if pass.returns(Stream::Node) {
                g.iter_mut().zip(&dx[wide(&block.nodes, d)]).for_each(|(g, &dx)| *g += dx);
            }
            pass.leave(Stream::Node, &block.nodes, g, state);
        }
    });
}
