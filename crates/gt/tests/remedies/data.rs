//! Errors about data.

use crate::case::Step::{Copy, Gt, Replace, Write};
use crate::case::{Case, apply_all};

const VALUES: &[Case] = &[
    Case {
        before: &[],
        call: "train --data gap_nodes.csv --out run",
        says: "row 8, column \"size\": the value is missing; fill it in, or leave the column out with --ignore size; \
               if it is to be predicted, pass --target size",
        remedies: &[
            &[Copy("t_nodes.csv", "gap_nodes.csv"), Gt("train --data gap_nodes.csv --out run")],
            &[Gt("train --data gap_nodes.csv --out run --ignore size")],
            &[Gt("train --data gap_nodes.csv --out run --target size")],
            &[Gt("data info gap_nodes.csv --target size")],
            &[Gt("data split gap_nodes.csv --out s.jsonl --ignore size")],
            &[Gt("encode gap_nodes.csv --walk 2 --out e.jsonl --ignore size")],
            &[Gt("data convert gap_nodes.csv c.jsonl --target size")],
        ],
    },
    Case {
        before: &[Write(
            "gap.jsonl",
            "{\"node_feat\": [[0, 1.5], [1, null]], \"edge_index\": [[0], [1]], \"y\": 0.5}\n",
        )],
        call: "data info gap.jsonl",
        says: "the value is missing; fill it in, or leave the column out with --ignore node_feat1",
        remedies: &[
            &[Replace("gap.jsonl", "null", "2.5"), Gt("data info gap.jsonl")],
            &[Gt("data info gap.jsonl --ignore node_feat1")],
        ],
    },
    Case {
        before: &[
            Gt("train --data plain.jsonl --out run"),
            Write("null.jsonl", "{\"node_feat\": [[\"C\"], [null]], \"edge_index\": [[0], [1]]}\n"),
        ],
        call: "predict run --data null.jsonl --out p.csv --on-error stop",
        says: "the value is missing; fill it in",
        remedies: &[&[
            Replace("null.jsonl", "null", "\"N\""),
            Gt("predict run --data null.jsonl --out p.csv --on-error stop"),
        ]],
    },
    Case {
        before: &[Replace("m.jsonl", "\"y\": 1.25", "\"y\": \"much\"")],
        call: "data info m.jsonl --task regression",
        says: "correct it (a target may also be left empty)",
        remedies: &[
            &[Replace("m.jsonl", "\"much\"", "1.5"), Gt("data info m.jsonl --task regression")],
            &[Replace("m.jsonl", "\"much\"", "null"), Gt("data info m.jsonl --task regression")],
        ],
    },
    Case {
        before: &[Gt("train --data t_nodes.csv --out run"), Replace("t_nodes.csv", "8,z,", "8,new,")],
        call: "predict run --data t_nodes.csv --out p.csv",
        says: "to accept unknown categories, train with --set data.other=true",
        remedies: &[&[
            Replace("t_nodes.csv", "8,new,", "8,z,"),
            Gt("train --data t_nodes.csv --out other --set data.other=true"),
            Replace("t_nodes.csv", "8,z,", "8,new,"),
            Gt("predict other --data t_nodes.csv --out p.csv --on-error stop"),
        ]],
    },
    Case {
        before: &[Write("below.jsonl", "{\"node_feat\": [[-1], [2]], \"edge_index\": [[0], [1]], \"y\": 0.5}\n")],
        call: "data info below.jsonl",
        says: "to make the column continuous, write numbers with a decimal point, or name it with --continuous",
        remedies: &[
            &[Replace("below.jsonl", "[[-1], [2]]", "[[-1.0], [2.0]]"), Gt("data info below.jsonl")],
            &[Gt("data info below.jsonl --continuous node_feat")],
            &[Gt("data convert below.jsonl out.jsonl --continuous node_feat")],
        ],
    },
    Case {
        before: &[],
        call: "train --data m.jsonl --task classification --out run",
        says: "to predict numbers, use --task regression",
        remedies: &[&[Gt("train --data m.jsonl --task regression --out run")]],
    },
    Case {
        before: &[Write(
            "ids.jsonl",
            "{\"node_feat\": [[4000000000], [2]], \"edge_index\": [[0], [1]], \"y\": 0.5, \"split\": \"train\"}\n\
             {\"node_feat\": [[4], [2]], \"edge_index\": [[0], [1]], \"y\": 1.5, \"split\": \"val\"}\n",
        )],
        call: "train --data ids.jsonl --out run --set model.width=512 --set model.layers=2",
        says: "if they are numbers, name their column with --continuous",
        remedies: &[&[Gt("train --data ids.jsonl --out run --continuous node_feat")]],
    },
];

#[test]
fn values() {
    apply_all(VALUES, 2);
}

const COLUMNS: &[Case] = &[
    Case {
        before: &[Replace("plain.jsonl", "\"y\": 2.25", "\"y\": 2.25, \"edge_attr\": [[1], [1]]")],
        call: "data info plain.jsonl",
        says: "other graphs or the model have no such column; leave it out",
        remedies: &[&[Replace("plain.jsonl", ", \"edge_attr\": [[1], [1]]", ""), Gt("data info plain.jsonl")]],
    },
    Case {
        before: &[Gt("train --data plain.jsonl --out run")],
        call: "predict run --data m.jsonl --out p.csv",
        says: "column \"edge_attr\": other graphs or the model have no such column; leave it out",
        remedies: &[&[
            Gt("data convert m.jsonl less.jsonl --ignore edge_attr"),
            Gt("predict run --data less.jsonl --out p.csv"),
        ]],
    },
    Case {
        before: &[],
        call: "train --data c.jsonl --task regression --out run",
        says: "names cannot be predicted as numbers; use --task classification",
        remedies: &[&[Gt("train --data c.jsonl --task classification --out run")]],
    },
    Case {
        before: &[],
        call: "train --data t_nodes.csv --target label --target size --out run",
        says: "predict one kind at a time: choose columns with --target",
        remedies: &[
            &[Gt("train --data t_nodes.csv --target label --out run")],
            &[Gt("train --data t_nodes.csv --target size --out run")],
        ],
    },
    Case {
        before: &[
            Write("l_nodes.csv", "node,first,second,y\n0,1 2,3 4,1.5\n1,2,3 5,2.5\n"),
            Write("l_edges.csv", "src,dst\n0,1\n1,0\n"),
        ],
        call: "data info l_nodes.csv",
        says: "one is supported, leave the other out with --ignore second",
        remedies: &[&[Gt("data info l_nodes.csv --ignore second")]],
    },
    Case {
        before: &[],
        call: "data info m.jsonl --ignore edge_attr --features edge_attr",
        says: "cannot be both a feature and ignored; name it once",
        remedies: &[&[Gt("data info m.jsonl --ignore edge_attr")], &[Gt("data info m.jsonl --features edge_attr")]],
    },
    Case {
        before: &[],
        call: "train --data m.jsonl --out run --set data.vocabulary={node_feat=2}",
        says: "column \"node_feat\" has 3 values, and 2 entries are too few",
        remedies: &[&[Gt("train --data m.jsonl --out run --set data.vocabulary={node_feat=3}")]],
    },
];

#[test]
fn columns() {
    apply_all(COLUMNS, 2);
}

const FILES: &[Case] = &[
    Case {
        before: &[Gt("data convert t_nodes.csv people_nodes.parquet"), Copy("people_nodes.parquet", "people.parquet")],
        call: "data info people.parquet",
        says: "for tables of nodes and edges use gt data convert --nodes --edges",
        remedies: &[&[
            Gt("data convert --nodes people.parquet --edges people_edges.parquet out.jsonl"),
            Gt("data info out.jsonl"),
        ]],
    },
    Case {
        before: &[Copy("t_nodes.csv", "people.csv")],
        call: "data info people.csv",
        says: "graphs need NAME_nodes.csv and NAME_edges.csv (give the first), or gt data convert --nodes --edges",
        remedies: &[
            &[Copy("people.csv", "p_nodes.csv"), Copy("t_edges.csv", "p_edges.csv"), Gt("data info p_nodes.csv")],
            &[Gt("data convert --nodes people.csv --edges t_edges.csv out.jsonl"), Gt("data info out.jsonl")],
        ],
    },
    Case {
        before: &[Replace("t_edges.csv", "src,dst", "begin,end")],
        call: "data info t_nodes.csv",
        says: "gt data convert takes the ends of the edges as --src and --dst",
        remedies: &[&[Gt("data convert t_nodes.csv out.jsonl --src begin --dst end"), Gt("data info out.jsonl")]],
    },
    Case {
        before: &[
            Write("g_nodes.csv", "number,node,kind\n0,0,1\n0,1,2\n1,0,2\n"),
            Write("g_edges.csv", "number,src,dst\n0,0,1\n0,1,0\n"),
            Write("g_graphs.csv", "number,y\n0,1.5\n1,2.5\n"),
        ],
        call: "data info g_nodes.csv",
        says: "gt data convert takes the column of the graphs as --graph-column",
        remedies: &[&[Gt("data convert g_nodes.csv out.jsonl --graph-column number"), Gt("data info out.jsonl")]],
    },
    Case {
        before: &[Copy("m.jsonl", "m.json")],
        call: "data info m.json",
        says: "unknown format; expected .parquet, .jsonl, or tables NAME_nodes.csv, .tsv or .parquet",
        remedies: &[&[Copy("m.json", "n.jsonl"), Gt("data info n.jsonl")]],
    },
    Case {
        before: &[],
        call: "data convert m.jsonl m.jsonl",
        says: "it is read as the data set and would be replaced; name another file to write",
        remedies: &[&[Gt("data convert m.jsonl n.jsonl")]],
    },
    Case {
        before: &[],
        call: "data convert m.jsonl out.jsonl --nodes t_nodes.csv --edges t_edges.csv",
        says: "give either IN OUT, or OUT with --nodes and --edges",
        remedies: &[
            &[Gt("data convert m.jsonl out.jsonl")],
            &[Gt("data convert out.jsonl --nodes t_nodes.csv --edges t_edges.csv")],
        ],
    },
    Case {
        before: &[],
        call: "encode m.jsonl --out e.jsonl",
        says: "choose at least one encoding: --lap K, --wl, --walk T",
        remedies: &[
            &[Gt("encode m.jsonl --out e.jsonl --lap 2")],
            &[Gt("encode m.jsonl --out e.jsonl --wl")],
            &[Gt("encode m.jsonl --out e.jsonl --walk 3")],
        ],
    },
    Case {
        before: &[],
        call: "data sbm cluster --train 0 --val 0 --test 0 --out s.jsonl",
        says: "all splits are empty; request at least one graph",
        remedies: &[&[Gt("data sbm cluster --train 1 --val 0 --test 0 --out s.jsonl")]],
    },
];

#[test]
fn files() {
    apply_all(FILES, 2);
}

const SPLITS: &[Case] = &[
    Case {
        before: &[Gt("data split m.jsonl --out parts.jsonl")],
        call: "train --data parts.jsonl --folds 3 --out run",
        says: "`gt data split FILE --folds 3 --out COPY` writes a copy with folds",
        remedies: &[&[
            Gt("data split parts.jsonl --folds 3 --out copy.jsonl"),
            Gt("train --data copy.jsonl --folds 3 --out run"),
        ]],
    },
    Case {
        before: &[Gt("data split m.jsonl --folds 3 --out folds.jsonl")],
        call: "train --data folds.jsonl --folds 5 --out run",
        says: "it has 3 folds, not 5; pass --folds 3",
        remedies: &[&[Gt("train --data folds.jsonl --folds 3 --out run")]],
    },
    Case {
        before: &[Gt("data split m.jsonl --folds 3 --out folds.jsonl")],
        call: "train --data folds.jsonl --out run",
        says: "`gt train --folds 3` trains on each fold",
        remedies: &[&[Gt("train --data folds.jsonl --folds 3 --out run")]],
    },
    Case {
        before: &[Write(
            "e.jsonl",
            "{\"num_nodes\": 7, \"node_feat\": [[0], [1], [0], [1], [0], [1], [1]], \"edge_index\": [[0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 0], \
             [1, 2, 3, 4, 5, 6, 2, 3, 4, 5, 6, 3]], \"y\": [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]}\n",
        )],
        call: "train --data e.jsonl --folds 2 --out run",
        says: "pass no --folds, and use `gt data split --level edge`",
        remedies: &[&[
            Gt("data split e.jsonl --level edge --out split.jsonl"),
            Gt("train --data split.jsonl --out run"),
        ]],
    },
    Case {
        before: &[Gt("data split t_nodes.csv --level edge --out e.parquet")],
        call: "train --data e.parquet --out run",
        says: "`gt data split --level` makes another one",
        remedies: &[&[Gt("data split e.parquet --level node --out n.parquet"), Gt("train --data n.parquet --out run")]],
    },
    Case {
        before: &[],
        call: "data split m.jsonl --group nothing --train 0.6 --val 0.2 --test 0.2 --out s.jsonl",
        says: "there is no column \"nothing\" to group by; there are: gap, name",
        remedies: &[&[Gt("data split m.jsonl --group name --train 0.6 --val 0.2 --test 0.2 --out s.jsonl")]],
    },
    Case {
        before: &[],
        call: "data split m.jsonl --train 0.5 --out s.jsonl",
        says: "shares must be positive and add up to 1",
        remedies: &[&[Gt("data split m.jsonl --train 0.5 --val 0.25 --test 0.25 --out s.jsonl")]],
    },
    Case {
        before: &[Write(
            "tiny.jsonl",
            "{\"node_feat\": [[0]], \"edge_index\": [[], []], \"y\": 0.5}\n\
             {\"node_feat\": [[0]], \"edge_index\": [[], []], \"y\": 1.5}\n\
             {\"node_feat\": [[1]], \"edge_index\": [[], []], \"y\": 2.5}\n",
        )],
        call: "train --data tiny.jsonl --out run",
        says: "data.split sets the shares, and a split in the data overrides them",
        remedies: &[
            &[Gt("train --data tiny.jsonl --out run --set data.split=[0.4,0.3,0.3]")],
            &[
                Gt("data split tiny.jsonl --train 0.4 --val 0.3 --test 0.3 --out split.jsonl"),
                Gt("train --data split.jsonl --out run"),
            ],
        ],
    },
    Case {
        before: &[],
        call: "train --data t_nodes.csv --task links --folds 3 --out run",
        says: "leave out --folds and data.folds",
        remedies: &[&[Gt("train --data t_nodes.csv --task links --out run")]],
    },
];

#[test]
fn splits() {
    apply_all(SPLITS, 2);
}
