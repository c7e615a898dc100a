# SPDX-License-Identifier: Apache-2.0
"""The ops of examples/custom_op/cpp, in Python.

    python example_ops.py

builds a model with both, runs it, and prints who ran what.
"""

from __future__ import annotations

import numpy as np
import openxrt
from onnx import TensorProto, helper

DOMAIN = "example"

SHRINK = "y = Shrink <lambd: float = @lambd, bias: float = @lambd> (x)"
SHRINK_FOR_XLA = """
    l = Constant <value_float: float = @lambd> ()
    a = Abs (x)
    d = Sub (a, l)
    m = Relu (d)
    s = Sign (x)
    y = Mul (s, m)
"""


def shrink_in_tvm(bb, x, *, lambd: float):  # noqa: ANN001, ANN201 (TVM is installed where it runs)
    """Relax expressions in a relax.BlockBuilder: TVM's compiler calls this in its own process."""
    from tvm import te

    def shrink(data: te.Tensor) -> te.Tensor:
        def at(*index):  # noqa: ANN002, ANN202
            value, bound = data[index], te.const(lambd, data.dtype)
            return te.max(value - bound, 0.0) + te.min(value + bound, 0.0)

        return te.compute(data.shape, at, "soft_shrink")

    return bb.emit_te(shrink, x)


@openxrt.op(
    DOMAIN,
    "SoftShrink",
    dtypes={"x": ["float32"]},
    body=SHRINK,
    lowerings={"xla": SHRINK_FOR_XLA},
    code={"tvm": lambda _x, **_: shrink_in_tvm},
    revision="1",  # to be changed with the kernel: part of cache keys
)
def soft_shrink(x: np.ndarray, *, lambd: float = 0.5) -> np.ndarray:
    """PyTorch's torch.nn.Softshrink: every engine can run it, by one of the statements above."""
    return np.sign(x) * np.maximum(np.abs(x) - np.float32(lambd), np.float32(0))


def run_lengths_types(x: openxrt.Port) -> tuple:
    """As many runs as there are: known only when it is run."""
    if x.shape is not None and len(x.shape) != 1:
        raise openxrt.InvalidModel(f"x must be a vector, it is {x.type}")
    return ("int64", ["runs"]), ("int64", ["runs"])


@openxrt.op(
    DOMAIN, "RunLengths", outputs=["values", "lengths"], infer=run_lengths_types, revision="1"
)
def run_lengths(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The runs of equal neighbours of a vector; nothing but this kernel can compute it."""
    starts = np.flatnonzero(np.diff(x, prepend=x[:1] - 1)) if x.size else np.zeros(0, np.int64)
    return x[starts], np.diff(starts, append=x.size)


def example_model() -> bytes:
    """y = Relu(SoftShrink(x)); values, lengths = RunLengths(Cast(y))."""
    graph = helper.make_graph(
        [
            helper.make_node("SoftShrink", ["x"], ["s"], name="shrink", domain=DOMAIN, lambd=1.0),
            helper.make_node("Relu", ["s"], ["y"], name="relu"),
            helper.make_node("Cast", ["y"], ["c"], name="cast", to=TensorProto.INT64),
            helper.make_node(
                "RunLengths", ["c"], ["values", "lengths"], name="runs", domain=DOMAIN
            ),
        ],
        "example",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [6])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [6]),
            helper.make_tensor_value_info("values", TensorProto.INT64, [None]),
            helper.make_tensor_value_info("lengths", TensorProto.INT64, [None]),
        ],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def main() -> None:
    """Runs the model on every engine that is there."""
    x = np.array([-3, 0.25, 2.5, 2.75, 4, 0], np.float32)
    for engine in ("native", "openvino", "xla", "tvm"):
        try:
            program = openxrt.load(example_model(), engine=engine)
        except (openxrt.NotFound, openxrt.EngineError) as error:
            print(f"{engine}: {error}")
            continue
        outputs = program.run({"x": x})
        ran = {node["op"]: node["engine"] for node in program.explain()["nodes"]}
        print(f"{engine}: {ran}")
        for name, value in outputs.items():
            print(f"  {name} = {value.tolist()}")


if __name__ == "__main__":
    main()
