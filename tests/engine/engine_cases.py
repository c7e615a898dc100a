# SPDX-License-Identifier: Apache-2.0
"""Runs ONNX's own node tests on one engine, which must take every node.

    python engine_cases.py ENGINE MODULE.py|- CASE...

MODULE.py registers the engine; "-": it is found by its name. A process of its own per engine,
since a name belongs to the first engine that bears it.
"""

import runpy
import sys

import numpy as np
import onnx
import openxrt
from openxrt.conformance.onnx_tests import load_cases


def main() -> None:
    engine, module, *wanted = sys.argv[1:]
    if module != "-":
        runpy.run_path(module)
    cases = {case.name: case for case in load_cases(["node"])}
    for name in wanted:
        case = cases[name]
        program = openxrt.load(case.model_bytes(), engine=engine, strict=True)
        for feeds, expected in case.data_sets(onnx.ModelProto.FromString(case.model_bytes())):
            actual = program.run(feeds)
            for value, array in zip(expected, actual.values(), strict=True):
                assert array.dtype == value.dtype
                np.testing.assert_allclose(array, value, rtol=case.rtol, atol=case.atol)
        print(f"{name} passed on {engine}")


if __name__ == "__main__":
    main()
