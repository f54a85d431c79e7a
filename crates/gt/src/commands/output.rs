//! Files that commands write: checks before any work, and the data sets themselves.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use gt_data::Dataset;
use gt_graph::FileId;
use gt_train::RunDirectory;

use super::train::Plan;
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

/// What a command reads and what it writes, checked before any work: no result replaces an input, a
/// file of a run, or another result.
#[derive(Default)]
pub struct OutputCheck<'a> {
    /// Arguments with their files.
    inputs: Vec<(&'a str, PathBuf)>,
    outputs: Vec<PathBuf>,
}

impl<'a> OutputCheck<'a> {
    /// For a command that writes one file.
    pub fn of_file(out: &Path) -> Self {
        Self { outputs: vec![out.into()], ..Self::default() }
    }

    /// For a command that writes a data set.
    ///
    /// # Errors
    /// The name has no known format.
    pub fn of_dataset(out: &Path) -> Result<Self> {
        gt_data::Format::of(out)?;
        Ok(Self { outputs: gt_data::files_of(out), ..Self::default() })
    }

    /// Adds a file that the command writes.
    pub fn writes(mut self, out: &Path) -> Self {
        self.outputs.push(out.into());
        self
    }

    /// Adds a file that the command reads for an argument.
    pub fn reads(mut self, argument: &'a str, file: &Path) -> Self {
        self.inputs.push((argument, file.into()));
        self
    }

    /// Adds a data set that the command reads for an argument.
    pub fn reads_dataset(mut self, argument: &'a str, path: &Path) -> Self {
        self.inputs.extend(gt_data::files_of(path).into_iter().map(|file| (argument, file)));
        self
    }

    /// Checks every output.
    ///
    /// # Errors
    /// An output has no folder, or may not be replaced.
    pub fn check(&self) -> Result<()> {
        let inputs: Vec<_> =
            self.inputs.iter().filter_map(|(argument, file)| Some((argument, FileId::of(file)?))).collect();
        let mut written: Vec<FileId> = Vec::new();
        for out in &self.outputs {
            let name = out.display();
            check_folder(out)?;
            if let Some(run) = owning_run(out) {
                bail!("{name}: it is a file of the run in {}; name another file to write", run.display());
            }
            let Some(id) = FileId::of(out) else { continue };
            if let Some((argument, _)) = inputs.iter().find(|(_, input)| *input == id) {
                bail!("{name}: it is read as {argument} and would be replaced; name another file to write");
            }
            ensure!(!written.contains(&id), "{name}: two results would have this name; name another file to write");
            written.push(id);
        }
        Ok(())
    }
}

/// The run, or the folder of runs, that a file belongs to.
fn owning_run(file: &Path) -> Option<PathBuf> {
    RunDirectory::owner(file).or_else(|| Plan::owner(file))
}

/// Checks that the folder of `path` exists.
fn check_folder(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    ensure!(folder.is_dir(), "{}: the folder {} does not exist", path.display(), folder.display());
    Ok(())
}
