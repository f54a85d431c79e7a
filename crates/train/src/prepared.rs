//! A data set, made ready for a network: columns checked, splits chosen, encodings computed,
//! targets scaled.

use gt_nn::AttentionScope;
use std::borrow::Cow;

use gt_data::{
    Dataset, FoldPlan, PartInfo, Parts, SplitBy, SplitPlan, Splits, are_folds, make_fold, make_split, usual_level,
};
use gt_graph::{
    GraphBatch, GraphError, GraphStore, Level, MISSING_CLASS, Schema, Split, TargetKind, TargetRows, TargetSchema,
};
use gt_models::config::{DataConfig, MetricForm, OutputKind, TaskName};
use gt_models::{Config, Model, Renumbering, Scaling, mean_and_spread};
use gt_nn::backend::{DataSource, Labels, PassPlan, PreparedBatch, labels_by_batches};
use gt_nn::cpu::GraphSize;
use gt_nn::{Frozen, Loss, Network, Weights};

use crate::encodings::{EncodingCache, ensure_encodings};
use crate::error::{DataProblem, Result};
use crate::fingerprint;
use crate::init::{Init, frozen};
use crate::links::Links;
use crate::metrics::Metric;
use crate::pass::pair_stream;
use crate::rare::{HiddenValues, add_other};
use crate::selection::Selection;

/// Graphs with encodings and labels, and the network that learns from them or is scored on them.
///
/// Backends take their batches from here: [`Prepared`] is a [`DataSource`].
///
/// ```
/// use graph_transformer_train::Prepared;
/// use gt_data::{SbmSet, SbmSizes};
/// use gt_graph::Split;
/// use gt_models::Config;
///
/// let data = SbmSet::Cluster.generate(41, SbmSizes { train: 2, val: 1, test: 1 })?;
/// let config = Config::from_toml("[model]\nlayers = 1\nwidth = 8\nheads = 2")?;
/// let data = Prepared::for_training(data, &config, None)?;
/// assert_eq!((data.graphs_of(Split::Train), data.graphs_of(Split::Test)), (vec![0, 1], vec![3]));
/// // Every node has a label, one of six classes.
/// assert_eq!(data.labels_in(Split::Val), data.graphs.node_range(2).len());
/// assert_eq!((data.outputs(), data.target().classes()), (6, vec![6]));
/// let sizes: Vec<_> = data.statistics().iter().map(|(_, part)| part.graphs).collect();
/// assert_eq!(sizes, [2, 1, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Names and vocabularies of the columns; without targets where links are predicted.
    pub schema: Schema,
    /// The network.
    pub network: Network,
    /// The loss that training minimises.
    pub loss: Loss,
    /// The meaning of the network's outputs.
    pub output_kind: OutputKind,
    /// The metric that is reported.
    pub metric: Metric,
    /// The form in which metrics are reported.
    pub form: MetricForm,
    /// The value that decides which epoch has the best model.
    pub(crate) selection: Selection,
    /// Which edges attention follows.
    pub scope: AttentionScope,
    /// The graphs, with their encodings.
    pub graphs: GraphStore,
    /// Mean and deviation of standardised inputs and targets over the training split. The graphs
    /// hold standardised inputs.
    pub scaling: Scaling,
    /// The links that are predicted instead of targets, where the task is link prediction.
    pub links: Option<Links>,
    splits: Splits,
    /// Hash of the contents of the data file, by which a resumed run recognises its data; empty
    /// where nothing is trained.
    pub(crate) fingerprint: String,
    /// Hash of the encodings, read or computed, by which a resumed run notices others; empty where
    /// nothing is trained.
    pub(crate) encodings_sha256: String,
    /// The model whose weights training starts with.
    pub(crate) init: Option<Init>,
    /// What training leaves as it is.
    pub(crate) frozen: Frozen,
    /// Values that training passes hide.
    pub(crate) hidden: HiddenValues,
}

/// What happens to the categories of the data.
enum Inputs {
    /// The data was read for a model.
    Kept,
    /// Columns get an entry for rare and unknown categories, as the configuration says.
    Inferred,
    /// Categories get the numbers that they have in a model.
    Renumbered(Vec<Renumbering>),
}

impl Prepared {
    /// Makes a data set ready for training. Encodings that the data lacks are taken from `cache`,
    /// or computed and added to `cache`.
    ///
    /// # Errors
    /// If data and configuration do not fit, or the training or validation split has no labels.
    pub fn for_training(dataset: Dataset, config: &Config, cache: Option<&EncodingCache>) -> Result<Self> {
        let fingerprint = fingerprint::of_data(&dataset);
        let init = Init::open(config)?;
        let (schema, renumbered) = match &init {
            Some(init) => init.adopt(dataset.schema())?,
            None => (dataset.schema().clone(), Vec::new()),
        };
        let inputs = match &init {
            Some(_) => Inputs::Renumbered(renumbered),
            None => Inputs::Inferred,
        };
        let mut prepared = Self { fingerprint, init, ..Self::build(dataset, config, schema, inputs, cache)? };
        prepared.encodings_sha256 = fingerprint::of_encodings(&prepared.graphs);
        prepared.frozen = frozen(&prepared.network, config)?;
        for split in [Split::Train, Split::Val] {
            prepared.ensure_labels(split)?;
        }
        if config.data.standardize && prepared.target().kind == TargetKind::Float {
            prepared.scaling.target = prepared.target_scaling();
        }
        if config.data.standardize_inputs {
            prepared.scaling.node = prepared.input_scaling(Level::Node);
            prepared.scaling.edge = prepared.input_scaling(Level::Edge);
            prepared.scaling.scale_inputs(&mut prepared.graphs);
        }
        Ok(prepared)
    }

    /// Makes a data set ready to score a model on it. The data set must have been read for the
    /// model's schema. `cache` has the same effect as in training.
    ///
    /// # Errors
    /// If its columns are not those of the model, or values lie beyond the model's vocabularies.
    pub fn for_model(dataset: Dataset, model: &Model, cache: Option<&EncodingCache>) -> Result<Self> {
        model.check(dataset.graphs())?;
        let mut config = Cow::Borrowed(&model.config);
        if dataset.split().is_some_and(|split| !are_folds(&split.names)) {
            // Other data than that of the folds the model was trained on.
            (config.to_mut().data.folds, config.to_mut().data.fold) = (None, None);
        }
        let mut prepared = Self::build(dataset, &config, model.schema.clone(), Inputs::Kept, cache)?;
        prepared.scaling = model.scaling.clone();
        prepared.scaling.scale_inputs(&mut prepared.graphs);
        Ok(prepared)
    }

    fn build(
        dataset: Dataset,
        config: &Config,
        mut schema: Schema,
        inputs: Inputs,
        cache: Option<&EncodingCache>,
    ) -> Result<Self> {
        let (loss, output_kind) = (config.loss(&schema)?, config.outputs(&schema)?);
        let (mut graphs, splits, links) = match config.data.task {
            TaskName::Auto | TaskName::Regression | TaskName::Classification => {
                let splits = match dataset.split() {
                    _ if config.data.folds.is_some() => draw_fold(&dataset, config)?,
                    Some(splits) => splits.clone(),
                    None => draw_split(&dataset, config, usual_level(&dataset))?,
                };
                let (divided, targets) = (splits.level, config.target(&schema)?.level);
                if divided != Level::Graph && divided != targets {
                    return Err(DataProblem::SplitLevel { divided, targets }.into());
                }
                (dataset.into_graphs(), splits, None)
            }
            TaskName::Links => {
                if config.data.folds.is_some() {
                    return Err(DataProblem::FoldsOfLinks.into());
                }
                schema.target = None;
                let (links, graphs) = Links::new(dataset, config)?;
                (graphs, Splits::new(Level::Graph), Some(links))
            }
        };
        let training = match (&links, splits.level) {
            (None, Level::Graph) => splits.rows(Split::Train.name()),
            _ => (0..graphs.len()).collect(),
        };
        let mut hidden = HiddenValues::default();
        match inputs {
            Inputs::Kept => {}
            Inputs::Inferred => hidden = add_other(&mut schema, &mut graphs, &training, &config.data),
            Inputs::Renumbered(columns) => columns.iter().for_each(|Renumbering { level, column, places }| {
                graphs.map_categories(*level, *column, |value| places[value as usize]);
            }),
        }
        ensure_encodings(&mut graphs, &config.model, cache)?;
        let mut decided = config.clone();
        decided.links.directed = links.as_ref().map(Links::directed).or(config.links.directed);
        let network = decided.network(&schema)?;
        let (metric, scaling) = (Metric::of(output_kind), Scaling::default());
        Ok(Self {
            schema,
            network,
            loss,
            output_kind,
            metric,
            form: config.model.metrics,
            selection: Selection::new(config, metric)?,
            scope: config.model.graph,
            graphs,
            scaling,
            links,
            splits,
            fingerprint: String::new(),
            encodings_sha256: String::new(),
            init: None,
            frozen: Frozen::default(),
            hidden,
        })
    }

    /// A model of these weights, for this data.
    pub(crate) fn model(&self, config: &Config, weights: Weights) -> Model {
        let mut config = config.clone();
        if let Some(links) = &self.links {
            // The decision from this data also holds for other data.
            config.links.directed = Some(links.directed());
        }
        Model { config, schema: self.schema.clone(), scaling: self.scaling.clone(), weights }
    }

    /// The targets that are predicted: those of the data, or links.
    pub fn target(&self) -> Cow<'_, TargetSchema> {
        self.schema.target.as_ref().map_or_else(|| Cow::Owned(TargetSchema::link()), Cow::Borrowed)
    }

    /// The level of the predictions.
    pub fn level(&self) -> Level {
        self.network.reads.level()
    }

    /// Numbers per row of scored predictions: targets, or logits of classes.
    pub fn outputs(&self) -> usize {
        if self.output_kind == OutputKind::TwoClasses { 2 } else { self.network.outputs() }
    }

    /// Graphs that hold rows of a split: all of them where nodes or edges are split.
    pub fn graphs_of(&self, split: Split) -> Vec<usize> {
        if let Some(links) = &self.links {
            return links.graphs_of(split, self.graphs.len());
        }
        match self.splits.level {
            Level::Graph => self.splits.rows(split.name()),
            _ => (0..self.graphs.len()).collect(),
        }
    }

    /// Whether a row of the targets (counted over all graphs) belongs to a split; always, where
    /// whole graphs are split.
    pub fn belongs(&self, split: Split, row: usize) -> bool {
        !self.splits_rows() || self.splits.name(row) == split.name()
    }

    /// The splits of graphs, nodes or edges; none for links, which have splits of their own.
    pub fn splits(&self) -> Option<&Splits> {
        self.links.is_none().then_some(&self.splits)
    }

    /// The level that is divided into splits.
    pub fn split_level(&self) -> Level {
        self.splits.level
    }

    /// Whether rows of the targets are split, not whole graphs.
    fn splits_rows(&self) -> bool {
        self.splits.level != Level::Graph && self.splits.level == self.level()
    }

    /// Sizes and targets of each split, as they are trained on. For link prediction: of all graphs,
    /// without the held-out edges.
    pub fn statistics(&self) -> Vec<(String, PartInfo)> {
        let splits = self.links.is_none().then_some(&self.splits);
        PartInfo::of_all(&self.graphs, &self.schema, splits)
    }

    /// Splits that are not used although their names resemble `train`, `val` or `test` (`Train`,
    /// `valid`), with their numbers of rows.
    pub fn mistaken_splits(&self) -> Vec<(&str, usize)> {
        let used = Split::ALL.map(Split::name);
        let alike = |name: &str| {
            let plain = name.trim().to_lowercase();
            !used.contains(&name) && used.iter().any(|used| plain.starts_with(used))
        };
        let names = self.splits.names.iter().map(String::as_str).filter(|name| self.links.is_none() && alike(name));
        names.map(|name| (name, self.splits.rows(name).len())).collect()
    }

    /// Nodes whose Weisfeiler–Lehman role lies beyond the model's vocabulary, and so shares the
    /// last one.
    pub fn roles_beyond(&self) -> usize {
        self.graphs.roles_beyond(self.network.node.roles)
    }

    /// Rows of the targets that belong to a split.
    fn rows_of(&self, split: Split) -> impl Iterator<Item = usize> {
        let graphs = self.graphs_of(split).into_iter();
        graphs.flat_map(|graph| self.graphs.row_range(self.level(), graph)).filter(move |&row| self.belongs(split, row))
    }

    /// Column and value of each label of a split that is present.
    pub(crate) fn labels_by_column(&self, split: Split) -> impl Iterator<Item = (usize, f64)> {
        let columns = self.target().columns.len();
        let rows = self.rows_of(split).flat_map(move |row| (0..columns).map(move |column| (row * columns, column)));
        let target = self.graphs.target();
        rows.filter_map(move |(first, column)| Some((column, target.as_ref()?.get(first + column)?)))
    }

    /// Number of rows of the targets (graphs, nodes or edges) in a split, or of links for link
    /// prediction.
    pub fn rows_in(&self, split: Split) -> usize {
        self.links.as_ref().map_or_else(|| self.rows_of(split).count(), |links| links.count(split))
    }

    /// Number of rows of a split with at least one label, and of rows without any. For link
    /// prediction: of links, all of which have labels.
    pub fn labelled_rows_in(&self, split: Split) -> (usize, usize) {
        let all = self.rows_in(split);
        let Some(target) = self.graphs.target().filter(|_| self.links.is_none()) else { return (all, 0) };
        let columns = self.target().columns.len();
        let has_label = |row: &usize| (row * columns..(row + 1) * columns).any(|at| target.get(at).is_some());
        let labelled = self.rows_of(split).filter(has_label).count();
        (labelled, all - labelled)
    }

    /// The class whose probability the ranking metrics of two classes use.
    pub fn positive_class(&self) -> Option<String> {
        let column = &self.target().columns[0];
        let two = matches!(self.output_kind, OutputKind::TwoClasses | OutputKind::Classes) && column.classes == 2;
        two.then(|| column.class_name(1))
    }

    /// For each target, the label that all labelled rows of the training split have, and their
    /// number; `None` where labels differ.
    pub fn only_labels(&self) -> Vec<Option<(f64, usize)>> {
        let mut seen: Vec<(Option<f64>, usize, bool)> = vec![(None, 0, false); self.target().columns.len()];
        for (column, value) in self.labels_by_column(Split::Train) {
            let (first, count, differ) = &mut seen[column];
            *count += 1;
            *differ |= *first.get_or_insert(value) != value;
        }
        seen.into_iter().map(|(first, count, differ)| first.filter(|_| !differ).map(|value| (value, count))).collect()
    }

    /// Number of labels in a split, or of links for link prediction.
    pub fn labels_in(&self, split: Split) -> usize {
        if let Some(links) = &self.links {
            return links.count(split);
        }
        let Some(target) = self.graphs.target() else { return 0 };
        let columns = self.target().columns.len();
        let values = self.rows_of(split).flat_map(|row| row * columns..(row + 1) * columns);
        values.filter(|&at| target.get(at).is_some()).count()
    }

    /// Checks that a split has labels to learn from or to be scored by.
    ///
    /// # Errors
    /// If it has no labels, with the splits that there are.
    pub fn ensure_labels(&self, split: Split) -> Result<()> {
        if self.labels_in(split) > 0 {
            return Ok(());
        }
        let known = &self.splits.names;
        Err(match self.links {
            Some(_) => DataProblem::NoLinks(split),
            None if known.iter().any(|known| known == split.name()) => DataProblem::NoLabels(split),
            None => DataProblem::NoSplit { split, known: known.clone() },
        }
        .into())
    }

    /// Mean and deviation of each column over the training split.
    fn target_scaling(&self) -> Vec<(f64, f64)> {
        let Some(target) = self.graphs.target() else { return Vec::new() };
        let columns = self.target().columns.len();
        let rows: Vec<usize> = self.rows_of(Split::Train).collect();
        (0..columns)
            .map(|column| mean_and_spread(rows.iter().filter_map(|row| target.get(row * columns + column))))
            .collect()
    }

    /// Mean and deviation of each continuous feature over the graphs of the training split.
    fn input_scaling(&self, level: Level) -> Vec<(f64, f64)> {
        let layout = self.graphs.layout();
        let columns = if level == Level::Node { layout.node.continuous } else { layout.edge.continuous };
        let (values, graphs) = (self.graphs.continuous(level), self.graphs_of(Split::Train));
        let rows = || graphs.iter().flat_map(|&graph| self.graphs.row_range(level, graph));
        let column = |column| mean_and_spread(rows().map(move |row| f64::from(values[row * columns + column])));
        (0..columns).map(column).collect()
    }

    /// Turns outputs on the scale of training into those on the data's.
    pub fn unscale(&self, outputs: &mut [f32]) {
        self.scaling.unscale(outputs);
    }

    /// Labels of a split in a batch of these graphs; those of other splits are missing.
    fn labels_of(&self, split: Split, graphs: &[usize], batch: &GraphBatch) -> Labels {
        let columns = self.target().columns.len();
        let Some(target) = batch.target() else { return Labels::Absent };
        // Row numbers over all graphs, in the batch's order; only needed where rows are split.
        let rows = if self.splits_rows() { self.row_numbers(graphs, batch) } else { Vec::new() };
        let own = |at: usize| rows.is_empty() || self.belongs(split, rows[at / columns]);
        match target {
            TargetRows::Float(values) => {
                let scaled =
                    values.iter().enumerate().map(|(at, &value)| match self.scaling.target.get(at % columns) {
                        _ if !own(at) => f32::NAN,
                        Some((mean, deviation)) => ((f64::from(value) - mean) / deviation) as f32,
                        None => value,
                    });
                Labels::Float(scaled.collect())
            }
            TargetRows::Class(values) => {
                let kept = values.iter().enumerate().map(|(at, &value)| if own(at) { value } else { MISSING_CLASS });
                Labels::Class(kept.collect())
            }
        }
    }

    /// Size of a graph in passes over a split, as far as memory depends on it.
    pub(crate) fn size_in(&self, split: Split, graph: usize) -> GraphSize {
        let pairs = self.links.as_ref().map_or(0, |links| links.scored(split, graph));
        GraphSize { pairs, ..GraphSize::new(&self.graphs.graph(graph), self.scope) }
    }

    /// For each row of a batch's targets its number over all graphs.
    fn row_numbers(&self, graphs: &[usize], batch: &GraphBatch) -> Vec<usize> {
        let level = self.level();
        if level != Level::Edge {
            return graphs.iter().flat_map(|&graph| self.graphs.row_range(level, graph)).collect();
        }
        // Edges of a batch lie in in-order.
        (0..batch.num_graphs())
            .flat_map(|position| {
                let first = self.graphs.edge_range(graphs[position]).start;
                let edges = batch.edges_of(position);
                let start = edges.start;
                edges.map(move |edge| first + batch.in_to_list()[edge] as usize - start)
            })
            .collect()
    }
}

impl DataSource for Prepared {
    fn graphs(&self) -> &GraphStore {
        &self.graphs
    }

    fn scope(&self) -> AttentionScope {
        self.scope
    }

    fn labels(&self, split: Split) -> Result<Labels, GraphError> {
        labels_by_batches(&self.graphs, |graphs, batch| self.labels_of(split, graphs, batch))
    }

    fn size(&self, plan: &PassPlan, graph: usize) -> GraphSize {
        self.size_in(plan.split, graph)
    }

    fn fill(&self, plan: &PassPlan, number: usize, batch: &mut PreparedBatch) -> Result<(), GraphError> {
        let graphs = plan.order.batch(number);
        if let Some(links) = &self.links {
            links.fill(&self.graphs, plan.split, graphs, pair_stream(plan, number), batch)?;
        } else {
            batch.graphs.assemble(&self.graphs, graphs)?;
            batch.labels = self.labels_of(plan.split, graphs, &batch.graphs);
        }
        self.hidden.hide(plan, number, &mut batch.graphs);
        Ok(())
    }
}

/// A split of a level, drawn from the configuration's seed.
pub(crate) fn draw_split(dataset: &Dataset, config: &Config, level: Level) -> Result<Splits, DataProblem> {
    let names = Split::ALL.map(Split::name);
    let shares = names.iter().zip(config.data.split).map(|(name, share)| ((*name).to_owned(), share)).collect();
    let plan = SplitPlan { by: SplitBy::Random, parts: Parts::Shares(shares), level, seed: config.data.split_seed };
    make_split(dataset, &plan).map_err(DataProblem::CannotSplit)
}

/// The split of the configuration's fold.
fn draw_fold(dataset: &Dataset, config: &Config) -> Result<Splits, DataProblem> {
    let DataConfig { folds, fold, split: [train, val, _], split_seed: seed, .. } = config.data;
    let (Some(folds), Some(fold)) = (folds, fold) else { return Err(DataProblem::NoFold) };
    let plan = FoldPlan { folds, fold, val: val / (train + val), seed };
    make_fold(dataset, &plan).map_err(DataProblem::CannotFold)
}
