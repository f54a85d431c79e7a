//! Files that commands write: checks before any work, and the data sets themselves.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use gt_data::Dataset;

use crate::console;

/// Writes a data set, and prints its size.
pub fn write_dataset(dataset: &Dataset, path: &Path) -> Result<()> {
    for lost in gt_data::write(dataset, path)? {
        console::warn(&lost);
    }
    let graphs = dataset.graphs();
    let counts = format!("{} graphs, {} nodes, {} edges", graphs.len(), graphs.num_nodes(), graphs.num_edges());
    console::say!("wrote {}: {counts}", path.display());
    Ok(())
}

/// Checks that `path` names a format of data sets, and that its folder exists.
pub fn check_dataset_path(path: &Path) -> Result<()> {
    gt_data::Format::of(path)?;
    check_folder(path)
}

/// Checks that the folder of `path` exists.
pub fn check_folder(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    ensure!(folder.is_dir(), "{}: the folder {} does not exist", path.display(), folder.display());
    Ok(())
}

/// Checks that `--out` does not replace the input file of another argument.
pub fn check_spares_input(out: &Path, argument: &str, input: &Path) -> Result<()> {
    let replaced = share_a_file(&[out.to_owned()], &gt_data::files_of(input));
    ensure!(!replaced, "{}: --out would replace {argument}", out.display());
    Ok(())
}

/// Whether an existing file is in both lists.
pub fn share_a_file(some: &[PathBuf], others: &[PathBuf]) -> bool {
    let places = |files: &[PathBuf]| files.iter().filter_map(|file| file.canonicalize().ok()).collect::<Vec<_>>();
    let others = places(others);
    places(some).iter().any(|place| others.contains(place))
}
