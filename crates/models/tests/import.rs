//! Checkpoints of PyTorch become models that predict the same.

mod support;

use std::path::Path;

use graph_transformer_models::{Config, Misfit, Model, ModelFileError, WeightsError, schema_of_checkpoint, torch};
use gt_graph::{Level, TargetKind};
use gt_testing::PeakMemory;
use support::Fixture;

#[global_allocator]
static MEMORY: PeakMemory = PeakMemory::new();

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
        let schema = schema_of_checkpoint(&state, Level::Graph, TargetKind::Float).unwrap();
        assert_eq!((schema.node.vocabulary_sizes(), schema.edge.vocabulary_sizes()), (vec![6], vec![4]));
        let model = Model::import(Config::from_toml(CONFIG).unwrap(), schema, &state).unwrap();
        let model = Model::from_bytes(&model.to_bytes()).unwrap();
        let found = model.predict(&fixture.store()).unwrap().values;
        assert_eq!(found.len(), expected.len());
        for (f, e) in found.iter().zip(expected) {
            assert!((f64::from(*f) - e).abs() <= 1e-5 * largest, "{name}: {f} instead of {e}");
        }
    }
}

#[test]
fn misfits_are_named() {
    let state = checkpoint("transformer.pt");
    let schema = schema_of_checkpoint(&state, Level::Graph, TargetKind::Float).unwrap();
    let misfits = |set: &str| {
        let config = Config::from_toml_with(CONFIG, &[set.to_owned()]).unwrap();
        match Model::import(config, schema.clone(), &state) {
            Err(ModelFileError::Weights(WeightsError::Misfits(misfits))) => misfits,
            other => panic!("{other:?}"),
        }
    };
    assert!(misfits("model.layers=3").contains(&Misfit::Missing("layers.2.attention.Q.weight".into())));
    assert!(misfits("model.layers=1").contains(&Misfit::Unknown("layers.1.FFN_e_layer1.bias".into())));
    let name = "embedding_h.weight".to_owned();
    let shape = Misfit::Shape { name, found: vec![6, 16], expected: vec![6, 32] };
    assert!(misfits("model.width=32").contains(&shape));
    let error = schema_of_checkpoint(&checkpoint("zip.pt"), Level::Graph, TargetKind::Float).unwrap_err().to_string();
    assert!(error.starts_with("tensor `MLP_layer.FC_layers.0.weight` is missing"), "{error}");
}

#[test]
fn a_network_that_the_checkpoint_does_not_fill_claims_no_memory() {
    let _alone = MEMORY.alone();
    let state = checkpoint("transformer.pt");
    let schema = schema_of_checkpoint(&state, Level::Graph, TargetKind::Float).unwrap();
    // 10^13 parameters, the largest network that a configuration can describe.
    let sets = ["model.width=65536", "model.layers=1000", "model.heads=1", "model.jump=concat"];
    let config = Config::from_toml_with(CONFIG, &sets.map(str::to_owned)).unwrap();
    let (result, peak) = MEMORY.measure(|| Model::import(config, schema, &state));
    match result {
        Err(ModelFileError::Weights(WeightsError::Misfits(misfits))) => assert!(misfits.len() > 1_000),
        other => panic!("{other:?}"),
    }
    assert!(peak < 64 << 20, "{peak} bytes");
    let error = Config::from_toml_with(CONFIG, &["model.width=1000000".into()]).unwrap_err().to_string();
    assert!(error.contains("`model.width`: 1000000; it must be 1 to 65536"), "{error}");
}

#[test]
fn more_parameters_than_can_be_addressed_are_an_error() {
    let state = checkpoint("transformer.pt");
    let mut schema = schema_of_checkpoint(&state, Level::Graph, TargetKind::Float).unwrap();
    schema.node.categorical[0].size = usize::MAX;
    let error = Model::import(Config::from_toml(CONFIG).unwrap(), schema, &state).unwrap_err().to_string();
    assert!(error.contains("more parameters than can be addressed"), "{error}");
}
