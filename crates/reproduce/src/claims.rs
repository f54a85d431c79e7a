//! The paper's statements as checks on our records and on the paper's own numbers.

use serde::Serialize;

use crate::score::{Measure, Score};

/// A statement of the paper, and the comparisons that would have to support it.
#[derive(Debug, Serialize)]
pub struct Claim {
    /// In our words.
    pub statement: &'static str,
    /// The section of the paper.
    pub source: &'static str,
    /// Whether our records support it.
    pub status: Status,
    /// Whether the paper's own numbers support it.
    pub in_the_paper: Status,
    /// The comparisons behind it.
    pub checks: Vec<Check>,
}

/// Whether a statement holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Status {
    /// Every comparison supports it.
    #[serde(rename = "holds")]
    Holds,
    /// At least one comparison contradicts it.
    #[serde(rename = "does not hold")]
    DoesNotHold,
    /// No comparison contradicts it, but some lack records.
    #[serde(rename = "not enough records")]
    NotEnoughRecords,
}

impl Status {
    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::DoesNotHold => "does not hold",
            Self::NotEnoughRecords => "not enough records",
        }
    }

    /// One contradiction refutes; support has to be complete.
    fn from_checks<'a>(checks: impl Iterator<Item = &'a Option<bool>>) -> Self {
        let mut status = Self::Holds;
        for check in checks {
            match check {
                Some(true) => {}
                Some(false) => return Self::DoesNotHold,
                None => status = Self::NotEnoughRecords,
            }
        }
        status
    }
}

/// One configuration against another.
#[derive(Debug, Serialize)]
pub struct Check {
    /// What is compared.
    pub compared: Compared,
    /// The configuration that should be ahead.
    pub ahead: String,
    /// The configuration that should be behind.
    pub behind: String,
    /// Our scores of both.
    pub scores: [Option<Score>; 2],
    /// The lead in units; negative if the order is reversed.
    pub units: Option<f64>,
    /// Whether our records have this order.
    pub holds: Option<bool>,
    /// Whether the paper's numbers have this order.
    pub holds_in_the_paper: Option<bool>,
}

/// The quantity of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compared {
    /// The better test score is ahead.
    Test,
    /// Training score minus test score: the larger gap is ahead.
    Gap,
}

impl Compared {
    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Gap => "train − test",
        }
    }
}

/// Test and training scores of a configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownScores {
    pub test: Score,
    pub train: Option<Score>,
}

impl KnownScores {
    fn value(&self, compared: Compared) -> Option<Score> {
        match compared {
            Compared::Test => Some(self.test),
            Compared::Gap => {
                let train = self.train?;
                Some(Score { mean: train.mean - self.test.mean, deviation: train.unit(&self.test) })
            }
        }
    }
}

const SETS: [&str; 3] = ["zinc", "cluster", "pattern"];
const TABLE_1: [&str; 8] = [
    "sparse-lappe-bn",
    "sparse-none-bn",
    "sparse-lappe-ln",
    "sparse-none-ln",
    "full-lappe-bn",
    "full-none-bn",
    "full-lappe-ln",
    "full-none-ln",
];

type Pair = (Compared, String, String);
/// Finds the scores of a configuration.
type ScoreLookup<'a> = &'a dyn Fn(&str) -> Option<KnownScores>;

/// All statements, checked on our scores and on the paper's.
pub(crate) fn check_claims(ours: ScoreLookup<'_>, paper: ScoreLookup<'_>) -> Vec<Claim> {
    let claim = |statement, source, pairs: Vec<Pair>| {
        let checks: Vec<Check> = pairs.into_iter().map(|pair| check(pair, ours, paper)).collect();
        Claim {
            statement,
            source,
            status: Status::from_checks(checks.iter().map(|check| &check.holds)),
            in_the_paper: Status::from_checks(checks.iter().map(|check| &check.holds_in_the_paper)),
            checks,
        }
    };
    vec![
        claim("LapPE with batch norm is best on every set", "Analysis and Discussion, first point", best()),
        claim("Sparse graphs beat full ones", "Analysis and Discussion, third point", switched("sparse", "full")),
        claim("The Graph Transformer beats GCN and GAT", "Analysis and Discussion, second point", baselines()),
        claim("WL-PE overfits the SBM sets", "Comparison to PEs used in Graph-BERT", overfitting()),
        claim("Batch norm beats layer norm in all experiments", "Conclusion", switched("bn", "ln")),
        claim("LapPE beats no encoding in all experiments", "Conclusion", switched("lappe", "none")),
    ]
}

fn check((compared, ahead, behind): Pair, ours: ScoreLookup<'_>, paper: ScoreLookup<'_>) -> Check {
    let measure = Measure::for_preset(&ahead);
    let scores = |lookup: ScoreLookup<'_>| [&ahead, &behind].map(|preset| lookup(preset)?.value(compared));
    let own = scores(ours);
    let lead = |[one, other]: [Option<Score>; 2]| {
        let (one, other) = (one?.mean, other?.mean);
        Some(if compared == Compared::Test { measure.advantage(one, other) } else { one - other })
    };
    let unit = own[0].zip(own[1]).and_then(|(one, other)| one.unit(&other));
    Check {
        compared,
        scores: own,
        units: lead(own).zip(unit).map(|(lead, unit)| lead / unit),
        holds: lead(own).map(|lead| lead > 0.0),
        holds_in_the_paper: lead(scores(paper)).map(|lead| lead > 0.0),
        ahead,
        behind,
    }
}

fn best() -> Vec<Pair> {
    let pair = |set: &str, other: &str| (Compared::Test, format!("{set}-{}", TABLE_1[0]), format!("{set}-{other}"));
    SETS.iter().flat_map(|set| TABLE_1[1..].iter().map(move |other| pair(set, other))).collect()
}

/// All cells of Table 1 with the word `ahead`, each against the cell with `behind` instead.
fn switched(ahead: &str, behind: &str) -> Vec<Pair> {
    let with = |cell: &&&str| cell.split('-').any(|word| word == ahead);
    let pair = |set: &str, cell: &str| {
        let words: Vec<&str> = cell.split('-').map(|word| if word == ahead { behind } else { word }).collect();
        (Compared::Test, format!("{set}-{cell}"), format!("{set}-{}", words.join("-")))
    };
    SETS.iter().flat_map(|set| TABLE_1.iter().filter(with).map(move |cell| pair(set, cell))).collect()
}

fn baselines() -> Vec<Pair> {
    let pair = |set: &str, other: &str| (Compared::Test, format!("{set}-{}", TABLE_1[0]), format!("{set}-{other}"));
    SETS.iter().flat_map(|set| ["gcn", "gat"].map(|other| pair(set, other))).collect()
}

/// Overfitting: worse on the test part, with a wider gap to the training part.
fn overfitting() -> Vec<Pair> {
    let pairs = |set: &str, other: &str| {
        let (wl, other) = (format!("{set}-sparse-wl-bn"), format!("{set}-sparse-{other}-bn"));
        [(Compared::Test, other.clone(), wl.clone()), (Compared::Gap, wl, other)]
    };
    SETS[1..].iter().flat_map(|set| ["none", "lappe"].map(|other| pairs(set, other))).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::Paper;

    fn printed(paper: &Paper) -> impl Fn(&str) -> Option<KnownScores> {
        |preset| paper.cell(preset).map(|cell| KnownScores { test: cell.test, train: cell.train })
    }

    #[test]
    fn the_papers_own_numbers_contradict_two_of_its_statements() {
        let paper = Paper::load();
        let all = check_claims(&printed(&paper), &printed(&paper));
        let status: Vec<Status> = all.iter().map(|claim| claim.in_the_paper).collect();
        use Status::{DoesNotHold, Holds};
        assert_eq!(status, [Holds, Holds, Holds, Holds, DoesNotHold, DoesNotHold]);
        let counts: Vec<usize> = all.iter().map(|claim| claim.checks.len()).collect();
        assert_eq!(counts, [21, 12, 6, 8, 12, 12]);
        let against = |claim: &Claim| -> Vec<String> {
            let wrong = claim.checks.iter().filter(|check| check.holds == Some(false));
            wrong.map(|check| check.ahead.clone()).collect()
        };
        assert_eq!(against(&all[4]), ["pattern-full-lappe-bn"]);
        assert_eq!(against(&all[5]), ["zinc-sparse-lappe-ln", "cluster-sparse-lappe-ln", "pattern-sparse-lappe-ln"]);
    }

    #[test]
    fn one_contradiction_is_enough_and_agreement_must_be_complete() {
        let paper = Paper::load();
        let printed = printed(&paper);
        let without = |missing: &'static str| {
            let printed = &printed;
            move |preset: &str| if preset == missing { None } else { printed(preset) }
        };
        assert_eq!(check_claims(&without("zinc-gat"), &printed)[2].status, Status::NotEnoughRecords);
        assert_eq!(check_claims(&without("zinc-sparse-none-bn"), &printed)[4].status, Status::DoesNotHold);
        assert_eq!(check_claims(&|_| None, &printed)[0].status, Status::NotEnoughRecords);
    }

    #[test]
    fn leads_are_counted_in_units_of_both_deviations() {
        let ours = |preset: &str| {
            let mean = if preset == "zinc-gcn" { 0.35 } else { 0.30 };
            Some(KnownScores {
                test: Score::from((mean, if preset == "zinc-gcn" { 0.003 } else { 0.004 })),
                train: None,
            })
        };
        let all = check_claims(&ours, &|_| None);
        let check = &all[2].checks[0];
        assert_eq!((check.holds, check.behind.as_str()), (Some(true), "zinc-gcn"));
        assert!((check.units.unwrap() - 10.0).abs() < 1e-9);
        assert_eq!(all[3].checks[1].holds, None, "without training scores there is no gap");
    }
}
