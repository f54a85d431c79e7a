//! Names of the parameters in the published state dictionaries, so that weights move both ways.

use gt_nn::{LayerKind, Network, Norm, Role, Stream, Term, WeightOrBias};

/// The name of a parameter, such as `layers.0.attention.Q.weight`.
pub fn parameter_name(network: &Network, role: Role) -> String {
    let part = |part: WeightOrBias| if part == WeightOrBias::Weight { "weight" } else { "bias" };
    let letter = |stream: Stream| if stream == Stream::Node { "h" } else { "e" };
    let suffix = |stream| suffix(network, stream);
    match role {
        Role::Embedding(stream, 0) => format!("embedding_{}.weight", letter(stream)),
        Role::Embedding(stream, column) => format!("embedding_{}_{column}.weight", letter(stream)),
        Role::Linear(stream, p) => {
            let input = if stream == Stream::Node { &network.node } else { &network.edge };
            // Alone it takes the place of the embedding, as the published code has it.
            let float = if input.categorical.is_empty() { "" } else { "_float" };
            format!("embedding_{}{float}.{}", letter(stream), part(p))
        }
        Role::MultiHot(stream) => format!("embedding_{}_words.weight", letter(stream)),
        Role::InputBias(stream) => format!("embedding_{}.bias", letter(stream)),
        // The code of the other models calls it by a shorter name.
        Role::Laplacian(p) if network.kind != LayerKind::Attention => format!("embedding_pos_enc.{}", part(p)),
        Role::Laplacian(p) => format!("embedding_lap_pos_enc.{}", part(p)),
        Role::RandomWalk(p) => format!("embedding_rw_pos_enc.{}", part(p)),
        Role::Roles => "embedding_wl_pos_enc.weight".into(),
        Role::Query(layer) => format!("layers.{layer}.attention.Q.weight"),
        Role::Key(layer) => format!("layers.{layer}.attention.K.weight"),
        Role::Value(layer) => format!("layers.{layer}.attention.V.weight"),
        Role::EdgeProjection(layer) => format!("layers.{layer}.attention.proj_e.weight"),
        Role::Output(layer, stream, p) => format!("layers.{layer}.O{}.{}", suffix(stream), part(p)),
        Role::FeedForward(layer, stream, number, p) => {
            format!("layers.{layer}.FFN{}_layer{number}.{}", suffix(stream), part(p))
        }
        Role::Convolution(layer, p) => format!("layers.{layer}.conv.{}", part(p)),
        Role::Projection(layer) => format!("layers.{layer}.gatconv.fc.weight"),
        Role::SourceLogit(layer) => format!("layers.{layer}.gatconv.attn_l"),
        Role::TargetLogit(layer) => format!("layers.{layer}.gatconv.attn_r"),
        Role::Gated(layer, term, p) => {
            let term = match term {
                Term::Own => 'A',
                Term::Message => 'B',
                Term::Edge => 'C',
                Term::Source => 'D',
                Term::Target => 'E',
            };
            format!("layers.{layer}.{term}.{}", part(p))
        }
        Role::Norm(layer, stream, number, p) => {
            format!("{}.{}", norm_name(network, layer, stream, usize::from(number)), part(p))
        }
        Role::Head(layer, p) => format!("MLP_layer.FC_layers.{layer}.{}", part(p)),
    }
}

/// The name of a normalisation (1 or 2), such as `layers.0.batch_norm1_h`.
pub fn norm_name(network: &Network, layer: usize, stream: Stream, number: usize) -> String {
    let layered = network.norm == Norm::Layer;
    match network.kind {
        LayerKind::Attention => {
            let kind = if layered { "layer" } else { "batch" };
            format!("layers.{layer}.{kind}_norm{number}{}", suffix(network, stream))
        }
        LayerKind::Convolution | LayerKind::Averaging | LayerKind::AdditiveAttention => {
            format!("layers.{layer}.{}norm_h", if layered { "layer" } else { "batch" })
        }
        LayerKind::Gated => {
            format!("layers.{layer}.{}_node{}", if layered { "ln" } else { "bn" }, suffix(network, stream))
        }
    }
}

/// The layer without an edge stream has no suffixes: `O`, `FFN_layer1`, `batch_norm1`.
fn suffix(network: &Network, stream: Stream) -> &'static str {
    match (network.edge_stream, stream) {
        (false, _) => "",
        (true, Stream::Node) => "_h",
        (true, Stream::Edge) => "_e",
    }
}
