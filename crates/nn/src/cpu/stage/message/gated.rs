//! Gated messages: A, B, D and E of the nodes, C of the edges, then the gates. All nodes' terms
//! must be complete before any gate opens, and the backward pass has such a barrier too. So both
//! directions take two passes.

use super::{Finishing, Pass, Passed, Projected};
use crate::Stream;
use crate::cpu::activations::LayerArrays;
use crate::cpu::message::{Gate, GateBack, MessageBack};
use crate::cpu::plan::for_parts;
use crate::cpu::product::{Epilogue, product};
use crate::cpu::stage::{Gradients, wide};
use crate::cpu::tile::{Tile, TileMut};
use crate::cpu::workspace::{Between, PartState};
use crate::real::Real;

impl<T: Real> Pass<'_, T> {
    pub(super) fn gated(&self, parts: &mut [PartState<T>], arrays: LayerArrays<&mut [T]>) {
        let Self { engine, layer, .. } = *self;
        let (d, isa, topology) = (self.width(), engine.isa, &engine.work.topology);
        let regions = engine.layout.layers[layer].message;
        let affine = |affine: crate::parameters::Affine, x: &[T], out: &mut [T]| {
            let (weight, n) = (engine.weight(affine.weight), x.len() / d);
            let epilogue = Epilogue { bias: Some(engine.vector(affine.bias)), ..Default::default() };
            product(isa, Tile::new(x, n, d), weight, TileMut::new(out, n, weight.columns), epilogue);
        };
        let (h, e) = (self.input(Stream::Node), self.input(Stream::Edge));
        let projected = Projected { projected: &mut *arrays.qkv, logits: &mut [] };
        for_parts(&engine.work.plan, parts, projected, &|blocks, part, _, out| {
            for block in blocks {
                let terms = &mut out.projected[block.node_rows(part, 4 * d)];
                affine(regions.node, &h[wide(&block.nodes, d)], terms);
            }
        });
        let terms = &*arrays.qkv;
        let (x, x_e) = (arrays.halves.node.middle, arrays.halves.edge.middle);
        let passed = Passed { summed: &mut [], inverse: arrays.inverse, x, x_e };
        for_parts(&engine.work.plan, parts, passed, &|blocks, part, state, out| {
            state.reset_moments(d);
            for block in blocks {
                let (rows, nodes) = (block.node_rows(part, d), block.nodes.clone());
                let gates = &mut out.x_e[block.edge_rows(part, d)];
                affine(regions.edge, &e[wide(&block.edges, d)], gates);
                let (x, inverse) = (&mut out.x[rows.clone()], &mut out.inverse[rows]);
                Gate { topology, nodes, width: d, terms, gates: &mut *gates, inverse, x: &mut *x }.run_on(isa);
                self.add_moments(state, Stream::Node, x);
                self.add_moments(state, Stream::Edge, gates);
            }
        });
    }

    pub(super) fn gated_backward(&self, parts: &mut [PartState<T>], g: Gradients<'_, T>, between: &mut Between<T>) {
        let Self { engine, layer, .. } = *self;
        let (d, isa, topology) = (self.width(), engine.isa, &engine.work.topology);
        let regions = engine.layout.layers[layer].message;
        let arrays = engine.work.layers[layer].arrays();
        let (terms, inverse) = (arrays.qkv, arrays.inverse);
        let (x, gates) = (arrays.halves.node.middle, arrays.halves.edge.middle);
        let (h, e) = (self.input(Stream::Node), self.input(Stream::Edge));
        let edges = Gradients { node: &mut [], edge: g.edge };
        for_parts(&engine.work.plan, parts, (edges, between.back()), &|blocks, part, state, (g, back)| {
            let PartState { gradient, scratch, .. } = state;
            for block in blocks {
                let (rows, edge_rows) = (block.node_rows(part, d), block.edge_rows(part, d));
                let (own, own_edges) = (wide(&block.nodes, d), wide(&block.edges, d));
                let (dx, dgates) = (&mut back.dx[rows.clone()], &mut back.dy_e[edge_rows.clone()]);
                self.normalise_backward(Stream::Node, &x[own.clone()], &back.dy[rows], dx, gradient);
                if engine.edge_gradient(layer) {
                    let dy = &mut scratch.edge.y[..dgates.len()];
                    dy.copy_from_slice(dgates);
                    self.normalise_backward(Stream::Edge, &gates[own_edges.clone()], dy, dgates, gradient);
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
                    dterms: &mut back.dprojected[block.node_rows(part, 4 * d)],
                }
                .run_on(isa);
                engine.add_affine_gradient(regions.edge, &e[own_edges], dgates, gradient, &[]);
                let (weight, g) = (regions.edge.weight, &mut g.edge[edge_rows]);
                self.return_product(Stream::Edge, &block.edges, dgates, weight, &mut scratch.edge.y, g);
            }
        });
        let Between { dattended: dx, dqkv: dterms, dscore: dgates, .. } = between;
        let arrays = Finishing { g: g.node, dprojected: dterms };
        for_parts(&engine.work.plan, parts, arrays, &|blocks, part, state, out| {
            let PartState { gradient, scratch, .. } = state;
            for block in blocks {
                let dterms = &mut out.dprojected[block.node_rows(part, 4 * d)];
                let nodes = block.nodes.clone();
                MessageBack { topology, nodes, width: d, gates, inverse, dx, dgates, dterms }.run_on(isa);
                let dterms = &out.dprojected[block.node_rows(part, 4 * d)];
                engine.add_affine_gradient(regions.node, &h[wide(&block.nodes, d)], dterms, gradient, &[]);
                let (weight, g) = (regions.node.weight, &mut out.g[block.node_rows(part, d)]);
                self.return_product(Stream::Node, &block.nodes, dterms, weight, &mut scratch.node.y, g);
            }
        });
    }
}
