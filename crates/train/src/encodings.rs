//! Positional encodings of a data set: taken from the data, from a file next to it, or computed
//! once.

use std::fs;
use std::path::{Path, PathBuf};

use gt_graph::GraphStore;
use gt_graph::encoding::{Coordinates, Encodings};
use gt_models::config::{Encoding, ModelConfig};
use gt_models::{compute_encodings, has_encoding};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use crate::error::Result;

/// Gives graphs the encoding of a configuration, unless they carry it. `data` is the file of the
/// graphs. Computed encodings are kept in a folder `.gt-cache` next to `data`, named by the graphs'
/// content, and are found there the next time.
///
/// # Errors
/// If the graphs carry the encoding in another width, or an iterative solver does not converge.
pub(crate) fn ensure_encodings(graphs: &mut GraphStore, config: &ModelConfig, data: Option<&Path>) -> Result<()> {
    if has_encoding(graphs, config)? {
        return Ok(());
    }
    let cache = data.map(|file| cache_file(file, config, &gt_data::content_hash(graphs)));
    let kept = cache.as_deref().and_then(|file| read(file, config, graphs.num_nodes()));
    let encodings = match kept {
        Some(encodings) => encodings,
        None => {
            let encodings = compute_encodings(graphs, config)?;
            if let Some(file) = &cache {
                // A cache that cannot be written (a read-only folder, a full disk) costs time, not
                // the run.
                let folder = file.parent().unwrap_or(Path::new("."));
                let _ = fs::create_dir_all(folder).and_then(|()| write(file, &encodings));
            }
            encodings
        }
    };
    Ok(graphs.set_encodings(encodings)?)
}

fn cache_file(data: &Path, config: &ModelConfig, content: &str) -> PathBuf {
    let kind = match config.encoding {
        Encoding::None => "none".to_owned(),
        Encoding::Laplacian => format!("laplacian{}", config.encoding_size),
        Encoding::RandomWalk => format!("walk{}", config.encoding_size),
        Encoding::Wl => "wl".to_owned(),
    };
    // The version counts changes of the encodings' definition.
    data.with_file_name(".gt-cache").join(format!("{}-{kind}-v1.safetensors", &content[..24]))
}

/// Reads a cache; a damaged cache counts as none.
fn read(file: &Path, config: &ModelConfig, nodes: usize) -> Option<Encodings> {
    let bytes = fs::read(file).ok()?;
    let tensors = SafeTensors::deserialize(&bytes).ok()?;
    let view = tensors.tensor("encoding").ok()?;
    let words = view.data().as_chunks::<4>().0;
    let width = config.encoding_size;
    let floats = |width: usize| {
        let fits = view.dtype() == Dtype::F32 && view.shape() == [nodes, width];
        fits.then(|| Coordinates { width, values: words.iter().map(|b| f32::from_le_bytes(*b)).collect() })
    };
    Some(match config.encoding {
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

fn write(file: &Path, encodings: &Encodings) -> std::io::Result<()> {
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
    gt_graph::write_atomic(file, &content)
}
