//! Predictions of a model for graphs in memory.

use std::borrow::Cow;

use gt_graph::{GraphBatch, GraphStore, Level, Split};
use gt_nn::backend::{Backend, Cpu, Cuda, CudaDataset, CudaSettings, Device, GraphSource, PassPlan, run};
use gt_nn::cpu::Isa;
use gt_nn::cuda::{CpuOnly, CudaError};

use super::{Model, ModelError};
use crate::config::{OutputKind, TaskName};

/// Outputs of a model on the data's scale: a row per graph, node or edge, in the order of the
/// graphs and their lists.
///
/// ```
/// use graph_transformer_models::{Predictions, sigmoid};
/// use gt_graph::Level;
///
/// // Logits of two classes for two nodes.
/// let values = vec![0.5, 0.5, 1.0, 4.0];
/// let predictions = Predictions { level: Level::Node, width: 2, values };
/// assert_eq!((predictions.len(), predictions.class(0), predictions.class(1)), (2, 0, 1));
/// assert_eq!(predictions.softmax(0).probability(1), 0.5);
/// assert!((predictions.softmax(1).probability(1) - sigmoid(3.0)).abs() < 1e-6);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Predictions {
    /// What a row belongs to.
    pub level: Level,
    /// Numbers per row: targets, or logits of classes.
    pub width: usize,
    /// All numbers, `[rows, width]`.
    pub values: Vec<f32>,
}

impl Predictions {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.values.len() / self.width.max(1)
    }

    /// True when there is no row.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The outputs of a row.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.width..(row + 1) * self.width]
    }

    /// The most likely class of a row of logits: the first of the largest.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn class(&self, row: usize) -> usize {
        largest(self.row(row))
    }

    /// The probabilities of the classes by softmax over a row of logits.
    ///
    /// # Panics
    /// If there is no such row, or a row has no logits.
    pub fn softmax(&self, row: usize) -> Softmax<'_> {
        let logits = self.row(row);
        let most = f64::from(logits[largest(logits)]);
        let sum = logits.iter().map(|&logit| (f64::from(logit) - most).exp()).sum();
        Softmax { logits, most, sum }
    }

    /// Whether every output of some rows is a finite number.
    pub fn are_finite(&self, rows: std::ops::Range<usize>) -> bool {
        self.values[rows.start * self.width..rows.end * self.width].iter().all(|value| value.is_finite())
    }
}

/// The probabilities of the classes in one row of [`Predictions`].
#[derive(Clone, Copy, Debug)]
pub struct Softmax<'a> {
    logits: &'a [f32],
    /// The largest logit.
    most: f64,
    /// Sum of exp(logit − most).
    sum: f64,
}

impl Softmax<'_> {
    /// The probability of a class.
    ///
    /// # Panics
    /// If there is no such class.
    pub fn probability(&self, class: usize) -> f32 {
        ((f64::from(self.logits[class]) - self.most).exp() / self.sum) as f32
    }
}

/// The probability of yes that a logit stands for.
pub fn sigmoid(logit: f32) -> f32 {
    (1.0 / (1.0 + f64::from(-logit).exp())) as f32
}

/// The position of the largest logit; the first of several.
pub fn largest(logits: &[f32]) -> usize {
    let better = |best: usize, at: usize| if logits[at] > logits[best] { at } else { best };
    (1..logits.len()).fold(0, better)
}

impl Model {
    /// Predicts for graphs, on the CPU. Graphs without the encoding that the model reads get it.
    ///
    /// ```
    /// use graph_transformer_models::{Config, Model, PublishedSet};
    /// use gt_graph::{FeatureRows, GraphParts, GraphStore, Layout};
    ///
    /// let text = "[model]\nlayers = 1\nwidth = 8\nheads = 2\nencoding = \"laplacian\"";
    /// let config = Config::from_toml(text)?;
    /// let model = Model::new(config, PublishedSet::Cluster.schema())?;
    /// let mut graphs = GraphStore::new(Layout { target: None, ..model.schema.layout() });
    /// graphs.push(GraphParts {
    ///     num_nodes: 2,
    ///     src: &[0, 1],
    ///     dst: &[1, 0],
    ///     node: FeatureRows { categorical: &[3, 0], ..Default::default() },
    ///     ..Default::default()
    /// })?;
    /// let predictions = model.predict(&graphs)?;
    /// assert_eq!((predictions.len(), predictions.width), (2, 6));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the graphs have other columns than the model, or values that the model does not know.
    pub fn predict(&self, graphs: &GraphStore) -> Result<Predictions, ModelError> {
        self.predict_on(&Device::Cpu, &*self.encoded(graphs)?)
    }

    /// Predicts on a device for graphs that have the encoding which the model reads.
    ///
    /// # Errors
    /// As [`Model::predict`]; also if the device cannot run the model, or fails.
    pub fn predict_on(&self, device: &Device, graphs: &GraphStore) -> Result<Predictions, ModelError> {
        self.check(graphs)?;
        let target = self.target()?;
        if self.config.data.task == TaskName::Links {
            if device.is_gpu() {
                return Err(ModelError::Backend(CudaError::Unsupported(CpuOnly::Links).into()));
            }
            return self.score_edges(graphs);
        }
        let (level, width) = (target.level, self.network().outputs());
        let graphs = &*self.scaled(Cow::Borrowed(graphs));
        let source = GraphSource::new(graphs, self.scope());
        let loss = self.loss()?;
        let numbers: Vec<usize> = (0..graphs.len()).collect();
        let batch = self.config.train.batch.max(1);
        let plan = PassPlan::evaluation(Split::Test, numbers.clone(), batch);
        let outputs = match device {
            _ if graphs.is_empty() => Vec::new(),
            Device::Cpu => run(&mut Cpu::new(&source, &self.weights, loss, Isa::detect()), plan)?.outputs.values,
            Device::Cuda { device, precision, cache } => {
                let data = CudaDataset::new(device, &source, self.network(), loss, &[Split::Test])?;
                let settings = CudaSettings {
                    loss,
                    batch,
                    signs_per_graph: false,
                    precision: *precision,
                    cache: cache.as_deref(),
                };
                let mut backend: Box<dyn Backend> = Box::new(Cuda::new(&data, &self.weights, &settings, &[numbers])?);
                run(backend.as_mut(), plan)?.outputs.values
            }
        };
        let mut values = if level == Level::Edge { in_list_order(graphs, &outputs, width)? } else { outputs };
        self.scaling.unscale(&mut values);
        let kind = self.config.outputs(&self.schema)?;
        let width = if kind == OutputKind::TwoClasses { 2 } else { width };
        Ok(Predictions { level, width, values: kind.expand(values) })
    }
}

/// Outputs of edges, which batches have sorted by target, in the order of the graphs' lists.
fn in_list_order(graphs: &GraphStore, outputs: &[f32], width: usize) -> Result<Vec<f32>, ModelError> {
    let mut listed = vec![f32::NAN; outputs.len()];
    let mut batch = GraphBatch::new();
    for graph in 0..graphs.len() {
        batch.assemble(graphs, &[graph])?;
        let first = graphs.edge_range(graph).start;
        for (at, &place) in batch.in_to_list().iter().enumerate() {
            let (from, to) = ((first + at) * width, (first + place as usize) * width);
            listed[to..to + width].copy_from_slice(&outputs[from..from + width]);
        }
    }
    Ok(listed)
}
