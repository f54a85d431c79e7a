#!/usr/bin/env python3
"""Draws docs/images/comparison.svg from measurements in this repository.

    python3 bench/chart.py

Speed: bench/results/2026-11-15-zen4-2core/compare.jsonl (made by bench/compare.py), medians over the rounds.
Accuracy: results/paper/records (four seeds each), next to the paper's numbers in crates/reproduce/src/paper.toml.
Colours are attributes of every shape, so converters without CSS draw the chart as a browser does.
"""
import json
import pathlib
import statistics
import tomllib
from html import escape

ROOT = pathlib.Path(__file__).resolve().parent.parent
STACKS = [("plain", "PyTorch"), ("pyg", "PyG"), ("dgl", "DGL"), ("compile", "torch.compile"), ("gt", "gt")]
SETS = ["zinc", "pattern", "cluster"]
INK, SOFT, LINE, OTHERS, OURS = "#1f2328", "#59626b", "#d0d7de", "#b4bcc6", "#0b62c4"


def speeds():
    """Milliseconds of a training step by set and stack."""
    found = {}
    for line in (ROOT / "bench/results/2026-11-15-zen4-2core/compare.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row.get("mode") == "train" and "ms_median" in row:
            found.setdefault((row["set"], row["contender"]), []).append(row["ms_median"])
    return {key: statistics.median(values) for key, values in found.items()}


def scores():
    """Mean and deviation of the paper and of our four seeds, by set."""
    cells = tomllib.loads((ROOT / "crates/reproduce/src/paper.toml").read_text())["table"][0]["cells"]
    paper = {cell["preset"]: cell["test"] for cell in cells}
    found = {}
    for name in SETS:
        preset = f"{name}-sparse-lappe-bn"
        files = [ROOT / f"results/paper/records/{preset}-{seed}.json" for seed in (41, 95, 22, 35)]
        ours = [json.loads(file.read_text())["last"]["test"]["paper"] for file in files]
        found[name] = paper[preset], (statistics.mean(ours), statistics.stdev(ours))
    return found


class Drawing:
    def __init__(self, width, height):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'role="img" font-family="system-ui, Helvetica, Arial, sans-serif">',
            "<title>A training step and test scores, next to PyTorch stacks</title>",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        ]

    def text(self, x, y, text, size=12, fill=INK, anchor="start", weight=400):
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" fill="{fill}" '
            f'text-anchor="{anchor}">{escape(text)}</text>'
        )

    def rect(self, x, y, width, height, fill):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"/>')

    def line(self, x, y, u, v, stroke, width=1.0):
        self.parts.append(
            f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{u:.1f}" y2="{v:.1f}" stroke="{stroke}" stroke-width="{width}"/>'
        )

    def dot(self, x, y, fill):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{fill}"/>')


def draw_speed(drawing, times):
    drawing.text(16, 26, "Training step, ms (2 CPU cores; shorter is better)", 14, weight=600)
    most = max(times.values())
    y = 50
    for name in SETS:
        drawing.text(16, y + 4, name.upper(), 12, SOFT, weight=600)
        y += 12
        for key, label in STACKS:
            value = times[name, key]
            ours = key == "gt"
            drawing.text(112, y + 11, label, 12, INK if ours else SOFT, "end", 600 if ours else 400)
            drawing.rect(120, y, 250 * value / most, 14, OURS if ours else OTHERS)
            drawing.text(126 + 250 * value / most, y + 11, f"{int(value + 0.5)}", 12, INK, weight=600 if ours else 400)
            y += 18
        y += 16


def draw_scores(drawing, found):
    left, right = 520, 800
    drawing.text(440, 26, "Test score, four seeds (mean and deviation)", 14, weight=600)
    y = 50
    for name in SETS:
        (theirs, ours) = found[name]
        unit, better = ("MAE", "lower") if name == "zinc" else ("accuracy, %", "higher")
        drawing.text(440, y + 4, name.upper(), 12, SOFT, weight=600)
        drawing.text(right, y + 4, f"{unit}; {better} is better", 11, SOFT, "end")
        low = min(mean - 2.2 * sd for mean, sd in (theirs, ours))
        high = max(mean + 2.2 * sd for mean, sd in (theirs, ours))
        at = lambda value: left + 16 + (value - low) / (high - low) * (right - left - 126)
        digits = 3 if name == "zinc" else 1
        for row, (label, colour, (mean, sd)) in enumerate((("paper", OTHERS, theirs), ("gt", OURS, ours))):
            middle = y + 26 + 26 * row
            drawing.text(left - 8, middle + 4, label, 12, INK if row else SOFT, "end", 600 if row else 400)
            drawing.line(left, middle, right - 96, middle, LINE)
            drawing.line(at(mean - sd), middle, at(mean + sd), middle, colour, 4)
            drawing.dot(at(mean), middle, colour)
            drawing.text(right, middle + 4, f"{mean:.{digits}f} ± {sd:.{digits}f}", 12, INK, "end")
        y += 118


def main():
    drawing = Drawing(820, 420)
    draw_speed(drawing, speeds())
    draw_scores(drawing, scores())
    drawing.text(16, 408, "The same networks, graphs and threads; f32; 2026-11-15.", 11, SOFT)
    drawing.text(440, 408, "paper: PyTorch and DGL. gt: TF32, H200. LapPE, batch norm.", 11, SOFT)
    file = ROOT / "docs/images/comparison.svg"
    file.write_text("\n".join(drawing.parts) + "\n</svg>\n")
    print(f"wrote {file.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
