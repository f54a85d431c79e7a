"""Prints means over the seeds as a table: python3 table.py RESULTS.jsonl… [--of old,new]"""
import json
import statistics
import sys
from collections import defaultdict


def main():
    files = [word for word in sys.argv[1:] if word.endswith(".jsonl")]
    rows = defaultdict(lambda: defaultdict(list))
    programs = []
    for file in files:
        for line in open(file):
            run = json.loads(line)
            rows[run["set"], run["metric"]][run["program"]].append(run)
            if run["program"] not in programs:
                programs.append(run["program"])
    if "--of" in sys.argv:
        programs = sys.argv[sys.argv.index("--of") + 1].split(",")
    print("| set | score |" + "".join(f" {name} | runs | CPU s |" for name in programs))
    print("|---|---|" + "---|---|---|" * len(programs))
    for (name, metric), runs in rows.items():
        cells = ""
        for program in programs:
            own = runs.get(program, [])
            scores = [run["score"] for run in own if run["score"] is not None]
            mean = f"{statistics.mean(scores):.4g} ± {statistics.pstdev(scores):.2g}" if scores else "none"
            seconds = f"{statistics.mean(run['cpu_s'] for run in own):.1f}" if own else "–"
            cells += f" {mean} | {len(scores)} of {len(own)} | {seconds} |"
        print(f"| {name} | {metric} |{cells}")


main()
