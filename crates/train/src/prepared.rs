//! A data set, made ready for a configuration: shapes checked, parts chosen, encodings computed, targets scaled.

use std::collections::BTreeSet;
use std::path::Path;

use gt_data::{Dataset, PartInfo, Parts, SplitBy, SplitPlan, Splits, make_split, usual_level};
use gt_graph::Schema;
use gt_graph::{GraphStore, Level, TargetKind};
use gt_models::config::{Columns, DataShape, Graph, TargetShape, TaskName};
use gt_models::{Config, ModelHeader};
use gt_nn::cpu::Edges;
use gt_nn::{Loss, Network};
use sha2::{Digest, Sha256};

use crate::encodings::ensure_encodings;
use crate::error::{Result, TrainError};
use crate::links::Links;
use crate::metrics::Metric;

/// A part of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What parameters are fitted to.
    Train,
    /// What the learning rate and the best model are chosen by.
    Val,
    /// What is reported.
    Test,
}

impl Part {
    /// All three.
    pub const ALL: [Part; 3] = [Part::Train, Part::Val, Part::Test];

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Part::Train => "train",
            Part::Val => "val",
            Part::Test => "test",
        }
    }
}

/// A data set and what a network makes of it.
#[derive(Clone, Debug)]
pub struct Task {
    /// Names and vocabularies.
    pub schema: Schema,
    /// The shape that the network is built for.
    pub shape: DataShape,
    /// The network.
    pub network: Network,
    /// What is minimised.
    pub loss: Loss,
    /// What is reported.
    pub metric: Metric,
    /// Which edges attention follows.
    pub edges: Edges,
    /// The graphs, with their encodings.
    pub graphs: GraphStore,
    /// Mean and deviation of each target in the training part; empty where targets stay as they are.
    pub scaling: Vec<(f64, f64)>,
    /// What is predicted instead of targets, if so.
    pub links: Option<Links>,
    split: Splits,
    /// Hash of everything that a data file holds, by which a run that goes on knows its data; empty where nothing is trained.
    pub(crate) fingerprint: String,
}

/// What a network has to know of a schema.
///
/// # Errors
/// If the data has no targets.
pub fn shape_of(schema: &Schema) -> Result<DataShape> {
    let target = schema
        .target
        .as_ref()
        .ok_or_else(|| TrainError::Data("it has no targets; they are what stands under `y`".into()))?;
    let columns = target.columns.iter().map(|column| column.classes).collect();
    Ok(with_target(schema, TargetShape { level: target.level, kind: target.kind, columns }))
}

/// The shape where something else than the schema's targets may be predicted.
fn with_target(schema: &Schema, target: TargetShape) -> DataShape {
    let columns = |features: &gt_graph::FeatureSchema| Columns {
        categorical: features.vocabulary_sizes(),
        continuous: features.continuous.len(),
        multi_hot: features.multi_hot.as_ref().map(|words| words.size),
    };
    DataShape { node: columns(&schema.node), edge: columns(&schema.edge), target }
}

/// The shape of what a configuration predicts.
fn shape_for(schema: &Schema, config: &Config) -> Result<DataShape> {
    match config.data.task {
        TaskName::Targets => shape_of(schema),
        TaskName::Links => Ok(with_target(schema, TargetShape::link())),
    }
}

impl Task {
    /// Makes a data set ready. Encodings are looked up in, and added to, a file beside `cache`, if one is given.
    ///
    /// # Errors
    /// If data and configuration do not fit, or a part has no labels.
    pub fn new(dataset: &Dataset, config: &Config, cache: Option<&Path>) -> Result<Self> {
        let mut task = Self::build(dataset, config, shape_for(dataset.schema(), config)?, cache)?;
        for part in [Part::Train, Part::Val] {
            task.ensure_labels(part)?;
        }
        if config.data.standardize && task.shape.target.kind == TargetKind::Float {
            task.scaling = task.target_scaling();
        }
        task.fingerprint = fingerprint(dataset);
        Ok(task)
    }

    /// Makes a data set ready for a model that is trained already.
    ///
    /// # Errors
    /// If its columns are not those that the model was trained on, or values lie beyond the model's vocabularies.
    pub fn for_model(dataset: &Dataset, header: &ModelHeader, cache: Option<&Path>) -> Result<Self> {
        check_fit(dataset, header)?;
        let mut task = Self::build(dataset, &header.config, header.data.clone(), cache)?;
        task.scaling.clone_from(&header.scaling);
        Ok(task)
    }

    fn build(dataset: &Dataset, config: &Config, shape: DataShape, cache: Option<&Path>) -> Result<Self> {
        let mut schema = dataset.schema().clone();
        let loss = config.loss(&shape)?;
        let (mut graphs, split, links) = match config.data.task {
            TaskName::Targets => {
                let split = match dataset.split() {
                    Some(split) => split.clone(),
                    None => new_split(dataset, config, usual_level(dataset))?,
                };
                let (divided, target) = (split.level, shape.target.level);
                if divided != Level::Graph && divided != target {
                    return Err(TrainError::Data(format!(
                        "its split divides {divided}s, its targets belong to {target}s; `gt data split --level` makes another one"
                    )));
                }
                (dataset.graphs().clone(), split, None)
            }
            TaskName::Links => {
                schema.target = None;
                let (links, graphs) = Links::new(dataset, config)?;
                (graphs, Splits::new(Level::Graph), Some(links))
            }
        };
        ensure_encodings(&mut graphs, config, cache)?;
        let mut decided = config.clone();
        decided.links.directed = links.as_ref().map(Links::directed).or(config.links.directed);
        let network = decided.network(&shape)?;
        let edges = edges_of(config);
        let (metric, scaling, fingerprint) = (Metric::of(loss), Vec::new(), String::new());
        Ok(Self { schema, shape, network, loss, metric, edges, graphs, scaling, links, split, fingerprint })
    }

    /// Numbers per row that the network predicts.
    pub fn outputs(&self) -> usize {
        self.network.outputs()
    }

    /// Graphs that hold rows of a part: all of them where nodes or edges are split.
    pub fn graphs_of(&self, part: Part) -> Vec<usize> {
        if let Some(links) = &self.links {
            return links.graphs_of(part, self.graphs.len());
        }
        match self.split.level {
            Level::Graph => self.split.rows(part.name()),
            _ => (0..self.graphs.len()).collect(),
        }
    }

    /// Whether a row of the targets (counted over all graphs) belongs to a part; always, where whole graphs are split.
    pub fn belongs(&self, part: Part, row: usize) -> bool {
        !self.splits_rows() || self.split.name(row) == part.name()
    }

    /// What is divided into parts.
    pub fn split_level(&self) -> Level {
        self.split.level
    }

    /// Whether rows of the targets are split, not whole graphs.
    pub(crate) fn splits_rows(&self) -> bool {
        self.split.level != Level::Graph && self.split.level == self.shape.target.level
    }

    /// Sizes and targets of each part, as they are trained on; of all graphs, without the held-out edges, where links are predicted.
    pub fn statistics(&self) -> Vec<(String, PartInfo)> {
        let split = self.links.is_none().then_some(&self.split);
        PartInfo::of_all(&self.graphs, &self.schema, split)
    }

    /// Parts that nobody uses though their names are much like those of the three that are used (`Train`, `valid`), with their rows.
    pub fn mistaken_parts(&self) -> Vec<(&str, usize)> {
        let used = Part::ALL.map(Part::name);
        let alike = |name: &str| {
            let plain = name.trim().to_lowercase();
            !used.contains(&name) && used.iter().any(|used| plain.starts_with(used))
        };
        let names = self.split.names.iter().map(String::as_str).filter(|name| self.links.is_none() && alike(name));
        names.map(|name| (name, self.split.rows(name).len())).collect()
    }

    /// Nodes whose Weisfeiler–Lehman role lies beyond the model's vocabulary, and so shares the last one.
    pub fn roles_beyond(&self) -> usize {
        let roles = self.graphs.encodings().weisfeiler_lehman.as_deref().unwrap_or_default();
        self.network.node.roles.map_or(0, |size| roles.iter().filter(|&&role| role as usize >= size).count())
    }

    /// Number of labels present in a part; of links, where those are predicted.
    pub fn labels(&self, part: Part) -> usize {
        if let Some(links) = &self.links {
            return links.count(part);
        }
        let Some(target) = self.graphs.target() else { return 0 };
        let columns = self.shape.target.columns.len();
        self.graphs_of(part)
            .into_iter()
            .flat_map(|graph| self.graphs.row_range(self.shape.target.level, graph))
            .filter(|&row| self.belongs(part, row))
            .flat_map(|row| row * columns..(row + 1) * columns)
            .filter(|&at| target.get(at).is_some())
            .count()
    }

    /// Refuses a part that has nothing to learn from or to be scored by; one that goes by another name (`valid`, `dev`) is the likely reason.
    ///
    /// # Errors
    /// If it has no labels, with the parts that there are.
    pub fn ensure_labels(&self, part: Part) -> Result<()> {
        if self.labels(part) > 0 {
            return Ok(());
        }
        let (name, names) = (part.name(), &self.split.names);
        Err(TrainError::Data(match self.links {
            Some(_) => format!("its part `{name}` has no edges between different nodes"),
            None if names.iter().any(|known| known == name) => format!("its part `{name}` has no labels"),
            None => format!("it has no part `{name}`; its parts are `{}`", names.join("`, `")),
        }))
    }

    /// Mean and deviation of each column over the training part.
    fn target_scaling(&self) -> Vec<(f64, f64)> {
        let Some(target) = self.graphs.target() else { return Vec::new() };
        let columns = self.shape.target.columns.len();
        let rows: Vec<usize> = self
            .graphs_of(Part::Train)
            .into_iter()
            .flat_map(|graph| self.graphs.row_range(self.shape.target.level, graph))
            .filter(|&row| self.belongs(Part::Train, row))
            .collect();
        (0..columns)
            .map(|column| {
                let values = || rows.iter().filter_map(|row| target.get(row * columns + column));
                let count = values().count().max(1) as f64;
                let mean = values().sum::<f64>() / count;
                let deviation = (values().map(|v| (v - mean).powi(2)).sum::<f64>() / count).sqrt();
                (mean, if deviation > 0.0 { deviation } else { 1.0 })
            })
            .collect()
    }

    /// Turns outputs on the training scale into those on the data's.
    pub fn unscale(&self, outputs: &mut [f32]) {
        unscale(&self.scaling, outputs);
    }
}

/// Compares a data set with what a model was trained on.
///
/// # Errors
/// If its columns are others, values lie beyond the model's vocabularies, or its targets are of another kind.
pub fn check_fit(dataset: &Dataset, header: &ModelHeader) -> Result<()> {
    check_features(dataset.schema(), dataset.graphs(), header)?;
    check_values(&shape_for(dataset.schema(), &header.config)?, &header.data)
}

/// Compares the columns of features with those of a model: as many of each kind, and in its order where they have the same names. Without rows there is nothing to compare.
pub(crate) fn check_features(data: &Schema, graphs: &GraphStore, header: &ModelHeader) -> Result<()> {
    let fail = |message: String| Err(TrainError::Data(message));
    let trained: Option<Schema> = serde_json::from_value(header.schema.clone()).ok();
    let named = |of: fn(&Schema) -> &gt_graph::FeatureSchema| trained.as_ref().map(of);
    for (level, data, model, trained) in [
        (Level::Node, &data.node, &header.data.node, named(|schema| &schema.node)),
        (Level::Edge, &data.edge, &header.data.edge, named(|schema| &schema.edge)),
    ] {
        if graphs.rows(level) == 0 {
            continue;
        }
        let kinds = [
            ("categorical", data.categorical.len(), model.categorical.len()),
            ("continuous", data.continuous.len(), model.continuous),
            ("multi-hot", usize::from(data.multi_hot.is_some()), usize::from(model.multi_hot.is_some())),
        ];
        for (kind, found, expected) in kinds {
            if found != expected {
                return fail(format!("it has {found} {kind} {level} columns, the model was trained on {expected}"));
            }
        }
        let (found, known): (Vec<&str>, Vec<&str>) =
            (data.names().collect(), trained.iter().flat_map(|schema| schema.names()).collect());
        if found != known && BTreeSet::from_iter(&found) == BTreeSet::from_iter(&known) {
            let list = |names: &[&str]| names.join("`, `");
            return fail(format!(
                "its {level} columns are `{}`, the model was trained on `{}`: bring them into that order",
                list(&found),
                list(&known)
            ));
        }
    }
    Ok(())
}

/// Compares the values of a data set with what a model knows: no vocabulary larger, targets of the same kind.
fn check_values(data: &DataShape, model: &DataShape) -> Result<()> {
    let fail = |message: String| Err(TrainError::Data(message));
    for (what, data, model) in [("node", &data.node, &model.node), ("edge", &data.edge, &model.edge)] {
        let sizes = data.categorical.iter().zip(&model.categorical).chain(data.multi_hot.iter().zip(&model.multi_hot));
        for (column, (found, known)) in sizes.enumerate() {
            if found > known {
                let value = found - 1;
                return fail(format!(
                    "{what} column {column} holds the value {value}, the model knows 0 to {}",
                    known - 1
                ));
            }
        }
    }
    let (found, expected) = (&data.target, &model.target);
    if (found.level, found.kind, found.columns.len()) != (expected.level, expected.kind, expected.columns.len()) {
        return fail(format!(
            "its targets are {} {} of {}s, the model predicts {} {} of {}s",
            found.columns.len(),
            found.kind.name(),
            found.level,
            expected.columns.len(),
            expected.kind.name(),
            expected.level
        ));
    }
    match found.columns.iter().zip(&expected.columns).find(|(found, known)| found > known) {
        Some((found, known)) => fail(format!("its targets have {found} classes, the model knows {known}")),
        None => Ok(()),
    }
}

/// Turns outputs on the training scale into those on the data's.
pub fn unscale(scaling: &[(f64, f64)], outputs: &mut [f32]) {
    if !scaling.is_empty() {
        for row in outputs.chunks_exact_mut(scaling.len()) {
            for (value, (mean, deviation)) in row.iter_mut().zip(scaling) {
                *value = (f64::from(*value) * deviation + mean) as f32;
            }
        }
    }
}

/// SHA-256 of graphs, features, targets, split and encodings, as they came; what is computed from them is not in it, since another machine may round it differently.
fn fingerprint(dataset: &Dataset) -> String {
    let mut hash = Sha256::new();
    hash.update(gt_data::content_hash(dataset.graphs()));
    if let Some(split) = dataset.split() {
        hash.update(format!("{} {:?}", split.level, split.names));
        split.codes.iter().for_each(|code| hash.update(code.to_le_bytes()));
    }
    let encodings = dataset.graphs().encodings();
    for coordinates in [&encodings.laplacian, &encodings.random_walk].into_iter().flatten() {
        hash.update((coordinates.width as u64).to_le_bytes());
        coordinates.values.iter().for_each(|value| hash.update(value.to_le_bytes()));
    }
    encodings.weisfeiler_lehman.iter().flatten().for_each(|role| hash.update(role.to_le_bytes()));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Which edges attention follows.
pub(crate) fn edges_of(config: &Config) -> Edges {
    match config.model.graph {
        Graph::Sparse => Edges::Sparse,
        Graph::Full => Edges::Full,
    }
}

/// A split of a level, drawn from the configuration's seed.
pub(crate) fn new_split(dataset: &Dataset, config: &Config, level: Level) -> Result<Splits> {
    let names = Part::ALL.map(Part::name);
    let shares = names.iter().zip(config.data.split).map(|(name, share)| ((*name).to_owned(), share)).collect();
    let plan = SplitPlan { by: SplitBy::Random, parts: Parts::Shares(shares), level, seed: config.data.split_seed };
    make_split(dataset, &plan).map_err(|e| {
        TrainError::Data(format!("{e}; data.split sets the shares, and a split in the data takes their place"))
    })
}
