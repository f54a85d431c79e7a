//! The runs that a call of `gt train` begins or resumes.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use gt_models::{Config, PublishedSet};
use gt_train::RunDirectory;

use super::Arguments;
use crate::cache::fetched_zinc;
use crate::commands::config_args::ConfigSource;
use crate::commands::configured_data::set_data_file;
use crate::commands::seeds::check_distinct;

/// A small model for the embedded CLUSTER set.
const EMBEDDED: &str = "[model]\nlayers = 6\nwidth = 64\nheads = 8\nencoding = \"laplacian\"\nencoding_size = 10\n\n[optimizer]\nlr = 1e-3\n\n\
                        [schedule]\nname = \"cosine\"\nmin_lr = 1e-5\nwarmup = 1\n\n[train]\nbatch = 16\nepochs = 36\n";

/// A run that may begin or resume.
pub(super) struct PlannedRun {
    pub(super) run: RunDirectory,
    pub(super) config: Config,
    pub(super) name: String,
}

impl Arguments {
    /// Directory, configuration and name of the run to resume.
    pub(super) fn reopen(&self, out: &Path) -> Result<PlannedRun> {
        let run = RunDirectory::reopen(out)?;
        let mut config = run.config()?;
        if let Some(data) = &self.data {
            set_data_file(&mut config, data)?;
        }
        Ok(PlannedRun { run, config, name: out.display().to_string() })
    }

    /// Directory, configuration and name of a new run, or of one per seed.
    pub(super) fn begin(&self) -> Result<Vec<PlannedRun>> {
        let source = match (self.config.source()?, &self.data) {
            (Some(source), _) => source,
            (None, Some(_)) => ConfigSource::Text(""),
            (None, None) => ConfigSource::Text(EMBEDDED),
        };
        let mut config = source.load(self.config.settings())?;
        let name = match (&source, &self.data) {
            (ConfigSource::File(file), _) => file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            (ConfigSource::Preset(preset), _) => preset.name(),
            (ConfigSource::Text(_), Some(_)) => "run".to_owned(),
            (ConfigSource::Text(_), None) => "cluster-small".to_owned(),
        };
        if let Some(data) = &self.data {
            set_data_file(&mut config, data)?;
        }
        if let Some(seed) = self.seed {
            config.train.seed = seed;
        }
        let needs_zinc = matches!(&source, ConfigSource::Preset(preset) if preset.set == PublishedSet::Zinc);
        if let Some(file) = fetched_zinc().filter(|_| needs_zinc && config.data.file.is_empty()) {
            set_data_file(&mut config, &file)?;
        }
        ensure!(
            !config.data.file.is_empty() || matches!(source, ConfigSource::Text(_)),
            "there is no data: name a file by --data or data.file (gt data fetch zinc, gt data sbm pattern|cluster make the paper's)"
        );
        let seeds = if self.seeds.is_empty() { vec![config.train.seed] } else { self.seeds.clone() };
        check_distinct(&seeds)?;
        let prepare = |seed: u64| {
            let directory = match &self.out {
                Some(out) if self.seeds.is_empty() => out.clone(),
                Some(out) => out.join(seed.to_string()),
                None => choose_directory(&name, seed),
            };
            let run = RunDirectory::open(&directory)?;
            ensure!(
                !run.has_begun(),
                "{}: a run has begun there; resume it with --resume, or choose another --out",
                directory.display()
            );
            let mut config = config.clone();
            config.train.seed = seed;
            Ok(PlannedRun { run, config, name: name.clone() })
        };
        seeds.into_iter().map(prepare).collect()
    }
}

/// The first directory for a run of this name that does not exist yet.
fn choose_directory(name: &str, seed: u64) -> PathBuf {
    let first = PathBuf::from("runs").join(format!("{name}-{seed}"));
    let others = (2..).map(|count| PathBuf::from("runs").join(format!("{name}-{seed}-{count}")));
    std::iter::once(first).chain(others).find(|path| !path.exists()).unwrap_or_else(|| PathBuf::from("runs"))
}
