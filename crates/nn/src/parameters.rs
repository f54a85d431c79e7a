//! Where each parameter lies: in files as published, `[out, in]` and head by head; in the engine
//! `[in, out]`, interleaved and padded.

use crate::channels::{Channels, padded};
use crate::network::{Input, LayerKind, Network, Norm};

/// Which stream a parameter of a layer works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Nodes.
    Node,
    /// Edges.
    Edge,
}

/// Weight or bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightOrBias {
    /// The matrix, or γ of a normalisation.
    Weight,
    /// The vector that is added, or β.
    Bias,
}

/// A term of a gated layer: x_i = A·h_i + Σ_j σ(x_ij)⊙B·h_j / Σ_j σ(x_ij), x_ij = C·e_ij + D·h_j +
/// E·h_i.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Term {
    /// A: the node itself.
    Own,
    /// B: what a neighbour sends.
    Message,
    /// C: the edge.
    Edge,
    /// D: its source.
    Source,
    /// E: its target.
    Target,
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
    /// Queries of a layer.
    Query(usize),
    /// Keys of a layer.
    Key(usize),
    /// Values of a layer.
    Value(usize),
    /// Projection of the edge stream into a layer's attention.
    EdgeProjection(usize),
    /// Output of a layer's attention.
    Output(usize, Stream, WeightOrBias),
    /// Feed-forward layer 1 or 2.
    FeedForward(usize, Stream, u8, WeightOrBias),
    /// A layer's convolution; its weight is published `[in, out]`.
    Convolution(usize, WeightOrBias),
    /// Projection before a layer's additive attention.
    Projection(usize),
    /// What sources add to the logits of additive attention, published
    /// `[1, heads, channels per head]`.
    SourceLogit(usize),
    /// What targets add to the logits of additive attention, published
    /// `[1, heads, channels per head]`.
    TargetLogit(usize),
    /// A term of a gated layer.
    Gated(usize, Term, WeightOrBias),
    /// Normalisation 1 or 2.
    Norm(usize, Stream, u8, WeightOrBias),
    /// A layer of the head.
    Head(usize, WeightOrBias),
}

/// How the channels of one side of a parameter lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Axis {
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

    fn padded(self) -> usize {
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
enum Form {
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
    offset: usize,
    form: Form,
}

impl Parameter {
    /// The role of the parameter in the network.
    pub fn role(&self) -> Role {
        self.role
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
    pub(crate) fn range(self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.rows * self.columns
    }
}

/// Weight and bias of a linear layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Affine {
    pub(crate) weight: Region,
    pub(crate) bias: Region,
}

/// Regions of one stream's half of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Half {
    pub(crate) output: Affine,
    pub(crate) first: Affine,
    pub(crate) second: Affine,
    /// γ as weight, β as bias, of both normalisations.
    pub(crate) norms: [Affine; 2],
}

impl Half {
    /// Places of the feed-forward layers.
    pub(crate) fn feed_forward(&self) -> std::ops::Range<usize> {
        self.first.weight.offset..self.second.bias.range().end
    }

    /// Places of the output projection.
    pub(crate) fn projection(&self) -> std::ops::Range<usize> {
        self.output.weight.offset..self.output.bias.range().end
    }

    /// Places of both normalisations.
    pub(crate) fn normalisations(&self) -> std::ops::Range<usize> {
        self.norms[0].weight.offset..self.norms[1].bias.range().end
    }
}

/// Regions of a layer of another kind than attention; its only normalisation is the first of each
/// half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    /// The convolution; the projection of additive attention, without bias; A, B, D and E of a
    /// gated layer, concatenated.
    pub(crate) node: Affine,
    /// C of a gated layer.
    pub(crate) edge: Affine,
    /// What sources and targets add to the logits of additive attention.
    pub(crate) logits: [Region; 2],
}

/// Regions of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layer {
    /// First place of the layer.
    pub(crate) start: usize,
    /// First place of the parameters that only the edge stream's output needs. They reach to the
    /// layer's end.
    pub(crate) edge_output: usize,
    pub(crate) message: Message,
    pub(crate) qkv: Region,
    pub(crate) projection: Region,
    pub(crate) node: Half,
    pub(crate) edge: Half,
}

impl Layer {
    pub(crate) fn half(&self, stream: Stream) -> &Half {
        match stream {
            Stream::Node => &self.node,
            Stream::Edge => &self.edge,
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
    /// If [`Parameters::checked`] returns none, if gated layers have no edge stream, or if
    /// convolutions or additive attention have one; configurations are checked before.
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
    /// If gated layers have no edge stream, or convolutions or additive attention have one.
    pub fn checked(network: &Network) -> Option<Self> {
        let free = network.kind == LayerKind::Attention;
        assert!(free || network.edge_stream == (network.kind == LayerKind::Gated), "edge stream of {:?}", network.kind);
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
        if network.edge_stream {
            layout.edge = layout.input(&network.edge, Stream::Edge, stream);
        }
        for index in 0..network.layers {
            let layer = match network.kind {
                LayerKind::Attention => layout.layer(network, index, stream),
                _ => layout.message(network, index, stream),
            };
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

    /// Places that no gradient reaches: those of the last layer's edge stream behind its attention
    /// or gate, where nothing reads it.
    pub(crate) fn idle(&self, network: &Network) -> std::ops::Range<usize> {
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

    fn region(&mut self, rows: usize, columns: usize) -> Region {
        let region = Region { offset: self.size, rows, columns };
        self.size = padded(rows.saturating_mul(columns).saturating_add(self.size));
        region
    }

    fn rows(&mut self, rows: usize, channels: Axis, role: Role) -> Region {
        let region = self.region(rows, channels.padded());
        self.list.push(Parameter { role, offset: region.offset, form: Form::Rows { rows, channels } });
        region
    }

    fn matrix(&mut self, input: Axis, output: Axis, role: Role) -> Region {
        let region = self.region(input.padded(), output.padded());
        let form = Form::Matrix { input, output, stride: output.padded(), column: 0 };
        self.list.push(Parameter { role, offset: region.offset, form });
        region
    }

    fn vector(&mut self, axis: Axis, role: Role) -> Region {
        let region = self.region(1, axis.padded());
        self.list.push(Parameter { role, offset: region.offset, form: Form::Vector(axis) });
        region
    }

    fn affine(&mut self, input: Axis, output: Axis, role: impl Fn(WeightOrBias) -> Role) -> Affine {
        Affine {
            weight: self.matrix(input, output, role(WeightOrBias::Weight)),
            bias: self.vector(output, role(WeightOrBias::Bias)),
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
            bias: input.bias.then(|| self.vector(channels, Role::InputBias(stream))),
            laplacian: (input.laplacian > 0)
                .then(|| self.affine(Axis::Plain(input.laplacian), channels, Role::Laplacian)),
            random_walk: (input.random_walk > 0)
                .then(|| self.affine(Axis::Plain(input.random_walk), channels, Role::RandomWalk)),
            roles: input.roles.map(|size| self.rows(size, channels, Role::Roles)),
        }
    }

    fn layer(&mut self, network: &Network, index: usize, stream: Axis) -> Layer {
        let (start, width) = (self.size, stream.padded());
        let qkv = self.region(width, 3 * width);
        for (third, role) in [Role::Query(index), Role::Key(index), Role::Value(index)].into_iter().enumerate() {
            let form = Form::Matrix { input: stream, output: stream, stride: 3 * width, column: third * width };
            self.list.push(Parameter { role, offset: qkv.offset, form });
        }
        let mut layer = Layer { start, qkv, ..Default::default() };
        self.transposed.push(qkv);
        if network.edge_stream {
            layer.projection = self.matrix(stream, stream, Role::EdgeProjection(index));
            self.transposed.push(layer.projection);
        }
        layer.node = self.half(network, index, Stream::Node, stream);
        layer.edge_output = self.size;
        if network.edge_stream {
            layer.edge = self.half(network, index, Stream::Edge, stream);
        }
        layer
    }

    fn half(&mut self, network: &Network, index: usize, on: Stream, stream: Axis) -> Half {
        let hidden = Axis::Plain(2 * network.channels.width());
        let output = self.affine(stream, stream, |part| Role::Output(index, on, part));
        let first = self.affine(stream, hidden, |part| Role::FeedForward(index, on, 1, part));
        let second = self.affine(hidden, stream, |part| Role::FeedForward(index, on, 2, part));
        self.transposed.extend([output.weight, first.weight, second.weight]);
        let norms = [1, 2].map(|number| self.norm(network, index, on, number, stream));
        Half { output, first, second, norms }
    }

    fn norm(&mut self, network: &Network, index: usize, on: Stream, number: u8, stream: Axis) -> Affine {
        match network.norm {
            Norm::None => Affine::default(),
            _ => Affine {
                weight: self.vector(stream, Role::Norm(index, on, number, WeightOrBias::Weight)),
                bias: self.vector(stream, Role::Norm(index, on, number, WeightOrBias::Bias)),
            },
        }
    }

    /// A layer of another kind than attention.
    fn message(&mut self, network: &Network, index: usize, stream: Axis) -> Layer {
        let mut layer = Layer { start: self.size, ..Default::default() };
        let width = stream.padded();
        let message = &mut layer.message;
        match network.kind {
            LayerKind::Attention => unreachable!("it has regions of its own"),
            LayerKind::Convolution | LayerKind::Averaging => {
                let weight = self.region(width, width);
                let form = Form::InOut { input: stream, output: stream };
                let role = Role::Convolution(index, WeightOrBias::Weight);
                self.list.push(Parameter { role, offset: weight.offset, form });
                message.node =
                    Affine { weight, bias: self.vector(stream, Role::Convolution(index, WeightOrBias::Bias)) };
                self.transposed.push(weight);
            }
            LayerKind::AdditiveAttention => {
                message.node.weight = self.matrix(stream, stream, Role::Projection(index));
                self.transposed.push(message.node.weight);
                message.logits = [Role::SourceLogit(index), Role::TargetLogit(index)].map(|role| {
                    let region = self.region(1, width);
                    let form = Form::Heads { axis: stream, heads: network.heads(index) };
                    self.list.push(Parameter { role, offset: region.offset, form });
                    region
                });
            }
            LayerKind::Gated => {
                let terms = [Term::Own, Term::Message, Term::Source, Term::Target];
                let (weight, bias) = (self.region(width, 4 * width), self.region(1, 4 * width));
                for (fourth, term) in terms.into_iter().enumerate() {
                    let column = fourth * width;
                    let form = Form::Matrix { input: stream, output: stream, stride: 4 * width, column };
                    let role = |part| Role::Gated(index, term, part);
                    self.list.push(Parameter { role: role(WeightOrBias::Weight), offset: weight.offset, form });
                    let (offset, form) = (bias.offset + column, Form::Vector(stream));
                    self.list.push(Parameter { role: role(WeightOrBias::Bias), offset, form });
                }
                message.node = Affine { weight, bias };
                message.edge = self.affine(stream, stream, |part| Role::Gated(index, Term::Edge, part));
                self.transposed.extend([weight, message.edge.weight]);
            }
        }
        layer.node.norms[0] = self.norm(network, index, Stream::Node, 1, stream);
        layer.edge_output = self.size;
        if network.edge_stream {
            layer.edge.norms[0] = self.norm(network, index, Stream::Edge, 1, stream);
        }
        layer
    }
}
