# SPDX-License-Identifier: Apache-2.0
"""What tests of lite share: networks, and 64-bit Arm in an emulator."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import openxrt.lite
from onnx import TensorProto, helper, numpy_helper
from small_models import model_proto, tensor

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "lite_aarch64"


def run(command: list[object]) -> str:
    """What a command prints."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]}: {done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def _tool(name: str) -> str:
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.is_file() else name


def build_aarch64(folder: Path) -> None:
    """Builds examples/lite_aarch64 for 64-bit Arm."""
    cmake, ninja = _tool("cmake"), _tool("ninja")
    toolchain = EXAMPLE / "toolchain.cmake"
    configure = [cmake, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
    run([*configure, "-S", EXAMPLE, "-B", folder, f"-DCMAKE_TOOLCHAIN_FILE={toolchain}"])
    run([cmake, "--build", folder])


def emulated(cpu: str, program: Path, *arguments: object) -> str:
    """What a program for 64-bit Arm prints on an emulated processor."""
    command = ["qemu-aarch64-static", "-cpu", cpu, "-L", "/usr/aarch64-linux-gnu"]
    return run([*command, program, *arguments])


def run_aarch64(
    built: Path, cpu: str, file: Path, like: Path, feeds: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The outputs of a compiled model on an emulated processor. `like` is the same model, compiled
    for a driver of this machine: it says what the ports are.
    """
    ports = openxrt.lite.Model(like)
    folder = file.with_suffix(f".{cpu}")
    folder.mkdir(exist_ok=True)
    for i, name in enumerate(ports.inputs):
        (folder / f"input{i}").write_bytes(np.ascontiguousarray(feeds[name]).tobytes())
    emulated(cpu, built / "lite_aarch64", file, folder)
    return {
        name: np.frombuffer((folder / f"output{i}").read_bytes(), dtype).reshape(shape)
        for i, (name, (dtype, shape)) in enumerate(ports.outputs.items())
    }


def fixed(source: Path, feeds: dict[str, np.ndarray], path: Path) -> dict[str, np.ndarray]:
    """Writes a model with the shapes of these feeds; returns the feeds by its inputs, which have no
    dimension where the model has none.
    """
    model = onnx.load(source)
    used = {}
    for value in model.graph.input:
        shape = value.type.tensor_type.shape
        feed = feeds[value.name]
        used[value.name] = feed if shape.dim else feed.reshape(())
        for dim, size in zip(shape.dim, used[value.name].shape, strict=True):
            dim.dim_value = size
    onnx.save(model, path)
    return used


class _Int8Graph:
    def __init__(self, seed: int, activation: type) -> None:
        self.rng = np.random.default_rng(seed)
        self.activation = activation
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, value: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def node(self, op: str, inputs: list[str], **attributes: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=f"{op}{name}", **attributes))
        return name

    def quantized(self, x: str, scale: float, zero: int) -> str:
        """Through Q and DQ."""
        parameters = [self.constant(np.float32(scale)), self.constant(self.activation(zero))]
        return self.node(
            "DequantizeLinear", [self.node("QuantizeLinear", [x, *parameters]), *parameters]
        )

    def weights(self, *shape: int) -> tuple[str, str]:
        """int8 by output channel, dequantized, and an int32 bias for inputs of scale 0.02."""
        channels = shape[0]
        terms = np.prod(shape[1:])  # sums stay in the range of their inputs
        scale = (self.rng.uniform(0.5, 2.0, channels) / (73 * np.sqrt(terms))).astype(np.float32)
        w = self.rng.integers(-127, 128, shape, np.int8)
        bias = self.rng.integers(-8000, 8000, channels, np.int32)
        zeros = self.constant(np.zeros(channels, np.int8))
        of = self.node("DequantizeLinear", [self.constant(w), self.constant(scale), zeros], axis=0)
        zero = self.constant(np.zeros(channels, np.int32))
        bias_scale = self.constant((scale * np.float32(0.02)).astype(np.float32))
        return of, self.node("DequantizeLinear", [self.constant(bias), bias_scale, zero], axis=0)

    def conv(self, x: str, *shape: int, **attributes: object) -> str:
        pads = [shape[2] // 2, shape[3] // 2] * 2
        return self.node("Conv", [x, *self.weights(*shape)], pads=pads, **attributes)


def int8_network(path: Path, activation: type, seed: int = 0) -> dict[str, np.ndarray]:
    """Writes a network of convolutions (dense, grouped, depthwise, strided), a residual sum, a
    pool and a product, with activations of int8 or uint8; returns inputs for it.
    """
    g = _Int8Graph(seed, activation)
    zero = 3 if activation is np.int8 else 120
    low = -128 if activation is np.int8 else 0
    x = g.quantized("x", 0.02, zero)
    a = g.quantized(g.node("Relu", [g.conv(x, 24, 3, 3, 3, strides=[2, 2])]), 0.02, low)
    b = g.quantized(g.node("Relu", [g.conv(a, 24, 1, 3, 3, group=24)]), 0.02, low)
    c = g.quantized(g.conv(b, 24, 24, 1, 1), 0.02, zero)
    d = g.quantized(g.node("Add", [c, a]), 0.02, zero)
    e = g.quantized(g.node("Relu", [g.conv(d, 34, 12, 3, 3, group=2)]), 0.02, low)
    p = g.node("MaxPool", [e], kernel_shape=[2, 2], strides=[2, 2])
    f = g.quantized(g.conv(p, 40, 34, 5, 1), 0.02, zero)
    flat = g.node("Flatten", [f])
    w, bias = g.weights(10, 40 * 6 * 5)
    y = g.quantized(g.node("Gemm", [flat, w, bias], transB=1), 0.02, zero)
    g.nodes.append(helper.make_node("Identity", [y], ["y"]))
    g.nodes.append(helper.make_node("Identity", [f], ["z"]))
    model = model_proto(
        g.nodes,
        [tensor("x", TensorProto.FLOAT, [1, 3, 24, 20])],
        [
            tensor("y", TensorProto.FLOAT, [1, 10]),
            tensor("z", TensorProto.FLOAT, [1, 40, 6, 5]),
        ],
        g.constants,
        opset=17,
    )
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return {"x": g.rng.uniform(-2, 2, (1, 3, 24, 20)).astype(np.float32)}
