//! Problems of a configuration, each with its key.

use std::ops::{Bound, RangeBounds};

use gt_graph::{TargetKind, TargetSchema};

use super::{Kind, LossName};

/// All problems of a configuration, one line each.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ConfigError {
    problems: Vec<ConfigProblem>,
}

impl ConfigError {
    /// The problems, in the order of the keys.
    pub fn problems(&self) -> &[ConfigProblem] {
        &self.problems
    }
}

/// A problem of a configuration, and the key that has it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}{kind}", key.as_ref().map(|key| format!("`{key}`: ")).unwrap_or_default())]
pub struct ConfigProblem {
    /// The key, such as `model.heads`; none if the text as a whole cannot be read.
    pub key: Option<String>,
    /// What is wrong.
    pub kind: ProblemKind,
}

/// What is wrong with a key of a configuration, or with its value.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProblemKind {
    /// The TOML reader reports a problem, in its own words.
    #[error("{0}")]
    Toml(String),
    /// A setting is not of the form `section.key=value`.
    #[error("expected `section.key=value`, such as `optimizer.lr=1e-3`")]
    Setting,
    /// The key does not exist.
    #[error("no such key{}", nearest.as_ref().map(|key| format!("; did you mean `{key}`?")).unwrap_or_default())]
    UnknownKey {
        /// The known key with the most similar name.
        nearest: Option<String>,
    },
    /// A value has the name of a section.
    #[error("a section is expected, `[{0}]` and lines below it")]
    NotASection(String),
    /// The value has the wrong type.
    #[error("{expected} is expected, not the {found}")]
    WrongType {
        /// The type that the key has.
        expected: String,
        /// Type and value found.
        found: String,
    },
    /// The value is none of the names that the key accepts.
    #[error("there is no `{found}`; there are `{}`", known.join("`, `"))]
    UnknownName {
        /// The value.
        found: String,
        /// Names that the key accepts.
        known: Vec<String>,
    },
    /// The value lies outside its limits.
    #[error("{value}; it must be {}", name_limits(limits))]
    OutOfRange {
        /// The value.
        value: f64,
        /// The least and the greatest value; an excluded infinity stands for finite numbers.
        limits: (Bound<f64>, Bound<f64>),
    },
    /// The least learning rate is negative, or not below the first learning rate.
    #[error("{min_lr}; it must be at least 0 and below optimizer.lr = {lr}")]
    MinRate {
        /// The least learning rate.
        min_lr: f64,
        /// `optimizer.lr`.
        lr: f64,
    },
    /// The shares of a split are not positive, or do not add up.
    #[error("{0:?}; three shares above 0 that add up to 1 are expected")]
    Shares([f64; 3]),
    /// A fold is named, but not the number of folds.
    #[error("it names a fold, but `data.folds`, the number of folds, is not set")]
    FoldWithoutFolds,
    /// The width is not a multiple of the heads.
    #[error("{heads} heads do not divide the width {width}")]
    Heads {
        /// `model.heads`.
        heads: usize,
        /// `model.width`.
        width: usize,
    },
    /// The key needs `model.edges`, which is false.
    #[error("it needs an edge stream, but `model.edges` is false")]
    NoEdgeStream,
    /// The layers of this kind always have an edge stream, or never.
    #[error("{layers} {} edge stream", if *always { "always has an" } else { "has no" })]
    FixedEdgeStream {
        /// Names of the layers.
        layers: String,
        /// Whether they always have one.
        always: bool,
    },
    /// The list of branches is empty.
    #[error("a layer has at least one branch; leave the key out, or list branches")]
    NoBranches,
    /// A branch is listed twice.
    #[error("{0} is listed twice; list each branch once")]
    RepeatedBranch(&'static str),
    /// Both the kind and the branches of layers are set.
    #[error("`model.branches` says what layers are made of; leave one of the two keys out")]
    KindAndBranches,
    /// Only `model.kind` has the key, and branches are set.
    #[error("it applies only to `model.kind = \"transformer\"`, not to `model.branches`")]
    OnlyKind,
    /// Only attention has the key.
    #[error("it applies only to attention, which is not among `model.branches`")]
    OnlyAttention,
    /// The layers of this kind have no heads.
    #[error("{0} has no heads; leave the key out")]
    NoHeads(String),
    /// Only the transformer has the key, and the layers are of this kind.
    #[error("it applies only to the transformer, but `model.kind` is {}", .0.name())]
    OnlyTransformer(Kind),
    /// Links are directed, and a product of nodes has no direction.
    #[error("a product does not distinguish directions, but links are directed; use `ends`")]
    DirectedProduct,
    /// The network has more parameters than can be addressed.
    #[error(
        "the network has more parameters than can be addressed; take a smaller width, or columns with fewer values"
    )]
    TooManyParameters,
    /// The data has no targets.
    #[error(
        "the data has no targets to learn; targets are `y` (in tables also `label`) or the columns of --target, and --task links needs none"
    )]
    NoTargets,
    /// Several targets have classes, and some of them more than two.
    #[error(
        "several targets can be predicted together if each has two classes, but there are {}; choose one of them, as --target does",
        .0.columns.iter().map(|c| format!("`{}` with {} classes", c.name, c.classes)).collect::<Vec<_>>().join(", ")
    )]
    SeveralClasses(TargetSchema),
    /// Link prediction has no target columns.
    #[error("links are predicted (data.task = \"links\"), and they have no target column; leave the key out")]
    TargetOfLinks,
    /// A column in two roles.
    #[error("`{column}` is also in `{other}`; name it once")]
    TwoRoles {
        /// The column.
        column: String,
        /// The other key.
        other: &'static str,
    },
    /// The loss does not fit the targets.
    #[error(
        "{} does not fit the data, which has {}{}",
        toml::Value::try_from(loss).ok().as_ref().and_then(|name| name.as_str()).unwrap_or_default(),
        target.as_ref().map_or("links to predict, which needs bce".into(), count_targets),
        loss_remedy(*loss, target.as_ref())
    )]
    Loss {
        /// The loss.
        loss: LossName,
        /// Targets of the data; none where links are predicted.
        target: Option<TargetSchema>,
    },
}

/// Limits in words, such as "at least 0 and below 1".
pub(super) fn name_limits((low, high): &(Bound<f64>, Bound<f64>)) -> String {
    let low = match (low, high) {
        (Bound::Included(low), Bound::Included(high)) => return format!("{low} to {high}"),
        (Bound::Excluded(low), _) => format!("above {low}"),
        (Bound::Included(low), _) => format!("at least {low}"),
        (Bound::Unbounded, _) => "any".into(),
    };
    match high {
        Bound::Excluded(f64::INFINITY) => format!("a finite number, {low}"),
        Bound::Excluded(high) => format!("{low} and below {high}"),
        Bound::Included(high) => format!("{low} and at most {high}"),
        Bound::Unbounded => low,
    }
}

/// What to do about a loss that does not fit.
fn loss_remedy(loss: LossName, target: Option<&TargetSchema>) -> &'static str {
    let Some(target) = target else { return "" };
    let names = target.columns.iter().any(|column| !column.names.is_empty());
    match (loss, target.kind) {
        (LossName::L1 | LossName::Mse, TargetKind::Class) if names => "; names of classes cannot be numbers",
        (LossName::L1 | LossName::Mse, TargetKind::Class) => {
            "; to predict the numbers themselves, set data.task = \"regression\" (--task regression)"
        }
        (LossName::Auto | LossName::L1 | LossName::Mse, _) => "",
        (_, TargetKind::Float) => {
            "; to make classes of whole numbers, set data.task = \"classification\" (--task classification)"
        }
        (LossName::Bce, _) => "; bce is for targets of two classes, auto chooses cross-entropy",
        _ => "; cross-entropy is for one target, auto chooses bce",
    }
}

fn count_targets(target: &TargetSchema) -> String {
    match (target.kind, target.classes().as_slice()) {
        (TargetKind::Float, [_]) => "1 real-valued target".into(),
        (TargetKind::Float, columns) => format!("{} real-valued targets", columns.len()),
        (TargetKind::Class, [classes]) => format!("one target of {classes} classes"),
        (TargetKind::Class, columns) => format!("{} targets of classes {columns:?}", columns.len()),
    }
}

impl ProblemKind {
    /// This problem of a key.
    pub(super) fn of(self, key: &str) -> ConfigProblem {
        ConfigProblem { key: Some(key.into()), kind: self }
    }
}

impl ConfigProblem {
    /// The problem that the TOML reader reports. Its text about a value has two lines, of which the
    /// second names the key.
    pub(super) fn of_reader(error: toml::de::Error) -> Self {
        let text = error.to_string();
        let (message, key) = match text.trim_end().rsplit_once("\nin ") {
            Some((message, key)) => (message, Some(key.trim_matches('`').to_owned())),
            None => (text.trim_end(), None),
        };
        let split = |prefix| message.strip_prefix(prefix).and_then(|m| m.split_once(", expected "));
        let kind = if let Some((found, expected)) = split("invalid type: ").or_else(|| split("invalid value: ")) {
            let expected = match expected {
                "usize" | "u64" | "u32" if found.contains('-') => "a whole number that is not negative",
                "usize" | "u64" | "u32" => "a whole number",
                "f64" => "a number",
                "a boolean" => "true or false",
                "an array of length 3" => "a list of 3 numbers",
                "a sequence" => "a list of whole numbers",
                "a map" => "a table of whole numbers",
                other => other,
            };
            ProblemKind::WrongType { expected: expected.into(), found: found.into() }
        } else if let Some((found, known)) = split("unknown variant ") {
            let names = known.trim_start_matches("one of ").replace(" or ", ", ");
            let known = names.split(", ").map(|name| name.trim_matches('`').into()).collect();
            ProblemKind::UnknownName { found: found.trim_matches('`').into(), known }
        } else {
            ProblemKind::Toml(message.into())
        };
        Self { key, kind }
    }
}

impl ConfigProblem {
    /// The key whose value is unknown because of this problem: a wrong key counts as the nearest
    /// one.
    pub(super) fn key_in_doubt(&self) -> Option<String> {
        match &self.kind {
            ProblemKind::UnknownKey { nearest } => nearest.clone(),
            _ => self.key.clone(),
        }
    }

    /// Whether the value of one of these keys or sections decides about this problem.
    pub(super) fn depends_on(&self, keys: &[String]) -> bool {
        let others: &[&str] = match self.kind {
            ProblemKind::Heads { .. } => &["model.kind", "model.branches", "model.width"],
            ProblemKind::MinRate { .. } => &["optimizer.lr"],
            ProblemKind::NoEdgeStream => &["model.edges"],
            ProblemKind::FixedEdgeStream { .. }
            | ProblemKind::NoHeads(_)
            | ProblemKind::OnlyTransformer(_)
            | ProblemKind::OnlyKind
            | ProblemKind::OnlyAttention
            | ProblemKind::KindAndBranches => &["model.kind", "model.branches"],
            ProblemKind::DirectedProduct => &["data.task", "links.directed"],
            ProblemKind::TargetOfLinks => &["data.task"],
            ProblemKind::TwoRoles { .. } => &["data.target", "data.features", "data.ignore"],
            _ => &[],
        };
        let covers = |key: &String, path: &str| {
            path.strip_prefix(&**key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        others.iter().copied().chain(self.key.as_deref()).any(|path| keys.iter().any(|key| covers(key, path)))
    }
}

impl From<Vec<ConfigProblem>> for ConfigError {
    fn from(problems: Vec<ConfigProblem>) -> Self {
        Self { problems }
    }
}

impl From<ConfigProblem> for ConfigError {
    fn from(problem: ConfigProblem) -> Self {
        Self { problems: vec![problem] }
    }
}

/// Collects the problems of a configuration.
#[derive(Default)]
pub(crate) struct Problems(pub(super) Vec<ConfigProblem>);

impl Problems {
    /// Adds a problem of a key unless a condition holds.
    pub(crate) fn unless(&mut self, fine: bool, key: &str, kind: ProblemKind) {
        if !fine {
            self.0.push(kind.of(key));
        }
    }

    /// Adds a problem of a key unless its value lies within limits.
    pub(crate) fn unless_within(&mut self, limits: impl RangeBounds<f64>, key: &str, value: f64) {
        let bounds = (limits.start_bound().cloned(), limits.end_bound().cloned());
        self.unless(limits.contains(&value), key, ProblemKind::OutOfRange { value, limits: bounds });
    }
}
