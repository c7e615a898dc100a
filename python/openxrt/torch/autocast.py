# SPDX-License-Identifier: Apache-2.0
"""What PyTorch converts under autocast, kept in traces.

torch.export keeps ops that PyTorch writes in others as they are, and takes them apart when autocast
is off: the conversions of the others are lost.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

# Ops of whose parts autocast converts the arguments.
_IN_PARTS = (
    "chain_matmul.default",
    "corrcoef.default",
    "cov.default",
    "einsum.default",
    "inner.default",
    "linalg_matrix_power.default",
    "linalg_multi_dot.default",
    "matrix_power.default",
    "tensordot.default",
)
# Those that are computed as a whole in autocast's dtype.
_WHOLE = (
    "lstm.input",
    "rnn_relu.input",
    "rnn_relu_cell.default",
    "rnn_tanh.input",
    "rnn_tanh_cell.default",
)
# The same on CUDA alone: on CPUs the states, which stay as they are, decide the dtype.
_WHOLE_ON_CUDA = ("gru.input",)


def _in_parts(op: Any, *args: Any, **kwargs: Any) -> Any:
    return op.decompose(*args, **kwargs)


def _converted(op: Any, device: str, key: str, *args: Any, **kwargs: Any) -> Any:
    dtype = torch.get_autocast_dtype(device)

    def convert(x: Any) -> Any:
        wide = isinstance(x, torch.Tensor) and x.is_floating_point() and x.dtype != torch.float64
        return x.to(dtype) if wide else x

    args, kwargs = pytree.tree_map(convert, (args, kwargs))
    below = torch._C.DispatchKeySet(torch._C._parse_dispatch_key(key))
    with torch._C._ExcludeDispatchKeyGuard(below):
        return op(*args, **kwargs)


@contextlib.contextmanager
def conversions_kept() -> Iterator[None]:
    """While it is open, what is traced under autocast has the conversions that PyTorch makes."""
    with torch.library._scoped_library("aten", "IMPL") as library:
        for device, key in (("cpu", "AutocastCPU"), ("cuda", "AutocastCUDA")):
            on_cuda = _WHOLE_ON_CUDA if device == "cuda" else ()
            for name in (*_IN_PARTS, *_WHOLE, *on_cuda):
                packet, _, overload = name.partition(".")
                op = getattr(getattr(torch.ops.aten, packet), overload)
                if torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key):
                    continue  # PyTorch's own converts
                kernel = (
                    functools.partial(_in_parts, op)
                    if name in _IN_PARTS
                    else functools.partial(_converted, op, device, key)
                )
                library.impl(op, kernel, key)
        yield
