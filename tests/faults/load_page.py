#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/background/load.md from the report of a mixed load.

./dev fuzz load --minutes 30 --record
python tests/faults/load_page.py report.json    # of ./dev fuzz load --json report.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "background" / "load.md"
MIB = 1 << 20
IN_BYTES = {"heap in use", "memory"}

BEGINNING = """\
# Mixed load with faults

Made by `./dev fuzz load --record`; do not edit.

The command runs a process of 16 threads that load, run and drop programs: eleven small models
(convolution, attention, LSTM, loop, branch, texts, int8, shapes that depend on data), inputs of
several sizes, four engines, with and without a cache folder, in this process and in workers.
Meanwhile it does the faults of the table to the process. Every result is compared with ONNX
Runtime's; an error is right only where the caller or a fault asked for it.

"""

GROWTH = """\

Before the clients begin, the process has as many programs at once as they ever hold, of each
engine and number of threads: OpenVINO keeps the threads of models that are gone for those that
follow. Memory, threads, descriptors and mappings are sampled every two seconds. A line is
laid through the samples after the first third: the median of the slopes between all pairs of
them. What it rises by until the end is in the table, with what it may rise by. "heap in use" are
the blocks of the heap that somebody holds. "memory" is resident; once a second the C library is
told to give back the pages between them, which it keeps otherwise for each thread.

| what | median | rise | allowed |
| --- | ---: | ---: | ---: |
"""


def rows(numbers: dict[str, int], head: str) -> str:
    """A table of counts."""
    lines = [f"| {head} | times |", "| --- | ---: |"]
    lines += [f"| {what} | {number:,} |" for what, number in sorted(numbers.items())]
    return "\n".join(lines) + "\n"


def page(report: dict[str, Any]) -> str:
    """The page as text."""
    text = BEGINNING + report["summary"] + ".\n\n"
    text += rows(report["counts"], "outcome") + "\n" + rows(report["faults"], "fault") + GROWTH
    for name, found in report["growth"].items():
        unit, suffix = (MIB, " MiB") if name in IN_BYTES else (1, "")
        cells = [f"{found[key] / unit:.1f}{suffix}" for key in ("median", "rise", "allowed")]
        text += f"| {name} | {' | '.join(cells)} |\n"
    if report["problems"]:
        text += "\nProblems:\n\n" + "".join(f"- {problem}\n" for problem in report["problems"])
    return text


def write_page(report: dict[str, Any]) -> None:
    """Into the tree."""
    PAGE.write_text(page(report), encoding="utf-8")


if __name__ == "__main__":
    write_page(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
