//! Both ways to read a file of graphs: whole for training, and in chunks for a model.

use std::borrow::Cow;
use std::path::Path;
use std::sync::OnceLock;

use gt_data::{ChunkLimits, Expected, ExpectedEncoding, GraphReader, Info, Keep, Labels, read};
use gt_graph::Schema;
use gt_graph::encoding::EncodingKind;
use gt_models::PublishedSet;

use super::accepted;

/// Reads a file as a whole, then in chunks of three graphs for a model of molecules.
pub(super) fn read_both_ways(path: &Path) -> bool {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    let schema = SCHEMA.get_or_init(|| PublishedSet::Zinc.schema());
    let whole = read(path).map(|dataset| std::hint::black_box(Info::new(&dataset)));
    let expected = Expected {
        schema: Cow::Borrowed(schema),
        encoding: Some(ExpectedEncoding { kind: EncodingKind::Laplacian, width: 2 }),
        labels: Labels::Read,
    };
    let limits = ChunkLimits { graphs: 3, ..Default::default() };
    let chunks = GraphReader::open_with(path, &expected, limits, &Keep::default()).and_then(|mut reader| {
        while let Some(chunk) = reader.next() {
            let chunk = chunk?;
            for (at, result) in chunk.results.into_iter().enumerate() {
                accepted(result.map_err(|rejected| reader.error(chunk.first + at, rejected.reason)));
            }
        }
        Ok(())
    });
    accepted(whole) | accepted(chunks)
}
