# SPDX-License-Identifier: Apache-2.0
"""Loss curves as an SVG picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e")
WIDTH, HEIGHT, MARGIN = 640, 360, 44


def write_svg(path: Path, title: str, curves: Mapping[str, Sequence[float]]) -> None:
    """One line per curve over the steps. Later curves are dashed, so that equal ones show."""
    top = max(max(curve) for curve in curves.values())
    steps = max(len(curve) for curve in curves.values()) - 1

    def place(step: int, loss: float) -> str:
        x = MARGIN + (WIDTH - 2 * MARGIN) * step / max(steps, 1)
        y = HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * loss / top
        return f"{x:.1f},{y:.1f}"

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{WIDTH / 2}" y="20" text-anchor="middle" font-size="15">{title}</text>',
        f'<path d="M{place(0, top)} L{place(0, 0)} L{place(steps, 0)}" '
        'stroke="black" fill="none"/>',
        f'<text x="{MARGIN - 6}" y="{MARGIN + 4}" text-anchor="end">{top:.2f}</text>',
        f'<text x="{MARGIN - 6}" y="{HEIGHT - MARGIN + 4}" text-anchor="end">0</text>',
        f'<text x="{WIDTH - MARGIN}" y="{HEIGHT - 24}" text-anchor="end">step {steps}</text>',
    ]
    for i, (name, curve) in enumerate(curves.items()):
        color = COLORS[i % len(COLORS)]
        points = " ".join(place(step, loss) for step, loss in enumerate(curve))
        dash = "" if i == 0 else f' stroke-dasharray="6 {6 * i}"'
        lines.append(f'<polyline points="{points}" fill="none" stroke="{color}"{dash}/>')
        y = MARGIN + 16 * i
        lines.append(
            f'<text x="{WIDTH - MARGIN}" y="{y}" text-anchor="end" fill="{color}">{name}</text>'
        )
    path.write_text("\n".join([*lines, "</svg>", ""]), encoding="utf-8")
