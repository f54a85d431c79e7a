//! The published configurations by name: `zinc-sparse-lappe-bn` and so on, the 24 cells of the paper's Table 1 and the three Weisfeiler–Lehman rows of Table 3.

use gt_nn::Norm;

use crate::config::Graph;
use crate::{Config, PublishedEncoding, PublishedSet};

/// A published configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The data.
    pub set: PublishedSet,
    /// Which graph attention runs over.
    pub graph: Graph,
    /// The positional encoding.
    pub encoding: PublishedEncoding,
    /// Normalisation.
    pub norm: Norm,
}

const SETS: [(&str, PublishedSet); 3] =
    [("zinc", PublishedSet::Zinc), ("cluster", PublishedSet::Cluster), ("pattern", PublishedSet::Pattern)];
const GRAPHS: [(&str, Graph); 2] = [("sparse", Graph::Sparse), ("full", Graph::Full)];
const ENCODINGS: [(&str, PublishedEncoding); 3] = [
    ("none", PublishedEncoding::None),
    ("lappe", PublishedEncoding::Laplacian),
    ("wl", PublishedEncoding::WeisfeilerLehman),
];
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
    /// All of them.
    pub fn all() -> Vec<Self> {
        let mut presets = Vec::new();
        for (_, set) in SETS {
            for (_, graph) in GRAPHS {
                for (_, encoding) in ENCODINGS {
                    for (_, norm) in NORMS {
                        presets.push(Self { set, graph, encoding, norm });
                    }
                }
            }
        }
        presets.retain(Self::published);
        presets
    }

    /// The Weisfeiler–Lehman encoding was tried with sparse graphs and batch normalisation only.
    fn published(&self) -> bool {
        self.encoding != PublishedEncoding::WeisfeilerLehman
            || (self.graph == Graph::Sparse && self.norm == Norm::Batch)
    }

    /// Finds a preset by its name; a set's name alone stands for the paper's best row, sparse with LapPE and batch normalisation.
    ///
    /// ```
    /// use gt_models::Preset;
    ///
    /// assert_eq!(Preset::named("zinc"), Preset::named("zinc-sparse-lappe-bn"));
    /// assert_eq!(Preset::all().len(), 27);
    /// ```
    pub fn named(name: &str) -> Option<Self> {
        let mut words = name.split('-');
        let set = value(&SETS, words.next()?)?;
        let Some(graph) = words.next() else {
            let (graph, encoding, norm) = (Graph::Sparse, PublishedEncoding::Laplacian, Norm::Batch);
            return Some(Self { set, graph, encoding, norm });
        };
        let graph = value(&GRAPHS, graph)?;
        let encoding = value(&ENCODINGS, words.next()?)?;
        let norm = value(&NORMS, words.next()?)?;
        let preset = Self { set, graph, encoding, norm };
        (words.next().is_none() && preset.published()).then_some(preset)
    }

    /// Its full name.
    pub fn name(&self) -> String {
        let Self { set, graph, encoding, norm } = self;
        [word(&SETS, set), word(&GRAPHS, graph), word(&ENCODINGS, encoding), word(&NORMS, norm)].join("-")
    }

    /// Its configuration.
    pub fn config(&self) -> Config {
        let mut config = self.set.config(self.encoding);
        config.model.graph = self.graph;
        config.model.norm = self.norm;
        config.train.batch = self.set.batch_size(self.graph == Graph::Full);
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
        assert_eq!(presets.len(), 27);
        for preset in &presets {
            assert_eq!(Preset::named(&preset.name()), Some(*preset));
            let network = preset.config().network(&preset.set.shape()).unwrap();
            let counts = match preset.set {
                PublishedSet::Zinc => [588_353, 588_929, 590_721],
                PublishedSet::Cluster => [523_146, 524_026, 531_146],
                PublishedSet::Pattern => [522_742, 522_982, 530_742],
            };
            let expected = match preset.encoding {
                PublishedEncoding::None => counts[0],
                PublishedEncoding::Laplacian => counts[1],
                PublishedEncoding::WeisfeilerLehman => counts[2],
            };
            assert_eq!(Parameters::new(&network).count(), expected, "{}", preset.name());
        }
        for wrong in ["", "zin", "zinc-sparse", "zinc-sparse-lappe-bn-more", "zinc-full-wl-bn", "cluster-sparse-wl-ln"]
        {
            assert_eq!(Preset::named(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn full_graphs_have_their_own_batch_sizes() {
        let batch = |name: &str| Preset::named(name).unwrap().config().train.batch;
        assert_eq!([batch("zinc-full-none-bn"), batch("cluster-full-lappe-ln"), batch("pattern")], [128, 10, 26]);
    }
}
