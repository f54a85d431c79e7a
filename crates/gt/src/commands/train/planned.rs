//! The runs that a call of `gt train` begins or resumes.

use std::path::{Path, PathBuf};
use std::sync::Once;

use anyhow::{Context, Result, bail, ensure};
use gt_data::write_bytes;
use gt_models::config::{InitLayers, SetKeys};
use gt_models::{Config, PublishedSet};
use gt_train::{RunDirectory, open_result};
use serde::{Deserialize, Serialize};

use super::{Arguments, InitLayersName};
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
    /// What begins the lines of the run, where there are several.
    pub(super) label: Option<String>,
}

/// What several runs of one call differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Several {
    Seeds,
    Folds,
}

/// The runs of a call: one in a folder of its own, or several in subfolders.
pub struct Plan {
    pub(super) several: Option<Several>,
    /// The keys that the user sets; others follow the data. `None` for complete configurations.
    pub(super) set: Option<SetKeys>,
    /// The folder of the run, or of the folders of the runs.
    pub(super) out: PathBuf,
    pub(super) runs: Vec<PlannedRun>,
    /// Whether the list of new runs is written; none for resumed runs, which have one.
    listed: Option<Once>,
}

/// The list of the runs in a folder, from which all of them resume.
#[derive(Serialize, Deserialize)]
struct Members {
    by: Several,
    runs: Vec<Member>,
}

#[derive(Serialize, Deserialize)]
struct Member {
    folder: String,
    config: Config,
}

impl Plan {
    /// The file that lists the runs of a folder.
    const MEMBERS: &str = "members.json";
    /// The predictions of a cross-validation.
    pub(super) const OUT_OF_FOLD: &str = "out_of_fold.csv";

    /// The folder of runs that a file belongs to.
    pub fn owner(file: &Path) -> Option<PathBuf> {
        let file = gt_graph::final_path(file).ok()?;
        let is_ours = [Self::MEMBERS, Self::OUT_OF_FOLD].iter().any(|name| file.ends_with(name));
        let members = file.with_file_name(Self::MEMBERS);
        (is_ours && members.is_file()).then(|| file.parent().map(Path::to_path_buf)).flatten()
    }

    /// Writes the list of several runs before the first of them begins, so that all of them can be
    /// resumed at any time.
    pub(super) fn list_members(&self) -> Result<()> {
        let (Some(by), Some(listed)) = (self.several, &self.listed) else { return Ok(()) };
        let mut written = Ok(());
        listed.call_once(|| {
            let folder = |run: &PlannedRun| {
                let name = run.run.path().file_name().unwrap_or_default();
                Member { folder: name.to_string_lossy().into_owned(), config: run.config.clone() }
            };
            let members = Members { by, runs: self.runs.iter().map(folder).collect() };
            let text = serde_json::to_vec_pretty(&members).expect("a list of runs is plain data");
            written = write_bytes(&self.out.join(Self::MEMBERS), &text);
        });
        Ok(written?)
    }
}

impl Drop for Plan {
    /// The first run made the folder of all, and removes it last if no run has begun.
    fn drop(&mut self) {
        if self.listed.as_ref().is_some_and(Once::is_completed) && !self.runs.iter().any(|run| run.run.has_begun()) {
            let _ = std::fs::remove_file(self.out.join(Self::MEMBERS));
        }
        while self.runs.pop().is_some() {}
    }
}

impl Several {
    /// The folder of a run, and the beginning of its lines.
    fn name(self, config: &Config) -> (String, String) {
        match self {
            Several::Seeds => (config.train.seed.to_string(), format!("seed {}: ", config.train.seed)),
            Several::Folds => {
                let fold = config.data.fold.unwrap_or_default();
                (format!("fold-{fold}"), format!("fold {fold}: "))
            }
        }
    }
}

impl Arguments {
    /// The run to resume, or all runs of a folder.
    pub(super) fn reopen(&self, out: &Path) -> Result<Plan> {
        let list = out.join(Plan::MEMBERS);
        let name = out.display().to_string();
        let mut plan = Plan { several: None, out: out.to_owned(), set: None, runs: Vec::new(), listed: None };
        if list.is_file() {
            let text = std::fs::read(&list).with_context(|| list.display().to_string())?;
            let members: Members = serde_json::from_slice(&text).with_context(|| list.display().to_string())?;
            plan.several = Some(members.by);
            for Member { folder, config } in members.runs {
                let run = RunDirectory::open(&out.join(&folder))?;
                let config = if run.has_begun() { run.config()? } else { config };
                let label = Some(members.by.name(&config).1);
                plan.runs.push(PlannedRun { run, config, name: name.clone(), label });
            }
        } else {
            let run = RunDirectory::reopen(out)?;
            let config = run.config()?;
            plan.runs.push(PlannedRun { run, config, name, label: None });
        }
        if let Some(data) = &self.data {
            plan.runs.iter_mut().try_for_each(|run| set_data_file(&mut run.config, data))?;
        }
        Ok(plan)
    }

    /// The configuration of the call, the name of its runs, and the keys that the user sets; `None`
    /// for a complete configuration.
    fn configure(&self) -> Result<(Config, String, Option<SetKeys>)> {
        let source = match (self.config.source()?, &self.data) {
            (Some(source), _) => source,
            (None, Some(_)) => ConfigSource::Settings,
            (None, None) => ConfigSource::Text(EMBEDDED),
        };
        let settings = [self.config.settings(), &self.columns.settings()].concat();
        let init = self.init.as_ref().map(|path| open_result(path).map(|(_, model)| (path, model))).transpose()?;
        let mut config = match (&init, &source) {
            (Some((_, model)), ConfigSource::Settings) => {
                let mut like = Config { model: model.config.model.clone(), ..Config::default() };
                like.data.standardize = model.config.data.standardize;
                like.data.standardize_inputs = model.config.data.standardize_inputs;
                Config::from_toml_with(&like.to_toml(), &settings)?
            }
            _ => source.load(&settings)?,
        };
        let mut set = source.set_keys(&settings);
        if init.is_some() {
            // The network and its inputs are those of the weights.
            set = set.map(|set| set.with_all_of("model").with_all_of("data"));
        }
        if let Some((path, _)) = init {
            let name = path.to_str().with_context(|| format!("{}: the name is no Unicode text", path.display()))?;
            name.clone_into(&mut config.train.init);
        }
        match self.init_layers {
            Some(InitLayersName::All) => config.train.init_layers = InitLayers::All,
            Some(InitLayersName::Encoder) => config.train.init_layers = InitLayers::Encoder,
            None => {}
        }
        let name = match (&source, &self.data) {
            (ConfigSource::File(file), _) => file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            (ConfigSource::Preset(preset), _) => preset.name(),
            (ConfigSource::Settings, _) => "run".to_owned(),
            (ConfigSource::Text(_), _) => "cluster-small".to_owned(),
        };
        if let Some(data) = &self.data {
            set_data_file(&mut config, data)?;
        }
        if let Some(seed) = self.seed {
            config.train.seed = seed;
        }
        if let Some(folds) = self.folds {
            config.data.folds = Some(folds);
            config.data.fold = None;
            config.check()?;
        }
        let needs_zinc = matches!(&source, ConfigSource::Preset(preset) if preset.set == PublishedSet::Zinc);
        if let Some(file) = fetched_zinc().filter(|_| needs_zinc && config.data.file.is_empty()) {
            set_data_file(&mut config, &file)?;
        }
        ensure!(
            !config.data.file.is_empty() || matches!(source, ConfigSource::Text(_)),
            "there is no data: name a file by --data or data.file (gt data fetch zinc, gt data sbm pattern|cluster make the paper's)"
        );
        Ok((config, name, set))
    }

    /// A new run, or one per seed or fold.
    pub(super) fn begin(&self) -> Result<Plan> {
        let (config, name, set) = self.configure()?;
        let mut configs = Vec::new();
        let several = match (config.data.folds, config.data.fold) {
            _ if !self.seeds.is_empty() => {
                ensure!(
                    config.data.folds.is_none() || config.data.fold.is_some(),
                    "--seeds trains one split with several seeds; set data.fold too, or call `gt train --folds` once for each --seed"
                );
                check_distinct(&self.seeds)?;
                configs.extend(self.seeds.iter().map(|seed| {
                    let mut config = config.clone();
                    config.train.seed = *seed;
                    config
                }));
                Some(Several::Seeds)
            }
            (Some(folds), None) => {
                configs.extend((1..=folds).map(|fold| {
                    let mut config = config.clone();
                    config.data.fold = Some(fold);
                    config
                }));
                Some(Several::Folds)
            }
            _ => {
                configs.push(config.clone());
                None
            }
        };
        let out = match (&self.out, several) {
            (Some(out), _) => out.clone(),
            (None, None) => choose_directory(&format!("{name}-{}", config.train.seed)),
            (None, Some(Several::Seeds)) => choose_directory(&format!("{name}-seeds")),
            (None, Some(Several::Folds)) => choose_directory(&format!("{name}-folds")),
        };
        let mut plan = Plan { several, out, set, runs: Vec::new(), listed: Some(Once::new()) };
        if several.is_some() {
            // A run of the folder itself, or other runs in subfolders.
            let begun = [Plan::MEMBERS, "config.toml"].iter().any(|file| plan.out.join(file).exists());
            ensure!(!begun, in_use(&plan.out));
            let (out, file) = (plan.out.display(), Plan::OUT_OF_FOLD);
            ensure!(
                !plan.out.join(file).exists(),
                "{out}: it holds {file}, which the runs would replace; choose another --out, or move {file} away"
            );
        }
        check_spares_data(&plan.out, &config)?;
        for config in configs {
            let (directory, label) = match several.map(|several| several.name(&config)) {
                Some((folder, label)) => (plan.out.join(folder), Some(label)),
                None => (plan.out.clone(), None),
            };
            ensure!(!directory.join(Plan::MEMBERS).exists(), in_use(&directory));
            let run = match several {
                Some(_) => RunDirectory::begin_alone(&directory)?,
                None => RunDirectory::begin(&directory)?,
            };
            ensure!(!run.has_begun(), in_use(&directory));
            plan.runs.push(PlannedRun { run, config, name: name.clone(), label });
        }
        Ok(plan)
    }
}

/// Checks that the folder of a new run does not contain its data, which would go with the run.
fn check_spares_data(out: &Path, config: &Config) -> Result<()> {
    // A folder that does not exist contains nothing.
    let Ok(folder) = out.canonicalize() else { return Ok(()) };
    if config.data.file.is_empty() {
        return Ok(());
    }
    let inside = |file: &PathBuf| file.canonicalize().is_ok_and(|file| file.starts_with(&folder));
    match gt_data::files_of(Path::new(&config.data.file)).into_iter().find(inside) {
        Some(file) => {
            bail!("{}: it contains the data file {}; choose another --out", out.display(), file.display())
        }
        None => Ok(()),
    }
}

fn in_use(directory: &Path) -> String {
    format!(
        "{0}: a run has begun there; resume it with `gt train --resume --out {0}`, or choose another --out",
        directory.display()
    )
}

/// The first directory for runs of this name that does not exist yet.
fn choose_directory(name: &str) -> PathBuf {
    let first = PathBuf::from("runs").join(name);
    let others = (2..).map(|count| PathBuf::from("runs").join(format!("{name}-{count}")));
    std::iter::once(first).chain(others).find(|path| !path.exists()).unwrap_or_else(|| PathBuf::from("runs"))
}
