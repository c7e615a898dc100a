# SPDX-License-Identifier: Apache-2.0
"""Trains the network of this example and writes digits_int8.onnx and pictures.h.

    python examples/lite_mcu/train.py   # needs torch, onnx, onnxruntime and scikit-learn

The pictures are the 1,797 scanned digits that scikit-learn comes with, 8 x 8 pixels of 0 to 16.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from sklearn.datasets import load_digits
from torch.nn import functional

HERE = Path(__file__).resolve().parent


class Net(torch.nn.Module):
    """Three convolutions and a product: 7,338 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList(
            torch.nn.Conv2d(a, b, 3, s, 1) for a, b, s in [(1, 8, 1), (8, 16, 2), (16, 32, 2)]
        )
        self.last = torch.nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for conv in self.convs:
            x = functional.relu(conv(x))
        return self.last(x.flatten(1))


class Reader(CalibrationDataReader):
    """Pictures to calibrate with."""

    def __init__(self, images: torch.Tensor) -> None:
        self.images = iter(images)

    def get_next(self) -> dict | None:
        image = next(self.images, None)
        return None if image is None else {"x": image[None].numpy()}


def to_onnx(net: Net) -> onnx.ModelProto:
    """The network as ONNX."""
    nodes, weights, value = [], [], "x"

    def constant(name: str, tensor: torch.Tensor) -> str:
        weights.append(numpy_helper.from_array(tensor.detach().numpy(), name))
        return name

    for i, conv in enumerate(net.convs):
        inputs = [value, constant(f"w{i}", conv.weight), constant(f"b{i}", conv.bias)]
        nodes.append(
            helper.make_node("Conv", inputs, [f"c{i}"], strides=list(conv.stride), pads=[1] * 4)
        )
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"]))
        value = f"r{i}"
    nodes.append(helper.make_node("Flatten", [value], ["flat"]))
    inputs = ["flat", constant("w", net.last.weight), constant("b", net.last.bias)]
    nodes.append(helper.make_node("Gemm", inputs, ["y"], transB=1))
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main() -> None:
    """Trains, quantises, writes."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = Net()
    data = load_digits()
    order = torch.randperm(len(data.target))
    pixels = torch.tensor(data.images, dtype=torch.float32)[order, None]
    shown = torch.tensor(data.target)[order]
    images, labels = pixels[:1400] / 16, shown[:1400]
    tests, answers = pixels[1400:] / 16, shown[1400:]
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    for _ in range(15):
        for batch in torch.randperm(len(images)).split(50):
            optimizer.zero_grad()
            functional.cross_entropy(net(images[batch]), labels[batch]).backward()
            optimizer.step()
    print("float32:", (net(tests).argmax(1) == answers).float().mean().item())
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(to_onnx(net), f"{folder}/digits.onnx")
        quantize_static(
            f"{folder}/digits.onnx",
            str(HERE / "digits_int8.onnx"),
            Reader(images[:64]),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
    lines = [
        "/* SPDX-License-Identifier: Apache-2.0 */",
        "/* Made by train.py: scanned digits, 8 x 8 pixels of 0 to 16, and what they show. */",
    ]
    lines.append("static const signed char pictures[20][64] = {")
    for picture in pixels[1400:1420].int().flatten(1).tolist():
        for i in range(0, 64, 16):
            start, end = ("    {" if i == 0 else "     "), ("}," if i == 48 else ",")
            lines.append(start + ", ".join(map(str, picture[i : i + 16])) + end)
    lines.append("};")
    digits = ", ".join(map(str, answers[:20].tolist()))
    lines.append(f"static const int digits[20] = {{{digits}}};")
    (HERE / "pictures.h").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
