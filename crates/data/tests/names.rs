//! Categories and classes with names, and classes written as real numbers, in every format.

mod support;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray};
use graph_transformer_data::{
    ColumnChoice, DataError, Expected, FileRoles, GraphReader, Labels, Problem, Reason, Task, read, read_expecting,
    read_with, write,
};
use gt_graph::{Schema, TargetKind};
use support::write_columns;

const FORMS: [&str; 4] = ["g.jsonl", "g.parquet", "g_nodes.csv", "p_nodes.parquet"];

/// A graph of two nodes and one edge: the name of each node, and a target.
type Graph<'a> = ([&'a str; 2], Target<'a>);

#[derive(Clone, Copy)]
enum Target<'a> {
    Name(&'a str),
    Real(f64),
}

fn write_graphs(graphs: &[Graph<'_>], form: &str, folder: &Path) -> PathBuf {
    let path = folder.join(form);
    let names = || graphs.iter().flat_map(|(names, _)| *names);
    let target: ArrayRef = match graphs[0].1 {
        Target::Name(_) => {
            let name = |(_, target): &Graph<'_>| match target {
                Target::Name(name) => Some((*name).to_owned()),
                Target::Real(_) => None,
            };
            Arc::new(graphs.iter().map(name).collect::<StringArray>())
        }
        Target::Real(_) => {
            let number = |(_, target): &Graph<'_>| match target {
                Target::Name(_) => None,
                Target::Real(number) => Some(*number),
            };
            Arc::new(graphs.iter().map(number).collect::<Float64Array>())
        }
    };
    let text = |target: &Target<'_>, quote: &str| match target {
        Target::Name(name) => format!("{quote}{name}{quote}"),
        Target::Real(number) => format!("{number:?}"),
    };
    let numbers = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let each = |count: usize| (0..graphs.len() as i64).flat_map(|graph| vec![graph; count]).collect::<Vec<_>>();
    match form {
        "g.jsonl" => {
            let line = |([a, b], target): &Graph<'_>| {
                let y = text(target, "\"");
                format!("{{\"node_feat\": [[\"{a}\"], [\"{b}\"]], \"edge_index\": [[0], [1]], \"y\": [{y}]}}\n")
            };
            std::fs::write(&path, graphs.iter().map(line).collect::<String>()).unwrap();
        }
        "g.parquet" => {
            let mut kinds = ListBuilder::new(ListBuilder::new(StringBuilder::new()));
            let mut edges = ListBuilder::new(ListBuilder::new(Int64Builder::new()));
            for (names, _) in graphs {
                names.iter().for_each(|name| kinds.values().append_value([Some(*name)]));
                kinds.append(true);
                [0, 1].into_iter().for_each(|end| edges.values().append_value([Some(end)]));
                edges.append(true);
            }
            let columns: Vec<(&str, ArrayRef)> =
                vec![("node_feat", Arc::new(kinds.finish())), ("edge_index", Arc::new(edges.finish())), ("y", target)];
            write_columns(&path, columns);
        }
        "g_nodes.csv" => {
            let mut nodes = "graph,node,node_feat\n".to_owned();
            let (mut edges, mut table) = ("graph,src,dst\n".to_owned(), "graph,y\n".to_owned());
            for (graph, (names, target)) in graphs.iter().enumerate() {
                names.iter().enumerate().for_each(|(at, name)| nodes += &format!("{graph},{at},{name}\n"));
                edges += &format!("{graph},0,1\n");
                table += &format!("{graph},{}\n", text(target, ""));
            }
            std::fs::write(&path, nodes).unwrap();
            std::fs::write(folder.join("g_edges.csv"), edges).unwrap();
            std::fs::write(folder.join("g_graphs.csv"), table).unwrap();
        }
        _ => {
            let kinds: ArrayRef = Arc::new(names().map(Some).collect::<StringArray>());
            let places = numbers((0..2 * graphs.len() as i64).map(|at| at % 2).collect());
            write_columns(&path, vec![("graph", numbers(each(2))), ("node", places), ("node_feat", kinds)]);
            let ends = |end: i64| numbers(vec![end; graphs.len()]);
            let edges = vec![("graph", numbers(each(1))), ("src", ends(0)), ("dst", ends(1))];
            write_columns(&folder.join("p_edges.parquet"), edges);
            write_columns(&folder.join("p_graphs.parquet"), vec![("graph", numbers(each(1))), ("y", target)]);
        }
    }
    path
}

const GRAPHS: [Graph<'static>; 3] =
    [(["O", "C"], Target::Name("toxic")), (["C", "10"], Target::Name("safe")), (["N", "C"], Target::Name("toxic"))];

#[test]
fn names_are_sorted_and_the_same_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let mut reversed = GRAPHS;
    reversed.reverse();
    for form in FORMS {
        let data = read(&write_graphs(&GRAPHS, form, folder.path())).unwrap();
        let (column, target) = (&data.schema().node.categorical[0], data.schema().target.as_ref().unwrap());
        assert_eq!((&column.names[..], column.size), (&["10", "C", "N", "O"].map(str::to_owned)[..], 4), "{form}");
        assert_eq!(
            (target.kind, &target.columns[0].names[..]),
            (TargetKind::Class, &["safe".into(), "toxic".into()][..])
        );
        assert_eq!(data.graphs().graph(0).node().categorical, [3, 1], "{form}");
        assert_eq!(data.graphs().target().unwrap().classes().unwrap(), [1, 0, 1], "{form}");
        let other = read(&write_graphs(&reversed, form, folder.path())).unwrap();
        assert_eq!(other.schema(), data.schema(), "{form}: the order of rows has no effect");
        // Every format keeps the names.
        for copy in ["c.jsonl", "c.parquet", "c_nodes.csv", "d_nodes.parquet"] {
            let path = folder.path().join(copy);
            write(&data, &path).unwrap();
            let copied = read(&path).unwrap();
            assert!(copied.schema() == data.schema() && copied.graphs() == data.graphs(), "{form} to {copy}");
        }
    }
}

fn expecting(schema: &Schema) -> Expected<'_> {
    Expected { schema: Cow::Borrowed(schema), encoding: None, labels: Labels::Read }
}

#[test]
fn a_model_knows_names_in_every_format_and_rejects_others() {
    let folder = tempfile::tempdir().unwrap();
    let known = read(&write_graphs(&GRAPHS, "g.jsonl", folder.path())).unwrap();
    let new = [(["N", "O"], Target::Name("toxic")), (["C", "Xe"], Target::Name("toxic"))];
    for form in FORMS {
        let path = write_graphs(&new, form, folder.path());
        let chunks: Vec<_> =
            GraphReader::open(&path, &expecting(known.schema())).unwrap().map(Result::unwrap).collect();
        assert_eq!(chunks[0].graphs.graph(0).node().categorical, [2, 3], "{form}");
        assert_eq!(chunks[0].graphs.graph(0).target().unwrap().classes().unwrap(), [1], "{form}");
        let Reason::Cell { problem, row: 1, .. } = &chunks[0].results[1].as_ref().unwrap_err().reason else {
            panic!("{form}")
        };
        let Problem::Untrained(problem) = problem else { panic!("{form}: {problem}") };
        assert!(
            matches!(&**problem, Problem::UnknownName { value, known } if &**value == "Xe" && known.count == 4),
            "{form}: {problem}"
        );
        assert!(read_expecting(&path, &expecting(known.schema())).is_err(), "{form}");
        // With an entry for others, the name is one of them.
        let mut open = known.schema().clone();
        (open.node.categorical[0].size, open.node.categorical[0].other) = (5, true);
        let data = read_expecting(&path, &expecting(&open)).unwrap();
        assert_eq!(data.graphs().graph(1).node().categorical, [1, 4], "{form}");
        // A file that states its own names is matched by name, not by number.
        let own = write_graphs(&new[..1], form, folder.path());
        let copy = folder.path().join("own.parquet");
        write(&read(&own).unwrap(), &copy).unwrap();
        let data = read_expecting(&copy, &expecting(known.schema())).unwrap();
        assert_eq!(data.graphs().graph(0).node().categorical, [2, 3], "{form}");
        assert_eq!(data.graphs().target().unwrap().classes().unwrap(), [1], "{form}");
    }
}

#[test]
fn a_missing_column_is_reported_with_all_columns_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let known = read(&write_graphs(&GRAPHS, "g.jsonl", folder.path())).unwrap();
    let mut other = known.schema().clone();
    other.node.continuous.push("size".into());
    for (form, columns) in [
        ("g.parquet", &["node_feat", "edge_index", "y"][..]),
        ("g_nodes.csv", &["graph", "node", "node_feat"]),
        ("p_nodes.parquet", &["graph", "node", "node_feat"]),
    ] {
        let path = write_graphs(&GRAPHS, form, folder.path());
        let message = read_expecting(&path, &expecting(&other)).unwrap_err().to_string();
        let listed = columns.iter().all(|column| message.contains(&format!("\"{column}\"")));
        assert!(listed, "{form}: {message}");
    }
    for form in FORMS {
        let path = write_graphs(&GRAPHS, form, folder.path());
        for columns in [
            ColumnChoice { targets: vec!["nothing".into()], ..ColumnChoice::default() },
            ColumnChoice { features: vec!["nothing".into()], ..ColumnChoice::default() },
            ColumnChoice { ignore: vec!["nothing".into()], ..ColumnChoice::default() },
        ] {
            let error = read_with(&path, &FileRoles { columns, ..FileRoles::default() }).unwrap_err();
            let message = error.to_string();
            assert!(["\"nothing\"", "\"node_feat\"", "\"y\""].iter().all(|word| message.contains(word)), "{message}");
        }
    }
}

#[test]
fn real_numbers_that_are_classes_are_read_as_classes_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let with = |values: &[f64]| -> Vec<Graph<'static>> {
        values.iter().map(|value| (["C", "N"], Target::Real(*value))).collect()
    };
    let kind = |path: &Path, task: Task| {
        let columns = ColumnChoice { task, ..ColumnChoice::default() };
        let data = read_with(path, &FileRoles { columns, ..FileRoles::default() })?;
        Ok::<_, DataError>((data.schema().target.as_ref().unwrap().kind, data.has_classes_from_numbers()))
    };
    let (class, float) = (TargetKind::Class, TargetKind::Float);
    let plain = [0.0, 1.0].repeat(5);
    for form in FORMS {
        for (values, expected) in [
            (plain.clone(), (class, true)),
            ([0.0, 1.0].repeat(4), (float, false)),
            ([0.0, 2.0].repeat(5), (float, false)),
            ([1.0, 2.0].repeat(5), (float, false)),
            ([&plain[..], &[0.5]].concat(), (float, false)),
            ([&plain[..], &[-1.0]].concat(), (float, false)),
        ] {
            let path = write_graphs(&with(&values), form, folder.path());
            assert_eq!(kind(&path, Task::Auto).unwrap(), expected, "{form}: {values:?}");
            assert_eq!(kind(&path, Task::Regression).unwrap(), (float, false), "{form}");
        }
        let path = write_graphs(&with(&[0.0, 3.0]), form, folder.path());
        assert_eq!(kind(&path, Task::Classification).unwrap(), (class, false), "{form}");
        let path = write_graphs(&with(&[0.0, 2.5]), form, folder.path());
        let message = kind(&path, Task::Classification).unwrap_err().to_string();
        assert!(message.contains("2.5") && message.contains("\"y\""), "{form}: {message}");
        assert!(message.contains("graph 1") || message.contains("row 2"), "{form}: {message}");
        // A file that states its kind keeps it.
        let path = write_graphs(&with(&plain), form, folder.path());
        let columns = ColumnChoice { task: Task::Regression, ..ColumnChoice::default() };
        let numbers = read_with(&path, &FileRoles { columns, ..FileRoles::default() }).unwrap();
        let copy = folder.path().join("stated.jsonl");
        write(&numbers, &copy).unwrap();
        assert_eq!(kind(&copy, Task::Auto).unwrap(), (float, false), "{form}");
        assert_eq!(kind(&copy, Task::Classification).unwrap(), (class, false), "{form}");
    }
}

#[test]
fn texts_among_numbers_are_named_wherever_they_come() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("g.jsonl");
    let read_lines = |values: &[&str]| {
        let line = |value: &&str| format!("{{\"node_feat\": [[{value}]], \"edge_index\": [[], []]}}\n");
        std::fs::write(&path, values.iter().map(line).collect::<String>()).unwrap();
        read(&path)
    };
    // More graphs than a chunk has: whole numbers first, names later.
    let many = [vec!["3"; 1500], vec!["\"C\"", "3", "12"]].concat();
    let data = read_lines(&many).unwrap();
    assert_eq!(data.schema().node.categorical[0].names, ["12", "3", "C"]);
    let found: Vec<u32> = [0, 1500, 1501, 1502].map(|graph| data.graphs().graph(graph).node().categorical[0]).into();
    assert_eq!(found, [1, 2, 1, 0]);
    for values in [vec!["1.5", "\"heavy\""], vec!["\"heavy\"", "1.5"], [vec!["1.5"; 1500], vec!["\"heavy\""]].concat()]
    {
        let graph = values.iter().position(|value| *value == "\"heavy\"").unwrap();
        let message = read_lines(&values).unwrap_err().to_string();
        assert!(message.contains(&format!("graph {graph}")) && message.contains("heavy"), "{message}");
    }
    let message = read_lines(&[vec!["\"heavy\""; 1500], vec!["1.5"]].concat()).unwrap_err().to_string();
    assert!(message.contains("graph 1500") && message.contains("1.5"), "{message}");
}
