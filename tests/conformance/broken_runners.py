# SPDX-License-Identifier: Apache-2.0
"""Runners with one fault each, on the reference evaluator: the driver must report every one."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import onnx
from runners import NotSupportedError, Outcome, Reference


class Correct(Reference):
    """No fault: shows that the faults below are what the driver sees."""

    name = "fixture"

    def change(self, value: Any) -> Any:
        return value

    def __call__(
        self, model: onnx.ModelProto, content: bytes, feeds: list[dict[str, Any]]
    ) -> Outcome:
        outcome = super().__call__(model, content, feeds)
        outputs = [[self.change(value) for value in values] for values in outcome.outputs]
        return Outcome(outputs, {self.name: len(model.graph.node)})


class WrongValue(Correct):
    """The last element of every floating point tensor is off by a hundredth."""

    def change(self, value: Any) -> Any:
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or not value.size:
            return value
        value = value.copy()
        value.flat[-1] = value.flat[-1] * 1.01 + 0.01
        return value


class WrongDtype(Correct):
    """float32 comes back as float64, with the right values."""

    def change(self, value: Any) -> Any:
        return value.astype(np.float64) if isinstance(value, np.ndarray) else value


class WrongShape(Correct):
    """A dimension of one too many, with the right values: broadcasting must not hide it."""

    def change(self, value: Any) -> Any:
        return value[None] if isinstance(value, np.ndarray) else value


class MissingOutput(Correct):
    """The last output is not there."""

    def __call__(
        self, model: onnx.ModelProto, content: bytes, feeds: list[dict[str, Any]]
    ) -> Outcome:
        outcome = super().__call__(model, content, feeds)
        return Outcome([values[:-1] for values in outcome.outputs], outcome.nodes)


class CrashesOnRelu(Correct):
    """Dies by a signal in the middle of one test; the others run."""

    def __call__(
        self, model: onnx.ModelProto, content: bytes, feeds: list[dict[str, Any]]
    ) -> Outcome:
        if model.graph.node[0].op_type == "Relu":
            os.abort()
        return super().__call__(model, content, feeds)


class HangsOnRelu(Correct):
    """Never returns from one test; the others run."""

    def __call__(
        self, model: onnx.ModelProto, content: bytes, feeds: list[dict[str, Any]]
    ) -> Outcome:
        if model.graph.node[0].op_type == "Relu":
            time.sleep(3600)
        return super().__call__(model, content, feeds)


class RaisesOnRelu(Correct):
    """Fails with an error in one test; prints to standard output, which must not confuse the
    driver.
    """

    def __call__(
        self, model: onnx.ModelProto, content: bytes, feeds: list[dict[str, Any]]
    ) -> Outcome:
        print('{"status": "pass"}', flush=True)
        if model.graph.node[0].op_type == "Relu":
            raise ValueError("node 'y': no kernel\nfor this type")
        return super().__call__(model, content, feeds)


class DeclinesRelu(Correct):
    """Says of one test that it does not support it."""

    def __call__(
        self, model: onnx.ModelProto, content: bytes, feeds: list[dict[str, Any]]
    ) -> Outcome:
        if model.graph.node[0].op_type == "Relu":
            raise NotSupportedError("Relu is not lowered")
        return super().__call__(model, content, feeds)


class DoesNotStart(Correct):
    """Cannot be made at all."""

    def __init__(self, _: list[str]) -> None:
        raise OSError("libengine.so: cannot open shared object file")
