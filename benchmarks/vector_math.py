# SPDX-License-Identifier: Apache-2.0
"""Elementary functions of one engine over a million floats, one thread.

    ./dev bench vector_math                  # the native engine
    ./dev bench vector_math --engine openvino

The least time of the rounds, in which the functions take turns.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import openxrt
from onnx import TensorProto, helper

COUNT = 1_000_000
OPS = ("Exp", "Log", "Tanh", "Sigmoid", "Erf", "Gelu", "Softplus", "Mish", "Softmax", "Sqrt")


def program(op: str, engine: str) -> openxrt.Program:
    """One node over a thousand rows of a thousand numbers."""
    shape = [1000, COUNT // 1000]
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], ["y"])],
        op,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return openxrt.load(model.SerializeToString(), engine=[engine], num_threads=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="native")
    parser.add_argument("--rounds", type=int, default=60)
    arguments = parser.parse_args()
    programs = {op: program(op, arguments.engine) for op in OPS}
    x = np.random.default_rng(0).normal(0, 2, (1000, COUNT // 1000)).astype(np.float32)
    inputs = {op: {"x": np.abs(x) if op in ("Log", "Sqrt") else x} for op in OPS}
    outputs = {"y": np.empty_like(x)}
    least = dict.fromkeys(OPS, float("inf"))
    for _ in range(arguments.rounds):
        for op, each in programs.items():
            for _ in range(2):  # the second finds its memory in the caches
                begin = time.perf_counter()
                each.run(inputs[op], out=outputs)
                least[op] = min(least[op], time.perf_counter() - begin)
    print("| op | ms | ns a number |\n| --- | ---: | ---: |")
    for op, seconds in least.items():
        print(f"| {op} | {1e3 * seconds:.3f} | {1e9 * seconds / COUNT:.2f} |")


if __name__ == "__main__":
    main()
