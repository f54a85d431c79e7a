//! From eigenpairs per component to the pairs of the graph, with one well-defined basis.

use super::matrix::Components;
use super::{GROUP_TOLERANCE, Pairs, Spectrum};

/// An eigenpair: its value, its component, and its column in the component.
#[derive(Clone, Copy)]
struct Entry {
    value: f64,
    component: usize,
    column: usize,
}

/// The `pairs` smallest pairs of all components together, each group in its canonical basis.
pub(super) fn merge(components: &Components<'_>, solved: &[Pairs], pairs: usize) -> Spectrum {
    let n = components.place.len();
    let mut entries: Vec<Entry> = Vec::new();
    for (component, found) in solved.iter().enumerate() {
        entries.extend(found.values.iter().enumerate().map(|(column, &value)| Entry { value, component, column }));
    }
    if solved.len() > 1 {
        entries.sort_unstable_by(|a, b| {
            a.value.total_cmp(&b.value).then((a.component, a.column).cmp(&(b.component, b.column)))
        });
    }
    let eigenvalues = entries.iter().take(pairs).map(|e| e.value).collect();
    let mut eigenvectors = vec![0.0; n * pairs];
    let mut stored = 0;
    for group in entries.chunk_by_mut(|a, b| b.value - a.value <= GROUP_TOLERANCE) {
        if stored == pairs {
            break;
        }
        let take = group.len().min(pairs - stored);
        let out = &mut eigenvectors[stored * n..(stored + take) * n];
        if let [single] = group {
            scatter(components, solved, single.component, &[single.column], &[1.0], out);
        } else {
            group.sort_unstable_by_key(|e| (e.component, e.column));
            let found = store_basis(components, solved, group, out);
            debug_assert_eq!(found, take, "the projections of all nodes span the eigenspace");
        }
        out.chunks_exact_mut(n).for_each(fix_sign);
        stored += take;
    }
    Spectrum { eigenvalues, eigenvectors }
}

/// What a component contributes to a group: an eigenspace, and how much of it the basis already
/// spans.
struct Share {
    component: usize,
    columns: Vec<usize>,
    /// Accepted basis vectors in coordinates of the eigenspace, `[accepted, columns]`.
    accepted: Vec<f64>,
}

/// Fills `out`, column by column, with the first vectors of a group's basis; returns how many there
/// were.
///
/// The projection of e_i lives in i's component, so it is enough to work there, and in coordinates
/// of the component's eigenspace: P e_i = U (row i of U).
///
/// A candidate is taken when the square of its remainder after Gram–Schmidt exceeds 0.01 / n. This
/// threshold always completes the basis. Suppose that the basis ended too early. The rest of the
/// eigenspace then has dimension at least 1, so the squares of all n projections on it sum to at
/// least 1. But the squares of accepted nodes are 0, and all others are at most 0.01 / n: a
/// contradiction.
fn store_basis(components: &Components<'_>, solved: &[Pairs], group: &[Entry], out: &mut [f64]) -> usize {
    let n = components.place.len();
    let threshold = 0.01 / n as f64;
    let mut shares: Vec<Share> = group
        .chunk_by(|a, b| a.component == b.component)
        .map(|own| Share {
            component: own[0].component,
            columns: own.iter().map(|e| e.column).collect(),
            accepted: Vec::new(),
        })
        .collect();
    let mut columns = out.chunks_exact_mut(n);
    let mut found = 0;
    let mut candidate = Vec::new();
    for &(component, local) in &components.place {
        let Ok(at) = shares.binary_search_by_key(&(component as usize), |s| s.component) else { continue };
        let Share { component, columns: own, accepted } = &mut shares[at];
        let m = own.len();
        if accepted.len() == m * m {
            continue;
        }
        let vectors = &solved[*component].vectors;
        let rows = components.nodes(*component).len();
        candidate.clear();
        candidate.extend(own.iter().map(|&column| vectors[column * rows + local as usize]));
        // Twice, against rounding: the remainder may be a thousandth of the input.
        for _ in 0..2 {
            for done in accepted.chunks_exact(m) {
                let along = dot(done, &candidate);
                candidate.iter_mut().zip(done).for_each(|(c, d)| *c -= along * d);
            }
        }
        let square = dot(&candidate, &candidate);
        if square <= threshold {
            continue;
        }
        let Some(column) = columns.next() else { break };
        let scale = 1.0 / square.sqrt();
        candidate.iter_mut().for_each(|c| *c *= scale);
        accepted.extend_from_slice(&candidate);
        scatter(components, solved, *component, own, &candidate, column);
        found += 1;
        if columns.len() == 0 {
            break;
        }
    }
    found
}

/// Adds a combination of a component's eigenvectors to a vector over all nodes.
fn scatter(
    components: &Components<'_>,
    solved: &[Pairs],
    component: usize,
    columns: &[usize],
    weights: &[f64],
    out: &mut [f64],
) {
    let nodes = components.nodes(component);
    for (&column, &weight) in columns.iter().zip(weights) {
        let vector = &solved[component].vectors[column * nodes.len()..(column + 1) * nodes.len()];
        for (&node, &value) in nodes.iter().zip(vector) {
            out[node as usize] += weight * value;
        }
    }
}

/// Makes the first of the largest values positive, where 1e-6 less than the largest still counts as
/// largest.
fn fix_sign(vector: &mut [f64]) {
    let largest = vector.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    let leading = vector.iter().find(|v| v.abs() >= (1.0 - 1e-6) * largest);
    if leading.is_some_and(|&v| v < 0.0) {
        vector.iter_mut().for_each(|v| *v = -*v);
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}
