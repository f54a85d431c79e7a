//! Defaults from the data: what a configuration leaves open is chosen by the size of the data, the
//! inputs and the task.
//!
//! The rules were chosen by the experiment in `bench/defaults`; `docs/reference/training.md` has
//! them as a table. A key that the user sets always wins, and other rules follow its value.

use gt_graph::{GraphStore, Schema, TargetKind, TargetSchema};

use crate::Config;
use crate::config::{Encoding, LossName, ModelConfig, Optimizer, Schedule, Select, SetKeys, TaskName};

/// The properties of a data set that decide the defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct DataFacts {
    /// Graphs, or graphs of the training split where graphs are split.
    pub graphs: usize,
    /// Labelled graphs, nodes or edges to learn from.
    pub rows: usize,
    /// Mean number of nodes of a graph.
    pub nodes: f64,
    /// Number of nodes of the largest graph.
    pub largest: usize,
    /// Numbers that describe a node: sizes of vocabularies, and continuous columns.
    pub inputs: usize,
    /// Whether nodes or edges have continuous features.
    pub continuous: bool,
    /// What is predicted.
    pub task: Task,
    /// Share of the rarest class among the labelled rows; 1 where nothing is classified.
    pub rarest: f64,
    /// The encoding that the data stores, with its numbers per node.
    pub stored: Option<(Encoding, usize)>,
}

/// What is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Real numbers.
    Regression,
    /// One of two classes.
    TwoClasses,
    /// One of several classes.
    Classes,
    /// Several yes/no labels.
    Labels,
    /// Which nodes are joined.
    Links,
}

impl Task {
    fn of(target: Option<&TargetSchema>, task: TaskName) -> Self {
        let Some(target) = target.filter(|_| task != TaskName::Links) else { return Task::Links };
        match (target.kind, &*target.columns) {
            (TargetKind::Float, _) => Task::Regression,
            (TargetKind::Class, [column]) if column.classes <= 2 => Task::TwoClasses,
            (TargetKind::Class, [_]) => Task::Classes,
            (TargetKind::Class, _) => Task::Labels,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Task::Regression => "regression",
            Task::TwoClasses => "two classes",
            Task::Classes => "several classes",
            Task::Labels => "several yes/no labels",
            Task::Links => "links",
        }
    }
}

/// How much there is to learn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Regime {
    /// Many graphs.
    Graphs,
    /// One network, or a few, with fewer labelled rows than inputs of a node.
    FewLabels,
    /// One network, or a few, with many labelled rows.
    Network,
}

/// Networks have at least this many nodes on average; smaller graphs count as many graphs.
const NETWORK_NODES: f64 = 1_000.0;
/// Random walks are computed for graphs of at most this many nodes.
const WALK_NODES: usize = 1_500;

/// Eigenvectors are computed for networks of at most this many nodes, or if nodes have no features.
const ENCODED_NODES: usize = 20_000;
/// A rarer class than this share makes accuracy a poor measure.
const RARE: f64 = 0.2;

impl DataFacts {
    /// Measures a data set with `training` graphs to learn from. `classes` counts the labelled rows
    /// of each class; numbers count as one class.
    pub fn new(config: &Config, schema: &Schema, graphs: &GraphStore, training: usize, classes: &[usize]) -> Self {
        let words = |columns: &gt_graph::FeatureSchema| -> usize {
            let categorical: usize = columns.categorical.iter().map(|column| column.size).sum();
            categorical + columns.continuous.len() + columns.multi_hot.as_ref().map_or(0, |column| column.size)
        };
        let encodings = graphs.encodings();
        let width = |of: &Option<gt_graph::encoding::Coordinates>| of.as_ref().map(|found| found.width);
        let stored = width(&encodings.laplacian)
            .map(|width| (Encoding::Laplacian, width))
            .or(width(&encodings.random_walk).map(|width| (Encoding::RandomWalk, width)));
        Self {
            graphs: training,
            rows: classes.iter().sum(),
            nodes: graphs.num_nodes() as f64 / graphs.len().max(1) as f64,
            largest: (0..graphs.len()).map(|graph| graphs.node_range(graph).len()).max().unwrap_or(0),
            inputs: words(&schema.node),
            continuous: !schema.node.continuous.is_empty() || !schema.edge.continuous.is_empty(),
            task: Task::of(schema.target.as_ref(), config.data.task),
            rarest: match classes {
                [_] | [] => 1.0,
                _ => *classes.iter().min().unwrap_or(&0) as f64 / classes.iter().sum::<usize>().max(1) as f64,
            },
            stored,
        }
    }
}

impl DataFacts {
    fn regime(&self) -> Regime {
        match () {
            () if self.nodes < NETWORK_NODES => Regime::Graphs,
            () if self.rows < self.inputs => Regime::FewLabels,
            () => Regime::Network,
        }
    }

    /// Fills in the keys of a configuration that are not set.
    ///
    /// ```
    /// use graph_transformer_models::Config;
    /// use graph_transformer_models::config::SetKeys;
    /// use graph_transformer_models::defaults::{DataFacts, Task};
    ///
    /// let molecules = DataFacts {
    ///     graphs: 900,
    ///     rows: 900,
    ///     nodes: 13.3,
    ///     largest: 55,
    ///     inputs: 30,
    ///     continuous: false,
    ///     task: Task::Regression,
    ///     rarest: 1.0,
    ///     stored: None,
    /// };
    /// let text = "[model]\nwidth = 60";
    /// let mut config = Config::from_toml(text).unwrap();
    /// molecules.fill(&mut config, &SetKeys::new(text, &[]));
    /// assert!(config.data.standardize && config.check().is_ok());
    /// // Other rules follow a key that is set: heads divide the width.
    /// assert_eq!((config.model.width, config.model.heads), (60, 6));
    /// ```
    pub fn fill(&self, config: &mut Config, set: &SetKeys) {
        self.fill_data(config, set);
        self.fill_model(config, set);
        self.fill_training(config, set);
    }

    fn fill_data(&self, config: &mut Config, set: &SetKeys) {
        choose(set, "data.standardize", &mut config.data.standardize, self.task == Task::Regression);
        choose(set, "data.standardize_inputs", &mut config.data.standardize_inputs, self.continuous);
    }

    fn fill_model(&self, config: &mut Config, set: &SetKeys) {
        let model = &mut config.model;
        let (layers, width, dropout, input_dropout) = match (self.regime(), self.graphs) {
            (Regime::FewLabels, _) => (3, 64, 0.5, 0.5),
            (Regime::Network, _) => (6, 64, 0.2, 0.0),
            (Regime::Graphs, ..600) => (4, 64, 0.1, 0.0),
            (Regime::Graphs, ..2_000) => (4, 64, 0.0, 0.0),
            (Regime::Graphs, ..20_000) => (6, 64, 0.0, 0.0),
            (Regime::Graphs, _) => (8, 64, 0.0, 0.0),
        };
        choose(set, "model.layers", &mut model.layers, layers);
        choose(set, "model.width", &mut model.width, width);
        if model.has_heads() {
            choose(set, "model.heads", &mut model.heads, ModelConfig::usual_heads(model.width));
        }
        choose(set, "model.dropout", &mut model.dropout, dropout);
        choose(set, "model.input_dropout", &mut model.input_dropout, input_dropout);
        let walks = self.largest <= WALK_NODES;
        let (encoding, size) = match self.stored {
            Some(stored) => stored,
            None if self.regime() == Regime::Graphs && walks => (Encoding::RandomWalk, 16),
            None if self.regime() == Regime::Graphs || self.largest <= ENCODED_NODES => (Encoding::Laplacian, 8),
            // Without features nothing else tells nodes apart.
            None if self.inputs == 0 => (Encoding::Laplacian, 8),
            None => (Encoding::None, model.encoding_size),
        };
        choose(set, "model.encoding", &mut model.encoding, encoding);
        if model.encoding == encoding {
            choose(set, "model.encoding_size", &mut model.encoding_size, size);
        }
    }

    fn fill_training(&self, config: &mut Config, set: &SetKeys) {
        let Config { optimizer, schedule, train, .. } = config;
        let (batch, epochs, lr, decay) = match (self.regime(), self.graphs) {
            (Regime::FewLabels, _) => (1, 200, 5e-3, 5e-4),
            (Regime::Network, _) => (1, 300, 1e-3, 0.0),
            (Regime::Graphs, ..400) => (16, 150, 1e-3, 0.0),
            (Regime::Graphs, ..5_000) => (32, 120, 1e-3, 0.0),
            (Regime::Graphs, ..20_000) => (64, 120, 1e-3, 0.0),
            (Regime::Graphs, graphs) => (128, (2_000_000 / graphs).clamp(20, 100), 1e-3, 0.0),
        };
        choose(set, "train.batch", &mut train.batch, batch);
        choose(set, "train.epochs", &mut train.epochs, epochs);
        choose(set, "train.early_stop", &mut train.early_stop, (train.epochs / 2).max(30));
        if self.task == Task::TwoClasses {
            choose(set, "train.loss", &mut train.loss, LossName::Bce);
            let select = if self.rarest < RARE { Select::RocAuc } else { Select::Auto };
            choose(set, "train.select", &mut train.select, select);
        }
        choose(set, "optimizer.lr", &mut optimizer.lr, lr);
        choose(set, "optimizer.weight_decay", &mut optimizer.weight_decay, decay);
        choose(set, "optimizer.name", &mut optimizer.name, Optimizer::Adam);
        choose(set, "schedule.name", &mut schedule.name, Schedule::Cosine);
        if schedule.name == Schedule::Cosine {
            choose(set, "schedule.min_lr", &mut schedule.min_lr, optimizer.lr / 100.0);
            choose(set, "schedule.warmup", &mut schedule.warmup, (train.epochs / 20).min(5));
        }
    }

    /// The chosen values in three lines: what they follow from, the network, and the training.
    pub fn describe(&self, config: &Config) -> [String; 3] {
        let Config { model, optimizer, schedule, train, .. } = config;
        let encoding = match model.encoding {
            Encoding::None => "no encoding".to_owned(),
            Encoding::Wl => "Weisfeiler–Lehman roles".to_owned(),
            Encoding::Laplacian => format!("{} Laplacian eigenvectors", model.encoding_size),
            Encoding::RandomWalk => format!("{} random-walk steps", model.encoding_size),
        };
        let schedule = match schedule.name {
            Schedule::Plateau => "plateau",
            Schedule::Cosine => "cosine",
            Schedule::Constant => "constant",
        };
        let counted = |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
        [
            format!("defaults for {} with {}", self.task.name(), counted(self.rows, "training row")),
            format!(
                "  network: {} of width {}, {encoding}, dropout {}",
                counted(model.layers, "layer"),
                model.width,
                model.dropout
            ),
            format!(
                "  training: batch {}, at most {}, lr {}, {schedule}",
                train.batch,
                counted(train.epochs, "epoch"),
                optimizer.lr
            ),
        ]
    }
}

/// Sets a value unless the user has set its key.
fn choose<T>(set: &SetKeys, key: &str, value: &mut T, chosen: T) {
    if !set.contains(key) {
        *value = chosen;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(graphs: usize, rows: usize, nodes: f64, inputs: usize, task: Task) -> DataFacts {
        let largest = nodes as usize * 2;
        DataFacts { graphs, rows, nodes, largest, inputs, continuous: false, task, rarest: 1.0, stored: None }
    }

    fn filled(facts: &DataFacts, settings: &[&str]) -> Config {
        let settings: Vec<String> = settings.iter().map(|&setting| setting.into()).collect();
        let mut config = Config::from_toml_with("", &settings).unwrap();
        facts.fill(&mut config, &SetKeys::new("", &settings));
        config.check().unwrap();
        config
    }

    #[test]
    fn the_rules_are_those_of_the_documented_table() {
        let rules = [
            (facts(1, 140, 2_708.0, 1_433, Task::Classes), (3, 0.5, 1, 200, 5e-3, Encoding::Laplacian)),
            (facts(1, 5_000, 10_000.0, 7, Task::TwoClasses), (6, 0.2, 1, 300, 1e-3, Encoding::Laplacian)),
            (facts(1, 20_000, 40_000.0, 5, Task::Classes), (6, 0.2, 1, 300, 1e-3, Encoding::None)),
            (facts(90, 90, 41.0, 0, Task::Classes), (4, 0.1, 16, 150, 1e-3, Encoding::RandomWalk)),
            (facts(500, 500, 13.0, 40, Task::Regression), (4, 0.1, 32, 120, 1e-3, Encoding::RandomWalk)),
            (facts(900, 900, 13.0, 40, Task::Regression), (4, 0.0, 32, 120, 1e-3, Encoding::RandomWalk)),
            (facts(3_000, 3_000, 27.0, 40, Task::Labels), (6, 0.0, 32, 120, 1e-3, Encoding::RandomWalk)),
            (facts(10_000, 10_000, 23.0, 28, Task::Regression), (6, 0.0, 64, 120, 1e-3, Encoding::RandomWalk)),
            (facts(220_000, 220_000, 23.0, 28, Task::Regression), (8, 0.0, 128, 20, 1e-3, Encoding::RandomWalk)),
            // Walks of large graphs take too long.
            (facts(300, 300, 900.0, 4, Task::Regression), (4, 0.1, 16, 150, 1e-3, Encoding::Laplacian)),
            // Without node features only the encoding tells nodes apart.
            (facts(1, 20_000, 40_000.0, 0, Task::Classes), (6, 0.2, 1, 300, 1e-3, Encoding::Laplacian)),
        ];
        for (facts, (layers, dropout, batch, epochs, lr, encoding)) in rules {
            let config = filled(&facts, &[]);
            let Config { model, optimizer, train, .. } = &config;
            assert_eq!((model.layers, model.dropout, model.encoding), (layers, dropout, encoding), "{facts:?}");
            assert_eq!((train.batch, train.epochs, optimizer.lr), (batch, epochs, lr), "{facts:?}");
            assert_eq!(config.data.standardize, facts.task == Task::Regression);
            let lines = facts.describe(&config);
            assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:?}");
        }
    }

    #[test]
    fn keys_of_the_user_win_and_a_stored_encoding_is_taken() {
        let molecules = facts(900, 900, 13.0, 40, Task::TwoClasses);
        let settings = ["model.layers=2", "train.epochs=40", "schedule.name=plateau", "train.loss=cross-entropy"];
        let config = filled(&molecules, &settings);
        assert_eq!((config.model.layers, config.train.epochs, config.train.early_stop), (2, 40, 30));
        assert_eq!((config.schedule.name, config.schedule.warmup), (Schedule::Plateau, 0));
        assert_eq!(config.train.loss, LossName::CrossEntropy);
        // The rate at the end of a cosine follows a rate that is set.
        assert_eq!(filled(&molecules, &["optimizer.lr=1e-5"]).schedule.min_lr, 1e-5 / 100.0);
        let stored = DataFacts { stored: Some((Encoding::Laplacian, 5)), rarest: 0.1, ..molecules };
        let config = filled(&stored, &[]);
        assert_eq!((config.model.encoding, config.model.encoding_size), (Encoding::Laplacian, 5));
        assert_eq!((config.train.loss, config.train.select), (LossName::Bce, Select::RocAuc));
        // Another encoding than the stored one keeps its own size.
        assert_eq!(filled(&stored, &["model.encoding=random-walk"]).model.encoding_size, 8);
    }
}
