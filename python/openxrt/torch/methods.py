# SPDX-License-Identifier: Apache-2.0
"""Methods of a wrapped module, whose calls of the module go through its wrapper.

A method such as generate() of transformers calls `self(...)`. It is run with another `self`: an
object that shares the module's attributes, of a class derived from the module's, in which
`__call__` and `forward` are the wrapper's.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch

# Key-value caches hold this many tokens or a multiple of it by a power of two: each length of a
# cache has programs of its own.
_LEAST_LENGTH = 128

_derived: weakref.WeakKeyDictionary[type, type] = weakref.WeakKeyDictionary()


def method_through(
    module: torch.nn.Module,
    name: str,
    value: Any,
    call: Callable[..., Any],
    call_of: Callable[[torch.nn.Module], Callable[..., Any]],
) -> Any:
    """An attribute of a module. Where it is a method, that method calls `call` when it calls the
    module, and what `call_of` gives when it calls the module's encoder."""
    if not isinstance(value, types.MethodType) or value.__self__ is not module:
        return value
    if isinstance(module, torch.jit.ScriptModule):  # its class cannot be derived from
        return value
    return getattr(_stand_in(module, call, call_of), name)


def _stand_in(
    module: torch.nn.Module,
    call: Callable[..., Any],
    call_of: Callable[[torch.nn.Module], Callable[..., Any]],
) -> Any:
    """An object with the module's attributes that is called through `call`."""
    kind = type(module)
    derived = _derived.get(kind)
    if derived is None:
        derived = _derived[kind] = _derive(kind)
    stand_in = object.__new__(derived)
    object.__setattr__(stand_in, "__dict__", module.__dict__)
    object.__setattr__(stand_in, "_openxrt_call", call)
    object.__setattr__(stand_in, "_openxrt_call_of", call_of)
    return stand_in


def _derive(kind: type[torch.nn.Module]) -> type[torch.nn.Module]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._openxrt_call(*args, **kwargs)

    members = {
        # Beside the attributes, which are the module's own.
        "__slots__": ("_openxrt_call", "_openxrt_call_of"),
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
        "__call__": call,
        "forward": functools.wraps(kind.forward)(call),  # methods look at its parameters
    }
    mixin = getattr(sys.modules.get("transformers"), "GenerationMixin", None)
    generate = getattr(kind, "generate", None)
    if mixin is not None and generate is not None and generate is mixin.generate:
        members["generate"] = _with_cache_of_fixed_size(generate)
    get_encoder = getattr(kind, "get_encoder", None)
    if mixin is not None and issubclass(kind, mixin) and get_encoder is not None:
        members["get_encoder"] = _through_engines(get_encoder)
    return type(kind.__name__, (kind,), members)


def _through_engines(get_encoder: Callable[..., Any]) -> Callable[..., Any]:
    """get_encoder(), whose module generate() calls by itself."""

    @functools.wraps(get_encoder)
    def got(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = get_encoder(self, *args, **kwargs)
        if not isinstance(found, torch.nn.Module) or found.__dict__ is self.__dict__:
            return found
        return _stand_in(found, self._openxrt_call_of(found), self._openxrt_call_of)

    return got


def _with_cache_of_fixed_size(generate: Callable[..., Any]) -> Callable[..., Any]:
    """generate() with options of its own by which a program serves every token."""
    signature = inspect.signature(generate)

    @functools.wraps(generate)
    def bounded(self: Any, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(self, *args, **kwargs).arguments
        given = bound.pop("kwargs", {})
        config = bound.get("generation_config") or self.generation_config

        def option(name: str) -> Any:
            value = given.get(name)
            return getattr(config, name, None) if value is None else value

        added: dict[str, Any] = {"disable_compile": True}  # by torch.compile: it runs here
        others = ("past_key_values", "cache_params", "cache_implementation", "cache_config",
                  "prompt_lookup_num_tokens", "assistant_early_exit", "use_mtp")  # fmt: skip
        if (
            option("use_cache") is not False
            and bound.get("assistant_model") is None
            and bound.get("custom_generate") is None
            and not any(option(name) for name in others)
        ):
            added["cache_implementation"] = "static"
            length = _length(self, {**bound, **given}, option)
            if length is not None and hasattr(config, "max_cache_len"):
                room = max(_LEAST_LENGTH, 1 << (length - 1).bit_length())
                text = self.config.get_text_config(decoder=True)
                most = getattr(text, "max_position_embeddings", None)  # masks may end there
                added["max_cache_len"] = room if most is None else max(length, min(room, most))
        return generate(self, *args, **{**added, **kwargs})

    return bounded


def _length(model: Any, arguments: Mapping[str, Any], option: Callable[[str], Any]) -> int | None:
    """The most tokens that a call of generate() may hold at a time; None: generate() is to say."""
    if option("max_cache_len") is not None:
        return None
    if model.config.is_encoder_decoder:
        prompts = ("decoder_input_ids",)
    else:
        prompts = ("inputs", "input_ids", "inputs_embeds")
    prompt = next((arguments[p].shape[1] for p in prompts if arguments.get(p) is not None), 1)
    tokens = option("max_new_tokens")
    if tokens is None:
        return option("max_length")
    return int(prompt + tokens)
