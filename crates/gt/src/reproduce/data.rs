//! The data of the runs: read or drawn, with encodings, once for all runs that use it at the same time.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use anyhow::{Result, anyhow, bail, ensure};
use gt_data::{Dataset, SbmSet, SbmSizes, ZINC_12K, content_hash};
use gt_models::{Config, PublishedSet};
use gt_nn::cuda::CudaDevice;
use gt_train::{CardData, Task};

use super::cell::Cell;
use super::record::DataUsed;
use crate::cache::fetched_zinc;

/// Where data comes from, and what of it is in use.
pub struct Data {
    zinc: Option<PathBuf>,
    /// Encodings are kept here from one call to the next.
    folder: PathBuf,
    /// Training graphs to draw, if not the published number.
    graphs: Option<usize>,
    /// Whether records of other data may be made.
    any: bool,
    ready: Mutex<HashMap<String, Weak<Ready>>>,
}

/// A data set, made ready for one configuration.
pub struct Ready {
    pub task: Task,
    pub used: DataUsed,
    on_card: Mutex<Option<Arc<CardData>>>,
}

impl Ready {
    /// The data on the card of all runs. Whoever asks while it is being put there waits.
    pub fn on_card(&self, device: &CudaDevice) -> gt_train::Result<Arc<CardData>> {
        let mut on_card = self.on_card.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(data) = &*on_card {
            return Ok(Arc::clone(data));
        }
        Ok(Arc::clone(on_card.insert(CardData::new(device, &self.task)?)))
    }
}

impl Data {
    pub fn new(zinc: Option<PathBuf>, folder: PathBuf, graphs: Option<usize>, any: bool) -> Self {
        Self { zinc, folder, graphs, any, ready: Mutex::default() }
    }

    /// The data of a cell for its configuration. Whoever asks while it is being made ready waits.
    pub fn ready(&self, cell: &Cell, config: &Config) -> Result<Arc<Ready>> {
        let mut all = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let key = cell.name();
        if let Some(found) = all.get(&key).and_then(Weak::upgrade) {
            return Ok(found);
        }
        let (dataset, source) = self.dataset(cell)?;
        let content = content_hash(dataset.graphs());
        // The same on every machine: weights carry it, and their hash should not tell where a file lies.
        let name = match cell.set() {
            PublishedSet::Zinc if content == ZINC_12K => "zinc12k".to_owned(),
            PublishedSet::Zinc => format!("zinc-{}", &content[..12]),
            PublishedSet::Cluster | PublishedSet::Pattern => source.clone(),
        };
        let graphs = dataset.graphs().len();
        let used = DataUsed { name, seed: cell.data_seed(), graphs, content_sha256: content };
        ensure!(
            self.any || is_published(cell.set(), &used),
            "{source}: it is not ZINC-12k; records of other data need a folder of their own, named by --results"
        );
        let cache = self.folder.join(&used.name);
        let task = Task::new(&dataset, config, Some(&cache)).map_err(|e| anyhow!("{source}: {e}"))?;
        let ready = Arc::new(Ready { task, used, on_card: Mutex::default() });
        all.insert(key, Arc::downgrade(&ready));
        Ok(ready)
    }

    /// The graphs, and what they are called.
    fn dataset(&self, cell: &Cell) -> Result<(Dataset, String)> {
        let (set, word) = match cell.set() {
            PublishedSet::Zinc => {
                let file = self.zinc()?;
                return Ok((gt_data::read(&file)?, file.display().to_string()));
            }
            PublishedSet::Cluster => (SbmSet::Cluster, "cluster"),
            PublishedSet::Pattern => (SbmSet::Pattern, "pattern"),
        };
        let seed = cell.data_seed().unwrap_or_default();
        Ok((set.generate(seed, sizes(set, self.graphs))?, format!("{word}-{seed}")))
    }

    fn zinc(&self) -> Result<PathBuf> {
        let usual = [self.folder.join("zinc12k.parquet"), "zinc12k.parquet".into()];
        match &self.zinc {
            Some(file) => Ok(file.clone()),
            None => match usual.into_iter().find(|file| file.exists()).or_else(fetched_zinc) {
                Some(file) => Ok(file),
                None => bail!("ZINC is needed: `gt data fetch zinc` gets it, or --zinc FILE says where it is"),
            },
        }
    }
}

/// Whether a run used what the paper did: ZINC-12k itself, or as many graphs of the others.
pub fn is_published(set: PublishedSet, used: &DataUsed) -> bool {
    match drawn(set, None) {
        None => used.content_sha256 == ZINC_12K,
        Some(graphs) => used.graphs == graphs,
    }
}

/// How many graphs are drawn of a set, with so many to train on or the published number; none of ZINC.
pub fn drawn(set: PublishedSet, train: Option<usize>) -> Option<usize> {
    let SbmSizes { train, val, test } = match set {
        PublishedSet::Zinc => return None,
        PublishedSet::Cluster => sizes(SbmSet::Cluster, train),
        PublishedSet::Pattern => sizes(SbmSet::Pattern, train),
    };
    Some(train + val + test)
}

/// The published numbers of graphs, or as many parts of them.
fn sizes(set: SbmSet, train: Option<usize>) -> SbmSizes {
    let all = set.published_sizes();
    let part = |count: usize, train: usize| (count * train / all.train).max(2);
    train.map_or(all, |train| SbmSizes { train, val: part(all.val, train), test: part(all.test, train) })
}
