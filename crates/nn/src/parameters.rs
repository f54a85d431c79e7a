//! Where each parameter lies: in files as published, `[out, in]` and head by head; in the engine
//! `[in, out]`, interleaved and padded.

use std::ops::Range;

use crate::channels::{Channels, padded};
use crate::layers::Declaration;
use crate::network::{Input, Network, Norm};
use crate::stream::{Pair, Stream};

/// Weight or bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightOrBias {
    /// The matrix, or γ of a normalisation.
    Weight,
    /// The vector that is added, or β.
    Bias,
}

/// The role of a parameter in its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Embedding of a categorical column.
    Embedding(Stream, usize),
    /// Linear layer of the continuous columns, or of the constant.
    Linear(Stream, WeightOrBias),
    /// Linear layer of the multi-hot feature.
    MultiHot(Stream),
    /// The vector that is added to every row of an input.
    InputBias(Stream),
    /// Linear layer of the Laplacian coordinates.
    Laplacian(WeightOrBias),
    /// Linear layer of the random-walk coordinates.
    RandomWalk(WeightOrBias),
    /// Embedding of the Weisfeiler–Lehman roles.
    Roles,
    /// A parameter of a layer's branch, by its published name within the layer, such as
    /// `attention.Q.weight`.
    Branch(usize, &'static str),
    /// Feed-forward layer 1 or 2.
    FeedForward(usize, Stream, u8, WeightOrBias),
    /// A normalisation of a layer: those of the branches in their order, from 1 on, then that of
    /// the feed-forward half.
    Norm(usize, Stream, u8, WeightOrBias),
    /// A layer of the head.
    Head(usize, WeightOrBias),
}

/// How the initial values of a parameter are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Init {
    /// Uniform on ±1/√in, as linear layers have it. A bias is drawn with the inputs of the weight
    /// before it.
    Linear,
    /// Standard normal, as embeddings have it.
    Normal,
    /// Uniform on ±√(6/(in + out)).
    Glorot,
    /// Normal with variance 4/(in + out); vectors `[1, heads, d_k]` count as heads·d_k inputs and
    /// d_k outputs.
    GlorotNormal,
    /// All 1.
    One,
    /// All 0.
    Zero,
}

/// How the channels of one side of a parameter lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axis {
    Stream(Channels),
    /// Several streams, concatenated.
    Streams(Channels, usize),
    Plain(usize),
}

impl Axis {
    fn width(self) -> usize {
        match self {
            Axis::Stream(channels) => channels.width(),
            Axis::Streams(channels, count) => count * channels.width(),
            Axis::Plain(width) => width,
        }
    }

    pub(crate) fn padded(self) -> usize {
        match self {
            Axis::Stream(channels) => channels.padded_width(),
            Axis::Streams(channels, count) => count.saturating_mul(channels.padded_width()),
            Axis::Plain(width) => padded(width),
        }
    }

    fn place(self, at: usize) -> usize {
        match self {
            Axis::Stream(channels) => channels.place(at),
            Axis::Streams(channels, _) => {
                at / channels.width() * channels.padded_width() + channels.place(at % channels.width())
            }
            Axis::Plain(_) => at,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Published `[rows, channels]`; inside `[rows, padded channels]`.
    Rows { rows: usize, channels: Axis },
    /// Published `[out, in]`; inside `[in, stride]`, from `column` on.
    Matrix { input: Axis, output: Axis, stride: usize, column: usize },
    /// Published `[in, out]`; inside `[in, out]`, padded.
    InOut { input: Axis, output: Axis },
    /// Published `[channels]`; inside padded.
    Vector(Axis),
    /// Published `[1, heads, channels per head]`; inside as a vector.
    Heads { axis: Axis, heads: usize },
}

/// One parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    role: Role,
    init: Init,
    offset: usize,
    form: Form,
}

impl Parameter {
    /// The role of the parameter in the network.
    pub fn role(&self) -> Role {
        self.role
    }

    /// How the initial values are drawn.
    pub fn init(&self) -> Init {
        self.init
    }

    /// Shape in files.
    pub fn shape(&self) -> Vec<usize> {
        match self.form {
            Form::Rows { rows, channels } => vec![rows, channels.width()],
            Form::Matrix { input, output, .. } => vec![output.width(), input.width()],
            Form::InOut { input, output } => vec![input.width(), output.width()],
            Form::Vector(axis) => vec![axis.width()],
            Form::Heads { axis, heads } => vec![1, heads, axis.width() / heads],
        }
    }

    /// Number of values in files.
    pub fn len(&self) -> usize {
        self.shape().iter().product()
    }

    /// True for a parameter without values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Position inside the engine of each value, in the order of files.
    pub(crate) fn places(&self) -> impl Iterator<Item = usize> + use<> {
        let Self { offset, form, .. } = *self;
        let columns = match form {
            Form::Rows { channels, .. } => channels.width(),
            Form::Matrix { input, .. } => input.width(),
            Form::InOut { output, .. } => output.width(),
            Form::Vector(axis) | Form::Heads { axis, .. } => axis.width(),
        };
        (0..self.len()).map(move |at| {
            let (row, column) = (at / columns.max(1), at % columns.max(1));
            offset
                + match form {
                    Form::Rows { channels, .. } => row * channels.padded() + channels.place(column),
                    Form::Matrix { input, output, stride, column: first } => {
                        input.place(column) * stride + first + output.place(row)
                    }
                    Form::InOut { input, output } => input.place(row) * output.padded() + output.place(column),
                    Form::Vector(axis) | Form::Heads { axis, .. } => axis.place(column),
                }
        })
    }
}

/// A matrix inside the engine: `[rows, columns]`, dense.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) offset: usize,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

impl Region {
    pub(crate) fn range(self) -> Range<usize> {
        self.offset..self.offset + self.rows * self.columns
    }
}

/// Weight and bias of a linear layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Affine {
    pub(crate) weight: Region,
    pub(crate) bias: Region,
}

/// Most regions of a branch.
const MOST_REGIONS: usize = 8;

/// Regions of a branch of a layer. The branch alone knows what each of them holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BranchRegions {
    /// In the order of declaration; those that the network does not have are empty.
    pub(crate) regions: [Region; MOST_REGIONS],
    pub(crate) count: usize,
    /// Offsets of everything that both streams' outputs depend on.
    pub(crate) own: Range<usize>,
    /// Offsets of what only one stream's output depends on.
    pub(crate) output: Pair<Range<usize>>,
    /// γ as weight, β as bias.
    pub(crate) norm: Pair<Affine>,
}

/// Regions of the feed-forward half of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FeedForward {
    pub(crate) first: Affine,
    pub(crate) second: Affine,
    /// γ as weight, β as bias.
    pub(crate) norm: Affine,
}

impl FeedForward {
    /// Offsets of both linear layers.
    pub(crate) fn range(&self) -> Range<usize> {
        self.first.weight.offset..self.second.bias.range().end
    }
}

/// Regions of a layer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layer {
    /// First place of the layer.
    pub(crate) start: usize,
    /// First place of the parameters that only the edge stream's output needs. They reach to the
    /// layer's end.
    pub(crate) edge_output: usize,
    pub(crate) branches: Vec<BranchRegions>,
    pub(crate) feed_forward: Pair<FeedForward>,
}

impl Layer {
    /// γ and β of a normalisation: of a branch, or behind the branches' that of the feed-forward
    /// half.
    pub(crate) fn norm(&self, number: usize, stream: Stream) -> Affine {
        match self.branches.get(number) {
            Some(branch) => *branch.norm.of(stream),
            None => self.feed_forward.of(stream).norm,
        }
    }
}

/// Regions of an input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InputRegions {
    pub(crate) embeddings: Vec<Region>,
    pub(crate) linear: Option<Affine>,
    pub(crate) multi_hot: Option<Region>,
    pub(crate) bias: Option<Region>,
    pub(crate) laplacian: Option<Affine>,
    pub(crate) random_walk: Option<Affine>,
    pub(crate) roles: Option<Region>,
}

/// All parameters of a network, in one flat array inside the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    list: Vec<Parameter>,
    size: usize,
    pub(crate) node: InputRegions,
    pub(crate) edge: InputRegions,
    pub(crate) layers: Vec<Layer>,
    pub(crate) head: Vec<Affine>,
    /// Matrices whose transpose the backward pass multiplies with.
    pub(crate) transposed: Vec<Region>,
}

impl Parameters {
    /// Lays out the parameters of a network.
    ///
    /// # Panics
    /// If [`Parameters::checked`] panics or returns none; configurations are checked before.
    pub fn new(network: &Network) -> Self {
        Self::checked(network).expect("the parameters of a network can be addressed")
    }

    /// Lays out the parameters of a network; none if there are more than can be addressed.
    ///
    /// ```
    /// use graph_transformer_nn::{Channels, Input, Network, Parameters};
    ///
    /// let with_types = |types| {
    ///     let node = Input { categorical: vec![types], ..Default::default() };
    ///     Network { node, ..Network::new(Channels::new(64, 8), 10) }
    /// };
    /// assert!(Parameters::checked(&with_types(28)).is_some());
    /// assert!(Parameters::checked(&with_types(usize::MAX)).is_none());
    /// ```
    ///
    /// # Panics
    /// If there is no branch, if a branch needs an edge stream that is not there, or if there is an
    /// edge stream that no branch updates.
    pub fn checked(network: &Network) -> Option<Self> {
        assert!(!network.branches.is_empty(), "a layer has a branch");
        let (edges, branches) = (network.edge_stream, &network.branches);
        assert!(branches.iter().all(|branch| edges || !branch.needs_edge_stream()), "{branches:?} need an edge stream");
        assert!(!edges || branches.iter().any(|branch| branch.updates_edges(network)), "edge stream of {branches:?}");
        let stream = Axis::Stream(network.channels);
        let mut layout = Self {
            list: Vec::new(),
            size: 0,
            node: InputRegions::default(),
            edge: InputRegions::default(),
            layers: Vec::new(),
            head: Vec::new(),
            transposed: Vec::new(),
        };
        layout.node = layout.input(&network.node, Stream::Node, stream);
        if network.embeds_edges() {
            layout.edge = layout.input(&network.edge, Stream::Edge, stream);
        }
        for index in 0..network.layers {
            let layer = layout.layer(network, index, stream);
            layout.layers.push(layer);
        }
        let mut input = Axis::Streams(network.channels, network.head_streams());
        for (index, &width) in network.head.iter().enumerate() {
            let output = Axis::Plain(width);
            let affine = layout.affine(input, output, |part| Role::Head(index, part));
            layout.transposed.push(affine.weight);
            layout.head.push(affine);
            input = output;
        }
        // Sizes saturate, so an overflow anywhere ends here.
        (layout.size <= isize::MAX as usize / size_of::<f64>()).then_some(layout)
    }

    /// The parameters, in a fixed order.
    pub fn list(&self) -> &[Parameter] {
        &self.list
    }

    /// Number of values in files: what papers call the number of parameters.
    pub fn count(&self) -> usize {
        self.list.iter().map(Parameter::len).sum()
    }

    /// Places that no gradient reaches: those of the last layer that only its edge stream's output
    /// needs, where nothing reads it.
    pub(crate) fn idle(&self, network: &Network) -> Range<usize> {
        match self.layers.last() {
            Some(layer) if network.edge_stream && !network.last_edges_read() => {
                layer.edge_output..self.head.first().map_or(self.size, |affine| affine.weight.offset)
            }
            _ => self.size..self.size,
        }
    }

    /// Length of the flat array, padding included.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Where the parameters of a layer begin; those of the head for the number of layers.
    pub(crate) fn start(&self, layer: usize) -> usize {
        match self.layers.get(layer) {
            Some(layer) => layer.start,
            None => self.head.first().map_or(self.size, |affine| affine.weight.offset),
        }
    }

    pub(crate) fn region(&mut self, rows: usize, columns: usize) -> Region {
        let region = Region { offset: self.size, rows, columns };
        self.size = padded(rows.saturating_mul(columns).saturating_add(self.size));
        region
    }

    pub(crate) fn push(&mut self, role: Role, init: Init, offset: usize, form: Form) {
        self.list.push(Parameter { role, init, offset, form });
    }

    fn rows(&mut self, rows: usize, channels: Axis, role: Role) -> Region {
        let region = self.region(rows, channels.padded());
        self.push(role, Init::Normal, region.offset, Form::Rows { rows, channels });
        region
    }

    pub(crate) fn matrix(&mut self, input: Axis, output: Axis, role: Role) -> Region {
        let region = self.region(input.padded(), output.padded());
        let form = Form::Matrix { input, output, stride: output.padded(), column: 0 };
        self.push(role, Init::Linear, region.offset, form);
        region
    }

    pub(crate) fn vector(&mut self, axis: Axis, role: Role, init: Init) -> Region {
        let region = self.region(1, axis.padded());
        self.push(role, init, region.offset, Form::Vector(axis));
        region
    }

    pub(crate) fn affine(&mut self, input: Axis, output: Axis, role: impl Fn(WeightOrBias) -> Role) -> Affine {
        Affine {
            weight: self.matrix(input, output, role(WeightOrBias::Weight)),
            bias: self.vector(output, role(WeightOrBias::Bias), Init::Linear),
        }
    }

    fn input(&mut self, input: &Input, stream: Stream, channels: Axis) -> InputRegions {
        let linear = if input.constant { 1 } else { input.continuous };
        InputRegions {
            embeddings: input
                .categorical
                .iter()
                .enumerate()
                .map(|(i, &size)| self.rows(size, channels, Role::Embedding(stream, i)))
                .collect(),
            linear: (linear > 0).then(|| self.affine(Axis::Plain(linear), channels, |part| Role::Linear(stream, part))),
            multi_hot: input.multi_hot.map(|size| self.rows(size, channels, Role::MultiHot(stream))),
            bias: input.bias.then(|| self.vector(channels, Role::InputBias(stream), Init::Linear)),
            laplacian: (input.laplacian > 0)
                .then(|| self.affine(Axis::Plain(input.laplacian), channels, Role::Laplacian)),
            random_walk: (input.random_walk > 0)
                .then(|| self.affine(Axis::Plain(input.random_walk), channels, Role::RandomWalk)),
            roles: input.roles.map(|size| self.rows(size, channels, Role::Roles)),
        }
    }

    fn layer(&mut self, network: &Network, index: usize, channels: Axis) -> Layer {
        let mut layer = Layer { start: self.size, ..Default::default() };
        for &branch in &network.branches {
            let start = self.size;
            let mut regions = BranchRegions::default();
            branch.declare(&mut Declaration::new(self, &mut regions, network, index));
            regions.own = start..self.size;
            layer.branches.push(regions);
        }
        for stream in [Stream::Node, Stream::Edge] {
            layer.edge_output = self.size;
            if stream == Stream::Node || network.edge_stream {
                self.outputs(network, index, &mut layer, stream, channels);
            }
        }
        layer
    }

    /// What a stream's output needs: the branches' output layers, the feed-forward half, and all
    /// normalisations.
    fn outputs(&mut self, network: &Network, index: usize, layer: &mut Layer, stream: Stream, channels: Axis) {
        for (&branch, regions) in network.branches.iter().zip(&mut layer.branches) {
            let start = self.size;
            branch.declare_output(&mut Declaration::new(self, regions, network, index), stream);
            *regions.output.of_mut(stream) = start..self.size;
        }
        if network.feed_forward {
            let hidden = Axis::Plain(2 * network.channels.width());
            let half = layer.feed_forward.of_mut(stream);
            half.first = self.affine(channels, hidden, |part| Role::FeedForward(index, stream, 1, part));
            half.second = self.affine(hidden, channels, |part| Role::FeedForward(index, stream, 2, part));
            self.transposed.extend([half.first.weight, half.second.weight]);
        }
        if network.norm == Norm::None {
            return;
        }
        for number in 0..network.norms() {
            if stream == Stream::Edge && !network.normalises_edges(number) {
                continue;
            }
            let role = |part| Role::Norm(index, stream, number as u8 + 1, part);
            let norm = Affine {
                weight: self.vector(channels, role(WeightOrBias::Weight), Init::One),
                bias: self.vector(channels, role(WeightOrBias::Bias), Init::Zero),
            };
            match layer.branches.get_mut(number) {
                Some(branch) => *branch.norm.of_mut(stream) = norm,
                None => layer.feed_forward.of_mut(stream).norm = norm,
            }
        }
    }
}
