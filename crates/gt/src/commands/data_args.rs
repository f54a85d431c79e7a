//! Arguments that choose columns of a data set.

use anyhow::{Result, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;
use gt_data::{ColumnChoice, FileRoles, Task};
use gt_models::Config;
use gt_models::config::TaskName;

/// Columns and task of `gt train`, each of which sets a key of the configuration.
#[derive(Args)]
pub struct DataArgs {
    /// What is predicted: the targets as numbers or as classes, or links; sets data.task
    #[arg(long, value_name = "TASK", value_parser = PossibleValuesParser::new(["auto", "regression", "classification", "links"]))]
    task: Option<String>,
    /// Column to predict; may be repeated; sets data.target
    #[arg(long, value_name = "NAME")]
    target: Vec<String>,
    /// The only feature columns to read; sets data.features
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    features: Vec<String>,
    /// Columns to leave out; sets data.ignore
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    ignore: Vec<String>,
}

impl DataArgs {
    /// The arguments as settings of configuration keys, `key=value`.
    pub fn settings(&self) -> Vec<String> {
        let task = self.task.iter().map(|task| format!("data.task={task}"));
        let lists = [("target", &self.target), ("features", &self.features), ("ignore", &self.ignore)];
        let lists = lists.into_iter().filter(|(_, names)| !names.is_empty());
        // A list of texts is the same in JSON and TOML.
        let lists = lists.map(|(key, names)| format!("data.{key}={}", serde_json::json!(names)));
        task.chain(lists).collect()
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
        vocabulary: data.vocabulary.clone(),
        ..ColumnChoice::default()
    };
    let chooses = columns != ColumnChoice::default();
    ensure!(
        !chooses || !data.file.is_empty(),
        "columns and tasks are chosen in a file: name the file by --data or data.file"
    );
    Ok(FileRoles { columns, ..FileRoles::default() })
}
