//! Everything in GPU memory for one network: flat arrays of parameters, buffers for the largest
//! batch, and the kernels' structures that point into them.

mod message;

use std::sync::Arc;

use cudarc::driver::CudaStream;

use super::abi::{self, Pointer};
use super::device::Precision;
use super::engine::CudaTask;
use super::error::{CpuOnly, OnGpu, Result};
use super::kind::LayerKind;
use super::memory::{Memory, at};
use super::packing::places;
use super::program::{Program, Shape};
use super::resident::{ResidentData, Size};
use crate::AttentionScope;
use crate::layers::AttentionRegions;
use crate::network::{HeadInput, Input, Jump, Network, Norm, Readout};
use crate::parameters::{Affine, InputRegions, Parameters, Region};
use crate::stream::Stream;

pub(crate) use message::MessageLayer;

/// Tiles whose results every block of the next kernel still merges by itself; with more of them,
/// groups are merged in between.
const MOST_ITEMS: usize = 192;
/// Number of groups whose results are merged in between.
const GROUPS: usize = 64;

/// Arrays as long as the parameters, and the run's state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flat {
    pub(crate) size: usize,
    pub(crate) control: Pointer,
    pub(crate) values: Pointer,
    /// Copies for products: rounded and packed.
    pub(crate) forward: Pointer,
    /// Transposes for products: rounded and packed.
    pub(crate) backward: Pointer,
    pub(crate) gradient: Pointer,
    /// As many partial gradients as the program's shape says, `[.., size]`.
    pub(crate) chunks: Pointer,
    pub(crate) first: Pointer,
    pub(crate) second: Pointer,
    /// Where each entry's copies lie: two places each.
    pub(crate) places: Pointer,
    /// Running mean and variance of each site.
    pub(crate) running: Pointer,
    pub(crate) sites: usize,
    /// Parameters that no gradient reaches.
    pub(crate) idle: (usize, usize),
}

impl Flat {
    /// Where the number of steps lies.
    pub(crate) fn steps(&self) -> Pointer {
        self.control + std::mem::offset_of!(abi::Control, steps) as Pointer
    }
}

/// The inputs of both streams.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inputs {
    pub(crate) node: abi::Input,
    pub(crate) edge: abi::Input,
    /// Destinations of the inputs' gradients, per stream: a list on the device, and the number of
    /// its entries.
    pub(crate) gradients: [(Pointer, usize); 2],
}

/// A layer's structures.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Layer {
    pub(crate) streams: abi::Streams,
    pub(crate) attention: abi::Attention,
    pub(crate) jobs: abi::Jobs,
    /// Blocks of its weight gradients.
    pub(crate) units: usize,
}

/// Buffers of one network.
#[derive(Debug)]
pub(crate) struct Buffers {
    pub(crate) memory: Memory,
    pub(crate) capacity: Size,
    pub(crate) flat: Flat,
    pub(crate) data: Arc<ResidentData>,
    pub(crate) batch: abi::Batch,
    pub(crate) input: Inputs,
    /// Input of the first layer.
    pub(crate) embedded: [Pointer; 2],
    pub(crate) layers: Vec<Layer>,
    /// Layers of other kinds than attention; `layers` is then empty.
    pub(crate) messages: Vec<MessageLayer>,
    /// All normalisations, on the device, and how many.
    pub(crate) sites: (Pointer, usize),
    pub(crate) head: abi::Head,
    pub(crate) head_jobs: abi::Jobs,
    pub(crate) head_units: usize,
    pub(crate) source: Pointer,
    pub(crate) dsource: Pointer,
    pub(crate) largest: Pointer,
    pub(crate) labels: Pointer,
    pub(crate) class_counts: Pointer,
    pub(crate) outputs: Pointer,
    pub(crate) losses: Pointer,
    /// Sums of blocks, and tickets.
    pub(crate) partial: Pointer,
    pub(crate) tickets: Pointer,
}

impl Buffers {
    pub(crate) fn new(
        stream: &Arc<CudaStream>,
        program: &Program,
        data: &Arc<ResidentData>,
        task: &CudaTask,
    ) -> Result<Self> {
        let network = &task.network;
        let layout = Parameters::new(network);
        let capacity = data.capacity(task.batch);
        if capacity.nodes.max(capacity.edges) > i32::MAX as usize {
            return Err(CpuOnly::BatchSize.into());
        }
        let mut memory = Memory::new(stream, OnGpu::Network);
        let flat = flat(&mut memory, network, &layout, task.precision, program.shape)?;
        let rows = capacity.read(network.reads);
        let batch = batch(&mut memory, &flat, capacity, task.listed)?;
        let input = inputs(&mut memory, network, &layout, &flat, data, task)?;
        let d = program.shape.d;
        let edges = if network.edge_stream { capacity.edges } else { 0 };
        let embedded = [memory.zeros::<f32>(capacity.nodes * d)?, memory.zeros::<f32>(edges * d)?];
        let mut buffers = Self {
            capacity,
            flat,
            data: Arc::clone(data),
            batch,
            input,
            embedded,
            layers: Vec::new(),
            messages: Vec::new(),
            sites: (0, 0),
            head: abi::Head::default(),
            head_jobs: abi::Jobs::default(),
            head_units: 0,
            source: 0,
            dsource: 0,
            largest: 0,
            labels: memory.zeros::<abi::Labels>(1)?,
            class_counts: memory.zeros::<u32>(network.outputs().max(1))?,
            outputs: memory.zeros::<f32>(task.rows * network.outputs())?,
            losses: memory.zeros::<f64>(task.listed.div_ceil(task.batch.max(1)) + 1)?,
            partial: memory.zeros::<f64>(rows.div_ceil(256).max(flat.size.div_ceil(256)) + 1)?,
            tickets: memory.zeros::<u32>(2)?,
            memory,
        };
        buffers.head(network, &layout, program.shape)?;
        match LayerKind::of(network) {
            LayerKind::Attention => buffers.layers(network, &layout, program.shape)?,
            _ => buffers.messages(network, &layout, program.shape)?,
        }
        Ok(buffers)
    }

    /// Gradients of the embedded nodes and edges, after the backward pass.
    pub(crate) fn dembedded(&self) -> [Pointer; 2] {
        let of_layers = self.layers.first().map(|layer| [layer.streams.node.dout, layer.streams.edge.dout]);
        let of_messages = self.messages.first().map(|layer| [layer.message.node.g, layer.message.edge.g]);
        of_layers.or(of_messages).unwrap_or_default()
    }

    /// Chunk 0 of a region's gradient.
    fn gradient(&self, region: Region) -> Pointer {
        at::<f32>(self.flat.chunks, region.offset)
    }

    /// A linear layer of the streams.
    fn linear(&self, affine: Affine) -> abi::Linear {
        abi::Linear { weight: at::<f32>(self.flat.forward, affine.weight.offset), ..linear(&self.flat, affine) }
    }

    fn head(&mut self, network: &Network, layout: &Parameters, shape: Shape) -> Result<()> {
        let (d, rows) = (shape.d, self.capacity.read(network.reads));
        let source_width = crate::cpu::source_width(network);
        let sources = if network.reads == HeadInput::Edges { self.capacity.edges } else { self.capacity.nodes };
        self.source = self.memory.zeros::<f32>(sources * source_width)?;
        self.dsource = self.memory.zeros::<f32>(sources * source_width)?;
        let joined = network.head_streams() * d;
        let (input, dinput) = match network.reads {
            HeadInput::Nodes | HeadInput::Edges => (self.source, self.dsource),
            HeadInput::Graphs(_) | HeadInput::Pairs | HeadInput::Products => {
                (self.memory.zeros::<f32>(rows * joined)?, self.memory.zeros::<f32>(rows * joined)?)
            }
        };
        if network.reads == HeadInput::Graphs(Readout::Max) {
            self.largest = self.memory.zeros::<i32>(rows * source_width)?;
        }
        let mut head = abi::Head { input, dinput, count: layout.head.len() as i32, ..Default::default() };
        let mut jobs = Vec::new();
        let (mut a, mut widest) = (input, joined);
        for (layer, &affine) in head.layers.iter_mut().zip(&layout.head) {
            let (inner, width) = (affine.weight.rows, affine.weight.columns);
            let [out, dout] = [(); 2].map(|()| self.memory.zeros::<f32>(rows * width));
            *layer = abi::HeadLayer {
                linear: linear(&self.flat, affine),
                out: out?,
                dout: dout?,
                inner: inner as i32,
                width: width as i32,
            };
            widest = widest.max(width);
            jobs.push(self.job(a, layer.dout, affine.weight, Some(affine.bias), abi::Site::default(), 2));
            a = layer.out;
        }
        head.widest = widest as i32;
        self.head = head;
        (self.head_jobs, self.head_units) = self.list(&jobs, shape);
        Ok(())
    }

    fn job(
        &self,
        a: Pointer,
        g: Pointer,
        weight: Region,
        bias: Option<Region>,
        site: abi::Site,
        rows: i32,
    ) -> abi::Job {
        abi::Job {
            a,
            g,
            weight: self.gradient(weight),
            bias: bias.map_or(0, |bias| self.gradient(bias)),
            site,
            k: weight.rows as i32,
            n: weight.columns as i32,
            rows,
            ..Default::default()
        }
    }

    /// Numbers the blocks of weight gradients.
    fn list(&self, jobs: &[abi::Job], shape: Shape) -> (abi::Jobs, usize) {
        let mut list = abi::Jobs { count: jobs.len() as i32, stride: self.flat.size, ..Default::default() };
        list.list[..jobs.len()].copy_from_slice(jobs);
        let mut units = 0;
        for job in &mut list.list[..jobs.len()] {
            job.first = units as i32;
            let chunks = if job.rows == 0 { shape.node_chunks } else { shape.chunks };
            job.chunks = chunks as i32;
            units += (job.k as usize).div_ceil(shape.unit) * (job.n as usize).div_ceil(shape.unit) * chunks;
        }
        (list, units)
    }

    fn layers(&mut self, network: &Network, layout: &Parameters, shape: Shape) -> Result<()> {
        let d = shape.d;
        let Size { nodes, edges, .. } = self.capacity;
        let edges = if network.edge_stream { edges } else { 0 };
        // Gradients between layers; weight gradients of one layer are taken while the next is under
        // way, so two sets change places.
        let douts = [self.memory.zeros::<f32>(nodes * d)?, self.memory.zeros::<f32>(edges * d)?];
        let mut back = Vec::new();
        for _ in 0..2 {
            back.push([
                Back::new(&mut self.memory, nodes, 3 * d, shape)?,
                Back::new(&mut self.memory, edges, d, shape)?,
            ]);
        }
        let delta = self.memory.zeros::<f32>(nodes * shape.heads)?;
        let mut x = self.embedded;
        let mut inputs = [abi::Site::default(); 2];
        let mut sites = Vec::new();
        let streams = if network.edge_stream { 2 } else { 1 };
        let source_width = crate::cpu::source_width(network);
        for index in 0..network.layers {
            let regions = &layout.layers[index];
            let reads_edges = index + 1 < network.layers || network.last_edges_read();
            let mut halves = [abi::Half::default(); 2];
            for (which, (half, stream)) in halves.iter_mut().zip([Stream::Node, Stream::Edge]).enumerate() {
                let rows = if stream == Stream::Node { nodes } else { edges };
                if stream == Stream::Edge && !network.edge_stream {
                    continue;
                }
                let own = AttentionRegions::from(&regions.branches[0]);
                let projection = if stream == Stream::Node { own.qkv } else { own.projection };
                let feed_forward = regions.feed_forward.of(stream);
                let mut numbered = [abi::Site::default(); 2];
                if network.norm != Norm::None {
                    for (number, site) in numbered.iter_mut().enumerate() {
                        // The order in which engines hold running statistics: layer, number,
                        // stream.
                        let place = (2 * index + number) * streams + which;
                        let place = (network.norm == Norm::Batch).then_some(place);
                        *site = self.site(regions.norm(number, stream), shape, (stream, rows), place)?;
                        sites.push(*site);
                    }
                }
                let normal = if network.norm == Norm::Layer { rows * d } else { 0 };
                let back = &back[index % 2][which];
                *half = abi::Half {
                    x: x[which],
                    projected: self.memory.zeros::<f32>(rows * if stream == Stream::Node { 3 * d } else { d })?,
                    attended: self.memory.zeros::<f32>(rows * d)?,
                    middle: self.memory.zeros::<f32>(rows * d)?,
                    hidden: self.memory.zeros::<f32>(rows * shape.hidden)?,
                    passed: self.memory.zeros::<u32>(rows.div_ceil(shape.rows).max(1) * shape.threads() as usize)?,
                    out: self.memory.zeros::<f32>(rows * d)?,
                    normal_in: self.memory.zeros::<f32>(normal)?,
                    normal_middle: self.memory.zeros::<f32>(normal)?,
                    dout: douts[which],
                    dout_raw: back.dout_raw,
                    dhidden: back.dhidden,
                    dmiddle: back.dmiddle,
                    dmiddle_raw: if stream == Stream::Edge && !reads_edges { 0 } else { back.dmiddle_raw },
                    dattended: back.dattended,
                    dprojected: back.dprojected,
                    delta,
                    projection: self.linear(Affine { weight: projection, ..Default::default() }),
                    output: self.linear(*own.output.of(stream)),
                    first: self.linear(feed_forward.first),
                    second: self.linear(feed_forward.second),
                    input: inputs[which],
                    norm1: numbered[0],
                    norm2: numbered[1],
                    dropped_attended: 1 + 4 * index as u32 + which as u32,
                    dropped_hidden: 1 + 4 * index as u32 + 2 + which as u32,
                    ..Default::default()
                };
                // What the head reads of the layer below comes back on top of what this layer
                // gives.
                let own = if network.reads == HeadInput::Edges { Stream::Edge } else { Stream::Node };
                if index > 0 && network.jump != Jump::Last && stream == own {
                    let column = if network.jump == Jump::Concat { (index - 1) * d } else { 0 };
                    half.jump = at::<f32>(self.dsource, column);
                    half.jump_stride = source_width as i32;
                }
            }
            let layer = self.layer(network, regions, halves, reads_edges, shape, index)?;
            self.layers.push(layer);
            x = halves.map(|half| half.out);
            inputs = halves.map(|half| half.norm2);
        }
        self.sites = (self.memory.with(&sites)?, sites.len());
        Ok(())
    }

    /// A normalisation of a stream's rows; `place` is the number of its running statistics, where
    /// it keeps any.
    fn site(
        &mut self,
        affine: Affine,
        shape: Shape,
        (stream, rows): (Stream, usize),
        place: Option<usize>,
    ) -> Result<abi::Site> {
        let d = shape.d;
        let tiles = rows.div_ceil(shape.rows).max(1);
        let group = if tiles > MOST_ITEMS && place.is_some() { tiles.div_ceil(GROUPS) } else { 1 };
        let items = tiles + if group > 1 { tiles.div_ceil(group) } else { 0 };
        Ok(abi::Site {
            gamma: at::<f32>(self.flat.values, affine.weight.offset),
            beta: at::<f32>(self.flat.values, affine.bias.offset),
            dgamma: self.gradient(affine.weight),
            dbeta: self.gradient(affine.bias),
            running: place.map_or(0, |place| at::<f32>(self.flat.running, place * 2 * d)),
            stats: if place.is_some() { self.memory.zeros::<f32>(6 * d)? } else { 0 },
            moments: if place.is_some() { self.memory.zeros::<f32>(items * 2 * d)? } else { 0 },
            sums: self.memory.zeros::<f32>(items * 2 * d)?,
            ticket: self.memory.zeros::<u32>(1)?,
            tiles: tiles as i32,
            group: group as i32,
            edges: i32::from(stream == Stream::Edge),
            ..Default::default()
        })
    }

    fn layer(
        &mut self,
        network: &Network,
        regions: &crate::parameters::Layer,
        [node, edge]: [abi::Half; 2],
        reads_edges: bool,
        shape: Shape,
        index: usize,
    ) -> Result<Layer> {
        let threshold = (network.dropout * 65_536.0).round() as u32;
        let scale = (1.0 / (1.0 - network.dropout)) as f32;
        let attention = abi::Attention {
            qkv: node.projected,
            p: edge.projected,
            attended: node.attended,
            scores: edge.attended,
            inverse: self.memory.zeros::<f32>(self.capacity.nodes * shape.heads)?,
            dattended: node.dattended,
            dscores: if reads_edges { edge.dattended } else { 0 },
            delta: node.delta,
            dqkv: node.dprojected,
            dp: edge.dprojected,
            node_site: node.dropped_attended,
            edge_site: edge.dropped_attended,
            threshold,
            scale,
        };
        let layered = network.norm == Norm::Layer;
        let mut jobs = Vec::new();
        let own = AttentionRegions::from(&regions.branches[0]);
        for (half, output, feed_forward, projection, rows) in [
            (&node, own.output.node, &regions.feed_forward.node, own.qkv, 0),
            (&edge, own.output.edge, &regions.feed_forward.edge, own.projection, 1),
        ] {
            if rows == 1 && !network.edge_stream {
                continue;
            }
            // The first layer's input is not normalised.
            let (x, input) =
                if layered && index > 0 { (half.normal_in, abi::Site::default()) } else { (half.x, half.input) };
            let (middle, norm1) =
                if layered { (half.normal_middle, abi::Site::default()) } else { (half.middle, half.norm1) };
            jobs.push(self.job(x, half.dprojected, projection, None, input, rows));
            if rows == 0 || reads_edges {
                let (first, second) = (feed_forward.first, feed_forward.second);
                let plain = abi::Site::default();
                jobs.push(self.job(half.attended, half.dmiddle_raw, output.weight, Some(output.bias), plain, rows));
                jobs.push(self.job(middle, half.dhidden, first.weight, Some(first.bias), norm1, rows));
                jobs.push(self.job(half.hidden, half.dout_raw, second.weight, Some(second.bias), plain, rows));
            }
        }
        let (jobs, units) = self.list(&jobs, shape);
        let streams = abi::Streams { node, edge, threshold, scale, ..Default::default() };
        Ok(Layer { streams, attention, jobs, units })
    }
}

/// Gradients of one stream inside a layer.
#[derive(Clone, Copy, Debug)]
struct Back {
    dout_raw: Pointer,
    dhidden: Pointer,
    dmiddle: Pointer,
    dmiddle_raw: Pointer,
    dattended: Pointer,
    dprojected: Pointer,
}

impl Back {
    fn new(memory: &mut Memory, rows: usize, projected: usize, shape: Shape) -> Result<Self> {
        Ok(Self {
            dout_raw: memory.zeros::<f32>(rows * shape.d)?,
            dhidden: memory.zeros::<f32>(rows * shape.hidden)?,
            dmiddle: memory.zeros::<f32>(rows * shape.d)?,
            dmiddle_raw: memory.zeros::<f32>(rows * shape.d)?,
            dattended: memory.zeros::<f32>(rows * shape.d)?,
            dprojected: memory.zeros::<f32>(rows * projected)?,
        })
    }
}

/// A linear layer whose products are exact.
fn linear(flat: &Flat, affine: Affine) -> abi::Linear {
    abi::Linear {
        weight: at::<f32>(flat.values, affine.weight.offset),
        transposed: at::<f32>(flat.backward, affine.weight.offset),
        bias: if affine.bias.columns > 0 { at::<f32>(flat.values, affine.bias.offset) } else { 0 },
    }
}

fn flat(
    memory: &mut Memory,
    network: &Network,
    layout: &Parameters,
    precision: Precision,
    shape: Shape,
) -> Result<Flat> {
    let size = layout.size();
    let streams = if network.edge_stream { 2 } else { 1 };
    let sites = if network.norm == Norm::Batch { 2 * streams * network.layers } else { 0 };
    let idle = layout.idle(network);
    // In f32 what rounding to TF32 leaves is kept too.
    let copies = if precision == Precision::F32 { 2 } else { 1 };
    Ok(Flat {
        size,
        control: memory.zeros::<abi::Control>(1)?,
        values: memory.zeros::<f32>(size)?,
        forward: memory.zeros::<f32>(copies * size)?,
        backward: memory.zeros::<f32>(copies * size)?,
        gradient: memory.zeros::<f32>(size)?,
        chunks: memory.zeros::<f32>(shape.chunks * size)?,
        first: memory.zeros::<f32>(size)?,
        second: memory.zeros::<f32>(size)?,
        places: memory.with(&places(layout, network.channels.padded_width(), precision))?,
        running: memory.zeros::<f32>(sites * 2 * network.channels.padded_width())?,
        sites,
        idle: (idle.start, idle.end),
    })
}

fn batch(memory: &mut Memory, flat: &Flat, capacity: Size, listed: usize) -> Result<abi::Batch> {
    let Size { graphs, nodes, edges } = capacity;
    Ok(abi::Batch {
        control: flat.control,
        order: memory.zeros::<u32>(listed.max(1))?,
        graph_id: memory.zeros::<i32>(graphs + 1)?,
        node_start: memory.zeros::<i32>(graphs + 1)?,
        edge_start: memory.zeros::<i32>(graphs + 1)?,
        node_graph: memory.zeros::<i32>(nodes)?,
        node_row: memory.zeros::<i32>(nodes)?,
        edge_row: memory.zeros::<i32>(edges)?,
        in_start: memory.zeros::<i32>(nodes + 5)?,
        source: memory.zeros::<i32>(edges)?,
        target: memory.zeros::<i32>(edges)?,
        out_start: memory.zeros::<i32>(nodes + 5)?,
        out_edge: memory.zeros::<i32>(edges)?,
        out_target: memory.zeros::<i32>(edges)?,
    })
}

fn inputs(
    memory: &mut Memory,
    network: &Network,
    layout: &Parameters,
    flat: &Flat,
    data: &ResidentData,
    task: &CudaTask,
) -> Result<Inputs> {
    let batches = task.listed.div_ceil(task.batch.max(1));
    let signs = network.node.laplacian * if task.signs_per_graph { task.listed } else { batches };
    let node = abi::Input {
        signs: memory.zeros::<f32>(signs)?,
        signs_per_graph: i32::from(task.signs_per_graph),
        ..Default::default()
    };
    let (node, node_gradients) = input(node, &network.node, &layout.node, &data.node, flat);
    let edge = abi::Input { zero_features: i32::from(data.edges == AttentionScope::Full), ..Default::default() };
    let (edge, edge_gradients) = match network.edge_stream {
        true => input(edge, &network.edge, &layout.edge, &data.edge, flat),
        false => (edge, Vec::new()),
    };
    let mut list = |gradients: Vec<abi::InputGradient>| -> Result<(Pointer, usize)> {
        let entries = gradients.iter().map(|gradient| gradient.entries as usize).sum();
        Ok((memory.with(&gradients)?, entries))
    };
    let gradients = [list(node_gradients)?, list(edge_gradients)?];
    Ok(Inputs { node, edge, gradients })
}

fn input(
    base: abi::Input,
    input: &Input,
    regions: &InputRegions,
    features: &super::resident::Features,
    flat: &Flat,
) -> (abi::Input, Vec<abi::InputGradient>) {
    let value = |region: Region| at::<f32>(flat.values, region.offset);
    let gradient = |region: Region| at::<f32>(flat.chunks, region.offset);
    let affine = |affine: Option<Affine>| affine.map_or_else(Default::default, |affine| linear(flat, affine));
    let linear_width = if input.constant { 1 } else { input.continuous };
    let mut of = abi::Input {
        categorical: features.categorical,
        linear: features.linear,
        hot_start: features.hot_start,
        hot: features.hot,
        laplacian: features.laplacian,
        walk: features.walk,
        roles: features.roles,
        of_linear: affine(regions.linear),
        of_laplacian: affine(regions.laplacian),
        of_walk: affine(regions.random_walk),
        words: regions.multi_hot.map_or(0, value),
        role_table: regions.roles.map_or(0, value),
        bias: regions.bias.map_or(0, value),
        columns: input.categorical.len() as i32,
        linear_width: linear_width as i32,
        laplacian_width: input.laplacian as i32,
        walk_width: input.random_walk as i32,
        role_count: input.roles.unwrap_or(0) as i32,
        ..base
    };
    let mut gradients = Vec::new();
    for (column, region) in regions.embeddings.iter().enumerate() {
        of.embedding[column] = value(*region);
        let column = column as i32;
        gradients.push(abi::InputGradient {
            kind: 0,
            column,
            entries: region.rows as i32,
            weight: gradient(*region),
            ..Default::default()
        });
    }
    let tables = [(1, regions.multi_hot), (2, regions.roles)];
    for (kind, region) in tables.into_iter().filter_map(|(kind, region)| region.map(|region| (kind, region))) {
        gradients.push(abi::InputGradient {
            kind,
            entries: region.rows as i32,
            weight: gradient(region),
            ..Default::default()
        });
    }
    let affines = [(3, regions.linear), (4, regions.laplacian), (5, regions.random_walk)];
    for (kind, affine) in affines.into_iter().filter_map(|(kind, affine)| affine.map(|affine| (kind, affine))) {
        let (weight, bias) = (gradient(affine.weight), gradient(affine.bias));
        // The engine pads the matrix's rows; the data has fewer.
        let entries = match kind {
            3 => of.linear_width,
            4 => of.laplacian_width,
            _ => of.walk_width,
        };
        gradients.push(abi::InputGradient { kind, entries, weight, bias, ..Default::default() });
    }
    if let Some(bias) = regions.bias {
        let (kind, entries, bias) = (6, 1, gradient(bias));
        gradients.push(abi::InputGradient { kind, entries, bias, ..Default::default() });
    }
    (of, gradients)
}
