//! A data set in GPU memory, stored once; batches are lists of its graphs.

use std::sync::Arc;

use gt_graph::{FeatureRows, FullView, GraphBatch, GraphStore, Level};

use super::abi;
use super::device::CudaDevice;
use super::error::{CpuOnly, OnGpu, Result};
use super::kind::check_layers;
use super::memory::{Memory, Place};
use crate::AttentionScope;
use crate::network::{HeadInput, Input, Network};

/// Graphs whose edges are sorted at a time.
const GRAPHS_AT_ONCE: usize = 1024;

/// Features of one stream, as far as a network reads them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Features {
    pub(crate) categorical: abi::Pointer,
    pub(crate) linear: abi::Pointer,
    pub(crate) hot_start: abi::Pointer,
    pub(crate) hot: abi::Pointer,
    pub(crate) laplacian: abi::Pointer,
    pub(crate) walk: abi::Pointer,
    pub(crate) roles: abi::Pointer,
}

/// A data set on a device.
#[derive(Debug)]
pub struct ResidentData {
    memory: Memory,
    pub(crate) structure: abi::Resident,
    pub(crate) node: Features,
    pub(crate) edge: Features,
    pub(crate) edges: AttentionScope,
    /// Nodes and edges of each graph.
    node_counts: Vec<usize>,
    edge_counts: Vec<usize>,
}

/// Numbers of graphs, nodes and edges of a batch, or of the largest batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) graphs: usize,
    pub(crate) nodes: usize,
    pub(crate) edges: usize,
}

impl Size {
    /// As many graphs as a batch has, of all graphs' size on average.
    pub(crate) fn usual(nodes: usize, edges: usize, graphs: usize, batch: usize) -> Self {
        let batch = batch.min(graphs);
        let of = |all: usize| (all as u128 * batch as u128 / graphs.max(1) as u128) as usize;
        Self { graphs: batch, nodes: of(nodes), edges: of(edges) }
    }

    /// Rows that the head reads.
    pub(crate) fn read(self, reads: HeadInput) -> usize {
        match reads {
            HeadInput::Graphs(_) => self.graphs,
            HeadInput::Nodes => self.nodes,
            HeadInput::Edges | HeadInput::Pairs | HeadInput::Products => self.edges,
        }
    }

    /// Whether another batch fits into this size.
    pub(crate) fn holds(self, other: Self) -> bool {
        self.graphs >= other.graphs && self.nodes >= other.nodes && self.edges >= other.edges
    }
}

/// The part of a network that only the CPU supports: its layers, or rows of a full graph's edges,
/// which are not those of the data.
fn check(network: &Network, edges: AttentionScope) -> Result<()> {
    if edges == AttentionScope::Full && network.reads.level() == Level::Edge {
        return Err(CpuOnly::EdgesOfFullGraphs.into());
    }
    check_layers(network)?;
    Ok(())
}

impl ResidentData {
    /// Stores what a network reads of a data set in GPU memory. If that leaves too little memory
    /// for networks, or if `GT_DATA=host` is set, the data set is stored in host memory that
    /// kernels can read.
    ///
    /// # Errors
    /// If neither memory suffices.
    pub fn new(device: &CudaDevice, store: &GraphStore, network: &Network, edges: AttentionScope) -> Result<Arc<Self>> {
        let stream = device.context.default_stream();
        let full = edges == AttentionScope::Full;
        check(network, edges)?;
        let graphs = store.len();
        let node_counts: Vec<usize> = (0..graphs).map(|graph| store.node_range(graph).len()).collect();
        let edge_counts: Vec<usize> = (0..graphs)
            .map(|graph| match full {
                true => FullView::count(node_counts[graph]),
                false => store.edge_range(graph).len(),
            })
            .collect();
        // Only the starts of a full graph's edges are stored, and only differences of them are
        // read.
        let total: usize = edge_counts.iter().sum();
        if store.num_nodes() > i32::MAX as usize || (!full && total > i32::MAX as usize) {
            return Err(CpuOnly::DataSize.into());
        }
        let mut lists = Lists::default();
        lists.take(store, full)?;
        let encodings = store.encodings();
        let asked = std::env::var_os("GT_DATA").is_some_and(|place| place == "host");
        let place = if asked { Place::Host } else { place(store.bytes(), device.memory()?.0) };
        let mut memory = Memory::at(&stream, OnGpu::Data, place);
        let structure = abi::Resident {
            node_start: memory.with(&starts(&node_counts))?,
            edge_start: memory.with(&starts(&edge_counts))?,
            in_start: memory.with(&lists.in_start)?,
            in_source: memory.with(&lists.in_source)?,
            out_start: memory.with(&lists.out_start)?,
            out_edge: memory.with(&lists.out_edge)?,
            out_target: memory.with(&lists.out_target)?,
        };
        let coordinates = |of: &Option<gt_graph::encoding::Coordinates>, width: usize| match of {
            Some(of) if width > 0 => of.values.clone(),
            _ => Vec::new(),
        };
        let roles = encodings.weisfeiler_lehman.as_ref().filter(|_| network.node.roles.is_some());
        let node = Features {
            laplacian: memory.with(&coordinates(&encodings.laplacian, network.node.laplacian))?,
            walk: memory.with(&coordinates(&encodings.random_walk, network.node.random_walk))?,
            roles: memory.with(roles.map_or(&[][..], |roles| roles))?,
            ..lists.node.upload(&mut memory, &network.node)?
        };
        let edge = match network.edge_stream && !full {
            true => lists.edge.upload(&mut memory, &network.edge)?,
            false => Features::default(),
        };
        stream.synchronize()?;
        Ok(Arc::new(Self { memory, structure, node, edge, edges, node_counts, edge_counts }))
    }

    /// Whether the data set is in GPU memory, not in host memory.
    pub fn is_on_gpu(&self) -> bool {
        self.memory.place() == Place::Gpu
    }

    /// Bytes on the device.
    pub fn bytes(&self) -> usize {
        if self.is_on_gpu() { self.memory.bytes() } else { 0 }
    }

    /// The largest size of a batch of so many graphs: a function of data and batch size alone.
    pub(crate) fn capacity(&self, batch: usize) -> Size {
        self.batch_of(batch, largest)
    }

    /// The usual size of a batch of so many graphs: a function of data and batch size alone.
    pub(crate) fn usual(&self, batch: usize) -> Size {
        Size::usual(self.node_counts.iter().sum(), self.edge_counts.iter().sum(), self.node_counts.len(), batch)
    }

    /// A size that fits nearly every batch of so many graphs.
    pub(crate) fn roomy(&self, batch: usize) -> Size {
        self.batch_of(batch, roomy)
    }

    fn batch_of(&self, batch: usize, rows: impl Fn(&[usize], usize) -> usize) -> Size {
        let graphs = batch.min(self.node_counts.len());
        Size { graphs, nodes: rows(&self.node_counts, graphs), edges: rows(&self.edge_counts, graphs) }
    }

    /// The size of a batch of these graphs.
    pub(crate) fn size_of(&self, graphs: &[u32]) -> Size {
        let sum = |counts: &[usize]| graphs.iter().map(|&graph| counts[graph as usize]).sum();
        Size { graphs: graphs.len(), nodes: sum(&self.node_counts), edges: sum(&self.edge_counts) }
    }
}

/// Rows of so many of the largest graphs.
fn largest(counts: &[usize], graphs: usize) -> usize {
    let mut counts = counts.to_vec();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts.iter().take(graphs).sum()
}

/// Three standard deviations above the rows of so many graphs drawn at random, or those of the
/// largest.
fn roomy(counts: &[usize], graphs: usize) -> usize {
    let all = counts.len().max(1) as f64;
    let mean = counts.iter().map(|&count| count as f64).sum::<f64>() / all;
    let variance = counts.iter().map(|&count| (count as f64 - mean).powi(2)).sum::<f64>() / all;
    let graphs_drawn = graphs as f64;
    ((graphs_drawn * mean + 3.0 * (graphs_drawn * variance).sqrt()).ceil() as usize).min(largest(counts, graphs))
}

/// The memory for a data set that takes `bytes` on the host when `free` bytes are free on the GPU.
/// On the GPU a data set takes up to twice as much, because an edge is listed at both ends. Half of
/// the GPU memory is for networks.
fn place(bytes: usize, free: usize) -> Place {
    if bytes > free / 4 { Place::Host } else { Place::Gpu }
}

/// Running starts, one more than counts. A full graph's may wrap around; only differences are read.
fn starts(counts: &[usize]) -> Vec<i32> {
    let mut start = 0i32;
    let mut starts = vec![0];
    starts.extend(counts.iter().map(|&count| {
        start = start.wrapping_add(count as i32);
        start
    }));
    starts
}

/// Feature rows of all graphs, one after the other.
#[derive(Default)]
struct Table {
    categorical: Vec<u32>,
    continuous: Vec<f32>,
    hot_start: Vec<i32>,
    hot: Vec<u32>,
}

impl Table {
    fn add(&mut self, rows: FeatureRows<'_>) {
        self.categorical.extend_from_slice(rows.categorical);
        self.continuous.extend_from_slice(rows.continuous);
        if let Some(words) = rows.multi_hot {
            if self.hot_start.is_empty() {
                self.hot_start.push(0);
            }
            let (base, first) = (self.hot.len(), words.offsets[0]);
            self.hot_start.extend(words.offsets[1..].iter().map(|&offset| (base + offset - first) as i32));
            self.hot.extend_from_slice(words.indices);
        }
    }

    fn upload(&self, memory: &mut Memory, input: &Input) -> Result<Features> {
        if self.hot.len() > i32::MAX as usize {
            return Err(CpuOnly::DataSize.into());
        }
        Ok(Features {
            categorical: memory.with(&self.categorical)?,
            linear: if input.constant { 0 } else { memory.with(&self.continuous)? },
            hot_start: memory.with(&self.hot_start)?,
            hot: memory.with(&self.hot)?,
            ..Default::default()
        })
    }
}

/// Edges sorted by target, positions relative to their graph; features in that order.
#[derive(Default)]
struct Lists {
    in_start: Vec<i32>,
    in_source: Vec<i32>,
    out_start: Vec<i32>,
    out_edge: Vec<i32>,
    out_target: Vec<i32>,
    node: Table,
    edge: Table,
}

impl Lists {
    fn take(&mut self, store: &GraphStore, full: bool) -> Result<()> {
        let mut batch = GraphBatch::new();
        let ids: Vec<usize> = (0..store.len()).collect();
        for ids in ids.chunks(GRAPHS_AT_ONCE) {
            batch.assemble(store, ids).map_err(CpuOnly::Graphs)?;
            self.node.add(batch.node());
            if full {
                continue;
            }
            self.edge.add(batch.edge());
            for graph in 0..batch.num_graphs() {
                let (nodes, edges) = (batch.nodes_of(graph), batch.edges_of(graph));
                let local = |values: &[u32], start: usize| {
                    values.iter().map(|&value| value as i32 - start as i32).collect::<Vec<_>>()
                };
                self.in_start.extend(local(&batch.in_offsets()[nodes.clone()], edges.start));
                self.out_start.extend(local(&batch.out_offsets()[nodes.clone()], edges.start));
                self.in_source.extend(local(&batch.in_src()[edges.clone()], nodes.start));
                self.out_target.extend(local(&batch.out_dst()[edges.clone()], nodes.start));
                self.out_edge.extend(local(&batch.out_to_in()[edges.clone()], edges.start));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Channels;

    #[test]
    fn nearly_every_batch_has_room_for_fewer_rows_than_the_largest_graphs_have() {
        let counts: Vec<usize> = (0..1_000).map(|graph| 10 + graph % 21).collect();
        let (room, most) = (roomy(&counts, 100), largest(&counts, 100));
        // Mean 20, deviation 6: 2,000 + 3 * 60.
        assert!((2_150..2_200).contains(&room), "{room}");
        assert!(most > 2_800, "{most}");
        let random = |batch: usize| (0..100).map(|i| counts[(batch * 7_919 + i * 104_729) % 1_000]).sum::<usize>();
        assert!((0..100).filter(|&batch| random(batch) > room).count() <= 2);
        // A batch of all graphs, and graphs that are all the same.
        assert_eq!(roomy(&counts, 1_000), counts.iter().sum());
        assert_eq!(roomy(&[7; 10], 4), 28);
        assert_eq!(roomy(&[], 0), 0);
    }

    #[test]
    fn edges_of_full_graphs_are_not_predicted() {
        let network = |reads| Network { reads, ..Network::new(Channels::new(8, 1), 1) };
        assert!(check(&network(HeadInput::Pairs), AttentionScope::Full).is_err());
        assert!(check(&network(HeadInput::Pairs), AttentionScope::Sparse).is_ok());
        assert!(check(&network(HeadInput::Nodes), AttentionScope::Full).is_ok());
    }

    #[test]
    fn data_that_leaves_no_memory_for_a_network_stays_off_the_gpu() {
        assert_eq!(place(1 << 20, 1 << 30), Place::Gpu);
        assert_eq!(place(1 << 28, 1 << 30), Place::Gpu);
        assert_eq!(place((1 << 28) + 1, 1 << 30), Place::Host);
        assert_eq!(place(1, 0), Place::Host);
    }
}
