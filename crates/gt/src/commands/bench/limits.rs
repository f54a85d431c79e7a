//! Upper bounds for a GPU: products by its datasheet, and the memory traffic that no implementation
//! of a step avoids.

use gt_nn::cuda::Precision;
use gt_nn::{Network, Parameters};

/// Dense products on tensor cores in TFLOP/s by the makers' datasheets, TF32 and bf16.
const SHEETS: [(&str, f64, f64); 4] =
    [("H100", 494.7, 989.4), ("H200", 494.7, 989.4), ("GH200", 494.7, 989.4), ("A100", 156.0, 312.0)];

/// Peak GFLOP/s of products in a precision, or `None` for an unknown GPU. In f32 every product is
/// computed as three products in TF32.
pub fn peak_gflops(gpu: &str, precision: Precision) -> Option<f64> {
    let words: Vec<&str> = gpu.split([' ', '-']).collect();
    // These run at other clocks than the modules of the datasheets, or are parts of a GPU. All
    // forms of the A100 have the same peak.
    if words.iter().any(|word| ["NVL", "MIG"].contains(word)) || (words.contains(&"H100") && words.contains(&"PCIe")) {
        return None;
    }
    let (_, tf32, bf16) = SHEETS.iter().find(|(name, ..)| words.contains(name))?;
    Some(match precision {
        Precision::F32 => 1e3 * tf32 / 3.0,
        Precision::Tf32 => 1e3 * tf32,
        Precision::Bf16 => 1e3 * bf16,
    })
}

/// Bytes that a step moves at least, everything in f32, once to memory and once from there.
///
/// Training: parameters, their gradients and both moments. Per layer, the arrays that the backward
/// pass reads: queries, keys, values, attended values, sums, hidden rows and output rows. Edges
/// have the same arrays, but their queries, keys and values are one projection.
///
/// Inference: parameters are read. Written are the arrays that other nodes read (queries, keys,
/// values) and the input of the next layer.
pub fn least_bytes(network: &Network, nodes: usize, edges: usize, train: bool) -> f64 {
    let parameters = Parameters::new(network).count() as f64;
    let d = network.channels.width() as f64;
    let (nodes, layers) = (nodes as f64, network.layers as f64);
    let edges = if network.edge_stream { edges as f64 } else { 0.0 };
    // Nothing reads the last layer's edges but their projection.
    let read = layers - 1.0;
    let (flat, of_nodes, of_edges) = match train {
        true => (4.0 * 2.0 * parameters, layers * 8.0 * d, (layers + 5.0 * read) * d),
        false => (parameters, layers * 4.0 * d, read * d),
    };
    // The first layer takes embedded rows.
    let rows = nodes * (d + of_nodes) + edges * (d + of_edges);
    4.0 * (flat + 2.0 * rows)
}

#[cfg(test)]
mod tests {
    use gt_nn::Channels;

    use super::*;

    #[test]
    fn peaks_are_those_of_the_sheet_and_unknown_gpus_have_none() {
        let peak = |gpu, precision| peak_gflops(gpu, precision).map(f64::round);
        assert_eq!(peak("NVIDIA H200", Precision::Tf32), Some(494_700.0));
        assert_eq!(peak("NVIDIA H200", Precision::F32), Some(164_900.0));
        assert_eq!(peak("NVIDIA H100 80GB HBM3", Precision::Bf16), Some(989_400.0));
        assert_eq!(peak("NVIDIA A100-SXM4-40GB", Precision::Bf16), Some(312_000.0));
        assert_eq!(peak("NVIDIA A100-PCIE-40GB", Precision::F32), Some(52_000.0));
        for gpu in ["NVIDIA H100 PCIe", "NVIDIA H200 NVL", "NVIDIA H200 MIG 1g.18gb", "NVIDIA GeForce RTX 4090", ""] {
            assert_eq!(peak(gpu, Precision::F32), None, "{gpu}");
        }
    }

    #[test]
    fn least_traffic_is_counted_by_hand() {
        let network = Network { head: vec![1], ..Network::new(Channels::new(4, 1), 2) };
        let parameters = Parameters::new(&network).count();
        let d = 4;
        // Ten nodes: embedded rows, then eight rows' worth per layer; each written and read.
        let rows = 2 * 10 * (d + 2 * 8 * d);
        assert_eq!(least_bytes(&network, 10, 99, true), (4 * (8 * parameters + rows)) as f64);
        let rows = 2 * 10 * (d + 2 * 4 * d);
        assert_eq!(least_bytes(&network, 10, 99, false), (4 * (parameters + rows)) as f64);
    }

    #[test]
    fn edges_count_where_they_have_a_stream() {
        let network = Network { edge_stream: true, head: vec![1], ..Network::new(Channels::new(4, 1), 3) };
        let (some, none) = (least_bytes(&network, 5, 7, true), least_bytes(&network, 5, 0, true));
        // Embedded rows, three projections, and of two layers the attended, sum, hidden (2) and
        // output rows.
        assert_eq!(some - none, f64::from(4 * 2 * 7 * (4 + 3 * 4 + 2 * 5 * 4)));
        let (some, none) = (least_bytes(&network, 5, 7, false), least_bytes(&network, 5, 0, false));
        assert_eq!(some - none, f64::from(4 * 2 * 7 * (4 + 2 * 4)));
    }
}
