//! Matches the rows of tables: graphs and nodes by their ids, edges by the ids of their ends.

use std::collections::{BTreeMap, HashMap};

use gt_graph::Level;

use super::file_roles::FileRoles;
use super::table::Table;
use crate::error::{DataError, FileProblem, Result};
use crate::reason::{Problem, Reason};

/// The value of an id cell. Integers are equal across tables even if one column has decimal points.
/// Any other text, also with leading zeros, is a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Id {
    Number(i64),
    Word(String),
}

impl From<String> for Id {
    fn from(text: String) -> Self {
        let whole = text.split_once('.').filter(|(_, rest)| rest.bytes().all(|b| b == b'0')).map_or(&*text, |(w, _)| w);
        match whole.parse::<i64>() {
            Ok(number) if number.to_string() == whole => Id::Number(number),
            _ => Id::Word(text),
        }
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Id::Number(number) => number.fmt(f),
            Id::Word(word) => word.fmt(f),
        }
    }
}

fn read_ids(table: &Table, column: usize) -> Result<Vec<Id>> {
    let column = &table.columns[column];
    let missing = |row: usize| DataError::row(&table.path, row + 1, &column.name, Problem::Null);
    let id = |row: usize| {
        let text = column.text(row).ok_or_else(|| missing(row))?;
        match column.is_inexact(row) {
            true => Err(DataError::row(&table.path, row + 1, &column.name, Problem::InexactId(text))),
            false => Ok(Id::from(text)),
        }
    };
    (0..table.rows).map(id).collect()
}

/// Rows of a table sorted by graph, stable.
pub(super) struct ByGraph {
    pub(super) rows: Vec<usize>,
    pub(super) offsets: Vec<usize>,
}

impl ByGraph {
    fn new(graph_of: &[usize], graphs: usize) -> Self {
        let mut offsets = vec![0; graphs + 1];
        graph_of.iter().for_each(|&g| offsets[g + 1] += 1);
        for g in 0..graphs {
            offsets[g + 1] += offsets[g];
        }
        let mut next = offsets.clone();
        let mut rows = vec![0; graph_of.len()];
        for (row, &g) in graph_of.iter().enumerate() {
            rows[next[g]] = row;
            next[g] += 1;
        }
        Self { rows, offsets }
    }

    pub(super) fn range(&self, graph: usize) -> std::ops::Range<usize> {
        self.offsets[graph]..self.offsets[graph + 1]
    }
}

/// The graph of each row, and the edges by node positions within their graph.
pub(super) struct Ids {
    pub(super) graphs: usize,
    /// Graphs with edges whose ends do not exist.
    pub(super) broken: BTreeMap<usize, Reason>,
    pub(super) nodes: ByGraph,
    pub(super) edges: ByGraph,
    pub(super) src: Vec<u32>,
    pub(super) dst: Vec<u32>,
    /// Columns that are ids, not features.
    pub(super) node_columns: Vec<usize>,
    pub(super) edge_columns: Vec<usize>,
}

impl Ids {
    pub(super) fn new(nodes: &Table, edges: &Table, graphs: Option<&Table>, mapping: &FileRoles) -> Result<Self> {
        let graph_column = |table| mapping.find(mapping.graph.as_ref(), table, &["graph"]);
        let node_graph = graph_column(nodes);
        let edge_graph = graph_column(edges);
        let node_id = mapping.find(mapping.node.as_ref(), nodes, &["node", "id"]);
        let end = |named: &Option<String>, defaults: &[&str], what: &str| {
            mapping.find(named.as_ref(), edges, defaults).ok_or_else(|| {
                let found = edges.names().map(str::to_owned).collect();
                let hint = "; gt data convert takes the ends of the edges as --src and --dst";
                DataError::file(&edges.path, FileProblem::MissingColumn { column: what.into(), found, hint })
            })
        };
        let src = end(&mapping.src, &["src", "source", "from"], "src")?;
        let dst = end(&mapping.dst, &["dst", "destination", "to", "target"], "dst")?;

        // The table of graphs lists the graphs. Without that table the nodes name them, in order of
        // appearance, or there is one graph.
        let mut known: HashMap<Id, usize> = HashMap::new();
        let listed = graphs.map(|table| {
            let column = graph_column(table).ok_or_else(|| {
                let found = table.names().map(str::to_owned).collect();
                let hint = "; gt data convert takes the column of the graphs as --graph-column";
                DataError::file(&table.path, FileProblem::MissingColumn { column: "graph".into(), found, hint })
            })?;
            for (row, id) in read_ids(table, column)?.into_iter().enumerate() {
                let text = id.to_string();
                if known.insert(id, row).is_some() {
                    return Err(DataError::row(&table.path, row + 1, "graph", Problem::Duplicate { id: text }));
                }
            }
            Ok(table.rows)
        });
        let listed = listed.transpose()?;
        let single = || match listed {
            Some(rows) if rows != 1 => Err(DataError::file(&nodes.path, FileProblem::GraphsUntold { graphs: rows })),
            _ => Ok(vec![0; nodes.rows]),
        };
        let node_of: Vec<usize> = match node_graph {
            None => single()?,
            Some(column) => graph_indices(nodes, column, &mut known, listed.is_none())?,
        };
        let count = listed.unwrap_or_else(|| if node_graph.is_some() { known.len() } else { 1 });

        let by_graph = ByGraph::new(&node_of, count);
        let mut place = vec![0u32; nodes.rows];
        for graph in 0..count {
            let range = by_graph.range(graph);
            u32::try_from(range.len()).map_err(|_| DataError::file(&nodes.path, FileProblem::TooLarge))?;
            by_graph.rows[range].iter().enumerate().for_each(|(at, &row)| place[row] = at as u32);
        }
        // The key of a node is its id, together with its graph if edges name their graph.
        let local = edge_graph.is_some() || count == 1;
        let names = match node_id {
            Some(column) => read_ids(nodes, column)?,
            None => {
                (0..nodes.rows).map(|row| Id::Number(if local { i64::from(place[row]) } else { row as i64 })).collect()
            }
        };
        let mut node_at: HashMap<(usize, Id), usize> = HashMap::with_capacity(nodes.rows);
        for (row, id) in names.into_iter().enumerate() {
            let text = id.to_string();
            if node_at.insert((if local { node_of[row] } else { 0 }, id), row).is_some() {
                let column = node_id.map_or("node", |at| nodes.columns[at].name.as_str());
                return Err(DataError::row(&nodes.path, row + 1, column, Problem::Duplicate { id: text }));
            }
        }
        let edge_of: Vec<usize> = match edge_graph {
            Some(column) => graph_indices(edges, column, &mut known, false)?,
            None => vec![0; edges.rows],
        };
        let resolve = |column: usize| -> Result<Vec<Result<usize, Problem>>> {
            let ids = read_ids(edges, column)?.into_iter().enumerate();
            let resolved = ids.map(|(row, id)| {
                let text = id.to_string();
                // Nodes without ids are numbered by position. A position may be written with
                // leading zeros.
                let counted = node_id.is_none().then(|| text.parse().ok()).flatten();
                let id = counted.map_or(id, Id::Number);
                let node = node_at.get(&(if local { edge_of[row] } else { 0 }, id)).copied();
                node.ok_or(Problem::NoSuchNode { id: text, counted: node_id.is_none() })
            });
            Ok(resolved.collect())
        };
        let (mut sources, mut targets) = (resolve(src)?, resolve(dst)?);
        let mut rows: Vec<usize> = (0..edges.rows).collect();
        if mapping.undirected {
            for row in 0..edges.rows {
                if sources[row] != targets[row] {
                    let (s, d) = (sources[row].clone(), targets[row].clone());
                    sources.push(d);
                    targets.push(s);
                    rows.push(row);
                }
            }
        }
        let mut edge_graphs = Vec::with_capacity(rows.len());
        let mut nowhere: Vec<(usize, usize, Problem)> = Vec::new();
        for (at, &row) in rows.iter().enumerate() {
            let wrong = |column: usize, problem: &Problem| {
                DataError::row(&edges.path, row + 1, &edges.columns[column].name, problem.clone())
            };
            let graph = match (&sources[at], &targets[at]) {
                (Ok(a), Ok(b)) if node_of[*a] != node_of[*b] => return Err(wrong(dst, &Problem::TwoGraphs)),
                (Ok(node), Ok(_)) => node_of[*node],
                // The graph is that of the row, or that of the other end.
                (Err(problem), other) | (other, Err(problem)) => {
                    let column = if sources[at].is_err() { src } else { dst };
                    let other = other.as_ref().map(|&node| node_of[node]);
                    let graph = if local { edge_of[row] } else { other.map_err(|_| wrong(column, problem))? };
                    nowhere.push((at, column, problem.clone()));
                    graph
                }
            };
            edge_graphs.push(graph);
        }
        let sorted = ByGraph::new(&edge_graphs, count);
        let mut broken = BTreeMap::new();
        for (at, column, problem) in nowhere {
            let graph = edge_graphs[at];
            let range = sorted.range(graph);
            let row = sorted.rows[range].iter().position(|&row| row == at).unwrap_or(0);
            let reason = Reason::cell(Level::Edge, row, &edges.columns[column].name, problem);
            broken.entry(graph).or_insert(reason);
        }
        let pick = |ends: &[Result<usize, Problem>]| {
            let end = |&at: &usize| ends[at].as_ref().map_or(0, |&node| place[node]);
            sorted.rows.iter().map(end).collect()
        };
        Ok(Self {
            graphs: count,
            broken,
            src: pick(&sources),
            dst: pick(&targets),
            nodes: by_graph,
            edges: ByGraph { rows: sorted.rows.iter().map(|&at| rows[at]).collect(), offsets: sorted.offsets },
            node_columns: [node_graph, node_id].into_iter().flatten().collect(),
            edge_columns: [edge_graph, Some(src), Some(dst)].into_iter().flatten().collect(),
        })
    }
}

/// The position of each row's graph. Unknown graphs are added if `grow` is true.
fn graph_indices(table: &Table, column: usize, known: &mut HashMap<Id, usize>, grow: bool) -> Result<Vec<usize>> {
    let ids = read_ids(table, column)?.into_iter().enumerate();
    ids.map(|(row, id)| {
        let next = known.len();
        match known.get(&id) {
            Some(&graph) => Ok(graph),
            None if grow => {
                known.insert(id, next);
                Ok(next)
            }
            None => {
                let problem = Problem::NoSuchGraph(id.to_string());
                Err(DataError::row(&table.path, row + 1, &table.columns[column].name, problem))
            }
        }
    })
    .collect()
}
