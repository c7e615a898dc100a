# SPDX-License-Identifier: Apache-2.0
"""The memory of OneFlow's tensors, and what notices that a module is another than it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import oneflow as flow
from oneflow import _oneflow_internal as internal
from oneflow import nn

from .._core import InvalidArgument, Watch


class _Exchanges:
    """Counts `tensor.data = other`, which gives a tensor other memory.

    OneFlow 0.9.0 tells nobody, and to ask a tensor where its memory is takes a round trip through
    OneFlow's scheduler, far too long for hundreds of weights at every call. Module.to() exchanges
    memory in this way too.
    """

    def __init__(self) -> None:
        self.count = 0
        own = flow.Tensor.__dict__["data"]

        def get(tensor: flow.Tensor) -> flow.Tensor:
            return own.__get__(tensor)

        def exchange(tensor: flow.Tensor, other: flow.Tensor) -> None:
            self.count += 1
            own.__set__(tensor, other)

        flow.Tensor.data = property(get, exchange, doc=own.__doc__)


_exchanges = _Exchanges()


def shared(tensor: flow.Tensor) -> np.ndarray:
    """The memory of a tensor on the CPU; what is written to it is in the tensor."""
    if tensor.is_global:
        raise InvalidArgument("a global tensor cannot be shared: use tensor.to_local()")
    if tensor.device.type != "cpu":
        raise InvalidArgument(f"a tensor on {tensor.device}: OneFlow lends memory of the CPU only")
    return tensor.numpy()


class Weights:
    """Tensors by name, in OneFlow's own memory."""

    def __init__(self, tensors: Mapping[str, flow.Tensor]) -> None:
        self.tensors = dict(tensors)
        self._views: dict[str, np.ndarray] = {}
        self._seen = -1

    def views(self) -> dict[str, np.ndarray]:
        """Their memory, after all that OneFlow still had to write there."""
        if self._seen != _exchanges.count:
            self._views = {name: shared(tensor) for name, tensor in self.tensors.items()}
            self._seen = _exchanges.count
        internal.eager.Sync()
        return self._views


def structure(module: nn.Module) -> Watch:
    """Notices replaced parameters, buffers and sub-modules, and modes that changed."""
    places: list[tuple[dict[str, Any], str, object]] = []
    whole: list[dict[str, Any]] = []
    for _, owner in module.named_modules():
        places.append((owner.__dict__, "training", owner.training))
        for held in (owner._modules, owner._parameters, owner._buffers):
            places += [(held, key, value) for key, value in held.items()]
            whole.append(held)
    return Watch(places, whole, False)
