//! What a model expects of a file that it is applied to.

use std::borrow::Cow;

use gt_data::{Expected, ExpectedEncoding, Labels};
use gt_graph::encoding::EncodingKind;
use gt_models::Model;
use gt_models::config::Encoding;

/// The columns, encoding and labels that a model expects of a file.
pub fn expected(model: &Model, labels: Labels) -> Expected<'_> {
    let kind = match model.config.model.encoding {
        Encoding::None => None,
        Encoding::Laplacian => Some(EncodingKind::Laplacian),
        Encoding::RandomWalk => Some(EncodingKind::RandomWalk),
        Encoding::Wl => Some(EncodingKind::WeisfeilerLehman),
    };
    let width = model.config.model.encoding_size;
    let encoding = kind.map(|kind| ExpectedEncoding { kind, width });
    let schema = match model.reads_edges() {
        true => Cow::Borrowed(&model.schema),
        false => Cow::Owned(model.schema.clone().with_any_edge_value()),
    };
    Expected { schema, encoding, labels }
}
