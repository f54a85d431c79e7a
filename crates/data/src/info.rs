//! Statistics of a data set: sizes, degrees, targets, vocabularies and oddities.

use std::collections::BTreeMap;

use gt_graph::{GraphStore, Level, TargetKind};
use serde::Serialize;

use crate::dataset::{Dataset, Splits};
use gt_graph::{FeatureSchema, Schema, TargetSchema, Vocabulary};

/// Statistics of a data set. `gt data info --json` prints this struct as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Info {
    /// Statistics per part in the order of the file; one part `all` if graphs are not split.
    #[serde(serialize_with = "in_order")]
    pub splits: Vec<(String, PartInfo)>,
    /// Level at which the data is split, if it is.
    pub split_level: Option<Level>,
    /// Vocabulary sizes of the nodes' categorical columns.
    pub node_vocab: Vec<usize>,
    /// Vocabulary sizes of the edges' categorical columns.
    pub edge_vocab: Vec<usize>,
    /// Features on nodes: names and sizes.
    pub node_features: FeatureSchema,
    /// Features on edges: names and sizes.
    pub edge_features: FeatureSchema,
    /// Count of each category in each node column; empty for columns with more than
    /// [`Info::MOST_COUNTED`] categories.
    pub node_categories: Vec<Vec<u64>>,
    /// Count of each category in each edge column; empty for columns with more than
    /// [`Info::MOST_COUNTED`] categories.
    pub edge_categories: Vec<Vec<u64>>,
    /// Level, kind and columns of the targets.
    pub target: Option<TargetSchema>,
    /// Width of each encoding present: `lap_pe`, `rw_pe`, `wl_pe` (number of roles).
    pub encodings: BTreeMap<&'static str, usize>,
    /// Names of the carried columns.
    pub extras: Vec<String>,
    /// Bytes of memory of the graphs.
    pub memory_bytes: usize,
    /// Content hash: equal for equal graphs, whatever the file format.
    pub content_sha256: String,
}

fn in_order<S: serde::Serializer>(parts: &[(String, PartInfo)], out: S) -> Result<S::Ok, S::Error> {
    out.collect_map(parts.iter().map(|(name, part)| (name, part)))
}

/// Statistics of one part.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PartInfo {
    /// Number of graphs.
    pub graphs: usize,
    /// Number of nodes. In a split of nodes, only nodes of the part count.
    pub nodes: usize,
    /// Number of directed edges. In a split of edges, only edges of the part count.
    pub edges: usize,
    /// Mean nodes per graph.
    pub nodes_mean: f64,
    /// Fewest nodes of a graph.
    pub nodes_min: usize,
    /// Most nodes of a graph.
    pub nodes_max: usize,
    /// Mean directed edges per graph.
    pub edges_mean: f64,
    /// Fewest edges of a graph.
    pub edges_min: usize,
    /// Most edges of a graph.
    pub edges_max: usize,
    /// Mean in-degree.
    pub degree_mean: f64,
    /// Smallest in-degree.
    pub degree_min: usize,
    /// Largest in-degree.
    pub degree_max: usize,
    /// Nodes without any edge.
    pub isolated_nodes: usize,
    /// Edges from a node to itself.
    pub self_loops: usize,
    /// Edges beyond the first between the same two nodes in the same direction.
    pub multi_edges: usize,
    /// Graphs that contain an edge whose reverse is missing.
    pub directed_graphs: usize,
    /// Statistics of each target column.
    pub targets: Vec<TargetInfo>,
    /// Graphs by number of nodes.
    pub nodes_histogram: Histogram,
}

/// Statistics of one target column (population standard deviation).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TargetInfo {
    /// Name of the column.
    pub name: String,
    /// Mean of the labels present.
    pub mean: f64,
    /// Standard deviation of the labels present.
    pub sd: f64,
    /// Smallest label.
    pub min: f64,
    /// Largest label.
    pub max: f64,
    /// Labels present.
    pub count: usize,
    /// Labels missing.
    pub missing: usize,
    /// Count of each class; empty for numbers, and for more than [`Info::MOST_COUNTED`] classes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<u64>,
    /// Distribution of numbers, and of classes that are too many to count one by one.
    #[serde(skip_serializing_if = "Histogram::is_empty")]
    pub histogram: Histogram,
}

/// Counts in bins of equal width from `min` to `max`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Histogram {
    /// Left end of the first bin.
    pub min: f64,
    /// Right end of the last bin.
    pub max: f64,
    /// Number of values in each bin.
    pub counts: Vec<u64>,
}

impl Histogram {
    const BINS: usize = 16;

    fn new(values: &[f64]) -> Self {
        let Some(min) = values.iter().copied().reduce(f64::min) else { return Self::default() };
        let max = values.iter().copied().fold(min, f64::max);
        let mut counts = vec![0; if max > min { Self::BINS } else { 1 }];
        let last = counts.len() - 1;
        for value in values {
            let at = if max > min { (value - min) / (max - min) * counts.len() as f64 } else { 0.0 };
            counts[(at as usize).min(last)] += 1;
        }
        Self { min, max, counts }
    }

    /// True when the histogram has no bins.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// One block character per bin, as high as its count.
    pub fn sparkline(&self) -> String {
        let most = self.counts.iter().copied().max().unwrap_or(0).max(1);
        let block = |&count: &u64| match (count * 8).div_ceil(most) {
            0 => ' ',
            height => char::from_u32(0x2580 + height as u32).unwrap_or('█'),
        };
        self.counts.iter().map(block).collect()
    }
}

impl Info {
    /// Most categories or classes that are counted one by one. Larger columns usually hold ids.
    pub const MOST_COUNTED: usize = 1 << 20;

    /// Computes the statistics of a data set.
    pub fn new(dataset: &Dataset) -> Self {
        let store = dataset.graphs();
        let schema = dataset.schema();
        let encodings = store.encodings();
        let mut widths = BTreeMap::new();
        if let Some(lap) = &encodings.laplacian {
            widths.insert(crate::columns::LAP_PE, lap.width);
        }
        if let Some(walk) = &encodings.random_walk {
            widths.insert(crate::columns::RW_PE, walk.width);
        }
        if let Some(roles) = &encodings.weisfeiler_lehman {
            widths.insert(crate::columns::WL_PE, roles.iter().map(|&r| r as usize + 1).max().unwrap_or(0));
        }
        Self {
            splits: PartInfo::of_all(store, schema, dataset.split()),
            split_level: dataset.split().map(|s| s.level),
            node_vocab: schema.node.vocabulary_sizes(),
            edge_vocab: schema.edge.vocabulary_sizes(),
            node_features: schema.node.clone(),
            edge_features: schema.edge.clone(),
            node_categories: categories(store, &schema.node.categorical, Level::Node),
            edge_categories: categories(store, &schema.edge.categorical, Level::Edge),
            target: schema.target.clone(),
            encodings: widths,
            extras: dataset.extras().iter().map(|extra| extra.name().to_owned()).collect(),
            memory_bytes: store.bytes(),
            content_sha256: crate::known::content_hash(store),
        }
    }
}

impl PartInfo {
    /// Statistics per part of a split, in its order; one part `all` without a split.
    pub fn of_all(store: &GraphStore, schema: &Schema, split: Option<&Splits>) -> Vec<(String, PartInfo)> {
        let all: Vec<usize> = (0..store.len()).collect();
        match split {
            None => vec![("all".into(), part(store, schema, &all, None))],
            Some(split) if split.level == Level::Graph => {
                split.names.iter().map(|name| (name.clone(), part(store, schema, &split.rows(name), None))).collect()
            }
            // Every part has all graphs. Only the labels that count differ.
            Some(split) => split
                .names
                .iter()
                .enumerate()
                .map(|(code, name)| {
                    let member = |row: usize| split.codes[row] as usize == code;
                    let mut info = part(store, schema, &all, Some((split.level, &member)));
                    let count = split.codes.iter().filter(|c| **c as usize == code).count();
                    *if split.level == Level::Node { &mut info.nodes } else { &mut info.edges } = count;
                    (name.clone(), info)
                })
                .collect(),
        }
    }
}

/// The level and rows that count.
type Member<'a> = Option<(Level, &'a dyn Fn(usize) -> bool)>;

fn part(store: &GraphStore, schema: &Schema, graphs: &[usize], member: Member<'_>) -> PartInfo {
    let mut info = PartInfo {
        graphs: graphs.len(),
        nodes_min: usize::MAX,
        edges_min: usize::MAX,
        degree_min: usize::MAX,
        ..Default::default()
    };
    let mut sizes = Vec::with_capacity(graphs.len());
    let (mut in_degree, mut touched) = (Vec::new(), Vec::new());
    for &index in graphs {
        let graph = store.graph(index);
        let (n, e) = (graph.num_nodes(), graph.num_edges());
        sizes.push(n as f64);
        info.nodes += n;
        info.edges += e;
        info.nodes_min = info.nodes_min.min(n);
        info.nodes_max = info.nodes_max.max(n);
        info.edges_min = info.edges_min.min(e);
        info.edges_max = info.edges_max.max(e);
        in_degree.clear();
        in_degree.resize(n, 0usize);
        touched.clear();
        touched.resize(n, false);
        for (&s, &d) in graph.src().iter().zip(graph.dst()) {
            in_degree[d as usize] += 1;
            touched[s as usize] = true;
            touched[d as usize] = true;
            info.self_loops += usize::from(s == d);
        }
        info.isolated_nodes += touched.iter().filter(|t| !**t).count();
        info.degree_min = in_degree.iter().copied().fold(info.degree_min, usize::min);
        info.degree_max = in_degree.iter().copied().fold(info.degree_max, usize::max);
        let (repeated, directed) = edge_oddities(graph.src(), graph.dst());
        info.multi_edges += repeated;
        info.directed_graphs += usize::from(directed);
    }
    let count = graphs.len().max(1) as f64;
    info.nodes_mean = info.nodes as f64 / count;
    info.edges_mean = info.edges as f64 / count;
    info.degree_mean = info.edges as f64 / info.nodes.max(1) as f64;
    for smallest in [&mut info.nodes_min, &mut info.edges_min, &mut info.degree_min] {
        *smallest = if *smallest == usize::MAX { 0 } else { *smallest };
    }
    info.nodes_histogram = Histogram::new(&sizes);
    info.targets = targets(store, schema, graphs, member);
    info
}

/// Number of edges that repeat an earlier edge, and whether an edge has no reverse.
fn edge_oddities(src: &[u32], dst: &[u32]) -> (usize, bool) {
    let mut edges: Vec<u64> = src.iter().zip(dst).map(|(&s, &d)| u64::from(s) << 32 | u64::from(d)).collect();
    // Edges of most files are sorted already.
    if !edges.is_sorted() {
        edges.sort_unstable();
    }
    let before = edges.len();
    edges.dedup();
    let repeated = before - edges.len();
    let directed = edges.iter().any(|&edge| edges.binary_search(&edge.rotate_left(32)).is_err());
    (repeated, directed)
}

fn targets(store: &GraphStore, schema: &Schema, graphs: &[usize], member: Member<'_>) -> Vec<TargetInfo> {
    let (Some(schema), Some(values)) = (&schema.target, store.target()) else { return Vec::new() };
    let columns = schema.columns.len();
    let member = member.filter(|(level, _)| *level == schema.level).map(|(_, member)| member);
    let rows =
        || graphs.iter().flat_map(|&g| store.row_range(schema.level, g)).filter(|&row| member.is_none_or(|m| m(row)));
    schema
        .columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let labels: Vec<f64> = rows().filter_map(|row| values.get(row * columns + at)).collect();
            let count = labels.len();
            let mean = labels.iter().sum::<f64>() / count.max(1) as f64;
            let variance = labels.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count.max(1) as f64;
            let mut info = TargetInfo {
                name: column.name.clone(),
                mean,
                sd: variance.sqrt(),
                min: labels.iter().copied().reduce(f64::min).unwrap_or(0.0),
                max: labels.iter().copied().reduce(f64::max).unwrap_or(0.0),
                count,
                missing: rows().count() - count,
                ..Default::default()
            };
            match schema.kind {
                TargetKind::Class if column.classes <= Info::MOST_COUNTED => {
                    info.classes = vec![0; column.classes];
                    labels.iter().for_each(|&label| info.classes[label as usize] += 1);
                }
                _ => info.histogram = Histogram::new(&labels),
            }
            info
        })
        .collect()
}

/// Count of each category in each column.
fn categories(store: &GraphStore, columns: &[Vocabulary], level: Level) -> Vec<Vec<u64>> {
    let counted = |v: &Vocabulary| if v.size <= Info::MOST_COUNTED { v.size } else { 0 };
    let mut counts: Vec<Vec<u64>> = columns.iter().map(|v| vec![0; counted(v)]).collect();
    for graph in store.iter() {
        let rows = if level == Level::Node { graph.node() } else { graph.edge() };
        for row in rows.categorical.chunks_exact(columns.len().max(1)) {
            let counted = row.iter().zip(&mut counts).filter_map(|(&value, counts)| counts.get_mut(value as usize));
            counted.for_each(|count| *count += 1);
        }
    }
    counts
}
