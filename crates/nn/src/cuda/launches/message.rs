//! The launches of layers of other kinds than attention.

use cudarc::driver::{CudaEvent, LaunchConfig, PushKernelArg};

use super::{Launches, launch};
use crate::cpu::source_width;
use crate::cuda::abi;
use crate::cuda::buffers::{Buffers, MessageLayer};
use crate::cuda::error::{CudaError, Result};
use crate::cuda::kind::LayerKind;
use crate::cuda::memory::at;
use crate::network::{HeadInput, Jump, Norm};

/// Rows that a block of the vectors' gradients takes at a time, as in `message.cu`.
const VECTOR_SLICES: u32 = 8;

impl Launches {
    /// A warp per node.
    fn nodes(&self) -> (u32, u32, u32) {
        ((self.size.nodes as u32).div_ceil(4).max(1), 1, 1)
    }

    /// Blocks over the rows of edges.
    fn gates(&self) -> (u32, u32, u32) {
        (self.tiles(self.size.edges), 1, 1)
    }

    /// A layer, of which edges may not be worked on.
    fn of(&self, message: abi::Message, edges: bool) -> abi::Message {
        abi::Message { with_edges: self.with_edges(edges), ..message }
    }

    /// Whether edges' gradients go back through the normalisation one by one, not by tiles.
    fn edge_by_edge(&self) -> bool {
        LayerKind::of(&self.network) == LayerKind::Gated && self.network.norm == Norm::Batch
    }

    /// Whether a layer begins with a projection, which activates what the layer below left.
    fn projects_first(&self) -> bool {
        LayerKind::of(&self.network) != LayerKind::Convolution
    }

    pub(super) fn messages(&self, b: &Buffers, train: bool) -> Result<()> {
        let last = b.messages.len().saturating_sub(1);
        for (index, layer) in b.messages.iter().enumerate() {
            let below = index.checked_sub(1).map(|below| &b.messages[below].message);
            self.message(b, layer.message, below, train)?;
            if let Some(below) = below.filter(|_| self.projects_first()) {
                self.read_message(b, below, index - 1)?;
            }
            if !self.projects_first() || index == last {
                // In inference the last layer's edges may have no reader.
                let edges = train || index < last || self.network.last_edges_read();
                let (grid, m) = (self.grid(edges), self.of(layer.message, edges));
                let Self { stream, program, shared, .. } = self;
                launch!(stream, program, "message_activate", grid, self.threads(), shared.read, b.batch, m)?;
                self.read_message(b, &m, index)?;
            }
        }
        Ok(())
    }

    fn message(&self, b: &Buffers, m: abi::Message, below: Option<&abi::Message>, train: bool) -> Result<()> {
        let Self { stream, program, shared, .. } = self;
        let (grid, nodes, threads) = (self.grid(false), self.nodes(), self.threads());
        let (lower, first) = (below.copied().unwrap_or_default(), i32::from(below.is_none()));
        let measured = train && self.network.norm == Norm::Batch;
        if self.projects_first() {
            launch!(stream, program, "message_project", grid, threads, shared.pair, b.batch, m, lower, first)?;
            if LayerKind::of(&self.network) == LayerKind::Gated {
                launch!(stream, program, "message_gate", self.gates(), threads, shared.gate, b.batch, m, lower, first)?;
            }
            launch!(stream, program, "message_forward", nodes, (128, 1, 1), 0, b.batch, m)?;
            if measured {
                launch!(stream, program, "message_measure", grid, threads, shared.read, b.batch, m)?;
            }
        } else {
            launch!(stream, program, "message_forward", nodes, (128, 1, 1), 0, b.batch, m)?;
            launch!(stream, program, "message_project", grid, threads, shared.pair, b.batch, m, lower, first)?;
        }
        if measured { self.merge(b, [m.node.norm, m.edge.norm], false) } else { Ok(()) }
    }

    /// Puts a layer's output among the rows that the head reads, if it reads them.
    fn read_message(&self, b: &Buffers, m: &abi::Message, index: usize) -> Result<()> {
        if !self.network.head_reads(index + 1) {
            return Ok(());
        }
        let shape = self.program.shape;
        let edges = self.network.reads == HeadInput::Edges;
        let (out, rows) = if edges { (m.edge.out, self.size.edges) } else { (m.node.out, self.size.nodes) };
        let column = if self.network.jump == Jump::Concat { index * shape.d } else { 0 } as i32;
        let add = i32::from(self.network.jump == Jump::Sum && index > 0);
        // The rows are normalised already.
        let site = abi::Site { edges: i32::from(edges), ..Default::default() };
        launch!(
            self.stream,
            self.program,
            "read_rows",
            (self.tiles(rows), 1, 1),
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

    /// The backward pass through all layers, from the gradient of the rows that the head read.
    pub(super) fn messages_backward(&self, b: &Buffers) -> Result<()> {
        let mut done: Vec<CudaEvent> = Vec::new();
        for (index, layer) in b.messages.iter().enumerate().rev() {
            // The set of gradients that this layer writes is still read by the weights of the layer
            // two above.
            if let Some(event) = done.iter().rev().nth(1) {
                self.stream.wait(event)?;
            }
            self.message_backward(b, index)?;
            let weighed = self.weigh(b, layer.jobs, layer.units)?;
            done.push(if layer.dvectors == 0 { weighed } else { self.weigh_vectors(b, layer)? });
        }
        Ok(())
    }

    fn message_backward(&self, b: &Buffers, index: usize) -> Result<()> {
        let Self { stream, program, shared, network, .. } = self;
        let last = index + 1 == b.messages.len();
        let edges = !last || network.last_edges_read();
        let m = self.of(b.messages[index].message, edges);
        let (nodes, threads) = (self.nodes(), self.threads());
        if last || !self.projects_first() {
            self.activate_backward(b, m, last, edges)?;
        }
        if network.norm == Norm::Batch {
            self.merge(b, [m.node.norm, m.edge.norm], true)?;
        }
        if self.projects_first() {
            let by_tiles = edges && !self.edge_by_edge();
            let (tiles, mut grid) = (self.of(m, by_tiles), self.grid(by_tiles));
            grid.0 += u32::from(self.edge_by_edge());
            launch!(stream, program, "message_unnormalise", grid, threads, shared.pair, b.batch, tiles)?;
            launch!(stream, program, "message_into", nodes, (128, 1, 1), 0, b.batch, m)?;
            launch!(stream, program, "message_out", nodes, (128, 1, 1), 0, b.batch, m)?;
        }
        let below = index.checked_sub(1).map(|below| b.messages[below].message);
        let (lower, first) = (below.unwrap_or_default(), i32::from(below.is_none()));
        let (grid, m) = (self.grid(false), self.of(m, false));
        launch!(stream, program, "message_project_backward", grid, threads, shared.message, b.batch, m, lower, first)?;
        if LayerKind::of(network) == LayerKind::Gated {
            let grid = self.gates();
            launch!(stream, program, "message_gate_backward", grid, threads, shared.gate, b.batch, m, lower, first)?;
        }
        if !self.projects_first() {
            launch!(stream, program, "message_return", nodes, (128, 1, 1), 0, b.batch, m)?;
        }
        Ok(())
    }

    /// The backward pass through an activation that is not part of another launch.
    fn activate_backward(&self, b: &Buffers, m: abi::Message, last: bool, edges: bool) -> Result<()> {
        let Self { stream, program, shared, network, .. } = self;
        let column = if network.jump == Jump::Concat { (network.layers - 1) * program.shape.d } else { 0 };
        let of_edges = i32::from(network.reads == HeadInput::Edges);
        let (dsource, stride) = (at::<f32>(b.dsource, column), source_width(network) as i32);
        let (grid, threads) = (self.grid(edges), self.threads());
        let last = i32::from(last);
        launch!(
            stream,
            program,
            "message_activate_backward",
            grid,
            threads,
            shared.pair,
            b.batch,
            m,
            dsource,
            stride,
            of_edges,
            last
        )
    }

    /// Gradients of additive attention's vectors, on the second stream, after what is there.
    fn weigh_vectors(&self, b: &Buffers, layer: &MessageLayer) -> Result<CudaEvent> {
        let grid = ((self.program.shape.d as u32).div_ceil(32), self.program.shape.chunks as u32, 2);
        let (block, m, size) = ((32, VECTOR_SLICES, 1), layer.message, b.flat.size);
        launch!(self.side, self.program, "message_vectors", grid, block, 0, b.batch, m, layer.dvectors, size)?;
        Ok(self.side.record_event(None)?)
    }
}
