//! Checks that a training fits into the memory of this machine; otherwise the system would end the
//! program silently.

use gt_nn::AttentionScope;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

use gt_data::Info;
use gt_graph::{FullView, Split};
use gt_nn::Network;
use gt_nn::cpu::least_training_bytes;

use crate::prepared::Prepared;

/// Why a training cannot fit into this machine.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "training takes at least {} of memory ({parameters} parameters, {nodes} nodes and {edges} edges in the largest graph), \
     there are {}{}",
    gigabytes(*needed),
    gigabytes(*available),
    ids.map_or(String::new(), |most| format!(
        "; there are {most} categories or classes; if they are numbers, name their column with --continuous"
    ))
)]
pub struct TooLarge {
    /// Bytes that the training needs at least.
    pub needed: f64,
    /// Bytes of memory.
    pub available: f64,
    /// Parameters of the network.
    pub parameters: usize,
    /// Nodes of the largest graph.
    pub nodes: usize,
    /// Edges of the largest graph.
    pub edges: usize,
    /// The largest number of categories or classes, if so large that ids were probably taken for
    /// categories.
    pub ids: Option<usize>,
}

/// Checks that training a network on a graph of this size fits into memory: the machine's, or the
/// limit of a container or a batch system.
///
/// ```
/// use graph_transformer_train::{ensure_memory, gigabytes, memory};
/// use gt_nn::{Channels, Network};
///
/// let network = Network::new(Channels::new(64, 8), 2);
/// ensure_memory(&network, 1_000, 10_000)?;
/// if memory().is_some() {
///     // A fully connected graph of ten million nodes fits nowhere.
///     let error = ensure_memory(&network, 10_000_000, 100_000_000_000_000).unwrap_err();
///     assert!(error.needed > error.available);
/// }
/// assert_eq!((gigabytes(2.5e9), gigabytes(24e9)), ("2.5 GB".to_owned(), "24 GB".to_owned()));
/// # Ok::<(), graph_transformer_train::TooLarge>(())
/// ```
///
/// # Errors
/// If the memory does not suffice, with both sizes. Machines that do not report their memory pass.
pub fn ensure_memory(network: &Network, nodes: usize, edges: usize) -> Result<(), TooLarge> {
    let needed = least_training_bytes(network, nodes, edges);
    match memory() {
        Some(memory) if needed > memory => Err(too_large(network, (nodes, edges), needed, memory)),
        _ => Ok(()),
    }
}

impl Prepared {
    /// Checks the largest graph of the training; on a GPU, which reports its own memory, the
    /// parameters alone.
    ///
    /// # Errors
    /// If the memory does not suffice, with both sizes.
    pub fn ensure_memory(&self, on_gpu: bool) -> Result<(), TooLarge> {
        let size = |graph: usize| {
            let graph = self.graphs.graph(graph);
            let nodes = graph.num_nodes();
            match self.scope {
                AttentionScope::Sparse => (nodes, graph.num_edges()),
                AttentionScope::Full => (nodes, FullView::count(nodes)),
            }
        };
        let largest = self.graphs_of(Split::Train).into_iter().map(size).max_by_key(|(_, edges)| *edges);
        let (nodes, edges) = largest.filter(|_| !on_gpu).unwrap_or_default();
        ensure_memory(&self.network, nodes, edges)
    }
}

fn too_large(network: &Network, (nodes, edges): (usize, usize), needed: f64, available: f64) -> TooLarge {
    let inputs = [&network.node, &network.edge].into_iter();
    let values = inputs.flat_map(|input| input.categorical.iter().chain(&input.multi_hot)).chain(&network.head);
    let ids = values.copied().max().filter(|&most| most > Info::MOST_COUNTED);
    TooLarge { needed, available, parameters: gt_nn::Parameters::new(network).count(), nodes, edges, ids }
}

/// A number of bytes in gigabytes, for messages.
pub fn gigabytes(bytes: f64) -> String {
    let digits = if bytes < 10e9 { 1 } else { 0 };
    format!("{:.digits$} GB", bytes / 1e9)
}

/// Bytes that this process may use, as Linux reports them: the machine's memory, or the limit of a
/// container or a batch system.
pub fn memory() -> Option<f64> {
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = limit_files(&groups).into_iter().filter_map(|file| read_to_string(file).ok());
    least(&read_to_string("/proc/meminfo").ok()?, limits)
}

/// The machine's memory, or the lowest limit below it; a limit that is no number is none.
fn least(machine: &str, limits: impl Iterator<Item = String>) -> Option<f64> {
    let line = machine.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let all = line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? * 1024.0;
    Some(limits.filter_map(|text| text.trim().parse().ok()).fold(all, f64::min))
}

/// Files with the limits of control groups and of all groups around them. A group is a line
/// `NUMBER:CONTROLLERS:PATH`, in version 2 without controllers.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let files = |line: &str| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            list if list.split(',').any(|name| name == "memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => return None,
        };
        // A container may see its own group as the root, but get the path outside.
        let around = Path::new(path.trim_start_matches('/')).ancestors();
        Some(around.map(|group| Path::new(root).join(group).join(file)).collect::<Vec<_>>())
    };
    groups.lines().filter_map(files).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gt_nn::{Channels, Input};

    #[test]
    fn what_cannot_fit_is_refused_with_its_sizes_and_a_hint_about_ids() {
        let network = Network::new(Channels::new(64, 8), 2);
        assert!(ensure_memory(&network, 1_000, 10_000).is_ok());
        // A full graph of ten million nodes fits nowhere.
        let told = |network: &Network, edges: usize| too_large(network, (7, edges), 3e12, 24e9).to_string();
        assert!(cfg!(not(target_os = "linux")) || ensure_memory(&network, 10_000_000, 100_000_000_000_000).is_err());
        let text = told(&network, 9);
        assert!(
            text.contains("at least 3000 GB") && text.contains("9 edges") && text.ends_with("there are 24 GB"),
            "{text}"
        );
        let ids = Network { node: Input { categorical: vec![4_000_000_000], ..Default::default() }, ..network };
        assert!(told(&ids, 9).contains("4000000000 categories or classes"));
    }

    #[test]
    fn a_limit_below_the_machines_memory_counts_and_one_above_does_not() {
        let machine = "MemTotal:       16000000 kB\nMemFree:        1000000 kB\n";
        let of = |limits: &[&str]| least(machine, limits.iter().map(|limit| (*limit).to_owned()));
        assert_eq!(of(&[]), Some(16_384_000_000.0));
        assert_eq!(of(&["max\n"]), Some(16_384_000_000.0));
        // The number that version 1 reports where there is no limit.
        assert_eq!(of(&["9223372036854771712\n"]), Some(16_384_000_000.0));
        assert_eq!(of(&["max\n", "2147483648\n", "8589934592\n"]), Some(2_147_483_648.0));
        assert_eq!(least("MemFree: 1 kB\n", ["1\n".to_owned()].into_iter()), None);
    }

    #[test]
    fn limits_are_looked_for_in_the_own_group_and_all_around_it() {
        let files = |groups| limit_files(groups).iter().map(|file| file.display().to_string()).collect::<Vec<_>>();
        assert_eq!(files("0::/\n"), ["/sys/fs/cgroup/memory.max"]);
        let job = ["/sys/fs/cgroup/job/step/memory.max", "/sys/fs/cgroup/job/memory.max", "/sys/fs/cgroup/memory.max"];
        assert_eq!(files("0::/job/step\n"), job);
        let first = "5:cpu,cpuacct:/job\n4:hugetlb,memory:/job\n1:name=systemd:/job\n";
        let limits =
            ["job/memory.limit_in_bytes", "memory.limit_in_bytes"].map(|f| format!("/sys/fs/cgroup/memory/{f}"));
        assert_eq!(files(first), limits);
        assert_eq!(files("nonsense\n"), [""; 0]);
    }
}
