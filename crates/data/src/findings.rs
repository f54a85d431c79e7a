//! What a data set holds as it was understood, and oddities that explain bad results. One pass over
//! the graphs.

use std::collections::HashMap;

use gt_graph::{FeatureRows, GraphRef, GraphStore, Level, Schema};

use crate::dataset::Splits;

/// Facts about a data set that its schema does not state.
///
/// ```
/// use graph_transformer_data::{Findings, SbmSet, SbmSizes};
///
/// let set = SbmSet::Cluster.generate(1, SbmSizes { train: 4, val: 1, test: 1 })?;
/// let found = Findings::new(set.graphs(), set.schema(), set.split());
/// assert_eq!((found.one_way_graphs, found.repeated.len(), found.constant.len()), (0, 0, 0));
/// assert_eq!(found.targets[0].counts.iter().sum::<usize>(), set.graphs().num_nodes());
/// # Ok::<(), graph_transformer_data::DataError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// Smallest and largest number of each continuous column: of nodes, and of edges.
    pub ranges: [Vec<(f32, f32)>; 2],
    /// Feature columns with one value in all rows.
    pub constant: Vec<(Level, String)>,
    /// Categorical columns with more than half as many values as rows, with both numbers.
    pub like_ids: Vec<(Level, String, usize, usize)>,
    /// Graphs that have an edge without its reverse.
    pub one_way_graphs: usize,
    /// Graphs of a part that are also in another part: the parts, and the number of graphs.
    pub repeated: Vec<(String, String, usize)>,
    /// Each target column.
    pub targets: Vec<TargetFindings>,
}

/// Facts about a target column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TargetFindings {
    /// Smallest and largest label; `None` without labels.
    pub range: Option<(f64, f64)>,
    /// Labels of each class; empty for numbers, and for very many classes.
    pub counts: Vec<usize>,
    /// Missing labels.
    pub missing: usize,
    /// Classes of other parts that a part has no label of. Parts without labels are left out.
    pub lacking: Vec<(String, Vec<usize>)>,
}

impl Findings {
    /// Columns with fewer rows are not compared with ids.
    const LEAST_IDS: usize = 20;
    /// Most classes that are counted.
    const MOST_CLASSES: usize = 10_000;

    /// Looks at all graphs once.
    pub fn new(graphs: &GraphStore, schema: &Schema, splits: Option<&Splits>) -> Self {
        let mut found = Self { targets: targets(graphs, schema, splits), ..Self::default() };
        for (at, level) in [Level::Node, Level::Edge].into_iter().enumerate() {
            found.look_at_features(graphs, schema, at, level);
        }
        found.one_way_graphs = graphs.iter().filter(has_one_way_edge).count();
        if let Some(splits) = splits.filter(|splits| splits.level == Level::Graph) {
            found.repeated = repeated(graphs, splits);
        }
        found
    }

    fn look_at_features(&mut self, graphs: &GraphStore, schema: &Schema, at: usize, level: Level) {
        let columns = if level == Level::Node { &schema.node } else { &schema.edge };
        let (a, b) = (columns.categorical.len(), columns.continuous.len());
        let mut first: Vec<Option<u32>> = vec![None; a];
        let mut varied = vec![false; a];
        let mut ranges = vec![(f32::INFINITY, f32::NEG_INFINITY); b];
        for graph in graphs.iter() {
            let rows: FeatureRows<'_> = if level == Level::Node { graph.node() } else { graph.edge() };
            for row in rows.categorical.chunks_exact(a.max(1)) {
                for ((value, first), varied) in row.iter().zip(&mut first).zip(&mut varied) {
                    *varied |= *first.get_or_insert(*value) != *value;
                }
            }
            for row in rows.continuous.chunks_exact(b.max(1)) {
                for (value, range) in row.iter().zip(&mut ranges) {
                    *range = (range.0.min(*value), range.1.max(*value));
                }
            }
        }
        let rows = graphs.rows(level);
        if rows > 1 {
            let same = columns.categorical.iter().zip(&varied).filter(|(_, varied)| !**varied);
            self.constant.extend(same.map(|(column, _)| (level, column.name.clone())));
            let same = columns.continuous.iter().zip(&ranges).filter(|(_, (least, most))| least == most);
            self.constant.extend(same.map(|(name, _)| (level, name.clone())));
        }
        for column in columns.categorical.iter().filter(|column| column.size >= Self::LEAST_IDS) {
            if 2 * column.size > rows {
                self.like_ids.push((level, column.name.clone(), column.size, rows));
            }
        }
        self.ranges[at] = ranges;
    }
}

fn targets(graphs: &GraphStore, schema: &Schema, splits: Option<&Splits>) -> Vec<TargetFindings> {
    let (Some(target), Some(values)) = (&schema.target, graphs.target()) else { return Vec::new() };
    let columns = target.columns.len();
    let parts = splits.map_or(0, |splits| splits.names.len());
    let counted = |classes: usize| if classes <= Findings::MOST_CLASSES { classes } else { 0 };
    let mut found: Vec<TargetFindings> = Vec::new();
    // Labels of each class in each part.
    let mut by_part: Vec<Vec<Vec<usize>>> = Vec::new();
    for column in &target.columns {
        let counts = vec![0; counted(column.classes)];
        by_part.push(vec![counts.clone(); parts]);
        found.push(TargetFindings { counts, ..TargetFindings::default() });
    }
    for graph in 0..graphs.len() {
        for row in graphs.row_range(target.level, graph) {
            let part = splits.and_then(|splits| match splits.level {
                Level::Graph => Some(splits.codes[graph]),
                level => (level == target.level).then(|| splits.codes[row]),
            });
            for (at, found) in found.iter_mut().enumerate() {
                let Some(value) = values.get(row * columns + at) else {
                    found.missing += 1;
                    continue;
                };
                let (least, most) = found.range.unwrap_or((value, value));
                found.range = Some((least.min(value), most.max(value)));
                if let Some(count) = found.counts.get_mut(value as usize) {
                    *count += 1;
                    if let Some(part) = part {
                        by_part[at][part as usize][value as usize] += 1;
                    }
                }
            }
        }
    }
    for (found, parts) in found.iter_mut().zip(&by_part) {
        for (part, counts) in parts.iter().enumerate().filter(|(_, counts)| counts.iter().any(|count| *count > 0)) {
            let classes = (0..counts.len()).filter(|&class| counts[class] == 0 && found.counts[class] > 0);
            let classes: Vec<usize> = classes.collect();
            let name = splits.map_or("", |splits| &splits.names[part]);
            if !classes.is_empty() {
                found.lacking.push((name.to_owned(), classes));
            }
        }
    }
    found
}

/// Whether some edge has no reverse. The sums of two hashes differ then, except with negligible
/// probability.
fn has_one_way_edge(graph: &GraphRef<'_>) -> bool {
    let hash = |a: u32, b: u32| mix(u64::from(a) << 32 | u64::from(b));
    let sums = graph
        .src()
        .iter()
        .zip(graph.dst())
        .filter(|(a, b)| a != b)
        .fold((0u64, 0u64), |sums, (&a, &b)| (sums.0.wrapping_add(hash(a, b)), sums.1.wrapping_add(hash(b, a))));
    sums.0 != sums.1
}

/// Pairs of parts that hold equal graphs: the later part, the earlier part, and the graphs of the
/// later one.
fn repeated(graphs: &GraphStore, splits: &Splits) -> Vec<(String, String, usize)> {
    let mut known: HashMap<u64, (u16, usize)> = HashMap::new();
    let mut pairs: HashMap<(u16, u16), usize> = HashMap::new();
    // Graphs of the part that occurs first are known first, so the others are counted.
    let mut order: Vec<usize> = (0..graphs.len()).collect();
    let place = |code: u16| (splits.names[code as usize] != "train", code);
    order.sort_by_key(|&graph| place(splits.codes[graph]));
    for index in order {
        let (graph, part) = (graphs.graph(index), splits.codes[index]);
        // Graphs without an edge are equal too easily.
        if graph.num_edges() == 0 {
            continue;
        }
        let (first, other) = *known.entry(content(&graph)).or_insert((part, index));
        if first != part && same(&graph, &graphs.graph(other)) {
            *pairs.entry((part, first)).or_default() += 1;
        }
    }
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    pairs.sort_unstable();
    let name = |part: u16| splits.names[part as usize].clone();
    pairs.into_iter().map(|((part, first), count)| (name(part), name(first), count)).collect()
}

/// A hash of nodes, edges and features, without targets.
fn content(graph: &GraphRef<'_>) -> u64 {
    let mut hash = mix(graph.num_nodes() as u64);
    let mut add = |value: u32| hash = mix(hash ^ u64::from(value));
    for list in [graph.src(), graph.dst(), graph.node().categorical, graph.edge().categorical] {
        list.iter().for_each(|value| add(*value));
    }
    for list in [graph.node().continuous, graph.edge().continuous] {
        list.iter().for_each(|value| add(value.to_bits()));
    }
    for words in [graph.node().multi_hot, graph.edge().multi_hot].into_iter().flatten() {
        words.indices.iter().for_each(|value| add(*value));
    }
    hash
}

fn same(a: &GraphRef<'_>, b: &GraphRef<'_>) -> bool {
    a.num_nodes() == b.num_nodes()
        && a.src() == b.src()
        && a.dst() == b.dst()
        && a.node() == b.node()
        && a.edge() == b.edge()
}

/// Spreads the bits of a number (SplitMix64).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
