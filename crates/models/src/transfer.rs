//! Weights that one network takes over from another, by the names of the parameters.

use std::collections::HashMap;

use gt_graph::{FeatureSchema, Level, Schema, Vocabulary};
use gt_nn::{Frozen, Network, Parameters, Role, Weights};

use crate::config::InitLayers;
use crate::names::{norm_name, parameter_name};

/// Names of the parameters that a network took over, and of those that it did not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transfer {
    /// Taken over.
    pub loaded: Vec<String>,
    /// Not taken over: the other network lacks the parameter, has another shape, or has it in its
    /// head, which is not wanted.
    pub kept: Vec<String>,
}

/// Copies every parameter whose name and shape fit, and the running statistics of batch
/// normalisations.
///
/// ```
/// use graph_transformer_models::config::InitLayers;
/// use graph_transformer_models::{Config, Model, PublishedSet, transfer_weights};
///
/// let model = |text: &str| {
///     let config = Config::from_toml_with(text, &["model.width=8".into()]).unwrap();
///     Model::new(config, PublishedSet::Zinc.schema()).unwrap()
/// };
/// let (trained, mut fresh) = (model("[model]\nlayers = 1"), model("[model]\nlayers = 2"));
/// let transfer = transfer_weights(&trained.weights, &mut fresh.weights, InitLayers::Encoder);
/// assert!(transfer.loaded.contains(&"layers.0.attention.Q.weight".to_owned()));
/// assert!(transfer.kept.contains(&"layers.1.attention.Q.weight".to_owned()));
/// assert!(transfer.kept.contains(&"MLP_layer.FC_layers.0.weight".to_owned()));
/// ```
pub fn transfer_weights(from: &Weights, to: &mut Weights, layers: InitLayers) -> Transfer {
    let mut transfer = Transfer::default();
    let list = from.parameters().list().iter().enumerate();
    let known: HashMap<String, (usize, Vec<usize>)> = list
        .map(|(index, parameter)| (parameter_name(from.network(), parameter.role()), (index, parameter.shape())))
        .collect();
    let network = to.network().clone();
    for (index, parameter) in to.parameters().list().to_vec().iter().enumerate() {
        let name = parameter_name(&network, parameter.role());
        let wanted = layers == InitLayers::All || !matches!(parameter.role(), Role::Head(..));
        match known.get(&name).filter(|(_, shape)| wanted && *shape == parameter.shape()) {
            Some((other, _)) => {
                to.set_parameter(index, &from.parameter(*other));
                transfer.loaded.push(name);
            }
            None => transfer.kept.push(name),
        }
    }
    if from.network().channels.width() == network.channels.width() {
        let known = from.network().norm_sites();
        for site in network.norm_sites().into_iter().filter(|site| known.contains(site)) {
            let name = |network: &Network| norm_name(network, site.layer, site.stream, site.number);
            if name(from.network()) == name(&network) {
                let [mean, variance] = from.running(site);
                to.set_running(site, [&mean, &variance]);
            }
        }
    }
    transfer
}

/// Why data cannot continue with the weights of a model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InputMismatch {
    /// The columns are not those of the model.
    #[error("its {level} columns are {}, and those of the model are {}", list(found), list(expected))]
    Columns {
        /// Level of the columns.
        level: Level,
        /// Names of the columns of the data.
        found: Vec<String>,
        /// Names of the columns of the model.
        expected: Vec<String>,
    },
    /// A column has a category that the model does not know.
    #[error("its {level} column \"{column}\" has the category {value}, and the model knows only {known} others")]
    Category {
        /// Level of the column.
        level: Level,
        /// The column.
        column: String,
        /// Name of the category.
        value: String,
        /// Number of categories that the model knows.
        known: usize,
    },
}

/// A categorical column whose categories get the numbers that they have in a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Renumbering {
    /// Level of the column.
    pub level: Level,
    /// Position among the categorical columns of the level.
    pub column: usize,
    /// The number of each category of the data in the model.
    pub places: Vec<u32>,
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// The schema of data that continues with the weights of a model: its targets are those of the
/// data, its vocabularies those of the model. Categories are matched by their names; the list has
/// the columns in which they get other numbers.
///
/// # Errors
/// If the columns differ, or the data has categories that the model does not know.
pub fn adopt_inputs(data: &Schema, model: &Schema) -> Result<(Schema, Vec<Renumbering>), InputMismatch> {
    let mut renumbered = Vec::new();
    for (level, found, expected) in [(Level::Node, &data.node, &model.node), (Level::Edge, &data.edge, &model.edge)] {
        if names(found) != names(expected) {
            return Err(InputMismatch::Columns { level, found: names(found), expected: names(expected) });
        }
        for (column, (own, known)) in found.categorical.iter().zip(&expected.categorical).enumerate() {
            let places = places_in(level, own, known)?;
            if places.iter().zip(0..).any(|(&place, value)| place != value) {
                renumbered.push(Renumbering { level, column, places });
            }
        }
        for (own, known) in found.multi_hot.iter().zip(&expected.multi_hot) {
            let places = places_in(level, own, known)?;
            if let Some(value) = (0..places.len()).find(|&value| places[value] as usize != value) {
                let (column, value) = (own.name.clone(), own.value_name(value));
                return Err(InputMismatch::Category { level, column, value, known: known.size });
            }
        }
    }
    Ok((Schema { target: data.target.clone(), ..model.clone() }, renumbered))
}

/// The number of each category of a column in the vocabulary of a model.
fn places_in(level: Level, own: &Vocabulary, known: &Vocabulary) -> Result<Vec<u32>, InputMismatch> {
    let named = known.size - usize::from(known.other);
    let numbers: HashMap<String, u32> = (0..named).map(|value| (known.value_name(value), value as u32)).collect();
    let place = |value: usize| {
        let name = own.value_name(value);
        let other = known.other.then_some(named as u32);
        numbers.get(&name).copied().or(other).ok_or_else(|| InputMismatch::Category {
            level,
            column: own.name.clone(),
            value: name,
            known: known.size,
        })
    };
    (0..own.size).map(place).collect()
}

/// Names of all columns, with their kinds.
fn names(columns: &FeatureSchema) -> Vec<String> {
    let categories = columns.categorical.iter().map(|v| format!("{} (categories)", v.name));
    let numbers = columns.continuous.iter().map(|name| format!("{name} (numbers)"));
    let lists = columns.multi_hot.iter().map(|v| format!("{} (lists)", v.name));
    categories.chain(numbers).chain(lists).collect()
}

/// The parameters and batch normalisations whose names begin with one of some texts. A text ends
/// where a part of the name ends: `layers.1` is no beginning of `layers.10.O_h.weight`.
///
/// # Errors
/// The first text that no name begins with.
pub fn frozen_parts<'a>(network: &Network, beginnings: &'a [String]) -> Result<Frozen, &'a str> {
    let begins = |name: &str, beginning: &str| {
        name.strip_prefix(beginning).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '_']))
    };
    let parameters = Parameters::new(network);
    let names = parameters.list().iter().map(|parameter| parameter_name(network, parameter.role()));
    let names: Vec<String> = names.collect();
    if let Some(unknown) = beginnings.iter().find(|text| !names.iter().any(|name| begins(name, text))) {
        return Err(unknown);
    }
    let frozen = |name: &str| beginnings.iter().any(|beginning| begins(name, beginning));
    let mut sites = network.norm_sites();
    sites.retain(|site| frozen(&norm_name(network, site.layer, site.stream, site.number)));
    Ok(Frozen { parameters: (0..names.len()).filter(|&index| frozen(&names[index])).collect(), sites })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vocabulary(names: &[&str], other: bool) -> Vocabulary {
        let size = names.len() + usize::from(other);
        Vocabulary {
            size,
            names: names.iter().map(|&name| name.to_owned()).collect(),
            other,
            ..Vocabulary::new("atom", 0)
        }
    }

    #[test]
    fn categories_are_matched_by_their_names() {
        let places =
            |own: &[&str], other| places_in(Level::Node, &vocabulary(own, false), &vocabulary(&["C", "O", "N"], other));
        assert_eq!(places(&["N", "C"], false), Ok(vec![2, 0]));
        assert_eq!(places(&["C", "Cl"], true), Ok(vec![0, 3]));
        let error = places(&["C", "Cl"], false).unwrap_err().to_string();
        assert!(error.contains("\"atom\"") && error.contains("Cl"), "{error}");
        // Categories without names are numbers.
        assert_eq!(places_in(Level::Edge, &Vocabulary::new("bond", 2), &Vocabulary::new("bond", 4)), Ok(vec![0, 1]));
    }
}
