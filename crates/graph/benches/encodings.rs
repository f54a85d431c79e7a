//! Speed of the encodings, as JSON lines:
//! `cargo bench -p graph-transformer-graph --bench encodings [-- NAME…]`.
//!
//! Names as arguments select the lines whose names contain one of them. The fields:
//!
//! * `peak_rss_mb`: peak memory of the process so far; pass a single name for an exact value.
//! * `residual`: the largest `|L v − λ v|`, over at most 500 graphs.
//! * `orthogonality`: the largest deviation of UᵀU from the identity, over at most 500 graphs.

use std::hint::black_box;
use std::time::Instant;

use graph_transformer_graph::encoding::{Encoding, Laplacian, RandomWalk, Solver, WeisfeilerLehman, encode_all};
use graph_transformer_graph::{GraphParts, GraphRef, GraphStore, Layout};

type Edges = Vec<(u32, u32)>;
/// Number of nodes, and edges.
type Structure = (u32, Edges);
type Maker = fn(&mut Random) -> Structure;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if !arguments.iter().any(|a| a == "--bench") {
        eprintln!("nothing measured: run with cargo bench");
        return;
    }
    let names: Vec<&String> = arguments.iter().filter(|a| !a.starts_with("--")).collect();
    let selected = |name: &str| names.is_empty() || names.iter().any(|n| name.contains(n.as_str()));
    let mut random = Random(41);

    if selected("zinc") {
        let set = store((0..12_000).map(|_| molecule(&mut random)));
        laplacian("zinc_laplacian", &set, Laplacian::new(8), 7);
        encoding("zinc_wl", &set, &WeisfeilerLehman::default(), 7);
        encoding("zinc_random_walk", &set, &RandomWalk { steps: 16 }, 7);
    }
    if selected("cluster") {
        let set = store((0..12_000).map(|_| block_model(&mut random)));
        laplacian("cluster_laplacian", &set, Laplacian::new(10), 5);
        encoding("cluster_wl", &set, &WeisfeilerLehman::default(), 3);
    }
    for nodes in [250u32, 500, 1000, 2000] {
        if selected("threshold") {
            let set = store([both(nodes, uniform(&mut random, nodes, 10 * nodes as usize))]);
            for solver in [Solver::Dense, Solver::Iterative] {
                laplacian(&format!("threshold_random_{solver:?}"), &set, Laplacian { k: 16, solver }, 3);
            }
        }
    }
    let large: [(&str, Maker); 6] = [
        ("random_1m_undirected", |r| both(100_000, uniform(r, 100_000, 1_000_000))),
        ("random_1m_directed", |r| (100_000, uniform(r, 100_000, 1_000_000))),
        ("grid_300x300", |_| both(90_000, grid(300, 300))),
        ("five_components", |r| {
            let parts = (0..5).flat_map(|c| {
                let own = uniform(r, 20_000, 200_000);
                own.into_iter().map(move |(a, b)| (a + c * 20_000, b + c * 20_000))
            });
            both(100_000, parts.collect())
        }),
        ("star", |_| both(100_000, (1..100_000).map(|i| (0, i)).collect())),
        ("pairs", |_| both(100_000, (0..50_000).map(|i| (2 * i, 2 * i + 1)).collect())),
    ];
    for (name, make) in large {
        if selected(name) {
            let set = store([make(&mut random)]);
            laplacian(name, &set, Laplacian::new(16), 3);
        }
    }
}

fn laplacian(name: &str, set: &GraphStore, laplacian: Laplacian, repeats: usize) {
    let (median, min) = measure(repeats, || drop(black_box(encode_all(&laplacian, set).expect("converges"))));
    let (mut residual, mut orthogonality) = (0.0f64, 0.0f64);
    for graph in set.iter().take(500) {
        let (r, o) = quality(graph, &laplacian);
        residual = residual.max(r);
        orthogonality = orthogonality.max(o);
    }
    let quality = format!(r#","residual":{residual:.1e},"orthogonality":{orthogonality:.1e}"#);
    report(name, set, laplacian.k, median, min, &quality);
}

fn encoding<E: Encoding>(name: &str, set: &GraphStore, encoding: &E, repeats: usize) {
    let run = || drop(black_box(encode_all(encoding, set).unwrap_or_else(|(graph, error)| panic!("{graph}: {error}"))));
    let (median, min) = measure(repeats, run);
    report(name, set, encoding.width(), median, min, "");
}

/// Median and smallest number of seconds.
fn measure(repeats: usize, run: impl Fn()) -> (f64, f64) {
    let mut seconds: Vec<f64> = (0..repeats)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    (seconds[repeats / 2], seconds[0])
}

fn report(name: &str, set: &GraphStore, k: usize, median: f64, min: f64, more: &str) {
    let (graphs, nodes, edges) = (set.len(), set.num_nodes(), set.num_edges());
    let threads = rayon::current_num_threads();
    let memory = peak_memory_mb().map_or(String::new(), |mb| format!(r#","peak_rss_mb":{mb}"#));
    println!(
        r#"{{"name":"{name}","graphs":{graphs},"nodes":{nodes},"edges":{edges},"k":{k},"threads":{threads},"s_median":{median:.4},"s_min":{min:.4}{more}{memory}}}"#
    );
}

/// On systems that report it: Linux.
fn peak_memory_mb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? / 1024)
}

/// Largest |L v − λ v| and deviation from orthonormality.
fn quality(graph: GraphRef<'_>, laplacian: &Laplacian) -> (f64, f64) {
    let spectrum = laplacian.spectrum(graph).expect("converges");
    let mut degree = vec![0.0f64; graph.num_nodes()];
    graph.src().iter().chain(graph.dst()).for_each(|&i| degree[i as usize] += 0.5);
    let scale: Vec<f64> = degree.iter().map(|d| 1.0 / d.max(1.0).sqrt()).collect();
    let (mut residual, mut orthogonality) = (0.0f64, 0.0f64);
    for (p, &value) in spectrum.eigenvalues.iter().enumerate() {
        let v = spectrum.vector(p);
        let mut r: Vec<f64> = v.iter().map(|x| (1.0 - value) * x).collect();
        for (&s, &d) in graph.src().iter().zip(graph.dst()) {
            let (s, d) = (s as usize, d as usize);
            r[d] -= 0.5 * scale[s] * scale[d] * v[s];
            r[s] -= 0.5 * scale[s] * scale[d] * v[d];
        }
        residual = residual.max(r.iter().map(|x| x * x).sum::<f64>().sqrt());
        for q in 0..=p {
            let product: f64 = v.iter().zip(spectrum.vector(q)).map(|(a, b)| a * b).sum();
            orthogonality = orthogonality.max((product - if p == q { 1.0 } else { 0.0 }).abs());
        }
    }
    (residual, orthogonality)
}

fn store(graphs: impl IntoIterator<Item = Structure>) -> GraphStore {
    let mut store = GraphStore::new(Layout::default());
    for (nodes, edges) in graphs {
        let (src, dst): (Vec<u32>, Vec<u32>) = edges.into_iter().unzip();
        let parts = GraphParts { num_nodes: nodes as usize, src: &src, dst: &dst, ..Default::default() };
        store.push(parts).expect("a valid graph");
    }
    store
}

/// Every edge in both directions, sorted.
fn both(nodes: u32, edges: Edges) -> Structure {
    let mut all: Edges = edges.into_iter().flat_map(|(a, b)| [(a, b), (b, a)]).collect();
    all.sort_unstable();
    (nodes, all)
}

fn uniform(random: &mut Random, nodes: u32, edges: usize) -> Edges {
    (0..edges).map(|_| (random.below(nodes), random.below(nodes))).collect()
}

fn grid(rows: u32, columns: u32) -> Edges {
    let right = (0..rows).flat_map(|i| (1..columns).map(move |j| (i * columns + j - 1, i * columns + j)));
    let down = (1..rows).flat_map(|i| (0..columns).map(move |j| ((i - 1) * columns + j, i * columns + j)));
    right.chain(down).collect()
}

/// A tree of valence at most four that grows mostly at its last atoms, and a few rings of five or
/// six; 23 atoms on average.
fn molecule(random: &mut Random) -> Structure {
    let n = 12 + random.below(12) + random.below(12);
    let mut valence = vec![0u32; n as usize];
    let mut parent: Vec<Option<u32>> = vec![None; n as usize];
    let mut bonds: Edges = Vec::new();
    for v in 1..n {
        let recent: Vec<u32> = (v.saturating_sub(4)..v).filter(|&u| valence[u as usize] < 3).collect();
        let u = match recent.as_slice() {
            [] => v - 1,
            [.., last] if random.unit() < 0.75 => *last,
            some => some[random.below(some.len() as u32) as usize],
        };
        bonds.push((u, v));
        parent[v as usize] = Some(u);
        valence[u as usize] += 1;
        valence[v as usize] += 1;
    }
    let rings = (0..n).filter(|_| random.unit() < 0.105).count();
    let (mut closed, mut tries) = (0, 0);
    while closed < rings && tries < 50 * n {
        tries += 1;
        let v = random.below(n);
        let steps = [4, 5, 5][random.below(3) as usize];
        let Some(u) = (0..steps).try_fold(v, |u, _| parent[u as usize]) else { continue };
        if !bonds.contains(&(u, v)) && valence[u as usize] < 4 && valence[v as usize] < 4 {
            bonds.push((u, v));
            valence[u as usize] += 1;
            valence[v as usize] += 1;
            closed += 1;
        }
    }
    both(n, bonds)
}

/// Six communities of 5 to 34 nodes, joined with probability 0.55 inside and 0.25 across.
fn block_model(random: &mut Random) -> Structure {
    let mut community: Vec<u32> = (0..6).flat_map(|c| vec![c; 5 + random.below(30) as usize]).collect();
    for i in (1..community.len()).rev() {
        community.swap(i, random.below(i as u32 + 1) as usize);
    }
    let mut edges = Vec::new();
    for i in 0..community.len() {
        for j in 0..i {
            if random.unit() < if community[i] == community[j] { 0.55 } else { 0.25 } {
                edges.push((j as u32, i as u32));
            }
        }
    }
    both(community.len() as u32, edges)
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u32) -> u32 {
        (self.next() % u64::from(end)) as u32
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}
