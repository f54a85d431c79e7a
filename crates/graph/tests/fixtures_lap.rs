//! Laplacian encodings against the reference's eigenpairs: values directly, vectors up to what is
//! not determined.

mod reference;

use graph_transformer_graph::encoding::{Encoding, Laplacian, Solver};
use graph_transformer_graph::{Graph, GraphParts};
use reference::{distance, dot, projector, worst_orthogonality, worst_residual};
use safetensors::SafeTensors;

/// The raw eight-byte values of a tensor.
fn words(file: &SafeTensors<'_>, name: &str) -> Vec<[u8; 8]> {
    let tensor = file.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    tensor.data().as_chunks::<8>().0.to_vec()
}

struct Expected {
    name: String,
    graph: Graph,
    k: usize,
    values: Vec<f64>,
    /// By columns.
    vectors: Vec<Vec<f64>>,
    group: Vec<i64>,
    encoding: Vec<f32>,
}

impl Expected {
    fn read(file: &SafeTensors<'_>, name: &str) -> Self {
        let key = |part: &str| format!("{name}.{part}");
        let integers =
            |part: &str| -> Vec<i64> { words(file, &key(part)).into_iter().map(i64::from_le_bytes).collect() };
        let floats = |part: &str| -> Vec<f64> { words(file, &key(part)).into_iter().map(f64::from_le_bytes).collect() };
        let nodes = |part: &str| -> Vec<u32> { integers(part).into_iter().map(|v| v as u32).collect() };
        let n = integers("n")[0] as usize;
        let (src, dst) = (nodes("src"), nodes("dst"));
        let matrix = floats("eigvecs");
        let encoding = file.tensor(&key("pe")).unwrap();
        Self {
            name: name.into(),
            graph: Graph::new(GraphParts { num_nodes: n, src: &src, dst: &dst, ..Default::default() }).unwrap(),
            k: integers("k")[0] as usize,
            values: floats("eigvals"),
            vectors: (0..n).map(|j| (0..n).map(|i| matrix[i * n + j]).collect()).collect(),
            group: integers("group"),
            encoding: encoding.data().as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
        }
    }

    fn check(&self, solver: Solver) {
        let Self { name, graph, k, .. } = self;
        let n = graph.view().num_nodes();
        let encoding = Laplacian { k: *k, solver };
        let spectrum = encoding.spectrum(graph.view()).unwrap();
        let pairs = (k + 1).min(n);
        assert!(distance(&spectrum.eigenvalues, &self.values[..pairs]) < 1e-9, "{name}: eigenvalues");
        assert!(worst_residual(graph.view(), &spectrum) < 1e-9, "{name}: residual");
        assert!(worst_orthogonality(&spectrum) < 1e-10, "{name}: orthogonality");
        for pair in 0..pairs {
            let members: Vec<usize> = (0..n).filter(|&p| self.group[p] == self.group[pair]).collect();
            if members.len() == 1 {
                let along = dot(spectrum.vector(pair), &self.vectors[pair]).abs();
                assert!((along - 1.0).abs() < 1e-9, "{name}: vector {pair} is {along} along the expected one");
            } else if members.iter().all(|&p| p < pairs) {
                let own = projector(members.iter().map(|&p| spectrum.vector(p)), n);
                let expected = projector(members.iter().map(|&p| self.vectors[p].as_slice()), n);
                assert!(distance(&own, &expected) < 1e-7, "{name}: projector of the group of vector {pair}");
            }
        }
        self.check_encoding(&encoding);
    }

    /// The encoding is columns 1.. of the spectrum in f32, then zeros.
    fn check_encoding(&self, encoding: &Laplacian) {
        let Self { name, graph, k, .. } = self;
        let n = graph.view().num_nodes();
        let spectrum = encoding.spectrum(graph.view()).unwrap();
        let mut values = vec![f32::NAN; n * k];
        encoding.encode(graph.view(), &mut values).unwrap();
        assert_eq!(values.len(), self.encoding.len(), "{name}: size of the encoding");
        for column in 1..=*k {
            let own: Vec<f32> = (0..n).map(|i| values[i * k + column - 1]).collect();
            if column >= n {
                assert!(own.iter().all(|&v| v == 0.0), "{name}: column {column} is not padded");
                assert!((0..n).all(|i| self.encoding[i * k + column - 1] == 0.0), "{name}: the fixture's padding");
                continue;
            }
            let expected: Vec<f32> = spectrum.vector(column).iter().map(|&v| v as f32).collect();
            assert_eq!(own, expected, "{name}: column {column}");
            if self.group.iter().filter(|&&g| g == self.group[column]).count() == 1 {
                let theirs: Vec<f32> = (0..n).map(|i| self.encoding[i * k + column - 1]).collect();
                let sign = theirs.iter().zip(&own).map(|(a, b)| a * b).sum::<f32>().signum();
                let worst = theirs.iter().zip(&own).map(|(a, b)| (sign * a - b).abs()).fold(0.0, f32::max);
                assert!(worst < 1e-6, "{name}: column {column} is off by {worst}");
            }
        }
    }
}

#[test]
fn fixtures_lap_eigenpairs_agree() {
    for path in reference::fixture_files("lappe.safetensors") {
        let bytes = std::fs::read(&path).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let names = file.names();
        let mut graphs = 0;
        for name in names.iter().filter_map(|name| name.strip_suffix(".eigvals")) {
            let expected = Expected::read(&file, name);
            for solver in [Solver::Auto, Solver::Dense, Solver::Iterative] {
                expected.check(solver);
            }
            graphs += 1;
        }
        assert!(graphs > 0, "{} holds no graph", path.display());
        eprintln!("{}: {graphs} graphs", path.display());
    }
}
