# SPDX-License-Identifier: Apache-2.0
"""Quantisation without samples: weights alone, and ranges that each run finds."""

from __future__ import annotations

from os import PathLike, fspath

from . import _core
from ._core import InvalidArgument


def quantize_weights(
    model: str | PathLike[str],
    output: str | PathLike[str],
    weights: str | None,
    block: int | None,
    symmetric: bool | None,
    keep_float: set[str],
) -> str:
    """Writes the model with the weights of products and tables in 4 or 8 bits; returns what was
    done. Arguments and errors are those of :func:`openxrt.quantize.quantize`.
    """
    if weights not in ("int4", "int8"):
        raise InvalidArgument(f"weights '{weights}': there are int4 and int8")
    bits = int(weights.removeprefix("int"))
    if block is None:
        block = 32 if bits == 4 else 0
    done = _core.quantize_weights(
        model,
        output,
        bits=bits,
        block=block,
        symmetric=bits == 8 if symmetric is None else symmetric,
        keep_float=keep_float,
    )
    return (
        f"{fspath(output)}: weights of {done['products']} products and {done['tables']} tables in "
        f"{bits} bits, {done['kept']} in floating point\n"
        f"{done['bytes_after'] / 1e6:.1f} MB instead of {done['bytes_before'] / 1e6:.1f} MB; "
        f"the worst at {done['decibels']:.1f} dB" + (done["note"] and f"\n{done['note']}")
    )


def quantize_dynamic(
    model: str | PathLike[str], output: str | PathLike[str], keep_float: set[str]
) -> str:
    """Writes the model with products in int8 whose ranges each run finds; returns what was done."""
    done = _core.quantize_dynamic(model, output, keep_float=keep_float)
    return (
        f"{fspath(output)}: {done['products']} of {done['products'] + done['kept']} MatMul and "
        "Gemm nodes in int8, with the ranges of each run" + (done["note"] and f"\n{done['note']}")
    )
