//! Records of JSON lines, key by key.

use std::collections::BTreeMap;
use std::fmt;

use arrow_array::builder::StringBuilder;
use arrow_buffer::NullBuffer;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::column::JsonColumn;
use crate::columns as c;
use crate::raw::{Bounds, RawFeatures, RawGraphs, RawTargets, RawTexts};
use crate::reason::Reason;
use crate::resolve::Wanted;
use gt_graph::TargetSchema;

/// Keys that hold numbers.
const NUMBERS: [&str; 12] = [
    c::NUM_NODES,
    c::EDGE_INDEX,
    c::NODE_FEAT,
    c::NODE_FEAT_FLOAT,
    c::NODE_MULTI_HOT,
    c::EDGE_ATTR,
    c::EDGE_ATTR_FLOAT,
    c::EDGE_MULTI_HOT,
    c::Y,
    c::LAP_PE,
    c::RW_PE,
    c::WL_PE,
];

/// Which keys are read.
#[derive(Clone)]
pub(super) struct Keys(pub(super) Wanted);

impl Keys {
    fn find(&self, key: &str) -> Key {
        if !self.0.has_column(key) {
            return Key::Ignored;
        }
        if self.0.carries(key) {
            return Key::Carried(key.into());
        }
        if let Some(at) = NUMBERS.iter().position(|known| *known == key) {
            return Key::Numbers(at);
        }
        if let Some(at) = self.0.target_names().iter().position(|name| name == key) {
            return Key::Target(at);
        }
        match key {
            c::SCHEMA => Key::Schema,
            c::SPLIT => Key::Split(0),
            c::NODE_SPLIT => Key::Split(1),
            c::EDGE_SPLIT => Key::Split(2),
            _ => Key::Ignored,
        }
    }
}

/// The role of a key.
enum Key {
    Numbers(usize),
    /// A target with a key of its own.
    Target(usize),
    Split(usize),
    Schema,
    Carried(String),
    Ignored,
}

/// Some consecutive records.
pub(super) struct Records {
    keys: Keys,
    count: usize,
    broken: BTreeMap<usize, Reason>,
    numbers: [JsonColumn; 12],
    /// Targets with keys of their own.
    targets: Vec<JsonColumn>,
    splits: [Vec<Option<Vec<String>>>; 3],
    /// Schemas, with the records that state them.
    pub(super) schemas: Vec<(usize, Value)>,
    /// Values of carried keys, with their records.
    pub(super) carried: Vec<(String, usize, Value)>,
}

impl Records {
    pub(super) fn new(keys: Keys) -> Self {
        Self {
            targets: keys.0.target_names().iter().map(|_| JsonColumn::default()).collect(),
            keys,
            count: 0,
            broken: BTreeMap::new(),
            numbers: Default::default(),
            splits: Default::default(),
            schemas: Vec::new(),
            carried: Vec::new(),
        }
    }

    /// Reads a line.
    pub(super) fn push(&mut self, line: usize, text: &[u8]) {
        let mut source = serde_json::Deserializer::from_slice(text);
        self.splits.iter_mut().for_each(|split| split.push(None));
        let parsed = (&mut *self).deserialize(&mut source).and_then(|()| source.end());
        let columns = self.numbers.iter_mut().chain(&mut self.targets);
        columns.for_each(|column| column.end_record(parsed.is_ok()));
        if let Err(error) = parsed {
            let (position, message) = (error.column(), message(&error, text));
            self.broken.insert(self.count, Reason::Line { line, position, message });
            self.carried.retain(|(_, record, _)| *record != self.count);
        }
        self.count += 1;
    }

    /// Appends the next records.
    pub(super) fn append(mut self, other: Self) -> Self {
        let before = self.count;
        self.count += other.count;
        self.broken.extend(other.broken.into_iter().map(|(record, reason)| (before + record, reason)));
        self.numbers.iter_mut().zip(other.numbers).for_each(|(own, other)| own.append(other));
        self.targets.iter_mut().zip(other.targets).for_each(|(own, other)| own.append(other));
        self.splits.iter_mut().zip(other.splits).for_each(|(own, other)| own.extend(other));
        self.schemas.extend(other.schemas.into_iter().map(|(record, schema)| (before + record, schema)));
        let carried = other.carried.into_iter().map(|(name, record, value)| (name, before + record, value));
        self.carried.extend(carried);
        self
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The first record that could be read.
    pub(super) fn first_readable(&self) -> Option<usize> {
        (0..self.count).find(|record| !self.broken.contains_key(record))
    }

    /// `stated` holds the targets that the file states; `y` has their values.
    pub(super) fn into_raw(self, stated: Option<&TargetSchema>) -> RawGraphs {
        let has_keys = self.targets.iter().any(JsonColumn::any_present);
        let names = self.keys.0.target_names();
        let is_stated = |name: &String| stated.is_some_and(|target| target.columns.iter().any(|own| own.name == *name));
        let in_y = names.iter().all(is_stated);
        let targets = self.targets.into_iter().zip(names).map(|(column, name)| column.into_raw(name));
        let mut at = 0;
        let [nodes, edges, n, n_float, n_words, e, e_float, e_words, y, lap, walk, roles] =
            self.numbers.map(|column| {
                at += 1;
                column.into_raw(NUMBERS[at - 1])
            });
        let [graph, node, edge] = self.splits;
        RawGraphs {
            count: self.count,
            names: Default::default(),
            broken: self.broken,
            num_nodes: nodes,
            edge_index: edges,
            node: RawFeatures::Native(Box::new([n, n_float, n_words])),
            edge: RawFeatures::Native(Box::new([e, e_float, e_words])),
            targets: RawTargets::Native(match has_keys && !in_y {
                true => targets.collect(),
                false => vec![y],
            }),
            splits: [texts(c::SPLIT, graph), texts(c::NODE_SPLIT, node), texts(c::EDGE_SPLIT, edge)],
            encodings: [lap, walk, roles],
            carried: Vec::new(),
            origin: None,
        }
    }
}

fn texts(name: &'static str, split: Vec<Option<Vec<String>>>) -> RawTexts {
    let present: NullBuffer = split.iter().map(Option::is_some).collect();
    let (mut words, mut ends) = (StringBuilder::new(), vec![0]);
    for names in split {
        let names = names.unwrap_or_default();
        ends.push(ends[ends.len() - 1] + names.len());
        names.iter().for_each(|name| words.append_value(name));
    }
    let present = Some(present).filter(|present| present.null_count() < present.len());
    RawTexts { name, graphs: Bounds::Owned(ends), values: words.finish(), present }
}

/// The error message without position and serde's "at line 1", because every record is a line.
fn message(error: &serde_json::Error, line: &[u8]) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let not_json = if error.is_syntax() || error.is_eof() { "it is not JSON: " } else { "" };
    // Python writes NaN and infinity, though they are not JSON.
    let rest = line.get(error.column().saturating_sub(2)..).unwrap_or_default();
    let begins = |word: &[u8]| rest.starts_with(word) || rest.get(1..).is_some_and(|rest| rest.starts_with(word));
    let hint = if begins(b"NaN") || begins(b"Infinity") { "; JSON has no NaN and no Infinity, write null" } else { "" };
    format!("{not_json}{}{hint}", text.trim_end_matches(&place))
}

impl<'de> DeserializeSeed<'de> for &mut Records {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Records {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the keys \"num_nodes\", \"edge_index\", …")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let record = self.count;
        while let Some(key) = map.next_key_seed(KeySeed(&self.keys))? {
            match key {
                Key::Numbers(at) | Key::Target(at) => {
                    let (column, name) = match key {
                        Key::Target(at) => (&mut self.targets[at], self.keys.0.target_names()[at].as_str()),
                        _ => (&mut self.numbers[at], NUMBERS[at]),
                    };
                    if column.seen() {
                        return Err(de::Error::custom(format!("key \"{name}\" occurs twice")));
                    }
                    map.next_value_seed(column).map_err(|e| de::Error::custom(format!("key \"{name}\": {e}")))?;
                }
                Key::Split(at) => {
                    let names = if at == 0 {
                        map.next_value::<Option<String>>()?.map(|name| vec![name])
                    } else {
                        map.next_value()?
                    };
                    self.splits[at][record] = names;
                }
                Key::Schema => self.schemas.push((record, map.next_value()?)),
                Key::Carried(name) => self.carried.push((name, record, map.next_value()?)),
                Key::Ignored => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Reads a key.
struct KeySeed<'a>(&'a Keys);

impl<'de> DeserializeSeed<'de> for KeySeed<'_> {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Key, D::Error> {
        source.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed<'_> {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<Key, E> {
        Ok(self.0.find(key))
    }
}
