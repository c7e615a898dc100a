# SPDX-License-Identifier: Apache-2.0
"""What lowerings of ATen ops build with: values that know their PyTorch dtype, and a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

import numpy as np
import torch

from .._core import Graph, Unsupported
from .draws import Draws

DTYPE_NAMES: dict[torch.dtype, str] = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.int64: "int64",
    torch.int32: "int32",
    torch.int16: "int16",
    torch.int8: "int8",
    torch.uint8: "uint8",
    torch.uint16: "uint16",
    torch.uint32: "uint32",
    torch.uint64: "uint64",
    torch.bool: "bool",
    torch.complex64: "complex64",
    torch.complex128: "complex128",
    torch.float8_e4m3fn: "float8_e4m3fn",
    torch.float8_e5m2: "float8_e5m2",
}

# Numbers of ONNX's TensorProto.DataType, for Cast and its kin.
_ONNX_DTYPES: dict[torch.dtype, int] = {
    torch.float32: 1,
    torch.uint8: 2,
    torch.int8: 3,
    torch.uint16: 4,
    torch.int16: 5,
    torch.int32: 6,
    torch.int64: 7,
    torch.bool: 9,
    torch.float16: 10,
    torch.float64: 11,
    torch.uint32: 12,
    torch.uint64: 13,
    torch.complex64: 14,
    torch.complex128: 15,
    torch.bfloat16: 16,
    torch.float8_e4m3fn: 17,
    torch.float8_e5m2: 19,
}


# Integers that ONNX's ops do not take: they are computed with as int32, which wraps the same way.
_BYTES = (torch.uint8, torch.int8, torch.int16, torch.uint16)
_NARROW = {
    "CumProd": _BYTES,
    "CumSum": _BYTES,
    "Gemm": _BYTES,
    "MatMul": _BYTES,
    "Neg": (torch.uint8, torch.uint16),
    "Pow": _BYTES,
    "Range": (torch.uint8, torch.int8, torch.uint16),
    "ReduceMax": (torch.int16, torch.uint16),
    "ReduceMin": (torch.int16, torch.uint16),
    "ReduceProd": _BYTES,
    "ReduceSum": _BYTES,
}


class NeedsStaticShape(Unsupported):
    """An op can be imported, but not with the symbolic dimensions that it has here."""


@dataclass(frozen=True)
class Value:
    """A value of the graph. ``shape`` is None where a lowering did not need to know it."""

    id: int
    dtype: torch.dtype
    shape: tuple[int | torch.SymInt, ...] | None = None
    rank_hint: int | None = None

    @property
    def rank(self) -> int:
        """Number of dimensions; Unsupported where it was not tracked."""
        if self.shape is not None:
            return len(self.shape)
        if self.rank_hint is None:
            raise Unsupported("the rank of an intermediate value is not known")
        return self.rank_hint

    def _is_no_number(self) -> NoReturn:
        raise NeedsStaticShape("a number is needed that is a symbol, or a tensor's, here")

    # What Python asks where a lowering takes an attribute or a size for a number.
    __index__ = __int__ = __float__ = _is_no_number

    def static_shape(self, what: str, start: int | None = None) -> list[int]:
        """The dimensions (from `start` on) as numbers; Unsupported, naming `what`, where one is
        symbolic."""
        dims = None if self.shape is None else self.shape[start:]
        if dims is None or not all(isinstance(dim, int) for dim in dims):
            raise NeedsStaticShape(
                f"{what} needs static dimensions, the shape here is {self.shape}"
            )
        return [int(dim) for dim in dims]

    def static_size(self, dim: int, what: str) -> int:
        """One dimension as a number; Unsupported, naming `what`, where it is symbolic."""
        size = None if self.shape is None else self.shape[dim]
        if not isinstance(size, int):
            raise NeedsStaticShape(
                f"{what} needs static dimensions, the shape here is {self.shape}"
            )
        return size


Number: TypeAlias = "int | float | bool"
Operand: TypeAlias = "Value | int | float | bool"
# A dimension or other integer that may be computed: a Value is an int64 scalar.
Int: TypeAlias = "int | Value"


class Builder:
    """Adds nodes to a graph. `graph.finish()` infers shapes later; dtypes are tracked here."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.name = ""  # of the ATen node being lowered
        self.node: torch.fx.Node | None = None  # the node itself
        self.values: Mapping[torch.fx.Node, object] = {}  # what the nodes before it gave
        self.out: list[tuple[torch.dtype, tuple[int | torch.SymInt, ...]] | None] = []
        self.used: set[int] = {0}  # which outputs of the ATen node are read
        self.unmade: set[int] = set()  # inputs and constants: values that no node makes
        self.known: dict[int, torch.Tensor] = {}  # constants by their ids
        self.draws: Draws | None = None  # what PyTorch draws for each run; None: engines do
        self._constants: dict[tuple[object, ...], Value] = {}
        # What a Transpose reads, and its permutation, by the id of its result.
        self._transposed: dict[int, tuple[Value, list[int]]] = {}

    # --- inputs -----------------------------------------------------------------------------------

    def input(self, name: str, dtype: torch.dtype, shape: Sequence[int | torch.SymInt]) -> Value:
        """An input of the graph."""
        key = self.graph.add_input(name, DTYPE_NAMES[dtype], dims_of(shape))
        self.unmade.add(key)
        return Value(key, dtype, tuple(shape))

    def device(self) -> torch.device:
        """Where PyTorch has the result of the node being lowered."""
        sample = self.node.meta.get("val") if self.node is not None else None
        first = sample[0] if isinstance(sample, (list, tuple)) else sample
        return first.device if isinstance(first, torch.Tensor) else torch.device("cpu")

    # --- constants ------------------------------------------------------------------------------

    def tensor(self, tensor: torch.Tensor, name: str = "") -> Value:
        """A constant that shares the memory of `tensor` (which is made dense if it is not, and
        copied to the host if it lies elsewhere)."""
        dense = tensor.detach().contiguous()
        if not dense.is_cpu:
            dense = dense.cpu()
        array: object = dense
        if dense.dtype == torch.bool:
            array = dense.numpy()  # DLPack's bool came late
        key = self.graph.add_constant(array, DTYPE_NAMES[dense.dtype], name)
        self.unmade.add(key)
        self.known[key] = dense
        return Value(key, dense.dtype, tuple(dense.shape))

    def scalar(self, number: Number, dtype: torch.dtype) -> Value:
        """A constant of rank 0."""
        key = ("scalar", repr(number), dtype)
        if key not in self._constants:
            self._constants[key] = self.tensor(torch.tensor(number, dtype=dtype), "scalar")
        return self._constants[key]

    def ints(self, numbers: Sequence[int]) -> Value:
        """A constant int64 vector."""
        key = ("ints", tuple(numbers))
        if key not in self._constants:
            vector = torch.tensor(list(numbers), dtype=torch.int64)
            self._constants[key] = self.tensor(vector, "ints")
        return self._constants[key]

    def array(self, array: np.ndarray) -> Value:
        """A constant from NumPy."""
        dense = np.ascontiguousarray(array).reshape(array.shape)  # which makes a number a vector
        return self.tensor(torch.from_numpy(dense), "table")

    # --- nodes ----------------------------------------------------------------------------------

    def op(
        self,
        op: str,
        *inputs: Value | None,
        dtype: torch.dtype | None = None,
        shape: Sequence[int | torch.SymInt] | None = None,
        rank: int | None = None,
        domain: str = "",
        **attributes: object,
    ) -> Value:
        """A node with one output; its dtype is the first input's unless given."""
        (value,) = self.ops(
            op, *inputs, dtypes=[dtype], shape=shape, rank=rank, domain=domain, **attributes
        )
        return value

    def ops(
        self,
        op: str,
        *inputs: Value | None,
        dtypes: Sequence[torch.dtype | None],
        shape: Sequence[int | torch.SymInt] | None = None,
        rank: int | None = None,
        domain: str = "",
        **attributes: object,
    ) -> list[Value]:
        """A node with one output per entry of `dtypes`."""
        first = next((value for value in inputs if value is not None), None)
        if first is not None and not domain and first.dtype in _NARROW.get(op, ()):
            narrow = first.dtype
            wide = [
                self.cast(value, torch.int32)
                if value is not None and value.dtype == narrow
                else value
                for value in inputs
            ]
            kinds = [torch.int32 if kind in (None, narrow) else kind for kind in dtypes]
            made = self.ops(op, *wide, dtypes=kinds, shape=shape, rank=rank, **attributes)
            return [
                self.cast(value, narrow) if kind in (None, narrow) else value
                for value, kind in zip(made, dtypes, strict=True)
            ]
        if rank is None and shape is None and first is not None:
            rank = len(first.shape) if first.shape is not None else first.rank_hint
        for name, value in attributes.items():
            if any(isinstance(item, Value) for item in _items(value)):
                raise NeedsStaticShape(
                    f"{op}: the attribute '{name}' is a number of the graph, and a symbol here"
                )
        sources = [None if value is None else value.id for value in inputs]
        while sources and sources[-1] is None:  # some parsers take no "" for the last input
            sources.pop()
        ids = self.graph.add_node(
            op,
            sources,
            [
                f"{self.name}_{op}" if i == 0 else f"{self.name}_{op}_{i}"
                for i in range(len(dtypes))
            ],
            {name: value for name, value in attributes.items() if value is not None},
            domain,
            self.name,
        )
        results = []
        for key, dtype in zip(ids, dtypes, strict=True):
            if dtype is None:
                if first is None:
                    raise Unsupported(f"{op}: a node without inputs needs a dtype")
                dtype = first.dtype
            results.append(Value(key, dtype, None if shape is None else tuple(shape), rank))
        return results

    def declared(self, value: Value, shape: Sequence[int | torch.SymInt] | None) -> Value:
        """The result of an op outside the standard, whose shape nobody infers."""
        if shape is None:
            return value
        self.graph.set_type(value.id, DTYPE_NAMES[value.dtype], dims_of(shape))
        return Value(value.id, value.dtype, tuple(shape))

    def cast(self, x: Value, dtype: torch.dtype) -> Value:
        """`x` in another dtype; itself where it has that already."""
        if x.dtype == dtype:
            return x
        if dtype not in _ONNX_DTYPES or dtype.is_complex or x.dtype.is_complex:
            raise Unsupported(
                f"no conversion from {x.dtype} to {dtype}; complex numbers are not imported"
            )
        # PyTorch stops at the largest number of float8_e4m3fn, and goes to infinity here.
        saturate = 0 if dtype == torch.float8_e5m2 else None
        to = _ONNX_DTYPES[dtype]
        return self.op("Cast", x, dtype=dtype, shape=x.shape, to=to, saturate=saturate)

    def onnx_dtype(self, dtype: torch.dtype) -> int:
        """The number that ONNX's attributes have for a dtype."""
        return _ONNX_DTYPES[dtype]

    # --- PyTorch's rules ------------------------------------------------------------------------

    def result_type(self, *operands: Operand) -> torch.dtype:
        """The dtype that PyTorch's type promotion gives."""

        def sample(operand: Operand) -> torch.Tensor | Number:
            if isinstance(operand, Value):
                return torch.empty((1,) * operand.rank, dtype=operand.dtype, device="meta")
            return operand

        samples = [sample(operand) for operand in operands]
        if len(samples) == 1:
            return torch.result_type(samples[0], samples[0])
        state = samples[0]
        for other in samples[1:]:
            promoted = torch.result_type(state, other)
            dims = max((s.dim() for s in (state, other) if isinstance(s, torch.Tensor)), default=0)
            state = torch.empty((1,) * dims, dtype=promoted, device="meta")
        assert isinstance(state, torch.Tensor)
        return state.dtype

    def operand(self, x: Operand, dtype: torch.dtype) -> Value:
        """`x` as a value of that dtype."""
        return self.cast(x, dtype) if isinstance(x, Value) else self.scalar(x, dtype)

    def promote(self, *operands: Operand) -> list[Value]:
        """The operands in the dtype that PyTorch would compute in."""
        dtype = self.result_type(*operands)
        return [self.operand(wrapped(x, dtype), dtype) for x in operands]

    def to_float(self, x: Value) -> Value:
        """Integers and bool as PyTorch's default floating dtype."""
        if x.dtype.is_floating_point or x.dtype.is_complex:
            return x
        return self.cast(x, torch.get_default_dtype())

    # --- shapes ---------------------------------------------------------------------------------

    def vector(self, sizes: Sequence[Int]) -> Value:
        """An int64 vector of numbers, some of which may be computed."""
        if all(isinstance(size, int) for size in sizes):
            return self.ints([size for size in sizes if isinstance(size, int)])
        parts: list[Value] = []
        for size in sizes:
            if isinstance(size, int):
                parts.append(self.ints([size]))
            else:
                parts.append(self.op("Reshape", size, self.ints([1]), rank=1))
        return self.op("Concat", *parts, axis=0, rank=1)

    def reshape(self, x: Value, sizes: Sequence[Int]) -> Value:
        """−1 in `sizes` stands for what is left, as in PyTorch."""
        return self.op(
            "Reshape",
            x,
            self.vector(sizes),
            rank=len(sizes),
            shape=static_or_none(sizes) if -1 not in sizes else None,
            allowzero=1 if 0 in sizes else None,
        )

    def dim_size(self, x: Value, dim: int) -> Int:
        """Size of one dimension, computed where it is symbolic."""
        dim %= max(x.rank, 1)
        if x.shape is not None and isinstance(x.shape[dim], int):
            return int(x.shape[dim])
        size = self.op("Shape", x, dtype=torch.int64, rank=1, start=dim, end=dim + 1)
        return self.op("Squeeze", size, self.ints([0]), rank=0, shape=())

    def product(self, sizes: Sequence[Int]) -> Int:
        """Of numbers, some of which may be computed."""
        total: Int = 1
        for size in sizes:
            if isinstance(total, int) and isinstance(size, int):
                total *= size
            else:
                both = [self.operand(n, torch.int64) for n in (total, size)]
                total = self.op("Mul", *both, rank=0, shape=())
        return total

    def reshape_like(self, x: Value, like: Value) -> Value:
        """`x` in the shape of another value, which may be symbolic."""
        size = self.op("Shape", like, dtype=torch.int64, rank=1)
        empty = like.shape is not None and any(
            isinstance(dim, int) and dim == 0 for dim in like.shape
        )
        return self.op(
            "Reshape",
            x,
            size,
            rank=like.rank,
            shape=like.shape,
            allowzero=1 if empty else None,
        )

    def transpose(self, x: Value, permutation: Sequence[int]) -> Value:
        """Dimension `permutation[i]` of `x` becomes the i-th."""
        order = list(permutation)
        # A transpose of a transpose is one, or none.
        while x.id in self._transposed and order != list(range(len(order))):
            x, inner = self._transposed[x.id]
            order = [inner[p] for p in order]
        if order == list(range(len(order))):
            return x
        shape = None if x.shape is None else tuple(x.shape[p] for p in order)
        result = self.op("Transpose", x, shape=shape, rank=len(order), perm=order)
        self._transposed[result.id] = (x, order)
        return result

    def unsqueeze(self, x: Value, *dims: int) -> Value:
        """Adds dimensions of size 1 at these positions of the result."""
        return self.op("Unsqueeze", x, self.ints(dims), rank=x.rank + len(dims))

    def squeeze(self, x: Value, *dims: int) -> Value:
        """Drops dimensions of size 1."""
        return self.op("Squeeze", x, self.ints(dims), rank=x.rank - len(dims))

    def slice(self, x: Value, dim: int, start: Int, end: Int, step: Int = 1) -> Value:
        """Python's x[start:end:step] along one dimension."""
        return self.op(
            "Slice",
            x,
            self.vector([start]),
            self.vector([end]),
            self.ints([dim]),
            self.vector([step]),
        )

    def reduce(
        self, op: str, x: Value, dims: Sequence[int] | None, keepdim: bool, **attributes: object
    ) -> Value:
        """A Reduce… op over `dims`; over everything where they are None or empty."""
        axes = list(range(x.rank))
        if dims and x.rank:  # a scalar's dimension 0 or -1 is none
            axes = sorted(dim % x.rank for dim in dims)
        axes_input = self.ints(axes)  # none: rank 0, there is nothing to reduce over
        shape: tuple[int | torch.SymInt, ...] | None = None
        if x.shape is not None:
            shape = tuple(
                1 if i in axes else size
                for i, size in enumerate(x.shape)
                if keepdim or i not in axes
            )
        rank = x.rank if keepdim else x.rank - len(axes)
        return self.op(
            op,
            x,
            axes_input,
            shape=shape,
            rank=rank,
            keepdims=int(keepdim),
            noop_with_empty_axes=1 if not axes else None,
            **attributes,
        )


def _items(value: object) -> Sequence[object]:
    return value if isinstance(value, (list, tuple)) else (value,)


def wrapped(x: Operand, dtype: torch.dtype) -> Operand:
    """A whole number as an operand of arithmetic in small integers has it: of what is too large
    for them the lowest bits."""
    if isinstance(x, Value) or dtype.is_floating_point or dtype.is_complex:
        return x
    return torch.tensor(x).to(dtype).item()


def dims_of(shape: Sequence[int | torch.SymInt]) -> list[int | str | None]:
    """As the graph's types have them: a symbol by its name, an expression is unknown."""
    dims: list[int | str | None] = []
    for size in shape:
        if isinstance(size, int):
            dims.append(size)
        else:
            text = str(size)
            dims.append(text if text.isidentifier() else None)
    return dims


def static_or_none(sizes: Sequence[Int]) -> tuple[int, ...] | None:
    """The sizes, if all of them are numbers."""
    numbers = [size for size in sizes if isinstance(size, int)]
    return tuple(numbers) if len(numbers) == len(sizes) else None
