//! Checks that a training fits into memory; otherwise the system would end the program silently.

use std::cmp::Reverse;
use std::fmt;

use gt_data::Info;
use gt_graph::Split;
use gt_models::Config;
use gt_nn::cpu::{BatchSize, GraphSize, PassMemory, parameter_bytes};
use gt_nn::{FreeMemory, LimitedBy, Network, Parameters, gigabytes};

use crate::pass::training_order;
use crate::prepared::Prepared;

/// Why a training does not fit into memory.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "training takes about {} of memory{} ({parameters} parameters; {nodes} nodes and {edges} edges in the largest batch), \
     and {} of {} ({by}) are free; {remedy}",
    gigabytes(*needed),
    batch.map_or(String::new(), |batch| format!(" with train.batch = {batch}")),
    gigabytes(*free),
    gigabytes(*limit)
)]
pub struct TooLarge {
    /// Bytes that the training needs.
    pub needed: f64,
    /// Bytes of memory that are free.
    pub free: f64,
    /// Bytes that the limit allows, free or not.
    pub limit: f64,
    /// What limits the memory.
    pub by: LimitedBy,
    /// Graphs of a batch; `None` where there are no batches yet.
    pub batch: Option<usize>,
    /// Parameters of the network.
    pub parameters: usize,
    /// Nodes of the largest batch.
    pub nodes: usize,
    /// Edges of the largest batch that the network follows.
    pub edges: usize,
    /// What makes the training smaller.
    pub remedy: MemoryRemedy,
}

/// What makes a training smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryRemedy {
    /// Batches of this many graphs.
    Batch(usize),
    /// Fewer categories or classes: so many that they are probably ids.
    FewerCategories(usize),
    /// A network of fewer layers or channels.
    SmallerNetwork,
}

impl fmt::Display for MemoryRemedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Batch(batch) => write!(f, "pass --set train.batch={batch}"),
            Self::FewerCategories(count) => write!(
                f,
                "there are {count} categories or classes; if they are numbers, name their column with --continuous"
            ),
            Self::SmallerNetwork => f.write_str("lower model.layers or model.width, or leave out the largest graphs"),
        }
    }
}

/// Checks that training a network on a batch fits into memory.
///
/// ```
/// use graph_transformer_train::ensure_memory;
/// use gt_nn::cpu::{BatchSize, GraphSize};
/// use gt_nn::{Channels, FreeMemory, Network};
///
/// let network = Network::new(Channels::new(64, 8), 2);
/// let batch = |nodes, edges| {
///     BatchSize::from_iter([GraphSize { nodes, edges, followed: edges, ..Default::default() }])
/// };
/// ensure_memory(&network, &batch(1_000, 10_000))?;
/// if FreeMemory::now().is_some() {
///     // A graph with a hundred thousand billion edges fits nowhere.
///     let error = ensure_memory(&network, &batch(10_000_000, 100_000_000_000_000)).unwrap_err();
///     assert!(error.needed > error.free);
/// }
/// # Ok::<(), graph_transformer_train::TooLarge>(())
/// ```
///
/// # Errors
/// If the free memory does not suffice, with both sizes. Machines that do not report their memory
/// pass.
pub fn ensure_memory(network: &Network, batch: &BatchSize) -> Result<(), TooLarge> {
    let needed = OVERHEAD + parameter_bytes(network, true) + PassMemory::new(network, true).bytes(batch);
    match FreeMemory::now() {
        Some(free) if needed > free.bytes => Err(too_large(network, free, None, batch, needed, None)),
        _ => Ok(()),
    }
}

impl Prepared {
    /// Checks that `runs` trainings at a time fit into the memory of the computer: the parameters
    /// and the largest batch of each.
    ///
    /// # Errors
    /// If the free memory does not suffice, with the number of graphs per batch that fits.
    pub fn ensure_memory(&self, config: &Config, runs: usize) -> Result<(), TooLarge> {
        match FreeMemory::now() {
            Some(free) => self.ensure_fits(config, runs, free),
            None => Ok(()),
        }
    }

    /// Checks that the parameters of a training on a GPU fit into the memory of the computer. The
    /// GPU reports its own memory.
    ///
    /// # Errors
    /// If the free memory does not suffice.
    pub fn ensure_memory_on_gpu(&self) -> Result<(), TooLarge> {
        ensure_memory(&self.network, &BatchSize::default())
    }

    fn ensure_fits(&self, config: &Config, runs: usize, free: FreeMemory) -> Result<(), TooLarge> {
        let (network, batch) = (&self.network, config.train.batch.max(1));
        let memory = PassMemory::new(network, true);
        let largest = [Split::Train, Split::Val].map(|split| self.largest_first(split));
        // No order of the graphs has a larger batch than the largest graphs together.
        let bound = |split: Split, batch: usize| largest[split as usize].iter().take(batch).copied().collect();
        // Validation uses only a part of the buffers of training.
        let base = |batch: usize| self.fixed_bytes() + PassMemory::new(network, false).bytes(&bound(Split::Val, batch));
        let needed = |base: f64, size: &BatchSize| runs as f64 * (base + memory.bytes(size));
        let bytes_of = |batch: usize| needed(base(batch), &bound(Split::Train, batch));
        if bytes_of(batch) <= free.bytes {
            return Ok(());
        }
        let own = base(batch);
        // The seed decides which graphs are in a batch. Whoever trains waits longer than this loop.
        let epochs = 1..=config.train.epochs.min(MOST_EPOCHS);
        let drawn = epochs.into_iter().find_map(|epoch| {
            let order = training_order(self, config, epoch);
            let size = |number| order.batch(number).iter().map(|&graph| self.size_in(Split::Train, graph)).collect();
            (0..order.batches()).map(size).find(|size| needed(own, size) > free.bytes)
        });
        let Some(size) = drawn else { return Ok(()) };
        let fitting = largest_fitting(batch, |batch| bytes_of(batch) <= margin(free.by) * free.bytes);
        Err(too_large(network, free, Some(batch), &size, needed(own, &size), fitting))
    }

    /// Sizes of the graphs of a split, the largest first.
    fn largest_first(&self, split: Split) -> Vec<GraphSize> {
        let memory = PassMemory::new(&self.network, split == Split::Train);
        let size = |graph| self.size_in(split, graph);
        let mut sizes: Vec<GraphSize> = self.graphs_of(split).into_iter().map(size).collect();
        sizes.sort_by_cached_key(|&size| Reverse(memory.bytes(&BatchSize::from_iter([size])) as u64));
        sizes
    }

    /// Bytes of a training that do not depend on its batches.
    fn fixed_bytes(&self) -> f64 {
        OVERHEAD + parameter_bytes(&self.network, true) + self.pass_bytes()
    }

    /// Bytes of the outputs and labels of a whole pass, and of copies while they are scored.
    fn pass_bytes(&self) -> f64 {
        let rows = [Split::Train, Split::Val].map(|split| self.rows_in(split)).into_iter().max().unwrap_or(0);
        (rows * (self.outputs() + self.target().columns.len()) * 2 * size_of::<f32>()) as f64
    }
}

/// The largest number of graphs below `batch` that fits, if one does.
fn largest_fitting(batch: usize, fits: impl Fn(usize) -> bool) -> Option<usize> {
    let (mut fitting, mut beyond) = (0, batch);
    while beyond - fitting > 1 {
        let middle = fitting.midpoint(beyond);
        if fits(middle) { fitting = middle } else { beyond = middle }
    }
    (fitting > 0).then_some(fitting)
}

/// Bytes of the report, of records and of threads, and bytes that the allocator does not give back.
const OVERHEAD: f64 = 32e6;
/// Epochs whose batches are looked at, if the largest graphs together do not fit.
const MOST_EPOCHS: usize = 1_000;
/// Share of the free memory that a recommended batch takes at most. The free address space of the
/// next run may differ by what the allocator reserves for threads.
fn margin(by: LimitedBy) -> f64 {
    match by {
        LimitedBy::Machine | LimitedBy::ControlGroup => 0.95,
        LimitedBy::AddressSpace => 0.75,
    }
}

fn too_large(
    network: &Network,
    free: FreeMemory,
    batch: Option<usize>,
    size: &BatchSize,
    needed: f64,
    fitting: Option<usize>,
) -> TooLarge {
    let inputs = [&network.node, &network.edge].into_iter();
    let values = inputs.flat_map(|input| input.categorical.iter().chain(&input.multi_hot)).chain(&network.head);
    let ids = values.copied().max().filter(|&most| most > Info::MOST_COUNTED);
    let remedy = match (fitting, ids) {
        (Some(batch), _) => MemoryRemedy::Batch(batch),
        (None, Some(count)) => MemoryRemedy::FewerCategories(count),
        (None, None) => MemoryRemedy::SmallerNetwork,
    };
    let FreeMemory { bytes: free, limit, by } = free;
    let (nodes, edges) = (size.total.nodes, size.total.followed);
    TooLarge { needed, free, limit, by, batch, parameters: Parameters::new(network).count(), nodes, edges, remedy }
}

#[cfg(test)]
mod tests {
    use gt_data::{SbmSet, SbmSizes};
    use gt_nn::{Channels, Input};

    use super::*;

    fn free(bytes: f64) -> FreeMemory {
        FreeMemory { bytes, limit: 24e9, by: LimitedBy::ControlGroup }
    }

    #[test]
    fn a_batch_that_fits_is_recommended_and_fits() {
        let text = "[model]\nlayers = 4\nwidth = 64\nheads = 8\n[train]\nbatch = 16";
        let mut config = Config::from_toml(text).unwrap();
        let data = SbmSet::Cluster.generate(41, SbmSizes { train: 40, val: 2, test: 2 }).unwrap();
        let data = Prepared::for_training(data, &config, None).unwrap();
        let needed = data.ensure_fits(&config, 1, free(0.0)).unwrap_err().needed;
        let half = free(data.fixed_bytes() + 0.5 * (needed - data.fixed_bytes()));
        assert_eq!(data.ensure_fits(&config, 1, free(1.5 * needed)), Ok(()));
        assert!(data.ensure_fits(&config, 2, free(1.5 * needed)).is_err(), "two trainings take twice the memory");
        let error = data.ensure_fits(&config, 1, half).unwrap_err();
        let MemoryRemedy::Batch(batch) = error.remedy else { panic!("{error}") };
        assert!((1..16).contains(&batch), "{error}");
        let text = error.to_string();
        for fact in ["train.batch = 16", &format!("--set train.batch={batch}"), "of 24 GB (the control group)"] {
            assert!(text.contains(fact), "{fact}: {text}");
        }
        config.train.batch = batch;
        assert_eq!(data.ensure_fits(&config, 1, half), Ok(()));
        // No batch is small enough for the parameters.
        let error = data.ensure_fits(&config, 1, free(1e4)).unwrap_err();
        assert_eq!(error.remedy, MemoryRemedy::SmallerNetwork);
    }

    #[test]
    fn the_batches_of_the_seed_decide_where_the_largest_graphs_together_would_not_fit() {
        let config =
            Config::from_toml("[model]\nlayers = 2\nwidth = 16\nheads = 2\n[train]\nbatch = 2\nepochs = 1").unwrap();
        let data = SbmSet::Cluster.generate(41, SbmSizes { train: 40, val: 2, test: 2 }).unwrap();
        let data = Prepared::for_training(data, &config, None).unwrap();
        let memory = PassMemory::new(&data.network, true);
        let bytes =
            |graphs: &[usize]| memory.bytes(&graphs.iter().map(|&graph| data.size_in(Split::Train, graph)).collect());
        let order = training_order(&data, &config, 1);
        let drawn = (0..order.batches()).map(|number| bytes(order.batch(number))).fold(0.0, f64::max);
        let validation = data.largest_first(Split::Val).into_iter().take(2).collect();
        let fixed = data.fixed_bytes() + PassMemory::new(&data.network, false).bytes(&validation);
        let mut sizes: Vec<(f64, usize)> = data.graphs_of(Split::Train).into_iter().map(|g| (bytes(&[g]), g)).collect();
        sizes.sort_by(|a, b| b.0.total_cmp(&a.0));
        let worst = bytes(&[sizes[0].1, sizes[1].1]);
        assert!(drawn < worst, "the seed must not draw the two largest graphs together");
        assert_eq!(data.ensure_fits(&config, 1, free(fixed + 1.0001 * drawn)), Ok(()));
        assert!(data.ensure_fits(&config, 1, free(fixed + 0.9999 * drawn)).is_err());
    }

    #[test]
    fn ids_taken_for_categories_are_named() {
        let network = Network::new(Channels::new(64, 8), 2);
        let ids = Network { node: Input { categorical: vec![4_000_000_000], ..Default::default() }, ..network };
        let error = too_large(&ids, free(1e9), None, &BatchSize::default(), 3e12, None);
        let text = error.to_string();
        assert!(text.contains("3000 GB") && text.contains("4000000000 categories or classes"), "{text}");
    }
}
