//! A graph with weighted edges as SVG: one file without external resources. Colours and fonts are
//! attributes of every mark, so programs without CSS (converters, slides, LaTeX) draw it too.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

use gt_train::escape;

use super::layout::layout;

/// More nodes than this are no picture.
pub const MOST_NODES: usize = 1_000;

/// What is drawn.
pub struct Picture<'a> {
    pub title: String,
    pub nodes: usize,
    /// Edges of the data; they decide where nodes stand.
    pub structure: &'a [(usize, usize)],
    /// Edges that are drawn, and what each of them weighs.
    pub edges: &'a [(usize, usize)],
    pub weights: &'a [f32],
    /// What nodes are coloured by, and its name.
    pub categories: Option<(&'a str, &'a [u32])>,
}

/// Length of an edge, unless nodes would lie on each other.
const UNIT: f64 = 68.0;
/// Between the centres of most nodes and their nearest neighbour.
const CLEARANCE: f64 = 30.0;
const RADIUS: f64 = 11.0;
const MARGIN: f64 = 36.0;
const TITLE: f64 = 44.0;
const LEGEND: f64 = 34.0;
const LEAST_WIDTH: f64 = 460.0;
/// Colours that most eyes can distinguish on light and dark backgrounds; white or black text is
/// readable on each.
const COLOURS: [(&str, &str); 10] = [
    ("#4878a8", "#fff"),
    ("#e8913a", "#000"),
    ("#56995a", "#000"),
    ("#c8504f", "#fff"),
    ("#7fb8b2", "#000"),
    ("#9270a8", "#fff"),
    ("#e3c246", "#000"),
    ("#a47558", "#fff"),
    ("#ec9ba6", "#000"),
    ("#8f8a86", "#000"),
];
/// More arrows than this only make the file larger; the heaviest are drawn.
const MOST_ARROWS: usize = 20_000;
/// Entries of the legend.
const MOST_LISTED: usize = 12;

/// Background, and the gap between a disc and the arrows behind it.
const GROUND: &str = "#fff";
/// Text, and text of lesser weight.
const INK: &str = "#1f2328";
const SOFT: &str = "#59626b";
const ARROW: &str = "#0b4f9e";
/// Edges of the data, under the arrows.
const BOND: &str = "#d0d7de";
/// Nodes without categories.
const NODE: (&str, &str) = ("#6e7781", "#fff");

impl Picture<'_> {
    /// The text of the file.
    pub fn svg(&self) -> String {
        let places = layout(self.nodes, self.structure);
        let unit = UNIT.max(CLEARANCE / crowding(&places));
        let place = |[x, y]: [f64; 2]| [x * unit + MARGIN, y * unit + MARGIN + TITLE];
        let places: Vec<[f64; 2]> = places.into_iter().map(place).collect();
        let side = |axis: usize, least: f64| places.iter().map(|p| p[axis] + MARGIN).fold(least, f64::max);
        let (width, drawn) =
            (side(0, LEAST_WIDTH).max(9.0 * self.title.chars().count() as f64), side(1, TITLE + 2.0 * MARGIN));
        let rows = 1 + usize::from(self.categories.is_some());
        let height = drawn + LEGEND * rows as f64 + 8.0;
        // A small graph stands in the middle of a picture that is wide enough for its words.
        let shift = (width - side(0, 0.0)) / 2.0;
        let most = self.weights.iter().copied().fold(0.0, f32::max);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" \
             role=\"img\" font-family=\"system-ui, Helvetica, Arial, sans-serif\">\n<title>{0}</title>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"{GROUND}\"/>\n\
             <text x=\"{MARGIN}\" y=\"28\" fill=\"{INK}\" font-size=\"14\" font-weight=\"600\">{0}</text>\n\
             <g transform=\"translate({shift:.1} 0)\">\n",
            escape(&self.title)
        );
        self.bonds(&mut out, &places);
        self.arrows(&mut out, &places, most);
        self.discs(&mut out, &places);
        out += "</g>\n";
        self.legend(&mut out, drawn, most);
        out + "</svg>\n"
    }

    /// The data's edges, faint, under the arrows. They are left out if there are many, because they
    /// would hide the rest.
    fn bonds(&self, out: &mut String, places: &[[f64; 2]]) {
        let pairs: BTreeSet<(usize, usize)> = self.structure.iter().map(|&(a, b)| (a.min(b), a.max(b))).collect();
        if pairs.len() > 3 * self.nodes {
            return;
        }
        *out += "<g stroke-width=\"6\" stroke-linecap=\"round\">\n";
        for (a, b) in pairs {
            let ([x, y], [u, v]) = (places[a], places[b]);
            let _ = writeln!(out, "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{u:.1}\" y2=\"{v:.1}\" stroke=\"{BOND}\"/>");
        }
        *out += "</g>\n";
    }

    fn arrows(&self, out: &mut String, places: &[[f64; 2]], most: f32) {
        *out += "<g>\n";
        let mut seen: HashMap<(usize, usize), usize> = HashMap::new();
        // Light ones first, so that heavy ones lie on top.
        let mut order: Vec<usize> = (0..self.edges.len()).collect();
        order.sort_by(|&a, &b| self.weights[a].total_cmp(&self.weights[b]).then(a.cmp(&b)));
        for &edge in &order[order.len().saturating_sub(MOST_ARROWS)..] {
            let (source, target) = self.edges[edge];
            let weight = self.weights[edge];
            let copy = seen.entry((source, target)).or_default();
            *copy += 1;
            let bend = 0.16 * *copy as f64;
            let curve = if source == target {
                Curve::around(places[source], *copy)
            } else {
                Curve::between(places[source], places[target], bend)
            };
            curve.draw(out, weight, most, &format!("{source} → {target}: {weight:.4}"));
        }
        *out += "</g>\n";
    }

    fn discs(&self, out: &mut String, places: &[[f64; 2]]) {
        *out += "<g font-size=\"10\" text-anchor=\"middle\">\n";
        for (node, [x, y]) in places.iter().enumerate() {
            let category = self.categories.map(|(_, values)| values[node]);
            let (fill, ink) = category.map_or(NODE, colour);
            let about = category
                .map_or(String::new(), |value| format!(": {} {value}", escape(self.categories.map_or("", |c| c.0))));
            let _ = writeln!(
                out,
                "<g><title>node {node}{about}</title><circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{RADIUS}\" fill=\"{fill}\" stroke=\"{GROUND}\" stroke-width=\"1.5\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" fill=\"{ink}\">{node}</text></g>",
                y + 3.5
            );
        }
        *out += "</g>\n";
    }

    fn legend(&self, out: &mut String, top: f64, most: f32) {
        let y = top + LEGEND / 2.0;
        let mut x = MARGIN;
        if !self.edges.is_empty() {
            small(out, x, y, "weight");
            x += 48.0;
            for share in [1.0, 0.5, 0.1] {
                let weight = most * share;
                Curve::between([x - RADIUS, y], [x + 46.0 + RADIUS, y], 0.0).draw(out, weight, most, "");
                small(out, x + 54.0, y, &format!("{weight:.3}"));
                x += 104.0;
            }
            if self.edges.len() > MOST_ARROWS {
                small(out, x, y, &format!("the heaviest {MOST_ARROWS} of {}", self.edges.len()));
            }
        } else {
            small(out, x, y, "no edges");
        }
        let Some((name, values)) = self.categories else { return };
        let y = y + LEGEND;
        let mut kinds: Vec<u32> = values.to_vec();
        kinds.sort_unstable();
        kinds.dedup();
        small(out, MARGIN, y, name);
        let mut x = MARGIN + 6.5 * name.chars().count() as f64 + 12.0;
        for &kind in kinds.iter().take(MOST_LISTED) {
            let _ = write!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{}\"/>", colour(kind).0);
            small(out, x + 9.0, y, &kind.to_string());
            x += 24.0 + 7.0 * kind.to_string().len() as f64;
        }
        if kinds.len() > MOST_LISTED {
            small(out, x, y, &format!("and {} more", kinds.len() - MOST_LISTED));
        }
    }
}

/// Writes a small text of the legend, centred at a height.
fn small(out: &mut String, x: f64, middle: f64, text: &str) {
    let (y, text) = (middle + 4.0, escape(text));
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{SOFT}\" font-size=\"11\">{text}</text>");
}

/// An arrow: a quadratic or cubic curve and its head.
struct Curve {
    path: String,
    tip: [f64; 2],
    /// Where it points, of length 1.
    towards: [f64; 2],
}

impl Curve {
    /// From disc to disc, bent to its own right, so that an edge and its reverse do not overlap.
    fn between([x, y]: [f64; 2], [u, v]: [f64; 2], bend: f64) -> Self {
        let (dx, dy) = (u - x, v - y);
        let middle = [(x + u) / 2.0 - dy * bend, (y + v) / 2.0 + dx * bend];
        let from = shifted([x, y], middle, RADIUS + 1.0);
        let tip = shifted([u, v], middle, RADIUS + 2.0);
        let towards = direction(middle, [u, v]);
        let path =
            format!("M{:.1} {:.1}Q{:.1} {:.1} {:.1} {:.1}", from[0], from[1], middle[0], middle[1], tip[0], tip[1]);
        Self { path, tip, towards }
    }

    /// A loop above a node.
    fn around([x, y]: [f64; 2], copy: usize) -> Self {
        let size = RADIUS * (1.6 + 0.7 * copy as f64);
        let (from, tip) = ([x - 6.0, y - RADIUS], [x + 6.0, y - RADIUS - 1.0]);
        let (a, b) = ([x - size, y - RADIUS - 1.4 * size], [x + size, y - RADIUS - 1.4 * size]);
        let path = format!(
            "M{:.1} {:.1}C{:.1} {:.1} {:.1} {:.1} {:.1} {:.1}",
            from[0], from[1], a[0], a[1], b[0], b[1], tip[0], tip[1]
        );
        Self { path, tip, towards: direction(b, tip) }
    }

    fn draw(&self, out: &mut String, weight: f32, most: f32, about: &str) {
        let share = if most > 0.0 { f64::from(weight / most) } else { 0.0 };
        let (stroke, opacity) = (0.4 + 3.0 * share, 0.06 + 0.9 * share.powf(1.5));
        let Self { path, tip: [x, y], towards: [dx, dy] } = self;
        let (long, wide) = (4.0 + 4.0 * share, 2.0 + 2.5 * share);
        let (bx, by) = (x - dx * long, y - dy * long);
        let title = if about.is_empty() { String::new() } else { format!("<title>{about}</title>") };
        let _ = writeln!(
            out,
            "<g opacity=\"{opacity:.2}\">{title}\
             <path d=\"{path}\" fill=\"none\" stroke=\"{ARROW}\" stroke-width=\"{stroke:.2}\"/>\
             <polygon points=\"{x:.1},{y:.1} {:.1},{:.1} {:.1},{:.1}\" fill=\"{ARROW}\"/></g>",
            bx - dy * wide,
            by + dx * wide,
            bx + dy * wide,
            by - dx * wide
        );
    }
}

/// The distance to the nearest neighbour that nine nodes of ten keep.
fn crowding(places: &[[f64; 2]]) -> f64 {
    let distance = |a: usize, b: usize| (places[a][0] - places[b][0]).hypot(places[a][1] - places[b][1]);
    let nearest = |a: usize| (0..places.len()).filter(|b| *b != a).map(|b| distance(a, b)).fold(1.0, f64::min);
    let mut all: Vec<f64> = (0..places.len()).map(nearest).collect();
    all.sort_unstable_by(f64::total_cmp);
    all.get(all.len() / 10).map_or(1.0, |distance| distance.max(0.05))
}

fn direction([x, y]: [f64; 2], [u, v]: [f64; 2]) -> [f64; 2] {
    let length = (u - x).hypot(v - y).max(1e-9);
    [(u - x) / length, (v - y) / length]
}

/// A point that lies `by` nearer to another.
fn shifted(point: [f64; 2], to: [f64; 2], by: f64) -> [f64; 2] {
    let [dx, dy] = direction(point, to);
    [point[0] + dx * by, point[1] + dy * by]
}

fn colour(category: u32) -> (&'static str, &'static str) {
    COLOURS[category as usize % COLOURS.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Colours of a tag: values of its `fill` and `stroke`.
    fn colours(tag: &str) -> Vec<&str> {
        let value = |name: &str| tag.split_once(&format!(" {name}=\"")).and_then(|(_, rest)| rest.split('"').next());
        ["fill", "stroke"].into_iter().filter_map(value).collect()
    }

    #[test]
    fn every_mark_has_its_colour_without_css() {
        let (structure, edges) = ([(0, 1), (1, 2)], [(0, 1), (1, 0), (2, 2)]);
        for categories in [None, Some(("a<b", &[0, 1, 17][..]))] {
            for shown in [0, 3] {
                let (edges, weights) = (&edges[..shown], &[0.5, 0.2, 1.0][..shown]);
                let picture =
                    Picture { title: "t".into(), nodes: 3, structure: &structure, edges, weights, categories };
                let svg = picture.svg();
                for css in ["var(", "<style", "style=", "class="] {
                    assert!(!svg.contains(css), "{css} in {svg}");
                }
                let mut shapes = 0;
                for tag in svg.split('<').map(|tag| tag.split('>').next().unwrap_or("")) {
                    let name = tag.split([' ', '/']).next().unwrap_or("");
                    if ["rect", "text", "line", "path", "polygon", "circle"].contains(&name) {
                        let colours = colours(tag);
                        assert!(colours.iter().any(|colour| colour.starts_with('#')), "<{tag}>");
                        assert!(colours.iter().all(|colour| *colour == "none" || colour.starts_with('#')), "<{tag}>");
                        shapes += 1;
                    }
                }
                // Background, title, legend, two bonds, three discs with names.
                // Each arrow has two marks.
                assert!(shapes >= 11 + 2 * shown, "{shapes} shapes");
            }
        }
    }
}
