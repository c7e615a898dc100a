# SPDX-License-Identifier: Apache-2.0
"""A row of the table of options. tools/make_options.py reads this file on its own."""

from __future__ import annotations

from typing import Any, NamedTuple


class Option(NamedTuple):
    """An option of a program."""

    name: str
    """The field of `xrt::ProgramOptions`, and the name for `xrt --option`."""
    keyword: str
    """The keyword argument of `openxrt.load`; the name, but for `engine`."""
    kind: str
    """"switch", "integer", "number", "text", "word", "path", "list" or "map"."""
    annotation: str
    """The type of the keyword argument, as text."""
    default: Any
    """As the keyword argument has it; None for paths and maps."""
    words: tuple[str, ...]
    """The only values there are, where the kind is "word"."""
    least: float | None
    most: float | None
    help: str
    other_names: tuple[str, ...]
    """Names that are accepted as well."""
    flags: tuple[str, ...]
    """Of the command; without one, `--option NAME=VALUE` sets the option."""
    variables: tuple[str, ...]
    """Of the environment: they fill an option that the caller left at its default."""
    trainer: bool
    """An argument of `openxrt.Trainer`, too."""
    module: bool
    """An argument of `XRTModule` and of `torch.compile`'s backend, too."""
    cached: bool
    """What is compiled, and the key that it is kept under, depends on it."""
    retired: str
    """Not empty: the option is accepted without effect, and this is why."""
