//! The launches of layers of other kinds than attention.

use cudarc::driver::{CudaEvent, LaunchConfig, PushKernelArg};

use super::{Launches, PLAIN, launch};
use crate::cpu::source_width;
use crate::cuda::abi;
use crate::cuda::buffers::{Buffers, CHUNKS, MessageLayer};
use crate::cuda::error::{CudaError, Result};
use crate::cuda::memory::at;
use crate::network::{Jump, LayerKind, Norm, Reads};

/// Rows that a block of the vectors' gradients takes at a time, as in `message.cu`.
const VECTOR_SLICES: u32 = 8;

impl Launches {
    /// A warp per node.
    fn nodes(&self, b: &Buffers) -> (u32, u32, u32) {
        ((b.capacity.nodes as u32).div_ceil(4).max(1), 1, 1)
    }

    pub(super) fn messages(&self, b: &Buffers, train: bool) -> Result<()> {
        for (index, layer) in b.messages.iter().enumerate() {
            // In inference nobody may read the last layer's edges.
            let edges = train || index + 1 < b.messages.len() || self.network.last_edges_read();
            self.message(b, layer.message, edges, train)?;
            if self.network.head_reads(index + 1) {
                self.read_message(b, &layer.message, index)?;
            }
        }
        Ok(())
    }

    fn message(&self, b: &Buffers, m: abi::Message, edges: bool, train: bool) -> Result<()> {
        let Self { stream, program, shared, .. } = self;
        let (grid, nodes, threads) = (self.grid(b, true), self.nodes(b), self.threads());
        let kind = self.network.kind;
        if kind == LayerKind::Convolution {
            launch!(stream, program, "message_forward", nodes, (128, 1, 1), 0, b.batch, m)?;
        }
        launch!(stream, program, "message_project", grid, threads, shared.read, b.batch, m)?;
        if kind == LayerKind::AdditiveAttention {
            launch!(stream, program, "message_logits", nodes, (128, 1, 1), 0, b.batch, m)?;
        }
        if kind != LayerKind::Convolution {
            launch!(stream, program, "message_forward", nodes, (128, 1, 1), 0, b.batch, m)?;
        }
        if train && self.network.norm == Norm::Batch {
            launch!(stream, program, "message_measure", grid, threads, shared.read, b.batch, m)?;
            self.merge(b, [m.node.norm, m.edge.norm], false)?;
        }
        launch!(stream, program, "message_activate", self.grid(b, edges), threads, shared.read, b.batch, m)
    }

    /// Puts a layer's output among the rows that the head reads.
    fn read_message(&self, b: &Buffers, m: &abi::Message, index: usize) -> Result<()> {
        let shape = self.program.shape;
        let edges = self.network.reads == Reads::Edges;
        let (out, rows) = if edges { (m.edge.out, b.capacity.edges) } else { (m.node.out, b.capacity.nodes) };
        let column = if self.network.jump == Jump::Concat { index * shape.d } else { 0 } as i32;
        let add = i32::from(self.network.jump == Jump::Sum && index > 0);
        // It is normalised already.
        let site = abi::Site { edges: i32::from(edges), ..Default::default() };
        launch!(
            self.stream,
            self.program,
            "read_rows",
            (rows.div_ceil(shape.rows).max(1) as u32, 1, 1),
            self.threads(),
            self.shared.read,
            b.batch,
            out,
            site,
            abi::Site::default(),
            b.source,
            column,
            source_width(&self.network) as i32,
            add,
            0i32
        )
    }

    /// Back through all layers, from the gradient of what the head read.
    pub(super) fn messages_backward(&self, b: &Buffers) -> Result<()> {
        let network = &self.network;
        let Some(last) = b.messages.last() else { return Ok(()) };
        let column = if network.jump == Jump::Concat { (network.layers - 1) * self.program.shape.d } else { 0 };
        let dsource = at::<f32>(b.dsource, column);
        let on_edges = network.reads == Reads::Edges;
        // Where edges are read, nothing comes back through the last layer's nodes.
        self.enter_message(b, last.message.node.g, false, if on_edges { 0 } else { dsource })?;
        if on_edges {
            self.enter_message(b, last.message.edge.g, true, dsource)?;
        }
        let mut done: Vec<CudaEvent> = Vec::new();
        for (index, layer) in b.messages.iter().enumerate().rev() {
            // The set of gradients that this layer writes is still read by the weights of the layer two above.
            if let Some(event) = done.iter().rev().nth(1) {
                self.stream.wait(event)?;
            }
            let edges = index + 1 < b.messages.len() || network.last_edges_read();
            self.message_backward(b, layer, edges)?;
            done.push(self.weigh(b, layer.jobs, layer.units)?);
        }
        Ok(())
    }

    fn enter_message(&self, b: &Buffers, g: abi::Pointer, edges: bool, dsource: abi::Pointer) -> Result<()> {
        let rows = if edges { b.capacity.edges } else { b.capacity.nodes };
        let grid = ((rows * self.program.shape.d).div_ceil(PLAIN as usize).clamp(1, 1 << 16) as u32, 1, 1);
        let stride = source_width(&self.network) as i32;
        let edges = i32::from(edges);
        launch!(self.stream, self.program, "message_enter", grid, (PLAIN, 1, 1), 0, b.batch, g, edges, dsource, stride)
    }

    fn message_backward(&self, b: &Buffers, layer: &MessageLayer, edges: bool) -> Result<()> {
        let Self { stream, program, shared, .. } = self;
        let m = layer.message;
        let (grid, nodes, threads) = (self.grid(b, edges), self.nodes(b), self.threads());
        launch!(stream, program, "message_activate_backward", grid, threads, shared.read, b.batch, m)?;
        if self.network.norm == Norm::Batch {
            self.merge(b, [m.node.norm, m.edge.norm], true)?;
        }
        launch!(stream, program, "message_unnormalise", grid, threads, shared.join, b.batch, m)?;
        let kind = self.network.kind;
        if kind != LayerKind::Convolution {
            launch!(stream, program, "message_into", nodes, (128, 1, 1), 0, b.batch, m)?;
            launch!(stream, program, "message_out", nodes, (128, 1, 1), 0, b.batch, m)?;
        }
        if kind == LayerKind::AdditiveAttention {
            let grid = ((program.shape.d as u32).div_ceil(32), CHUNKS as u32, 2);
            let block = (32, VECTOR_SLICES, 1);
            launch!(stream, program, "message_vectors", grid, block, 0, b.batch, m, layer.dvectors, b.flat.size)?;
        }
        let back = self.grid(b, true);
        launch!(stream, program, "message_project_backward", back, threads, shared.message, b.batch, m)?;
        if kind == LayerKind::Convolution {
            launch!(stream, program, "message_return", nodes, (128, 1, 1), 0, b.batch, m)?;
        }
        Ok(())
    }
}
