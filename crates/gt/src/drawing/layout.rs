//! Positions for the nodes of a graph: distances on paper follow distances along edges.
//!
//! Each connected component minimises the stress Σ (|x_i − x_j| − d_ij)² / d_ij² (Gansner, Koren &
//! North, 2004) from a few fixed starts. The best result is taken, and turned so that its longest
//! side is horizontal. Components are then arranged in rows. An edge is about 1 long. The same
//! graph gives the same picture.

use gt_data::RandomStream;

type Point = [f64; 2];

const DOMAIN_LAYOUT: u8 = 48;
const STEPS: usize = 120;
/// Pairs of nodes that all starts together may look at, per step.
const BUDGET: usize = 1 << 17;
const MOST_STARTS: usize = 24;
/// Space between components.
const GAP: f64 = 1.0;

/// A position for every node; the picture begins at (0, 0). Directions and repetitions of edges
/// have no effect.
pub fn layout(nodes: usize, edges: &[(usize, usize)]) -> Vec<Point> {
    let mut neighbours = vec![Vec::new(); nodes];
    for &(a, b) in edges.iter().filter(|(a, b)| a != b) {
        neighbours[a].push(b);
        neighbours[b].push(a);
    }
    let mut drawn: Vec<(Vec<usize>, Vec<Point>)> = components(&neighbours)
        .into_iter()
        .map(|members| {
            let distances = distances(&members, &neighbours);
            let points = flat(best_start(members.len(), &distances));
            (members, points)
        })
        .collect();
    // Large ones first; the order among equals is that of their nodes.
    drawn.sort_by_key(|(members, _)| std::cmp::Reverse(members.len()));
    shelve(nodes, &drawn)
}

fn components(neighbours: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut seen = vec![false; neighbours.len()];
    let mut all = Vec::new();
    for start in 0..neighbours.len() {
        if seen[start] {
            continue;
        }
        seen[start] = true;
        let mut members = vec![start];
        let mut next = 0;
        while next < members.len() {
            for &other in &neighbours[members[next]] {
                if !std::mem::replace(&mut seen[other], true) {
                    members.push(other);
                }
            }
            next += 1;
        }
        all.push(members);
    }
    all
}

/// Edges between every two members, `[members, members]`.
fn distances(members: &[usize], neighbours: &[Vec<usize>]) -> Vec<f64> {
    let mut place = vec![usize::MAX; neighbours.len()];
    members.iter().enumerate().for_each(|(at, &node)| place[node] = at);
    let count = members.len();
    let mut all = vec![f64::INFINITY; count * count];
    for (from, row) in all.chunks_exact_mut(count).enumerate() {
        row[from] = 0.0;
        let mut queue = vec![from];
        let mut next = 0;
        while next < queue.len() {
            let here = queue[next];
            for &other in &neighbours[members[here]] {
                let other = place[other];
                if row[other].is_infinite() {
                    row[other] = row[here] + 1.0;
                    queue.push(other);
                }
            }
            next += 1;
        }
    }
    all
}

fn best_start(count: usize, distances: &[f64]) -> Vec<Point> {
    let starts = (BUDGET / (count * count)).clamp(2, MOST_STARTS);
    let tries = (0..starts).map(|start| {
        let mut points = if start == 0 { far_ends(count, distances) } else { scattered(count, start) };
        for _ in 0..STEPS {
            relax(&mut points, distances);
        }
        (stress(&points, distances), points)
    });
    tries.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, points)| points).unwrap_or_default()
}

/// Nodes by their distances to two pairs of far nodes: a start that is unfolded already.
fn far_ends(count: usize, distances: &[f64]) -> Vec<Point> {
    let row = |node: usize| &distances[node * count..(node + 1) * count];
    let farthest =
        |far: &dyn Fn(usize) -> f64| (0..count).fold(0, |best, node| if far(node) > far(best) { node } else { best });
    let a = farthest(&|node| row(0)[node]);
    let b = farthest(&|node| row(a)[node]);
    let c = farthest(&|node| row(a)[node].min(row(b)[node]));
    let d = farthest(&|node| row(c)[node]);
    let mut points = scattered(count, 0);
    for (node, point) in points.iter_mut().enumerate() {
        // A little of the scatter keeps nodes apart that all four see alike.
        let [x, y] = *point;
        *point = [row(a)[node] - row(b)[node] + 0.1 * x, row(c)[node] - row(d)[node] + 0.1 * y];
    }
    points
}

fn scattered(count: usize, start: usize) -> Vec<Point> {
    let mut random = RandomStream::new(0, DOMAIN_LAYOUT, start as u64);
    let side = (count as f64).sqrt();
    let mut number = || random.below(1 << 20) as f64 / f64::from(1 << 20) * side;
    (0..count).map(|_| [number(), number()]).collect()
}

/// One step: every node goes where its distances to all others pull it.
fn relax(points: &mut [Point], distances: &[f64]) {
    let count = points.len();
    for node in 0..count {
        let (mut sum, mut weights) = ([0.0; 2], 0.0);
        let [x, y] = points[node];
        for (other, &[u, v]) in points.iter().enumerate().filter(|(other, _)| *other != node) {
            let wanted = distances[node * count + other];
            let weight = wanted.powi(-2);
            let pull = wanted / (x - u).hypot(y - v).max(1e-9);
            sum[0] += weight * (u + pull * (x - u));
            sum[1] += weight * (v + pull * (y - v));
            weights += weight;
        }
        if weights > 0.0 {
            points[node] = sum.map(|value| value / weights);
        }
    }
}

fn stress(points: &[Point], distances: &[f64]) -> f64 {
    let pairs = (0..points.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
    pairs
        .map(|(a, b)| {
            let wanted = distances[a * points.len() + b];
            let found = (points[a][0] - points[b][0]).hypot(points[a][1] - points[b][1]);
            (found / wanted - 1.0).powi(2)
        })
        .sum()
}

/// Turned so that the direction of largest spread lies flat; begins at (0, 0).
fn flat(mut points: Vec<Point>) -> Vec<Point> {
    let count = points.len().max(1) as f64;
    let centre = [0, 1].map(|axis| points.iter().map(|p| p[axis]).sum::<f64>() / count);
    let spread = |a: usize, b: usize| points.iter().map(|p| (p[a] - centre[a]) * (p[b] - centre[b])).sum::<f64>();
    let angle = 0.5 * (2.0 * spread(0, 1)).atan2(spread(0, 0) - spread(1, 1));
    let (sin, cos) = angle.sin_cos();
    for point in &mut points {
        let [x, y] = [point[0] - centre[0], point[1] - centre[1]];
        *point = [x * cos + y * sin, y * cos - x * sin];
    }
    let least = [0, 1].map(|axis| points.iter().map(|p| p[axis]).fold(f64::INFINITY, f64::min));
    points.iter_mut().for_each(|p| *p = [p[0] - least[0], p[1] - least[1]]);
    points
}

/// Components next to each other, in rows about as wide as the picture is high.
fn shelve(nodes: usize, drawn: &[(Vec<usize>, Vec<Point>)]) -> Vec<Point> {
    let extent = |points: &[Point]| [0, 1].map(|axis| points.iter().map(|p| p[axis]).fold(0.0, f64::max));
    let area: f64 = drawn.iter().map(|(_, points)| extent(points).map(|side| side + GAP).iter().product::<f64>()).sum();
    let widest = drawn.iter().map(|(_, points)| extent(points)[0]).fold(0.0, f64::max);
    let width = (1.6 * area).sqrt().max(widest + GAP);
    let mut places = vec![[0.0; 2]; nodes];
    let (mut x, mut y, mut height) = (0.0, 0.0, 0.0f64);
    for (members, points) in drawn {
        let [w, h] = extent(points);
        if x > 0.0 && x + w > width {
            (x, y, height) = (0.0, y + height + GAP, 0.0);
        }
        members.iter().zip(points).for_each(|(&node, p)| places[node] = [p[0] + x, p[1] + y]);
        x += w + GAP;
        height = height.max(h);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distance(points: &[Point], a: usize, b: usize) -> f64 {
        (points[a][0] - points[b][0]).hypot(points[a][1] - points[b][1])
    }

    #[test]
    fn a_path_and_a_ring_unfold() {
        let path: Vec<(usize, usize)> = (1..8).map(|i| (i - 1, i)).collect();
        let points = layout(8, &path);
        assert!((distance(&points, 0, 7) - 7.0).abs() < 0.1, "{points:?}");
        let ring: Vec<(usize, usize)> = (0..12).map(|i| (i, (i + 1) % 12)).collect();
        let points = layout(12, &ring);
        let sides: Vec<f64> = ring.iter().map(|&(a, b)| distance(&points, a, b)).collect();
        assert!(sides.iter().all(|side| (side / sides[0] - 1.0).abs() < 0.05), "{sides:?}");
    }

    #[test]
    fn nodes_keep_apart_in_odd_graphs() {
        let star: Vec<(usize, usize)> = (1..9).map(|i| (0, i)).collect();
        let full: Vec<(usize, usize)> = (0..9).flat_map(|a| (0..9).map(move |b| (a, b))).collect();
        for (nodes, edges) in
            [(1, vec![]), (5, vec![]), (2, vec![(0, 0)]), (9, star), (9, full), (6, vec![(0, 1), (2, 3)])]
        {
            let points = layout(nodes, &edges);
            assert_eq!(points, layout(nodes, &edges));
            assert!(points.iter().flatten().all(|v| v.is_finite() && *v >= 0.0));
            for a in 0..nodes {
                assert!((0..a).all(|b| distance(&points, a, b) > 0.25), "{nodes} nodes: {points:?}");
            }
        }
        assert!(layout(0, &[]).is_empty());
    }
}
