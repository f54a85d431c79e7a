//! The stored schema: in a column of Parquet, in the first record of JSON lines, or in a file next
//! to tables.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{DataError, FileProblem, Result};
use gt_graph::Schema;

/// Version of the layout that this program writes, and the newest version that it reads.
const FORMAT_VERSION: u32 = 1;

/// A schema with the version of its layout.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredSchema {
    format_version: u32,
    pub(crate) schema: Schema,
    /// Kinds of the carried columns (`text`, `integer`, `real` or `boolean`), if the format does
    /// not store them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) extras: BTreeMap<String, String>,
    /// Whether the tables next to the schema are being replaced, and so may not belong together.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) unfinished: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl StoredSchema {
    pub(crate) fn new(schema: &Schema) -> Self {
        let schema = schema.clone().without_ignored();
        Self { format_version: FORMAT_VERSION, schema, extras: BTreeMap::new(), unfinished: false }
    }

    /// Parses a schema that this program wrote.
    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self> {
        let stored: Self =
            serde_json::from_str(text).map_err(|e| DataError::file(path, FileProblem::DamagedSchema(e.to_string())))?;
        if stored.format_version > FORMAT_VERSION {
            let found = stored.format_version;
            return Err(DataError::file(path, FileProblem::NewerFormat { found, known: FORMAT_VERSION }));
        }
        Ok(stored)
    }

    /// The schema as one line of JSON.
    pub(crate) fn to_line(&self) -> String {
        serde_json::to_string(self).expect("a schema is plain data")
    }
}
