//! One fold of a cross-validation as a split into training, validation and test.

use gt_graph::{Level, Split, TargetKind};

use crate::dataset::{Dataset, Splits};
use crate::error::{RequestProblem, Result};
use crate::random::Stream;
use crate::split::{deal, strata, usual_level};

/// One fold of a cross-validation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FoldPlan {
    /// Number of folds.
    pub folds: usize,
    /// The fold that is the test part, from 1.
    pub fold: usize,
    /// Share of the validation part in the rows outside of the fold.
    pub val: f64,
    /// Equal seeds give equal folds and equal validation parts.
    pub seed: u64,
}

const DOMAIN_FOLDS: u8 = 18;

/// Splits a data set for one fold of a cross-validation. The test part is the fold. The validation
/// part is cut from the other rows, and the rest is the training part.
///
/// If the parts of the data set are `fold0`, `fold1`, …, as [`Parts::Folds`](crate::Parts::Folds)
/// names them, fold 1 is `fold0` and so on. A data set without a split is dealt into folds of equal
/// size: its graphs, or the nodes of a single graph with targets of nodes. If the rows have one
/// class each, folds and validation parts have equal shares of every class. Otherwise rows with a
/// label and rows without one are dealt separately.
///
/// # Errors
/// If the data set has other parts or another number of folds, if its edges are split, or if a part
/// would be empty.
///
/// ```
/// use graph_transformer_data::{FoldPlan, SbmSet, SbmSizes, make_fold};
/// use gt_graph::Split;
///
/// let set = SbmSet::Cluster.generate(1, SbmSizes { train: 10, val: 0, test: 0 })?;
/// # let set = graph_transformer_data::Dataset::new(set.schema().clone(), set.into_graphs())?;
/// let plan = FoldPlan { folds: 5, fold: 2, val: 0.25, seed: 7 };
/// let split = make_fold(&set, &plan)?;
/// let sizes = Split::ALL.map(|part| split.rows(part.name()).len());
/// assert_eq!(sizes, [6, 2, 2]);
/// // Every graph is in the test part of one fold.
/// let mut tested: Vec<usize> = Vec::new();
/// for fold in 1..=5 {
///     tested.extend(make_fold(&set, &FoldPlan { fold, ..plan })?.rows("test"));
/// }
/// tested.sort();
/// assert_eq!(tested, (0..10).collect::<Vec<_>>());
/// # Ok::<(), graph_transformer_data::DataError>(())
/// ```
pub fn make_fold(dataset: &Dataset, plan: &FoldPlan) -> Result<Splits> {
    let FoldPlan { folds, fold, val, seed } = *plan;
    let (level, tested) = match dataset.split() {
        Some(split) => (split.level, fold_of_file(split, folds, fold)?),
        None => {
            let level = usual_level(dataset);
            (level, drawn_fold(dataset, level, plan)?)
        }
    };
    if level == Level::Edge {
        return Err(RequestProblem::FoldsOfEdges.into());
    }
    let rows = dataset.graphs().rows(level);
    let names = Split::ALL.map(|part| part.name().to_owned());
    let mut codes = vec![0u16; rows];
    let mut random = Stream::new(seed, DOMAIN_FOLDS, fold as u64);
    for mut stratum in fold_strata(dataset, level)? {
        stratum.retain(|&row| !tested[row]);
        deal(&mut stratum, &[1.0 - val, val], &mut random, &mut codes);
    }
    codes.iter_mut().zip(&tested).filter(|(_, tested)| **tested).for_each(|(code, _)| *code = 2);
    if let Some(empty) = (0..names.len()).find(|&part| !codes.contains(&(part as u16))) {
        let part = names[empty].clone();
        return Err(RequestProblem::EmptyPart { part, rows, level, strata: false, share: None }.into());
    }
    Ok(Splits { level, names: names.to_vec(), codes })
}

/// Whether the parts of a split are folds: `fold0`, `fold1`, ….
pub fn are_folds(names: &[String]) -> bool {
    !names.is_empty() && (0..names.len()).all(|fold| names.contains(&format!("fold{fold}")))
}

/// Whether each row lies in a fold of the data's own.
fn fold_of_file(split: &Splits, folds: usize, fold: usize) -> Result<Vec<bool>> {
    if !are_folds(&split.names) {
        return Err(RequestProblem::NoFolds { folds, parts: split.names.clone() }.into());
    }
    if split.names.len() != folds {
        return Err(RequestProblem::OtherFolds { found: split.names.len(), folds }.into());
    }
    let name = format!("fold{}", fold - 1);
    Ok((0..split.codes.len()).map(|row| split.name(row) == name).collect())
}

/// Whether each row lies in a fold that is drawn from the seed.
fn drawn_fold(dataset: &Dataset, level: Level, plan: &FoldPlan) -> Result<Vec<bool>> {
    let FoldPlan { folds, fold, seed, .. } = *plan;
    let rows = dataset.graphs().rows(level);
    if folds < 2 || folds > rows || folds > usize::from(u16::MAX) {
        return Err(RequestProblem::Folds { rows, level, folds }.into());
    }
    let mut codes = vec![0u16; rows];
    // Stream 0; the validation parts have the streams from 1.
    let mut random = Stream::new(seed, DOMAIN_FOLDS, 0);
    for mut stratum in fold_strata(dataset, level)? {
        deal(&mut stratum, &vec![1.0 / folds as f64; folds], &mut random, &mut codes);
    }
    Ok(codes.into_iter().map(|code| usize::from(code) + 1 == fold).collect())
}

/// Rows by class, where the rows of the level have one class each; otherwise rows with and without
/// a label.
fn fold_strata(dataset: &Dataset, level: Level) -> Result<Vec<Vec<usize>>> {
    let rows = 0..dataset.graphs().rows(level);
    let schema = dataset.schema().target.as_ref().filter(|target| target.level == level);
    let (Some(schema), Some(targets)) = (schema, dataset.graphs().target()) else { return Ok(vec![rows.collect()]) };
    let columns = schema.columns.len();
    if schema.kind == TargetKind::Class && columns == 1 {
        return strata(dataset, level);
    }
    let has_label = |row: &usize| (row * columns..(row + 1) * columns).any(|at| targets.get(at).is_some());
    let (labelled, unlabelled) = rows.partition(has_label);
    Ok(vec![labelled, unlabelled])
}
