//! Which runs are left, and in which order.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use gt_models::config::nearest;
use gt_models::{Config, Preset};
use gt_train::RunDirectory;

use crate::cell::Cell;
use crate::error::{ReproduceError, Result};
use crate::paper::Paper;
use crate::record::{Record, ResultsFolder, run_name};
use crate::shared_data::count_drawn_graphs;

/// A run that has no record yet.
pub struct Job {
    /// The cell to train.
    pub cell: Cell,
    /// The seed to train it with.
    pub seed: u64,
    /// The complete configuration.
    pub config: Config,
    /// Duration of the run, relative to other runs.
    pub estimate: f64,
    /// Whether the run has a checkpoint to resume from.
    pub begun: bool,
}

impl Job {
    /// The run's name in files.
    pub fn name(&self) -> String {
        run_name(&self.cell, self.seed)
    }
}

/// The runs of some cells, divided by what is left to do.
pub struct Plan {
    /// Runs to make: first those that have begun, then the longest. The runs of a cell are
    /// neighbours, because they share their data.
    pub jobs: Vec<Job>,
    /// Runs that have a record.
    pub done: Vec<String>,
    /// Cells without a preset in this version.
    pub unknown: Vec<String>,
}

impl Plan {
    /// Plans every cell with every seed; runs with a record are done.
    ///
    /// `settings` (`key=value`) differ from the published configurations. `graphs` is the number of
    /// training graphs to draw, if not the published one.
    ///
    /// # Errors
    /// A setting is wrong, or a record was made with other settings or another number of graphs.
    pub fn new(
        cells: &[Cell],
        seeds: &[u64],
        settings: &[String],
        graphs: Option<usize>,
        folder: &ResultsFolder,
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
                    let path = folder.record(&name);
                    if record.changes != settings {
                        let (recorded, requested) = (record.changes.clone(), settings.to_vec());
                        return Err(ReproduceError::OtherSettings { path, recorded, requested });
                    }
                    let recorded = record.data.graphs;
                    let requested = count_drawn_graphs(cell.set(), graphs).unwrap_or(recorded);
                    if recorded != requested {
                        return Err(ReproduceError::OtherGraphCount { path, recorded, requested });
                    }
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

/// Removes the directory of a run that has its record, or moves it if `keep` is set.
///
/// A program that is killed right after it wrote the record leaves this directory behind.
pub fn clear_leftover(folder: &ResultsFolder, name: &str, keep: bool) {
    let path = folder.unfinished(name);
    // Held meanwhile, so that no other process uses it.
    let Some(Ok(_run)) = path.exists().then(|| RunDirectory::open(&path)) else { return };
    if keep {
        let _ = move_run(&path, &folder.kept(name));
    } else {
        let _ = fs::remove_dir_all(&path);
    }
}

/// Moves the directory of a run to `kept`, in place of an older one.
pub(crate) fn move_run(run: &Path, kept: &Path) -> Result<()> {
    let parent = kept.parent().unwrap_or(Path::new("."));
    let moved = fs::create_dir_all(parent).and_then(|()| {
        if kept.exists() {
            fs::remove_dir_all(kept)?;
        }
        fs::rename(run, kept)
    });
    moved.map_err(|e| ReproduceError::io(kept, e))
}

/// The cells with the given names. A name is a cell's own, or the beginning of several names.
///
/// # Errors
/// A name fits no cell.
pub fn choose_cells(cells: &[Cell], names: &[String]) -> Result<Vec<Cell>> {
    let mut chosen: Vec<Cell> = Vec::new();
    for name in names {
        let exactly: Vec<&Cell> = cells.iter().filter(|cell| cell.name() == *name).collect();
        let beginning = || cells.iter().filter(|cell| cell.begins_with(name)).collect();
        let found: Vec<&Cell> = if exactly.is_empty() { beginning() } else { exactly };
        if found.is_empty() {
            let distance = |known: &str| strsim::damerau_levenshtein(known, name);
            let nearest = nearest(cells.iter().map(Cell::name), name.len(), distance);
            return Err(ReproduceError::UnknownCell { name: name.clone(), nearest });
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
        let paper = Paper::load();
        for cell in ["table1", "table3"].iter().flat_map(|table| paper.cells(Some(table))) {
            assert_eq!(Preset::named(&cell.preset).map(|preset| preset.name()), Some(cell.preset));
        }
    }

    #[test]
    fn a_name_chooses_its_cell_or_all_that_begin_with_it() {
        let mut cells = Paper::load().cells(None);
        cells.push(Cell::second_draw());
        let chosen = |name: &str| choose_cells(&cells, &[name.to_owned()]).map(|cells| names(&cells));
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
        let results = ResultsFolder::new(folder.path());
        std::fs::create_dir_all(results.unfinished("zinc-sparse-none-ln-95").join("checkpoint")).unwrap();
        let paper = Paper::load();
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
