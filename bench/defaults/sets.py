"""Makes the data sets of the experiment as JSON lines: python3 sets.py GT SHARED FOLDER

Molecules (ESOL, FreeSolv, Lipophilicity, BBBP, Tox21), block models (PATTERN, CLUSTER), citation
networks (Cora, CiteSeer), minesweeper, and generated graphs: regular graphs without features (CSL),
triangle counts, a rare class, and continuous inputs on very different scales. Large sets are cut.
"""
import csv
import json
import math
import random
import subprocess
import sys
from pathlib import Path

from molecules import graph


def write(folder, name, graphs, seed=1):
    """Writes graphs with a random split of 80 / 10 / 10 %, unless they have one."""
    rng = random.Random(seed)
    if "split" not in graphs[0] and "node_split" not in graphs[0] and len(graphs) > 1:
        rng.shuffle(graphs)
        for at, item in enumerate(graphs):
            share = at / len(graphs)
            item["split"] = "train" if share < 0.8 else "val" if share < 0.9 else "test"
    with open(folder / f"{name}.jsonl", "w") as file:
        file.writelines(json.dumps(item) + "\n" for item in graphs)


def molecules(shared, file, columns, most, classes):
    with open(shared / "data/moleculenet" / file) as rows:
        rows = list(csv.DictReader(rows))
    random.Random(0).shuffle(rows)
    out = []
    for row in rows[:most]:
        item = graph(row["smiles"])
        if item is None:
            continue
        value = lambda text: None if text == "" else (int(float(text)) if classes else float(text))
        item["y"] = [value(row[column]) for column in columns]
        out.append(item)
    return out


def circulant(count, skip):
    edges = sorted({(a, (a + step) % count) for a in range(count) for step in (1, -1, skip, -skip)})
    return {"num_nodes": count, "edge_index": [[a for a, _ in edges], [b for _, b in edges]]}


def random_graph(rng, nodes, probability):
    edges = [(a, b) for a in range(nodes) for b in range(a) if rng.random() < probability]
    both = sorted(edges + [(b, a) for a, b in edges])
    return {"num_nodes": nodes, "edge_index": [[a for a, _ in both], [b for _, b in both]]}, edges


def triangles(edges):
    around = {}
    for a, b in edges:
        around.setdefault(a, set()).add(b)
        around.setdefault(b, set()).add(a)
    return sum(len(around[a] & around[b]) for a, b in edges) // 3


def csl():
    graphs = []
    for skip_class, skip in enumerate([2, 3, 4, 5, 6, 9, 11, 12, 13, 16]):
        for copy in range(15):
            item = circulant(41, skip)
            order = list(range(41))
            random.Random(copy).shuffle(order)
            edges = sorted((order[a], order[b]) for a, b in zip(*item["edge_index"]))
            item["edge_index"] = [[a for a, _ in edges], [b for _, b in edges]]
            item["y"] = [skip_class]
            item["split"] = "train" if copy < 9 else "val" if copy < 12 else "test"
            graphs.append(item)
    return graphs


def triangle_counts():
    rng = random.Random(3)
    graphs = []
    for _ in range(600):
        item, edges = random_graph(rng, rng.randint(8, 24), rng.uniform(0.15, 0.4))
        item["y"] = [float(triangles(edges))]
        graphs.append(item)
    return graphs


def rare_class():
    """One graph in twelve has a ring of six among its otherwise random trees."""
    rng = random.Random(4)
    graphs = []
    for number in range(900):
        nodes = rng.randint(10, 25)
        edges = [(node, rng.randrange(node)) for node in range(1, nodes)]
        rare = number % 12 == 0
        ring = rng.sample(range(nodes), 6 if rare else 4)
        edges += list(zip(ring, ring[1:] + ring[:1])) if rare or rng.random() < 0.5 else []
        both = sorted({(a, b) for a, b in edges} | {(b, a) for a, b in edges})
        graphs.append({
            "num_nodes": nodes,
            "node_feat": [[rng.randrange(3)] for _ in range(nodes)],
            "edge_index": [[a for a, _ in both], [b for _, b in both]],
            "y": [int(rare)],
        })
    return graphs


def scales():
    """Continuous inputs on scales from 1e-3 to 1e4; the target is a sum over neighbours."""
    rng = random.Random(5)
    graphs = []
    for _ in range(500):
        item, edges = random_graph(rng, rng.randint(6, 16), 0.3)
        x = [[rng.gauss(5000, 2000), rng.gauss(0, 1e-3), rng.gauss(1, 0.5)] for _ in range(item["num_nodes"])]
        total = sum((x[a][0] - 5000) / 2000 * x[b][2] + x[a][1] * 1e3 for a, b in edges)
        item["node_feat"] = x
        item["y"] = [100 + 20 * math.tanh(total / 6)]
        graphs.append(item)
    return graphs


def main():
    gt, shared, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]), Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    with open(shared / "data/moleculenet/tox21.csv") as file:
        tox = [c for c in next(csv.reader(file)) if c not in ("mol_id", "smiles")]
    write(folder, "esol", molecules(shared, "esol.csv", ["measured log solubility in mols per litre"], None, False))
    write(folder, "freesolv", molecules(shared, "freesolv.csv", ["expt"], None, False))
    write(folder, "lipo", molecules(shared, "lipophilicity.csv", ["exp"], 1500, False))
    write(folder, "bbbp", molecules(shared, "bbbp.csv", ["p_np"], None, True))
    write(folder, "tox21", molecules(shared, "tox21.csv", tox, 1500, True))
    write(folder, "csl", csl())
    write(folder, "triangles", triangle_counts())
    write(folder, "rare", rare_class())
    write(folder, "scales", scales())
    run = lambda *words: subprocess.run([gt, *map(str, words)], check=True, capture_output=True)
    for name, seed in (("pattern", 7), ("cluster", 7)):
        run("data", "sbm", name, "--out", folder / f"{name}.jsonl", "--seed", seed,
            "--train", 160, "--val", 40, "--test", 60)
    for name in ("cora", "citeseer"):
        run("data", "convert", shared / f"data/planetoid/{name}_nodes.parquet", folder / f"{name}.jsonl")
    run("data", "convert", shared / "data/heterophilous/minesweeper_nodes.parquet", folder / "minesweeper.jsonl",
        "--target", "label", "--split-column", "split0", "--undirected",
        *[word for number in range(1, 10) for word in ("--ignore", f"split{number}")])


main()
