//! Names of the parameters in the published state dictionaries, so that weights move both ways.

use gt_nn::{Network, Norm, Role, Stream, WeightOrBias};

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
        Role::Laplacian(p) => format!("{}.{}", network.branches[0].facts().laplacian_name, part(p)),
        Role::RandomWalk(p) => format!("embedding_rw_pos_enc.{}", part(p)),
        Role::Roles => "embedding_wl_pos_enc.weight".into(),
        Role::Branch(layer, name) => format!("layers.{layer}.{name}"),
        Role::FeedForward(layer, stream, number, p) => {
            format!("layers.{layer}.FFN{}_layer{number}.{}", suffix(stream), part(p))
        }
        Role::Norm(layer, stream, number, p) => {
            format!("{}.{}", norm_name(network, layer, stream, usize::from(number)), part(p))
        }
        Role::Head(layer, p) => format!("MLP_layer.FC_layers.{layer}.{}", part(p)),
    }
}

/// The name of a normalisation (those of the branches from 1 on, then that of the feed-forward
/// half), such as `layers.0.batch_norm1_h`.
pub fn norm_name(network: &Network, layer: usize, stream: Stream, number: usize) -> String {
    match network.branches.get(number - 1) {
        Some(branch) => format!("layers.{layer}.{}", branch.norm_name(network, stream)),
        None => {
            let kind = if network.norm == Norm::Layer { "layer" } else { "batch" };
            format!("layers.{layer}.{kind}_norm2{}", suffix(network, stream))
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
