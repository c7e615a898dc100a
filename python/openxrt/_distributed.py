# SPDX-License-Identifier: Apache-2.0
"""Means over the processes of a torch.distributed group, as an op of training graphs."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from ._core import InvalidArgument
from .custom_op import register_op

DOMAIN = "openxrt.distributed"
_LOCK = threading.Lock()
_GROUPS: list[tuple[Any, bool]] = []


def reduction_op(group: Any, mean: bool) -> str:
    """The op "domain:name" whose outputs are means, or sums, of its inputs over the group.

    It is one call of all_reduce for each dtype, so that processes cannot disagree on an order.
    """
    with _LOCK:
        for number, (known, known_mean) in enumerate(_GROUPS):
            if known is group and known_mean == mean:
                return f"{DOMAIN}:AllReduce{number}"
        name = f"AllReduce{len(_GROUPS)}"

        def kernel(*xs: np.ndarray) -> tuple[np.ndarray, ...]:
            return _all_reduce(group, mean, xs)

        register_op(
            DOMAIN,
            name,
            kernel,
            inputs=["xs*"],
            outputs=["ys*"],
            attributes={},
            infer=lambda *xs: list(xs),
            deterministic=False,
            revision="1",
        )
        _GROUPS.append((group, mean))
        return f"{DOMAIN}:{name}"


def broadcast(group: Any, arrays: list[np.ndarray]) -> None:
    """Writes the arrays of the group's first process into those of the others."""
    import torch
    import torch.distributed as dist

    source = dist.get_global_rank(group, 0)
    for array in arrays:
        dist.broadcast(torch.from_numpy(array), source, group=group)


def rank(group: Any) -> int:
    """Of this process in the group. Raises InvalidArgument where it is not of it."""
    import torch.distributed as dist

    found = dist.get_rank(group)
    if found < 0:
        raise InvalidArgument("this process is no member of process_group")
    return found


def _all_reduce(group: Any, mean: bool, xs: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    import torch
    import torch.distributed as dist

    results: list[np.ndarray] = [np.empty(0)] * len(xs)
    for dtype in sorted({x.dtype for x in xs}, key=str):
        members = [i for i, x in enumerate(xs) if x.dtype == dtype]
        flat = np.concatenate([xs[i].ravel() for i in members])
        dist.all_reduce(torch.from_numpy(flat), group=group)
        if mean:
            flat /= dist.get_world_size(group)
        ends = np.cumsum([xs[i].size for i in members])
        for i, part in zip(members, np.split(flat, ends[:-1]), strict=True):
            results[i] = part.reshape(xs[i].shape)
    return tuple(results)
