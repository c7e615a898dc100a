# SPDX-License-Identifier: Apache-2.0
"""Draws what peers.py measured: each runtime's time over ONNX Runtime's, per model, as SVG."""

from __future__ import annotations

import math
from typing import Any
from xml.sax.saxutils import escape

BASE = "onnxruntime"
# Runtime, label, colour on a light and on a dark ground, radius; drawn in this order.
SERIES = (
    ("pytorch", "PyTorch", "#b9c0ca", "#5b6470", 4.0),
    ("pytorch compiled", "torch.compile", "#8b95a3", "#8b95a3", 4.0),
    ("openvino", "OpenVINO", "#5d6878", "#b4bdca", 4.0),
    ("xrt auto", "OpenXRT auto, fp32", "#1d63d8", "#6aa5ff", 6.0),
    ("xrt auto-low", "OpenXRT auto, precision auto", "#d97706", "#f5a524", 6.0),
)
WIDTH, LEFT, RIGHT = 860, 160, 24
ROW, TOP, BOTTOM = 26, 74, 56
LOW, HIGH = 0.125, 8.0


def draw(results: dict[str, dict[str, Any]]) -> str:
    """The picture, as the text of an SVG file that follows the reader's colour scheme."""
    models = [m for m, runtimes in results.items() if "median_ms" in runtimes.get(BASE, {})]
    ratios = {
        runtime: {
            model: results[model][runtime]["median_ms"] / results[model][BASE]["median_ms"]
            for model in models
            if "median_ms" in results[model].get(runtime, {})
        }
        for runtime, *_ in SERIES
    }
    series = [entry for entry in SERIES if ratios[entry[0]]]
    # A mean over fewer models than the others' would compare apples with pears.
    means = {
        runtime: math.exp(sum(map(math.log, values.values())) / len(values))
        for runtime, values in ratios.items()
        if values and len(values) == len(models)
    }
    height = TOP + ROW * (len(models) + 1) + 12 + BOTTOM
    parts = [_head(height, series), *_legend(series), *_grid(height)]
    for row, model in enumerate([*models, "geometric mean"]):
        y = TOP + ROW * row + (12 if row == len(models) else 0)
        values = {
            runtime: means.get(runtime) if row == len(models) else ratios[runtime].get(model)
            for runtime, *_ in series
        }
        parts += _row(model, y, values, series, mean=row == len(models))
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _x(ratio: float) -> float:
    clipped = min(max(ratio, LOW), HIGH)
    share = math.log(clipped / LOW) / math.log(HIGH / LOW)
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _head(height: int, series: list[tuple]) -> str:
    light = "".join(f".s{i}{{fill:{entry[2]}}}" for i, entry in enumerate(series))
    dark = "".join(f".s{i}{{fill:{entry[3]}}}" for i, entry in enumerate(series))
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" \
viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Latency of OpenXRT and other runtimes over \
that of ONNX Runtime, per model">
<style>
text{{font:13px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#1b2330}}
.soft{{fill:#5d6878;font-size:12px}}.bold{{font-weight:600}}
.ground{{fill:#ffffff}}.grid{{stroke:#e4e8ee}}.base{{stroke:#1b2330;stroke-dasharray:3 3}}
.span{{stroke:#d3d9e2;stroke-width:2}}{light}
@media (prefers-color-scheme:dark){{text{{fill:#e6eaf0}}.soft{{fill:#98a3b3}}.ground{{fill:#12161d}}
.grid{{stroke:#262d38}}.base{{stroke:#e6eaf0}}.span{{stroke:#323b48}}{dark}}}
</style>
<rect class="ground" width="{WIDTH}" height="{height}" rx="8"/>
<text class="bold" x="20" y="26">Latency over ONNX Runtime's</text>
<text class="soft" x="{WIDTH - RIGHT}" y="26" text-anchor="end">left is faster · log scale</text>"""


def _legend(series: list[tuple]) -> list[str]:
    parts, x = [], 20.0
    for i, (_, label, _, _, radius) in enumerate(series):
        parts.append(f'<circle class="s{i}" cx="{x + 6:.0f}" cy="46" r="{radius}"/>')
        parts.append(f'<text class="soft" x="{x + 17:.0f}" y="50">{escape(label)}</text>')
        x += 36 + 7.0 * len(label)
    return parts


def _grid(height: int) -> list[str]:
    parts = []
    end = height - BOTTOM + 14
    ratio = LOW
    while ratio <= HIGH:
        kind = "base" if ratio == 1 else "grid"
        x = _x(ratio)
        parts.append(f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 12}" y2="{end}"/>')
        label = "ONNX Runtime" if ratio == 1 else f"{ratio:g}×"
        parts.append(
            f'<text class="soft" x="{x:.1f}" y="{end + 18}" text-anchor="middle">{label}</text>'
        )
        ratio *= 2
    return parts


def _row(
    label: str, y: float, values: dict[str, float | None], series: list[tuple], *, mean: bool
) -> list[str]:
    bold = " bold" if mean else ""
    parts = [
        f'<text class="{bold.strip()}" x="{LEFT - 14}" y="{y + 4:.0f}" text-anchor="end">'
        f"{escape(label)}</text>"
    ]
    known = [value for value in values.values() if value is not None]
    if known:
        parts.append(
            f'<line class="span" x1="{_x(min(known)):.1f}" x2="{_x(max(known)):.1f}" '
            f'y1="{y}" y2="{y}"/>'
        )
    for i, (runtime, name, _, _, radius) in enumerate(series):
        value = values[runtime]
        if value is None:
            continue
        parts.append(
            f'<circle class="s{i}" cx="{_x(value):.1f}" cy="{y}" r="{radius}">'
            f"<title>{escape(f'{label}: {name} {value:.2f}×')}</title></circle>"
        )
        if mean and runtime.startswith("xrt"):
            parts.append(
                f'<text class="soft bold" x="{_x(value):.1f}" y="{y + 19}" text-anchor="middle">'
                f"{value:.2f}×</text>"
            )
    return parts
