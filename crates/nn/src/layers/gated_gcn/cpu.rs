//! Both passes of gated messages: A, B, D and E of the nodes, C of the edges, then the gates. All
//! nodes' terms must be complete before any gate opens, and the backward pass has such a barrier
//! too. So both directions take two parts.

use super::GatedGcn;
use super::kernels::{Gate, GateBack, MessageBack};
use crate::cpu::plan::{Divide, Extent, divisible, for_parts};
use crate::cpu::product::{Epilogue, product};
use crate::cpu::stage::wide;
use crate::cpu::tile::{Tile, TileMut};
use crate::cpu::workspace::PartState;
use crate::layers::{BranchBack, BranchLayer, Kept, Pass};
use crate::parameters::Affine;
use crate::real::Real;
use crate::stream::Stream;

divisible! {
    /// The nodes' terms.
    Projected { nodes: [terms], edges: [] }
}

divisible! {
    /// Outputs of the forward pass.
    Passed { nodes: [inverse, x], edges: [x_e] }
}

divisible! {
    /// Gradients of the first part.
    Back { nodes: [dy, dx, dterms], edges: [g_e, dgates] }
}

divisible! {
    /// Gradients of the second part.
    Finishing { nodes: [g, dterms], edges: [] }
}

pub(super) fn forward<T: Real>(pass: &Pass<'_, T>, parts: &mut [PartState<T>], kept: Kept<'_, T>) {
    let Pass { engine, .. } = *pass;
    let (d, isa, topology) = (pass.width(), engine.isa, &engine.work.topology);
    let (of_nodes, of_edges) = (pass.regions().linear(0), pass.regions().linear(2));
    let apply = |affine: Affine, x: &[T], out: &mut [T]| {
        let (weight, n) = (engine.weight(affine.weight), x.len() / d);
        let epilogue = Epilogue { bias: Some(engine.vector(affine.bias)), ..Default::default() };
        product(isa, Tile::new(x, n, d), weight, TileMut::new(out, n, weight.columns), epilogue);
    };
    let (h, e) = (pass.input(Stream::Node), pass.input(Stream::Edge));
    let Kept { own: [terms, inverse, ..], x } = kept;
    for_parts(&engine.work.plan, parts, Projected { terms: &mut *terms }, &|blocks, part, _, out| {
        for block in blocks {
            apply(of_nodes, &h[wide(&block.nodes, d)], &mut out.terms[block.node_rows(part, 4 * d)]);
        }
    });
    let terms = &*terms;
    for_parts(&engine.work.plan, parts, Passed { inverse, x: x.node, x_e: x.edge }, &|blocks, part, state, out| {
        pass.reset_moments(state);
        for block in blocks {
            let (rows, nodes) = (block.node_rows(part, d), block.nodes.clone());
            let gates = &mut out.x_e[block.edge_rows(part, d)];
            apply(of_edges, &e[wide(&block.edges, d)], gates);
            let (x, inverse) = (&mut out.x[rows.clone()], &mut out.inverse[rows]);
            Gate { topology, nodes, width: d, terms, gates: &mut *gates, inverse, x: &mut *x }.run_on(isa);
            pass.add_moments(state, Stream::Node, x);
            pass.add_moments(state, Stream::Edge, gates);
        }
    });
}

pub(super) fn backward<T: Real>(pass: &Pass<'_, T>, parts: &mut [PartState<T>], back: BranchBack<'_, T>) {
    let Pass { engine, layer, .. } = *pass;
    let (d, isa, topology) = (pass.width(), engine.isa, &engine.work.topology);
    let (of_nodes, of_edges) = (pass.regions().linear(0), pass.regions().linear(2));
    let ([terms, inverse, ..], x) = pass.kept();
    let (x, gates) = (x.node, x.edge);
    let (h, e) = (pass.input(Stream::Node), pass.input(Stream::Edge));
    let [dx, dterms, ..] = back.between.cut(GatedGcn.passed(&engine.network, pass.rows()));
    let arrays = Back {
        dy: back.dy.node,
        dx: &mut *dx,
        dterms: &mut *dterms,
        g_e: back.g.edge,
        // The gradient of the normalisation's output, then of the gates.
        dgates: &mut *back.dy.edge,
    };
    for_parts(&engine.work.plan, parts, arrays, &|blocks, part, state, back| {
        pass.reset(state);
        for block in blocks {
            let PartState { gradient, scratch, .. } = state;
            let (rows, edge_rows) = (block.node_rows(part, d), block.edge_rows(part, d));
            let (own, own_edges) = (wide(&block.nodes, d), wide(&block.edges, d));
            let (dx, dgates) = (&mut back.dx[rows.clone()], &mut back.dgates[edge_rows.clone()]);
            pass.normalise_backward(Stream::Node, &x[own.clone()], &back.dy[rows], dx, gradient);
            if engine.edge_gradient(layer) {
                let dy = &mut scratch.edge.y[..dgates.len()];
                dy.copy_from_slice(dgates);
                pass.normalise_backward(Stream::Edge, &gates[own_edges.clone()], dy, dgates, gradient);
            } else {
                dgates.fill(T::ZERO);
            }
            GateBack {
                topology,
                nodes: block.nodes.clone(),
                width: d,
                terms,
                gates,
                inverse: &inverse[own.clone()],
                x: &x[own],
                dx,
                dgates: &mut *dgates,
                dterms: &mut back.dterms[block.node_rows(part, 4 * d)],
            }
            .run_on(isa);
            engine.add_affine_gradient(of_edges, &e[own_edges], dgates, gradient, &[]);
            let g = &mut back.g_e[edge_rows];
            pass.return_product(Stream::Edge, &block.edges, dgates, of_edges.weight, state, g);
        }
    });
    let (dx, dgates) = (&*dx, &*back.dy.edge);
    for_parts(&engine.work.plan, parts, Finishing { g: back.g.node, dterms }, &|blocks, part, state, out| {
        for block in blocks {
            let dterms = &mut out.dterms[block.node_rows(part, 4 * d)];
            let nodes = block.nodes.clone();
            MessageBack { topology, nodes, width: d, gates, inverse, dx, dgates, dterms: &mut *dterms }.run_on(isa);
            engine.add_affine_gradient(of_nodes, &h[wide(&block.nodes, d)], dterms, &mut state.gradient, &[]);
            let g = &mut out.g[block.node_rows(part, d)];
            pass.return_product(Stream::Node, &block.nodes, dterms, of_nodes.weight, state, g);
        }
    });
}
