//! The launches of a step, in order. Weight gradients run on a second stream, in parallel with the
//! backward pass through the layers.

mod message;

use std::sync::Arc;

use cudarc::driver::{CudaEvent, CudaStream, LaunchConfig, PushKernelArg};

use super::abi;
use super::buffers::{Buffers, Layer};
use super::engine::CudaTask;
use super::error::{CpuOnly, CudaError, Result};
use super::kind::LayerKind;
use super::memory::at;
use super::program::Program;
use super::resident::Size;
use crate::AttentionScope;
use crate::cpu::source_width;
use crate::network::{HeadInput, Jump, Network, Norm, Readout};

/// Rows that a block of the head takes.
const HEAD_ROWS: usize = 4;
/// Threads of blocks that are not bound to a shape.
const PLAIN: u32 = 256;
/// Rows that a block of the input's gradients takes at a time.
const INPUT_SLICES: u32 = 16;

/// Kernels and the streams they run on.
#[derive(Clone, Debug)]
pub(crate) struct Launches {
    stream: Arc<CudaStream>,
    side: Arc<CudaStream>,
    program: Arc<Program>,
    network: Network,
    shared: SharedMemory,
    /// The largest batch that the launches are for.
    size: Size,
}

/// Bytes of shared memory that kernels need.
#[derive(Clone, Copy, Debug)]
struct SharedMemory {
    /// Bytes with one tile as wide as the streams.
    read: usize,
    /// Bytes with two tiles as wide as the streams.
    pair: usize,
    head: usize,
    weigh: usize,
    /// Bytes of the backward pass through a projection, in layers of other kinds than attention.
    message: usize,
    /// Bytes of the kernels for edges of gated layers.
    gate: usize,
}

/// Launches a kernel: stream, program, name, grid, block, bytes of shared memory, arguments.
macro_rules! launch {
    ($stream:expr, $program:expr, $name:literal, $grid:expr, $block:expr, $shared:expr, $($argument:expr),+ $(,)?) => {{
        let config = LaunchConfig { grid_dim: $grid, block_dim: $block, shared_mem_bytes: $shared as u32 };
        let mut builder = $stream.launch_builder($program.function($name));
        $(let argument = $argument; builder.arg(&argument);)+
        // SAFETY: the arguments are those of the kernel; their pointers lie inside arrays of the
        // sizes that its structures state.
        unsafe { builder.launch(config) }.map(|_| ()).map_err(CudaError::from)
    }};
}

use launch;

impl Launches {
    pub(crate) fn new(
        stream: &Arc<CudaStream>,
        side: &Arc<CudaStream>,
        program: Arc<Program>,
        task: &CudaTask,
        size: Size,
    ) -> Result<Self> {
        let network = task.network.clone();
        let (d, kind) = (program.shape.d, LayerKind::of(&network));
        let tiles = |widths: &[usize]| program.shape.tiles(widths);
        let widest = network.head.iter().map(|&width| crate::channels::padded(width)).max().unwrap_or(0);
        let shared = SharedMemory {
            pair: tiles(&[d, d]),
            read: tiles(&[d]),
            // Four sets of 32 rows of both factors, as in `weights.cu`.
            weigh: 4 * 2 * 32 * (program.shape.unit + 8) * 4,
            message: tiles(&[d, if kind == LayerKind::Gated { 4 * d } else { d }]),
            gate: tiles(&[d, d, d]),
            head: 2 * HEAD_ROWS * widest.max(network.head_streams() * d) * 4,
        };
        let needs = [
            ("project", shared.read),
            ("project_backward", shared.pair),
            ("join", shared.pair),
            ("join_backward", shared.pair),
            ("feed", shared.pair),
            ("feed_backward", shared.pair),
            ("read_rows", shared.read),
            ("enter_backward", shared.read),
            ("head_forward", shared.head),
            ("head_backward", shared.head),
            ("weigh_gradients", shared.weigh),
        ];
        let mut needs = needs.to_vec();
        if kind != LayerKind::Attention {
            needs.extend([
                ("message_project", shared.pair),
                ("message_measure", shared.read),
                ("message_activate", shared.read),
                ("message_activate_backward", shared.pair),
                ("message_project_backward", shared.message),
            ]);
        }
        if matches!(kind, LayerKind::AdditiveAttention | LayerKind::Gated) {
            needs.push(("message_unnormalise", shared.pair));
        }
        if kind == LayerKind::Gated {
            needs.extend([("message_gate", shared.gate), ("message_gate_backward", shared.gate)]);
        }
        for (name, bytes) in needs {
            if bytes > program.room(name) {
                return Err(CpuOnly::SharedMemory(bytes).into());
            }
        }
        Ok(Self { stream: Arc::clone(stream), side: Arc::clone(side), program, network, shared, size })
    }

    /// Launches of the same network for batches of another size.
    pub(crate) fn for_size(&self, size: Size) -> Self {
        Self { size, ..self.clone() }
    }

    fn edge_rows(&self) -> usize {
        if self.network.edge_stream { self.size.edges } else { 0 }
    }

    fn tiles(&self, rows: usize) -> u32 {
        rows.div_ceil(self.program.shape.rows).max(1) as u32
    }

    /// Blocks over the rows of both streams, or of nodes alone.
    fn grid(&self, edges: bool) -> (u32, u32, u32) {
        let of_edges = if self.with_edges(edges) == 1 { self.tiles(self.size.edges) } else { 0 };
        (self.tiles(self.size.nodes) + of_edges, 1, 1)
    }

    /// Whether edges are worked on, as an argument of kernels.
    fn with_edges(&self, edges: bool) -> i32 {
        i32::from(edges && self.network.edge_stream)
    }

    /// A layer's streams, of which edges may not be worked on.
    fn streams(&self, layer: &Layer, edges: bool) -> abi::Streams {
        abi::Streams { with_edges: self.with_edges(edges), ..layer.streams }
    }

    fn threads(&self) -> (u32, u32, u32) {
        (self.program.shape.threads(), 1, 1)
    }

    /// A whole step: batch, forward, loss, and in training backward and optimiser.
    pub(crate) fn step(&self, b: &Buffers, train: bool) -> Result<()> {
        self.batch(b)?;
        self.forward(b, train)?;
        self.loss(b, train)?;
        if train {
            self.backward(b)?;
            self.optimise(b)?;
        }
        Ok(())
    }

    fn batch(&self, b: &Buffers) -> Result<()> {
        let full = i32::from(b.data.edges == AttentionScope::Full);
        let level = match self.network.reads {
            HeadInput::Graphs(_) => 0i32,
            HeadInput::Nodes => 1,
            HeadInput::Edges | HeadInput::Pairs | HeadInput::Products => 2,
        };
        let classes = self.network.outputs() as i32;
        launch!(
            self.stream,
            self.program,
            "begin_batch",
            (1, 1, 1),
            (1024, 1, 1),
            0,
            b.batch,
            b.data.structure,
            level,
            b.class_counts,
            classes
        )?;
        let graphs = self.size.graphs.max(1) as u32;
        // Few large graphs are taken in slices.
        let slices = (256 / graphs).clamp(1, 32);
        launch!(
            self.stream,
            self.program,
            "gather_batch",
            (graphs, slices, 1),
            (PLAIN, 1, 1),
            0,
            b.batch,
            b.data.structure,
            full
        )
    }

    fn forward(&self, b: &Buffers, train: bool) -> Result<()> {
        let (threshold, scale) = input_dropout(&self.network);
        let d = self.program.shape.d as u32;
        let across = d.min(PLAIN);
        let block = (across, (PLAIN / across).max(1), 1);
        for (edges, input, rows) in [(0i32, b.input.node, self.size.nodes), (1, b.input.edge, self.edge_rows())] {
            if rows > 0 {
                let grid = ((rows as u32).div_ceil(block.1), 1, 1);
                let x = b.embedded[edges as usize];
                launch!(
                    self.stream,
                    self.program,
                    "embed",
                    grid,
                    block,
                    0,
                    b.batch,
                    input,
                    edges,
                    x,
                    threshold,
                    scale
                )?;
            }
        }
        self.messages(b, train)?;
        for (index, layer) in b.layers.iter().enumerate() {
            // In inference the last layer's edges may have no reader.
            let edges = train || index + 1 < b.layers.len() || self.network.last_edges_read();
            self.layer(b, layer, edges, train)?;
            if self.network.head_reads(index + 1) {
                self.read(b, layer, index)?;
            }
        }
        self.head(b)
    }

    fn layer(&self, b: &Buffers, layer: &Layer, edges: bool, train: bool) -> Result<()> {
        let Self { stream, program, shared, .. } = self;
        let nodes = (self.size.nodes as u32).div_ceil(4).max(1);
        let mut attention = layer.attention;
        attention.scores = if edges { attention.scores } else { 0 };
        let (all, mut grid) = (self.streams(layer, true), self.grid(true));
        grid.0 += (program.shape.parts as u32 - 1) * self.tiles(self.size.nodes);
        launch!(stream, program, "project", grid, self.threads(), shared.read, b.batch, all)?;
        launch!(stream, program, "attend", (nodes, 1, 1), (128, 1, 1), 0, b.batch, attention)?;
        let (streams, grid) = (self.streams(layer, edges), self.grid(edges));
        launch!(stream, program, "join", grid, self.threads(), shared.pair, b.batch, streams)?;
        if train {
            self.merge(b, [streams.node.norm1, streams.edge.norm1], false)?;
        }
        launch!(stream, program, "feed", grid, self.threads(), shared.pair, b.batch, streams)?;
        // In inference statistics are known.
        if train { self.merge(b, [streams.node.norm2, streams.edge.norm2], false) } else { Ok(()) }
    }

    /// Merges the sums of the tiles for a normalisation, where there are too many tiles for every
    /// block to merge them.
    fn merge(&self, b: &Buffers, [node, edge]: [abi::Site; 2], back: bool) -> Result<()> {
        let groups = [node, edge]
            .map(|site| if site.group > 1 { site.tiles.unsigned_abs().div_ceil(site.group.unsigned_abs()) } else { 0 });
        let most = groups[0].max(groups[1]);
        if most == 0 {
            return Ok(());
        }
        let grid = (most, if groups[1] > 0 { 2 } else { 1 }, 1);
        launch!(self.stream, self.program, "merge_group", grid, self.threads(), 0, b.batch, node, edge, i32::from(back))
    }

    /// Puts a layer's output among the rows that the head reads.
    fn read(&self, b: &Buffers, layer: &Layer, index: usize) -> Result<()> {
        let shape = self.program.shape;
        let edges = i32::from(self.network.reads == HeadInput::Edges);
        let half = if edges == 1 { layer.streams.edge } else { layer.streams.node };
        let rows = if edges == 1 { self.size.edges } else { self.size.nodes };
        let column = if self.network.jump == Jump::Concat { index * shape.d } else { 0 } as i32;
        let add = i32::from(self.network.jump == Jump::Sum && index > 0);
        // One more block settles the statistics of the stream without readers.
        let last = i32::from(index + 1 == self.network.layers);
        let other = if edges == 1 { layer.streams.node } else { layer.streams.edge };
        let grid = (self.tiles(rows) + last.unsigned_abs(), 1, 1);
        launch!(
            self.stream,
            self.program,
            "read_rows",
            grid,
            self.threads(),
            self.shared.read,
            b.batch,
            half.out,
            half.norm2,
            other.norm2,
            b.source,
            column,
            source_width(&self.network) as i32,
            add,
            last
        )
    }

    fn head(&self, b: &Buffers) -> Result<()> {
        let width = source_width(&self.network) as i32;
        match self.network.reads {
            HeadInput::Graphs(readout) => launch!(
                self.stream,
                self.program,
                "pool",
                (self.size.graphs.max(1) as u32, 1, 1),
                (128, 1, 1),
                0,
                b.batch,
                b.source,
                width,
                readout_number(readout),
                b.head.input,
                b.largest
            )?,
            HeadInput::Pairs => launch!(
                self.stream,
                self.program,
                "pair_up",
                (self.size.edges.clamp(1, 1 << 16) as u32, 1, 1),
                (128, 1, 1),
                0,
                b.batch,
                b.source,
                width,
                b.head.input
            )?,
            // Products are refused before.
            HeadInput::Nodes | HeadInput::Edges | HeadInput::Products => {}
        }
        launch!(
            self.stream,
            self.program,
            "head_forward",
            self.head_grid(),
            (128, 1, 1),
            self.shared.head,
            b.batch,
            b.head
        )
    }

    fn head_grid(&self) -> (u32, u32, u32) {
        (self.size.read(self.network.reads).div_ceil(HEAD_ROWS).max(1) as u32, 1, 1)
    }

    fn loss(&self, b: &Buffers, train: bool) -> Result<()> {
        let last = b.head.layers[b.head.count as usize - 1];
        let blocks = (self.size.read(self.network.reads) as u32).div_ceil(PLAIN).max(1);
        launch!(
            self.stream,
            self.program,
            "count_labels",
            (blocks, 1, 1),
            (PLAIN, 1, 1),
            0,
            b.batch,
            b.labels,
            b.class_counts
        )?;
        launch!(
            self.stream,
            self.program,
            "loss",
            (blocks, 1, 1),
            (PLAIN, 1, 1),
            0,
            b.batch,
            b.labels,
            b.class_counts,
            last.out,
            if train { last.dout } else { 0 },
            b.outputs,
            b.losses,
            b.partial,
            b.tickets
        )
    }

    fn backward(&self, b: &Buffers) -> Result<()> {
        let Self { stream, program, shared, network, .. } = self;
        launch!(stream, program, "head_backward", self.head_grid(), (128, 1, 1), shared.head, b.batch, b.head)?;
        self.weigh(b, b.head_jobs, b.head_units)?;
        let width = source_width(network);
        let on_edges = network.reads == HeadInput::Edges;
        let rows = if on_edges { self.size.edges } else { self.size.nodes };
        let spread = match network.reads {
            HeadInput::Graphs(readout) => Some((0, readout_number(readout))),
            HeadInput::Pairs => Some((3, 0)),
            // Products are refused before.
            HeadInput::Nodes | HeadInput::Edges | HeadInput::Products => None,
        };
        if let Some((reads, readout)) = spread {
            let (dinput, largest, width) = (b.head.dinput, b.largest, width as i32);
            let of = abi::Spread { dinput, largest, width, reads, readout, ..Default::default() };
            let grid = (rows.clamp(1, 1 << 16) as u32, 1, 1);
            launch!(stream, program, "spread", grid, (128, 1, 1), 0, b.batch, of, b.dsource)?;
        }
        match LayerKind::of(network) {
            LayerKind::Attention => self.layers_backward(b)?,
            _ => self.messages_backward(b)?,
        }
        let ready = stream.record_event(None)?;
        self.side.wait(&ready)?;
        if b.sites.1 > 0 {
            let grid = (b.sites.1 as u32, 1, 1);
            launch!(self.side, program, "settle_gradients", grid, self.threads(), 0, b.batch, b.sites.0)?;
        }
        self.input_backward(b)?;
        // The side stream has done everything before, the head's weights included.
        stream.wait(&self.side.record_event(None)?)?;
        Ok(())
    }

    /// The backward pass through all layers, from the gradient of the rows that the head read.
    fn layers_backward(&self, b: &Buffers) -> Result<()> {
        let Self { stream, program, shared, network, .. } = self;
        let shape = program.shape;
        let width = source_width(network);
        let on_edges = network.reads == HeadInput::Edges;
        let Some(last) = b.layers.last() else { return Ok(()) };
        let column = if network.jump == Jump::Concat { (network.layers - 1) * shape.d } else { 0 };
        let dsource = at::<f32>(b.dsource, column);
        let enter = |half: abi::Half, edges: bool, rows: usize, dsource: abi::Pointer| {
            let grid = (self.tiles(rows), 1, 1);
            launch!(
                stream,
                program,
                "enter_backward",
                grid,
                self.threads(),
                shared.read,
                b.batch,
                half,
                i32::from(edges),
                dsource,
                width as i32
            )
        };
        // Where the head reads edges, no gradient reaches the last layer's nodes.
        enter(last.streams.node, false, self.size.nodes, if on_edges { 0 } else { dsource })?;
        if on_edges {
            enter(last.streams.edge, true, self.size.edges, dsource)?;
        }
        self.merge(b, [last.streams.node.norm2, last.streams.edge.norm2], true)?;
        let mut done: Vec<CudaEvent> = Vec::new();
        for (index, layer) in b.layers.iter().enumerate().rev() {
            // The set of gradients that this layer writes is still read by the weights of the layer
            // two above.
            if let Some(event) = done.iter().rev().nth(1) {
                stream.wait(event)?;
            }
            let edges = index + 1 < b.layers.len() || network.last_edges_read();
            self.layer_backward(b, layer, edges, index == 0)?;
            done.push(self.weigh(b, layer.jobs, layer.units)?);
        }
        Ok(())
    }

    fn layer_backward(&self, b: &Buffers, layer: &Layer, edges: bool, first: bool) -> Result<()> {
        let Self { stream, program, shared, .. } = self;
        let blocks = (self.size.nodes as u32).div_ceil(4).max(1);
        let (streams, grid) = (self.streams(layer, edges), self.grid(edges));
        launch!(stream, program, "feed_backward", grid, self.threads(), shared.pair, b.batch, streams)?;
        self.merge(b, [streams.node.norm1, streams.edge.norm1], true)?;
        launch!(stream, program, "join_backward", grid, self.threads(), shared.pair, b.batch, streams)?;
        let attention = layer.attention;
        launch!(stream, program, "attend_backward", (2 * blocks, 1, 1), (128, 1, 1), 0, b.batch, attention)?;
        let (all, grid, first) = (self.streams(layer, true), self.grid(true), i32::from(first));
        launch!(stream, program, "project_backward", grid, self.threads(), shared.pair, b.batch, all, first)?;
        self.merge(b, [streams.node.input, streams.edge.input], true)
    }

    /// Takes weight gradients on the second stream, after everything so far on the first.
    fn weigh(&self, b: &Buffers, jobs: abi::Jobs, units: usize) -> Result<CudaEvent> {
        let ready = self.stream.record_event(None)?;
        self.side.wait(&ready)?;
        let side = self.program.shape.unit as u32;
        let threads = side * side / 16;
        launch!(
            self.side,
            self.program,
            "weigh_gradients",
            (units as u32, 1, 1),
            (threads, 1, 1),
            self.shared.weigh,
            b.batch,
            jobs
        )?;
        Ok(self.side.record_event(None)?)
    }

    fn input_backward(&self, b: &Buffers) -> Result<()> {
        let (threshold, scale) = input_dropout(&self.network);
        let [node, edge] = b.dembedded();
        let streams = [(b.input.node, node), (b.input.edge, edge)];
        for ((edges, (input, g)), (list, entries)) in (0i32..).zip(streams).zip(b.input.gradients) {
            if entries > 0 {
                // Nodes and edges have nothing to do with each other.
                let stream = if edges == 1 { &self.side } else { &self.stream };
                launch!(
                    stream,
                    self.program,
                    "embed_backward",
                    (entries as u32, self.program.shape.chunks as u32, self.program.shape.d.div_ceil(32) as u32),
                    (32, INPUT_SLICES, 1),
                    0,
                    b.batch,
                    input,
                    list,
                    edges,
                    g,
                    b.flat.size,
                    self.program.shape.chunks as i32,
                    threshold,
                    scale
                )?;
            }
        }
        Ok(())
    }

    fn optimise(&self, b: &Buffers) -> Result<()> {
        let flat = b.flat;
        let blocks = |each: u32| ((flat.size as u32).div_ceil(PLAIN * each), 1, 1);
        launch!(
            self.stream,
            self.program,
            "gather_gradients",
            blocks(4),
            (PLAIN, 1, 1),
            0,
            b.batch,
            flat.chunks,
            self.program.shape.chunks as i32,
            flat.size,
            flat.size as i32,
            flat.gradient,
            b.partial,
            at::<u32>(b.tickets, 1)
        )?;
        launch!(
            self.stream,
            self.program,
            "adam",
            blocks(1),
            (PLAIN, 1, 1),
            0,
            b.batch,
            flat.size as i32,
            flat.idle.0 as i32,
            flat.idle.1 as i32,
            flat.gradient,
            flat.first,
            flat.second,
            flat.values,
            flat.forward,
            flat.backward,
            flat.places
        )
    }

    /// Brings the copies up to date, after parameters were set.
    pub(crate) fn copy_all(&self, b: &Buffers) -> Result<()> {
        let flat = b.flat;
        let blocks = ((flat.size as u32).div_ceil(PLAIN), 1, 1);
        launch!(
            self.stream,
            self.program,
            "copy_all",
            blocks,
            (PLAIN, 1, 1),
            0,
            flat.size as i32,
            flat.values,
            flat.forward,
            flat.backward,
            flat.places
        )
    }

    /// Statistics of inference.
    pub(crate) fn use_running(&self, b: &Buffers) -> Result<()> {
        if self.network.norm != Norm::Batch {
            return Ok(());
        }
        launch!(self.stream, self.program, "use_running", (b.sites.1 as u32, 1, 1), (128, 1, 1), 0, b.sites.0)
    }
}

fn readout_number(readout: Readout) -> i32 {
    match readout {
        Readout::Mean => 0,
        Readout::Sum => 1,
        Readout::Max => 2,
    }
}

/// Threshold and scale of dropout on embedded features.
fn input_dropout(network: &Network) -> (u32, f32) {
    ((network.input_dropout * 65_536.0).round() as u32, (1.0 / (1.0 - network.input_dropout)) as f32)
}
