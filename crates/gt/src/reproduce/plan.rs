//! Which runs are left, and in which order.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Result, anyhow, ensure};
use gt_models::{Config, Preset};
use gt_train::RunDirectory;

use super::cell::Cell;
use super::data::drawn;
use super::paper::Paper;
use super::record::{Folder, Record, run_name};
use crate::console;

/// A run that is left.
pub struct Job {
    pub cell: Cell,
    pub seed: u64,
    pub config: Config,
    /// Relative to other runs.
    pub estimate: f64,
    /// Whether a part of it is done.
    pub begun: bool,
}

impl Job {
    pub fn name(&self) -> String {
        run_name(&self.cell, self.seed)
    }
}

pub struct Plan {
    /// Runs that have begun, then the others, the longest first; those of one cell together, since they share their data.
    pub jobs: Vec<Job>,
    pub done: Vec<String>,
    /// Cells that this program cannot train.
    pub unknown: Vec<String>,
}

impl Plan {
    /// Leaves out what has a record. `settings` are keys that are set otherwise than published, `graphs` are those to train on if not as many as published.
    ///
    /// # Errors
    /// If a setting is wrong, or a record was made with others or with another number of graphs.
    pub fn new(
        cells: &[Cell],
        seeds: &[u64],
        settings: &[String],
        graphs: Option<usize>,
        folder: &Folder,
        records: &BTreeMap<String, Record>,
        paper: &Paper,
    ) -> Result<Self> {
        let mut plan = Self { jobs: Vec::new(), done: Vec::new(), unknown: Vec::new() };
        for cell in cells {
            let Some(preset) = Preset::named(&cell.preset) else {
                plan.unknown.push(cell.name());
                continue;
            };
            let config = Config::from_toml_with(&preset.config().to_toml(), settings)?;
            for &seed in seeds {
                let name = run_name(cell, seed);
                if let Some(record) = records.get(&name) {
                    let told = |changes: &[String]| match changes {
                        [] => "nothing".to_owned(),
                        some => some.join(", "),
                    };
                    ensure!(
                        record.changes == settings,
                        "{}: this record was made with {} set, now it is {}; choose another --results",
                        folder.record(&name).display(),
                        told(&record.changes),
                        told(settings)
                    );
                    let drawn = drawn(cell.set(), graphs).unwrap_or(record.data.graphs);
                    ensure!(
                        record.data.graphs == drawn,
                        "{}: this record was made with {} graphs, now {drawn} would be drawn; choose another --results",
                        folder.record(&name).display(),
                        record.data.graphs
                    );
                    plan.done.push(name);
                    continue;
                }
                let mut config = config.clone();
                config.train.seed = seed;
                let begun = folder.unfinished(&name).join("checkpoint").exists();
                plan.jobs.push(Job { cell: cell.clone(), seed, config, estimate: paper.estimate(&cell.preset), begun });
            }
        }
        plan.jobs.sort_by(|a, b| b.begun.cmp(&a.begun).then(b.estimate.total_cmp(&a.estimate)));
        Ok(plan)
    }
}

/// A program that was killed between the record and the removal of the run, or its move, leaves the run behind.
pub fn clear_leftover(folder: &Folder, name: &str, keep: bool) {
    let path = folder.unfinished(name);
    // Held meanwhile, so that nobody else is at it.
    let Some(Ok(_run)) = path.exists().then(|| RunDirectory::open(&path)) else { return };
    if keep {
        let _ = put_away(&path, &folder.kept(name));
    } else {
        let _ = fs::remove_dir_all(&path);
    }
}

/// Moves the directory of a run to those that are kept, in place of an older one.
pub fn put_away(run: &Path, kept: &Path) -> Result<()> {
    let parent = kept.parent().unwrap_or(Path::new("."));
    let moved = fs::create_dir_all(parent).and_then(|()| {
        if kept.exists() {
            fs::remove_dir_all(kept)?;
        }
        fs::rename(run, kept)
    });
    moved.map_err(|e| anyhow!("{}: {e}", kept.display()))
}

/// The cells that names mean: a cell's own name, or the beginning of several.
///
/// # Errors
/// If a name means none.
pub fn choose(cells: &[Cell], names: &[String]) -> Result<Vec<Cell>> {
    let mut chosen: Vec<Cell> = Vec::new();
    for name in names {
        let exactly: Vec<&Cell> = cells.iter().filter(|cell| cell.name() == *name).collect();
        let beginning = || cells.iter().filter(|cell| cell.begins_with(name)).collect();
        let found: Vec<&Cell> = if exactly.is_empty() { beginning() } else { exactly };
        if found.is_empty() {
            let hint = console::nearest(name, cells.iter().map(Cell::name));
            return Err(anyhow!("there is no cell `{name}` here{hint}"));
        }
        chosen.extend(found.into_iter().filter(|cell| !chosen.contains(cell)).cloned().collect::<Vec<_>>());
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(cells: &[Cell]) -> Vec<String> {
        cells.iter().map(Cell::name).collect()
    }

    #[test]
    fn every_cell_of_tables_1_and_3_is_a_preset_of_its_own_name() {
        let paper = Paper::new();
        for cell in ["table1", "table3"].iter().flat_map(|table| paper.cells(Some(table))) {
            assert_eq!(Preset::named(&cell.preset).map(|preset| preset.name()), Some(cell.preset));
        }
    }

    #[test]
    fn a_name_means_itself_or_what_begins_with_it() {
        let mut cells = Paper::new().cells(None);
        cells.push(Cell::second_draw());
        let chosen = |name: &str| choose(&cells, &[name.to_owned()]).map(|cells| names(&cells));
        assert_eq!(chosen("cluster-sparse-lappe-bn").unwrap(), ["cluster-sparse-lappe-bn"]);
        assert_eq!(chosen("cluster-sparse-lappe-bn-draw2").unwrap(), ["cluster-sparse-lappe-bn-draw2"]);
        assert_eq!(chosen("zinc-sparse-none").unwrap(), ["zinc-sparse-none-ln", "zinc-sparse-none-bn"]);
        assert_eq!(chosen("zinc").unwrap().len(), 12);
        let error = chosen("zinc-sparse-lap-bn").unwrap_err().to_string();
        assert_eq!(error, "there is no cell `zinc-sparse-lap-bn` here; did you mean `zinc-sparse-lappe-bn`?");
        assert_eq!(chosen("imdb").unwrap_err().to_string(), "there is no cell `imdb` here.");
    }

    #[test]
    fn the_longest_run_comes_first_unless_another_has_begun() {
        let folder = tempfile::tempdir().unwrap();
        let results = Folder::new(folder.path());
        std::fs::create_dir_all(results.unfinished("zinc-sparse-none-ln-95").join("checkpoint")).unwrap();
        let paper = Paper::new();
        let cells: Vec<Cell> =
            ["zinc-sparse-none-ln", "pattern-full-lappe-bn", "cluster-full-lappe-bn"].map(Cell::first_draw).into();
        let plan = Plan::new(&cells, &[41, 95], &[], None, &results, &BTreeMap::new(), &paper).unwrap();
        let order: Vec<String> = plan.jobs.iter().map(Job::name).collect();
        let expected = [
            "zinc-sparse-none-ln-95",
            "pattern-full-lappe-bn-41",
            "pattern-full-lappe-bn-95",
            "cluster-full-lappe-bn-41",
            "cluster-full-lappe-bn-95",
            "zinc-sparse-none-ln-41",
        ];
        assert_eq!(order, expected);
    }
}
