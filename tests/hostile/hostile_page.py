#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/background/hostile.md from the answers of hostile cases.

./dev fuzz hostile --all --record
python tests/hostile/hostile_page.py a.json b.json    # of ./dev fuzz hostile --slice ... --json
"""

from __future__ import annotations

import collections
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "background" / "hostile.md"

BEGINNING = """\
# Hostile models and tensors

Made by `./dev fuzz hostile --record`, or by `tests/hostile/hostile_page.py` of several runs; do not
edit. `./dev fuzz hostile --all` runs all cases of a seed.

Each case is a model that is loaded and run, on one engine with `native` for what that engine does
not take. `SECURITY.md` says what the cases are and which bounds hold for them. An outcome is a
result like the native engine's, an error of ours, another result or one where the native engine
refuses the case that `tests/hostile/hostile_known.py` explains, or one that makes the command fail:
a crash, a hang of more than 60 s, memory above 2 GiB, an internal error, or such a result that
nothing explains.

"""
SOUND = {
    "result": "results",
    "error": "errors",
    "explained": "explained",
    "left out": "left out",
}
BAD = {"crash": "crashes", "hang": "hangs", "memory": "over the bound", "internal": "internal"}
BAD |= {"differs": "other results", "lax": "refused by native"}


def table(answers: list[dict[str, Any]], by: str) -> str:
    """Counts of outcomes, a row for each value of `by`."""
    counts: dict[str, collections.Counter[str]] = {}
    for answer in answers:
        counts.setdefault(answer[by], collections.Counter())[answer["outcome"]] += 1
    met = {outcome for counter in counts.values() for outcome in counter}
    shown = {key: head for key, head in {**SOUND, **BAD}.items() if key in BAD or key in met}
    lines = [
        f"| {by} | cases | {' | '.join(shown.values())} |",
        "| --- |" + " ---: |" * (len(shown) + 1),
    ]
    for name, counter in counts.items():
        cells = " | ".join(f"{counter[key]:,}" for key in shown)
        lines.append(f"| {name} | {counter.total():,} | {cells} |")
    return "\n".join(lines) + "\n"


def what_ran(answers: list[dict[str, Any]]) -> str:
    """Seeds, cases and source."""
    seeds = sorted({answer["seed"] for answer in answers})
    cases = {(answer["kind"], answer["index"], answer["seed"]) for answer in answers}
    source = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD:src"],
        cwd=PAGE.parent,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    return (
        f"{len(cases):,} cases of the seeds {', '.join(map(str, seeds))}, on the source with the "
        f"tree hash `{source}`:\n\n"
    )


def write_page(answers: list[dict[str, Any]]) -> None:
    """Into the tree."""
    text = BEGINNING + what_ran(answers) + table(answers, "engine") + "\n" + table(answers, "kind")
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_page([answer for name in sys.argv[1:] for answer in json.loads(Path(name).read_text())])
