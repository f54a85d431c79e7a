//! Both passes of additive attention: z = h·W, logits, then every node attends. All projections
//! must be complete before any node attends, and the backward pass has such a barrier too. So both
//! directions take two parts.

use super::Gat;
use super::kernels::{Attend, Logits, Returned, Taken};
use crate::cpu::plan::{Divide, Extent, divisible, for_parts};
use crate::cpu::product::{Epilogue, product, product_tn};
use crate::cpu::simd::LANES;
use crate::cpu::stage::wide;
use crate::cpu::tile::{Tile, TileMut};
use crate::cpu::workspace::PartState;
use crate::layers::{BranchBack, BranchLayer, Kept, Pass};
use crate::network::Network;
use crate::real::Real;
use crate::stream::Stream;

divisible! {
    /// The projected nodes and their logits.
    Projected { nodes: [z, logits], edges: [] }
}

divisible! {
    /// Outputs of the forward pass.
    Attended { nodes: [softmax, x], edges: [] }
}

divisible! {
    /// Gradients of the first part.
    Back { nodes: [dy, dx], edges: [dt] }
}

divisible! {
    /// Gradients of the second part.
    Finishing { nodes: [g, dz], edges: [] }
}

/// Heads of a layer, padded, and numbers of a row of lanes.
pub(super) fn layer_heads(network: &Network, layer: usize) -> (usize, usize) {
    let heads = if Gat.heads(network, layer) == 1 { 1 } else { network.channels.padded_heads() };
    (heads, heads.max(LANES))
}

pub(super) fn forward<T: Real>(pass: &Pass<'_, T>, parts: &mut [PartState<T>], kept: Kept<'_, T>) {
    let Pass { engine, layer, .. } = *pass;
    let (d, isa, topology) = (pass.width(), engine.isa, &engine.work.topology);
    let (heads, lanes) = layer_heads(&engine.network, layer);
    let [weight, source, target, ..] = pass.regions().regions;
    let vectors = [source, target].map(|region| engine.vector(region));
    let h = pass.input(Stream::Node);
    let rows = 2 * lanes * topology.nodes();
    let Kept { own: [z, logits, softmax, ..], x } = kept;
    let projected = Projected { z: &mut *z, logits: &mut logits[..rows] };
    for_parts(&engine.work.plan, parts, projected, &|blocks, part, _, out| {
        for block in blocks {
            let n = block.nodes.len();
            let z = &mut out.z[block.node_rows(part, d)];
            let h = Tile::new(&h[wide(&block.nodes, d)], n, d);
            product(isa, h, engine.weight(weight), TileMut::new(z, n, d), Epilogue::default());
            let logits = &mut out.logits[block.node_rows(part, 2 * lanes)];
            Logits { heads, z, vectors, logits }.run_on(isa);
        }
    });
    let (z, logits) = (&*z, &logits[..rows]);
    let attended = Attended { softmax: &mut softmax[..rows], x: x.node };
    for_parts(&engine.work.plan, parts, attended, &|blocks, part, state, out| {
        pass.reset_moments(state);
        for block in blocks {
            let x = &mut out.x[block.node_rows(part, d)];
            let softmax = &mut out.softmax[block.node_rows(part, 2 * lanes)];
            let nodes = block.nodes.clone();
            Attend { topology, heads, nodes, width: d, z, logits, softmax, x: &mut *x }.run_on(isa);
            pass.add_moments(state, Stream::Node, x);
        }
    });
}

pub(super) fn backward<T: Real>(pass: &Pass<'_, T>, parts: &mut [PartState<T>], back: BranchBack<'_, T>) {
    let Pass { engine, layer, .. } = *pass;
    let (d, isa, topology) = (pass.width(), engine.isa, &engine.work.topology);
    let (heads, lanes) = layer_heads(&engine.network, layer);
    let [weight, source, target, ..] = pass.regions().regions;
    let vectors = [source, target].map(|region| engine.vector(region));
    let ([z, logits, softmax, ..], x) = pass.kept();
    let rows = 2 * lanes * topology.nodes();
    let (logits, softmax) = (&logits[..rows], &softmax[..rows]);
    let [dx, dz, dt, ..] = back.between.cut(Gat.passed(&engine.network, pass.rows()));
    let dt = &mut dt[..lanes * topology.edges()];
    let arrays = Back { dy: back.dy.node, dx: &mut *dx, dt: &mut *dt };
    for_parts(&engine.work.plan, parts, arrays, &|blocks, part, state, back| {
        pass.reset(state);
        for block in blocks {
            let rows = block.node_rows(part, d);
            let dx = &mut back.dx[rows.clone()];
            let x = &x.node[wide(&block.nodes, d)];
            pass.normalise_backward(Stream::Node, x, &back.dy[rows], dx, &mut state.gradient);
            let (nodes, dt) = (block.nodes.clone(), &mut back.dt[block.edge_rows(part, lanes)]);
            Taken { topology, heads, nodes, width: d, z, logits, softmax, x, dx, dt }.run_on(isa);
        }
    });
    let (dx, dt) = (&*dx, &*dt);
    let h = pass.input(Stream::Node);
    for_parts(&engine.work.plan, parts, Finishing { g: back.g.node, dz }, &|blocks, part, state, out| {
        for block in blocks {
            let gradient = &mut state.gradient;
            let (rows, n) = (block.node_rows(part, d), block.nodes.len());
            let dz = &mut out.dz[rows.clone()];
            let nodes = block.nodes.clone();
            let dvectors: [&mut [T]; 2] = gradient.both_of([source, target]).into();
            Returned { topology, heads, nodes, width: d, z, logits, softmax, vectors, dx, dt, dz, dvectors }
                .run_on(isa);
            let to = TileMut::new(gradient.of(weight), d, d);
            product_tn(isa, Tile::new(&h[wide(&block.nodes, d)], n, d), Tile::new(dz, n, d), to, &[]);
            pass.return_product(Stream::Node, &block.nodes, dz, weight, state, &mut out.g[rows]);
        }
    });
}
