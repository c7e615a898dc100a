# SPDX-License-Identifier: Apache-2.0
"""Writes hostile models as files, for programs that are built with sanitizers.

    python tests/hostile/hostile_models.py FOLDER --count 500 --seed 1

What a run would be fed with is in the file: all operands of a node but the first are constants.
Beside the cases there are valid tests of which one operand has another size than it should have.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from hostile_cases import make_case, seeds
from onnx import helper, numpy_helper

# As in a whole set (hostile_run.ALL); those about time, memory and the caller are left out.
SHARES = {"tensor": 50, "contributed": 30, "node": 20, "sizes": 15, "limit": 12, "model": 10}
SHARES |= {"mixed": 6, "file": 2}
OTHER_SIZES = 100  # of tests with an operand of another size
MOST_BYTES = 100_000


def with_constants(data: bytes, feeds: dict[str, Any], is_open: bool = False) -> bytes:
    """The model with what it is fed as constants, but for the first input, which gets its shape;
    `is_open`: but for its last axis.
    """
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
            shape: list[int | str] = list(array.shape)
            if is_open and shape:
                shape[-1] = "last"
            model.graph.input.append(helper.make_tensor_value_info(value.name, dtype, shape))
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


def other_sizes(array: np.ndarray) -> list[np.ndarray]:
    """The array with more elements, fewer, none, or other axes."""
    flat = array.reshape(-1)
    found = [flat[:0], flat[:1], flat, array[np.newaxis], array[..., np.newaxis]]
    for axis in range(array.ndim):
        found += [np.concatenate([array, array], axis), array.take(range(1), axis, mode="clip")]
        found.append(array.take(range(array.shape[axis] // 2), axis, mode="clip"))
    return [made for made in found if made.shape != array.shape]


def of_another_size(index: int, seed: int) -> Iterator[bytes]:
    """A test of which one operand has another size."""
    rng = np.random.default_rng([seed, index])
    test = seeds()[index % len(seeds())]
    arrays = {k: v for k, v in test.feeds.items() if isinstance(v, np.ndarray) and v.size}
    if not arrays:
        return
    name = sorted(arrays)[rng.integers(len(arrays))]
    choices = other_sizes(arrays[name])
    feeds = {**test.feeds, name: choices[rng.integers(len(choices))]}
    try:
        yield with_constants(test.model, feeds, is_open=bool(rng.integers(2)))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return  # a sequence, or bytes of a type that NumPy does not have


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=500, help="of cases, each one or two files")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    total = sum(SHARES.values()) + OTHER_SIZES
    for index in range(arguments.count * OTHER_SIZES // total):
        for data in of_another_size(index, arguments.seed):
            (arguments.folder / f"hostile-size-{index}.onnx").write_bytes(data)
    for kind, share in SHARES.items():
        for index in range(arguments.count * share // total):
            case = make_case(kind, index, arguments.seed)
            if len(case.model) > MOST_BYTES:
                continue
            for at, data in enumerate(variants(case.model, case.runs)):
                (arguments.folder / f"hostile-{kind}-{index}-{at}.onnx").write_bytes(data)


if __name__ == "__main__":
    main()
