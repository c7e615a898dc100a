#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/reference/operators.md: which engine has a lowering or kernel for which ONNX
op, and how many of ONNX's node tests it passes.

    PYTHONPATH=build/release/python python tools/make_operators.py           # writes the page
    PYTHONPATH=build/release/python python tools/make_operators.py --check   # exit 1 if stale
    … python tools/make_operators.py --output page.md   # another file

The table is read from the registries of all engines that are found, those of XRT_ENGINE_PATH too,
and from docs/conformance, which `./dev conformance ENGINES --record` writes. An op without an entry
may still run: if ONNX gives it a function body, an engine that takes every op of the body takes the
op.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import onnx.defs
import openxrt
from openxrt._core import FALLBACK_ENGINE, deciding_operands, gradient_kind, own_ops

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "operators.md"
DOMAINS = ("", "ai.onnx.ml")
RECORDS = ROOT / "docs" / "conformance"
KINDS = {"node": 1884, "simple": 23, "pytorch-operator": 35, "pytorch-converted": 82}

GRADIENTS = {"rule": "●", "expanded": "ƒ", "zero": "0", "none": ""}

HEADER = """\
# Operators

Made by `tools/make_operators.py` from the registries of the engines and from what
`./dev conformance ENGINES --record` wrote to docs/conformance; do not edit.

- **●**: the engine has a kernel or lowering for the op. Whether it takes a given node depends on
  dtypes, shapes and attributes: `xrt inspect` tells, node by node, with the reason of each refusal.
- **ƒ**: none of its own, but ONNX defines the op as a function of other ops, which the engine may
  take.
- **n/m**: of m node tests of the onnx package that hold the op, n pass with every node on that
  engine (what the engine leaves to native is not counted). Why a test does not pass at all:
  tests/conformance/expectations.json. A column without such counts: the tests have not been run on
  that engine.
- **gradient**: ● there is a rule; ƒ through the ops that define it, where those have rules; 0 no
  gradient passes; nothing: an error where a gradient is wanted ([gradients](gradients.md)).

"""


OWN = """\
## Ops of the domain xrt

Gradients that have no good form among the standard ops, what recomputation needs, and an LSTM on
bytes, which has a body for engines without it. Such an engine leaves the others to native.

"""


DECIDING = """\
## Operands that decide shapes or addresses

The runtime holds the values of these operands to the rule of the table before an engine that does
not check them itself sees them: constants when a program is loaded, all others before each launch.
Where one node computes such a value for another, the function is cut between the two. The native
engine and ONNX Runtime check their values themselves. The table is
`src/ops/sizes/deciding_operands.cc`.

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


def read_records() -> list[dict[str, Any]]:
    """The kept runs of ONNX's tests (not those of frameworks), by their engines."""
    others = ("torch-", "oneflow")
    paths = [path for path in RECORDS.glob("*.json") if not path.name.startswith(others)]
    records = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    return sorted(records, key=lambda record: (len(record["engines"]), record["engines"]))


def run_table(records: list[dict[str, Any]]) -> list[str]:
    """One line per kept run: tests passed by kind, nodes by engine."""
    heads = [f"{kind} ({count})" for kind, count in KINDS.items()]
    lines = [
        f"| engines | {' | '.join(heads)} | nodes run in passing tests |",
        f"| --- |{' --- |' * (len(heads) + 1)}",
    ]
    for record in records:
        summary = record["summary"]
        passed = [str(summary["kinds"].get(kind, {}).get("pass", 0)) for kind in KINDS]
        nodes = ", ".join(
            f"{engine} {summary['engines'].get(engine, {}).get('nodes', 0)}"
            for engine in record["engines"]
        )
        lines.append(f"| {', '.join(record['engines'])} | {' | '.join(passed)} | {nodes} |")
    return lines


def tests_of(records: list[dict[str, Any]], engine: str) -> dict[str, str]:
    """By op: passed with every node on this engine / all, from its run before the fallback."""
    wanted = [engine] if engine == FALLBACK_ENGINE else [engine, FALLBACK_ENGINE]
    for record in records:
        if record["engines"] == wanted:
            return {
                op: f"{entry['alone'].get(engine, 0)}/{entry['tests']}"
                for op, entry in record["operators"].items()
            }
    return {}


def table_head(names: list[str]) -> list[str]:
    """The first two lines of the table of the standard's ops."""
    return [
        f"| op | since | {' | '.join(names)} | gradient |",
        f"| --- | --- |{' --- |' * (len(names) + 1)}",
    ]


def own_table(names: list[str], have: dict[str, set[str]]) -> list[str]:
    """The ops of the domain xrt, from their schemas."""
    lines = [
        f"| op | inputs → outputs | {' | '.join(names)} | gradient | meaning |",
        f"| --- | --- |{' --- |' * (len(names) + 2)}",
    ]
    for op, inputs, outputs, doc in own_ops():
        cells = ["●" if f"xrt.{op}" in have[engine] else "" for engine in names]
        gradient = GRADIENTS[gradient_kind("xrt", op)]
        signature = f"{', '.join(inputs)} → {', '.join(outputs)}"
        lines.append(f"| {op} | {signature} | {' | '.join(cells)} | {gradient} | {doc} |")
    return lines


def deciding_table() -> list[str]:
    """The operands that decide shapes or addresses, one line each."""
    lines = ["| op | operand | decides | its elements |", "| --- | --- | --- | --- |"]
    for domain, op, position, shapes, wanted in deciding_operands():
        operands = onnx.defs.get_schema(op, domain).inputs
        what = "the shape of the result" if shapes else "what is read or written"
        lines.append(f"| {op} | {operands[position].name} ({position}) | {what} | {wanted} |")
    return lines


def page() -> str:
    """The whole page as text."""
    names = openxrt.engines()
    have = {engine: set(openxrt.engine_ops(engine)) for engine in names}
    records = read_records()
    tests = {engine: tests_of(records, engine) for engine in names}
    rows = op_rows()
    lines = table_head(names)
    for name, since, has_body in rows:
        cells = []
        for engine in names:
            mark = "●" if name in have[engine] else "ƒ" if has_body else ""
            count = tests[engine].get(name, "")
            cells.append(f"{mark} {count}".strip() if mark or not count.startswith("0/") else "")
        domain, _, op = name.rpartition(".")
        gradient = GRADIENTS[gradient_kind(domain, op)]
        lines.append(f"| {name} | {since} | {' | '.join(cells)} | {gradient} |")
    ops = {name for name, _, _ in rows}
    counts = ", ".join(f"{e} {len(have[e] & ops)}" for e in names)
    version = records[0]["onnx"] if records else onnx.__version__
    return (
        HEADER
        + f"Tests of onnx {version} that pass, by the engines on each graph:\n\n"
        + "\n".join(run_table(records))
        + f"\n\nOf {len(rows)} ops: {counts}.\n\n"
        + "\n".join(lines)
        + "\n\n"
        + OWN
        + "\n".join(own_table(names, have))
        + "\n\n"
        + DECIDING
        + "\n".join(deciding_table())
        + "\n"
    )


def main() -> int:
    """Writes or checks the page."""
    parser = argparse.ArgumentParser(description="Write docs/reference/operators.md.")
    parser.add_argument("--check", action="store_true", help="only say whether it is up to date")
    parser.add_argument("--output", type=Path, default=PAGE, metavar="FILE", help="write this file")
    arguments = parser.parse_args()
    text = page()
    if not arguments.check:
        arguments.output.write_text(text, encoding="utf-8")
        return 0
    if arguments.output.exists() and arguments.output.read_text(encoding="utf-8") == text:
        return 0
    print("docs/reference/operators.md is stale: run tools/make_operators.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
