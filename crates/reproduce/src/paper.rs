//! The numbers that the paper prints.

use serde::Deserialize;

use crate::cell::Cell;
use crate::score::Score;

/// Runs (seeds) behind every number of the paper.
pub const PAPER_RUNS: usize = 4;

/// All three tables of the paper.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// In the paper's order.
    #[serde(rename = "table")]
    pub tables: Vec<Table>,
}

/// A table of the paper.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The name in commands: `table1`.
    pub name: String,
    /// The heading of our table.
    pub title: String,
    /// The paper's table with these numbers.
    pub source: String,
    /// A remark for readers.
    pub note: String,
    /// In the paper's order.
    pub cells: Vec<PaperCell>,
}

/// A cell with its printed numbers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperCell {
    /// Name of the configuration.
    pub preset: String,
    /// Description for people.
    pub row: String,
    /// Number of parameters.
    pub parameters: Option<usize>,
    /// Test score.
    pub test: Score,
    /// Training score.
    pub train: Option<Score>,
    /// Mean number of epochs.
    pub epochs: Option<f64>,
    /// Seconds per epoch.
    pub epoch_seconds: Option<f64>,
    /// Hours of one run.
    pub hours: Option<f64>,
    /// Our guess where the paper prints no hours; it decides about the order of runs only.
    guessed_hours: Option<f64>,
}

impl Paper {
    /// The embedded numbers.
    pub fn load() -> Self {
        toml::from_str(include_str!("paper.toml")).expect("the embedded file is tested")
    }

    /// The printed cell of a configuration: of several, one with the hours of a run.
    pub fn cell(&self, preset: &str) -> Option<&PaperCell> {
        let all = self.tables.iter().flat_map(|table| &table.cells).filter(|cell| cell.preset == preset);
        all.max_by_key(|cell| cell.hours.is_some())
    }

    /// The cells of a table, or of all tables; each configuration once.
    pub fn cells(&self, table: Option<&str>) -> Vec<Cell> {
        let tables = self.tables.iter().filter(|found| table.is_none_or(|name| name == found.name));
        let mut cells: Vec<Cell> = Vec::new();
        for cell in tables.flat_map(|table| &table.cells).map(|cell| Cell::first_draw(&cell.preset)) {
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        }
        cells
    }

    /// Duration of a run of a configuration, relative to others.
    pub(crate) fn estimate(&self, preset: &str) -> f64 {
        self.cell(preset).and_then(|cell| cell.hours.or(cell.guessed_hours)).unwrap_or(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_24_and_12_and_9_cells_of_36_configurations() {
        let paper = Paper::load();
        let counts: Vec<usize> = paper.tables.iter().map(|table| table.cells.len()).collect();
        assert_eq!(counts, [24, 12, 9]);
        assert_eq!(paper.cells(None).len(), 36);
        assert!(paper.tables.iter().flat_map(|table| &table.cells).all(|cell| paper.estimate(&cell.preset) > 0.5));
    }

    #[test]
    fn shared_cells_are_printed_alike() {
        let paper = Paper::load();
        for cell in paper.tables.iter().flat_map(|table| &table.cells) {
            let full = paper.cell(&cell.preset).unwrap();
            assert_eq!(cell.test, full.test, "{}", cell.row);
            assert!(cell.train.is_none() || cell.train == full.train, "{}", cell.row);
        }
    }

    /// Every number of the file occurs in the paper's source, in the same order.
    #[test]
    fn all_numbers_are_those_of_the_paper_where_its_source_is_at_hand() {
        let Some(folder) = gt_testing::shared("paper") else { return };
        let file = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap();
        let source = std::fs::read_to_string(file.path()).unwrap();
        let mut numbers = 0;
        for (table, label) in
            Paper::load().tables.iter().zip(["tab:results}", "tab:results_comparison}", "tab:results_ablation}"])
        {
            // A table ends with its label; it begins where its rows do.
            let end = source.find(&format!("\\label{{{label}")).unwrap();
            let begin = source[..end].rfind("\\begin{tabular}").unwrap();
            let mut rest: String = source[begin..end].replace("\\textbf{", "");
            let mut take = |text: String| {
                let at = rest.find(&text).unwrap_or_else(|| panic!("{} {text}", table.name));
                rest = rest[at + text.len()..].to_owned();
                numbers += 1;
            };
            let pair = |score: Score, digits: usize| {
                format!("{:.digits$}$\\pm${:.digits$}", score.mean, score.deviation.unwrap())
            };
            for cell in &table.cells {
                // Printed once for a sparse graph and the full one next to it.
                if let Some(parameters) = cell.parameters.filter(|_| !cell.preset.contains("-full-")) {
                    take(format!("{parameters} &"));
                }
                take(pair(cell.test, 3));
                if let (Some(train), Some(epochs), Some(seconds), Some(hours)) =
                    (cell.train, cell.epochs, cell.epoch_seconds, cell.hours)
                {
                    take(pair(train, 3));
                    take(format!("{epochs:.2}"));
                    take(format!("{seconds:.2}s/{hours:.2}hr"));
                }
            }
        }
        assert_eq!(numbers, 24 * 4 + 12 + 12 + 9 * 5);
    }
}
