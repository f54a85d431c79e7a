//! Checkpoints of PyTorch become models that predict the same.

mod support;

use std::path::Path;

use graph_transformer_models::{Config, ModelHeader, shape_of_checkpoint, torch};
use gt_graph::{Level, TargetKind};
use gt_nn::cpu::{Edges, Isa};
use support::Fixture;

const CONFIG: &str = "[model]\nlayers = 2\nwidth = 16\nheads = 4\nencoding = \"laplacian\"\nencoding_size = 4";

fn here(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(path)
}

fn checkpoint(name: &str) -> torch::StateDict {
    torch::read_state_dict(&std::fs::read(here("checkpoints").join(name)).unwrap()).unwrap()
}

#[test]
fn both_formats_import_and_predict_as_pytorch_does() {
    let fixture = Fixture::read(&here("fixtures/gt_edge_bn_lap_sparse.safetensors")).unwrap();
    let expected = &fixture.tensors["out.eval_adam3"];
    let largest = expected.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    for name in ["transformer.pt", "transformer_legacy.pt"] {
        let state = checkpoint(name);
        let data = shape_of_checkpoint(&state, Level::Graph, TargetKind::Float).unwrap();
        assert_eq!((&data.node.categorical[..], &data.edge.categorical[..]), (&[6][..], &[4][..]));
        let header = ModelHeader::new(Config::from_toml(CONFIG).unwrap(), data);
        let model = header.save(&header.import(&state, Isa::detect()).unwrap());
        let (_, mut engine) = ModelHeader::open(&model, Isa::detect()).unwrap();
        let found = engine.predict(&fixture.batch(), Edges::Sparse);
        assert_eq!(found.len(), expected.len());
        for (f, e) in found.iter().zip(expected) {
            assert!((f64::from(*f) - e).abs() <= 1e-5 * largest, "{name}: {f} instead of {e}");
        }
    }
}

#[test]
fn misfits_are_named() {
    let state = checkpoint("transformer.pt");
    let data = shape_of_checkpoint(&state, Level::Graph, TargetKind::Float).unwrap();
    let complaint = |set: &str| {
        let config = Config::from_toml_with(CONFIG, &[set.to_owned()]).unwrap();
        ModelHeader::new(config, data.clone()).import(&state, Isa::detect()).unwrap_err().to_string()
    };
    assert!(complaint("model.layers=3").starts_with("tensor `layers.2.attention.Q.weight` is missing; "));
    assert!(
        complaint("model.layers=1").contains("tensor `layers.1.FFN_e_layer1.bias` belongs to no part of this model")
    );
    assert!(complaint("model.width=32").contains("tensor `embedding_h.weight` has shape [6, 16], expected [6, 32]"));
    let error = shape_of_checkpoint(&checkpoint("zip.pt"), Level::Graph, TargetKind::Float).unwrap_err().to_string();
    assert!(error.starts_with("tensor `MLP_layer.FC_layers.0.weight` is missing"), "{error}");
}
