# SPDX-License-Identifier: Apache-2.0
"""Types as views of graphs write them: "float32[N,3]", "seq(string[*])", "optional(…)"."""

from __future__ import annotations

# ONNX's numbers of element types (TensorProto.DataType), by OpenXRT's names.
# fmt: off
_NAMES = (
    "undefined", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool",
    "float16", "float64", "uint32", "uint64", "complex64", "complex128", "bfloat16",
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "uint4", "int4",
    "float4_e2m1fn", "float8_e8m0fnu", "uint2", "int2",
)
# fmt: on
ONNX_NUMBER = {name: number for number, name in enumerate(_NAMES)}

# Elements narrower than a byte: packed in tensors, one per byte in NumPy.
PACKED = frozenset({"uint4", "int4", "float4_e2m1fn", "uint2", "int2"})
# What NumPy knows without ml_dtypes.
PLAIN = frozenset(_NAMES[1:16]) - {"string"}


def dtype_of(kind: str) -> str:
    """The element type of a tensor type: "float32[N,3]" gives "float32", "seq(…)" gives ""."""
    return "" if kind.startswith(("seq(", "optional(", "map(", "sparse ")) else kind.split("[")[0]


def element_of(kind: str) -> str:
    """The element type at the bottom of any type: "seq(float32[*])" gives "float32"."""
    while kind.startswith(("seq(", "optional(")):
        kind = kind[kind.index("(") + 1 : -1]
    return kind.split("[")[0]


def rank_of(kind: str) -> int | None:
    """The rank of a tensor type, or None where it is unknown."""
    dims = kind[kind.index("[") + 1 : -1]
    if dims == "*":
        return None
    return len(dims.split(",")) if dims else 0


def dims_of(kind: str) -> list[int | str] | None:
    """The dimensions of a tensor type, symbols as text; None where the rank is unknown."""
    dims = kind[kind.index("[") + 1 : -1]
    if dims == "*":
        return None
    return [int(dim) if dim.isdigit() else dim for dim in dims.split(",")] if dims else []
