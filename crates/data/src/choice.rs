//! Columns that the user chooses.

use std::collections::BTreeMap;

use gt_graph::{FeatureSchema, Schema, TargetKind, TargetSchema, Vocabulary};

use crate::error::{FileProblem, RequestProblem};

/// The kind of the targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Task {
    /// The file decides.
    #[default]
    Auto,
    /// Real numbers.
    Regression,
    /// Classes.
    Classification,
}

/// Columns that the user chooses, and their kinds. Empty fields leave the decision to the file.
///
/// ```
/// use graph_transformer_data::{ColumnChoice, FileRoles, Task, read_with};
/// use gt_graph::TargetKind;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("two.jsonl");
/// std::fs::write(
///     &path,
///     "{\"node_feat\": [[\"C\", 1]], \"edge_index\": [], \"gap\": 1, \"name\": \"a\"}\n\
///      {\"node_feat\": [[\"N\", 0]], \"edge_index\": [], \"gap\": 3, \"name\": \"b\"}\n",
/// )?;
/// let columns = ColumnChoice {
///     task: Task::Regression,
///     targets: vec!["gap".into()],
///     ignore: vec!["node_feat1".into()],
///     ..Default::default()
/// };
/// let data = read_with(&path, &FileRoles { columns, ..Default::default() })?;
/// let target = data.schema().target.as_ref().unwrap();
/// assert_eq!((target.kind, &*target.columns[0].name), (TargetKind::Float, "gap"));
/// assert_eq!(data.schema().node.categorical[0].names, ["C", "N"]);
/// assert_eq!(data.schema().node.ignored, ["node_feat1"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnChoice {
    /// The kind of the targets.
    pub task: Task,
    /// Target columns.
    pub targets: Vec<String>,
    /// The only feature columns to read.
    pub features: Vec<String>,
    /// Columns to leave out.
    pub ignore: Vec<String>,
    /// Columns that are categorical, whatever their values look like; targets are classes.
    pub categorical: Vec<String>,
    /// Columns that are real numbers even if all values are integers; so are targets.
    pub continuous: Vec<String>,
    /// Sizes of vocabularies, and numbers of classes, that are larger than the file needs.
    pub vocabulary: BTreeMap<String, usize>,
}

impl ColumnChoice {
    /// Checks that no column is named in two roles.
    ///
    /// # Errors
    /// The first column with two roles.
    pub fn check(&self) -> Result<(), RequestProblem> {
        let lists = [
            ("a target", &self.targets, "ignored", &self.ignore),
            ("a target", &self.targets, "a feature", &self.features),
            ("a feature", &self.features, "ignored", &self.ignore),
            ("categorical", &self.categorical, "continuous", &self.continuous),
            ("categorical", &self.categorical, "ignored", &self.ignore),
            ("continuous", &self.continuous, "ignored", &self.ignore),
        ];
        for (first, some, second, others) in lists {
            if let Some(column) = some.iter().find(|name| others.contains(name)) {
                return Err(RequestProblem::TwoRoles { column: column.clone(), first, second });
            }
        }
        let (kind, opposite, others) = match self.task {
            Task::Auto => return Ok(()),
            Task::Regression => ("a target of regression", "categorical", &self.categorical),
            Task::Classification => ("a target of classification", "continuous", &self.continuous),
        };
        match self.targets.iter().find(|name| others.contains(name)) {
            Some(column) => Err(RequestProblem::TwoRoles { column: column.clone(), first: kind, second: opposite }),
            None => Ok(()),
        }
    }

    /// All names, for a check that the file has the columns.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        let lists = [&self.targets, &self.features, &self.ignore, &self.categorical, &self.continuous];
        lists.into_iter().flatten().chain(self.vocabulary.keys())
    }

    /// Whether a feature column is read.
    pub(crate) fn reads_feature(&self, name: &str) -> bool {
        let among = |names: &[String]| names.iter().any(|known| known == name);
        !among(&self.ignore) && !among(&self.targets) && (self.features.is_empty() || among(&self.features))
    }

    /// The kind of a target column, if the user states it.
    pub(crate) fn target_kind(&self, name: &str) -> Option<TargetKind> {
        let among = |names: &[String]| names.iter().any(|known| known == name);
        match self.task {
            Task::Regression => Some(TargetKind::Float),
            Task::Classification => Some(TargetKind::Class),
            Task::Auto if among(&self.continuous) => Some(TargetKind::Float),
            Task::Auto if among(&self.categorical) => Some(TargetKind::Class),
            Task::Auto => None,
        }
    }

    /// The columns of a schema that the user chooses. The targets are left out if the schema does
    /// not have all of them.
    pub(crate) fn apply(&self, schema: &Schema) -> Result<Schema, FileProblem> {
        let target = schema.target.as_ref().map(|target| self.apply_to_targets(target)).transpose()?.flatten();
        Ok(Schema { node: self.apply_to_features(&schema.node), edge: self.apply_to_features(&schema.edge), target })
    }

    /// Divides the features of a schema into those that are read, in their kinds, and ignored ones.
    pub(crate) fn apply_to_features(&self, schema: &FeatureSchema) -> FeatureSchema {
        let mut chosen = FeatureSchema { ignored: schema.ignored.clone(), ..FeatureSchema::default() };
        let categories = schema.categorical.iter().map(|column| (&column.name, Some(column)));
        for (name, column) in categories.chain(schema.continuous.iter().map(|name| (name, None))) {
            if !self.reads_feature(name) {
                chosen.ignored.push(name.clone());
            } else if self.continuous.contains(name) || column.is_none() && !self.categorical.contains(name) {
                chosen.continuous.push(name.clone());
            } else {
                let unknown = || Vocabulary::new(name, 0);
                chosen.categorical.push(column.cloned().unwrap_or_else(unknown));
            }
        }
        let (read, ignored) = schema.multi_hot.iter().cloned().partition(|words| self.reads_feature(&words.name));
        let (read, ignored): (Vec<Vocabulary>, Vec<Vocabulary>) = (read, ignored);
        chosen.multi_hot = read.into_iter().next();
        chosen.ignored.extend(ignored.into_iter().map(|words| words.name));
        chosen
    }

    fn apply_to_targets(&self, schema: &TargetSchema) -> Result<Option<TargetSchema>, FileProblem> {
        let find = |name: &String| schema.columns.iter().find(|column| column.name == *name).cloned();
        let columns: Option<Vec<_>> = match self.targets.is_empty() {
            true => Some(schema.columns.iter().filter(|column| !self.ignore.contains(&column.name)).cloned().collect()),
            false => self.targets.iter().map(find).collect(),
        };
        let Some(mut columns) = columns.filter(|columns| !columns.is_empty()) else { return Ok(None) };
        let kinds: Vec<TargetKind> =
            columns.iter().map(|column| self.target_kind(&column.name).unwrap_or(schema.kind)).collect();
        let kind = if kinds.contains(&TargetKind::Float) { TargetKind::Float } else { TargetKind::Class };
        if kind != schema.kind {
            if let Some(named) = columns.iter().find(|column| !column.names.is_empty()) {
                return Err(FileProblem::TextTarget(named.name.clone()));
            }
            columns.iter_mut().for_each(|column| column.classes = 0);
        }
        Ok(Some(TargetSchema { level: schema.level, kind, columns }))
    }

    /// Enlarges vocabularies and class counts.
    pub(crate) fn enlarge(&self, schema: &mut Schema) -> Result<(), FileProblem> {
        for (name, &size) in &self.vocabulary {
            let features = [&mut schema.node, &mut schema.edge].into_iter();
            let features = features.flat_map(|level| level.categorical.iter_mut().chain(&mut level.multi_hot));
            let mut sizes: Vec<&mut usize> =
                features.filter(|column| column.name == *name).map(|column| &mut column.size).collect();
            if let Some(target) = schema.target.as_mut().filter(|target| target.kind == TargetKind::Class) {
                let columns = target.columns.iter_mut().filter(|column| column.name == *name);
                sizes.extend(columns.map(|column| &mut column.classes));
            }
            if sizes.is_empty() {
                return Err(FileProblem::NoVocabulary(name.clone()));
            }
            for known in sizes {
                if size < *known {
                    return Err(FileProblem::SmallVocabulary { column: name.clone(), size, least: *known });
                }
                *known = size;
            }
        }
        Ok(())
    }
}
