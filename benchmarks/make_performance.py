#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the pages performance.md (with its picture) and foreign.md of docs/background from the
figures that benchmarks kept.

    python benchmarks/make_performance.py           # writes the pages and peers.svg
    python benchmarks/make_performance.py --check   # exit 1 if they are stale

The figures are those of docs/background/figures.json, which `./dev bench peers --write` and other
benchmarks with `--write` keep. They are stale, too, where they were measured with another version
of a package than tools/requirements*.txt pins.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

import foreign_report
from peers_picture import draw
from peers_report import (
    best_report,
    choice_table,
    columns,
    failure_table,
    figure_table,
    geometric_mean,
    ratio_table,
    start_report,
)

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "background"
FIGURES, PAGE, PICTURE, FOREIGN = (
    FOLDER / name for name in ("figures.json", "performance.md", "peers.svg", "foreign.md")
)
ELSEWHERE = {"foreign"}  # sections that have a page of their own

HEADER = """\
# Performance

Made by `benchmarks/make_performance.py` from `docs/background/figures.json`; do not edit.
Each section names its command, machine and versions. Compare figures of one section only: absolute
times drift with the machine. [How to measure](measuring.md) explains the method.
"""

# Section of the file -> title, and what a reader has to know.
SECTIONS = {
    "peers": (
        "Beside other runtimes",
        "Batch 1, float32 but for the columns `openvino bf16` and `xrt auto-low`. `xrt auto` is "
        '`auto_mode="full"`; `xrt auto-low` adds `precision="auto"` with a tolerance of 0.01 of '
        "the output's range. A dash: not measured.",
    ),
    "starts": (
        "Starts",
        "A start loads the model and runs it once, in a process of its own that has imported its "
        "package. The first start fills an empty cache folder, the second uses it. OpenVINO has "
        "its own cache (`CACHE_DIR`).",
    ),
    "int8": (
        "int8",
        "Q/DQ files of [`xrt quantize`](../guides/quantization.md), batch 1.",
    ),
    "precision": (
        "Precision",
        "A column is an engine and a precision; its int8 is the file of "
        "[`xrt quantize`](../guides/quantization.md). Samples are real, batch 1, and those that "
        "are judged were not calibrated with. `ORT` is ONNX Runtime with its own static and "
        "dynamic quantisation, `NNCF` its quantisation for OpenVINO, all on the same samples. The "
        "networks of torchvision have random weights. A dash: not measured, or no such precision.",
    ),
    "frontends": ("PyTorch modules on a CPU", ""),
    "training": (
        "`openxrt.Trainer` on a CPU",
        "A step is forward, backward and SGD with momentum. PyTorch eager is 1.",
    ),
    "serve": (
        "Served models",
        "Behind one Triton: openxrt (`openvino,native`), and ONNX Runtime and OpenVINO in the same "
        "Python backend; `batched` is with dynamic batching of up to 8 rows and 2 ms. KServe has "
        "no batching. Clients run on the same machine, over gRPC, one request after the other. "
        "Rates and p50 are medians over rounds, p99 is of all requests; with few requests it is "
        "near the slowest. The command prints each round: on a shared machine the rounds of one "
        "cell differ by up to a factor of three, and smaller differences between rows say nothing.",
    ),
    "loadgen": (
        "Served models, judged by LoadGen",
        "MLPerf's LoadGen asks for random inputs, of `Program.submit` in its own process and of "
        "the servers over gRPC, on the same machine. SingleStream: one query after the other. "
        "MultiStream: queries of eight samples. Offline: all samples at once. Server: queries come "
        "at random, at half of Offline's rate; late where more than 1 of 100 take longer than ten "
        "times SingleStream's latency. A p99 of a few seconds is near the slowest query; LoadGen "
        "itself wants minutes for a valid one. A scenario is measured once: on a shared machine "
        "rows differ by a factor of two, and their order says nothing. The last column is its "
        "accuracy mode: the largest difference from ONNX Runtime's results, over their range.",
    ),
    "replicas": (
        "Replicas",
        "A replica is a process that imports openxrt, loads a model and runs it once; times are "
        "from the start of the process to the end of that run. [Scale](scale.md) explains the "
        "columns. The second table is the first one multiplied.",
    ),
    "launch_overhead": (
        "What the runtime adds to a launch",
        "The processor time of a program of one function.",
    ),
    "lite": ("Lite on x86", "The [lite runtime](../guides/lite.md) beside peers, batch 1."),
    "torch_cuda": (
        "PyTorch modules on an NVIDIA GPU",
        "`XRTModule` and `torch.compile(backend='openxrt')` on the engine `xla`, tensors in the "
        "GPU's memory, without TF32 but where a row says so. Before the stroke: the median of runs "
        "that are waited for one by one; behind it: the mean of runs that are queued.",
    ),
    "lite_cuda": ("Lite on an NVIDIA GPU", "Files for `cuda`, compiled without a GPU."),
    "tvm_cuda": ("TVM on an NVIDIA GPU", ""),
}


def conditions(section: dict[str, Any]) -> list[str]:
    """The command, machine and versions of a section."""
    versions = ", ".join(f"{name} {version}" for name, version in section["versions"].items())
    threads = f" {section['threads']} thread{'s' * (section['threads'] != 1)}."
    return [
        "```text",
        section["command"],
        "```",
        "",
        f"Machine: {section['machine']}.{threads if section['threads'] else ''}",
        f"Versions: {versions}.",
    ]


def plain_table(table: dict[str, Any]) -> list[str]:
    """A table of the file, with its title above."""
    marks = ["---", *["---:"] * (len(table["columns"]) - 1)]
    rows = (table["columns"], marks, *table["rows"])
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    return [f"{table['title']}:", "", *lines] if table["title"] else lines


def peers(section: dict[str, Any]) -> list[str]:
    """The tables of what peers.py measured."""
    models = section["models"]
    wanted = columns(models)
    parts = [
        ["![Latency of OpenXRT and other runtimes over that of ONNX Runtime](peers.svg)"],
        ratio_table(models),
        figure_table(models, wanted, "median ms", "median_ms", ".2f"),
        best_report(models),
        [
            "What `auto` chose:",
        ],
        choice_table(models),
        figure_table(models, wanted, "import of the package, s", "import_s", ".2f"),
        figure_table(models, wanted, "load and first run, s", "start_s", ".2f"),
        figure_table(models, wanted, "peak memory, MB", "peak_mb", ".0f"),
        start_report(models, wanted),
        failure_table(models, wanted),
    ]
    lines: list[str] = []
    for part in parts:
        lines += [*part, ""] if part else []
    return lines[:-1]


def page(figures: dict[str, Any]) -> str:
    """The text of the page."""
    lines = [HEADER]
    unknown = set(figures) - set(SECTIONS) - ELSEWHERE
    if unknown:
        raise ValueError(f"{FIGURES.name} has sections that nobody knows: {sorted(unknown)}")
    for name, (title, text) in SECTIONS.items():
        if name not in figures:
            continue
        section = figures[name]
        lines += [f"## {title}", ""]
        lines += [text, ""] if text else []
        lines += [*conditions(section), ""]
        if "models" in section:
            lines += [*peers(section), ""]
        for table in section.get("tables", []):
            lines += [*plain_table(table), ""]
    return "\n".join(lines).rstrip() + "\n"


def summary(figures: dict[str, Any]) -> str:
    """One sentence for README.md: geometric means over ONNX Runtime."""
    section = figures["peers"]
    models = section["models"]

    def mean(runtime: str) -> str:
        ratios = [
            r[runtime]["median_ms"] / r["onnxruntime"]["median_ms"]
            for r in models.values()
            if "median_ms" in r.get(runtime, {}) and "median_ms" in r.get("onnxruntime", {})
        ]
        return f"{geometric_mean(ratios):.2f}"

    return (
        f"{len(models)} models on {section['threads']} threads, geometric means of the latency "
        f"over ONNX Runtime's: `native` {mean('xrt native')}, `auto` {mean('xrt auto')}, and "
        f'`auto` with `precision="auto"` {mean("xrt auto-low")}.'
    )


def with_summary(readme: str, figures: dict[str, Any]) -> str:
    """README.md with that sentence between its marks."""
    begin, end = "<!-- figures: begin -->\n", "\n<!-- figures: end -->"
    before, rest = readme.split(begin)
    return f"{before}{begin}{summary(figures)}{end}{rest.split(end)[1]}"


def other_versions(figures: dict[str, Any]) -> list[str]:
    """The packages of the CPU figures that are pinned to other versions than were measured."""
    pins: dict[str, str] = {}
    for file in sorted((ROOT / "tools").glob("requirements*.txt")):
        pins |= dict(re.findall(r"^([\w.-]+)==([\w.]+)", file.read_text(encoding="utf-8"), re.M))
    return [
        f"{name}: {package} {version} was measured, {pins[package]} is pinned"
        for name, section in figures.items()
        if not name.endswith("_cuda")
        for package, version in section["versions"].items()
        if package in pins and pins[package] != version
    ]


def main() -> int:
    """Writes or checks."""
    parser = argparse.ArgumentParser(description="Write docs/background/performance.md.")
    parser.add_argument("--check", action="store_true", help="only say whether all is up to date")
    arguments = parser.parse_args()
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))
    readme = ROOT / "README.md"
    wanted = {
        PAGE: page(figures),
        PICTURE: draw(figures["peers"]["models"]),
        readme: with_summary(readme.read_text(encoding="utf-8"), figures),
    }
    if foreign := figures.get("foreign"):
        wanted[FOREIGN] = foreign_report.page(foreign, conditions(foreign))
    if not arguments.check:
        for path, text in wanted.items():
            path.write_text(text, encoding="utf-8")
        return 0
    problems = [
        f"{path.relative_to(ROOT)} is stale: run benchmarks/make_performance.py"
        for path, text in wanted.items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    problems += [
        f"{problem}: run its benchmark with --write" for problem in other_versions(figures)
    ]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
