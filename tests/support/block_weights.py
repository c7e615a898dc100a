# SPDX-License-Identifier: Apache-2.0
"""Weights of 4 and 8 bits in blocks, and what they stand for by NumPy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from small_models import model_proto, tensor

_RANGES = {
    TensorProto.INT4: (-8, 8),
    TensorProto.UINT4: (0, 16),
    TensorProto.INT8: (-128, 128),
    TensorProto.UINT8: (0, 256),
}


def initializer(name: str, array: np.ndarray, kind: int) -> onnx.TensorProto:
    """A tensor of whole numbers, of 4 bits two a byte with the low ones first."""
    if kind in (TensorProto.INT8, TensorProto.UINT8):
        dtype = np.int8 if kind == TensorProto.INT8 else np.uint8
        return numpy_helper.from_array(array.astype(dtype), name)
    flat = (array.reshape(-1) & 15).astype(np.uint8)
    if flat.size % 2:
        flat = np.append(flat, np.uint8(0))
    packed = (flat[0::2] | flat[1::2] << 4).astype(np.uint8)
    return helper.make_tensor(name, kind, array.shape, packed.tobytes(), raw=True)


@dataclass
class BlockMatrix:
    """Of shape (depth, columns) for axis 0, (columns, depth) for axis 1."""

    q: np.ndarray
    scale: np.ndarray
    zero: np.ndarray | None
    kind: int
    axis: int
    block: int  # 0: one scale per column

    @classmethod
    def random(
        cls,
        depth: int,
        columns: int,
        *,
        kind: int = TensorProto.UINT4,
        axis: int = 0,
        block: int = 32,
        zeros: bool = True,
        dtype: type = np.float32,
        seed: int = 0,
    ) -> BlockMatrix:
        rng = np.random.default_rng(seed)
        low, high = _RANGES[kind]
        blocks = (columns,) if block == 0 else (-(-depth // block), columns)
        if axis == 1:
            blocks = blocks[::-1]
        shape = (depth, columns) if axis == 0 else (columns, depth)
        return cls(
            rng.integers(low, high, shape),
            rng.uniform(0.01, 0.1, blocks).astype(dtype),
            rng.integers(low, high, blocks) if zeros else None,
            kind,
            axis,
            block,
        )

    def numbers(self) -> np.ndarray:
        """As float64, (depth, columns)."""
        scale, zero = self.scale.astype(np.float64), self.zero
        if zero is None:
            zero = np.zeros(scale.shape)
        if self.block == 0:
            scale, zero = (np.expand_dims(v, self.axis) for v in (scale, zero))
        else:
            size = self.q.shape[self.axis]
            scale, zero = (
                np.take(np.repeat(v, self.block, self.axis), range(size), self.axis)
                for v in (scale, zero)
            )
        w = (self.q - zero) * scale
        return w if self.axis == 0 else w.T

    def initializers(self) -> list[onnx.TensorProto]:
        """q, s and, if any, z."""
        found = [initializer("q", self.q, self.kind), numpy_helper.from_array(self.scale, "s")]
        if self.zero is not None:
            found.append(initializer("z", self.zero, self.kind))
        return found

    def dequantize(self) -> onnx.NodeProto:
        """w from them."""
        names = ["q", "s", "z"][: 2 if self.zero is None else 3]
        axis = 1 - self.axis if self.block == 0 else self.axis
        return helper.make_node("DequantizeLinear", names, ["w"], axis=axis, block_size=self.block)

    def product(self, shape: list[int | str], *, gemm: bool = False, bias: bool = False) -> bytes:
        """y = x w (+ b); weights of axis 1 are transposed."""
        kind = helper.np_dtype_to_tensor_dtype(self.scale.dtype)
        nodes, constants, w = [self.dequantize()], self.initializers(), "w"
        columns = self.numbers().shape[1]
        if bias:
            b = np.linspace(-1, 1, columns).astype(self.scale.dtype)
            constants.append(numpy_helper.from_array(b, "b"))
        if gemm:
            inputs = ["x", w, *(["b"] if bias else [])]
            nodes.append(helper.make_node("Gemm", inputs, ["y"], transB=self.axis))
        else:
            if self.axis == 1:
                nodes.append(helper.make_node("Transpose", [w], ["turned"], perm=[1, 0]))
                w = "turned"
            nodes.append(helper.make_node("MatMul", ["x", w], ["p" if bias else "y"]))
            if bias:
                nodes.append(helper.make_node("Add", ["p", "b"], ["y"]))
        return model_proto(
            nodes,
            [tensor("x", kind, shape)],
            [tensor("y", kind, [*shape[:-1], columns])],
            constants,
        ).SerializeToString()
