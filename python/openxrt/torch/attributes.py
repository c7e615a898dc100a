# SPDX-License-Identifier: Apache-2.0
"""Numbers and other plain values in the attributes of modules, which `forward` may write."""

from __future__ import annotations

from typing import Any

import torch

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_NONE = object()  # in the place of what is no plain value, or not there
_MOST_LEVELS = 8  # of containers in containers
# What every module has, which State watches.
_OF_MODULES = frozenset(vars(torch.nn.Module()))


def _copied(value: Any, level: int = 0) -> Any:
    """A plain value, or a list, tuple, dict or set of such, copied; else _NONE."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if level == _MOST_LEVELS:
        return _NONE
    if kind is dict:
        copied = {key: _copied(item, level + 1) for key, item in value.items()}
        return _NONE if any(item is _NONE for item in copied.values()) else copied
    if kind in (list, tuple, set):
        items = [_copied(item, level + 1) for item in value]
        return _NONE if any(item is _NONE for item in items) else kind(items)
    return _NONE


def _restored(current: Any, value: Any) -> Any:
    """The value that was, in the same list, dict or set where it is one."""
    if type(current) is not type(value):
        return value
    if isinstance(value, list):
        current[:] = value
    elif isinstance(value, (dict, set)):
        current.clear()
        current.update(value)
    else:
        return value
    return current


class PlainAttributes:
    """The plain attributes of a module and of its parts as they are at this moment."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._owners = [
            (prefix, vars(owner), set(vars(owner)), self._values(vars(owner)))
            for prefix, owner in module.named_modules()
        ]

    @staticmethod
    def _values(attributes: dict[str, Any]) -> dict[str, Any]:
        own = attributes.keys() - _OF_MODULES
        copies = {name: _copied(attributes[name]) for name in sorted(own)}
        return {name: value for name, value in copies.items() if value is not _NONE}

    def changed(self) -> list[str]:
        """The names of those that have other values now."""
        return [
            f"{prefix}.{name}" if prefix else name
            for prefix, attributes, _, before in self._owners
            for name, value in self._values(attributes).items()
            if not self._are_equal(value, before.get(name, _NONE))
        ]

    @staticmethod
    def _are_equal(value: Any, before: Any) -> bool:
        # As they are written: 1 is not True here, and NaN is NaN.
        return type(value) is type(before) and (value == before or repr(value) == repr(before))

    def restore(self) -> None:
        """Gives them the values of that moment."""
        for _, attributes, names, before in self._owners:
            for name in self._values(attributes).keys() - names:
                del attributes[name]
            for name, value in before.items():
                attributes[name] = _restored(attributes.get(name), value)
