# SPDX-License-Identifier: Apache-2.0
"""The page of --report: well formed, no script, and a plan in which no two buffers overlap."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import onnx
import openxrt.lite
from onnx import TensorProto, helper, numpy_helper
from small_models import model_proto

NAME = '<script>"&alert</script>'


def residual_network() -> onnx.ModelProto:
    """Four convolutions, the second half a residual; names that HTML must not take as its own."""
    rng = np.random.default_rng(0)
    weights = numpy_helper.from_array(rng.standard_normal((8, 8, 3, 3), np.float32), "w")
    nodes, value = [], "x"
    for i in range(4):
        name = f"c{i}{NAME}"
        nodes.append(helper.make_node("Conv", [value, "w"], [name], name, pads=[1] * 4))
        if i == 2:
            nodes.append(helper.make_node("Add", [name, f"c0{NAME}"], ["sum"]))
            name = "sum"
        value = name
    nodes.append(helper.make_node("Softmax", [value], ["y"], axis=1))
    info = helper.make_tensor_value_info
    return model_proto(
        nodes,
        [info("x", TensorProto.FLOAT, [1, 8, 16, 16])],
        [info("y", TensorProto.FLOAT, [1, 8, 16, 16])],
        [weights],
        opset=17,
    )


def test_page(tmp_path: Path) -> None:
    onnx.save(residual_network(), tmp_path / "net.onnx")
    page = tmp_path / "page.html"
    openxrt.lite.compile(
        tmp_path / "net.onnx", tmp_path / "net.bin", targets="x86,generic", report=page
    )
    text = page.read_text()
    assert "<script" not in text
    assert "http" not in text
    parts = text.split("<svg")[1:]
    drawings = [ElementTree.fromstring("<svg" + p.split("</svg>")[0] + "</svg>") for p in parts]
    assert len(drawings) == 3
    boxes = [
        tuple(float(r.get(k, "0")) for k in ("x", "y", "width", "height"))
        for r in drawings[0].iter("rect")
    ]
    assert len(boxes) >= 4
    for i, (x, y, w, h) in enumerate(boxes):
        assert y + h <= 430.1  # the bottom of the arena
        for u, v, s, t in boxes[:i]:
            assert x >= u + s or u >= x + w or y >= v + t or v >= y + h
    titles = [t.text or "" for t in drawings[1].iter("title")]
    convolutions = [t for t in titles if "conv_f32, x86" in t]
    # 8 x 16 x 16 outputs of 8 x 3 x 3 products.
    assert len(convolutions) == 4
    assert all("147.5 k multiply-adds" in t for t in convolutions)
