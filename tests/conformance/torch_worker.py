# SPDX-License-Identifier: Apache-2.0
"""Runs the samples of PyTorch's own op tests one op at a time in a process of its own, for
torch_ops.py.

Started with the engines, the number of samples per op and dtype, the dtypes, and the way to compile
(aot, compile or dynamic) as arguments; reads one JSON request per line from standard input and
answers each with one JSON line (openxrt.conformance.pool).
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from functorch.compile import aot_function
from openxrt import Unsupported
from openxrt.conformance.pool import first_lines, serve
from openxrt.torch import importer
from openxrt.torch.aten.decompositions import decompositions
from openxrt.torch.joint_graph import partition
from openxrt.torch.runner import Runner
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

# Their results hold whatever the memory held.
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty",
             "new_empty_strided"}  # fmt: skip
# Which of several equal elements they find is not defined: it is looked at what lies there. Each
# with the position of `dim` among its arguments.
TIED = {"argsort": 0, "kthvalue": 1, "mode": 0, "sort": 0, "topk": 1}
# Vectors that are defined up to their signs: compared is what the sample itself says is defined.
# Each with what its results multiply to.
SIGNED: dict[str, Callable[..., torch.Tensor]] = {
    "linalg.eigh": lambda w, v: v @ (w.unsqueeze(-1) * v.mT),
    "linalg.svd": lambda u, s, vt: _reduced(u, s) @ (s.unsqueeze(-1) * vt[..., : s.shape[-1], :]),
    "svd": lambda u, s, v: _reduced(u, s) @ (s.unsqueeze(-1) * _reduced(v, s).mT),
}
# Relative, by the dtype of the sample: PyTorch's own, but for float32, where it asks for 1.3e-6 of
# kernels that are its own.
TOLERANCES = {torch.float64: 1e-7, torch.float16: 1e-3, torch.bfloat16: 1.6e-2}
TOLERANCE = 1e-4
# The size of a result depends on data: nothing that is compiled ahead of time can hold it.
DATA_DEPENDENT = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    GuardOnDataDependentSymNode,
)
DIFFERENTIATED = (torch.float32, torch.float64)
STATUSES = ("pass", "random", "unsupported", "not judged")


def _reduced(vectors: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Those that belong to a value."""
    return vectors[..., : values.shape[-1]]


class NotJudgedError(Exception):
    """There is nothing to compare with."""


def full_name(op: Any) -> str:
    """A name that tells the variants of one op apart."""
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


OPS = {full_name(op): op for op in op_db}


class Sample:
    """One call of an op: a function of its tensors, and those tensors."""

    def __init__(self, op: Any, sample: Any) -> None:
        leaves, self.spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self.op, self.sample, self.leaves = op, sample, leaves
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = [leaves[i] for i in self.places]

    def __call__(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        first, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        result = self.op(first, *args, **kwargs)
        flat = pytree.tree_leaves(result)
        return [leaf for leaf in flat if isinstance(leaf, torch.Tensor)]

    def inputs(self, gradient: bool) -> list[torch.Tensor]:
        """Fresh leaves with the values of the sample."""
        return [
            t.detach().clone().requires_grad_(gradient and t.requires_grad) for t in self.tensors
        ]


def looked_up(name: str, sample: Sample, index: torch.Tensor) -> torch.Tensor:
    """What the sample's tensor has at the places that an op of TIED found."""
    x, args = sample.tensors[0].detach(), sample.sample.args
    dim = args[TIED[name]] if len(args) > TIED[name] else sample.sample.kwargs.get("dim", -1)
    if x.dim() == 0:
        return index
    return x.gather(dim, index if index.dim() == x.dim() else index.unsqueeze(dim))


class ExportedSample(torch.nn.Module):
    """What torch.export takes."""

    def __init__(self, sample: Sample) -> None:
        super().__init__()
        self.sample = sample

    def forward(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        """The op's results."""
        return self.sample(*tensors)


class Judge:
    """Compares an op's samples on the engines with PyTorch."""

    def __init__(
        self, engines: list[str], limit: int, dtypes: list[torch.dtype], way: str = "aot"
    ) -> None:
        self.options = {"engine": engines, "num_threads": 1}
        self.limit = limit
        self.dtypes = dtypes
        self.way = way
        self.tolerance = TOLERANCE
        self.nodes: dict[str, int] = {}
        self.missing: set[str] = set()
        self.draws = False  # whether a graph of the sample draws random numbers

    def compiler(self, module: torch.fx.GraphModule, samples: Sequence[object]) -> Callable:
        self.missing.update(importer.missing_ops(module.graph))
        self.draws |= any(
            torch.Tag.nondeterministic_seeded in node.target.tags
            for node in module.graph.nodes
            if isinstance(node.target, torch._ops.OpOverload)
        )
        runner = Runner(importer.import_fx(module, samples), self.options)
        for engine, count in runner.program.explain().nodes_per_engine.items():
            self.nodes[engine] = self.nodes.get(engine, 0) + count

        def run(arguments: list[object]) -> list[object]:
            return runner(arguments)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def samples(self, op: Any, dtype: torch.dtype) -> list[Sample]:
        """Of one dtype, spread over those that PyTorch has."""
        random.seed(0)
        np.random.seed(0)
        torch.manual_seed(0)
        gradient = op.supports_autograd and dtype in DIFFERENTIATED
        found = list(op.sample_inputs("cpu", dtype, requires_grad=gradient))
        if self.limit and len(found) > self.limit:
            steps = np.linspace(0, len(found) - 1, self.limit).round().astype(int)
            found = [found[i] for i in sorted(set(steps.tolist()))]
        return [Sample(op, sample) for sample in found]

    def mismatch(
        self, actual: Sequence[Any], expected: Sequence[Any], values: bool, scale: float
    ) -> str | None:
        if len(actual) != len(expected):
            return f"{len(actual)} results, not {len(expected)}"
        for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
            if e is None or a is None:
                if e is not a:
                    return f"result {i}: {'a' if e is None else 'no'} gradient"
                continue
            if a.dtype != e.dtype or a.shape != e.shape:
                return f"result {i}: {a.dtype}{list(a.shape)}, not {e.dtype}{list(e.shape)}"
            if not values or not e.numel():
                continue
            is_real = e.is_floating_point() or e.is_complex()
            finite = e.detach()[e.isfinite()] if is_real else e.new_zeros(0)
            reach = max(1.0, float(finite.abs().max())) if finite.numel() else 1.0
            try:
                torch.testing.assert_close(
                    a.detach(), e.detach(), rtol=scale * self.tolerance,
                    atol=0.1 * scale * self.tolerance * reach, equal_nan=True,
                )  # fmt: skip
            except AssertionError as error:
                return f"result {i}: {first_lines(str(error), 200)}"
        return None

    def judge(self, name: str, sample: Sample, differentiate: bool) -> dict[str, str | None]:
        """What forward and gradient came to: "pass", "random", or why not."""
        if any(tensor.layout != torch.strided or tensor.is_complex() for tensor in sample.tensors):
            raise NotJudgedError("its sample is sparse or complex")
        expected_inputs = sample.inputs(differentiate)
        try:
            expected = sample(*expected_inputs)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            raise NotJudgedError(f"PyTorch itself refuses it: {error}") from error
        if any(result.layout != torch.strided for result in expected):
            raise NotJudgedError("its result is sparse")
        inputs = sample.inputs(differentiate)
        self.draws = False
        outputs = self.compiled(sample)(*inputs)
        values = not self.draws and name not in UNDEFINED
        if name in TIED:
            outputs, expected = (
                [*results[:-1], looked_up(name, sample, results[-1])]
                for results in (list(outputs), expected)
            )
        process = sample.sample.output_process_fn_grad
        if name in SIGNED and all(result.numel() for result in expected):
            products = [[SIGNED[name](*results)] for results in (outputs, expected)]
            reason = self.mismatch(*products, values, 1.0) or self.mismatch(
                *(pytree.tree_leaves(process(tuple(r))) for r in (outputs, expected)), values, 1.0
            )
        else:
            reason = self.mismatch(outputs, expected, values, 1.0)
        answer: dict[str, str | None] = {"forward": reason or ("pass" if values else "random")}
        if not differentiate or not values:
            return answer
        try:
            answer["gradient"] = (
                self.gradients(process, outputs, inputs, expected, expected_inputs) or "pass"
            )
        except Unsupported as error:
            answer["gradient"] = f"unsupported: {first_lines(str(error), 200)}"
        return answer

    def compiled(self, sample: Sample) -> Callable[..., list[torch.Tensor]]:
        """The sample as the engines run it."""
        if self.way != "aot":
            return torch.compile(
                sample, backend="openxrt", dynamic=self.way == "dynamic", options=self.options
            )
        return aot_function(
            sample,
            fw_compiler=self.compiler,
            bw_compiler=self.compiler,
            inference_compiler=self.compiler,
            decompositions=decompositions(),
            partition_fn=partition,
        )

    def judge_export(self, sample: Sample, cause: Exception) -> str:
        """The forward result by way of torch.export, which has symbols for sizes that depend on
        data; AOTAutograd, which has none, has stopped at `cause`."""
        refused = f"unsupported: depends on data: {type(cause).__name__}"
        expected = sample(*sample.inputs(False))
        if not expected:  # a Python number
            return refused
        inputs = tuple(sample.inputs(False))
        try:
            exported = torch.export.export(ExportedSample(sample), inputs, strict=False)
        except (*DATA_DEPENDENT, torch._dynamo.exc.TorchDynamoException, RuntimeError, ValueError):
            return refused
        try:
            runner = Runner(importer.import_exported(exported), self.options)
        except DATA_DEPENDENT:
            return refused
        except Unsupported as error:
            return f"unsupported: {first_lines(str(error), 200)}"
        found = [result for result in runner(inputs) if isinstance(result, torch.Tensor)]
        return self.mismatch(found, expected, True, 1.0) or "pass"

    def gradients(
        self,
        process: Callable[..., Any],
        outputs: Sequence[torch.Tensor],
        inputs: Sequence[torch.Tensor],
        expected: Sequence[torch.Tensor],
        expected_inputs: Sequence[torch.Tensor],
    ) -> str | None:
        def gradient(
            results: Sequence[torch.Tensor], leaves: Sequence[torch.Tensor]
        ) -> list[torch.Tensor | None]:
            # What the sample says about its output (only a part of it has a defined gradient).
            used = pytree.tree_leaves(process(results[0] if len(results) == 1 else tuple(results)))
            used = [r for r in used if r.requires_grad]
            generator = torch.Generator().manual_seed(3)
            seeds = [torch.randn(r.shape, generator=generator, dtype=r.dtype) for r in used]
            wanted = [leaf for leaf in leaves if leaf.requires_grad]
            if not used or not wanted:
                return []
            return list(torch.autograd.grad(used, wanted, seeds, allow_unused=True))

        true = gradient(expected, expected_inputs)
        # A gradient that PyTorch knows to be zero it may leave out.
        found = [
            torch.zeros_like(t) if f is None and t is not None and not t.any() else f
            for f, t in zip(gradient(outputs, inputs), true, strict=True)
        ]
        true = [
            torch.zeros_like(f) if t is None and f is not None else t
            for f, t in zip(found, true, strict=True)
        ]
        return self.mismatch(found, true, True, 10.0)

    def run(self, name: str) -> dict[str, Any]:
        """The answer for one op: how often each result came, and the first reasons."""
        op = OPS[name]
        began = time.perf_counter()
        self.nodes, self.missing = {}, set()
        total: dict[str, dict[str, int]] = {"forward": {}, "gradient": {}}
        by_dtype: dict[str, dict[str, dict[str, int]]] = {}
        reasons: list[str] = []
        for dtype in self.dtypes:
            if dtype not in op.dtypes:
                continue
            counts: dict[str, dict[str, int]] = {"forward": {}, "gradient": {}}
            label = str(dtype).removeprefix("torch.")
            by_dtype[label] = counts
            for i, answer in enumerate(self.answers(name, op, dtype)):
                for way, text in answer.items():
                    short = str(text).split(":")[0]
                    status = short if short in STATUSES else "fail"
                    counts[way][status] = counts[way].get(status, 0) + 1
                    total[way][status] = total[way].get(status, 0) + 1
                    if status in ("fail", "unsupported") and len(reasons) < 6:
                        reasons.append(f"{label} sample {i}, {way}: {text}")
        if not by_dtype:
            total["forward"]["not judged"] = 1
            reasons.append("it takes no real numbers")
        return {
            **total,
            "dtypes": by_dtype,
            "reasons": reasons,
            "missing": sorted(self.missing),
            "nodes": self.nodes,
            "seconds": round(time.perf_counter() - began, 2),
        }

    def answers(self, name: str, op: Any, dtype: torch.dtype) -> Iterator[dict[str, str | None]]:
        """Of each sample, what forward and gradient came to."""
        differentiate = op.supports_autograd and dtype in DIFFERENTIATED
        self.tolerance = TOLERANCES.get(dtype, TOLERANCE)
        for sample in self.samples(op, dtype):
            torch._dynamo.reset()
            try:
                yield self.judge(name, sample, differentiate)
            except NotJudgedError as error:
                yield {"forward": f"not judged: {first_lines(str(error), 200)}"}
            except DATA_DEPENDENT as error:
                yield {"forward": self.judge_export(sample, error)}
            except (Unsupported, UnsupportedOperatorException) as error:
                yield {"forward": f"unsupported: {first_lines(str(error), 200)}"}
            except torch._dynamo.exc.BackendCompilerFailed as error:
                refused = isinstance(error.inner_exception, (Unsupported, *DATA_DEPENDENT))
                text = first_lines(str(error.inner_exception), 300)
                yield {"forward": f"unsupported: {text}" if refused else text}
            except Exception as error:  # every error of a sample is that sample's result
                yield {"forward": first_lines(f"{type(error).__name__}: {error}", 300)}


def start() -> Callable[[dict[str, Any]], dict[str, Any]]:
    torch.set_num_threads(1)
    dtypes = [getattr(torch, dtype) for dtype in sys.argv[3].split(",")]
    judge = Judge(sys.argv[1].split(","), int(sys.argv[2]), dtypes, sys.argv[4])
    return lambda request: judge.run(request["name"])


if __name__ == "__main__":
    serve(start)
