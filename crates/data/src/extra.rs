//! Columns of a file that no model reads.

use arrow_array::{Array, ArrayRef};

use crate::scalar::Scalar;

/// A column that is carried along (a name, a SMILES string): one value per graph.
///
/// ```
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("named.jsonl");
/// let lines = [
///     r#"{"num_nodes": 1, "edge_index": [[], []], "name": "water"}"#,
///     r#"{"num_nodes": 2, "edge_index": [[0], [1]]}"#,
/// ];
/// std::fs::write(&path, lines.join("\n"))?;
/// let data = graph_transformer_data::read(&path)?;
/// let name = data.extra("name").unwrap();
/// assert_eq!((name.len(), name.text(0), name.text(1)), (2, Some("water".into()), None));
/// assert_eq!(data.extras().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Extra {
    name: String,
    pub(crate) values: ArrayRef,
}

impl Extra {
    pub(crate) fn new(name: impl Into<String>, values: ArrayRef) -> Self {
        Self { name: name.into(), values }
    }

    /// Name of the column.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of values, which is that of the graphs.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// True when there is no graph.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The value of a graph as text; `None` if the value is missing, or if its type has no text
    /// form.
    pub fn text(&self, graph: usize) -> Option<String> {
        Scalar::at(&self.values, graph).map(|value| value.to_text())
    }

    /// Whether the type of the column has a text form: text, numbers and booleans do.
    pub(crate) fn has_text(&self) -> bool {
        Scalar::has_text(self.values.data_type())
    }

    /// Name of the type, for messages.
    pub(crate) fn kind(&self) -> String {
        self.values.data_type().to_string()
    }
}

impl PartialEq for Extra {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && *self.values == *other.values
    }
}
