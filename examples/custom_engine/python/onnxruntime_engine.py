# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime as an engine: whole functions are handed over as ONNX bytes.

    python onnxruntime_engine.py MODEL.onnx [DIMENSION=SIZE ...]

Runs the model with it and natively, on random inputs, and says how far the results are apart.
"""

import sys
from collections.abc import Callable

import numpy as np
import onnxruntime
import openxrt

# What NumPy has without further packages.
PLAIN = {
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", "string"),
}


@openxrt.engine("onnxruntime", version=onnxruntime.__version__, dynamic_shapes=True)
class OnnxRuntimeEngine:
    """Takes the nodes of the standard domain whose inputs and outputs are plain tensors."""

    def supports(self, node: openxrt.NodeView) -> bool | str:
        """True, or why not."""
        if node.domain not in ("", "ai.onnx.ml"):
            return f"ONNX Runtime does not know the domain {node.domain!r}"
        for kind in node.input_types + node.output_types:
            if kind is not None and kind.dtype not in PLAIN:
                return f"values of type {kind} do not pass as NumPy arrays"
        return True

    def compile(self, function: openxrt.FunctionView) -> Callable[..., object]:
        """A session for the function."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = function.num_threads
        session = onnxruntime.InferenceSession(
            function.to_onnx(), options, providers=["CPUExecutionProvider"]
        )
        names = [port.name for port in function.inputs]
        return lambda *arrays: tuple(session.run(None, dict(zip(names, arrays, strict=True))))


def random_inputs(program: openxrt.Program, sizes: dict[str, int]) -> list[np.ndarray]:
    """Values for every input; symbolic dimensions that are not given are 1."""
    rng = np.random.default_rng(0)
    arrays = []
    for port in program.inputs:
        shape = [size if isinstance(size, int) else sizes.get(size or "", 1) for size in port.shape]
        if port.dtype.startswith("float"):
            arrays.append(rng.standard_normal(shape).astype(port.dtype))
        else:
            arrays.append(rng.integers(0, 2, shape).astype(port.dtype))
    return arrays


def main() -> None:
    """Command line."""
    model = sys.argv[1]
    sizes = {name: int(size) for name, size in (word.split("=") for word in sys.argv[2:])}
    ours = openxrt.load(model, engine=["onnxruntime", "native"])
    native = openxrt.load(model, engine="native")
    inputs = random_inputs(ours, sizes)
    named = dict(zip((port.name for port in ours.inputs), inputs, strict=True))
    expected = native.run(named)
    for name, result in ours.run(named).items():
        difference = np.abs(result.astype(np.float64) - expected[name].astype(np.float64)).max()
        print(f"{name}: {result.dtype}{list(result.shape)}, largest difference {difference:.2g}")
    print(ours.explain())


if __name__ == "__main__":
    main()
