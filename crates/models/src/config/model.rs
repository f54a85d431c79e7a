//! `[model]`: the network.

use gt_nn::{AttentionScope, Branch, Clamp, Gate, Jump, Norm, Readout};
use serde::{Deserialize, Serialize};

use super::{ProblemKind, Problems, branches};

/// The kind of the layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The Graph Transformer (Dwivedi & Bresson 2021).
    #[default]
    Transformer,
    /// Graph convolutions (Kipf & Welling 2017).
    Gcn,
    /// Graph convolutions with the mean of neighbours, as in the benchmark behind Table 2.
    #[serde(rename = "gcn-mean")]
    GcnMean,
    /// Graph attention (Veličković et al. 2018).
    Gat,
    /// Gated graph convolutions with an edge stream (Bresson & Laurent 2017).
    GatedGcn,
}

impl Kind {
    /// The name in configurations and presets.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Transformer => "transformer",
            Kind::Gcn => "gcn",
            Kind::GcnMean => "gcn-mean",
            Kind::Gat => "gat",
            Kind::GatedGcn => "gatedgcn",
        }
    }

    /// Whether this is the default. The key is then left out, so that files of transformers have
    /// the same bytes as before other kinds existed.
    fn is_transformer(&self) -> bool {
        *self == Kind::Transformer
    }

    /// The branch of the layers.
    pub(crate) fn branch(self) -> Branch {
        match self {
            Kind::Transformer => Branch::Attention,
            Kind::Gcn => Branch::Gcn,
            Kind::GcnMean => Branch::GcnMean,
            Kind::Gat => Branch::Gat,
            Kind::GatedGcn => Branch::GatedGcn,
        }
    }

    /// Whether layers are divided into heads.
    pub(crate) fn has_heads(self) -> bool {
        self.branch().facts().heads
    }
}

/// The source of the equations where the paper's text and its published code differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// The published code.
    #[default]
    Published,
    /// The paper's text.
    Paper,
}

/// The positional encoding that the input adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    /// None.
    #[default]
    None,
    /// Laplacian eigenvectors.
    Laplacian,
    /// Weisfeiler–Lehman roles.
    Wl,
    /// Return probabilities of random walks.
    RandomWalk,
}

/// How metrics are computed and which model of a run is the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MetricForm {
    /// Over the whole split. The result of a run is the best model on the validation split.
    #[default]
    Exact,
    /// As the paper reports: means of batch means, and the last model of a run.
    Paper,
}

impl MetricForm {
    /// The forms in which a table shows each metric.
    pub fn shown(self) -> &'static [Self] {
        match self {
            MetricForm::Exact => &[MetricForm::Exact],
            MetricForm::Paper => &[MetricForm::Paper, MetricForm::Exact],
        }
    }
}

/// The vectors from which the head predicts for edges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EdgeHead {
    /// The edge stream if there is one with the edges of the data, else the end nodes. For links:
    /// the product, or the end nodes if links are directed.
    #[default]
    Auto,
    /// The end nodes, concatenated.
    Ends,
    /// The product of the end nodes, channel by channel; it ignores direction.
    Product,
}

/// The network. The last five keys follow `variant` unless they are set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelConfig {
    /// Kind of the layers. The paper compares `transformer` with the other kinds: `gcn`, graph
    /// convolutions; `gcn-mean`, their means over neighbours; `gat`, graph attention; `gatedgcn`,
    /// gated convolutions with an edge stream.
    #[serde(skip_serializing_if = "Kind::is_transformer")]
    pub kind: Kind,
    /// Branches that every layer sums up, in place of `kind`: a list of `attention`, `gcn`,
    /// `gcn-mean`, `gat`, `gatedgcn` and `gine`, each at most once. Left out: the branch of `kind`.
    #[serde(with = "branches::names", skip_serializing_if = "Option::is_none")]
    pub branches: Option<Vec<Branch>>,
    /// Whether a feed-forward half follows the branches. Left out: `true` if `attention` or `gine`
    /// is one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feed_forward: Option<bool>,
    /// Source of the equations where the two differ: `published` code or the text of the `paper`.
    pub variant: Variant,
    /// Number of layers.
    pub layers: usize,
    /// Numbers per node and per edge between the layers.
    pub width: usize,
    /// Heads of the attention; they must divide the width. Left out: the largest number up to 8
    /// that divides the width. `gcn`, `gcn-mean` and `gatedgcn` have none. The last layer of `gat`
    /// has one head of the full width.
    pub heads: usize,
    /// Normalisation in the layers: over the `batch`, over the channels of a row (`layer`), or
    /// `none`.
    #[serde(with = "NormName")]
    pub norm: Norm,
    /// Whether each half layer adds its input.
    pub residual: bool,
    /// Which graph attention runs over: `sparse`, the edges of the data, or `full`, all pairs of
    /// different nodes of a graph, without edge features.
    pub graph: AttentionScope,
    /// Whether edges have a stream of their own. Left out: `true` if the data has edge features.
    /// `gatedgcn` always has an edge stream, `gcn` and `gat` never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edges: Option<bool>,
    /// Positional encoding that the input adds: `none`, `laplacian` eigenvectors, `wl`
    /// (Weisfeiler–Lehman roles), or `random-walk` (return probabilities).
    pub encoding: Encoding,
    /// Numbers per node of a Laplacian or random-walk encoding.
    pub encoding_size: usize,
    /// Roles of a Weisfeiler–Lehman encoding; larger ones share the last.
    pub roles: usize,
    /// How the rows of the nodes become one row of the graph: their `mean`, `sum` or `max`. A
    /// target that grows with the graph needs `sum`.
    #[serde(with = "ReadoutName")]
    pub readout: Readout,
    /// Layers that the head reads (jumping knowledge): the `last`, all layers concatenated
    /// (`concat`), or the `sum` of all layers.
    #[serde(with = "JumpName")]
    pub jump: Jump,
    /// Vectors from which the head predicts for edges and links: `ends`, the two end nodes
    /// concatenated; `product`, their product, which ignores direction; or `auto`. For edges,
    /// `auto` is the edge stream if there is one, else `ends`. For links, `auto` is `product`, or
    /// `ends` if links are directed.
    pub pairs: EdgeHead,
    /// Form of the metrics. `exact`: metrics over the whole split are shown, and the best model is
    /// the result of a run. `paper`: means of batch means, and the last model.
    pub metrics: MetricForm,
    /// Share of attended and hidden values dropped in training; for a `kind` other than
    /// `transformer`, share of each layer's outputs.
    pub dropout: f64,
    /// Share of the nodes' embedded features dropped in training.
    pub input_dropout: f64,
    /// Hidden widths of the head. Left out: `width`/2 and `width`/4, each at least 1 (published),
    /// or `width` (paper).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<Vec<usize>>,
    /// How edges gate attention. Left out: `per-channel` (published) or `scalar` (paper, eq. 12).
    #[serde(with = "gate_name", skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
    /// Values that the softmax clamps. Left out: `logits` (published) or `exponentials` (paper).
    #[serde(with = "clamp_name", skip_serializing_if = "Option::is_none")]
    pub clamp: Option<Clamp>,
    /// Whether embeddings of the input have a bias. Left out: `false` (published) or `true` (paper,
    /// eq. 1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_bias: Option<bool>,
    /// Whether an edge and its reverse share one representation. Left out: `false` (published) or
    /// `true` (paper).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symmetric_edges: Option<bool>,
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            kind: Kind::Transformer,
            branches: None,
            feed_forward: None,
            variant: Variant::Published,
            layers: 10,
            width: 64,
            heads: 8,
            norm: Norm::Batch,
            residual: true,
            graph: AttentionScope::Sparse,
            edges: None,
            encoding: Encoding::None,
            encoding_size: 8,
            roles: 100,
            readout: Readout::Mean,
            jump: Jump::Last,
            pairs: EdgeHead::Auto,
            metrics: MetricForm::Exact,
            dropout: 0.0,
            input_dropout: 0.0,
            head: None,
            gate: None,
            clamp: None,
            input_bias: None,
            symmetric_edges: None,
        }
    }
}

/// Larger sizes are taken for typing errors.
const MOST: f64 = 65_536.0;

impl ModelConfig {
    /// The number of heads for a width: the largest up to 8 that divides it.
    pub(crate) fn usual_heads(width: usize) -> usize {
        (1..=8).rev().find(|heads| width.is_multiple_of(*heads)).unwrap_or(1)
    }

    /// The head's hidden widths.
    pub fn head(&self) -> Vec<usize> {
        self.head.clone().unwrap_or_else(|| match self.variant {
            Variant::Published => vec![(self.width / 2).max(1), (self.width / 4).max(1)],
            Variant::Paper => vec![self.width],
        })
    }

    /// How edges gate attention.
    pub fn gate(&self) -> Gate {
        self.gate.unwrap_or(if self.paper() { Gate::Scalar } else { Gate::PerChannel })
    }

    /// Values that the softmax clamps.
    pub fn clamp(&self) -> Clamp {
        self.clamp.unwrap_or(if self.paper() { Clamp::Exponentials } else { Clamp::Logits })
    }

    /// Whether inputs have a bias.
    pub(crate) fn input_bias(&self) -> bool {
        self.input_bias.unwrap_or(self.paper())
    }

    /// Whether an edge and its reverse share one representation.
    pub fn symmetric_edges(&self) -> bool {
        self.symmetric_edges.unwrap_or(self.paper())
    }

    fn paper(&self) -> bool {
        self.variant == Variant::Paper
    }

    /// With every optional key filled in.
    pub(super) fn complete(self) -> Self {
        Self {
            // Any but the one that is left out.
            kind: Kind::Gcn,
            branches: Some(vec![Branch::Attention]),
            feed_forward: Some(true),
            edges: Some(self.edges.unwrap_or(false)),
            head: Some(self.head()),
            gate: Some(self.gate()),
            clamp: Some(self.clamp()),
            input_bias: Some(self.input_bias()),
            symmetric_edges: Some(self.symmetric_edges()),
            ..self
        }
    }

    pub(super) fn check(&self, problems: &mut Problems) {
        let Self { layers, width, heads, .. } = *self;
        problems.unless_within(0.0..=1_000.0, "model.layers", layers as f64);
        for (key, value) in [("model.width", width), ("model.heads", heads), ("model.roles", self.roles)] {
            problems.unless_within(1.0..=MOST, key, value as f64);
        }
        let divides = !self.has_heads() || heads == 0 || width.is_multiple_of(heads);
        problems.unless(divides, "model.heads", ProblemKind::Heads { heads, width });
        self.check_layers(problems);
        problems.unless_within(1.0..=1_024.0, "model.encoding_size", self.encoding_size as f64);
        for (key, share) in [("model.dropout", self.dropout), ("model.input_dropout", self.input_dropout)] {
            problems.unless_within(0.0..1.0, key, share);
        }
        for &hidden in self.head.iter().flatten() {
            problems.unless_within(1.0..=MOST, "model.head", hidden as f64);
        }
        if self.edges == Some(false) {
            for (key, set) in
                [("model.gate", self.gate.is_some()), ("model.symmetric_edges", self.symmetric_edges == Some(true))]
            {
                problems.unless(!set, key, ProblemKind::NoEdgeStream);
            }
        }
    }
}

/// Names of an enumeration of another crate.
macro_rules! names {
    ($(#[$about:meta])* $name:ident for $kind:ty { $($value:ident = $text:literal),* }) => {
        $(#[$about])*
        struct $name;

        impl $name {
            fn serialize<S: serde::Serializer>(value: &$kind, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(match value {
                    $(<$kind>::$value => $text,)*
                })
            }

            fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<$kind, D::Error> {
                let text = String::deserialize(from)?;
                match text.as_str() {
                    $($text => Ok(<$kind>::$value),)*
                    _ => Err(serde::de::Error::unknown_variant(&text, &[$($text),*])),
                }
            }
        }
    };
}

names!(NormName for Norm { Batch = "batch", Layer = "layer", None = "none" });
names!(ReadoutName for Readout { Mean = "mean", Sum = "sum", Max = "max" });
names!(JumpName for Jump { Last = "last", Concat = "concat", Sum = "sum" });
names!(GateName for Gate { PerChannel = "per-channel", Scalar = "scalar" });
names!(ClampName for Clamp { Logits = "logits", Exponentials = "exponentials" });

/// Names of an enumeration for keys that may be left out.
macro_rules! optional_names {
    ($module:ident, $name:ident for $kind:ty) => {
        mod $module {
            use super::*;

            pub(super) fn serialize<S: serde::Serializer>(value: &Option<$kind>, to: S) -> Result<S::Ok, S::Error> {
                match value {
                    Some(value) => $name::serialize(value, to),
                    None => to.serialize_none(),
                }
            }

            pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<$kind>, D::Error> {
                $name::deserialize(from).map(Some)
            }
        }
    };
}

optional_names!(gate_name, GateName for Gate);
optional_names!(clamp_name, ClampName for Clamp);
