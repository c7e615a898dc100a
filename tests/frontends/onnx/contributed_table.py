# SPDX-License-Identifier: Apache-2.0
"""Writes docs/reference/contributed-ops.md: which ops of ONNX Runtime run on which engine, alone.

python tests/frontends/onnx/contributed_table.py > docs/reference/contributed-ops.md

Every op that ONNX Runtime has a CPU kernel for is a row. A column says how many of the op's cases
(tests/support/contributed_cases) the engine answers as ONNX Runtime does, with no other engine
beside it. What an engine does not take is told on stderr.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "support"))

import onnxruntime
import openxrt
from contributed_cases import Case, all_cases
from test_contributed_ops import compare, cpu_ops, wanted

HEADER = """# Ops of ONNX Runtime

What becomes of the ops for which ONNX Runtime {version} has CPU kernels
([formats](formats.md#ops-of-onnx-runtime)). A cell says how many generated cases of an op (types,
shapes, optional operands) an engine answers as ONNX Runtime does, with no other engine beside it.
In a program the native engine takes what another engine does not. Written by

    python tests/frontends/onnx/contributed_table.py > docs/reference/contributed-ops.md
"""


def passes(case: Case, engine: str) -> str:
    """Nothing, or what is wrong."""
    data, feeds = case.model()
    expected = wanted(data, feeds)
    try:
        found = openxrt.load(data, engine=engine, strict=True).run(feeds)
        compare(case, found, expected)
    except (openxrt.Error, AssertionError) as error:
        return str(error).strip().splitlines()[0][:160]
    return ""


def main(engines: list[str]) -> None:
    cases = defaultdict(list)
    for case in all_cases():
        cases[case.domain, case.op].append(case)
    print(HEADER.format(version=onnxruntime.__version__))
    print("| op | " + " | ".join(engines) + " |\n| --- |" + " --- |" * len(engines))
    whole = dict.fromkeys(engines, 0)
    rows = sorted(cpu_ops())
    for domain, op in rows:
        cells = []
        for engine in engines:
            own = cases[domain, op]
            wrong = [why for case in own if (why := passes(case, engine))]
            for why in wrong:
                print(f"{engine}: {domain}.{op}: {why}", file=sys.stderr)
            whole[engine] += bool(own) and not wrong
            cells.append(f"{len(own) - len(wrong)} of {len(own)}" if own else "left out")
        print(f"| {domain}.{op} | " + " | ".join(cells) + " |")
    shares = [f"{whole[e]} of {len(rows)} ({whole[e] / len(rows):.0%})" for e in engines]
    print("| all cases right | " + " | ".join(shares) + " |")


if __name__ == "__main__":
    main(sys.argv[1:] or ["native", "openvino", "xla"])
