//! Splits of graphs, nodes or edges into training, validation and test.

use std::collections::HashMap;

use gt_graph::{GraphStore, Level};

use crate::dataset::{Dataset, Splits};
use crate::error::{RequestProblem, Result};
use crate::random::Stream;

/// The rule that assigns rows to parts.
#[derive(Clone, Debug, PartialEq)]
pub enum SplitBy {
    /// Random assignment.
    Random,
    /// Random assignment with equal shares of every class in each part. Numbers are divided into
    /// ten strata by rank.
    Stratified,
    /// Random assignment of groups: rows with equal values of a carried column stay together.
    Group(String),
}

/// The parts of a split.
#[derive(Clone, Debug, PartialEq)]
pub enum Parts {
    /// Named shares, such as train 0.8, val 0.1, test 0.1; they must add up to 1.
    Shares(Vec<(String, f64)>),
    /// `fold0` … `fold{k-1}` of equal size.
    Folds(usize),
}

/// Plan of a split.
#[derive(Clone, Debug, PartialEq)]
pub struct SplitPlan {
    /// The rule that assigns rows to parts.
    pub by: SplitBy,
    /// The parts of the split.
    pub parts: Parts,
    /// Level of the split: whole graphs, or their nodes or edges.
    pub level: Level,
    /// Equal seeds give equal splits.
    pub seed: u64,
}

/// The usual level of a split: graphs; for a single graph, the level of its targets.
pub fn usual_level(dataset: &Dataset) -> Level {
    match &dataset.schema().target {
        Some(target) if dataset.graphs().len() == 1 => target.level,
        _ => Level::Graph,
    }
}

/// Makes a split.
///
/// Within each stratum, rows are shuffled and distributed so that every part gets its share. Shares
/// are rounded to whole rows by largest remainder. Groups are assigned over all rows, largest group
/// first. Edges between the same two nodes go to the same part in both directions, because one
/// direction would leak the label of the other. Shares then count such pairs.
///
/// # Errors
/// If the plan does not fit the data: shares that do not add up to 1, an unknown column, or more
/// folds than rows.
///
/// ```
/// use graph_transformer_data::{Parts, SbmSet, SbmSizes, SplitBy, SplitPlan, make_split};
/// use gt_graph::{GraphStore, Level};
///
/// let set = SbmSet::Cluster.generate(1, SbmSizes { train: 10, val: 0, test: 0 })?;
/// let plan =
///     SplitPlan { by: SplitBy::Random, parts: Parts::Folds(5), level: Level::Graph, seed: 7 };
/// let split = make_split(&set, &plan)?;
/// assert_eq!(split.rows("fold3").len(), 2);
/// # Ok::<(), graph_transformer_data::DataError>(())
/// ```
pub fn make_split(dataset: &Dataset, plan: &SplitPlan) -> Result<Splits> {
    let rows = dataset.graphs().rows(plan.level);
    let (names, shares) = parts(&plan.parts, rows, plan.level)?;
    let mut random = Stream::new(plan.seed, DOMAIN_SPLIT, 0);
    let mut codes = vec![0u16; rows];
    let first = match plan.level {
        Level::Edge => first_of_pairs(dataset.graphs()),
        Level::Graph | Level::Node => (0..rows).collect(),
    };
    let leads = |row: &usize| first[*row] == *row;
    match &plan.by {
        SplitBy::Random => deal(&mut (0..rows).filter(leads).collect::<Vec<_>>(), &shares, &mut random, &mut codes),
        SplitBy::Stratified => {
            for mut stratum in strata(dataset, plan.level)? {
                stratum.retain(leads);
                deal(&mut stratum, &shares, &mut random, &mut codes);
            }
        }
        SplitBy::Group(column) => {
            deal_groups(groups(dataset, plan.level, column)?, rows, &shares, &mut random, &mut codes)
        }
    }
    (0..rows).for_each(|row| codes[row] = codes[first[row]]);
    let split = Splits { level: plan.level, names, codes };
    if let Some(empty) = (0..split.names.len()).find(|&part| !split.codes.contains(&(part as u16))) {
        let share = match &plan.parts {
            Parts::Shares(_) => Some(shares[empty]),
            Parts::Folds(_) => None,
        };
        let (part, strata) = (split.names[empty].clone(), plan.by == SplitBy::Stratified);
        return Err(RequestProblem::EmptyPart { part, rows, level: plan.level, strata, share }.into());
    }
    Ok(split)
}

const DOMAIN_SPLIT: u8 = 16;

fn parts(parts: &Parts, rows: usize, level: Level) -> Result<(Vec<String>, Vec<f64>)> {
    match parts {
        Parts::Folds(folds) => {
            if *folds < 2 || *folds > rows || *folds > usize::from(u16::MAX) {
                return Err(RequestProblem::Folds { rows, level, folds: *folds }.into());
            }
            Ok(((0..*folds).map(|fold| format!("fold{fold}")).collect(), vec![1.0 / *folds as f64; *folds]))
        }
        Parts::Shares(shares) => {
            let sum: f64 = shares.iter().map(|(_, share)| share).sum();
            if shares.is_empty()
                || shares.iter().any(|(_, share)| share.is_nan() || *share <= 0.0)
                || (sum - 1.0).abs() > 1e-6
            {
                return Err(RequestProblem::Shares { sum, shares: shares.clone() }.into());
            }
            Ok(shares.iter().map(|(name, share)| (name.clone(), share / sum)).unzip())
        }
    }
}

/// For each edge, the first edge over all graphs that joins the same two nodes.
fn first_of_pairs(graphs: &GraphStore) -> Vec<usize> {
    let mut first: Vec<usize> = (0..graphs.num_edges()).collect();
    for (graph, start) in graphs.iter().zip(graphs.edge_offsets()) {
        let ends = |edge: usize| {
            let (a, b) = (graph.src()[edge], graph.dst()[edge]);
            (a.min(b), a.max(b))
        };
        let mut order: Vec<usize> = (0..graph.num_edges()).collect();
        order.sort_by_key(|&edge| (ends(edge), edge));
        for same in order.chunk_by(|&a, &b| ends(a) == ends(b)) {
            same.iter().for_each(|edge| first[start + edge] = start + same[0]);
        }
    }
    first
}

/// Shuffles rows and gives each part its share.
pub(crate) fn deal(rows: &mut [usize], shares: &[f64], random: &mut Stream, codes: &mut [u16]) {
    random.shuffle(rows);
    let mut start = 0;
    for (part, size) in sizes(rows.len(), shares, random).into_iter().enumerate() {
        rows[start..start + size].iter().for_each(|&row| codes[row] = part as u16);
        start += size;
    }
}

/// Whole numbers in the proportion of the shares, by largest remainder. Ties are broken at random,
/// because many small strata would otherwise all round in the same way.
fn sizes(rows: usize, shares: &[f64], random: &mut Stream) -> Vec<usize> {
    let exact: Vec<f64> = shares.iter().map(|share| share * rows as f64).collect();
    let mut sizes: Vec<usize> = exact.iter().map(|size| (size + 1e-9).floor() as usize).collect();
    let mut order: Vec<usize> = (0..shares.len()).collect();
    random.shuffle(&mut order);
    let remainder = |part: usize| ((exact[part] - sizes[part] as f64) * 1e6).round() as i64;
    order.sort_by_key(|&part| std::cmp::Reverse(remainder(part)));
    let missing = rows - sizes.iter().sum::<usize>().min(rows);
    order.iter().cycle().take(missing).for_each(|&part| sizes[part] += 1);
    sizes
}

/// Rows by class, or by tenth of the ranked values. Rows without a label are a separate stratum.
pub(crate) fn strata(dataset: &Dataset, level: Level) -> Result<Vec<Vec<usize>>> {
    let schema = dataset.schema().target.as_ref().filter(|t| t.level == level);
    let (Some(schema), Some(targets)) = (schema, dataset.graphs().target()) else {
        return Err(RequestProblem::NoStrata(level).into());
    };
    let columns = schema.columns.len();
    let rows = dataset.graphs().rows(level);
    let value = |row: usize| targets.get(row * columns);
    let mut missing = Vec::new();
    let mut labelled: Vec<usize> = Vec::new();
    for row in 0..rows {
        if value(row).is_some() { labelled.push(row) } else { missing.push(row) }
    }
    labelled.sort_by(|&a, &b| value(a).partial_cmp(&value(b)).expect("labels are numbers").then(a.cmp(&b)));
    let mut strata: Vec<Vec<usize>> = match targets.kind() {
        gt_graph::TargetKind::Class => {
            labelled.chunk_by(|&a, &b| value(a) == value(b)).map(<[usize]>::to_vec).collect()
        }
        gt_graph::TargetKind::Float => {
            labelled.chunks(labelled.len().div_ceil(10).max(1)).map(<[usize]>::to_vec).collect()
        }
    };
    if !missing.is_empty() {
        strata.push(missing);
    }
    Ok(strata)
}

/// Rows by the value of a carried column of their graph, in order of appearance. Each missing value
/// is a separate group.
fn groups(dataset: &Dataset, level: Level, column: &str) -> Result<Vec<Vec<usize>>> {
    let extra = dataset.extra(column).ok_or_else(|| RequestProblem::NoGroups {
        column: column.into(),
        found: dataset.extras().iter().map(|extra| extra.name().to_owned()).collect(),
    })?;
    if !extra.has_text() {
        return Err(RequestProblem::GroupType { column: column.into(), kind: extra.kind() }.into());
    }
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for graph in 0..dataset.graphs().len() {
        let rows = dataset.graphs().row_range(level, graph);
        let at = match extra.text(graph) {
            Some(value) => *known.entry(value).or_insert(groups.len()),
            None => groups.len(),
        };
        if at == groups.len() {
            groups.push(Vec::new());
        }
        groups[at].extend(rows);
    }
    Ok(groups)
}

/// Gives each group, largest first, to the part that is furthest below its share.
fn deal_groups(mut groups: Vec<Vec<usize>>, rows: usize, shares: &[f64], random: &mut Stream, codes: &mut [u16]) {
    random.shuffle(&mut groups);
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    let mut lacking: Vec<f64> = shares.iter().map(|share| share * rows as f64).collect();
    for group in groups {
        let part = (0..shares.len())
            .max_by(|&a, &b| lacking[a].total_cmp(&lacking[b]).then(b.cmp(&a)))
            .expect("there are parts");
        lacking[part] -= group.len() as f64;
        group.into_iter().for_each(|row| codes[row] = part as u16);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use arrow_array::Date32Array;

    use super::*;
    use crate::error::DataError;
    use crate::extra::Extra;
    use crate::resolve::Resolved;
    use crate::sbm::{SbmSet, SbmSizes};

    #[test]
    fn columns_without_a_text_cannot_be_grouped_by() {
        let drawn = SbmSet::Cluster.generate(1, SbmSizes { train: 4, val: 2, test: 2 }).unwrap();
        let days = Extra::new("day", Arc::new(Date32Array::from(vec![1, 1, 2, 2, 3, 3, 4, 4])));
        let (schema, graphs) = (drawn.schema().clone(), drawn.graphs().clone());
        let resolved = Resolved {
            schema,
            inferred: false,
            classes_from_numbers: false,
            choice: Default::default(),
            graphs,
            split: None,
        };
        let set = Dataset::from_file(Path::new("days"), resolved, vec![days]).unwrap();
        let Err(DataError::Request(problem)) = groups(&set, Level::Graph, "day") else { panic!("it was grouped") };
        assert_eq!(problem, RequestProblem::GroupType { column: "day".into(), kind: "Date32".into() });
    }
}
