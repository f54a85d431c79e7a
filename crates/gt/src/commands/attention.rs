//! `gt attention`

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Result, anyhow, ensure};
use clap::Args;
use gt_data::Records;
use gt_graph::GraphRef;
use gt_models::{GraphAttention, Model};
use gt_nn::Network;
use gt_train::QueryGraphs;
use serde::Serialize;
use serde_json::Value;

use super::model_args::ModelArgs;
use super::output::OutputCheck;
use crate::console;
use crate::drawing::{MOST_NODES, Picture, to_png};

/// Write or draw the softmax weights of a trained model's attention, for one graph.
///
/// A table has the columns layer, head, source, target and weight. JSON is one object with weights
/// nested by layer, head and edge. SVG and PNG are drawings of one layer and head. Layers and heads
/// are numbered from 1, nodes and graphs from 0. The weights of the edges into a node add up to 1.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
gt attention runs/mine --data new.jsonl --graph 0 --out first.png\n  \
gt attention runs/mine --data new.jsonl --graph 0 --head mean --out first.csv")]
pub struct Arguments {
    #[command(flatten)]
    model: ModelArgs,
    /// Graphs, with the columns that the model was trained on
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// Number of the graph in the data, from 0
    #[arg(long, value_name = "I")]
    graph: usize,
    /// File to write: .svg, .png, .json, .parquet, .csv, .tsv or .jsonl
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Layer, from 1 [default: all; in a drawing the last]
    #[arg(long, value_name = "L")]
    layer: Option<usize>,
    /// Head, from 1, or `mean` over all [default: all; in a drawing 1]
    #[arg(long, value_name = "H")]
    head: Option<Head>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Head {
    Number(usize),
    Mean,
}

impl FromStr for Head {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "mean" => Ok(Head::Mean),
            _ => text.parse().map(Head::Number).map_err(|_| "expected a number from 1, or `mean`".into()),
        }
    }
}

/// Layers and heads to write, from 0; `None` is the mean over heads.
struct Chosen(Vec<(usize, Vec<Option<usize>>)>);

/// The attention as one JSON object.
#[derive(Serialize)]
struct Object<'a> {
    graph: usize,
    nodes: usize,
    edges: &'a [(usize, usize)],
    /// Numbers of the layers in `weights`.
    layers: Vec<usize>,
    /// Numbers of the heads, or `mean`; a layer with fewer heads has the first of them.
    heads: Vec<Value>,
    /// By layer, head and edge.
    weights: Vec<Vec<Vec<f32>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Svg,
    Png,
    Json,
    Table,
}

impl Arguments {
    pub fn run(self) -> Result<()> {
        let form = match &*gt_data::extension(&self.out) {
            "svg" => Form::Svg,
            "png" => Form::Png,
            "json" => Form::Json,
            _ => Form::Table,
        };
        if form == Form::Table {
            Records::check(&self.out).map_err(|_| {
                anyhow!(
                    "{}: unknown format: expected .svg, .png, .json, .parquet, .csv, .tsv or .jsonl",
                    self.out.display()
                )
            })?;
        }
        let check = OutputCheck::of_file(&self.out).reads_dataset("--data", &self.data);
        check.reads("MODEL", &self.model.model).check()?;
        let model = self.model.open()?;
        let chosen = self.choose(model.network(), form)?;
        let graphs = QueryGraphs::read(&self.data, &model)?;
        let graph = self.find(&graphs)?;
        let attention = model.attention(graphs.store(), graph)?;
        match form {
            Form::Svg | Form::Png => {
                let svg = self.draw(&model, graphs.store().graph(graph), &attention, &chosen)?;
                let bytes = if form == Form::Png { to_png(&svg)? } else { svg.into_bytes() };
                gt_data::write_bytes(&self.out, &bytes)?;
            }
            Form::Json => {
                let text = serde_json::to_string(&self.object(&attention, &chosen))?;
                gt_data::write_bytes(&self.out, (text + "\n").as_bytes())?;
            }
            Form::Table => table(&attention, &chosen).write(&self.out)?,
        }
        let GraphAttention { nodes, edges, .. } = attention;
        console::say!("wrote {}: graph {}, {nodes} nodes, {} edges", self.out.display(), self.graph, edges.len());
        Ok(())
    }

    /// Position of the graph among the usable ones of the file.
    fn find(&self, graphs: &QueryGraphs) -> Result<usize> {
        let (file, number, count) = (self.data.display(), self.graph, graphs.len());
        ensure!(number < count, "{file}: there is no graph {number}; there are {count}, counted from 0");
        graphs.position(number).map_err(|rejected| anyhow!("{file}: graph {number}: {}", rejected.reason))
    }

    fn choose(&self, network: &Network, form: Form) -> Result<Chosen> {
        let (model, layers) = (self.model.model.display(), network.layers);
        ensure!(layers > 0, "{model}: the model has no layers, so there is no attention");
        ensure!(
            network.attending_branch().is_some(),
            "{model}: the model's layers do not weigh edges by attention, so there is none to show"
        );
        let among = |what: &str, number: usize, count: usize, of: &str| {
            ensure!((1..=count).contains(&number), "--{what} {number}: {of} has the {what}s 1 to {count}");
            Ok(number - 1)
        };
        let drawing = matches!(form, Form::Svg | Form::Png);
        let chosen = match self.layer {
            Some(layer) => vec![among("layer", layer, layers, "the model")?],
            None if drawing => vec![layers - 1],
            None => (0..layers).collect(),
        };
        // The last layer may have fewer heads than the others.
        let most = chosen.iter().map(|&layer| network.heads(layer)).max().unwrap_or(0);
        let fewer = most < network.channels.heads();
        let of = if fewer { format!("layer {}", chosen[0] + 1) } else { "the model".to_owned() };
        let head = match self.head {
            Some(Head::Number(head)) => Some(among("head", head, most, &of)?),
            _ => None,
        };
        let heads = |layer: usize| match self.head {
            Some(Head::Mean) => vec![None],
            Some(Head::Number(_)) => vec![head],
            None if drawing => vec![Some(0)],
            None => (0..network.heads(layer)).map(Some).collect(),
        };
        let has = |layer: &usize| head.is_none_or(|head| head < network.heads(*layer));
        Ok(Chosen(chosen.into_iter().filter(has).map(|layer| (layer, heads(layer))).collect()))
    }

    fn object<'a>(&self, attention: &'a GraphAttention, chosen: &Chosen) -> Object<'a> {
        let weights = |(layer, heads): &(usize, Vec<Option<usize>>)| {
            heads.iter().map(|&head| attention.weights(*layer, head)).collect()
        };
        let heads = chosen.0.iter().map(|(_, heads)| heads).max_by_key(|heads| heads.len());
        let name = |head: &Option<usize>| head.map_or(Value::from("mean"), |head| (head + 1).into());
        Object {
            graph: self.graph,
            nodes: attention.nodes,
            edges: &attention.edges,
            layers: chosen.0.iter().map(|(layer, _)| layer + 1).collect(),
            heads: heads.into_iter().flatten().map(name).collect(),
            weights: chosen.0.iter().map(weights).collect(),
        }
    }

    fn draw(&self, model: &Model, graph: GraphRef<'_>, attention: &GraphAttention, chosen: &Chosen) -> Result<String> {
        let nodes = attention.nodes;
        ensure!(
            nodes <= MOST_NODES,
            "{}: graph {} has {nodes} nodes; at most {MOST_NODES} can be drawn, a table holds more",
            self.data.display(),
            self.graph
        );
        let structure: Vec<(usize, usize)> =
            graph.src().iter().zip(graph.dst()).map(|(&s, &d)| (s as usize, d as usize)).collect();
        let names = &model.schema.node.categorical;
        let values: Vec<u32> = graph.node().categorical.iter().step_by(names.len().max(1)).copied().collect();
        let (layer, head) = (chosen.0[0].0, chosen.0[0].1[0]);
        let head_name = head.map_or("mean of heads".to_owned(), |head| format!("head {}", head + 1));
        let path = &self.model.model;
        let run = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let picture = Picture {
            title: format!("{run} · graph {} · layer {} · {head_name}", self.graph, layer + 1),
            nodes,
            structure: &structure,
            edges: &attention.edges,
            weights: &attention.weights(layer, head),
            categories: names.first().map(|first| (first.name.as_str(), values.as_slice())),
        };
        Ok(picture.svg())
    }
}

/// A row per layer, head and edge; no head stands for the mean over heads.
fn table(attention: &GraphAttention, chosen: &Chosen) -> Records {
    let edges = attention.edges.len();
    let blocks: Vec<(usize, Option<usize>)> =
        chosen.0.iter().flat_map(|(layer, heads)| heads.iter().map(move |&head| (*layer, head))).collect();
    let per_edge = |value: Option<usize>| std::iter::repeat_n(value, edges);
    let mut records = Records::default();
    records.integers("layer", blocks.iter().flat_map(|(layer, _)| per_edge(Some(layer + 1))));
    records.integers("head", blocks.iter().flat_map(|(_, head)| per_edge(head.map(|head| head + 1))));
    records.integers("source", blocks.iter().flat_map(|_| attention.edges.iter().map(|edge| Some(edge.0))));
    records.integers("target", blocks.iter().flat_map(|_| attention.edges.iter().map(|edge| Some(edge.1))));
    records.reals("weight", blocks.iter().flat_map(|&(layer, head)| attention.weights(layer, head)));
    records
}
