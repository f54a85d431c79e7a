//! Notes and warnings of calls that succeed.

use crate::case::Step::{Copy, Gt, Replace};
use crate::case::{Case, apply_all};

const NOTES: &[Case] = &[
    Case {
        before: &[
            Replace("m.jsonl", "0.25,", "0.0,"),
            Replace("m.jsonl", "1.25,", "1.0,"),
            Replace("m.jsonl", "2.25,", "0.0,"),
            Replace("m.jsonl", "3.25,", "1.0,"),
            Replace("m.jsonl", "4.25,", "0.0,"),
        ],
        call: "train --data m.jsonl --out run",
        says: "the file has these classes as 0.0, 1.0, …; for numbers use --task regression",
        remedies: &[&[Gt("train --data m.jsonl --out other --task regression")]],
    },
    Case {
        before: &[],
        call: "train --data ids_nodes.csv --out run",
        says: "serial has 40 values for 40 nodes; if it is an id or a",
        remedies: &[&[Gt("train --data ids_nodes.csv --out other --ignore serial")]],
    },
    Case {
        before: &[],
        call: "train --data one_nodes.csv --out run",
        says: "list both directions (for",
        remedies: &[
            &[Gt("data convert one_nodes.csv both.jsonl --undirected"), Gt("train --data both.jsonl --out other")],
            &[Copy("t_edges.csv", "one_edges.csv"), Gt("train --data one_nodes.csv --out other")],
        ],
    },
    Case {
        before: &[
            Replace("m.jsonl", "\"y\": 0.25", "\"y\": 40"),
            Replace("m.jsonl", "\"y\": 1.25", "\"y\": 10"),
            Replace("m.jsonl", "\"y\": 2.25", "\"y\": 20"),
            Replace("m.jsonl", "\"y\": 3.25", "\"y\": 30"),
            Replace("m.jsonl", "\"y\": 4.25", "\"y\": 0"),
        ],
        call: "train --data m.jsonl --out run",
        says: "but only 24 labels to train on; to predict numbers, use --task regression",
        remedies: &[&[Gt("train --data m.jsonl --out other --task regression")]],
    },
    Case {
        before: &[Replace("c.jsonl", "toxic", "safe")],
        call: "train --data c.jsonl --out run",
        says: "check the labels and the split, or predict another column with --target",
        remedies: &[
            &[Gt("train --data c.jsonl --out other --target gap")],
            &[
                Replace("c.jsonl", "\"name\": \"a\"", "\"name\": \"a\", \"split\": \"val\""),
                Gt("train --data m.jsonl --out other"),
            ],
        ],
    },
    Case {
        before: &[Gt("train --data m.jsonl --out run"), Copy("m.jsonl", "other.jsonl")],
        call: "eval run --data other.jsonl",
        says: "only its split `test` is scored; --split all scores all rows",
        remedies: &[&[Gt("eval run --data other.jsonl --split all")]],
    },
    Case {
        before: &[Gt("train --data m.jsonl --out run"), Replace("m.jsonl", "\"O\"", "\"Xe\"")],
        call: "predict run --data m.jsonl --out p.csv",
        says: "to accept unknown categories, train with --set data.other=true",
        remedies: &[&[
            Replace("m.jsonl", "\"Xe\"", "\"O\""),
            Gt("train --data m.jsonl --out other --set data.other=true"),
            Replace("m.jsonl", "\"O\"", "\"Xe\""),
            Gt("predict other --data m.jsonl --out p.csv"),
        ]],
    },
];

#[test]
fn notes() {
    apply_all(NOTES, 0);
}
