"""Damages valid inputs of `gt` at random, and checks how every command ends.

    python3 bench/trials/mutations.py target/release/gt --count 20000 --out results/trials/NAME.json

A call must end within 20 seconds and 4 GB of address space, with exit code 0, 1, 2 or 130, and an
error must have one line. Inputs of calls that do not are kept in the folder of --keep. The same
seed gives the same inputs. Only Python's standard library is needed.
"""

import argparse
import collections
import json
import os
import platform
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time

SMALL = "--set model.layers=1 --set model.width=8 --set model.heads=2 --set train.epochs=1 --device cpu"
MEMORY = 4_000_000 * 1024
SECONDS = 20
ALLOWED = {0, 1, 2, 130}


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def call(gt, line, folder):
    """Exit code (negative for a signal, None for a time-out) and standard error."""
    environment = {**os.environ, "GT_CACHE": os.path.join(folder, "cache"), "RUST_BACKTRACE": "0"}
    try:
        done = subprocess.run([gt, *line.split(), "--threads", "2"], cwd=folder, env=environment, timeout=SECONDS,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              preexec_fn=limit_memory)
        return done.returncode, done.stderr.decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        return None, ""


def make_inputs(gt, folder):
    """Valid inputs: a list of (file to damage, other files that the call needs, command lines)."""
    draw = random.Random(7)
    names = ["C", "N", "O"]
    with open(os.path.join(folder, "good.jsonl"), "w") as out:
        for at in range(12):
            nodes = draw.randint(1, 5)
            record = {
                "node_feat": [[draw.choice(names), round(draw.random(), 3)] for _ in range(nodes)],
                "edge_index": [[draw.randrange(nodes) for _ in range(nodes)] for _ in range(2)],
                "edge_attr": [[draw.randrange(3)] for _ in range(nodes)],
                "y": round(draw.random(), 3),
                "split": ["train", "train", "val", "test"][at % 4],
                "name": f"graph {at}",
            }
            out.write(json.dumps(record) + "\n")
    for line in [
        "data convert good.jsonl good.parquet",
        "data convert good.jsonl t_nodes.csv",
        "data convert good.jsonl p_nodes.parquet",
        f"train --data good.jsonl --out run {SMALL}",
    ]:
        code, message = call(gt, line, folder)
        if code != 0:
            sys.exit(f"gt {line}: {message}")
    read = ["data info {}", "predict run --data {} --out out.csv"]
    train = f"train --data {{}} --out other {SMALL}"
    text_tables = ["t_nodes.csv", "t_edges.csv", "t_graphs.csv", "t_schema.json"]
    tables = ["p_nodes.parquet", "p_edges.parquet", "p_graphs.parquet"]
    inputs = [(file, file, [*read, *read, *read, train]) for file in ["good.jsonl", "good.parquet"]]
    inputs += [(file, "t_nodes.csv", [*read, *read, train]) for file in text_tables]
    inputs += [(file, "p_nodes.parquet", [*read, *read, train]) for file in tables]
    model = os.path.join("run", "model.safetensors")
    inputs += 3 * [(model, "good.jsonl", ["predict run --data {} --out out.csv"])]
    return inputs


def damage(draw, data, others):
    """A damaged copy, and the kind of damage."""
    data = bytearray(data)
    kind = draw.choice(["bits", "bytes", "cut", "splice", "repeat", "remove", "numbers"])
    at = draw.randrange(len(data))
    end = min(len(data), at + 1 + int(draw.expovariate(1 / 20)))
    if kind == "bits":
        for _ in range(draw.randint(1, 8)):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    elif kind == "bytes":
        data[at:end] = bytes(draw.choice([0, 0x7F, 0x80, 0xFF, draw.randrange(256)]) for _ in range(end - at))
    elif kind == "cut":
        del data[at:]
    elif kind == "splice":
        other = draw.choice(others)
        start = draw.randrange(len(other))
        data[at:end] = other[start:start + draw.randint(1, 200)]
    elif kind == "repeat":
        data[at:at] = data[at:end] * draw.randint(1, 50)
    elif kind == "remove":
        del data[at:end]
    else:
        number = draw.choice([b"-1", b"1e999", b"NaN", b"4294967295", b"9007199254740993", b"99999999999999999999", b"0"])
        digits = [at for at, byte in enumerate(data) if chr(byte).isdigit()]
        if digits:
            at = draw.choice(digits)
            data[at:at + 1] = number
    return bytes(data), kind


def judge(code, message):
    """Why a call ended badly; None if it did not."""
    if code is None:
        return "no end"
    if code not in ALLOWED:
        return f"signal {-code}" if code < 0 else f"exit code {code}"
    if "panicked" in message:
        return "panic"
    errors = [line for line in message.splitlines() if line.startswith("error")]
    if code == 2 and (len(errors) != 1 or not message.rstrip().splitlines()[-1].startswith("error")):
        return "error not of one line"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gt")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=41)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so many seconds")
    parser.add_argument("--keep", default="mutations-kept")
    parser.add_argument("--out")
    options = parser.parse_args()
    gt = os.path.abspath(options.gt)
    draw = random.Random(options.seed)
    counts, bad, kinds = collections.Counter(), [], collections.Counter()
    begun = time.time()
    with tempfile.TemporaryDirectory() as folder:
        inputs = make_inputs(gt, folder)
        valid = {file: open(os.path.join(folder, file), "rb").read() for file, _, _ in inputs}
        done = 0
        while done < options.count and time.time() - begun < options.seconds:
            file, opened, lines = draw.choice(inputs)
            data, kind = damage(draw, valid[file], list(valid.values()))
            path = os.path.join(folder, file)
            with open(path, "wb") as out:
                out.write(data)
            line = draw.choice(lines).format(opened)
            code, message = call(gt, line, folder)
            with open(path, "wb") as out:
                out.write(valid[file])
            shutil.rmtree(os.path.join(folder, "other"), ignore_errors=True)
            counts[f"{line.split()[0]} {os.path.basename(file)}: {code}"] += 1
            kinds[kind] += 1
            problem = judge(code, message)
            if problem:
                os.makedirs(options.keep, exist_ok=True)
                with open(os.path.join(options.keep, f"{done}-{os.path.basename(file)}"), "wb") as out:
                    out.write(data)
                bad.append({"trial": done, "command": line, "file": file, "damage": kind, "problem": problem,
                            "message": message[-500:]})
            done += 1
    version = subprocess.run([gt, "--version"], capture_output=True, text=True).stdout.strip()
    result = {
        "program": version, "date": time.strftime("%Y-%m-%d"), "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "seed": options.seed, "trials": done, "seconds": round(time.time() - begun),
        "limits": {"address_space_bytes": MEMORY, "seconds": SECONDS},
        "damage": dict(sorted(kinds.items())), "exit_codes": dict(sorted(counts.items())), "bad": bad,
    }
    text = json.dumps(result, indent=1)
    if options.out:
        os.makedirs(os.path.dirname(options.out) or ".", exist_ok=True)
        with open(options.out, "w") as out:
            out.write(text + "\n")
    print(text)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
