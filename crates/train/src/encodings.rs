//! Positional encodings of a data set: taken from the data, from a cache, or computed once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use gt_graph::GraphStore;
use gt_graph::encoding::{Coordinates, Encodings};
use gt_models::config::{Encoding, ModelConfig};
use gt_models::{compute_encodings, has_encoding};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use sha2::{Digest, Sha256};

use crate::error::Result;

/// A folder of computed encodings, named by the content of the graphs. Files that were not used for
/// the longest time make room for new ones.
///
/// ```
/// use graph_transformer_train::{EncodingCache, Prepared};
/// use gt_data::{SbmSet, SbmSizes};
/// use gt_models::Config;
///
/// let folder = tempfile::tempdir()?;
/// let cache = EncodingCache::new(folder.path().join("encodings"));
/// let data = SbmSet::Cluster.generate(1, SbmSizes { train: 4, val: 1, test: 1 })?;
/// let config = Config::from_toml("[model]\nencoding = \"laplacian\"\nencoding_size = 4")?;
/// let computed = Prepared::for_training(data.clone(), &config, Some(&cache))?;
/// let found = Prepared::for_training(data, &config, Some(&cache))?;
/// assert_eq!(computed.graphs, found.graphs);
/// assert_eq!(cache.files()?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct EncodingCache {
    folder: PathBuf,
    limit: u64,
}

/// A file of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheFile {
    /// Its path.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// When the file was written or read last.
    pub used: SystemTime,
}

impl EncodingCache {
    /// Bytes that a cache may hold.
    pub const LIMIT: u64 = 4 << 30;

    /// The end of the names of files in a cache. The version counts changes of the encodings'
    /// definition and of the file.
    const SUFFIX: &str = "-v2.encoding";

    /// A cache in a folder, which need not exist yet, of at most [`Self::LIMIT`] bytes.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), limit: Self::LIMIT }
    }

    /// A cache of at most so many bytes.
    pub fn with_limit(self, limit: u64) -> Self {
        Self { limit, ..self }
    }

    /// The files, the longest unused first.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn files(&self) -> std::io::Result<Vec<CacheFile>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut files = Vec::new();
        for entry in entries {
            let (entry, suffix) = (entry?, Self::SUFFIX);
            if entry.file_name().to_str().is_some_and(|name| name.ends_with(suffix)) {
                let about = entry.metadata()?;
                files.push(CacheFile { path: entry.path(), bytes: about.len(), used: about.modified()? });
            }
        }
        files.sort_by(|a, b| (a.used, &a.path).cmp(&(b.used, &b.path)));
        Ok(files)
    }

    fn file(&self, config: &ModelConfig, content: &str) -> PathBuf {
        let kind = match config.encoding {
            Encoding::None => "none".to_owned(),
            Encoding::Laplacian => format!("laplacian{}", config.encoding_size),
            Encoding::RandomWalk => format!("walk{}", config.encoding_size),
            Encoding::Wl => "wl".to_owned(),
        };
        self.folder.join(format!("{content}-{kind}{}", Self::SUFFIX))
    }

    fn store(&self, file: &Path, encodings: &Encodings) -> std::io::Result<()> {
        gt_graph::create_folder(&self.folder)?;
        let content = to_bytes(encodings);
        let new = content.len() as u64;
        if new > self.limit {
            return Ok(());
        }
        let files = self.files()?;
        let mut held: u64 = files.iter().map(|file| file.bytes).sum();
        for old in files {
            if held + new <= self.limit {
                break;
            }
            fs::remove_file(&old.path)?;
            held -= old.bytes;
        }
        gt_graph::write_atomic(file, &content)
    }
}

/// Gives graphs the encoding of a configuration, unless they carry it.
///
/// # Errors
/// If the graphs carry the encoding in another width, or an iterative solver does not converge.
pub(crate) fn ensure_encodings(
    graphs: &mut GraphStore,
    config: &ModelConfig,
    cache: Option<&EncodingCache>,
) -> Result<()> {
    if has_encoding(graphs, config)? {
        return Ok(());
    }
    let cached = cache.map(|cache| (cache, cache.file(config, &gt_data::content_hash(graphs))));
    let kept = cached.as_ref().and_then(|(_, file)| read(file, config, graphs.num_nodes()));
    let encodings = match kept {
        Some(encodings) => encodings,
        None => {
            let encodings = compute_encodings(graphs, config)?;
            if let Some((cache, file)) = &cached {
                // A cache that cannot be written (a read-only folder, a full disk) costs time, not
                // the run.
                let _ = cache.store(file, &encodings);
            }
            encodings
        }
    };
    Ok(graphs.set_encodings(encodings)?)
}

/// Reads a file of a cache, and notes that it was used. A damaged file counts as none.
fn read(file: &Path, config: &ModelConfig, nodes: usize) -> Option<Encodings> {
    let bytes = fs::read(file).ok()?;
    let (hash, bytes) = bytes.split_at_checked(HASH)?;
    if hash != Sha256::digest(bytes).as_slice() {
        return None;
    }
    let _ = File::options().append(true).open(file).and_then(|file| file.set_modified(SystemTime::now()));
    let tensors = SafeTensors::deserialize(bytes).ok()?;
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

/// Bytes of the SHA-256 that a file of a cache begins with. A flipped bit would change a training
/// silently.
const HASH: usize = 32;

/// The content of a file of a cache: a hash, and a safetensors file.
fn to_bytes(encodings: &Encodings) -> Vec<u8> {
    let (dtype, shape, bytes): (Dtype, Vec<usize>, Vec<u8>) =
        match (encodings.laplacian.as_ref().or(encodings.random_walk.as_ref()), &encodings.weisfeiler_lehman) {
            (Some(Coordinates { width, values }), _) => {
                let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                (Dtype::F32, vec![values.len() / width, *width], bytes)
            }
            (None, Some(roles)) => {
                (Dtype::U32, vec![roles.len()], roles.iter().flat_map(|v| v.to_le_bytes()).collect())
            }
            (None, None) => (Dtype::U32, vec![0], Vec::new()),
        };
    let view = TensorView::new(dtype, shape, &bytes).expect("lengths follow from shapes");
    let content = safetensors::serialize([("encoding", view)], None).expect("plain tensors serialise");
    [Sha256::digest(&content).as_slice(), &content].concat()
}

#[cfg(test)]
mod tests {
    use gt_data::{SbmSet, SbmSizes};
    use gt_models::Config;

    use super::*;

    fn graphs(seed: u64) -> GraphStore {
        SbmSet::Cluster.generate(seed, SbmSizes { train: 2, val: 0, test: 0 }).unwrap().into_graphs()
    }

    fn config() -> ModelConfig {
        Config::from_toml("[model]\nencoding = \"laplacian\"\nencoding_size = 3").unwrap().model
    }

    #[test]
    fn a_damaged_file_is_computed_anew() {
        let folder = tempfile::tempdir().unwrap();
        let cache = EncodingCache::new(folder.path());
        let encode = || {
            let mut graphs = graphs(1);
            ensure_encodings(&mut graphs, &config(), Some(&cache)).unwrap();
            graphs
        };
        let computed = encode();
        let [CacheFile { path, .. }] = &cache.files().unwrap()[..] else { panic!("one file") };
        let whole = fs::read(path).unwrap();
        for at in (0..whole.len()).step_by(whole.len() / 40).chain([whole.len() - 1]) {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(path, &damaged).unwrap();
            assert_eq!(read(path, &config(), computed.num_nodes()), None, "byte {at}");
        }
        assert_eq!(encode(), computed);
        assert_eq!(fs::read(path).unwrap(), whole);
    }

    #[test]
    fn the_longest_unused_files_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let cache = EncodingCache::new(folder.path());
        let encode = |cache: &EncodingCache, seed| ensure_encodings(&mut graphs(seed), &config(), Some(cache)).unwrap();
        let names = || cache.files().unwrap().into_iter().map(|file| file.path).collect::<Vec<_>>();
        encode(&cache, 1);
        encode(&cache, 2);
        let [first, second] = &names()[..] else { panic!("two files") };
        let long_ago = |path: &Path, seconds| {
            let time = SystemTime::now() - std::time::Duration::from_secs(seconds);
            File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
        };
        long_ago(first, 200);
        long_ago(second, 100);
        // Reading counts as use, so the second file is now the longest unused.
        encode(&cache, 1);
        let held: u64 = cache.files().unwrap().iter().map(|file| file.bytes).sum();
        encode(&cache.clone().with_limit(held + held / 4), 3);
        let left = names();
        assert!(left.contains(first) && !left.contains(second) && left.len() == 2, "{left:?}");
        // A file beyond the limit is not stored at all.
        encode(&cache.clone().with_limit(10), 4);
        assert_eq!(names(), left);
    }

    #[test]
    fn a_folder_that_cannot_be_made_costs_time_only() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "no folder").unwrap();
        let cache = EncodingCache::new(file.join("below"));
        let mut graphs = graphs(1);
        ensure_encodings(&mut graphs, &config(), Some(&cache)).unwrap();
        assert!(has_encoding(&graphs, &config()).unwrap());
    }
}
