# SPDX-License-Identifier: Apache-2.0
"""What peers.py measured as tables: latency, ratios, starts, memory, and what "auto" chose."""

from __future__ import annotations

import math
import statistics
from typing import Any

RUNTIMES = (
    "onnxruntime",
    "openvino",
    "openvino bf16",
    "pytorch",
    "pytorch compiled",
    "xrt native",
    "xrt openvino,native",
    "xrt xla,native",
    "xrt onnxruntime,native",
    "xrt tvm,native",
    "xrt auto",
    "xrt auto-low",
)
# Measured where they are asked for, with --runtime or --all: what takes minutes per model, or needs
# packages that nothing else here does.
OPTIONAL = ("jax", "xrt tvm-tuned,native", "xrt auto-default")
# Columns of --int8: each in float32, and on the model that openxrt.quantize made.
INT8 = tuple(
    f"{runtime}{kind}"
    for runtime in (
        "onnxruntime",
        "openvino",
        "xrt native",
        "xrt openvino,native",
        "xrt onnxruntime,native",
    )
    for kind in ("", " int8")
)
# The same quantised with round_sums, which ONNX Runtime needs.
ROUNDED = ("onnxruntime int8-rounded", "xrt onnxruntime,native int8-rounded")
# What computes in less than float32, and is compared with nobody who does not.
LOW = ("openvino bf16", "xrt auto-low")
# Ours against the peer it has to match.
PAIRS = (
    ("xrt native", "onnxruntime"),
    ("xrt openvino,native", "openvino"),
    ("xrt xla,native", "onnxruntime"),
    ("xrt onnxruntime,native", "onnxruntime"),
    ("xrt tvm,native", "onnxruntime"),
    ("jax", "onnxruntime"),
    ("xrt xla,native", "jax"),
    ("xrt tvm-tuned,native", "onnxruntime"),
    ("xrt tvm-tuned,native", "xrt tvm,native"),
    ("pytorch", "onnxruntime"),
    ("xrt auto", "onnxruntime"),
    ("xrt auto-low", "onnxruntime"),
    ("openvino bf16", "onnxruntime"),
    *((f"{runtime} int8", runtime) for runtime in INT8[::2]),
    *((f"{r} int8-rounded", r) for r in ("onnxruntime", "xrt onnxruntime,native")),
    ("xrt native int8", "onnxruntime int8"),
    ("xrt native int8", "openvino int8"),
)


Results = dict[str, dict[str, Any]]  # model, runtime -> figures


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def columns(results: Results) -> list[str]:
    """The runtimes that were measured, in the order of the tables."""
    present = {runtime for runtimes in results.values() for runtime in runtimes}
    known = dict.fromkeys(RUNTIMES + OPTIONAL + INT8 + ROUNDED)
    return [runtime for runtime in known if runtime in present]


def report(results: Results, wanted: list[str]) -> str:
    """Everything, as Markdown tables."""
    parts = [
        figure_table(results, wanted, "median ms", "median_ms", ".2f"),
        figure_table(results, wanted, "import of its package, s", "import_s", ".2f"),
        figure_table(results, wanted, "start, s", "start_s", ".2f"),
        figure_table(results, wanted, "until auto has decided, s", "settled_s", ".1f"),
        figure_table(results, wanted, "peak memory, MB", "peak_mb", ".0f"),
        ratio_table(results),
        best_report(results),
        choice_table(results),
        start_report(results, wanted),
        failure_table(results, wanted),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def figure_table(results: Results, wanted: list[str], title: str, key: str, form: str) -> list[str]:
    """One figure of every model and runtime; empty where nobody has it."""

    def cell(model: str, runtime: str) -> str:
        value = results[model].get(runtime, {}).get(key)
        return "–" if value is None else format(value, form)

    if not any(key in r.get(runtime, {}) for r in results.values() for runtime in wanted):
        return []
    lines = [f"| {title} | {' | '.join(wanted)} |", "| --- |" + " ---: |" * len(wanted)]
    for model in results:
        cells = " | ".join(cell(model, runtime) for runtime in wanted)
        lines.append(f"| {model} | {cells} |")
    return lines


def ratio_table(results: Results) -> list[str]:
    """Ratios of medians between the pairs that are to be compared."""
    lines = []
    for ours, peer in PAIRS:
        ratios = [
            r[ours]["median_ms"] / r[peer]["median_ms"]
            for r in results.values()
            if "median_ms" in r.get(ours, {}) and "median_ms" in r.get(peer, {})
        ]
        if ratios:
            lines.append(
                f"| {ours} / {peer} | {geometric_mean(ratios):.2f} | {min(ratios):.2f} "
                f"| {max(ratios):.2f} |"
            )
    head = [
        "| ratio of medians | geometric mean | lowest | highest |",
        "| --- | ---: | ---: | ---: |",
    ]
    return [*head, *lines] if lines else []


def failure_table(results: Results, wanted: list[str]) -> list[str]:
    """What could not be measured, and why."""
    lines = [
        f"| {model} | {runtime} | {runtimes[runtime]['error'].replace('|', '/')} |"
        for model, runtimes in results.items()
        for runtime in wanted
        if "error" in runtimes.get(runtime, {})
    ]
    return ["| model | not measured | why |", "| --- | --- | --- |", *lines] if lines else []


def start_report(results: Results, wanted: list[str]) -> list[str]:
    """First and second starts per model, their ratios, and ours against OpenVINO's own cache."""
    caching = [
        r for r in wanted if any("second_starts_s" in of.get(r, {}) for of in results.values())
    ]
    if not caching:
        return []

    def median(model: str, runtime: str, key: str) -> float:
        return statistics.median(results[model].get(runtime, {}).get(key) or [math.nan])

    def ratios(runtime: str, key: str, over: str = "", over_key: str = "") -> list[float]:
        """Per model where both are known: `key` over `over_key` of another runtime."""
        found = (
            median(m, runtime, key) / median(m, over or runtime, over_key or key) for m in results
        )
        return [ratio for ratio in found if not math.isnan(ratio)]

    lines = [
        f"| first → second start, s (ratio) | {' | '.join(caching)} |",
        "| --- |" + " ---: |" * len(caching),
    ]
    for model in results:
        cells = []
        for runtime in caching:
            first, second = (median(model, runtime, f"{w}_starts_s") for w in ("first", "second"))
            missing = math.isnan(first) or math.isnan(second)
            cells.append("–" if missing else f"{first:.3f} → {second:.3f} ({second / first:.2f})")
        lines.append(f"| {model} | {' | '.join(cells)} |")
    for title, name, over in (
        ("geometric mean", "second_starts_s", "first_starts_s"),
        ("the same of CPU time", "second_starts_cpu_s", "first_starts_cpu_s"),
        ("one more run / first start", "second_runs_s", "first_starts_s"),
        ("the same of CPU time", "second_runs_cpu_s", "first_starts_cpu_s"),
    ):
        means = (geometric_mean(ratios(r, name, over_key=over)) for r in caching)
        lines.append(f"| {title} | {' | '.join(format(mean, '.2f') for mean in means)} |")
    ours = next((r for r in caching if r.startswith("xrt openvino")), None)
    if ours and "openvino" in caching:
        for which in ("first", "second"):
            parts = []
            for title, kind in (("", ""), (" of CPU time", "_cpu")):
                name = f"{which}_starts{kind}_s"
                parts.append(f"{geometric_mean(ratios(ours, name, over='openvino')):.2f}{title}")
                with_import = [
                    (median(m, ours, name) + median(m, ours, f"{which}_imports{kind}_s"))
                    / (
                        median(m, "openvino", name)
                        + median(m, "openvino", f"{which}_imports{kind}_s")
                    )
                    for m in results
                ]
                known = [ratio for ratio in with_import if not math.isnan(ratio)]
                parts.append(f"{geometric_mean(known):.2f}{title} with the packages' imports")
            lines += ["", f"{which} start, {ours} / openvino: {'; '.join(parts)}"]
    return lines


def turn_by_turn(ours: dict[str, Any], other: dict[str, Any]) -> float:
    """The median over the rounds of the ratio of two runtimes' times: what drifts meets both."""
    if "median_ms" not in ours or "median_ms" not in other:
        return math.nan
    if "turns_ms" not in ours or "turns_ms" not in other:
        return ours["median_ms"] / other["median_ms"]
    pairs = zip(ours["turns_ms"], other["turns_ms"], strict=True)
    return statistics.median(own / others for own, others in pairs)


def best_report(results: Results) -> list[str]:
    """Compares "xrt auto" with the best of all others in float32."""
    tables = [beside_the_best(results, own) for own in ("xrt auto", "xrt auto-default")]
    return [line for table in tables if table for line in ["", *table]][1:]


def beside_the_best(results: Results, own: str) -> list[str]:
    """One of our ways to choose beside the best of all that choose nothing, in float32."""
    against_best = {}
    for model, runtimes in results.items():
        auto = runtimes.get(own, {})
        others = {
            runtime: turn_by_turn(auto, figures)
            for runtime, figures in runtimes.items()
            if runtime not in LOW and not runtime.startswith("xrt auto") and "median_ms" in figures
        }
        if "median_ms" in auto and others:
            best = max(others, key=others.get)
            against_best[model] = (others[best], best)
    if not against_best:
        return []
    mean = geometric_mean([ratio for ratio, _ in against_best.values()])
    return [
        f"| model | {own} / best of the others | which is |",
        "| --- | ---: | --- |",
        *(f"| {model} | {ratio:.2f} | {best} |" for model, (ratio, best) in against_best.items()),
        f"| geometric mean | {mean:.2f} | |",
    ]


def choice_of(candidates: list[dict[str, Any]]) -> dict[str, Any] | None:
    """What an explanation's candidates say of the plan that was chosen."""
    chosen = next((c for c in candidates if c["chosen"]), None)
    return chosen and {key: chosen[key] for key in ("plan", "precision", "error")}


def choice_table(results: Results) -> list[str]:
    """The plans that "auto" chose."""
    rows = []
    for model, runtimes in results.items():
        for runtime in ("xrt auto", "xrt auto-default", "xrt auto-low"):
            choice = runtimes.get(runtime, {}).get("choice")
            if choice is None:
                continue
            error = "–" if choice["error"] < 0 else f"{choice['error']:.1e}"
            rows.append(
                f"| {model} | {runtime} | {choice['plan']} | {choice['precision']} | {error} |"
            )
    if not rows:
        return []
    return [
        "| model | | plan chosen | precision | error |",
        "| --- | --- | --- | --- | ---: |",
        *rows,
    ]
