//! Errors of commands that use a trained model.

use crate::case::Step::{Copy, Gt, Remove, Replace, Write};
use crate::case::{Case, apply_all};

const MODELS: &[Case] = &[
    Case {
        before: &[Gt("train --data m.jsonl --out seeds --seeds 1,2")],
        call: "embed seeds --data m.jsonl --out e.csv",
        says: "it holds several runs, and this command takes one model; pass one of them, such as seeds/1",
        remedies: &[&[Gt("embed seeds/1 --data m.jsonl --out e.csv")]],
    },
    Case {
        before: &[
            Gt("train --data m.jsonl --out seeds --seeds 1,2"),
            Remove("seeds/2/model.safetensors"),
            Remove("seeds/2/best.safetensors"),
        ],
        call: "predict seeds --data m.jsonl --out p.csv",
        says: "resume it with `gt train --resume --out seeds`, or pass one run",
        remedies: &[
            &[Gt("train --resume --out seeds"), Gt("predict seeds --data m.jsonl --out p.csv")],
            &[Gt("predict seeds/1 --data m.jsonl --out p.csv")],
        ],
    },
    Case {
        before: &[Gt("train --data m.jsonl --out both/a"), Gt("train --data c.jsonl --out both/b")],
        call: "predict both --data m.jsonl --out p.csv",
        says: "pass one of them",
        remedies: &[
            &[Gt("predict both/a --data m.jsonl --out p.csv")],
            &[Gt("predict both/b --data m.jsonl --out p.csv")],
        ],
    },
    Case {
        before: &[Gt("train --data m.jsonl --folds 3 --out cv"), Copy("m.jsonl", "other.jsonl")],
        call: "eval cv",
        says: "at the end of `gt train --resume --out cv`; --data names other data",
        remedies: &[&[Gt("train --resume --out cv")], &[Gt("eval cv --data other.jsonl")]],
    },
    Case {
        before: &[Gt("train --data m.jsonl --out run"), Copy("m.jsonl", "moved.jsonl"), Remove("m.jsonl")],
        call: "eval run",
        says: "the model was trained on it, --data FILE names another",
        remedies: &[&[Gt("eval run --data moved.jsonl")]],
    },
    Case {
        before: &[Gt("train --data t_nodes.csv --task links --out run")],
        call: "eval run --split all",
        says: "choose train, val or test",
        remedies: &[&[Gt("eval run --split train")], &[Gt("eval run --split val")], &[Gt("eval run --split test")]],
    },
    Case {
        before: &[Gt("train --data plain.jsonl --out run")],
        call: "attention run --data big.jsonl --graph 0 --out big.svg",
        says: "at most 1000 can be drawn, a table holds more",
        remedies: &[
            &[Gt("attention run --data big.jsonl --graph 0 --out big.csv")],
            &[Gt("attention run --data big.jsonl --graph 0 --out big.parquet")],
        ],
    },
    Case {
        before: &[Gt("train --data plain.jsonl --out run")],
        call: "attention run --data plain.jsonl --graph 0 --layer 2 --out a.csv",
        says: "the model has the layers 1 to 1",
        remedies: &[&[Gt("attention run --data plain.jsonl --graph 0 --layer 1 --out a.csv")]],
    },
    Case {
        before: &[Gt("train --data plain.jsonl --out run")],
        call: "attention run --data plain.jsonl --graph 30 --out a.csv",
        says: "there is no graph 30; there are 30, counted from 0",
        remedies: &[&[Gt("attention run --data plain.jsonl --graph 29 --out a.csv")]],
    },
    Case {
        before: &[Gt("train --data plain.jsonl --out run")],
        call: "attention run --data plain.jsonl --graph 0 --out a.pdf",
        says: "unknown format: expected .svg, .png, .json, .parquet, .csv, .tsv or .jsonl",
        remedies: &[
            &[Gt("attention run --data plain.jsonl --graph 0 --out a.svg")],
            &[Gt("attention run --data plain.jsonl --graph 0 --out a.png")],
            &[Gt("attention run --data plain.jsonl --graph 0 --out a.json")],
            &[Gt("attention run --data plain.jsonl --graph 0 --out a.parquet")],
            &[Gt("attention run --data plain.jsonl --graph 0 --out a.tsv")],
            &[Gt("attention run --data plain.jsonl --graph 0 --out a.jsonl")],
        ],
    },
    Case {
        before: &[Gt("train --data plain.jsonl --out run")],
        call: "predict run --data plain.jsonl --out p.txt",
        says: "unknown format; expected .parquet, .csv, .tsv or .jsonl",
        remedies: &[
            &[Gt("predict run --data plain.jsonl --out p.parquet")],
            &[Gt("predict run --data plain.jsonl --out p.csv")],
            &[Gt("predict run --data plain.jsonl --out p.tsv")],
            &[Gt("predict run --data plain.jsonl --out p.jsonl")],
        ],
    },
    Case {
        before: &[
            Gt("train --data t_nodes.csv --task links --out run"),
            Write("pairs.csv", "source,target\n0,1\n3,99\n"),
        ],
        call: "predict run --data t_nodes.csv --pairs pairs.csv --out p.csv --on-error stop",
        says: "there is no node 99; graph 0 has 40 nodes",
        remedies: &[&[
            Replace("pairs.csv", "3,99", "3,39"),
            Gt("predict run --data t_nodes.csv --pairs pairs.csv --out p.csv --on-error stop"),
        ]],
    },
];

#[test]
fn models() {
    apply_all(MODELS, 2);
}
