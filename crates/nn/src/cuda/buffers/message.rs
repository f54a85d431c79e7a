//! Structures and buffers of layers of other kinds than attention.

use super::{Buffers, abi};
use crate::cuda::error::Result;
use crate::cuda::kind::LayerKind;
use crate::cuda::memory::at;
use crate::cuda::program::Shape;
use crate::network::{HeadInput, Jump, Network, Norm};
use crate::parameters::{Affine, Parameters};
use crate::stream::Stream;

/// A layer's structures.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MessageLayer {
    pub(crate) message: abi::Message,
    pub(crate) jobs: abi::Jobs,
    /// Blocks of its weight gradients.
    pub(crate) units: usize,
    /// Chunk 0 of the gradient of additive attention's vectors.
    pub(crate) dvectors: abi::Pointer,
}

impl Buffers {
    pub(super) fn messages(&mut self, network: &Network, layout: &Parameters, shape: Shape) -> Result<()> {
        let (d, kind) = (shape.d, LayerKind::of(network));
        let nodes = self.capacity.nodes;
        let edges = if network.edge_stream { self.capacity.edges } else { 0 };
        let additive = kind == LayerKind::AdditiveAttention;
        let projected = if kind == LayerKind::Gated { 4 * d } else { d };
        let heads = if additive { shape.heads } else { 0 };
        let streams = if network.edge_stream { 2 } else { 1 };
        let threshold = (network.dropout * 65_536.0).round() as u32;
        let scale = (1.0 / (1.0 - network.dropout)) as f32;
        let g = [self.memory.zeros::<f32>(nodes * d)?, self.memory.zeros::<f32>(edges * d)?];
        // With batch normalisation edges' gradients go through it edge by edge, and need no place.
        let by_tiles = if network.norm == Norm::Batch { 0 } else { edges };
        let dy = [self.memory.zeros::<f32>(nodes * d)?, self.memory.zeros::<f32>(by_tiles * d)?];
        // Weight gradients of one layer are taken while the next is under way, so two sets change
        // places.
        let mut back = Vec::new();
        for _ in 0..2 {
            let dx = [self.memory.zeros::<f32>(nodes * d)?, self.memory.zeros::<f32>(edges * d)?];
            let dprojected = self.memory.zeros::<f32>(nodes * projected)?;
            back.push((dx, dprojected, self.memory.zeros::<f32>(nodes * 2 * heads)?));
        }
        let dt = self.memory.zeros::<f32>(self.capacity.edges * heads)?;
        let mut h = self.embedded;
        let mut sites = Vec::new();
        for index in 0..network.layers {
            let regions = &layout.layers[index];
            let reads_edges = index + 1 < network.layers || network.last_edges_read();
            let (dx, dprojected, dlogits) = back[index % 2];
            let mut halves = [abi::MessageHalf::default(); 2];
            let own = &regions.branches[0];
            let affines = match kind {
                // The projection has no bias.
                LayerKind::AdditiveAttention => {
                    [Affine { weight: own.regions[0], ..Default::default() }, Affine::default()]
                }
                _ => [own.linear(0), own.linear(2)],
            };
            let logits = own.regions[1];
            for (which, (half, stream)) in halves.iter_mut().zip([Stream::Node, Stream::Edge]).enumerate().take(streams)
            {
                let rows = if stream == Stream::Node { nodes } else { edges };
                let returned = stream == Stream::Node || reads_edges;
                let mut norm = abi::Site { edges: which as i32, ..Default::default() };
                if network.norm != Norm::None {
                    // Engines hold running statistics of two normalisations per layer; the second
                    // is not used here.
                    let place = (network.norm == Norm::Batch).then_some(2 * index * streams + which);
                    norm = self.site(regions.norm(0, stream), shape, (stream, rows), place)?;
                    sites.push(norm);
                }
                *half = abi::MessageHalf {
                    h: h[which],
                    projected: if stream == Stream::Node { self.memory.zeros::<f32>(rows * projected)? } else { 0 },
                    x: self.memory.zeros::<f32>(rows * d)?,
                    out: self.memory.zeros::<f32>(rows * d)?,
                    g: g[which],
                    dy: if returned { dy[which] } else { 0 },
                    dx: dx[which],
                    dprojected: if stream == Stream::Node { dprojected } else { 0 },
                    returns: i32::from(network.residual && returned),
                    linear: self.linear(affines[which]),
                    norm,
                    dropped: 1 + 4 * index as u32 + which as u32,
                    ..Default::default()
                };
                // What the head reads of the layer below comes back on top of what this layer
                // gives.
                let own = if network.reads == HeadInput::Edges { Stream::Edge } else { Stream::Node };
                if index > 0 && network.jump != Jump::Last && stream == own {
                    let column = if network.jump == Jump::Concat { (index - 1) * d } else { 0 };
                    half.jump = at::<f32>(self.dsource, column);
                    half.jump_stride = crate::cpu::source_width(network) as i32;
                }
            }
            let [node, edge] = halves;
            let message = abi::Message {
                node,
                edge,
                threshold,
                scale,
                vectors: if additive { at::<f32>(self.flat.values, logits.offset) } else { 0 },
                logits: self.memory.zeros::<f32>(nodes * 2 * heads)?,
                softmax: self.memory.zeros::<f32>(nodes * 2 * heads)?,
                dlogits,
                dt,
                single: i32::from(network.heads(index) == 1),
                inverse: self.memory.zeros::<f32>(if kind == LayerKind::Gated { nodes * d } else { 0 })?,
                ..Default::default()
            };
            let mut jobs = Vec::new();
            let mut job = |a, g, affine: Affine, rows| {
                let bias = (affine.bias.columns > 0).then_some(affine.bias);
                jobs.push(self.job(a, g, affine.weight, bias, abi::Site::default(), rows));
            };
            match kind {
                LayerKind::Convolution => job(node.projected, node.dx, affines[0], 0),
                _ => job(node.h, node.dprojected, affines[0], 0),
            }
            if kind == LayerKind::Gated {
                job(edge.h, edge.dx, affines[1], 1);
            }
            let (jobs, units) = self.list(&jobs, shape);
            let dvectors = if additive { self.gradient(logits) } else { 0 };
            self.messages.push(MessageLayer { message, jobs, units, dvectors });
            h = halves.map(|half| half.out);
        }
        self.sites = (self.memory.with(&sites)?, sites.len());
        Ok(())
    }
}
