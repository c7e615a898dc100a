#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/background/architecture.svg: the rooms of the source in the order of the data.

    python tools/make_architecture.py           # writes the picture
    python tools/make_architecture.py --check   # exit 1 if it is stale

The rooms are those of tools/check_includes.py; one that is missing here is an error.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from check_includes import ALLOWED, ORDER  # noqa: E402

PICTURE = ROOT / "docs" / "background" / "architecture.svg"

# Stage -> its rooms with what each does; in the order in which a model goes down them.
STAGES: tuple[tuple[str, dict[str, str]], ...] = (
    (
        "use",
        {
            "cli": "the command xrt",
            "python": "the package openxrt",
            "capi": "xrt/xrt.h, for C and others",
            "lite/tools": "xrt-lite-compile, -run, -inspect",
            "lite/compiler": "one file for the C runtime",
        },
    ),
    (
        "read",
        {
            "frontends": "ONNX files, folders of OneFlow",
            "onnx": "reading, writing, upgrading",
            "ops": "schemas, types, ops of users",
            "ir": "typed graph, text form, verifier",
        },
    ),
    (
        "rewrite",
        {
            "passes": "fold, simplify, remove",
            "autodiff": "gradients, losses, updates",
            "quantize": "ranges, Q/DQ",
        },
    ),
    (
        "decide",
        {
            "registry": "engines by name, doctor",
            "placement": "ask engines, estimate, decide",
            "partition": "convex clusters, folding",
            "measure": "time candidates for auto",
            "report": "an explanation as HTML",
        },
    ),
    (
        "run",
        {
            "plan": "functions and their memory",
            "cache": "compiled code on disk",
            "exec": "launches, control flow, profile",
            "program": "load, specialise, run",
            "training": "trainer, checkpoints, schedules",
        },
    ),
    (
        "compute",
        {
            "engine": "include/xrt: supports, compile, run",
            "engines": "a folder each; yours from a library or Python",
            "isolation": "engines in a process of their own",
            "worker": "the program of such a process",
        },
    ),
    (
        "beneath",
        {
            "base": "errors, files, hashes, tensors",
            "device": "threads, CUDA, streams",
            "options": "one table of options",
            "data": "pictures, labelled sets",
            "evaluation": "answers on labelled data",
        },
    ),
)
KINDS = {"engines": "engine", "cli": "user", "python": "user"}

BOX, GAP, LEFT, TOP = 170, 14, 104, 20
ROW, WRAP, LINE = 84, 24, 15
WIDTH = LEFT + 5 * (BOX + GAP) + 6

STYLE = """\
text{font:13px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#1d2738}
.title{font-weight:600;font-size:14px}.soft{fill:#47536a;font-size:12px}
.stage{fill:#47536a;font-style:italic}.ground{fill:#fff}
.room{fill:#f4f6fa;stroke:#8793a8}.engine{fill:#e7f3ec;stroke:#5a9173}.user{fill:#fdf3e3;stroke:#c1914a}
.flow{stroke:#47536a;stroke-width:1.6;fill:none;marker-end:url(#tip)}
@media (prefers-color-scheme:dark){text{fill:#e6eaf0}.soft,.stage{fill:#a7b1c0}.ground{fill:#12161d}
.room{fill:#1c222c;stroke:#5b6678}.engine{fill:#16281f;stroke:#4c8365}.user{fill:#2c2415;stroke:#a67c3f}
.flow{stroke:#98a3b3}.tip{fill:#98a3b3}}"""


def box(room: str, text: str, x: int, y: int) -> list[str]:
    """A room: its name, and what it does in at most two lines."""
    lines = textwrap.wrap(text, WRAP)
    if len(lines) > 2:
        raise ValueError(f"the text of {room} needs more than two lines")
    kind = KINDS.get(room, "room")
    parts = [
        f'<rect class="{kind}" x="{x}" y="{y}" width="{BOX}" height="{ROW - 22}" rx="7"/>',
        f'<text class="title" x="{x + 12}" y="{y + 21}">{escape(room)}</text>',
    ]
    for number, line in enumerate(lines):
        at = y + 39 + LINE * number
        parts.append(f'<text class="soft" x="{x + 12}" y="{at}">{escape(line)}</text>')
    return parts


def draw() -> str:
    """The picture."""
    drawn = [room for _, rooms in STAGES for room in rooms]
    # Lite's compiler has a row of its own; its runtime stands beside all this.
    wanted = {*ORDER, *(room for room in ALLOWED if not room.startswith("lite/runtime/"))}
    if set(drawn) != wanted or len(drawn) != len(wanted):
        raise ValueError(f"rooms that differ from check_includes.py: {set(drawn) ^ wanted}")
    height = TOP + ROW * len(STAGES)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="The rooms of the source">',
        f"<style>\n{STYLE}\n</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path class="tip" d="M0 0 L8 4 L0 8 z"/></marker></defs>',
        f'<rect class="ground" width="{WIDTH}" height="{height}" rx="8"/>',
    ]
    for row, (stage, rooms) in enumerate(STAGES):
        y = TOP + ROW * row
        parts.append(f'<text class="stage" x="20" y="{y + 36}">{stage}</text>')
        for column, (room, text) in enumerate(rooms.items()):
            parts += box(room, text, LEFT + column * (BOX + GAP), y)
        if row + 2 < len(STAGES):
            middle = 40
            parts.append(f'<path class="flow" d="M{middle} {y + 46} V{y + ROW + 20}"/>')
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def main() -> int:
    """Writes or checks."""
    parser = argparse.ArgumentParser(description="Draw docs/background/architecture.svg.")
    parser.add_argument("--check", action="store_true", help="only say whether it is up to date")
    picture = draw()
    if not parser.parse_args().check:
        PICTURE.write_text(picture, encoding="utf-8")
        return 0
    if PICTURE.read_text(encoding="utf-8") == picture:
        return 0
    print(f"{PICTURE.relative_to(ROOT)} is stale: run tools/make_architecture.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
