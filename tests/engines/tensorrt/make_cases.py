# SPDX-License-Identifier: Apache-2.0
"""Writes the models of ONNX's own node tests for the builder test.

    python make_cases.py FOLDER

Each case is written as it is, and once more with every input but the first as a constant: the tests
pass shapes, axes and weights as inputs, models have them as constants, and TensorRT wants them so.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

# As a file: C++ tests of a build without the Python package run this.
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python/openxrt/conformance"))
from onnx_tests import Case, load_cases


def with_constants(model: onnx.ModelProto, case: Case) -> onnx.ModelProto | None:
    sets = case.data_sets(model)
    if len(model.graph.input) < 2 or not sets:
        return None
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    feeds = sets[0][0]
    for value in list(changed.graph.input)[1:]:
        data = feeds.get(value.name)
        if not isinstance(data, np.ndarray):
            return None
        changed.graph.initializer.append(numpy_helper.from_array(data, value.name))
        changed.graph.input.remove(value)
    return changed


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for case in load_cases(["node"]):
        model = onnx.load_from_string(case.model_bytes())
        (folder / f"{case.name}.onnx").write_bytes(model.SerializeToString())
        constant = with_constants(model, case)
        if constant is not None:
            (folder / f"{case.name}.constants.onnx").write_bytes(constant.SerializeToString())


if __name__ == "__main__":
    main()
