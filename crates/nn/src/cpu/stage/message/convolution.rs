//! A convolution: x = m·W + b with the sums m of [`Gather`].

use super::{Back, Finishing, Pass, Passed};
use crate::Stream;
use crate::cpu::activations::LayerArrays;
use crate::cpu::message::{Direction, Gather};
use crate::cpu::plan::for_parts;
use crate::cpu::product::{Epilogue, product};
use crate::cpu::stage::{Gradients, wide};
use crate::cpu::tile::{Tile, TileMut};
use crate::cpu::workspace::{Between, PartState};
use crate::network::LayerKind;
use crate::real::Real;

impl<T: Real> Pass<'_, T> {
    fn averages(&self) -> bool {
        self.engine.network.kind == LayerKind::Averaging
    }

    pub(super) fn convolution(&self, parts: &mut [PartState<T>], arrays: LayerArrays<&mut [T]>) {
        let Self { engine, layer, .. } = *self;
        let (d, isa, topology) = (self.width(), engine.isa, &engine.work.topology);
        let affine = engine.layout.layers[layer].message.node;
        let h = self.input(Stream::Node);
        let node = arrays.halves.node;
        let passed = Passed { summed: node.attended, inverse: &mut [], x: node.middle, x_e: &mut [] };
        for_parts(&engine.work.plan, parts, passed, &|blocks, part, state, out| {
            state.reset_moments(d);
            for block in blocks {
                let (rows, n) = (block.node_rows(part, d), block.nodes.len());
                let to = &mut out.summed[rows.clone()];
                let (nodes, direction) = (block.nodes.clone(), Direction::Forward);
                Gather { topology, direction, mean: self.averages(), nodes, width: d, from: h, to }.run_on(isa);
                let x = &mut out.x[rows];
                let epilogue = Epilogue { bias: Some(engine.vector(affine.bias)), ..Default::default() };
                product(isa, Tile::new(to, n, d), engine.weight(affine.weight), TileMut::new(x, n, d), epilogue);
                self.add_moments(state, Stream::Node, x);
            }
        });
    }

    pub(super) fn convolution_backward(
        &self,
        parts: &mut [PartState<T>],
        g: Gradients<'_, T>,
        between: &mut Between<T>,
    ) {
        let Self { engine, layer, .. } = *self;
        let (d, isa, topology) = (self.width(), engine.isa, &engine.work.topology);
        let affine = engine.layout.layers[layer].message.node;
        let node = engine.work.layers[layer].arrays().halves.node;
        for_parts(&engine.work.plan, parts, between.back(), &|blocks, part, state, back: Back<'_, T>| {
            for block in blocks {
                let (rows, all, n) = (block.node_rows(part, d), wide(&block.nodes, d), block.nodes.len());
                let dx = &mut back.dx[rows.clone()];
                let x = &node.middle[all.clone()];
                self.normalise_backward(Stream::Node, x, &back.dy[rows.clone()], dx, &mut state.gradient);
                engine.add_affine_gradient(affine, &node.attended[all], dx, &mut state.gradient, &[]);
                let to = TileMut::new(&mut back.dprojected[rows], n, d);
                product(isa, Tile::new(dx, n, d), engine.transpose(affine.weight), to, Epilogue::default());
            }
        });
        let dsums = &between.dqkv;
        let arrays = Finishing { g: g.node, dprojected: &mut [] };
        for_parts(&engine.work.plan, parts, arrays, &|blocks, part, state, out| {
            for block in blocks {
                let g = &mut out.g[block.node_rows(part, d)];
                let to = &mut state.scratch.node.y[..g.len()];
                let (nodes, direction) = (block.nodes.clone(), Direction::Backward);
                Gather { topology, direction, mean: self.averages(), nodes, width: d, from: dsums, to }.run_on(isa);
                let keep = if self.returns(Stream::Node) { T::ONE } else { T::ZERO };
                g.iter_mut().zip(&*to).for_each(|(g, &v)| *g = *g * keep + v);
                engine.add_head_gradient(layer, Stream::Node, &block.nodes, g);
            }
        });
    }
}
