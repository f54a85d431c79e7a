//! Weisfeiler–Lehman roles against those of the reference implementation.

mod reference;

use graph_transformer_graph::encoding::{Encoding, WeisfeilerLehman};
use graph_transformer_graph::{Graph, GraphParts};
use safetensors::SafeTensors;

fn integers(file: &SafeTensors<'_>, name: &str) -> Vec<u32> {
    let tensor = file.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    let values = tensor.data().as_chunks::<8>().0.iter().map(|b| i64::from_le_bytes(*b));
    values.map(|v| u32::try_from(v).unwrap_or_else(|_| panic!("{name}: {v} is not a role or a node"))).collect()
}

#[test]
fn fixtures_wl_roles_are_equal() {
    for path in reference::fixture_files("wl.safetensors") {
        let bytes = std::fs::read(&path).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let names = file.names();
        let mut graphs = 0;
        for name in names.iter().filter_map(|name| name.strip_suffix(".wl_ref")) {
            let key = |part: &str| format!("{name}.{part}");
            let (src, dst) = (integers(&file, &key("src")), integers(&file, &key("dst")));
            let num_nodes = integers(&file, &key("n"))[0] as usize;
            let graph = Graph::new(GraphParts { num_nodes, src: &src, dst: &dst, ..Default::default() }).unwrap();
            for (rounds, expected) in [(1, "wl_ref"), (2, "wl_round2")] {
                let mut roles = vec![0; num_nodes];
                WeisfeilerLehman { rounds }.encode(graph.view(), &mut roles).unwrap();
                assert_eq!(roles, integers(&file, &key(expected)), "{name}, {rounds} rounds");
            }
            graphs += 1;
        }
        assert!(graphs > 0, "{} holds no graph", path.display());
        eprintln!("{}: {graphs} graphs", path.display());
    }
}
