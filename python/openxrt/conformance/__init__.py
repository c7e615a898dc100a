# SPDX-License-Identifier: Apache-2.0
"""Does an engine keep what the contract of engines promises? `xrt conformance --engine NAME`.

`checks/` holds the checks, `samples.py` the generated inputs (a row per op), `onnx_tests.py` the
test data of the onnx package, `judge.py` what equal means, `pool.py` the worker processes,
`driver.py` the run and its report. Needs the package onnx.
"""
