#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/operators.md: which engine has a lowering or kernel for which ONNX op.

    PYTHONPATH=build/release/python python tools/make_operators.py           # writes the page
    PYTHONPATH=build/release/python python tools/make_operators.py --check   # exit 1 if stale

The table is read from the engines' own registries. An op without an entry may still run: if ONNX
gives it a function body, an engine that takes every op of the body takes the op.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import onnx.defs
import openxrt

PAGE = Path(__file__).resolve().parent.parent / "docs" / "operators.md"
ENGINES = ("native", "openvino", "xla")
DOMAINS = ("", "ai.onnx.ml")

HEADER = """\
# Operators

Made by `tools/make_operators.py` from the registries of the engines; do not edit.

- **●**: the engine has a kernel or lowering for the op. Whether it takes a given node depends on
  dtypes, shapes and attributes: `xrt inspect` tells, node by node, with the reason of each refusal.
- **ƒ**: none of its own, but ONNX defines the op as a function of other ops, which the engine may
  take.

"""


def op_rows() -> list[tuple[str, int, bool]]:
    """Qualified name, opset of the last change, and whether ONNX has a function body for it."""
    newest: dict[str, onnx.defs.OpSchema] = {}
    for schema in onnx.defs.get_all_schemas():
        if schema.domain not in DOMAINS or schema.deprecated:
            continue
        name = f"{schema.domain}.{schema.name}" if schema.domain else schema.name
        if name not in newest or newest[name].since_version < schema.since_version:
            newest[name] = schema
    return [
        (name, s.since_version, s.has_function or s.has_context_dependent_function)
        for name, s in sorted(newest.items(), key=lambda item: (item[1].domain, item[0]))
    ]


def page() -> str:
    """The whole page as text."""
    have = {engine: set(openxrt.engine_ops(engine)) for engine in ENGINES}
    rows = op_rows()
    lines = [f"| op | since | {' | '.join(ENGINES)} |", f"| --- | --- |{' --- |' * len(ENGINES)}"]
    for name, since, has_body in rows:
        cells = ["●" if name in have[e] else "ƒ" if has_body else "" for e in ENGINES]
        lines.append(f"| {name} | {since} | {' | '.join(cells)} |")
    names = {name for name, _, _ in rows}
    counts = ", ".join(f"{e} {len(have[e] & names)}" for e in ENGINES)
    return HEADER + f"Of {len(rows)} ops: {counts}.\n\n" + "\n".join(lines) + "\n"


def main() -> int:
    """Writes or checks the page."""
    parser = argparse.ArgumentParser(description="Write docs/operators.md from the registries.")
    parser.add_argument("--check", action="store_true", help="only say whether it is up to date")
    arguments = parser.parse_args()
    text = page()
    if not arguments.check:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    print("docs/operators.md is stale: run tools/make_operators.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
