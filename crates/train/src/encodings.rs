//! Positional encodings that a configuration asks for: taken from the data, from a file beside it, or computed once.

use std::fs;
use std::path::{Path, PathBuf};

use gt_graph::GraphStore;
use gt_graph::encoding::{Coordinates, Encodings, Laplacian, RandomWalk, WeisfeilerLehman, encode_all};
use gt_models::Config;
use gt_models::config::Encoding;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use crate::error::{Result, TrainError};

/// Gives the graphs the encoding that the configuration asks for. `data` is the file they came from; what has to be computed is kept in a folder
/// `.gt-cache` beside it, named by the graphs' content, and found there the next time.
///
/// # Errors
/// If an iterative solver does not converge.
pub fn ensure_encodings(graphs: &mut GraphStore, config: &Config, data: Option<&Path>) -> Result<()> {
    let width = config.model.encoding_size;
    let there = graphs.encodings();
    let complete = match config.model.encoding {
        Encoding::None => true,
        Encoding::Laplacian => there.laplacian.as_ref().is_some_and(|c| c.width == width),
        Encoding::RandomWalk => there.random_walk.as_ref().is_some_and(|c| c.width == width),
        Encoding::Wl => there.weisfeiler_lehman.is_some(),
    };
    if complete {
        return Ok(());
    }
    let cache = data.map(|file| cache_file(file, config, &gt_data::content_hash(graphs)));
    let kept = cache.as_deref().and_then(|file| read(file, config, graphs.num_nodes()));
    let encodings = match kept {
        Some(encodings) => encodings,
        None => {
            let encodings = compute(graphs, config)?;
            if let Some(file) = &cache {
                // A cache that cannot be written (a read-only folder, a full disk) costs time, not the run.
                let folder = file.parent().unwrap_or(Path::new("."));
                let _ = fs::create_dir_all(folder).ok().map(|()| write(file, &encodings));
            }
            encodings
        }
    };
    graphs.set_encodings(encodings).map_err(|e| TrainError::Data(e.to_string()))
}

fn cache_file(data: &Path, config: &Config, content: &str) -> PathBuf {
    let kind = match config.model.encoding {
        Encoding::None => "none".to_owned(),
        Encoding::Laplacian => format!("laplacian{}", config.model.encoding_size),
        Encoding::RandomWalk => format!("walk{}", config.model.encoding_size),
        Encoding::Wl => "wl".to_owned(),
    };
    // The version counts changes of the encodings' definition.
    data.with_file_name(".gt-cache").join(format!("{}-{kind}-v1.safetensors", &content[..24]))
}

fn compute(graphs: &GraphStore, config: &Config) -> Result<Encodings> {
    let width = config.model.encoding_size;
    let failed = |(graph, error)| TrainError::Data(format!("graph {graph}: {error}"));
    Ok(match config.model.encoding {
        Encoding::None => Encodings::default(),
        Encoding::Laplacian => {
            let values = encode_all(&Laplacian::new(width), graphs).map_err(failed)?;
            Encodings { laplacian: Some(Coordinates { width, values }), ..Default::default() }
        }
        Encoding::RandomWalk => {
            let values = encode_all(&RandomWalk { steps: width }, graphs).map_err(failed)?;
            Encodings { random_walk: Some(Coordinates { width, values }), ..Default::default() }
        }
        Encoding::Wl => {
            let roles = encode_all(&WeisfeilerLehman::default(), graphs).map_err(failed)?;
            Encodings { weisfeiler_lehman: Some(roles), ..Default::default() }
        }
    })
}

/// Reads a cache; anything wrong with it is as good as no cache.
fn read(file: &Path, config: &Config, nodes: usize) -> Option<Encodings> {
    let bytes = fs::read(file).ok()?;
    let tensors = SafeTensors::deserialize(&bytes).ok()?;
    let view = tensors.tensor("encoding").ok()?;
    let words = view.data().as_chunks::<4>().0;
    let width = config.model.encoding_size;
    let floats = |width: usize| {
        let fits = view.dtype() == Dtype::F32 && view.shape() == [nodes, width];
        fits.then(|| Coordinates { width, values: words.iter().map(|b| f32::from_le_bytes(*b)).collect() })
    };
    Some(match config.model.encoding {
        Encoding::None => return None,
        Encoding::Laplacian => Encodings { laplacian: Some(floats(width)?), ..Default::default() },
        Encoding::RandomWalk => Encodings { random_walk: Some(floats(width)?), ..Default::default() },
        Encoding::Wl => {
            if view.dtype() != Dtype::U32 || view.shape() != [nodes] {
                return None;
            }
            let roles = words.iter().map(|b| u32::from_le_bytes(*b)).collect();
            Encodings { weisfeiler_lehman: Some(roles), ..Default::default() }
        }
    })
}

fn write(file: &Path, encodings: &Encodings) -> gt_data::Result<()> {
    let (dtype, shape, bytes): (Dtype, Vec<usize>, Vec<u8>) =
        match (encodings.laplacian.as_ref().or(encodings.random_walk.as_ref()), &encodings.weisfeiler_lehman) {
            (Some(Coordinates { width, values }), _) => {
                let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                (Dtype::F32, vec![values.len() / width, *width], bytes)
            }
            (None, Some(roles)) => {
                (Dtype::U32, vec![roles.len()], roles.iter().flat_map(|v| v.to_le_bytes()).collect())
            }
            (None, None) => return Ok(()),
        };
    let view = TensorView::new(dtype, shape, &bytes).expect("lengths follow from shapes");
    let content = safetensors::serialize([("encoding", view)], None).expect("plain tensors serialise");
    gt_data::write_bytes(file, &content)
}
