//! Scores over several runs, and verdicts that follow from comparing two of them.

use std::fmt;

use gt_models::PublishedSet;
use serde::{Deserialize, Serialize};

use crate::cell::published_set;
use crate::deviation::mean_and_deviation;

/// Mean and deviation over runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "(f64, f64)")]
pub struct Score {
    /// Mean over the runs.
    pub mean: f64,
    /// Sample deviation over the runs; unknown for a single run.
    pub deviation: Option<f64>,
}

impl From<(f64, f64)> for Score {
    fn from((mean, deviation): (f64, f64)) -> Self {
        Self { mean, deviation: Some(deviation) }
    }
}

impl Score {
    /// The score of runs; none without runs.
    pub(crate) fn from_runs(values: &[f64]) -> Option<Self> {
        let (mean, deviation) = mean_and_deviation(values);
        (!values.is_empty()).then(|| Self { mean, deviation: (values.len() > 1).then_some(deviation) })
    }

    /// The unit of a difference: the root of the sum of both squared deviations.
    pub(crate) fn unit(&self, other: &Score) -> Option<f64> {
        Some(self.deviation?.hypot(other.deviation?))
    }
}

/// As the paper prints it: `0.226 ± 0.014`.
impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.deviation {
            Some(deviation) => write!(f, "{:.3} ± {deviation:.3}", self.mean),
            None => write!(f, "{:.3}", self.mean),
        }
    }
}

/// How the score of a data set is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measure {
    pub name: &'static str,
    smaller_is_better: bool,
    /// A larger unit makes a difference inconclusive.
    too_coarse: f64,
}

impl Measure {
    pub fn for_preset(preset: &str) -> Self {
        match published_set(preset) {
            PublishedSet::Zinc => Self { name: "MAE", smaller_is_better: true, too_coarse: 0.05 },
            _ => Self { name: "accuracy, %", smaller_is_better: false, too_coarse: 3.0 },
        }
    }

    /// The lead of one score over another; negative if it is worse.
    pub fn advantage(self, one: f64, other: f64) -> f64 {
        if self.smaller_is_better { other - one } else { one - other }
    }
}

/// Our test score against the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The difference is at most two units.
    Reproduced,
    /// Our score is better by more than two units.
    Better,
    /// Our score is worse by more than two units.
    Worse,
    /// The unit is too coarse, or unknown.
    Inconclusive,
    /// There is no run.
    #[serde(rename = "not run")]
    NotRun,
}

/// A difference of at most so many units may be chance.
const CHANCE: f64 = 2.0;

impl Verdict {
    /// All verdicts, in the order of summaries.
    pub const ALL: [Self; 5] = [Self::Reproduced, Self::Better, Self::Worse, Self::Inconclusive, Self::NotRun];

    pub(crate) fn new(measure: Measure, paper: &Score, ours: Option<&Score>) -> Self {
        let Some(ours) = ours else { return Self::NotRun };
        match paper.unit(ours) {
            Some(unit) if unit <= measure.too_coarse => {
                let units = measure.advantage(ours.mean, paper.mean) / unit;
                match units {
                    _ if units.abs() <= CHANCE => Self::Reproduced,
                    _ if units > 0.0 => Self::Better,
                    _ => Self::Worse,
                }
            }
            _ => Self::Inconclusive,
        }
    }

    /// The verdict for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Inconclusive => "inconclusive",
            Self::NotRun => "not run",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(mean: f64, deviation: f64) -> Score {
        Score::from((mean, deviation))
    }

    #[test]
    fn a_verdict_counts_differences_in_units_of_both_deviations() {
        let zinc = |ours: Score| Verdict::new(Measure::for_preset("zinc-gcn"), &score(0.3, 0.003), Some(&ours));
        // The unit is 0.005.
        assert_eq!(zinc(score(0.3099, 0.004)), Verdict::Reproduced);
        assert_eq!(zinc(score(0.3101, 0.004)), Verdict::Worse);
        assert_eq!(zinc(score(0.2899, 0.004)), Verdict::Better);
        assert_eq!(zinc(score(0.2901, 0.004)), Verdict::Reproduced);
        let cluster = |ours: Score| Verdict::new(Measure::for_preset("cluster-gcn"), &score(70.0, 0.3), Some(&ours));
        // The unit is 0.5, and more is better.
        assert_eq!(cluster(score(71.1, 0.4)), Verdict::Better);
        assert_eq!(cluster(score(68.9, 0.4)), Verdict::Worse);
        assert_eq!(cluster(score(69.1, 0.4)), Verdict::Reproduced);
    }

    #[test]
    fn a_coarse_unit_or_an_unknown_one_says_nothing() {
        let verdict = |preset, paper, ours| Verdict::new(Measure::for_preset(preset), &paper, Some(&ours));
        assert_eq!(verdict("zinc-gcn", score(0.3, 0.03), score(0.9, 0.0401)), Verdict::Inconclusive);
        assert_eq!(verdict("zinc-gcn", score(0.3, 0.03), score(0.9, 0.0399)), Verdict::Worse);
        assert_eq!(verdict("pattern-gcn", score(50.0, 1.8), score(90.0, 2.41)), Verdict::Inconclusive);
        assert_eq!(verdict("pattern-gcn", score(50.0, 1.8), score(90.0, 2.39)), Verdict::Better);
        let single = Score::from_runs(&[0.3]).unwrap();
        assert_eq!(single.deviation, None);
        assert_eq!(verdict("zinc-gcn", score(0.3, 0.01), single), Verdict::Inconclusive);
        assert_eq!(Verdict::new(Measure::for_preset("zinc-gcn"), &score(0.3, 0.01), None), Verdict::NotRun);
    }

    #[test]
    fn deviations_are_those_of_a_sample() {
        assert_eq!(Score::from_runs(&[1.0, 3.0]), Some(score(2.0, 2f64.sqrt())));
        assert_eq!(Score::from_runs(&[]), None);
    }
}
