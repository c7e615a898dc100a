# SPDX-License-Identifier: Apache-2.0
"""Loss curves as an SVG picture, for the examples that train."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

# Dark to light, told apart by the colour-blind, too.
COLOURS = ("#222222", "#0072b2", "#d55e00", "#009e73", "#cc79a7")
WIDTH, HEIGHT = 720, 400
LEFT, TOP, RIGHT, BOTTOM = 64, 40, 20, 52


def write_svg(path: Path, title: str, curves: Mapping[str, Sequence[float]]) -> None:
    """One line per curve over the steps. Equal curves cover each other: later ones are thinner."""
    most = max(max(curve) for curve in curves.values()) or 1.0
    steps = max(len(curve) for curve in curves.values())
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def place(step: int, loss: float) -> str:
        x = LEFT + width * step / max(1, steps - 1)
        return f"{x:.1f},{TOP + height * (1 - loss / most):.1f}"

    middle = TOP + height / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="13" stroke-linejoin="round">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="15" font-weight="bold">{title}</text>',
        f'<text transform="translate(18 {middle:.0f}) rotate(-90)" text-anchor="middle">'
        "loss (cross-entropy, nats)</text>",
        f'<text x="{LEFT + width / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">'
        "training step</text>",
    ]
    for i in range(5):
        y = TOP + height * (1 - i / 4)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>')
        parts.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{most * i / 4:.1f}</text>'
        )
        step = (steps - 1) * i // 4
        x = place(step, 0).split(",")[0]
        parts.append(f'<text x="{x}" y="{HEIGHT - 30}" text-anchor="middle">{step}</text>')
    for i, (name, curve) in enumerate(curves.items()):
        points = " ".join(place(step, loss) for step, loss in enumerate(curve))
        colour, thick = COLOURS[i % len(COLOURS)], max(1.0, 6.0 - 1.5 * i)
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{thick}"/>'
        )
        y = TOP + 20 + 20 * i
        parts.append(
            f'<path d="M{WIDTH - 210} {y - 4}h28" stroke="{colour}" stroke-width="{thick}"/>'
            f'<text x="{WIDTH - 174}" y="{y}">{name}</text>'
        )
    path.write_text("\n".join([*parts, "</svg>", ""]), encoding="utf-8")
