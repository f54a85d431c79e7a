//! Additive attention: z = h·W, logits, then every node attends. All projections must be complete
//! before any node attends, and the backward pass has such a barrier too. So both directions take
//! two passes.

use super::{Back, Finishing, Pass, Passed, Projected};
use crate::Stream;
use crate::cpu::activations::LayerArrays;
use crate::cpu::engine::Engine;
use crate::cpu::message::{self, Attend, Logits, Returned, Taken};
use crate::cpu::plan::for_parts;
use crate::cpu::product::{Epilogue, product, product_tn};
use crate::cpu::simd::LANES;
use crate::cpu::stage::{Gradients, wide};
use crate::cpu::tile::{Tile, TileMut};
use crate::cpu::workspace::{Between, PartState};
use crate::real::Real;

impl<T: Real> Engine<T> {
    /// Heads of a layer of additive attention, padded, and numbers of a row of lanes.
    fn layer_heads(&self, layer: usize) -> (usize, usize) {
        let channels = self.network.channels;
        let heads = if self.network.heads(layer) == 1 { 1 } else { channels.padded_heads() };
        (heads, heads.max(LANES))
    }

    /// Weights of a layer whose additive attention has just run in inference. `[edges, heads]`
    pub(crate) fn additive_weights(&self, layer: usize) -> Vec<T> {
        let arrays = self.work.layers[0].arrays();
        let (heads, _) = self.layer_heads(layer);
        let shown = self.network.heads(layer);
        message::weights(&self.work.topology, heads, shown, arrays.halves.node.attended, arrays.inverse)
    }
}

impl<T: Real> Pass<'_, T> {
    pub(super) fn additive(&self, parts: &mut [PartState<T>], arrays: LayerArrays<&mut [T]>) {
        let Self { engine, layer, .. } = *self;
        let (d, isa, topology) = (self.width(), engine.isa, &engine.work.topology);
        let (heads, lanes) = engine.layer_heads(layer);
        let regions = engine.layout.layers[layer].message;
        let vectors = regions.logits.map(|region| engine.vector(region));
        let h = self.input(Stream::Node);
        let rows = 2 * lanes * topology.nodes();
        let node = arrays.halves.node;
        let projected = Projected { projected: &mut *arrays.qkv, logits: &mut node.attended[..rows] };
        for_parts(&engine.work.plan, parts, projected, &|blocks, part, _, out| {
            for block in blocks {
                let n = block.nodes.len();
                let z = &mut out.projected[block.node_rows(part, d)];
                let h = Tile::new(&h[wide(&block.nodes, d)], n, d);
                let weight = engine.weight(regions.node.weight);
                product(isa, h, weight, TileMut::new(z, n, d), Epilogue::default());
                let logits = &mut out.logits[block.node_rows(part, 2 * lanes)];
                Logits { heads, z, vectors, logits }.run_on(isa);
            }
        });
        let (z, logits) = (&*arrays.qkv, &node.attended[..rows]);
        let passed = Passed { summed: &mut [], inverse: &mut arrays.inverse[..rows], x: node.middle, x_e: &mut [] };
        for_parts(&engine.work.plan, parts, passed, &|blocks, part, state, out| {
            state.reset_moments(d);
            for block in blocks {
                let x = &mut out.x[block.node_rows(part, d)];
                let softmax = &mut out.inverse[block.node_rows(part, 2 * lanes)];
                let nodes = block.nodes.clone();
                Attend { topology, heads, nodes, width: d, z, logits, softmax, x: &mut *x }.run_on(isa);
                self.add_moments(state, Stream::Node, x);
            }
        });
    }

    pub(super) fn additive_backward(&self, parts: &mut [PartState<T>], g: Gradients<'_, T>, between: &mut Between<T>) {
        let Self { engine, layer, .. } = *self;
        let (d, isa, topology) = (self.width(), engine.isa, &engine.work.topology);
        let (heads, lanes) = engine.layer_heads(layer);
        let regions = engine.layout.layers[layer].message;
        let vectors = regions.logits.map(|region| engine.vector(region));
        let arrays = engine.work.layers[layer].arrays();
        let node = arrays.halves.node;
        let (z, logits, softmax) = (arrays.qkv, node.attended, arrays.inverse);
        let edges = lanes * topology.edges();
        let back = between.back();
        let back = Back { dlogit: &mut back.dlogit[..edges], ..back };
        for_parts(&engine.work.plan, parts, back, &|blocks, part, state, back| {
            for block in blocks {
                let rows = block.node_rows(part, d);
                let dx = &mut back.dx[rows.clone()];
                let x = &node.middle[wide(&block.nodes, d)];
                self.normalise_backward(Stream::Node, x, &back.dy[rows], dx, &mut state.gradient);
                let (nodes, dt) = (block.nodes.clone(), &mut back.dlogit[block.edge_rows(part, lanes)]);
                Taken { topology, heads, nodes, width: d, z, logits, softmax, x, dx, dt }.run_on(isa);
            }
        });
        let Between { dattended: dx, dqkv, dlogit, .. } = between;
        let arrays = Finishing { g: g.node, dprojected: dqkv };
        let h = self.input(Stream::Node);
        for_parts(&engine.work.plan, parts, arrays, &|blocks, part, state, out| {
            let PartState { gradient, scratch, .. } = state;
            for block in blocks {
                let (rows, n) = (block.node_rows(part, d), block.nodes.len());
                let dz = &mut out.dprojected[rows.clone()];
                let (nodes, dt) = (block.nodes.clone(), &dlogit[..edges]);
                let dvectors: [&mut [T]; 2] = gradient.both_of(regions.logits).into();
                Returned { topology, heads, nodes, width: d, z, logits, softmax, vectors, dx, dt, dz, dvectors }
                    .run_on(isa);
                let weight = TileMut::new(gradient.of(regions.node.weight), d, d);
                product_tn(isa, Tile::new(&h[wide(&block.nodes, d)], n, d), Tile::new(dz, n, d), weight, &[]);
                let g = &mut out.g[rows];
                self.return_product(Stream::Node, &block.nodes, dz, regions.node.weight, &mut scratch.node.y, g);
            }
        });
    }
}
