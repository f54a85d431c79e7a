//! Which epoch of a run has the best model: the value of `train.select` on the validation split.

use gt_models::Config;
use gt_models::config::{MetricForm, Select};

use crate::error::{DataProblem, Result};
use crate::evaluate::Scores;
use crate::metrics::Metric;

/// The value that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    form: MetricForm,
    by: By,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Loss,
    /// The main metric of the task.
    Main(Metric),
    /// A further metric, by its name.
    Other(&'static str),
}

impl Selection {
    /// The choice of a configuration.
    ///
    /// # Errors
    /// If the task does not have the chosen metric.
    pub(crate) fn new(config: &Config, metric: Metric) -> Result<Self> {
        let form = config.model.metrics;
        let by = match (config.train.select, config.train.select.metric()) {
            (Select::Loss, _) => By::Loss,
            (_, None) => By::Main(metric),
            (_, Some(name)) if name == metric.name() => By::Main(metric),
            (_, Some(name)) => {
                let known = metric.others(form);
                match known.contains(&name) {
                    true => By::Other(name),
                    false => return Err(DataProblem::Select { name, main: metric.name(), known, form }.into()),
                }
            }
        };
        Ok(Self { form, by })
    }

    /// The name of the value that decides about epochs with these scores: the chosen one, or `loss`
    /// where that is not defined.
    pub(crate) fn decided_by(self, scores: &Scores) -> &'static str {
        if self.value(scores).is_nan() { "loss" } else { self.name() }
    }

    /// The name of the value.
    pub(crate) fn name(self) -> &'static str {
        match self.by {
            By::Loss => "loss",
            By::Main(metric) => metric.name(),
            By::Other(name) => name,
        }
    }

    /// The value, turned so that less is better and 0 is the best. Where the metric is not defined
    /// for the labels of the split, the loss decides.
    pub(crate) fn cost(self, scores: &Scores) -> f64 {
        let value = self.value(scores);
        match self.decided_by(scores) {
            "loss" => scores.loss.of(self.form),
            "accuracy" | "macro_recall" | "f1" => 100.0 - value,
            "r2" | "spearman" | "roc_auc" | "average_precision" => 1.0 - value,
            _ => value,
        }
    }

    /// The chosen value; NaN where it is not defined.
    fn value(self, scores: &Scores) -> f64 {
        match self.by {
            By::Loss => scores.loss.of(self.form),
            By::Main(_) => scores.metric.of(self.form),
            By::Other(name) => scores.others.get(name).copied().unwrap_or(f64::NAN),
        }
    }

    /// Whether an epoch is better than the best one before. Of equal values, the smaller loss wins.
    pub(crate) fn is_better(self, scores: &Scores, best: Option<&Scores>) -> bool {
        let rank = |scores: &Scores| (self.cost(scores), scores.loss.of(self.form));
        let (cost, loss) = rank(scores);
        cost.is_finite() && loss.is_finite() && best.is_none_or(|best| (cost, loss) < rank(best))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Forms;

    fn scores(loss: f64, accuracy: f64, recall: f64) -> Scores {
        let both = |value| Forms { paper: value, exact: value };
        Scores { loss: both(loss), metric: both(accuracy), others: [("macro_recall".to_owned(), recall)].into() }
    }

    fn selection(select: &str) -> Selection {
        let config = Config::from_toml(&format!("[train]\nselect = \"{select}\"")).unwrap();
        Selection::new(&config, Metric::Accuracy).unwrap()
    }

    #[test]
    fn the_chosen_value_decides_and_the_loss_breaks_ties() {
        let (early, late) = (scores(0.4, 80.0, 70.0), scores(0.6, 90.0, 60.0));
        assert!(selection("auto").is_better(&late, Some(&early)));
        assert!(!selection("loss").is_better(&late, Some(&early)));
        assert!(!selection("macro_recall").is_better(&late, Some(&early)));
        let calmer = scores(0.3, 80.0, 70.0);
        assert!(selection("auto").is_better(&calmer, Some(&early)));
        assert!(!selection("auto").is_better(&early, Some(&early)));
    }

    #[test]
    fn an_undefined_metric_leaves_the_choice_to_the_loss() {
        let (first, second) = (scores(0.6, f64::NAN, 0.0), scores(0.4, f64::NAN, 0.0));
        assert!(selection("auto").is_better(&first, None));
        assert!(selection("auto").is_better(&second, Some(&first)));
        assert_eq!(selection("auto").decided_by(&first), "loss");
        assert_eq!(selection("macro_recall").decided_by(&first), "macro_recall");
        assert!(!selection("auto").is_better(&scores(f64::NAN, 50.0, 0.0), None));
    }

    #[test]
    fn a_metric_of_another_task_is_an_error() {
        let config = Config::from_toml("[train]\nselect = \"mae\"").unwrap();
        assert!(Selection::new(&config, Metric::Mae).is_ok());
        let error = Selection::new(&config, Metric::Accuracy).unwrap_err().to_string();
        assert!(error.contains("mae") && error.contains("macro_recall"), "{error}");
        let config = Config::from_toml("[model]\nmetrics = \"paper\"\n[train]\nselect = \"f1\"").unwrap();
        let error = Selection::new(&config, Metric::Accuracy).unwrap_err().to_string();
        assert!(error.contains("model.metrics") && !error.contains("plain_accuracy"), "{error}");
    }
}
