//! Which settings may change when a run resumes, and which must not.

use std::path::Path;

use gt_models::{Config, Model};
use serde_json::Value;

use crate::error::{ChangedKey, Result, RunProblem, TrainError};

/// Keys that may change: the location of the data, how often the run is saved, and settings that
/// help a run past an obstacle. Any other change would make it another run.
const FREE: [&str; 5] =
    ["data.file", "optimizer.clip", "train.checkpoint_seconds", "train.hours", "train.skip_bad_steps"];

/// Compares the model of a checkpoint with that of the run that resumes from it. Returns every
/// changed key that may change.
///
/// # Errors
/// If another key was changed, or the data differs.
pub(crate) fn compare(run: &Path, before: &Model, now: &Model, same_data: bool) -> Result<Vec<ChangedKey>> {
    let (free, bound): (Vec<_>, Vec<_>) =
        changes(&before.config, &now.config).into_iter().partition(|change| FREE.contains(&change.key.as_str()));
    // Other data may change a key (`links.directed`), and another key may change shape or scaling.
    let same_use = (&before.schema, &before.scaling) == (&now.schema, &now.scaling);
    if !same_data || bound.is_empty() && !same_use {
        return Err(TrainError::run(run, RunProblem::OtherData(now.config.data.file.clone())));
    }
    if !bound.is_empty() {
        return Err(TrainError::run(&run.join("config.toml"), RunProblem::ChangedKeys(bound)));
    }
    Ok(free)
}

/// Keys that differ.
fn changes(before: &Config, now: &Config) -> Vec<ChangedKey> {
    let tables = [before, now].map(|config| serde_json::to_value(config).expect("a configuration is plain data"));
    let keys = |section: &Value| section.as_object().map(|o| o.keys().cloned().collect()).unwrap_or_default();
    let mut changes = Vec::new();
    let sections: Vec<String> = keys(&tables[1]);
    for section in sections {
        let [before, now] = [&tables[0][&section], &tables[1][&section]];
        // A key that follows the data is there only if it is set.
        let mut all: Vec<String> = [keys(before), keys(now)].concat();
        all.sort();
        all.dedup();
        for key in all.into_iter().filter(|key| before[key] != now[key]) {
            let [before, now] =
                [before, now].map(|keys| Some(&keys[&key]).filter(|v| !v.is_null()).map(Value::to_string));
            changes.push(ChangedKey { key: format!("{section}.{key}"), before, now });
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_key_is_named_with_both_values() {
        let before = Config::default();
        let now = Config::from_toml("[model]\nwidth = 24\nedges = false\n[train]\nhours = 2.0").unwrap();
        let sentences: Vec<String> = changes(&before, &now).iter().map(ToString::to_string).collect();
        let expected = [
            "`model.edges` is false, but was not set",
            "`model.width` is 24, but was 64",
            "`train.hours` is 2.0, but was 24.0",
        ];
        assert_eq!(sentences, expected);
        assert!(changes(&now, &now).is_empty());
    }
}
