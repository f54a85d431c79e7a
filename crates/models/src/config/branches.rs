//! The branches of the layers: those of `model.branches`, or the one of `model.kind`.

use gt_nn::{Branch, EdgeUse};

use super::{Kind, ModelConfig, ProblemKind, Problems, Variant};

impl ModelConfig {
    /// The branches that every layer sums up.
    pub fn branches(&self) -> Vec<Branch> {
        self.branches.clone().unwrap_or_else(|| vec![self.kind.branch()])
    }

    /// Whether a feed-forward half follows the branches.
    pub fn feed_forward(&self) -> bool {
        let usual = || self.branches().iter().any(|branch| branch.facts().feed_forward);
        self.feed_forward.unwrap_or_else(usual)
    }

    /// Whether a branch is divided into heads.
    pub(crate) fn has_heads(&self) -> bool {
        self.branches().iter().any(|branch| branch.facts().heads)
    }

    fn uses_edges(&self, how: EdgeUse) -> bool {
        self.branches().iter().any(|branch| branch.facts().edges == how)
    }

    /// Whether edges carry a stream, for data with or without edge features.
    pub(super) fn edge_stream(&self, features: bool) -> bool {
        match (self.uses_edges(EdgeUse::Required), self.uses_edges(EdgeUse::Optional)) {
            (true, _) => true,
            (false, true) => self.edges.unwrap_or(features),
            (false, false) => false,
        }
    }

    /// Names of the layers in errors.
    fn layer_names(&self) -> String {
        match &self.branches {
            Some(branches) => branches.iter().map(|branch| branch.name()).collect::<Vec<_>>().join(" + "),
            None => self.kind.name().into(),
        }
    }

    /// The branches, and keys that they do not have.
    pub(super) fn check_layers(&self, problems: &mut Problems) {
        let branches = self.branches();
        problems.unless(!branches.is_empty(), "model.branches", ProblemKind::NoBranches);
        let twice = (1..branches.len()).find(|&at| branches[..at].contains(&branches[at]));
        if let Some(at) = twice {
            let name = branches[at].name();
            problems.unless(false, "model.branches", ProblemKind::RepeatedBranch(name));
        }
        let both = self.branches.is_some() && self.kind != Kind::Transformer;
        problems.unless(!both, "model.kind", ProblemKind::KindAndBranches);
        let (never, always) = (!self.uses_edges(EdgeUse::Optional), self.uses_edges(EdgeUse::Required));
        let fits = self.edges.is_none_or(|edges| if edges { always || !never } else { !always });
        let layers = self.layer_names();
        problems.unless(fits, "model.edges", ProblemKind::FixedEdgeStream { layers: layers.clone(), always });
        let heads = [1, Self::default().heads];
        let fits = self.has_heads() || heads.contains(&self.heads);
        problems.unless(fits, "model.heads", ProblemKind::NoHeads(layers));
        let attends = branches.contains(&Branch::Attention);
        for (key, set, needs_kind) in [
            ("model.variant", self.variant == Variant::Paper, true),
            ("model.gate", self.gate.is_some(), false),
            ("model.clamp", self.clamp.is_some(), false),
            ("model.symmetric_edges", self.symmetric_edges == Some(true), true),
        ] {
            let problem = match (self.branches.is_some(), self.kind) {
                (false, Kind::Transformer) => continue,
                (false, kind) => ProblemKind::OnlyTransformer(kind),
                (true, _) if needs_kind => ProblemKind::OnlyKind,
                (true, _) if attends => continue,
                (true, _) => ProblemKind::OnlyAttention,
            };
            problems.unless(!set, key, problem);
        }
    }
}

/// The names of branches in a file.
pub(super) mod names {
    use gt_nn::Branch;
    use serde::de::{Deserializer, Error, SeqAccess, Visitor};
    use serde::{Serialize, Serializer};

    pub(in crate::config) fn serialize<S: Serializer>(list: &Option<Vec<Branch>>, to: S) -> Result<S::Ok, S::Error> {
        let names = list.as_ref().map(|list| list.iter().map(|branch| branch.name()).collect::<Vec<_>>());
        names.serialize(to)
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Branch>>, D::Error> {
        from.deserialize_seq(Names).map(Some)
    }

    struct Names;

    impl<'de> Visitor<'de> for Names {
        type Value = Vec<Branch>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a list of names")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Branch>, A::Error> {
            let mut branches = Vec::new();
            while let Some(name) = list.next_element::<String>()? {
                let branch = Branch::ALL.into_iter().find(|branch| branch.name() == name);
                branches.push(branch.ok_or_else(|| Error::unknown_variant(&name, &Branch::NAMES))?);
            }
            Ok(branches)
        }
    }
}
