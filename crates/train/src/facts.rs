//! The properties of a data set that decide the defaults of a training.

use gt_data::{Dataset, usual_level};
use gt_graph::{Level, Split, TargetSchema};
use gt_models::Config;
use gt_models::config::TaskName;
use gt_models::defaults::DataFacts;

/// Measures a data set for the rules of [`gt_models::defaults`].
///
/// ```
/// use graph_transformer_train::data_facts;
/// use gt_data::{SbmSet, SbmSizes};
/// use gt_models::Config;
/// use gt_models::defaults::Task;
///
/// let data = SbmSet::Cluster.generate(41, SbmSizes { train: 2, val: 1, test: 1 })?;
/// let facts = data_facts(&data, &Config::default());
/// assert_eq!((facts.graphs, facts.task), (2, Task::Classes));
/// let training = data.graphs().node_range(0).len() + data.graphs().node_range(1).len();
/// assert_eq!(facts.rows, training);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn data_facts(dataset: &Dataset, config: &Config) -> DataFacts {
    let (graphs, schema) = (dataset.graphs(), dataset.schema());
    let target = schema.target.as_ref().filter(|_| config.data.task != TaskName::Links);
    let level = target.map_or(Level::Edge, |target| target.level);
    let share = |count: usize| (count as f64 * config.data.split[0]).round() as usize;
    let all = 0..graphs.rows(level);
    // Where a split is drawn or folds are dealt, all rows stand for those of the training part.
    let split = dataset.split().filter(|split| split.names.iter().any(|name| name == Split::Train.name()));
    let (training, mut classes) = match split {
        Some(split) if split.level == Level::Graph => {
            let own = split.rows(Split::Train.name());
            let rows = own.iter().flat_map(|&graph| graphs.row_range(level, graph));
            (own.len(), count_labels(dataset, target, rows))
        }
        // Without targets, as for links, the rows of the split are only counted.
        Some(split) if split.level == level || target.is_none() => {
            (graphs.len(), count_labels(dataset, target, split.rows(Split::Train.name()).into_iter()))
        }
        // Training reports that the split and the targets are on different levels.
        Some(_) => (graphs.len(), count_labels(dataset, target, all)),
        None if usual_level(dataset) == Level::Graph => (share(graphs.len()), count_labels(dataset, target, all)),
        None => (graphs.len(), count_labels(dataset, target, all)),
    };
    if split.is_none() {
        classes.iter_mut().for_each(|count| *count = share(*count));
    }
    DataFacts::new(config, schema, graphs, training, &classes)
}

/// Labelled rows of each class, if there is one column of classes; else of all rows together.
fn count_labels(dataset: &Dataset, target: Option<&TargetSchema>, rows: impl Iterator<Item = usize>) -> Vec<usize> {
    let Some((target, values)) = target.zip(dataset.graphs().target()) else { return vec![rows.count()] };
    let columns = target.columns.len();
    match (&*target.columns, values.classes()) {
        ([column], Some(classes)) => {
            let mut counts = vec![0; column.classes];
            for row in rows {
                if let Some(count) = counts.get_mut(classes[row] as usize) {
                    *count += 1;
                }
            }
            counts
        }
        _ => {
            let labelled = |row: &usize| (row * columns..(row + 1) * columns).any(|at| values.get(at).is_some());
            vec![rows.filter(labelled).count()]
        }
    }
}
