//! Whether a training can fit into this machine: where it cannot, the system would end the program without a word.

use gt_data::Info;
use gt_graph::FullView;
use gt_nn::Network;
use gt_nn::cpu::{Edges, least_training_bytes};

use crate::error::{Result, TrainError};
use crate::task::{Part, Task};

/// Refuses to train a network on a graph of a size that needs more memory than the machine has.
///
/// # Errors
/// With what is needed and what there is. Machines that do not tell their memory refuse nothing.
pub fn ensure_memory(network: &Network, nodes: usize, edges: usize) -> Result<()> {
    let needed = least_training_bytes(network, nodes, edges);
    match machine_memory() {
        Some(memory) if needed > memory => Err(too_large(network, (nodes, edges), needed, memory)),
        _ => Ok(()),
    }
}

impl Task {
    /// The same for the largest graph that is trained on; on a card, which knows its own memory, for the parameters alone.
    ///
    /// # Errors
    /// As there.
    pub fn ensure_memory(&self, on_card: bool) -> Result<()> {
        let size = |graph: usize| {
            let graph = self.graphs.graph(graph);
            let nodes = graph.num_nodes();
            match self.edges {
                Edges::Sparse => (nodes, graph.num_edges()),
                Edges::Full => (nodes, FullView::count(nodes)),
            }
        };
        let largest = self.graphs_of(Part::Train).into_iter().map(size).max_by_key(|(_, edges)| *edges);
        let (nodes, edges) = largest.filter(|_| !on_card).unwrap_or_default();
        ensure_memory(&self.network, nodes, edges)
    }
}

fn too_large(network: &Network, (nodes, edges): (usize, usize), needed: f64, memory: f64) -> TrainError {
    let (needed, memory) = (needed / 1e9, memory / 1e9);
    let inputs = [&network.node, &network.edge].into_iter();
    let values = inputs.flat_map(|input| input.categorical.iter().chain(&input.multi_hot)).chain(&network.head);
    let hint = match values.copied().max() {
        Some(most) if most > Info::MOST_COUNTED => {
            format!(
                "; there are {most} categories or classes: whole numbers are some, with a decimal point they are numbers"
            )
        }
        _ => String::new(),
    };
    TrainError::Memory(format!(
        "training takes at least {needed:.0} GB of memory ({} parameters, {nodes} nodes and {edges} edges in the largest graph), \
         this machine has {memory:.0} GB{hint}",
        gt_nn::Parameters::new(network).count()
    ))
}

/// Bytes of memory, as Linux tells them.
fn machine_memory() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? * 1024.0)
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
        assert!(text.contains("at least 3000 GB") && text.contains("9 edges") && text.ends_with("has 24 GB"), "{text}");
        let ids = Network { node: Input { categorical: vec![4_000_000_000], ..Default::default() }, ..network };
        assert!(told(&ids, 9).contains("4000000000 categories or classes"));
    }
}
