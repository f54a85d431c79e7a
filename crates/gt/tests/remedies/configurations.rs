//! Errors about configurations, and about the runs that a call plans.

use crate::case::Step::{Copy, Gt, Remove, Replace, Write};
use crate::case::{Case, apply_all};

const KEYS: &[Case] = &[
    Case {
        before: &[],
        call: "config check --set model.kind=gcn --set model.heads=2",
        says: "gcn has no heads; leave the key out",
        remedies: &[&[Gt("config check --set model.kind=gcn")]],
    },
    Case {
        before: &[],
        call: "config check --set model.layer=2",
        says: "no such key; did you mean `model.layers`?",
        remedies: &[&[Gt("config check --set model.layers=2")]],
    },
    Case {
        before: &[],
        call: "config check --set model.kind=sage",
        says: "there is no `sage`; there are `transformer`",
        remedies: &[&[Gt("config check --set model.kind=transformer")]],
    },
    Case {
        before: &[],
        call: "config check --set layers",
        says: "expected `section.key=value`, such as `optimizer.lr=1e-3`",
        remedies: &[&[Gt("config check --set optimizer.lr=1e-3")]],
    },
    Case {
        before: &[],
        call: "config check --set data.fold=2",
        says: "it names a fold, but `data.folds`, the number of folds, is not set",
        remedies: &[&[Gt("config check --set data.fold=2 --set data.folds=3")]],
    },
    Case {
        before: &[],
        call: "config check --set data.split=[0.5,0.5,0.5]",
        says: "three shares above 0 that add up to 1 are expected",
        remedies: &[&[Gt("config check --set data.split=[0.5,0.25,0.25]")]],
    },
    Case {
        before: &[],
        call: "config check --set optimizer.lr=-1",
        says: "it must be a finite number, above 0",
        remedies: &[&[Gt("config check --set optimizer.lr=0.1")]],
    },
    Case {
        before: &[],
        call: "config check --set schedule.min_lr=1",
        says: "it must be at least 0 and below optimizer.lr",
        remedies: &[&[Gt("config check --set schedule.min_lr=0")]],
    },
    Case {
        before: &[],
        call: "train --data m.jsonl --out run --set data.task=links --set data.target=[\"y\"]",
        says: "links are predicted (data.task = \"links\"), and they have no target column; leave the key out",
        remedies: &[&[Gt("train --data t_nodes.csv --out run --set data.task=links")]],
    },
    Case {
        before: &[],
        call: "train --data m.jsonl --out run --target gap --ignore gap",
        says: "`gap` is also in `data.ignore`; name it once",
        remedies: &[
            &[Gt("train --data m.jsonl --out run --target gap")],
            &[Gt("train --data m.jsonl --out run --ignore gap")],
        ],
    },
    Case {
        before: &[Replace("t_edges.csv", "0,1\n1,0\n", "0,1\n")],
        call: "train --data t_nodes.csv --task links --set model.pairs=product --set links.directed=true --out run",
        says: "a product does not distinguish directions, but links are directed; use `ends`",
        remedies: &[&[Gt(
            "train --data t_nodes.csv --task links --set model.pairs=ends --set links.directed=true --out run",
        )]],
    },
];

#[test]
fn keys() {
    apply_all(KEYS, 2);
}

const TASKS: &[Case] = &[
    Case {
        before: &[],
        call: "train --data none.jsonl --out run",
        says: "targets are `y` (in tables also `label`) or the columns of --target, and --task links needs none",
        remedies: &[
            &[Gt("train --data none.jsonl --out run --target gap")],
            &[Gt("train --data t_nodes.csv --out run --task links")],
            &[Replace("none.jsonl", "\"gap\"", "\"y\""), Gt("train --data none.jsonl --out run")],
        ],
    },
    Case {
        before: &[
            Replace("m.jsonl", "\"y\": 0.25", "\"y\": [[0, 0]]"),
            Replace("m.jsonl", "\"y\": 1.25", "\"y\": [[1, 1]]"),
            Replace("m.jsonl", "\"y\": 2.25", "\"y\": [[0, 2]]"),
            Replace("m.jsonl", "\"y\": 3.25", "\"y\": [[1, 0]]"),
            Replace("m.jsonl", "\"y\": 4.25", "\"y\": [[0, 1]]"),
        ],
        call: "train --data m.jsonl --out run",
        says: "`y1` with 3 classes; choose one of them, as --target does",
        remedies: &[
            &[Gt("train --data m.jsonl --out run --target y0")],
            &[Gt("train --data m.jsonl --out run --target y1")],
        ],
    },
    Case {
        before: &[],
        call: "train --data m.jsonl --out run --set train.loss=cross-entropy",
        says: "to make classes of whole numbers, set data.task = \"classification\" (--task classification)",
        remedies: &[
            &[
                Replace("m.jsonl", ".25,", ".0,"),
                Gt("train --data m.jsonl --out run --set train.loss=cross-entropy --task classification"),
            ],
            &[
                Replace("m.jsonl", ".25,", ".0,"),
                Gt("train --data m.jsonl --out run --set train.loss=cross-entropy --set data.task=classification"),
            ],
        ],
    },
    Case {
        before: &[Replace("m.jsonl", ".25,", ",")],
        call: "train --data m.jsonl --out run --set train.loss=mse",
        says: "to predict the numbers themselves, set data.task = \"regression\" (--task regression)",
        remedies: &[
            &[Gt("train --data m.jsonl --out run --set train.loss=mse --task regression")],
            &[Gt("train --data m.jsonl --out run --set train.loss=mse --set data.task=regression")],
        ],
    },
    Case {
        before: &[Replace("m.jsonl", ".25,", ",")],
        call: "train --data m.jsonl --out run --set train.loss=bce",
        says: "bce is for targets of two classes, auto chooses cross-entropy",
        remedies: &[
            &[Gt("train --data m.jsonl --out run --set train.loss=auto")],
            &[Gt("train --data c.jsonl --out run --set train.loss=bce")],
        ],
    },
    Case {
        before: &[],
        call: "train --data m.jsonl --out run --set train.select=accuracy",
        says: "choose auto, loss, mae, rmse, r2, spearman; to predict classes, set data.task = \"classification\" (--task classification)",
        remedies: &[
            &[Gt("train --data m.jsonl --out run --set train.select=auto")],
            &[Gt("train --data m.jsonl --out run --set train.select=spearman")],
            &[
                Replace("m.jsonl", ".25,", ".0,"),
                Gt("train --data m.jsonl --out run --set train.select=accuracy --task classification"),
            ],
        ],
    },
    Case {
        before: &[Replace("m.jsonl", ".25,", ",")],
        call: "train --data m.jsonl --out run --set train.select=rmse",
        says: "to predict numbers, set data.task = \"regression\" (--task regression)",
        remedies: &[
            &[Gt("train --data m.jsonl --out run --set train.select=rmse --task regression")],
            &[Gt("train --data m.jsonl --out run --set train.select=macro_f1")],
        ],
    },
    Case {
        before: &[Gt("encode m.jsonl --walk 3 --out e.jsonl")],
        call: "train --data e.jsonl --out run --set model.encoding=random-walk --set model.encoding_size=2",
        says: "remove the column, so that the encoding is computed, or train with model.encoding_size = 3",
        remedies: &[
            &[Gt("train --data m.jsonl --out run --set model.encoding=random-walk --set model.encoding_size=2")],
            &[Gt("train --data e.jsonl --out run --set model.encoding=random-walk --set model.encoding_size=3")],
        ],
    },
];

#[test]
fn tasks() {
    apply_all(TASKS, 2);
}

const PLANS: &[Case] = &[
    Case {
        before: &[Write("mine.toml", "[model]\nlayers = 1\n")],
        call: "train mine.toml --out run",
        says: "there is no data: name a file by --data or data.file (gt data fetch zinc, gt data sbm pattern|cluster make the paper's)",
        remedies: &[
            &[Gt("train mine.toml --out run --data m.jsonl")],
            &[Gt("train mine.toml --out run --set data.file=m.jsonl")],
            &[
                Gt("data sbm cluster --train 2 --val 1 --test 1 --out cluster.parquet"),
                Gt("train mine.toml --out run --data cluster.parquet"),
            ],
            &[
                Gt("data sbm pattern --train 2 --val 1 --test 1 --out pattern.parquet"),
                Gt("train mine.toml --out run --data pattern.parquet"),
            ],
        ],
    },
    Case {
        before: &[],
        call: "train --task regression --out run",
        says: "columns and tasks are chosen in a file: name the file by --data or data.file",
        remedies: &[
            &[Gt("train --task regression --out run --data m.jsonl")],
            &[Gt("train --task regression --out run --set data.file=m.jsonl --data m.jsonl")],
        ],
    },
    Case {
        before: &[],
        call: "train --data m.jsonl --out run --set data.folds=3 --seeds 1,2",
        says: "set data.fold too, or call `gt train --folds` once for each --seed",
        remedies: &[
            &[Gt("train --data m.jsonl --out run --set data.folds=3 --seeds 1,2 --set data.fold=2")],
            &[
                Gt("train --data m.jsonl --out one --folds 3 --seed 1"),
                Gt("train --data m.jsonl --out two --folds 3 --seed 2"),
            ],
        ],
    },
    Case {
        before: &[],
        call: "train --data m.jsonl --out run --parallel",
        says: "--parallel is for several runs: pass --seeds or --folds",
        remedies: &[
            &[Gt("train --data m.jsonl --out run --parallel --seeds 1,2")],
            &[Gt("train --data m.jsonl --out run --parallel --folds 2")],
        ],
    },
    Case {
        before: &[],
        call: "train --preset zink --data m.jsonl --out run",
        says: "did you mean `zinc`?",
        remedies: &[&[Gt("config show --preset zinc")]],
    },
    Case {
        before: &[Gt("train --data m.jsonl --out run")],
        call: "train --data m.jsonl --out run",
        says: "resume it with `gt train --resume --out run`, or choose another --out",
        remedies: &[&[Gt("train --resume --out run")], &[Gt("train --data m.jsonl --out other")]],
    },
    Case {
        before: &[],
        call: "train --resume --out run",
        says: "no run has begun there; start one without --resume",
        remedies: &[&[Gt("train --data m.jsonl --out run")]],
    },
    Case {
        before: &[
            Gt("train --data m.jsonl --out run"),
            Replace("run/config.toml", "seed = 41\nbatch", "seed = 42\nbatch"),
        ],
        call: "train --resume --out run",
        says: "undo the change, or start a new run with another --out",
        remedies: &[
            &[Replace("run/config.toml", "seed = 42\nbatch", "seed = 41\nbatch"), Gt("train --resume --out run")],
            &[Gt("train run/config.toml --out other")],
        ],
    },
    Case {
        before: &[
            Gt("train --data m.jsonl --out run"),
            Copy("m.jsonl", "kept.jsonl"),
            Replace("m.jsonl", "\"y\": 0.25", "\"y\": 7.5"),
        ],
        call: "train --resume --out run",
        says: "restore them, or start a new run with another --out",
        remedies: &[
            &[Copy("kept.jsonl", "m.jsonl"), Gt("train --resume --out run")],
            &[Gt("train run/config.toml --out other")],
        ],
    },
    Case {
        before: &[Gt("train --data m.jsonl --out run"), Remove("run/checkpoint")],
        call: "train --resume --out run",
        says: "are gone; start a new run with another --out",
        remedies: &[&[Gt("train run/config.toml --out other")]],
    },
    Case {
        before: &[Gt("train --data m.jsonl --out seeds --seeds 1,2")],
        call: "train --data m.jsonl --init seeds --out run",
        says: "it is a folder of several runs; name the folder of one run in it",
        remedies: &[&[Gt("train --data m.jsonl --init seeds/1 --out run")]],
    },
    Case {
        before: &[Gt("train --data m.jsonl --out first")],
        call: "train --data plain.jsonl --init first --out run",
        says: "use data with the columns of the model",
        remedies: &[&[Gt("train --data c.jsonl --init first --out run")]],
    },
    Case {
        before: &[Gt("train --data m.jsonl --out first")],
        call: "train --data m.jsonl --init first --out run --set train.freeze=[\"other\"]",
        says: "`train.freeze`: no parameter begins with \"other\"; there are",
        remedies: &[&[Gt("train --data m.jsonl --init first --out run --set train.freeze=[\"layers\"]")]],
    },
];

#[test]
fn plans() {
    apply_all(PLANS, 2);
}
