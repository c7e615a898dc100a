# SPDX-License-Identifier: Apache-2.0
"""All others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .case import Case, Const, Source


def other(s: Source) -> Iterator[Case]:
    for upper in (0, 1):
        yield Case("Trilu", [s.f(2, 4, 5), Const(np.array(1))], {"upper": upper}, str(upper))
    matrices = s.f(2, 3, 5, 5) + 2 * np.eye(5, dtype=np.float32)
    turned = matrices[:, :, ::-1].copy()
    yield Case("Inverse", [matrices], name="batch", rtol=1e-3, atol=1e-3)
    yield Case("Inverse", [turned[0, 0]], name="pivots", rtol=1e-3, atol=1e-3)
    yield Case("Inverse", [matrices.astype(np.float64)], name="double")
    for metric in ("euclidean", "sqeuclidean"):
        yield Case("CDist", [s.f(4, 6), s.f(5, 6)], {"metric": metric}, metric)
    double = [s.f(4, 6, dtype=np.float64), s.f(5, 6, dtype=np.float64)]
    yield Case("CDist", double, {"metric": "euclidean"}, "double")
    for dtype in (np.int32, np.int64):
        where = s.i(0, 3, 2, 2, 2, dtype=dtype)
        yield Case("GatherND", [s.f(3, 4, 5), where], {}, np.dtype(dtype).name)
    for axis in (0, 2, -1):
        yield Case("ExpandDims", [s.f(3, 4), Const(np.array(axis, np.int32))], {}, str(axis))
    x, grid = s.f(2, 3, 6, 7), s.f(2, 4, 5, 2, scale=0.7)
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            for align in (0, 1):
                attributes = {"mode": mode, "padding_mode": padding, "align_corners": align}
                yield Case("GridSample", [x, grid], attributes, f"{mode}-{padding}-{align}")
    boxes = np.array([[0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1], [-0.2, 0.3, 1.1, 0.7]], np.float32)
    which = np.array([0, 1, 1], np.int32)
    for mode in ("bilinear", "nearest"):
        for size in ([3, 4], [1, 5]):
            yield Case(
                "CropAndResize",
                [x, boxes, which, Const(np.array(size, np.int32))],
                {"mode": mode, "extrapolation_value": 0.5},
                f"{mode}-{size}",
            )
    yield Case("Unique", [s.i(0, 5, 12).astype(np.float32)], {}, outputs=3)
    for dtype in (np.float32, np.int64, np.int32):
        span = [np.array(v, dtype) for v in (1, 10, 2)]
        yield Case("Range", [Const(v) for v in span], {}, np.dtype(dtype).name)
    yield Case("Range", [np.array([2], np.int64), np.array([7], np.int64)], {}, "input")
    for mode in ("constant", "reflect", "edge"):
        pads = Const(np.array([0, 1, 2, 1]))
        yield Case(
            "Pad", [s.f(3, 4), pads, Const(np.array([0.5], np.float32))], {"mode": mode}, mode
        )
    yield Case("SampleOp", [s.f(3, 4)])
    for axis in (-1, 0, 1):
        yield Case("UnfoldTensor", [s.f(5, 6, 7)], {"dim": axis, "size": 3, "step": 2}, str(axis))
    starts, ends = Const(np.array([0, 1])), Const(np.array([2, 9]))
    yield Case("DynamicSlice", [s.f(3, 4), starts, ends], {}, domain="", opset=9)
