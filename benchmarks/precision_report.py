# SPDX-License-Identifier: Apache-2.0
"""What precision.py measured as tables: time, error, agreement, and ours beside the peers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from peers_report import geometric_mean

Results = dict[str, dict[str, Any]]  # model, column -> figures
Table = dict[str, Any]  # title, columns, rows: all text

BASE = "ORT f32"
# Ours against the peer that makes the same trade.
PAIRS = (
    ("native int8", "ORT static int8"),
    ("native int8", "ORT dynamic int8"),
    ("native int8", "NNCF int8"),
    ("openvino int8", "NNCF int8"),
    ("onnxruntime int8", "ORT static int8"),
    ("native bf16", "OpenVINO bf16"),
)


def measured(results: Results) -> list[str]:
    """Columns that some model has a time for, in their order."""
    columns = dict.fromkeys(column for row in results.values() for column in row)
    return [c for c in columns if any("median_ms" in r.get(c, {}) for r in results.values())]


def ratio(row: dict[str, Any], ours: str, peer: str) -> float | None:
    """Time over time, where both were measured."""
    times = [row.get(column, {}).get("median_ms") for column in (ours, peer)]
    return None if None in times else times[0] / times[1]


def text(value: float | None, form: str) -> str:
    if value is None:
        return "–"
    return "exact" if math.isinf(value) else format(value, form)


def table(
    results: Results,
    title: str,
    cell: Callable[[dict[str, Any], str], str],
    last: list[str],
    *,
    base: bool = False,
) -> Table:
    """A row per model, a column per column; that of the base where `base`."""
    columns = [column for column in measured(results) if base or column != BASE]
    rows = [[model, *(cell(row, c) for c in columns)] for model, row in results.items()]
    return {"title": title, "columns": ["model", *columns], "rows": rows + ([last] if last else [])}


def means(results: Results) -> list[str]:
    """Geometric means of the times over those of the base."""
    cells = ["geometric mean"]
    for column in measured(results):
        if column == BASE:
            continue
        ratios = [ratio(row, column, BASE) for row in results.values()]
        cells.append(text(geometric_mean([r for r in ratios if r is not None]), ".2f"))
    return cells


def beside_peers(results: Results) -> Table:
    """For each pair: the geometric mean of times, and on how many models ours errs less."""
    rows = []
    for ours, peer in PAIRS:
        both = [r for r in results.values() if ratio(r, ours, peer) is not None]
        if not both:
            continue
        times = geometric_mean([ratio(r, ours, peer) or math.nan for r in both])
        gains = [r[ours]["decibels"] - r[peer]["decibels"] for r in both]
        finite = [gain for gain in gains if math.isfinite(gain)]
        better = sum(gain >= 0 for gain in gains)
        mean = f"{sum(finite) / len(finite):+.1f}" if finite else "–"
        rows.append([f"{ours} / {peer}", f"{times:.2f}", mean, f"{better} of {len(both)}"])
    columns = ["pair", "time", "decibels more, mean", "models with at least as many decibels"]
    return {"title": "Ours beside peers", "columns": columns, "rows": rows}


def tables(results: Results) -> list[Table]:
    """All tables, as docs/background/figures.json keeps them."""

    def times(row: dict[str, Any], column: str) -> str:
        return text(ratio(row, column, BASE), ".2f")

    def noise(row: dict[str, Any], column: str) -> str:
        return text(row.get(column, {}).get("decibels"), ".1f")

    def agreement(row: dict[str, Any], column: str) -> str:
        value = row.get(column, {}).get("agreement")
        return "–" if value is None else f"{value * 100:.1f}"

    def memory(row: dict[str, Any], column: str) -> str:
        return text(row.get(column, {}).get("held_mb"), ".0f")

    return [
        table(results, "Time over that of ONNX Runtime in float32", times, means(results)),
        table(results, "Signal over noise of the worst output, dB", noise, []),
        table(results, "Equal answers, %", agreement, []),
        table(results, "Memory that model and runs hold, MB", memory, [], base=True),
        beside_peers(results),
    ]


def report(results: Results) -> str:
    """Everything as Markdown."""
    lines: list[str] = []
    for each in tables(results):
        lines += [f"{each['title']}:", "", "| " + " | ".join(each["columns"]) + " |"]
        lines.append("| --- |" + " ---: |" * (len(each["columns"]) - 1))
        lines += ["| " + " | ".join(row) + " |" for row in each["rows"]] + [""]
    for model, row in results.items():
        lines += [f"- {model}, {c}: {f['error']}" for c, f in row.items() if "error" in f]
    return "\n".join(lines)
