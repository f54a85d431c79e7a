//! Data sets of the runs: read or drawn, encoded, and prepared once for all runs that use them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use gt_data::{Dataset, SbmSet, SbmSizes, ZINC_12K, content_hash};
use gt_models::{Config, PublishedSet};
use gt_nn::backend::Device;
use gt_train::{EncodingCache, Prepared, Resident};

use crate::cell::Cell;
use crate::error::{ReproduceError, Result};
use crate::record::DataUsed;

/// Sources of the data sets.
pub struct DataSource {
    /// The file of ZINC-12k, if there is one.
    pub zinc: Option<PathBuf>,
    /// Folder that stores encodings between calls.
    pub encodings: PathBuf,
    /// Training graphs to draw of CLUSTER and PATTERN, if not the published number.
    pub train_graphs: Option<usize>,
    /// Whether other graphs than ZINC-12k may be used in its place.
    pub allow_other_data: bool,
}

/// Data sets that are in use, shared by the runs.
pub struct SharedData {
    source: DataSource,
    prepared: Mutex<HashMap<String, Weak<PreparedData>>>,
}

/// A data set, prepared for one configuration.
pub(crate) struct PreparedData {
    pub data: Prepared,
    pub used: DataUsed,
    resident: Mutex<Option<Resident>>,
}

impl PreparedData {
    /// The data in memory of the device of all runs. Other callers wait while the data is copied.
    pub fn place(&self, device: &Device) -> gt_train::Result<Resident> {
        let mut resident = self.resident.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(placed) = &*resident {
            return Ok(placed.clone());
        }
        Ok(resident.insert(self.data.place(device)?).clone())
    }
}

impl SharedData {
    /// No data set is read or drawn until a run needs it.
    pub fn new(source: DataSource) -> Self {
        Self { source, prepared: Mutex::default() }
    }

    /// The data of a cell for its configuration. Other callers wait while the data is prepared.
    pub(crate) fn prepare(&self, cell: &Cell, config: &Config) -> Result<Arc<PreparedData>> {
        let mut all = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        let key = cell.name();
        if let Some(found) = all.get(&key).and_then(Weak::upgrade) {
            return Ok(found);
        }
        let (dataset, origin) = self.load(cell)?;
        let content = content_hash(dataset.graphs());
        // Weight files contain this name, so it must not depend on where the file lies.
        let name = match cell.set() {
            PublishedSet::Zinc if content == ZINC_12K => "zinc12k".to_owned(),
            PublishedSet::Zinc => format!("zinc-{}", &content[..12]),
            PublishedSet::Cluster | PublishedSet::Pattern => origin.clone(),
        };
        let graphs = dataset.graphs().len();
        let used = DataUsed { name, seed: cell.data_seed(), graphs, content_sha256: content };
        if !self.source.allow_other_data && !is_published(cell.set(), &used) {
            return Err(ReproduceError::NotZinc { file: origin });
        }
        let cache = EncodingCache::new(&self.source.encodings);
        let data = Prepared::for_training(dataset, config, Some(&cache))
            .map_err(|cause| ReproduceError::Task { data: origin, cause: Box::new(cause) })?;
        let prepared = Arc::new(PreparedData { data, used, resident: Mutex::default() });
        all.insert(key, Arc::downgrade(&prepared));
        Ok(prepared)
    }

    /// The graphs of a cell, and the file or the draw that they come from.
    fn load(&self, cell: &Cell) -> Result<(Dataset, String)> {
        let (set, word) = match cell.set() {
            PublishedSet::Zinc => {
                let file = self.source.zinc.as_ref().ok_or(ReproduceError::NoZinc)?;
                return Ok((gt_data::read(file)?, file.display().to_string()));
            }
            PublishedSet::Cluster => (SbmSet::Cluster, "cluster"),
            PublishedSet::Pattern => (SbmSet::Pattern, "pattern"),
        };
        let seed = cell.data_seed().unwrap_or_default();
        Ok((set.generate(seed, scale_sizes(set, self.source.train_graphs))?, format!("{word}-{seed}")))
    }
}

/// Whether a run used the paper's data: ZINC-12k itself, or the published number of drawn graphs.
pub(crate) fn is_published(set: PublishedSet, used: &DataUsed) -> bool {
    match count_drawn_graphs(set, None) {
        None => used.content_sha256 == ZINC_12K,
        Some(graphs) => used.graphs == graphs,
    }
}

/// Graphs that are drawn of a set, given its training graphs or the published number; none of ZINC.
pub(crate) fn count_drawn_graphs(set: PublishedSet, train: Option<usize>) -> Option<usize> {
    let SbmSizes { train, val, test } = match set {
        PublishedSet::Zinc => return None,
        PublishedSet::Cluster => scale_sizes(SbmSet::Cluster, train),
        PublishedSet::Pattern => scale_sizes(SbmSet::Pattern, train),
    };
    Some(train + val + test)
}

/// The published sizes, or all of them in proportion to a number of training graphs.
fn scale_sizes(set: SbmSet, train: Option<usize>) -> SbmSizes {
    let all = set.published_sizes();
    let part = |count: usize, train: usize| (count * train / all.train).max(2);
    train.map_or(all, |train| SbmSizes { train, val: part(all.val, train), test: part(all.test, train) })
}
