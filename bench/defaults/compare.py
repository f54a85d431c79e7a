"""Trains on every set and scores the test part: python3 compare.py FOLDER OUT.jsonl NAME=GT … [options]

Each NAME=GT is a program under a name; runs of several programs are interleaved. Options:
  --sets a,b,…     sets of the folder (default: all)
  --seeds 41,…     seeds (default: 41,42,43)
  --set key=value  a setting for all runs; may be repeated

A line of OUT has program, set, seed, score, CPU seconds, epochs, and why training stopped. The
score comes from `gt predict` on the test rows: MAE, accuracy or ROC-AUC. Predictions are those
that the program makes by default: 857bfff takes the last model, later programs the best one.
"""
import csv
import json
import os
import sys
import tempfile
from pathlib import Path

SCORES = {
    "freesolv": "mae", "csl": "accuracy", "cora": "accuracy", "citeseer": "accuracy", "triangles": "mae",
    "scales": "mae", "esol": "mae", "rare": "roc_auc", "tox21": "roc_auc", "lipo": "mae", "bbbp": "roc_auc",
    "minesweeper": "roc_auc", "cluster": "accuracy", "pattern": "accuracy",
}


def run(words, log):
    """Exit code and CPU seconds of a command."""
    child = os.posix_spawn(words[0], words, os.environ, file_actions=[
        (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644),
        (os.POSIX_SPAWN_OPEN, 2, log + ".err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644),
    ])
    _, status, usage = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime


def roc_auc(labels, scores):
    order = sorted(range(len(scores)), key=lambda at: scores[at])
    positives = sum(labels)
    negatives = len(labels) - positives
    if not positives or not negatives:
        return None
    total, at = 0.0, 0
    while at < len(order):
        end = at
        while end < len(order) and scores[order[end]] == scores[order[at]]:
            end += 1
        total += (at + 1 + end) / 2 * sum(labels[order[k]] for k in range(at, end))
        at = end
    return (total - positives * (positives + 1) / 2) / (positives * negatives)


def test_labels(file):
    """For each row of predictions, its labels if it is of the test part, else None."""
    as_list = lambda value: value if isinstance(value, list) else [value]
    graphs = [json.loads(line) for line in open(file)]
    if all(isinstance(graph["y"], list) and len(graph["y"]) == graph["num_nodes"] for graph in graphs):
        splits = [graph.get("node_split") or [graph["split"]] * graph["num_nodes"] for graph in graphs]
        rows = [row for graph, split in zip(graphs, splits) for row in zip(graph["y"], split)]
    else:
        rows = [(graph["y"], graph["split"]) for graph in graphs]
    return [as_list(y) if split == "test" else None for y, split in rows]


def score(metric, labels, table):
    with open(table) as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(labels), (len(rows), len(labels))
    names = [name for name in rows[0] if name not in ("graph", "node", "reason")]
    kept = [(row, label) for row, label in zip(rows, labels) if label is not None]
    if metric == "mae":
        return sum(abs(float(row[names[0]]) - label[0]) for row, label in kept) / len(kept)
    if metric == "accuracy":
        pairs = [(row[names[0]], label[0]) for row, label in kept if label[0] not in (None, -1)]
        return 100 * sum(str(label) == found for found, label in pairs) / len(pairs)
    areas = []
    for column, name in enumerate([name for name in names if name.endswith("_p1")]):
        pairs = [(label[column], float(row[name])) for row, label in kept if label[column] is not None]
        area = roc_auc([label for label, _ in pairs], [score for _, score in pairs])
        if area is not None:
            areas.append(area)
    return 100 * sum(areas) / len(areas)


def main():
    folder, out, programs, options = Path(sys.argv[1]), sys.argv[2], {}, []
    sets, seeds = list(SCORES), [41, 42, 43]
    words = iter(sys.argv[3:])
    for word in words:
        if word == "--sets":
            sets = next(words).split(",")
        elif word == "--seeds":
            seeds = next(words).split(",")
        elif word == "--set":
            options += ["--set", next(words)]
        else:
            name, program = word.split("=")
            programs[name] = os.path.abspath(program)
    for seed in seeds:
        for name in sets:
            file = str(folder / f"{name}.jsonl")
            labels = test_labels(file)
            for program, gt in programs.items():
                with tempfile.TemporaryDirectory() as place:
                    log, model, table = f"{place}/log", f"{place}/run", f"{place}/p.csv"
                    train = [gt, "train", "--data", file, "--out", model, "--seed", str(seed), "--threads", "1",
                             "--device", "cpu", "--json", *options]
                    code, seconds = run(train, log)
                    line = {"program": program, "set": name, "seed": int(seed), "metric": SCORES[name],
                            "score": None, "cpu_s": round(seconds, 1), "options": options[1::2]}
                    if code == 0:
                        end = json.loads(open(log).read().splitlines()[-1])
                        line |= {key: end[key] for key in ("params", "epochs", "stop")}
                        line["best_epoch"] = (end.get("best") or {}).get("epoch")
                        assert run([gt, "predict", model, "--data", file, "--out", table, "--threads", "1"], log)[0] == 0
                        line["score"] = score(SCORES[name], labels, table)
                    else:
                        line["error"] = open(log + ".err").read()[-300:]
                    with open(out, "a") as results:
                        results.write(json.dumps(line) + "\n")


main()
