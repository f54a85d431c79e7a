//! Keys that the user leaves open follow the data.

use anyhow::Result;
use gt_data::Dataset;
use gt_models::config::TaskName;
use gt_train::data_facts;

use super::planned::Plan;
use crate::console;

/// Fills in the open keys of runs on the same data, and prints what was chosen.
///
/// # Errors
/// A chosen value and a value of the user contradict each other.
pub(super) fn fill_defaults(plan: &mut Plan, dataset: &Dataset) -> Result<()> {
    let Some(set) = &plan.set else { return Ok(()) };
    let before = plan.runs[0].config.clone();
    if dataset.schema().target.is_none() && before.data.task != TaskName::Links {
        // An error about the targets follows.
        return Ok(());
    }
    let facts = data_facts(dataset, &before);
    for run in &mut plan.runs {
        facts.fill(&mut run.config, set);
        run.config.check()?;
    }
    let config = &plan.runs[0].config;
    if *config != before {
        facts.describe(config).iter().for_each(|line| console::say!("{line}"));
    }
    Ok(())
}
