#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/reference/oneflow-ops.md: the ops of OneFlow that have a handler, what compares each.

    PYTHONPATH=build/release/python python tools/make_oneflow_ops.py           # writes the page
    PYTHONPATH=build/release/python python tools/make_oneflow_ops.py --check   # exit 1 if stale

Made of the importer's registry, the committed folders and jobs in tests/frontends/oneflow/data,
the cases of tests/frontends/oneflow/test_formulas.py (which need PyTorch), and
docs/conformance/oneflow.json, which tests/oneflow/record.py writes beside a running OneFlow.
Ends with an error where an op that OneFlow-XRT's engines had, or that a network is made of, has no
handler.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import re
import sys
from pathlib import Path

from openxrt._core import oneflow_ops

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "oneflow-ops.md"
RECORD = ROOT / "docs" / "conformance" / "oneflow.json"
DATA = ROOT / "tests" / "frontends" / "oneflow" / "data"

# What OneFlow-XRT's three engines took, by the names that it used.
OPENVINO = "add_n concat leaky_relu matmul relu reshape upsample_nearest conv2d normalization"
TENSORRT = """
add_n avg_pool_2d batch_matmul bias_add broadcast_add broadcast_div broadcast_div_grad
broadcast_matmul broadcast_mul broadcast_sub cast concat conv1d conv2d conv3d conv_data_grad
deconv2d expand_dims identity leaky_relu matmul max_pool_2d multiply narrow normalization pad
pad_grad prelu prelu_grad reduce_mean reduce_sum relu reshape reshape_like rsqrt scalar_add
scalar_div scalar_mul scalar_pow scalar_pow_grad scalar_sub sigmoid sigmoid_v2 softmax sqrt
sqrt_grad tanh tf_avg_pool_2d tf_max_pool_2d top_k transpose upsample_nearest_2d
"""
XLA = """
adam_update add_n batch_gather batch_matmul bias_add broadcast_add broadcast_div broadcast_min
broadcast_mul broadcast_sub cast fully_connected gather gelu gelu_grad identity layer_norm
layer_norm_grad layer_norm_param_grad matmul reduce_sum reshape reshape_like rsqrt scalar_add
scalar_div scalar_mul scalar_pow sigmoid sigmoid_v2 softmax softmax_grad sqrt square_sum tanh
tanh_grad transpose
"""
PREDECESSOR = {"XLA": XLA.split(), "TensorRT": TENSORRT.split(), "OpenVINO": OPENVINO.split()}

# Parts of a job that are no ops: what it takes, gives and keeps.
STRUCTURE = {"input", "output", "variable"}

HEADER = """\
# Ops of OneFlow

Made by `tools/make_oneflow_ops.py`; do not edit. A job with an op that is not here is
`Unsupported`, naming each of them ([OneFlow](../guides/oneflow.md)).

- **networks**: of how many of flowvision's {networks} networks below the op is a part; *t*: in a
  training step only.
- **compared**: with OneFlow 0.9.0's own results and gradients: ● op by op beside a running OneFlow
  (tests/oneflow/test_ops.py), ○ in the folders and jobs that it wrote
  (tests/frontends/oneflow/data), which are read without OneFlow; or, for ops that OneFlow 0.9.0
  does not write on a CPU, ◇ with PyTorch's (tests/frontends/oneflow/test_formulas.py).
- **OneFlow-XRT**: which of its engines took the op: X XLA, T TensorRT, V OpenVINO.

{count} ops have a handler; {compared} of them are compared. Of the {floor} that OneFlow-XRT's
engines took, {missing} are missing.

"""


def kinds_of(text: str) -> set[str]:
    """The ops of a job's text."""
    kinds = set()
    for line in text.splitlines():
        found = re.search(r'"oneflow\.(\w+)"\(', line)
        if found:
            named = re.search(r'op_type_name = "(\w+)"', line)
            kinds.add(named[1] if found[1] == "user" and named else found[1])
    return kinds


def committed() -> set[str]:
    """The ops of the folders and jobs among the tests."""
    texts = [file.read_text() for file in sorted(DATA.glob("*/model.mlir"))]
    texts += [gzip.decompress(file.read_bytes()).decode() for file in DATA.glob("*.mlir.gz")]
    return set().union(*(kinds_of(text) for text in texts))


def by_formula() -> set[str]:
    """The ops of tests/frontends/oneflow/test_formulas.py."""
    file = ROOT / "tests" / "frontends" / "oneflow" / "test_formulas.py"
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.OPS


def page() -> str:
    """The whole page."""
    record = json.loads(RECORD.read_text())
    handled = set(oneflow_ops())
    networks = record["networks"]
    needed = {op for jobs in networks.values() for ops in jobs.values() for op in ops} - STRUCTURE
    floor = sorted({op for ops in PREDECESSOR.values() for op in ops})
    if absent := sorted((needed | set(floor)) - handled):
        raise SystemExit(f"these ops have no handler: {', '.join(absent)}")
    live, written, formulas = set(record["compared"]), committed(), by_formula()
    text = HEADER.format(
        networks=len(networks),
        count=len(handled),
        compared=len(handled & (live | written | formulas)),
        floor=len(floor),
        missing=0,
    )
    lines = ["| op | networks | compared | OneFlow-XRT |", "| --- | --- | --- | --- |"]
    for op in sorted(handled):
        evaluated = sum(op in jobs["evaluation"] for jobs in networks.values())
        trained = sum(op in jobs["training"] for jobs in networks.values())
        used = str(evaluated) if evaluated else f"{trained} *t*" if trained else ""
        marks = "".join(
            mark for mark, ops in zip("●○◇", (live, written, formulas), strict=True) if op in ops
        )
        letters = zip("XTV", PREDECESSOR.values(), strict=True)
        engines = " ".join(letter for letter, ops in letters if op in ops)
        lines.append(f"| {op} | {used} | {marks} | {engines} |")
    names = ["", "Networks, each evaluated and in a training step:", ""]
    names.append(", ".join(sorted(networks)) + ".")
    return text + "\n".join([*lines, *names]) + "\n"


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    made = page()
    if not options.check:
        PAGE.write_text(made)
    elif PAGE.read_text() != made:
        print(f"{PAGE} is stale: run tools/make_oneflow_ops.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
