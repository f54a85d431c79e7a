//! A reference of every configuration key, read from the code.
//!
//! Meanings are the doc comments of the structures in this folder. Defaults are those of
//! [`Config::default`]. Types, names and limits come from the problems of values that are wrong on
//! purpose, so the reference shows what is enforced.

use std::ops::Bound;

use serde::Serialize;
use toml::{Table, Value};

use super::problem::name_limits;
use super::{Config, ProblemKind, keys};

/// The files that hold the structures.
const SOURCES: [&str; 4] =
    [include_str!("mod.rs"), include_str!("model.rs"), include_str!("training.rs"), include_str!("links.rs")];

/// A section of a configuration with its keys.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SectionReference {
    /// The name, such as `model`.
    pub section: String,
    /// What the keys of the section decide about.
    pub meaning: String,
    /// The keys, in the order of the file.
    pub keys: Vec<KeyReference>,
}

/// A key of a configuration.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeyReference {
    /// The name within its section, such as `layers`.
    pub key: String,
    /// The default; none if a key that is left out follows other keys or the data.
    pub default: Option<Value>,
    /// The type: `name`, `text`, `true or false`, `number`, `whole number`, a list or a table.
    #[serde(rename = "type")]
    pub kind: String,
    /// The names that the key accepts; empty for other types.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Limits of a number or of each number of a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<String>,
    /// The meaning.
    pub meaning: String,
}

/// All sections and keys of a configuration.
///
/// ```
/// let sections = graph_transformer_models::config::reference();
/// let model = sections.iter().find(|section| section.section == "model").unwrap();
/// let layers = model.keys.iter().find(|key| key.key == "layers").unwrap();
/// assert_eq!((&*layers.kind, layers.limits.as_deref()), ("whole number", Some("0 to 1000")));
/// assert_eq!(layers.default_text().as_deref(), Some("10"));
/// assert_eq!(layers.meaning, "Number of layers.");
/// ```
pub fn reference() -> Vec<SectionReference> {
    let defaults = Table::try_from(Config::default()).expect("a configuration is plain data");
    let section = |field: Field| {
        let defaults = defaults[field.name].as_table().expect("sections are tables");
        let keys = fields(field.kind).into_iter().map(|key| KeyReference::new(field.name, key, defaults)).collect();
        SectionReference { section: field.name.into(), meaning: field.meaning, keys }
    };
    fields("Config").into_iter().map(section).collect()
}

impl KeyReference {
    fn new(section: &str, field: Field, defaults: &Table) -> Self {
        let key = field.name;
        let (kind, names) = match keys::read_alone(section, key, Value::String("?".into())).map_err(|p| p.kind) {
            Err(ProblemKind::UnknownName { known, .. }) => ("name".into(), known),
            Err(ProblemKind::WrongType { expected, .. }) => {
                (expected.strip_prefix("a ").unwrap_or(&expected).to_owned(), vec![])
            }
            _ => ("text".into(), vec![]),
        };
        // A key that is left out at its default, and not because it has none.
        let candidates = names.iter().cloned().map(Value::String).chain([true, false].map(Value::Boolean));
        let is_default = |value: &Value| {
            keys::read_alone(section, key, value.clone()).is_ok_and(|config| config == Config::default())
        };
        let default = defaults.get(key).cloned().or_else(|| candidates.into_iter().find(is_default));
        let limits = find_limits(section, key).map(|limits| name_limits(&limits));
        let limits = limits.map(|text| text.trim_start_matches("a finite number, ").to_owned());
        let limits = limits.or_else(|| (kind == "whole number").then(|| "at least 0".into()));
        Self { key: key.into(), default, kind, names, limits, meaning: field.meaning }
    }
}

impl KeyReference {
    /// The default as text: as in a TOML file, but names without quotes.
    pub fn default_text(&self) -> Option<String> {
        Some(match self.default.as_ref()? {
            Value::String(name) if !self.names.is_empty() => name.clone(),
            // Small numbers as powers of ten.
            Value::Float(number) => format!("{number:?}"),
            value => value.to_string(),
        })
    }
}

/// The limits that a value outside of them is reported with.
fn find_limits(section: &str, key: &str) -> Option<(Bound<f64>, Bound<f64>)> {
    let numbers = [Value::Float(f64::NAN), Value::Integer(0), Value::Integer(i64::MAX)];
    let probes = numbers.into_iter().chain([Value::Array(vec![Value::Integer(0)])]);
    let problems =
        probes.filter_map(|probe| keys::read_alone(section, key, probe).ok()).flat_map(|config| config.problems());
    let path = Some(format!("{section}.{key}"));
    problems.filter(|problem| problem.key == path).find_map(|problem| match problem.kind {
        ProblemKind::OutOfRange { limits, .. } => Some(limits),
        _ => None,
    })
}

/// A field of a structure: its name, its Rust type, and its doc comment in one line.
struct Field {
    name: &'static str,
    kind: &'static str,
    meaning: String,
}

/// The public fields of a structure in [`SOURCES`].
fn fields(structure: &str) -> Vec<Field> {
    let start = format!("pub struct {structure} {{");
    let body = SOURCES.iter().find_map(|source| Some(source.split_once(&start)?.1));
    let mut fields = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    for line in body.expect("the sources hold all structures").lines().take_while(|line| *line != "}") {
        let line = line.trim();
        if let Some(text) = line.strip_prefix("///") {
            comment.push(text.trim());
        } else if let Some((name, kind)) = line.strip_prefix("pub ").and_then(|field| field.split_once(": ")) {
            let meaning = comment.join(" ");
            fields.push(Field { name, kind: kind.trim_end_matches(','), meaning });
            comment.clear();
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_meaning_and_every_meaning_a_key() {
        let known = Table::try_from(Config::complete()).unwrap();
        let known = known.iter().flat_map(|(section, keys)| {
            keys.as_table().unwrap().keys().map(move |key| format!("{section}.{key}")).collect::<Vec<_>>()
        });
        let described = reference().into_iter().flat_map(|section| {
            assert!(section.meaning.ends_with('.'), "[{}] has no meaning", section.section);
            let path = |key: KeyReference| {
                let path = format!("{}.{}", section.section, key.key);
                assert!(key.meaning.ends_with('.'), "{path} has no meaning");
                path
            };
            section.keys.into_iter().map(path).collect::<Vec<_>>()
        });
        let sorted = |mut paths: Vec<String>| {
            paths.sort();
            paths
        };
        assert_eq!(sorted(described.collect()), sorted(known.collect()));
    }

    #[test]
    fn the_reference_shows_what_is_enforced() {
        for section in reference() {
            for key in section.keys {
                let path = format!("{}.{}", section.section, key.key);
                let read = |value: &Value| keys::read_alone(&section.section, &key.key, value.clone());
                for name in &key.names {
                    assert!(read(&Value::String(name.clone())).is_ok(), "{path} = {name}");
                }
                if let Some(default) = &key.default {
                    assert_eq!(read(default).unwrap(), Config::default(), "{path}");
                    assert!(key.names.is_empty() || key.names.iter().any(|name| default.as_str() == Some(name)));
                }
                assert_eq!(key.kind == "name", !key.names.is_empty(), "{path}");
                let kinds = ["name", "text", "true or false", "number", "whole number"];
                assert!(
                    kinds.contains(&&*key.kind)
                        || key.kind.starts_with("list of ")
                        || key.kind.starts_with("table of "),
                    "{path}: {}",
                    key.kind
                );
            }
        }
    }
}
