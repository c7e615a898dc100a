# SPDX-License-Identifier: Apache-2.0
"""Reading the options of an engine: text in, checked values out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .._core import InvalidArgument


def choice(
    engine: str, options: Mapping[str, str], name: str, values: Iterable[str], default: str
) -> str:
    """The value of an option that takes one of `values`."""
    value = options.get(name, default)
    values = list(values)
    if value not in values:
        raise InvalidArgument(
            f"engine {engine}, option '{name}': '{value}' is none of {', '.join(values)}"
        )
    return value


def flag(engine: str, options: Mapping[str, str], name: str, default: bool) -> bool:
    """The value of an option that is on or off."""
    words = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}
    value = options.get(name)
    if value is None:
        return default
    if value.lower() not in words:
        raise InvalidArgument(f"engine {engine}, option '{name}': '{value}' is neither 1 nor 0")
    return words[value.lower()]
