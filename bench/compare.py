"""One step of the published models: PyTorch, PyG, DGL and torch.compile against `gt bench`, in turns on one machine.

    python3 -m venv .venv && .venv/bin/pip install torch torch_geometric numpy
    cargo build --release && .venv/bin/python bench/compare.py --out compare.jsonl

All contenders see the same graphs (drawn here, of the published sizes; 4 batches in rotation), the same number of
threads and float32. A training step is forward, loss, backward and Adam on a batch that lies ready; an inference step
is the forward pass in evaluation mode. Each PyTorch contender is a process of its own that waits on its input while
others run, with an allocator set up to keep its memory, which halves its times on the larger sets; `gt bench` is
started for each block. A set's contenders take turns for `--rounds` rounds before the next set begins, so that only
one set is held in memory.

`other_cpu` and `steal` say how many cores everything else used meanwhile. Blocks with more than 0.06 of either are
left out of the table; a cell that has no other ones is marked with *. Linux only. DGL takes part if it can be
imported (the last release, 2.1, wants torch 2.2 and numpy below 2).
"""
from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

import numpy as np
import torch

import torch_models as models

SETS = {"zinc": 128, "pattern": 26, "cluster": 32}  # graphs per batch
TORCH = {"plain": "PyTorch", "pyg": "PyG", "dgl": "DGL", "compile": "torch.compile"}
NAMES = TORCH | {"gt": "gt"}
MODES = ("train", "infer")
BATCHES, WARM_UP, QUIET = 4, 2, 0.06
KEEP_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
    "MALLOC_TOP_PAD_": "268435456",
}
Record = dict[str, Any]


def draw(name: str) -> list[models.Graph]:
    rng = np.random.default_rng(41)
    return [models.published_graph(name, rng) for _ in range(BATCHES * SETS[name])]


def physical_cores() -> int:
    """Cores of /proc/cpuinfo, or what this process may use if that is less."""
    cores = set()
    for cpu in Path("/proc/cpuinfo").read_text().split("\n\n"):
        fields = dict(line.split(":", 1) for line in cpu.splitlines() if ":" in line)
        fields = {k.strip(): v.strip() for k, v in fields.items()}
        if "core id" in fields:
            cores.add((fields.get("physical id"), fields["core id"]))
    usable = len(os.sched_getaffinity(0))
    return min(len(cores) or usable, usable)


class Load:
    """How many cores others used during a stretch; `own` gives the CPU seconds that are ours."""

    def __init__(self, own: Callable[[], float]):
        self.own = own

    def now(self) -> tuple[float, float, float, float]:
        with open("/proc/stat") as f:
            ticks = [int(x) / os.sysconf("SC_CLK_TCK") for x in f.readline().split()[1:9]]
        user, nice, system, _, _, irq, soft, steal = ticks
        return time.perf_counter(), user + nice + system + irq + soft, self.own(), steal

    def __enter__(self) -> Load:
        self.start = self.now()
        return self

    def __exit__(self, *_: object) -> None:
        wall, busy, own, steal = (b - a for a, b in zip(self.start, self.now()))
        self.found = dict(other_cpu=round(max(0.0, busy - own) / wall, 2), steal=round(steal / wall, 2))


# ---- a PyTorch contender, in its own process


def peak_rss_mb() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


def dgl_graph(b: models.Batch) -> Any:
    import dgl

    return dgl.graph((b.src, b.dst), num_nodes=len(b.node_type))


def versions(contender: str) -> dict[str, str]:
    found = {"torch": torch.__version__}
    if contender == "pyg":
        found["torch_geometric"] = sys.modules["torch_geometric"].__version__
    if contender == "dgl":
        found["dgl"] = sys.modules["dgl"].__version__
    return found


def work(contender: str, name: str, threads: int) -> None:
    """Answers each line of input, a number of steps, with one line of measurements."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not get among the answers

    def answer(value: Any) -> None:
        print(json.dumps(value), file=answers, flush=True)

    torch.set_num_threads(threads)
    torch.manual_seed(41)
    cfg, graphs, size = models.published(name), draw(name), SETS[name]
    try:
        attention = {"pyg": models.pyg_attention, "dgl": models.dgl_attention}.get(contender, lambda: models.Attention)
        net = models.Net(cfg, attention())
    except (ImportError, OSError, AttributeError, RuntimeError) as why:  # a missing library, or one that does not fit
        return answer({"skipped": f"{type(why).__name__}: {why}"})
    batches = [models.collate(graphs[i * size : (i + 1) * size], cfg) for i in range(BATCHES)]
    if contender == "pyg":
        for b in batches:
            b.graph = torch.stack([b.src, b.dst])
    forward = torch.compile(net, dynamic=True) if contender == "compile" else net
    adam = torch.optim.Adam(net.parameters(), lr=7e-4)

    def train(b: models.Batch) -> None:
        adam.zero_grad()
        net.loss(forward(b), b.target).backward()
        adam.step()

    def infer(b: models.Batch) -> None:
        with torch.no_grad():
            forward(b)

    def block(mode: str, steps: int, warm_up: int) -> Record:
        net.train(mode == "train")
        times = []
        with Load(time.process_time) as load:
            for i in range(-warm_up, steps):
                b = batches[i % BATCHES]  # the timed ones begin with the first batch, as those of gt do
                if contender == "dgl":
                    b.graph = dgl_graph(b)  # a used one fails in the next backward pass
                start = time.perf_counter()
                (train if mode == "train" else infer)(b)
                times.append((time.perf_counter() - start) * 1e3)
        times = times[warm_up:] or times
        return dict(mode=mode, threads=torch.get_num_threads(), batch=size, nodes=len(batches[0].node_type),
                    edges=len(batches[0].src), ms_median=statistics.median(times), ms_min=min(times),
                    rss_mb=peak_rss_mb(), **load.found)

    for mode in MODES:  # compiles where there is something to compile
        block(mode, 0, BATCHES)
    answer({"versions": versions(contender)})
    for line in sys.stdin:
        answer([block(mode, int(line), WARM_UP) for mode in MODES])


class Worker:
    def __init__(self, contender: str, name: str, threads: int):
        each = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
        quiet = {"DGLBACKEND": "pytorch", "TORCHINDUCTOR_COMPILE_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        command = [sys.executable, __file__, "--worker", contender, "--sets", name, "--threads", str(threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=os.environ | KEEP_MEMORY | each | quiet)
        self.hello: Record = self.answer()

    def answer(self) -> Any:
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"skipped": f"its process ended with status {self.process.wait()}"}

    def block(self, steps: int) -> Any:
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return self.answer()

    def stop(self) -> None:
        self.process.stdin.close()
        self.process.wait()


# ---- gt


def run_gt(*command: object) -> str:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"gt failed: {done.stderr.strip()}")
    return done.stdout


def write_graphs(gt: Path, name: str, folder: str) -> Path:
    """The graphs of a set with their encodings, as a file for gt."""
    lines, encoded = Path(folder) / f"{name}.jsonl", Path(folder) / f"{name}.parquet"
    with open(lines, "w") as f:
        for g in draw(name):
            record = dict(num_nodes=g.n, node_feat=g.node_type[:, None].tolist(),
                          edge_index=[g.src.tolist(), g.dst.tolist()], y=[float(g.y[0])])
            if name == "zinc":
                record["edge_attr"] = g.edge_type[:, None].tolist()
            else:
                record["y"] = g.y.tolist()
            print(json.dumps(record), file=f)
    run_gt(gt, "encode", lines, "--lap", models.published(name).pe_dim, "--out", encoded)
    return encoded


def gt_block(gt: Path, name: str, data: Path, steps: int, threads: int) -> list[Record]:
    def own() -> float:
        usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(u.ru_utime + u.ru_stime for u in usages)

    command = [gt, "bench", "--set", name, "--graph", "sparse", "--data", data]
    with Load(own) as load:
        out = run_gt(*command, "--steps", steps, "--threads", threads)
    return [json.loads(line) | load.found for line in out.splitlines()]


# ---- rounds and table


def quiet(r: Record) -> bool:
    return max(r["other_cpu"], r["steal"]) <= QUIET


def measure(name: str, args: argparse.Namespace, folder: str, note: Callable[[Record], None]) -> None:
    workers: dict[str, Worker] = {}
    data = write_graphs(args.gt, name, folder) if "gt" in args.contenders else None
    try:
        for contender in (c for c in args.contenders if c in TORCH):
            worker = Worker(contender, name, args.threads)
            if "skipped" in worker.hello:
                print(f"{name}: {NAMES[contender]} is skipped: {worker.hello['skipped']}")
                worker.stop()
            else:
                workers[contender] = worker
        running = [c for c in args.contenders if c in workers or c == "gt"]
        for number in range(args.rounds):
            first = number % max(len(running), 1)
            for contender in running[first:] + running[:first]:  # nobody always follows the same one
                if contender == "gt":
                    found = gt_block(args.gt, name, data, args.steps, args.threads)
                else:
                    found = workers[contender].block(args.steps)
                    if "skipped" in found:
                        raise SystemExit(f"{name}: {NAMES[contender]} failed: {found['skipped']}")
                for r in found:
                    about = {} if contender == "gt" else workers[contender].hello
                    note(dict(contender=contender, set=name, round=number + 1, steps=args.steps) | r | about)
    finally:
        for worker in workers.values():
            worker.stop()


def progress(r: Record) -> str:
    return (f"round {r['round']} {r['set']:8}{NAMES[r['contender']]:14}{r['mode']:6} {r['ms_median']:8.1f} ms "
            f"(min {r['ms_min']:.1f}), {r['nodes']} nodes, {r['edges']} edges, {r['rss_mb']} MB, "
            f"other_cpu {r['other_cpu']}, steal {r['steal']}" + ("" if quiet(r) else "  disturbed"))


def table(records: list[Record], args: argparse.Namespace) -> str:
    """Median over the rounds (least of all steps); peak memory; how many times as much as gt the others need."""
    def cell(contender: str, name: str, mode: str) -> tuple[float, float, str] | None:
        found = [r for r in records if (r["contender"], r["set"], r["mode"]) == (contender, name, mode)]
        clean = [r for r in found if quiet(r)]
        used = clean or found
        if not used:
            return None
        least = min(r["ms_min"] for r in used)
        return statistics.median(r["ms_median"] for r in used), least, "" if clean else "*"

    def memory(contender: str, name: str) -> int | None:
        return max((r["rss_mb"] for r in records if r["contender"] == contender and r["set"] == name), default=None)

    def ratios(rivals: list[str], name: str) -> list[str]:
        cells = []
        for mode in MODES:
            ours, theirs = cell("gt", name, mode), [c for c in (cell(r, name, mode) for r in rivals) if c]
            if not ours or not theirs:
                cells.append("–")
                continue
            median, least = (min(c[i] for c in theirs) / ours[i] for i in (0, 1))
            marked = ours[2] or any(c[2] for c in theirs)
            cells.append(f"{median:.2f} ({least:.2f}){'*' if marked else ''}")
        ours, theirs = memory("gt", name), [m for m in (memory(r, name) for r in rivals) if m]
        return [*cells, f"{min(theirs) / ours:.2f}" if ours and theirs else "–"]

    head = [f"{name.upper()} {what}" for name in args.sets for what in ("train ms", "infer ms", "peak MB")]
    rows = [["median (min)", *head], ["---"] * (len(head) + 1)]
    for contender in args.contenders:
        cells = []
        for name in args.sets:
            found = [cell(contender, name, mode) for mode in MODES]
            cells += [f"{c[0]:.1f} ({c[1]:.1f}){c[2]}" if c else "–" for c in found]
            cells.append(str(memory(contender, name) or "–"))
        if any(c != "–" for c in cells):
            rows.append([NAMES[contender], *cells])
    groups = {"best of PyTorch, PyG, DGL / gt": ["plain", "pyg", "dgl"], "torch.compile / gt": ["compile"]}
    for label, rivals in groups.items():
        rows.append([label, *(c for name in args.sets for c in ratios(rivals, name))])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def sizes(records: list[Record], args: argparse.Namespace) -> str:
    """Nodes and edges of the first batch, as each contender counted them, and the mean of all batches."""
    lines = []
    for name in args.sets:
        graphs = draw(name)
        nodes, edges = (sum(x) / BATCHES for x in ([g.n for g in graphs], [len(g.src) for g in graphs]))
        lines.append(f"{name.upper()}: on average {nodes:.0f} nodes, {edges:.0f} edges; first batch:")
        seen: dict[tuple[int, int, int], list[str]] = {}
        for r in records:
            if r["set"] == name and NAMES[r["contender"]] not in (who := seen.setdefault(
                    (r["batch"], r["nodes"], r["edges"]), [])):
                who.append(NAMES[r["contender"]])
        lines += [f"  {b} graphs, {n} nodes, {e} edges ({', '.join(who)})" for (b, n, e), who in seen.items()]
    return "\n".join(lines)


def main() -> None:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = Path(__file__).resolve().parents[1]
    ap.add_argument("--gt", type=Path, default=root / "target/release/gt", metavar="PATH")
    ap.add_argument("--rounds", type=int, default=5, metavar="N", help="[default: 5]")
    ap.add_argument("--steps", type=int, default=12, metavar="N",
                    help=f"timed steps of a block; a multiple of {BATCHES} counts all batches alike [default: 12]")
    ap.add_argument("--threads", type=int, default=physical_cores(), metavar="N", help="[default: physical cores]")
    ap.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    ap.add_argument("--contenders", nargs="+", choices=NAMES, default=list(NAMES))
    ap.add_argument("--out", type=Path, metavar="FILE", help="append one JSON line per measurement")
    ap.add_argument("--worker", choices=TORCH, help=argparse.SUPPRESS)
    args = ap.parse_args()
    if args.worker:
        return work(args.worker, args.sets[0], args.threads)
    if args.rounds < 1 or args.steps < 1 or args.threads < 1:
        ap.error("--rounds, --steps and --threads must be at least 1")
    if "gt" in args.contenders and not args.gt.is_file():
        ap.error(f"{args.gt} is not here: cargo build --release, or --gt PATH")
    records: list[Record] = []

    def note(record: Record) -> None:
        records.append(record)
        print(progress(record), flush=True)
        if args.out:
            with open(args.out, "a") as f:
                print(json.dumps(record), file=f)

    with tempfile.TemporaryDirectory() as folder:
        for name in args.sets:
            measure(name, args, folder, note)
    disturbed = sum(not quiet(r) for r in records)
    print(f"\n{args.threads} threads, {args.rounds} rounds of {args.steps} steps; "
          f"{disturbed} of {len(records)} measurements disturbed\n{sizes(records, args)}\n\n{table(records, args)}")


if __name__ == "__main__":
    main()
