# SPDX-License-Identifier: Apache-2.0
"""The source of a function with what it uses, to be run in another process."""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ._core import InvalidArgument

ENTRY = "build"


@functools.lru_cache(maxsize=256)
def source_of(function: FunctionType) -> str:
    """Python source that defines the function and, as ENTRY, calls it by another name too.

    Taken along are the globals that it reads: modules and what they define are imported, functions
    of its own module follow with their source, numbers, strings and tuples of them by value.

    Raises:
        InvalidArgument: its source cannot be found, or it reads something else.
    """
    parts: dict[str, str] = {}
    _add(function, function.__name__, function, parts)
    if function.__name__ != ENTRY:
        if ENTRY in parts:
            raise InvalidArgument(f"{_name(function)}: its helper must not be called '{ENTRY}'")
        parts[ENTRY] = f"{ENTRY} = {function.__name__}\n"
    return "\n\n".join(["from __future__ import annotations\n", *parts.values()])


def _name(function: FunctionType) -> str:
    return f"function '{function.__qualname__}'"


def _add(function: FunctionType, name: str, top: FunctionType, parts: dict[str, str]) -> None:
    """The source of a function behind that of what it reads."""
    if function.__name__ == "<lambda>" or name != function.__name__:
        raise InvalidArgument(f"{_name(top)}: '{name}' must be a function made by `def {name}`")
    if function.__closure__:
        raise InvalidArgument(
            f"{_name(top)}: '{function.__code__.co_freevars[0]}' belongs to the function around "
            f"'{name}', which another process cannot read: make it an attribute or a global"
        )
    try:
        text = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as error:
        raise InvalidArgument(f"{_name(top)}: the source of '{name}' is not to be found") from error
    parts[name] = ""  # it may call itself
    for used in dict.fromkeys([*_loads(function.__code__), *_loads_outside(text)]):
        if used in parts or used not in function.__globals__ or hasattr(builtins, used):
            continue
        if not used.isidentifier():
            continue  # what a test runner put into the code, its source has it not
        value = function.__globals__[used]
        if inspect.isfunction(value) and value.__module__ == function.__module__:
            _add(value, used, top, parts)
        else:
            parts[used] = _definition(used, value, function, top)
    del parts[name]  # behind what it reads
    parts[name] = text


def _loads(code: CodeType) -> Iterator[str]:
    """Globals that the code reads, and that functions within it do."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _loads(constant)


def _loads_outside(text: str) -> Iterator[str]:
    """Names in its decorators and default values, which are read when it is defined."""
    function = ast.parse(text).body[0]
    defaults = [value for value in function.args.kw_defaults if value is not None]
    for part in (*function.decorator_list, *function.args.defaults, *defaults):
        for node in ast.walk(part):
            if isinstance(node, ast.Name):
                yield node.id


def _definition(name: str, value: Any, function: FunctionType, top: FunctionType) -> str:
    """A line that defines a global."""
    if isinstance(value, ModuleType) and value.__name__ != "__main__":
        return f"import {value.__name__} as {name}\n"
    module, qualified = (getattr(value, key, None) for key in ("__module__", "__qualname__"))
    if module not in (None, "__main__", function.__module__) and qualified and "." not in qualified:
        return f"from {module} import {qualified} as {name}\n"
    try:
        if ast.literal_eval(repr(value)) == value:
            return f"{name} = {value!r}\n"
    except (SyntaxError, ValueError):
        pass  # no literal
    raise InvalidArgument(
        f"{_name(top)}: its global '{name}' is a {type(value).__name__}; modules, what they "
        "define, functions beside it and literals can be taken along"
    )


def as_text(maker: Callable[..., Any]) -> Callable[..., str]:
    """A maker of code, and the text of what it returned: a function, or what JAX lowered."""

    @functools.wraps(maker)
    def make(*ports: Any, **attributes: Any) -> str:
        made = maker(*ports, **attributes)
        if inspect.isfunction(made):
            return source_of(made)
        return made.as_text() if hasattr(made, "as_text") else made

    return make
