//! The kernels against the module's formulas, written out in double precision, and against
//! differences of them.

use super::*;
use crate::cpu::Isa;
use crate::cpu::edges::Edges;
use crate::cpu::testing::{assert_close, each_isa, numbers};

const WIDTHS: [(usize, usize); 8] = [(64, 8), (80, 8), (7, 1), (6, 2), (6, 3), (40, 20), (40, 2), (80, 20)];
const GATES: [Option<Gate>; 3] = [None, Some(Gate::PerChannel), Some(Gate::Scalar)];
const CLAMPS: [Clamp; 2] = [Clamp::Logits, Clamp::Exponentials];

/// The forms of a width: every gate with every clamp.
fn forms((width, heads): (usize, usize)) -> impl Iterator<Item = Form> {
    let channels = Channels::new(width, heads);
    GATES.into_iter().flat_map(move |gate| CLAMPS.map(|clamp| Form { channels, gate, clamp }))
}

/// A graph among others: numbers begin at `FIRST_NODE` and `FIRST_EDGE`, and what lies before must
/// not be read.
struct Graph {
    nodes: usize,
    /// Source and target in in-order, counted from 0.
    ends: Vec<(usize, usize)>,
    in_offsets: Vec<u32>,
    in_src: Vec<u32>,
    out_offsets: Vec<u32>,
    out_dst: Vec<u32>,
    out_to_in: Vec<u32>,
}

const FIRST_NODE: usize = 5;
const FIRST_EDGE: usize = 9;

impl Graph {
    fn new(nodes: usize, edges: &[(usize, usize)]) -> Self {
        let mut ends = edges.to_vec();
        ends.sort_by_key(|&(_, target)| target);
        let offsets = |end: fn(&(usize, usize)) -> usize| -> Vec<u32> {
            let before = |node: usize| ends.iter().filter(|edge| end(edge) < node).count();
            (0..=nodes).map(|node| (FIRST_EDGE + before(node)) as u32).collect()
        };
        let mut out: Vec<usize> = (0..ends.len()).collect();
        out.sort_by_key(|&edge| ends[edge].0);
        let others = [u32::MAX; FIRST_EDGE];
        let list = |values: Vec<usize>, first: usize| -> Vec<u32> {
            others.into_iter().chain(values.into_iter().map(|value| (value + first) as u32)).collect()
        };
        Self {
            nodes,
            in_offsets: offsets(|edge| edge.1),
            in_src: list(ends.iter().map(|edge| edge.0).collect(), FIRST_NODE),
            out_offsets: offsets(|edge| edge.0),
            out_dst: list(out.iter().map(|&edge| ends[edge].1).collect(), FIRST_NODE),
            out_to_in: list(out, FIRST_EDGE),
            ends,
        }
    }

    /// Nodes without in-edges (0), without out-edges (6), without both (5); loops, repeated edges,
    /// and one node with many edges.
    fn odd() -> Self {
        let mut edges = vec![(0, 1), (1, 1), (0, 2), (0, 2), (2, 3), (3, 2), (4, 4), (4, 4), (1, 6), (3, 6), (7, 6)];
        edges.extend((0..19).map(|i| ([0, 1, 2, 3, 4, 7, 8][i % 7], 7)));
        edges.extend([(7, 8), (8, 8), (2, 8)]);
        Self::new(9, &edges)
    }

    fn edges(&self, own: std::ops::Range<usize>) -> Edges<'_> {
        Edges {
            in_offsets: &self.in_offsets[own.start..=own.end],
            in_src: &self.in_src,
            out_offsets: &self.out_offsets[own.start..=own.end],
            out_dst: &self.out_dst,
            out_to_in: &self.out_to_in,
            own_node: FIRST_NODE + own.start,
            first_node: FIRST_NODE,
            first_edge: FIRST_EDGE,
            shared_nodes: self.nodes,
            shared_edges: self.ends.len(),
        }
    }

    /// In-edges of some nodes, counted from 0.
    fn into(&self, own: &std::ops::Range<usize>) -> std::ops::Range<usize> {
        self.in_offsets[own.start] as usize - FIRST_EDGE..self.in_offsets[own.end] as usize - FIRST_EDGE
    }
}

/// Everything that attention and its backward read; 0 in padding.
#[derive(Clone)]
struct Data {
    qkv: Vec<f64>,
    proj: Vec<f64>,
    dout: Vec<f64>,
    dscore: Option<Vec<f64>>,
    /// 1 where dropout keeps a value of `out`; where not, `dout` is 0.
    kept: Vec<f64>,
    keep: f64,
}

impl Data {
    fn new(form: &Form, graph: &Graph, with_dscore: bool, keep: f64) -> Self {
        let (d, _) = form.sizes();
        let mut real = vec![false; d];
        (0..form.channels.width()).for_each(|c| real[form.channels.place(c)] = true);
        let rows = |count: usize, seed: u64, scale: f64| -> Vec<f64> {
            let values = numbers::<f64>(count * d, seed).into_iter().enumerate();
            values.map(|(at, value)| if real[at % d] { scale * value } else { 0.0 }).collect()
        };
        let (n, e) = (graph.nodes, graph.ends.len());
        // Some logits lie beyond either clamp, at either end.
        let scale = if form.gate.is_some() { 16.0 } else { 8.0 };
        let (q, k, v) = (rows(n, 1, scale), rows(n, 2, 2.0), rows(n, 3, 1.0));
        let qkv = (0..n).flat_map(|i| [&q, &k, &v].map(|x| x[i * d..(i + 1) * d].to_vec())).flatten().collect();
        let kept: Vec<f64> =
            numbers::<f64>(n * d, 4).into_iter().map(|u| f64::from(u8::from(keep == 1.0 || u > -0.5))).collect();
        let dout = rows(n, 5, 1.0).into_iter().zip(&kept).map(|(g, kept)| g * kept).collect();
        let dscore = (with_dscore && form.gate.is_some()).then(|| rows(e, 6, 1.0));
        Self { qkv, proj: rows(e, 7, 1.0), dout, dscore, kept, keep }
    }
}

/// Scores, weights with a sign for the clamp, and outputs.
struct Attention {
    score: Vec<f64>,
    weight: Vec<f64>,
    out: Vec<f64>,
}

/// The formulas of the module.
fn reference(form: &Form, graph: &Graph, qkv: &[f64], proj: &[f64]) -> Attention {
    let ((d, h), per_head) = (form.sizes(), form.channels.per_head());
    let (n, e) = (graph.nodes, graph.ends.len());
    let mut found = Attention { score: vec![0.0; e * d], weight: vec![0.0; e * h], out: vec![0.0; n * d] };
    for head in 0..form.channels.heads() {
        let places = || (head * per_head..(head + 1) * per_head).map(|c| form.channels.place(c));
        let mut z = vec![if form.gate.is_some() { 1e-6 } else { 0.0 }; n];
        for (edge, &(j, i)) in graph.ends.iter().enumerate() {
            let product = |p: usize| qkv[i * 3 * d + p] * qkv[j * 3 * d + d + p] / (per_head as f64).sqrt();
            let whole: f64 = places().map(product).sum();
            let score = |p: usize| match form.gate {
                None => product(p),
                Some(Gate::PerChannel) => product(p) * proj[edge * d + p],
                Some(Gate::Scalar) => whole * proj[edge * d + p],
            };
            let logit: f64 = places().map(score).sum();
            let (weight, clamped) = match form.clamp {
                Clamp::Logits => (logit.clamp(-5.0, 5.0).exp(), logit.abs() > 5.0),
                Clamp::Exponentials => (logit.exp().min(5.0), logit.exp() > 5.0),
            };
            z[i] += weight;
            found.weight[edge * h + head] = if clamped { -weight } else { weight };
            for p in places() {
                found.score[edge * d + p] = score(p);
                found.out[i * d + p] += weight * qkv[j * 3 * d + 2 * d + p];
            }
        }
        for (i, z) in z.into_iter().enumerate().filter(|&(i, _)| graph.ends.iter().any(|edge| edge.1 == i)) {
            places().for_each(|p| found.out[i * d + p] /= z);
        }
    }
    found
}

/// Results of all kernels, one range of nodes after the other.
struct Found<T> {
    score: Vec<T>,
    weight: Vec<T>,
    out: Vec<T>,
    dqkv: Vec<T>,
    dproj: Vec<T>,
}

fn cast<T: Real>(values: &[f64]) -> Vec<T> {
    values.iter().map(|&value| T::from_f64(value)).collect()
}

fn run<T: Real>(isa: Isa, form: &Form, graph: &Graph, data: &Data, cuts: &[usize]) -> Found<T> {
    let (d, h) = form.sizes();
    let (n, e) = (graph.nodes, graph.ends.len());
    let (qkv, proj) = (cast::<T>(&data.qkv), cast::<T>(&data.proj));
    let dscore = data.dscore.as_deref().map(cast::<T>);
    let nan = |count: usize| vec![T::from_f64(f64::NAN); count];
    let (mut score, mut weight, mut inverse, mut out) = (nan(e * d), nan(e * h), nan(n * h), nan(n * d));
    let ranges = || cuts.windows(2).map(|cut| cut[0]..cut[1]);
    for own in ranges() {
        let edges = graph.edges(own.clone());
        edges.check();
        let into = graph.into(&own);
        forward(
            isa,
            Forward {
                form: *form,
                edges,
                qkv: &qkv,
                proj: &proj[into.start * d..into.end * d],
                score: &mut score[into.start * d..into.end * d],
                weight: &mut weight[into.start * h..into.end * h],
                inverse: &mut inverse[own.start * h..own.end * h],
                out: &mut out[own.start * d..own.end * d],
            },
        );
    }
    let dropped = out.iter().zip(&data.kept).map(|(&o, &kept)| o * T::from_f64(kept) / T::from_f64(data.keep));
    let dropped: Vec<T> = dropped.collect();
    let (mut dout, mut dlogit, mut dqkv, mut dproj) = (cast::<T>(&data.dout), nan(e * h), nan(n * 3 * d), nan(e * d));
    for own in ranges() {
        let into = graph.into(&own);
        let (edge_rows, edge_heads) = (into.start * d..into.end * d, into.start * h..into.end * h);
        backward_in(
            isa,
            Incoming {
                form: *form,
                edges: graph.edges(own.clone()),
                qkv: &qkv,
                proj: &proj[edge_rows.clone()],
                weight: &weight[edge_heads.clone()],
                inverse: &inverse[own.start * h..own.end * h],
                out: &dropped[own.start * d..own.end * d],
                keep: T::from_f64(data.keep),
                dout: &mut dout[own.start * d..own.end * d],
                dscore: dscore.as_ref().map(|all| &all[edge_rows.clone()]),
                dlogit: &mut dlogit[edge_heads],
                dqkv: &mut dqkv[own.start * 3 * d..own.end * 3 * d],
                dproj: &mut dproj[edge_rows.clone()],
            },
        );
    }
    for own in ranges() {
        backward_out(
            isa,
            Outgoing {
                form: *form,
                edges: graph.edges(own.clone()),
                qkv: &qkv,
                proj: &proj,
                weight: &weight,
                dout: &dout,
                dscore: dscore.as_deref(),
                dlogit: &dlogit,
                dqkv: &mut dqkv[own.start * 3 * d..own.end * 3 * d],
            },
        );
    }
    Found { score, weight, out, dqkv, dproj }
}

/// The nodes in one piece, and in ranges.
fn cuts(graph: &Graph) -> [Vec<usize>; 2] {
    [vec![0, graph.nodes], vec![0, 3, 4, 7, graph.nodes]]
}

fn check_forward<T: Real>(isa: Isa, tolerance: f64) {
    let graph = Graph::odd();
    for form in WIDTHS.into_iter().flat_map(forms) {
        let data = Data::new(&form, &graph, true, 1.0);
        let expected = reference(&form, &graph, &data.qkv, &data.proj);
        assert!(expected.weight.iter().any(|&w| w < 0.0) && expected.weight.iter().any(|&w| w > 0.0), "{form:?}");
        for cuts in cuts(&graph) {
            let found = run::<T>(isa, &form, &graph, &data, &cuts);
            assert_close(&found.out, &expected.out, tolerance);
            if form.gate.is_some() {
                assert_close(&found.score, &expected.score, tolerance);
            }
            // Heads that are only padding have weights of their own.
            let (heads, h) = (form.channels.heads(), form.sizes().1);
            let weight: Vec<T> = found.weight.chunks_exact(h).flat_map(|row| row[..heads].to_vec()).collect();
            let real: Vec<f64> = expected.weight.chunks_exact(h).flat_map(|row| row[..heads].to_vec()).collect();
            assert_close(&weight, &real, tolerance);
        }
    }
}

#[test]
fn forward_follows_the_formulas() {
    check_forward::<f64>(Isa::Portable, 1e-12);
    each_isa(|isa| check_forward::<f32>(isa, 2e-5));
}

#[test]
fn nodes_without_in_edges_attend_to_nothing() {
    let graph = Graph::new(3, &[(0, 1)]);
    for form in forms((6, 2)) {
        let data = Data::new(&form, &graph, false, 1.0);
        let found = run::<f64>(Isa::Portable, &form, &graph, &data, &[0, 3]);
        let (d, _) = form.sizes();
        assert!(found.out[..d].iter().chain(&found.out[2 * d..]).all(|&v| v == 0.0));
        // A single in-edge has all the weight; the guard of the layer with edge features takes a
        // little of it.
        if form.gate.is_none() {
            assert_close(&found.out[d..2 * d], &data.qkv[2 * d..3 * d], 1e-12);
        }
    }
}

/// Σ dout·out + Σ dscore·score, the function whose gradient the backward kernels give.
fn scalar(form: &Form, graph: &Graph, data: &Data) -> f64 {
    let found = reference(form, graph, &data.qkv, &data.proj);
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    dot(&data.dout, &found.out) + data.dscore.as_ref().map_or(0.0, |dscore| dot(dscore, &found.score))
}

/// The double-precision kernels against differences of the reference, at places all over the
/// arrays.
#[test]
fn backward_fits_the_differences_of_the_formulas() {
    const STEP: f64 = 1e-6;
    let graph = Graph::odd();
    for form in WIDTHS.into_iter().flat_map(forms) {
        for (with_dscore, keep) in [(true, 1.0), (false, 0.75)] {
            let data = Data::new(&form, &graph, with_dscore, keep);
            for cuts in cuts(&graph) {
                let found = run::<f64>(Isa::Portable, &form, &graph, &data, &cuts);
                let largest = found.dqkv.iter().chain(&found.dproj).fold(0.0, |m: f64, g| m.max(g.abs()));
                let compare = |what: &str, at: usize, found: f64, of: fn(&mut Data) -> &mut Vec<f64>| {
                    let moved = |offset: f64| {
                        let mut data = data.clone();
                        of(&mut data)[at] += offset;
                        scalar(&form, &graph, &data)
                    };
                    let difference = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
                    let off = (found - difference).abs() / largest;
                    assert!(off < 1e-7, "{form:?}, {cuts:?}: {what}[{at}] is {found}, difference {difference}");
                };
                let (d, _) = form.sizes();
                let channels = form.channels;
                let place = |row: usize, step: usize| channels.place((row * 5 + step) % channels.width());
                for row in 0..3 * graph.nodes {
                    let at = row * d + place(row, 0);
                    compare("dqkv", at, found.dqkv[at], |data| &mut data.qkv);
                }
                for row in (0..graph.ends.len()).filter(|_| form.gate.is_some()) {
                    let at = row * d + place(row, 1);
                    compare("dproj", at, found.dproj[at], |data| &mut data.proj);
                }
            }
        }
    }
}

#[test]
fn backward_on_every_instruction_set_gives_what_double_precision_gives() {
    let graph = Graph::odd();
    each_isa(|isa| {
        for form in WIDTHS.into_iter().flat_map(forms) {
            for (with_dscore, keep) in [(true, 0.75), (false, 1.0)] {
                let data = Data::new(&form, &graph, with_dscore, keep);
                for cuts in cuts(&graph) {
                    let expected = run::<f64>(Isa::Portable, &form, &graph, &data, &[0, graph.nodes]);
                    let found = run::<f32>(isa, &form, &graph, &data, &cuts);
                    assert_close(&found.dqkv, &expected.dqkv, 5e-5);
                    if form.gate.is_some() {
                        assert_close(&found.dproj, &expected.dproj, 5e-5);
                    }
                }
            }
        }
    });
}

#[test]
fn indices_that_lead_outside_are_found() {
    let graph = Graph::odd();
    graph.edges(2..7).check();
    let (nodes, edges) = ((FIRST_NODE + graph.nodes) as u32, (FIRST_EDGE + graph.ends.len()) as u32);
    type Change = Box<dyn Fn(&mut Graph) + std::panic::RefUnwindSafe>;
    let at = graph.in_offsets[2] as usize;
    let out = graph.out_offsets[2] as usize;
    let changes: [(&str, Change); 8] = [
        ("source too high", Box::new(move |graph| graph.in_src[at] = nodes)),
        ("source too low", Box::new(move |graph| graph.in_src[at] = FIRST_NODE as u32 - 1)),
        ("target too high", Box::new(move |graph| graph.out_dst[out] = nodes)),
        ("target too low", Box::new(move |graph| graph.out_dst[out] = 0)),
        ("edge too high", Box::new(move |graph| graph.out_to_in[out] = edges)),
        ("edge too low", Box::new(move |graph| graph.out_to_in[out] = FIRST_EDGE as u32 - 1)),
        ("offsets not ascending", Box::new(|graph| graph.in_offsets[4] = FIRST_EDGE as u32)),
        ("more edges than there are", Box::new(move |graph| graph.out_offsets[7] = edges + 1)),
    ];
    for (name, change) in &changes {
        let found = std::panic::catch_unwind(|| {
            let mut graph = Graph::odd();
            change(&mut graph);
            graph.edges(2..7).check();
        });
        assert!(found.is_err(), "{name}");
    }
    for own_node in [FIRST_NODE - 1, FIRST_NODE + 5] {
        let found = std::panic::catch_unwind(|| Edges { own_node, ..Graph::odd().edges(2..7) }.check());
        assert!(found.is_err(), "first own node {own_node}");
    }
}
