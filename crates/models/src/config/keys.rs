//! Configuration keys by name: known keys, the nearest known key, and setting a key.

use toml::{Table, Value};

use super::{Config, ConfigProblem, ProblemKind};

/// Removes every unknown key, and returns a problem for each.
pub(super) fn take_unknown(table: &mut Table) -> Vec<ConfigProblem> {
    // Everything optional is filled in, so that every key shows.
    let known = Table::try_from(Config::complete()).expect("a configuration is plain data");
    let mut problems = Vec::new();
    table.retain(|section, value| {
        let Some(Value::Table(keys)) = known.get(section) else {
            problems.push(unknown_key(section, known.keys().map(String::clone)));
            return false;
        };
        let Value::Table(found) = value else {
            problems.push(ProblemKind::NotASection(section.to_owned()).of(section));
            return false;
        };
        found.retain(|key, _| {
            if keys.contains_key(key) {
                return true;
            }
            // The right key may stand in another section.
            let all = known.iter().flat_map(|(section, keys)| {
                keys.as_table().into_iter().flat_map(move |t| t.keys().map(move |key| format!("{section}.{key}")))
            });
            problems.push(unknown_key(&format!("{section}.{key}"), all));
            false
        });
        true
    });
    problems
}

/// Removes every key whose value cannot be read, and returns a problem for each.
pub(super) fn take_unreadable(table: &mut Table) -> Vec<ConfigProblem> {
    let mut problems = Vec::new();
    for (section, keys) in table.iter_mut() {
        let Value::Table(keys) = keys else { continue };
        keys.retain(|key, value| match read_alone(section, key, value.clone()) {
            Ok(_) => true,
            Err(problem) => {
                problems.push(problem);
                false
            }
        });
    }
    problems
}

/// The default configuration with one key set; the values are not checked.
pub(super) fn read_alone(section: &str, key: &str, value: Value) -> Result<Config, ConfigProblem> {
    let keys = Table::from_iter([(key.to_owned(), value)]);
    let table = Table::from_iter([(section.to_owned(), Value::Table(keys))]);
    // The key is known here, whatever path the reader reports.
    table.try_into().map_err(|error| ConfigProblem::of_reader(error).kind.of(&format!("{section}.{key}")))
}

/// Whether a section or key, such as `model` or `model.layers`, is set.
pub(super) fn contains(table: &Table, path: &str) -> bool {
    match path.split_once('.') {
        Some((section, key)) => table.get(section).and_then(|keys| keys.get(key)).is_some(),
        None => table.contains_key(path),
    }
}

fn unknown_key(wrong: &str, right: impl Iterator<Item = String>) -> ConfigProblem {
    let own = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let distance = |path: &str| {
        // The same key in another section is nearer than any other spelling.
        let moved = strsim::damerau_levenshtein(&own(wrong), &own(path)) + 1;
        strsim::damerau_levenshtein(wrong, path).min(moved)
    };
    ProblemKind::UnknownKey { nearest: nearest(right, own(wrong).len(), distance) }.of(wrong)
}

/// The known name nearest to a wrong name of `length` letters, within three letters or a third of
/// them.
pub fn nearest(
    names: impl Iterator<Item = String>,
    letters: usize,
    distance: impl Fn(&str) -> usize,
) -> Option<String> {
    let (distance, name) = names.map(|name| (distance(&name), name)).min()?;
    (distance <= 3.max(letters / 3)).then_some(name)
}

/// Sets `section.key=value`.
pub(super) fn set(table: &mut Table, setting: &str) -> Result<(), ConfigProblem> {
    let malformed = || ProblemKind::Setting.of(setting);
    let (path, text) = setting.split_once('=').ok_or_else(malformed)?;
    let (section, key) = path.trim().split_once('.').ok_or_else(malformed)?;
    let text = text.trim();
    // A text that is no TOML value is a string without quotes.
    let value = toml::from_str::<Table>(&format!("v = {text}"))
        .ok()
        .and_then(|mut parsed| parsed.remove("v"))
        .unwrap_or_else(|| Value::String(text.to_owned()));
    let entry = table.entry(section.trim()).or_insert_with(|| Value::Table(Table::new()));
    // A section that is a value in the file is a problem of its own.
    if let Value::Table(keys) = entry {
        keys.insert(key.trim().to_owned(), value);
    }
    Ok(())
}

/// The keys that a user sets, in a file or by settings such as `optimizer.lr=1e-3`.
///
/// ```
/// use graph_transformer_models::config::SetKeys;
///
/// let set = SetKeys::new("[model]\nlayers = 4", &["train.batch=8".into()]);
/// assert!(set.contains("model.layers") && set.contains("train.batch"));
/// assert!(!set.contains("model.width"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct SetKeys {
    keys: Table,
    /// Sections of which every key is set.
    sections: Vec<&'static str>,
}

impl SetKeys {
    /// The keys of a configuration file's text, and of settings. Text that is no TOML has no keys:
    /// reading it as a configuration gives the error.
    pub fn new(text: &str, settings: &[String]) -> Self {
        let mut table: Table = toml::from_str(text).unwrap_or_default();
        for setting in settings {
            let _ = set(&mut table, setting);
        }
        Self { keys: table, sections: Vec::new() }
    }

    /// Counts every key of a section as set.
    pub fn with_all_of(mut self, section: &'static str) -> Self {
        self.sections.push(section);
        self
    }

    /// Whether a key such as `model.layers` is set.
    pub fn contains(&self, path: &str) -> bool {
        let section = path.split('.').next().unwrap_or_default();
        self.sections.contains(&section) || contains(&self.keys, path)
    }
}
