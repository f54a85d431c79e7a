//! The score of a model that has learned nothing, to compare the headline with.

use std::collections::BTreeMap;

use gt_graph::Split;
use gt_models::config::MetricForm;

use crate::metrics::Metric;
use crate::prepared::Prepared;

/// A prediction that ignores the input, and its main metric on a split.
pub(super) struct Baseline {
    /// On the whole split, in the form of the configuration.
    pub(super) score: f64,
    /// The prediction, in words.
    pub(super) rule: &'static str,
}

impl Baseline {
    /// The baseline of a task on a split; none if the split has no labels.
    pub(super) fn new(data: &Prepared, split: Split) -> Option<Self> {
        match data.metric {
            Metric::Mae => Some(Self { score: error_of_means(data, split)?, rule: "the mean of the training targets" }),
            Metric::Accuracy => {
                let score = score_of_one_class(data, split)?;
                Some(Self { score, rule: "the most frequent training class" })
            }
            Metric::RocAuc => (data.labels_in(split) > 0).then_some(Self { score: 0.5, rule: "random scores" }),
        }
    }

    /// Whether a score of the same metric is better.
    pub(super) fn is_beaten_by(&self, metric: Metric, score: f64) -> bool {
        if metric == Metric::Mae { score < self.score } else { score > self.score }
    }
}

/// Mean absolute error of the mean of each training target.
fn error_of_means(data: &Prepared, split: Split) -> Option<f64> {
    let columns = data.target().columns.len();
    let mut sums = vec![(0.0, 0.0); columns];
    for (column, label) in data.labels_by_column(Split::Train) {
        sums[column].0 += label;
        sums[column].1 += 1.0;
    }
    let (mut error, mut labels) = (0.0, 0.0);
    for (column, label) in data.labels_by_column(split) {
        let (sum, count) = sums[column];
        // A target without training labels is predicted as 0.
        error += (label - if count > 0.0 { sum / count } else { 0.0 }).abs();
        labels += 1.0;
    }
    (labels > 0.0).then(|| error / labels)
}

/// Accuracy of the most frequent training class, or its mean recall in the paper's form, in
/// percent.
fn score_of_one_class(data: &Prepared, split: Split) -> Option<f64> {
    let counts = |split: Split| {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        data.labels_by_column(split).for_each(|(_, class)| *counts.entry(class as usize).or_default() += 1);
        counts
    };
    let (class, _) = counts(Split::Train).into_iter().rev().max_by_key(|(_, labels)| *labels)?;
    let labels = counts(split);
    let right = labels.get(&class).copied().unwrap_or(0);
    let share = match data.form {
        MetricForm::Exact => right as f64 / labels.values().sum::<usize>() as f64,
        MetricForm::Paper => f64::from(u8::from(right > 0)) / labels.len() as f64,
    };
    (!labels.is_empty()).then_some(100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gt_data::read;
    use gt_models::Config;

    /// Paths of three nodes with these targets: a list of targets for each split.
    fn prepared(targets: [&[&str]; 3], config: &str) -> Prepared {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("d.jsonl");
        let line = |split: Split, y: &str| {
            format!(
                "{{\"num_nodes\": 3, \"node_feat\": [[0], [1], [0]], \"edge_index\": [[0, 1, 1, 2], [1, 0, 2, 1]], \"y\": {y}, \
                 \"split\": \"{}\"}}\n",
                split.name()
            )
        };
        let all = Split::ALL.into_iter().zip(targets);
        let text: String = all.flat_map(|(split, targets)| targets.iter().map(move |y| line(split, y))).collect();
        std::fs::write(&file, text).unwrap();
        Prepared::for_training(read(&file).unwrap(), &Config::from_toml(config).unwrap(), None).unwrap()
    }

    #[test]
    fn targets_are_compared_with_their_training_means() {
        // Means 2 and 10. Errors 3, 1 and 0.5.
        let targets: [&[&str]; 3] = [&["[1.0, 10.0]", "[3.0, null]"], &["[2.0, 2.5]"], &["[5.0, 11.0]", "[2.5, null]"]];
        for config in ["", "[data]\nstandardize = true"] {
            let data = prepared(targets, config);
            let baseline = Baseline::new(&data, Split::Test).unwrap();
            assert_eq!((baseline.score, baseline.rule), (1.5, "the mean of the training targets"));
            assert!(baseline.is_beaten_by(data.metric, 1.4) && !baseline.is_beaten_by(data.metric, 1.5));
            assert_eq!(Baseline::new(&data, Split::Val).unwrap().score, 3.75);
        }
    }

    #[test]
    fn classes_are_compared_with_the_most_frequent_training_class() {
        let targets: [&[&str]; 3] = [&["[2]", "[1]", "[1]", "[0]"], &["[0]"], &["[1]", "[0]", "[2]", "[0]"]];
        let data = prepared(targets, "");
        let baseline = Baseline::new(&data, Split::Test).unwrap();
        assert_eq!(baseline.score, 25.0);
        assert!(baseline.is_beaten_by(data.metric, 50.0) && !baseline.is_beaten_by(data.metric, 25.0));
        assert_eq!(Baseline::new(&data, Split::Val).unwrap().score, 0.0);
        // The mean recall: all of one class of three.
        let paper = prepared(targets, "[model]\nmetrics = \"paper\"");
        assert!((Baseline::new(&paper, Split::Test).unwrap().score - 100.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn labels_are_compared_with_chance() {
        let data = prepared([&["[0, 1]", "[1, 0]"], &["[1, 0]"], &[]], "");
        assert_eq!(Baseline::new(&data, Split::Val).unwrap().score, 0.5);
        assert!(Baseline::new(&data, Split::Test).is_none());
    }
}
