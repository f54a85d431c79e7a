//! The published configurations by name:
//!
//! * `zinc-sparse-lappe-bn` and so on: the 24 cells of the paper's Table 1, and the three
//!   Weisfeiler–Lehman rows of Table 3.
//! * `zinc-gcn`, `zinc-gat`, `zinc-gatedgcn`, `zinc-gatedgcn-lappe` and so on: the networks of
//!   Table 2 that the Graph Transformer is compared with.

use gt_nn::AttentionScope;
use gt_nn::Norm;

use crate::config::Kind;
use crate::{Config, PublishedEncoding, PublishedSet};

/// A published configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The data.
    pub set: PublishedSet,
    /// The kind of the layers.
    pub kind: Kind,
    /// Which graph attention runs over.
    pub graph: AttentionScope,
    /// The positional encoding.
    pub encoding: PublishedEncoding,
    /// Normalisation.
    pub norm: Norm,
}

const SETS: [(&str, PublishedSet); 3] =
    [("zinc", PublishedSet::Zinc), ("cluster", PublishedSet::Cluster), ("pattern", PublishedSet::Pattern)];
const GRAPHS: [(&str, AttentionScope); 2] = [("sparse", AttentionScope::Sparse), ("full", AttentionScope::Full)];
const ENCODINGS: [(&str, PublishedEncoding); 3] = [
    ("none", PublishedEncoding::None),
    ("lappe", PublishedEncoding::Laplacian),
    ("wl", PublishedEncoding::WeisfeilerLehman),
];
const BASELINES: [(&str, Kind); 3] = [("gcn", Kind::Gcn), ("gat", Kind::Gat), ("gatedgcn", Kind::GatedGcn)];
const NORMS: [(&str, Norm); 2] = [("bn", Norm::Batch), ("ln", Norm::Layer)];

/// The word for a value.
fn word<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> &'static str {
    words.iter().find(|(_, v)| v == value).map_or("", |(word, _)| word)
}

/// The value of a word.
fn value<T: Copy>(words: &[(&'static str, T)], word: &str) -> Option<T> {
    words.iter().find(|(w, _)| *w == word).map(|(_, value)| *value)
}

impl Preset {
    /// All presets.
    pub fn all() -> Vec<Self> {
        let mut presets = Vec::new();
        for (_, set) in SETS {
            presets.extend(BASELINES.map(|(_, kind)| Self::baseline(set, kind, PublishedEncoding::None)));
            presets.push(Self::baseline(set, Kind::GatedGcn, PublishedEncoding::Laplacian));
            for (_, graph) in GRAPHS {
                for (_, encoding) in ENCODINGS {
                    for (_, norm) in NORMS {
                        presets.push(Self { set, kind: Kind::Transformer, graph, encoding, norm });
                    }
                }
            }
        }
        presets.retain(Self::published);
        presets
    }

    fn baseline(set: PublishedSet, kind: Kind, encoding: PublishedEncoding) -> Self {
        Self { set, kind, graph: AttentionScope::Sparse, encoding, norm: Norm::Batch }
    }

    /// The Weisfeiler–Lehman encoding was tried with sparse graphs and batch normalisation only.
    fn published(&self) -> bool {
        self.encoding != PublishedEncoding::WeisfeilerLehman
            || (self.graph == AttentionScope::Sparse && self.norm == Norm::Batch)
    }

    /// Finds a preset by its name. The name of a set alone is the paper's best row: sparse, LapPE,
    /// batch normalisation.
    ///
    /// ```
    /// use graph_transformer_models::Preset;
    ///
    /// assert_eq!(Preset::named("zinc"), Preset::named("zinc-sparse-lappe-bn"));
    /// assert!(Preset::named("zinc-gatedgcn-lappe").is_some());
    /// assert_eq!(Preset::all().len(), 39);
    /// ```
    pub fn named(name: &str) -> Option<Self> {
        let mut words = name.split('-');
        let set = value(&SETS, words.next()?)?;
        let Some(graph) = words.next() else {
            let (graph, encoding, norm) = (AttentionScope::Sparse, PublishedEncoding::Laplacian, Norm::Batch);
            return Some(Self { set, kind: Kind::Transformer, graph, encoding, norm });
        };
        if let Some(kind) = value(&BASELINES, graph) {
            let encoding = match words.next() {
                None => PublishedEncoding::None,
                Some("lappe") if kind == Kind::GatedGcn => PublishedEncoding::Laplacian,
                Some(_) => return None,
            };
            return words.next().is_none().then(|| Self::baseline(set, kind, encoding));
        }
        let graph = value(&GRAPHS, graph)?;
        let encoding = value(&ENCODINGS, words.next()?)?;
        let norm = value(&NORMS, words.next()?)?;
        let preset = Self { set, kind: Kind::Transformer, graph, encoding, norm };
        (words.next().is_none() && preset.published()).then_some(preset)
    }

    /// The full name of the preset.
    pub fn name(&self) -> String {
        let Self { set, kind, graph, encoding, norm } = self;
        if *kind != Kind::Transformer {
            let encoding = if *encoding == PublishedEncoding::Laplacian { "-lappe" } else { "" };
            return format!("{}-{}{encoding}", word(&SETS, set), kind.name());
        }
        [word(&SETS, set), word(&GRAPHS, graph), word(&ENCODINGS, encoding), word(&NORMS, norm)].join("-")
    }

    /// The configuration of the preset.
    pub fn config(&self) -> Config {
        if self.kind != Kind::Transformer {
            return self.set.baseline(self.kind, self.encoding);
        }
        let mut config = self.set.config(self.encoding);
        config.model.graph = self.graph;
        config.model.norm = self.norm;
        config.train.batch = self.set.batch_size(self.graph == AttentionScope::Full);
        config
    }
}

#[cfg(test)]
mod tests {
    use gt_nn::Parameters;

    use super::*;

    #[test]
    fn every_preset_has_a_name_of_its_own_and_the_published_size() {
        let presets = Preset::all();
        assert_eq!(presets.len(), 39);
        for preset in &presets {
            assert_eq!(Preset::named(&preset.name()), Some(*preset));
            let network = preset.config().network(&preset.set.schema()).unwrap();
            use PublishedSet::{Cluster, Pattern, Zinc};
            let counts = match (preset.kind, preset.set) {
                (Kind::Transformer, Zinc) => [588_353, 588_929, 590_721],
                (Kind::Transformer, Cluster) => [523_146, 524_026, 531_146],
                (Kind::Transformer, Pattern) => [522_742, 522_982, 530_742],
                (Kind::Gcn | Kind::GcnMean, Zinc) => [505_079, 0, 0],
                (Kind::Gcn | Kind::GcnMean, Cluster) => [501_687, 0, 0],
                (Kind::Gcn | Kind::GcnMean, Pattern) => [500_823, 0, 0],
                (Kind::Gat, Zinc) => [531_345, 0, 0],
                (Kind::Gat, Cluster) => [527_874, 0, 0],
                (Kind::Gat, Pattern) => [526_990, 0, 0],
                (Kind::GatedGcn, Zinc) => [504_309, 505_011, 0],
                (Kind::GatedGcn, Cluster) => [502_615, 504_253, 0],
                (Kind::GatedGcn, Pattern) => [502_223, 502_457, 0],
            };
            let expected = match preset.encoding {
                PublishedEncoding::None => counts[0],
                PublishedEncoding::Laplacian => counts[1],
                PublishedEncoding::WeisfeilerLehman => counts[2],
            };
            assert_eq!(Parameters::new(&network).count(), expected, "{}", preset.name());
        }
        for wrong in [
            "",
            "zin",
            "zinc-sparse",
            "zinc-sparse-lappe-bn-more",
            "zinc-full-wl-bn",
            "cluster-sparse-wl-ln",
            "zinc-gcn-lappe",
            "zinc-gatedgcn-wl",
            "zinc-gatedgcn-lappe-bn",
        ] {
            assert_eq!(Preset::named(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn baselines_have_their_own_batches_rates_and_limits() {
        let of = |name: &str| {
            let config = Preset::named(name).unwrap().config();
            (config.train.batch, config.schedule.patience, config.optimizer.lr, config.schedule.min_lr)
        };
        assert_eq!(of("zinc-gcn"), (128, 10, 1e-3, 1e-5));
        assert_eq!(of("cluster-gcn"), (64, 5, 1e-3, 1e-5));
        assert_eq!(of("pattern-gat"), (128, 5, 1e-3, 1e-5));
        assert_eq!(of("cluster-gatedgcn-lappe"), (32, 5, 1e-3, 1e-5));
    }

    #[test]
    fn full_graphs_have_their_own_batch_sizes() {
        let batch = |name: &str| Preset::named(name).unwrap().config().train.batch;
        assert_eq!([batch("zinc-full-none-bn"), batch("cluster-full-lappe-ln"), batch("pattern")], [128, 10, 26]);
    }
}
