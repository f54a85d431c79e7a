//! A GPU without enough memory. Skipped on machines without a GPU.

use graph_transformer_nn::AttentionScope;
use graph_transformer_nn::cuda::{CudaDevice, CudaEngine, CudaError, CudaTask, OnGpu, Precision, ResidentData};
use graph_transformer_nn::{Channels, Input, Loss, Network};
use gt_graph::{
    FeatureLayout, FeatureRows, GraphParts, GraphStore, Layout, Level, TargetKind, TargetLayout, TargetRows,
};
use gt_testing::{Resource, skip};

#[test]
fn a_network_that_does_not_fit_is_reported_with_sizes_and_leaves_the_gpu_usable() {
    let device = match CudaDevice::open(0) {
        Ok(device) => device,
        Err(error) => return skip(Resource::Cuda, error),
    };
    let mut store = GraphStore::new(Layout {
        node: FeatureLayout { categorical: 1, ..Default::default() },
        edge: FeatureLayout::default(),
        target: Some(TargetLayout { level: Level::Graph, kind: TargetKind::Float, columns: 1 }),
    });
    store
        .push(GraphParts {
            num_nodes: 2,
            src: &[0, 1],
            dst: &[1, 0],
            node: FeatureRows { categorical: &[0, 1], ..Default::default() },
            edge: FeatureRows::default(),
            target: Some(TargetRows::Float(&[1.0])),
        })
        .unwrap();
    let network = Network {
        node: Input { categorical: vec![2], ..Default::default() },
        head: vec![1],
        ..Network::new(Channels::new(16, 2), 1)
    };
    let data = ResidentData::new(&device, &store, &network, AttentionScope::Sparse).unwrap();
    let engine = |rows: usize| {
        let task = CudaTask {
            network: network.clone(),
            loss: Loss::L1,
            batch: 1,
            rows,
            listed: 1,
            signs_per_graph: false,
            precision: Precision::F32,
        };
        CudaEngine::new(&device, &data, task, None)
    };
    // Outputs of so many rows are four terabytes.
    match engine(1 << 40).map(|_| ()) {
        Err(CudaError::Memory { part, held, wanted, free }) => {
            assert_eq!((part, wanted), (OnGpu::Network, 4 << 40));
            assert!(held > 0 && free > 0, "{held} {free}");
        }
        other => panic!("{other:?}"),
    }
    engine(1).unwrap().prepare().unwrap();
}
