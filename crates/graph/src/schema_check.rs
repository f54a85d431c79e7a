//! Whether a schema that comes from a file describes columns that can exist.

use std::collections::HashSet;

use crate::layout::{Level, TargetKind};
use crate::schema::{FeatureSchema, Schema, TargetColumn, TargetSchema, Vocabulary};

/// A contradiction in a schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaProblem {
    /// Two columns of a level have the same name.
    #[error("two {level} columns have the name {name:?}")]
    ColumnTwice {
        /// Level of the columns.
        level: Level,
        /// The name.
        name: String,
    },
    /// A vocabulary has no value, or more values than an index can name.
    #[error("{level} column {name:?}: a vocabulary of {size} values; 1 to {} are possible", u32::MAX)]
    Size {
        /// Level of the column.
        level: Level,
        /// Name of the column.
        name: String,
        /// Values of the vocabulary.
        size: usize,
    },
    /// A vocabulary has more names than values.
    #[error("column {name:?}: {names} names for {size} values")]
    Names {
        /// Name of the column.
        name: String,
        /// Number of names.
        names: usize,
        /// Values that can have a name.
        size: usize,
    },
    /// Two values of a column have the same name.
    #[error("column {name:?}: two values have the name {value:?}")]
    NameTwice {
        /// Name of the column.
        name: String,
        /// The name of the values.
        value: String,
    },
    /// There are targets, but no column.
    #[error("the targets have no column")]
    NoTarget,
    /// A column of real numbers has classes.
    #[error("target {name:?}: {classes} classes, but its values are real numbers")]
    RealClasses {
        /// Name of the column.
        name: String,
        /// Number of classes or of their names.
        classes: usize,
    },
}

impl Schema {
    /// Checks a schema whose vocabularies and classes are complete, such as that of a model file.
    ///
    /// ```
    /// use graph_transformer_graph::{Schema, SchemaProblem, TargetKind, TargetSchema, Level};
    ///
    /// let target = TargetSchema::new(Level::Graph, TargetKind::Float, &[0]);
    /// let mut schema = Schema::categorical(&[28, 3], &[4], target);
    /// assert_eq!(schema.check(), Ok(()));
    /// schema.node.categorical[1].name = "node_feat0".into();
    /// let problem = SchemaProblem::ColumnTwice { level: Level::Node, name: "node_feat0".into() };
    /// assert_eq!(schema.check(), Err(problem));
    /// ```
    ///
    /// # Errors
    /// The first contradiction: names that occur twice, vocabularies of size 0, more names than
    /// values, targets without columns, or classes of real numbers.
    pub fn check(&self) -> Result<(), SchemaProblem> {
        self.node.check(Level::Node)?;
        self.edge.check(Level::Edge)?;
        self.target.as_ref().map_or(Ok(()), TargetSchema::check)
    }
}

impl FeatureSchema {
    fn check(&self, level: Level) -> Result<(), SchemaProblem> {
        if let Some(name) = find_twice(self.names()) {
            return Err(SchemaProblem::ColumnTwice { level, name: name.into() });
        }
        for Vocabulary { name, size, names, other } in self.categorical.iter().chain(&self.multi_hot) {
            check_size(level, name, *size)?;
            check_names(name, names, size - usize::from(*other))?;
        }
        Ok(())
    }
}

impl TargetSchema {
    fn check(&self) -> Result<(), SchemaProblem> {
        if self.columns.is_empty() {
            return Err(SchemaProblem::NoTarget);
        }
        if let Some(name) = find_twice(self.columns.iter().map(|column| column.name.as_str())) {
            return Err(SchemaProblem::ColumnTwice { level: self.level, name: name.into() });
        }
        for TargetColumn { name, classes, names } in &self.columns {
            match self.kind {
                TargetKind::Float if *classes > 0 || !names.is_empty() => {
                    let classes = (*classes).max(names.len());
                    return Err(SchemaProblem::RealClasses { name: name.clone(), classes });
                }
                TargetKind::Float => {}
                TargetKind::Class => {
                    check_size(self.level, name, *classes)?;
                    check_names(name, names, *classes)?;
                }
            }
        }
        Ok(())
    }
}

fn check_size(level: Level, name: &str, size: usize) -> Result<(), SchemaProblem> {
    match (1..=u32::MAX as usize).contains(&size) {
        true => Ok(()),
        false => Err(SchemaProblem::Size { level, name: name.into(), size }),
    }
}

fn check_names(name: &str, names: &[String], size: usize) -> Result<(), SchemaProblem> {
    if names.len() > size {
        return Err(SchemaProblem::Names { name: name.into(), names: names.len(), size });
    }
    match find_twice(names.iter().map(String::as_str)) {
        Some(value) => Err(SchemaProblem::NameTwice { name: name.into(), value: value.into() }),
        None => Ok(()),
    }
}

fn find_twice<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = HashSet::new();
    names.find(|name| !seen.insert(*name))
}
