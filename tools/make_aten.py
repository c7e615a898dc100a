#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/reference/aten.md: how PyTorch's own op tests fare through openxrt.torch, op by op.

    PYTHONPATH=build/release/python python tools/make_aten.py

The numbers are read from docs/conformance/torch-ENGINE.json, which `./dev conformance torch ENGINES
--record` writes.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import openxrt
import torch
from openxrt.torch.registry import imported_ops

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "aten.md"
RECORDS = ROOT / "docs" / "conformance"
WAYS = ("forward", "gradient")

WHY = {
    "aten._native_batch_norm_legit.default": "writes its arguments; PyTorch hands over the "
    "functional form, which has a lowering",
    "aten.atan2.out": "writes its argument; aten.atan2.default has a lowering",
}

# Why what is refused is refused, by the name of the op.
REASONS = {
    r"linalg\.eig": "eigenvalues of a matrix that is not symmetric: no iteration of a bounded "
    "number of steps finds them, and their order is whatever the library gives",
    r"linalg\.ldl": "Bunch and Kaufman's pivots: no op of ONNX, and rarely used",
    r"linalg\.lstsq": "the size of the residuals depends on the rank",
    r"allclose|equal|item": "the result is a Python number",
    r"nn\.functional\.(ctc|gaussian_nll)": "reads numbers out of tensors in Python while traced",
    r"chalf": "half-precision complex numbers",
}


def core_without_lowering() -> list[str]:
    """Ops that PyTorch tags as core and openxrt.torch does not import."""
    known = set(imported_ops())
    missing = []
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        if not isinstance(packet, torch._ops.OpOverloadPacket):
            continue
        for overload in packet.overloads():
            op = getattr(packet, overload)
            if torch.Tag.core in op.tags and str(op) not in known:
                missing.append(str(op))
    return sorted(missing)


def judged(counts: dict[str, int]) -> bool:
    """Whether any sample was compared."""
    return bool(counts.keys() & {"pass", "fail"})


def cell(counts: dict[str, int]) -> str:
    """Passed of judged; samples that were refused count as judged."""
    if not judged(counts):
        return "random" if "random" in counts else ""
    total = sum(counts.get(kind, 0) for kind in ("pass", "fail", "unsupported"))
    return f"{counts.get('pass', 0)}/{total}"


def reason(name: str, answer: dict[str, Any]) -> str:
    """Why an op is not imported, for a cell of the table."""
    why = next((text for pattern, text in REASONS.items() if re.match(pattern, name)), "")
    if answer["missing"]:
        missing = ", ".join(f"`{op}`" for op in answer["missing"])
        return f"{missing}: {why}" if why else missing
    if why:
        return why
    text = answer["reasons"][0] if answer["reasons"] else ""
    text = re.sub(r"^sample \d+, \w+: (unsupported: )?", "", text)
    return text.replace("|", "/")[:120]


def main() -> None:
    """Writes the page."""
    paths = {engine: RECORDS / f"torch-{engine}.json" for engine in openxrt.engines()}
    records = {
        engine: json.loads(path.read_text(encoding="utf-8"))
        for engine, path in paths.items()
        if path.exists()
    }
    lines = [
        "# ATen ops",
        "",
        "Made by `tools/make_aten.py` from what `./dev conformance torch ENGINES --record` wrote",
        "to docs/conformance; do not edit.",
        "",
        "PyTorch's own op tests (`op_db` of `torch.testing._internal`, PyTorch "
        f"{torch.__version__.split('+')[0]}) go the way of `torch.compile`: PyTorch derives the "
        "forward and",
        "backward graphs, the engines run both, and results and gradients are compared with "
        "PyTorch's. A",
        "sample that is refused by an op of which others are imported counts as not passed.",
        "",
        "| engines | samples per op | forward | gradient | ops forward | ops gradient |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    further = [RECORDS / f"torch-{engine}-further.json" for engine in records]
    further_records = [json.loads(p.read_text(encoding="utf-8")) for p in further if p.exists()]
    for record in [*records.values(), *further_records]:
        s = record["summary"]
        each = f" of each of {record['dtypes']}" if "dtypes" in record else ""
        cells = [record["engines"].replace(",", ", "), f"≤ {record['samples']}{each}"]
        cells += [f"{s[w]['passed']} of {s[w]['samples']} ({s[w]['rate']:.1%})" for w in WAYS]
        cells += [f"{s[w]['ops_that_pass_all']} of {s[w]['ops']} whole" for w in WAYS]
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        "## Core ATen without a lowering",
        "",
        f"{len(imported_ops())} overloads have a lowering or are rewritten in others. Of "
        "PyTorch's core ops these have none:",
        "",
        *[f"- `{op}`: {WHY[op]}" for op in core_without_lowering()],
        "",
        "## Ops that are imported",
        "",
        "| op | " + " | ".join(f"{e} {w}" for e in records for w in WAYS) + " |",
        "| --- |" + " --- |" * (len(records) * len(WAYS)),
    ]
    names = list(next(iter(records.values()))["ops"])
    refused, out_of_scope = [], []
    for name in names:
        answers = [records[engine]["ops"][name] for engine in records]
        cells = [cell(answer[way]) for answer in answers for way in WAYS]
        if any(cells):
            lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
        elif "not judged" in answers[0]["forward"]:
            out_of_scope.append(name)
        else:
            refused.append(f"| `{name}` | {reason(name, answers[0])} |")
    lines += [
        "",
        "## Ops that are refused by name",
        "",
        "With `fallback=True` PyTorch runs them.",
        "",
        "| op | what has no lowering, or why |",
        "| --- | --- |",
        *refused,
        "",
        "Not judged (complex or sparse only, or PyTorch refuses the sample on a CPU): "
        + ", ".join(out_of_scope)
        + ".",
        "",
    ]
    PAGE.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
