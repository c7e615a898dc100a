# SPDX-License-Identifier: Apache-2.0
"""Writes hostile models as files, for programs that are built with sanitizers.

    python tests/hostile/hostile_models.py FOLDER --count 500 --seed 1

What a run would be fed with is in the file: all operands of a node but the first are constants.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from hostile_cases import make_case
from onnx import helper, numpy_helper

# As in a whole set (hostile_run.ALL); those about time, memory and the caller are left out.
SHARES = {"tensor": 50, "contributed": 30, "node": 20, "sizes": 15, "limit": 12, "model": 10}
SHARES |= {"mixed": 6, "file": 2}
MOST_BYTES = 100_000


def with_constants(data: bytes, feeds: dict[str, Any]) -> bytes:
    """The model with what it is fed as constants, but for the first input, which gets its shape."""
    model = onnx.ModelProto.FromString(data)
    inputs = list(model.graph.input)
    del model.graph.input[:]
    for at, value in enumerate(inputs):
        if value.name not in feeds:
            model.graph.input.append(value)
            continue
        array = np.asarray(feeds[value.name])
        if at == 0:
            dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
            made = helper.make_tensor_value_info(value.name, dtype, list(array.shape))
            model.graph.input.append(made)
        else:
            model.graph.initializer.append(numpy_helper.from_array(array, value.name))
    return model.SerializeToString()


def variants(data: bytes, runs: list[tuple[Any, Any]]) -> Iterator[bytes]:
    """The model as it is, and with the operands of its first run."""
    yield data
    for feeds, _ in runs[:1]:
        if not isinstance(feeds, dict):
            continue
        try:
            yield with_constants(data, feeds)
        except (DecodeError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
            continue  # the file is damaged, or what is fed has no place in one


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=500, help="of cases, each one or two files")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for kind, share in SHARES.items():
        for index in range(arguments.count * share // sum(SHARES.values())):
            case = make_case(kind, index, arguments.seed)
            if len(case.model) > MOST_BYTES:
                continue
            for at, data in enumerate(variants(case.model, case.runs)):
                (arguments.folder / f"hostile-{kind}-{index}-{at}.onnx").write_bytes(data)


if __name__ == "__main__":
    main()
