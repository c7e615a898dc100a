# SPDX-License-Identifier: Apache-2.0
"""Copies of the small engine with one fault each, named after the check that has to find it."""

from __future__ import annotations

import ctypes
import os
import time
from typing import Any, ClassVar

import numpy as np
import openxrt
from small import KERNELS, Arrays, Attributes, Engine, Executable, register

FAULTS: dict[str, str] = {}  # engine to the check that finds it


def fault(check: str, name: str = "", **facts: Any) -> Any:
    """A decorator: the class is an executable of an engine called `name`, or as the class."""

    def decorate(cls: type) -> type:
        engine = cls if issubclass(cls, Engine) else type("E", (Engine,), {"executable": cls})
        own = name or cls.__name__
        register(own, engine, **facts)
        FAULTS[own] = check
        return cls

    return decorate


@fault("sizes")
class OddSizes(Executable):
    """Vectors of 16: what is left over after several of them is off."""

    def compute(self, op: str, attributes: Attributes, arrays: Arrays) -> np.ndarray:
        result = np.array(super().compute(op, attributes, arrays), order="C")
        if op == "Relu" and result.size > 64 and result.size % 16:
            result.reshape(-1)[result.size // 16 * 16 :] += 1
        return result


@fault("constants")
class ConstantOperand(Executable):
    """A matrix that is a constant is packed transposed where it is square enough to allow that."""

    def run(self, inputs: list[Any], outputs: list[Any]) -> None:
        kept = self.constants
        for op, _, reads, _ in self.steps:
            if op == "MatMul" and reads[1] in kept:
                self.constants = kept | {reads[1]: kept[reads[1]][::-1]}
        super().run(inputs, outputs)
        self.constants = kept


@fault("outputs")
class LeavesElements(Executable):
    """The last element of larger results is left as it was."""

    def write(self, results: list[np.ndarray], outputs: list[Any]) -> None:
        for i, result in enumerate(results):
            if outputs[i] is None:
                outputs[i] = result
            elif result.size < 65:
                outputs[i][...] = result
            else:
                outputs[i].reshape(-1)[:-1] = result.reshape(-1)[:-1]


@fault("ops")
class IgnoresAttribute(Executable):
    """LeakyRelu with the default's alpha."""

    def compute(self, op: str, attributes: Attributes, arrays: Arrays) -> np.ndarray:
        return super().compute(op, {} if op == "LeakyRelu" else attributes, arrays)


@fault("cache")
class LosesInCache(Executable):
    """What comes back from the cache has zeros for constants."""

    @classmethod
    def deserialize(cls, blob: bytes) -> Executable:
        loaded = super().deserialize(blob)
        loaded.constants = {name: np.zeros_like(v) for name, v in loaded.constants.items()}
        return loaded


@fault("slow")
class Slow(Executable):
    """Larger results take their time."""

    def compute(self, op: str, attributes: Attributes, arrays: Arrays) -> np.ndarray:
        result = super().compute(op, attributes, arrays)
        if result.size > 10000:
            time.sleep(0.03)
        return result


@fault("leaks")
class KeepsResults(Executable):
    """Every result is remembered."""

    def write(self, results: list[np.ndarray], outputs: list[Any]) -> None:
        self.__dict__.setdefault("memory", []).append([result.copy() for result in results])
        super().write(results, outputs)


@fault("leaks")
class KeepsInputs(Executable):
    """The arrays of the last run are held."""

    def run(self, inputs: list[Any], outputs: list[Any]) -> None:
        self.last = list(inputs)
        super().run(inputs, outputs)


@fault("support")
class ClaimsTooMuch(Engine):
    """Exp is claimed, and cannot be compiled."""

    def supports(self, node: openxrt.NodeView) -> bool | str:
        return True if node.op == "Exp" else super().supports(node)

    def compile(self, function: openxrt.FunctionView) -> Any:
        for node in function.nodes:
            if node.op not in KERNELS:
                raise NotImplementedError(f"no kernel for {node.op}")
        return super().compile(function)


@fault("support")
class CompilesToNothing(Engine):
    """compile() of a Softmax gives None."""

    def compile(self, function: openxrt.FunctionView) -> Any:
        if any(node.op == "Softmax" for node in function.nodes):
            return None
        return super().compile(function)


@fault("support")
class GivesNoReason(Engine):
    """A no without a word."""

    def supports(self, node: openxrt.NodeView) -> bool | str:
        answer = super().supports(node)
        return answer if answer is True else ""


@fault("wrong_inputs")
class CrashesOnNan(Executable):
    """A maximum that is no number ends the process."""

    def compute(self, op: str, attributes: Attributes, arrays: Arrays) -> np.ndarray:
        if op == "Softmax" and np.isnan(arrays[0]).any():
            os.abort()
        return super().compute(op, attributes, arrays)


@fault("threads")
class SharesBuffer(Executable):
    """Results pass through a buffer that all runs share."""

    def compute(self, op: str, attributes: Attributes, arrays: Arrays) -> np.ndarray:
        result = super().compute(op, attributes, arrays)
        buffers = self.__dict__.setdefault("buffers", {})
        buffer = buffers.setdefault((op, result.shape, result.dtype), np.empty_like(result))
        buffer[...] = result
        if result.size > 5000:
            time.sleep(0.001)
        return buffer.copy()


@fault("aliases")
class WritesTooEarly(Executable):
    """Each output is written as soon as it is computed, though others read the old state."""

    def run(self, inputs: list[Any], outputs: list[Any]) -> None:
        values = self.constants | dict(zip(self.inputs, inputs, strict=True))
        for op, attributes, reads, (result,) in self.steps:
            values[result] = self.compute(op, attributes, [values[name] for name in reads])
            if result in self.outputs:
                i = self.outputs.index(result)
                if outputs[i] is None:
                    outputs[i] = np.array(values[result], order="C")
                else:
                    outputs[i][...] = values[result]


@fault("inputs")
class WritesInputs(Executable):
    """Relu is computed where its input lies, which is the caller's memory."""

    def compute(self, op: str, attributes: Attributes, arrays: Arrays) -> np.ndarray:
        if op == "Relu":
            address, size = arrays[0].ctypes.data, arrays[0].nbytes
            memory = (ctypes.c_char * size).from_address(address)
            view = np.frombuffer(memory, arrays[0].dtype).reshape(arrays[0].shape)
            return np.maximum(view, 0, out=view)
        return super().compute(op, attributes, arrays)


@fault("determinism")
class Chance(Executable):
    """The last digits of a Softmax are chance: one of a thousand factors."""

    def compute(self, op: str, attributes: Attributes, arrays: Arrays) -> np.ndarray:
        result = super().compute(op, attributes, arrays)
        if op == "Softmax":
            result = result * result.dtype.type(1 + np.random.default_rng().uniform(0, 1e-4))
        return result


@fault("precisions")
class HalfProducts(Executable):
    """Products are rounded to bfloat16's eight bits."""

    def compute(self, op: str, attributes: Attributes, arrays: Arrays) -> np.ndarray:
        if op == "MatMul":
            arrays = [self.rounded(array) for array in arrays]
        return super().compute(op, attributes, arrays)

    @staticmethod
    def rounded(array: np.ndarray) -> np.ndarray:
        """Values with few bits."""
        fraction, exponent = np.frexp(array)
        return np.ldexp(np.rint(fraction * 256) / 256, exponent).astype(array.dtype)


@fault("dtypes")
class WrongInDoubles(Executable):
    """float64 is summed wrongly."""

    def compute(self, op: str, attributes: Attributes, arrays: Arrays) -> np.ndarray:
        result = super().compute(op, attributes, arrays)
        return result + 1e-3 if op == "Add" and result.dtype == np.float64 else result


@fault("dynamic_shapes")
class RemembersSizes(Executable):
    """Kernels are kept by op, made for the size that came first."""

    first: ClassVar[dict[str, int]] = {}

    def compute(self, op: str, attributes: Attributes, arrays: Arrays) -> np.ndarray:
        result = np.array(super().compute(op, attributes, arrays), order="C")
        size = self.first.setdefault(op, result.size)
        if op == "Relu":
            result.reshape(-1)[size:] = arrays[0].reshape(-1)[size:]
        return result


@fault("graphs")
class SharesValues(Executable):
    """A value with several readers is written over by the first of them."""

    def run(self, inputs: list[Any], outputs: list[Any]) -> None:
        values = self.constants | dict(zip(self.inputs, inputs, strict=True))
        made: set[str] = set()
        for op, attributes, reads, (result,) in self.steps:
            value = self.compute(op, attributes, [values[name] for name in reads])
            first = reads[0]
            if first in made and values[first].shape == value.shape:
                values[first][...] = value
            values[result] = np.array(value, order="C")
            made.add(result)
        self.write([np.array(values[name], order="C") for name in self.outputs], outputs)


@fault("networks")
class MovesFactors(Executable):
    """A factor is moved behind the sum that reads the product."""

    def run(self, inputs: list[Any], outputs: list[Any]) -> None:
        values = self.constants | dict(zip(self.inputs, inputs, strict=True))
        factors: dict[str, list[str]] = {}
        for op, attributes, reads, (result,) in self.steps:
            if op == "Add" and reads[0] in factors:
                x, factor = factors[reads[0]]
                sums = self.compute("Add", attributes, [values[x], values[reads[1]]])
                values[result] = self.compute("Mul", {}, [sums, values[factor]])
                continue
            if op == "Mul":
                factors[result] = reads
            values[result] = self.compute(op, attributes, [values[name] for name in reads])
        self.write([np.array(values[name], order="C") for name in self.outputs], outputs)


@fault("training")
class WrongInTraining(Engine):
    """Mul is compiled as an addition for training steps."""

    def compile(self, function: openxrt.FunctionView) -> Any:
        made = super().compile(function)
        if function.training:
            for step in made.steps:
                step[0] = "Add" if step[0] == "Mul" else step[0]
        return made


@fault("sizes")
class Hangs(Executable):
    """Never comes back from sums of 51 elements."""

    def compute(self, op: str, attributes: Attributes, arrays: Arrays) -> np.ndarray:
        if op == "Add" and arrays[0].size == 51:
            time.sleep(3600)
        return super().compute(op, attributes, arrays)


@fault("engine", version="")
class NoVersion(Engine):
    """Its version says nothing."""
