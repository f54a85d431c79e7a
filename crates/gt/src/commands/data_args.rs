//! Arguments that choose columns of a data set.

use std::path::Path;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use gt_data::{ColumnChoice, Dataset, FileRoles, Task};
use gt_models::Config;
use gt_models::config::TaskName;

use crate::printable::printable_json;

/// Columns of a data set, as every command takes them that reads data without a model.
#[derive(Args)]
#[command(next_help_heading = "Columns")]
pub struct DataArgs {
    /// What is predicted: the targets as numbers or as classes, or links between nodes
    #[arg(long, value_enum, value_name = "TASK")]
    task: Option<TaskArg>,
    /// Column to predict; may be repeated [default: y; in tables also label]
    #[arg(long, value_name = "NAME")]
    target: Vec<String>,
    /// The only feature columns to read
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    features: Vec<String>,
    /// Columns to leave out
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    ignore: Vec<String>,
    /// Columns of categories, also for targets [default: columns of whole numbers or names]
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    categorical: Vec<String>,
    /// Columns of real numbers, also for targets [default: other columns of numbers]
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    continuous: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TaskArg {
    Auto,
    Regression,
    Classification,
    Links,
}

impl DataArgs {
    /// The arguments as settings of configuration keys, `key=value`.
    pub fn settings(&self) -> Vec<String> {
        let name = |task: &TaskArg| task.to_possible_value().map(|value| value.get_name().to_owned());
        let task = self.task.as_ref().and_then(name).map(|task| format!("data.task={task}"));
        let lists = [
            ("target", &self.target),
            ("features", &self.features),
            ("ignore", &self.ignore),
            ("categorical", &self.categorical),
            ("continuous", &self.continuous),
        ];
        let lists = lists.into_iter().filter(|(_, names)| !names.is_empty());
        // A list of texts is the same in JSON and TOML, if all control characters are escaped.
        let list = |names: &Vec<String>| printable_json(&serde_json::json!(names).to_string()).into_owned();
        let lists = lists.map(|(key, names)| format!("data.{key}={}", list(names)));
        task.into_iter().chain(lists).collect()
    }

    /// Whether links are predicted, not the targets.
    pub fn predicts_links(&self) -> bool {
        self.task == Some(TaskArg::Links)
    }

    /// The chosen columns.
    pub fn choice(&self) -> ColumnChoice {
        ColumnChoice {
            task: match self.task {
                None | Some(TaskArg::Auto | TaskArg::Links) => Task::Auto,
                Some(TaskArg::Regression) => Task::Regression,
                Some(TaskArg::Classification) => Task::Classification,
            },
            targets: self.target.clone(),
            features: self.features.clone(),
            ignore: self.ignore.clone(),
            categorical: self.categorical.clone(),
            continuous: self.continuous.clone(),
            ..ColumnChoice::default()
        }
    }

    /// Reads the chosen columns of a file.
    ///
    /// # Errors
    /// A column does not exist, or a value cannot be used.
    pub fn read(&self, file: &Path) -> gt_data::Result<Dataset> {
        gt_data::read_with(file, &FileRoles { columns: self.choice(), ..FileRoles::default() })
    }
}

/// The columns that a configuration chooses.
///
/// # Errors
/// The configuration chooses columns, but names no file.
pub fn roles_of(config: &Config) -> Result<FileRoles> {
    let data = &config.data;
    let columns = ColumnChoice {
        task: match data.task {
            TaskName::Auto | TaskName::Links => Task::Auto,
            TaskName::Regression => Task::Regression,
            TaskName::Classification => Task::Classification,
        },
        targets: data.target.clone(),
        features: data.features.clone(),
        ignore: data.ignore.clone(),
        categorical: data.categorical.clone(),
        continuous: data.continuous.clone(),
        vocabulary: data.vocabulary.clone(),
    };
    let chooses = columns != ColumnChoice::default();
    ensure!(
        !chooses || !data.file.is_empty(),
        "columns and tasks are chosen in a file: name the file by --data or data.file"
    );
    Ok(FileRoles { columns, ..FileRoles::default() })
}
