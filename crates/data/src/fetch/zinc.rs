//! ZINC-12k: the full set from the Hugging Face hub, reduced by the benchmark's index lists.
//!
//! The result of every source is compared with the known content of ZINC-12k, bit by bit: sizes,
//! atoms, bonds and targets of all 12,000 graphs. A changed upstream file is therefore noticed. A
//! local copy in any format is as good as a download.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use gt_graph::{FeatureRows, GraphParts};
use gt_graph::{GraphRef, GraphStore, Level};

use super::content::Content;
use super::download::{DownloadLimits, Progress, download};
use crate::dataset::{Dataset, Splits};
use crate::error::{DataError, FileProblem, Result};
use crate::formats;
use crate::known::{self, content_hash};
use crate::reader::read;
use gt_graph::Schema;

/// Addresses that ZINC-12k is downloaded from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZincSource {
    /// Address of a JSON document that lists the full set's Parquet files:
    /// `{config: {split: [url, …]}}`.
    pub listing: String,
    /// Folder with `train.index`, `val.index` and `test.index`.
    pub indices: String,
}

impl Default for ZincSource {
    fn default() -> Self {
        Self {
            listing: "https://huggingface.co/api/datasets/graphs-datasets/ZINC/parquet".into(),
            indices: "https://raw.githubusercontent.com/graphdeeplearning/benchmarking-gnns/master/data/molecules"
                .into(),
        }
    }
}

/// The splits: the benchmark's name, and the names that the hub may use.
const SPLITS: [(&str, [&str; 3]); 3] = [
    ("train", ["train", "train", "train"]),
    ("val", ["validation", "val", "valid"]),
    ("test", ["test", "test", "test"]),
];

/// Downloads ZINC-12k into `cache` and returns the path of the native file. An existing file is not
/// downloaded again.
///
/// ```no_run
/// use graph_transformer_data::fetch::{ZincSource, fetch_zinc};
/// use graph_transformer_data::{ZINC_12K, content_hash, read};
///
/// let cache = "data".as_ref();
/// let file = fetch_zinc(&ZincSource::default(), cache, &mut |progress| {
///     println!("{}: {} bytes", progress.name, progress.done);
/// })?;
/// let data = read(&file)?;
/// assert_eq!((data.graphs().len(), content_hash(data.graphs()).as_str()), (12_000, ZINC_12K));
/// # Ok::<(), graph_transformer_data::DataError>(())
/// ```
///
/// # Errors
/// If the source cannot be reached, or does not hold ZINC-12k.
pub fn fetch_zinc(source: &ZincSource, cache: &Path, progress: &mut dyn FnMut(Progress<'_>)) -> Result<PathBuf> {
    let target = cache.join("zinc12k.parquet");
    if target.exists() {
        check(&read(&target)?, &target)?;
        return Ok(target);
    }
    let folder = cache.join("downloads").join("zinc");
    fs::create_dir_all(&folder).map_err(|e| DataError::io(&folder, e))?;
    let listing = folder.join("listing.json");
    let mut downloaded = vec![listing.clone()];
    download(&source.listing, &listing, &DownloadLimits::new(Content::Json), progress)?;
    let files = parse_listing(&listing)?;
    let mut chosen = GraphStore::new(Default::default());
    let mut splits = Splits::new(Level::Graph);
    for (split, names) in SPLITS {
        let index = folder.join(format!("{split}.index"));
        downloaded.push(index.clone());
        if !index.exists() {
            let limits = DownloadLimits::new(Content::Positions);
            download(&format!("{}/{split}.index", source.indices), &index, &limits, progress)?;
        }
        let urls = names.iter().find_map(|name| files.get(*name)).ok_or_else(|| {
            let found = files.keys().cloned().collect();
            DataError::file(&listing, FileProblem::MissingSplit { split, found })
        })?;
        let mut parts = Vec::new();
        for (number, url) in urls.iter().enumerate() {
            let path = folder.join(format!("{split}-{number}.parquet"));
            downloaded.push(path.clone());
            if !path.exists() {
                download(url, &path, &DownloadLimits::new(Content::Parquet), progress)?;
            }
            // A file that cannot be read is fetched again by the next run.
            parts.push(read(&path).inspect_err(|_| drop(fs::remove_file(&path)))?);
        }
        choose(&mut chosen, &parts, &index)?;
        splits.codes.resize(chosen.len(), splits.names.len() as u16);
        splits.names.push(split.into());
    }
    let mut schema = Schema::unnamed(chosen.layout());
    known::complete(&mut schema, &chosen);
    let mut dataset = Dataset::new(schema, chosen)?;
    dataset.set_split(splits)?;
    check(&dataset, Path::new(&source.listing))?;
    formats::write(&dataset, &target)?;
    downloaded.iter().for_each(|file| drop(fs::remove_file(file)));
    // Unless the folder holds files of others.
    let _ = fs::remove_dir(&folder);
    Ok(target)
}

/// Copies ZINC-12k from a local file of any format into `cache`.
///
/// ```no_run
/// use graph_transformer_data::fetch::zinc_from_file;
///
/// let file = zinc_from_file("downloads/zinc.csv".as_ref(), "data".as_ref())?;
/// println!("ZINC-12k is in {}", file.display());
/// # Ok::<(), graph_transformer_data::DataError>(())
/// ```
///
/// # Errors
/// If the file does not hold exactly ZINC-12k.
pub fn zinc_from_file(file: &Path, cache: &Path) -> Result<PathBuf> {
    let dataset = read(file)?;
    check(&dataset, file)?;
    fs::create_dir_all(cache).map_err(|e| DataError::io(cache, e))?;
    let target = cache.join("zinc12k.parquet");
    formats::write(&dataset, &target)?;
    Ok(target)
}

fn check(dataset: &Dataset, origin: &Path) -> Result<()> {
    let found = content_hash(dataset.graphs());
    if found == known::ZINC_12K {
        return Ok(());
    }
    let (graphs, expected) = (dataset.graphs().len(), known::ZINC_12K);
    Err(DataError::file(origin, FileProblem::NotZinc { graphs, found, expected }))
}

/// Addresses per split of the first configuration in the listing.
fn parse_listing(path: &Path) -> Result<BTreeMap<String, Vec<String>>> {
    let text = fs::read_to_string(path).map_err(|e| DataError::io(path, e))?;
    let configs: BTreeMap<String, BTreeMap<String, Vec<String>>> =
        serde_json::from_str(&text).map_err(|e| DataError::file(path, FileProblem::NotAListing(e.to_string())))?;
    configs.into_values().next().ok_or_else(|| DataError::file(path, FileProblem::NotAListing("it is empty".into())))
}

/// Appends the graphs of an index list. Positions count through all parts.
fn choose(chosen: &mut GraphStore, parts: &[Dataset], index: &Path) -> Result<()> {
    let text = fs::read_to_string(index).map_err(|e| DataError::io(index, e))?;
    for word in text.split([',', '\n', ' ']).map(str::trim).filter(|word| !word.is_empty()) {
        let no_position = || DataError::file(index, FileProblem::NotAPosition(word.into()));
        let mut position: usize = word.parse().map_err(|_| no_position())?;
        let part = parts.iter().find(|part| match position.checked_sub(part.graphs().len()) {
            Some(rest) => {
                position = rest;
                false
            }
            None => true,
        });
        let part = part.ok_or_else(no_position)?;
        if chosen.is_empty() && chosen.layout() != part.graphs().layout() {
            *chosen = GraphStore::new(part.graphs().layout().clone());
        }
        push_sorted(chosen, &part.graphs().graph(position)).map_err(|error| DataError::file(index, error.into()))?;
    }
    Ok(())
}

/// Appends a graph with its edges sorted by source, then by target, as in the benchmark's loaders.
fn push_sorted(store: &mut GraphStore, graph: &GraphRef<'_>) -> Result<(), gt_graph::GraphError> {
    let mut order: Vec<usize> = (0..graph.num_edges()).collect();
    order.sort_by_key(|&edge| (graph.src()[edge], graph.dst()[edge]));
    let width = store.layout().edge.categorical;
    let pick = |values: &[u32]| order.iter().map(|&edge| values[edge]).collect::<Vec<u32>>();
    let bonds: Vec<u32> =
        order.iter().flat_map(|&edge| &graph.edge().categorical[edge * width..(edge + 1) * width]).copied().collect();
    store.push(GraphParts {
        src: &pick(graph.src()),
        dst: &pick(graph.dst()),
        edge: FeatureRows { categorical: &bonds, ..graph.edge() },
        ..graph.parts()
    })
}
