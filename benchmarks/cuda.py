#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The CUDA engine beside torch.compile on one card: networks in float16, tensors on the card.

    python benchmarks/cuda.py                             # needs a GPU and PyTorch for CUDA
    python benchmarks/cuda.py --write                     # docs/gpu/bench.json and bench.md
    python benchmarks/cuda.py --start                     # also from a file to the first result
    python benchmarks/cuda.py --only BERT --batches 1,32 --modes reduce-overhead,max-autotune

    python benchmarks/cuda.py --parts int8,training,host  # instead of float16, or beside it
    python benchmarks/cuda.py --parts memory --write      # docs/gpu/memory.json and memory.md

Per network and batch the median of runs that are waited for, and the mean of runs that are queued
one behind the other. Weights and data are random. "Off" is the largest difference from PyTorch in
float32, of the same weights, over the largest value; of a training step's gradients, from PyTorch
in the same type.

Parts: float16, the networks in half precision; int8, ResNet-50 quantised with random pictures and
given float32; training, steps in bfloat16 with SGD; host, what a queued call of a small module
costs the caller; memory, by itself, what the device has less of after ten runs than before a way
was made, each way in a process of its own: what its libraries load and allocators keep is included,
and the module's own weights and what PyTorch gives back after compiling are not.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openxrt
import openxrt.torch as xt
import torch
from onnx import TensorProto, helper, numpy_helper
from openxrt.quantize import quantize
from torch import nn
from torch.nn import functional
from torch_cuda import Run, cuda_graph, median_ms, queued_ms, resnet50

OURS = "OpenXRT, cuda"
FOLDER = Path(__file__).resolve().parents[1] / "docs" / "gpu"
TOKENS = 128


class BertLayer(nn.Module):
    """Attention and two products, a normalisation behind each."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (f(x).view(shape).transpose(1, 2) for f in (self.query, self.key, self.value))
        y = functional.scaled_dot_product_attention(q, k, v)
        x = self.first(x + self.out(y.transpose(1, 2).reshape(batch, length, width)))
        return self.second(x + self.narrow(functional.gelu(self.wide(x))))


class Bert(nn.Module):
    """BERT-base: twelve layers of width 768."""

    def __init__(self, words: int = 30522, width: int = 768) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(TOKENS, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.Sequential(*[BertLayer(width, 12) for _ in range(12)])

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.layers(self.norm(self.words(tokens) + self.places.weight))


class PreNormLayer(BertLayer):
    """The normalisations before what they are for."""

    causal = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        y = self.first(x)
        q, k, v = (f(y).view(shape).transpose(1, 2) for f in (self.query, self.key, self.value))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(
            functional.gelu(
                self.wide(self.second(x)), approximate="tanh" if self.causal else "none"
            )
        )


class CausalLayer(PreNormLayer):
    """No position sees those behind it."""

    causal = True


class Gpt(nn.Module):
    """GPT-2's forward pass: twelve layers of width 768, and the scores of all words."""

    def __init__(self, words: int = 50257, width: int = 768) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(TOKENS, width)
        self.layers = nn.Sequential(*[CausalLayer(width, 12) for _ in range(12)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.layers(self.words(tokens) + self.places.weight)))


class Vit(nn.Module):
    """ViT-B/16: patches of 16 × 16, twelve layers of width 768, a thousand classes."""

    def __init__(self, width: int = 768) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, stride=16)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(1, 197, width))
        self.layers = nn.Sequential(*[PreNormLayer(width, 12) for _ in range(12)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.layers(x))[:, 0])


def of_torchvision(name: str, **options: Any) -> Callable[[], nn.Module]:
    """A network of the package torchvision, with random weights."""

    def make() -> nn.Module:
        import torchvision  # not wanted for the other networks

        return getattr(torchvision.models, name)(weights=None, **options)

    return make


def pictures(batch: int, size: int = 224) -> torch.Tensor:
    """Of size × size."""
    return torch.randn(batch, 3, size, size, device="cuda", dtype=torch.float16)


def sentences(batch: int) -> torch.Tensor:
    """Of 128 tokens."""
    return torch.randint(0, 30522, (batch, TOKENS), device="cuda")


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], torch.Tensor], list[int]]] = {
    "ResNet-50": (resnet50, pictures, [1, 32, 256]),
    "SqueezeNet-1.1": (of_torchvision("squeezenet1_1"), pictures, [1, 32, 256]),
    "Inception-v3": (
        of_torchvision("inception_v3", init_weights=False),
        lambda batch: pictures(batch, 299),
        [1, 32, 256],
    ),
    "EfficientNet-B0": (of_torchvision("efficientnet_b0"), pictures, [1, 32, 256]),
    "ConvNeXt-T": (of_torchvision("convnext_tiny"), pictures, [1, 32, 256]),
    "BERT-base": (Bert, sentences, [1, 32]),
    "ViT-B/16": (Vit, pictures, [1, 32]),
    "GPT-2": (Gpt, sentences, [1, 32]),
}


def empty_caches() -> None:
    """The device gets back what PyTorch holds for nobody."""
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


class Rows:
    """What was measured, way by way."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.rows: list[dict[str, Any]] = []

    def add(self, name: str, batch: int, way: str, build: Callable[[], Run]) -> Run:
        """Measures what `build` makes."""
        empty_caches()
        start = time.perf_counter()
        run = build()
        run()
        torch.cuda.synchronize()
        made = time.perf_counter() - start
        row = {
            "network": name,
            "batch": batch,
            "way": way,
            "waited_ms": median_ms(run, self.seconds),
            "queued_ms": queued_ms(run, self.seconds),
            "made_s": made,
            "off": None,
        }
        self.rows.append(row)
        print(
            f"{name:10s} {batch:4d} {way:32s} waited {row['waited_ms']:8.3f} ms, queued "
            f"{row['queued_ms']:8.3f} ms, made in {made:6.1f} s",
            flush=True,
        )
        return run

    def off(self, difference: float) -> None:
        """Of the last row."""
        self.rows[-1]["off"] = difference
        print(f"{'':48s} off {difference:.1e}", flush=True)


def settled(module: nn.Module, data: Callable[[int], torch.Tensor]) -> nn.Module:
    """For inference, with statistics of its normalisations that belong to random weights: numbers
    neither vanish nor leave half precision."""
    norms = [m for m in module.modules() if isinstance(m, nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean of all batches, of which there is one
    if norms:
        with torch.no_grad():
            module.train()(data(8).float())
    return module.eval()


def distance(got: torch.Tensor, want: torch.Tensor) -> float:
    """The largest difference over the largest value."""
    return ((got.float() - want.float()).abs().max() / want.float().abs().max()).item()


def exact_results(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Those of the same weights in float32."""
    with torch.backends.cudnn.flags(allow_tf32=False):
        return copy.deepcopy(module).float()(x.float() if x.is_floating_point() else x)


def measure(name: str, batch: int, modes: list[str], rows: Rows) -> None:
    """All ways of one network at one batch size."""
    make, data, _ = NETWORKS[name]
    torch.manual_seed(0)
    module = settled(make().cuda(), data).half()
    x = data(batch)

    def add(way: str, build: Callable[[], Run]) -> Run:
        return rows.add(name, batch, way, build)

    with torch.no_grad():
        want = exact_results(module, x)
        add("PyTorch, CUDA graph", lambda: cuda_graph(module, x))
        rows.off(distance(module(x), want))
        fast = xt.XRTModule(module, engine=["cuda", "native"])
        run = add(OURS, lambda: lambda: fast(x))
        rows.off(distance(run(), want))
        for mode in modes:
            torch._dynamo.reset()
            compiled = torch.compile(module, mode=mode)
            add(f"torch.compile, {mode}", lambda compiled=compiled: lambda: compiled(x))


def measure_int8(batch: int, rows: Rows) -> None:
    """ResNet-50 in int8, given float32."""
    torch.manual_seed(0)
    module = resnet50().eval()
    x = torch.randn(batch, 3, 224, 224)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        whole, small = Path(folder) / "whole.onnx", Path(folder) / "int8.onnx"
        axes = {"x": {0: "batch"}}
        torch.onnx.export(
            module, (x[:1],), whole, input_names=["x"], dynamic_axes=axes, dynamo=False
        )
        few = [{"x": torch.randn(1, 3, 224, 224).numpy()} for _ in range(8)]
        ours = {"engine": ["cuda", "native"], "device": "cuda"}
        quantize(whole, small, calibration=few, clipping="minmax", **ours)
        want = module(x[:4])
        on_card = x.cuda()
        programs = []

        def build() -> Run:
            sizes = {"x": [batch, 3, 224, 224]}
            programs.append(openxrt.load(small, strict=True, shapes=sizes, **ours))
            return lambda: programs[0].call_tensors([on_card], torch.Tensor)[0]

        got = rows.add("ResNet-50", batch, f"{OURS}, int8", build)()
        got = got if isinstance(got, torch.Tensor) else torch.from_dlpack(got)
        rows.off(distance(got[:4].cpu(), want))
        told = programs[0].explain()
        print(told["nodes_per_engine"], *told["notes"], sep="\n", flush=True)


# Batches of the training steps.
STEPS = {"ResNet-50": 64, "BERT-base": 16}


class Classifier(nn.Module):
    """A network, and a class per position or picture."""

    def __init__(self, body: nn.Module, width: int, classes: int) -> None:
        super().__init__()
        self.body, self.head = body, nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))


def show_refusals(module: xt.XRTModule) -> None:
    """Why nodes do not run on the card."""
    for program in module.programs():
        told = program.explain()
        why = {f"{n['op']}: {n['refusals']}" for n in told["nodes"] if n["engine"] != "cuda"}
        print(told["nodes_per_engine"], *sorted(why), sep="\n  ", flush=True)


def batch_of_step(name: str) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """A network in bfloat16 on the card, its input and its labels."""
    batch = STEPS[name]
    torch.manual_seed(0)
    x = NETWORKS[name][1](batch)
    x = x.bfloat16() if x.is_floating_point() else x
    count = batch if name == "ResNet-50" else batch * TOKENS
    y = torch.randint(0, 1000, (count,), device="cuda")
    torch.manual_seed(0)
    module = resnet50() if name == "ResNet-50" else Classifier(Bert(), 768, 1000)
    return module.cuda().train().bfloat16(), x, y


def step_of(module: nn.Module, x: torch.Tensor, y: torch.Tensor, way: str) -> tuple[Any, Run, Run]:
    """What runs the module, its backward pass, and that with SGD with momentum behind it."""
    run: Any = module
    if way == OURS:
        run = xt.XRTModule(module, engine=["cuda", "native"])
    elif way == "torch.compile":
        run = torch.compile(module)
    optimizer = torch.optim.SGD(module.parameters(), 0.01, momentum=0.9)

    def backward() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(run(x).flatten(0, -2).float(), y).backward()

    def step() -> None:
        backward()
        optimizer.step()

    return run, backward, step


def measure_step(name: str, rows: Rows) -> None:
    """A training step in bfloat16: forward, backward, SGD with momentum."""
    gradients: dict[str, torch.Tensor] = {}
    for way in ("PyTorch", OURS, "torch.compile"):
        torch._dynamo.reset()
        module, x, y = batch_of_step(name)
        run, backward, step = step_of(module, x, y, way)
        try:
            backward()
        except Exception as error:  # a way that cannot do it has no row, and the others have
            print(f"{name} {way}: {type(error).__name__}: {str(error)[:2000]}", flush=True)
            continue
        gradients[way] = torch.cat([p.grad.flatten().float() for p in module.parameters()])
        rows.add(f"{name}, step", STEPS[name], way, lambda step=step: step)
        rows.off(distance(gradients[way], gradients["PyTorch"]))
        if isinstance(run, xt.XRTModule):
            show_refusals(run)


# What memory is measured of: networks and batches; 0: a training step.
MEMORY = [
    ("ResNet-50", 32),
    ("ResNet-50", 256),
    ("BERT-base", 32),
    ("GPT-2", 32),
    ("ResNet-50", 0),
    ("BERT-base", 0),
]


def memory_mib(name: str, batch: int, way: str) -> float:
    """What the device has less of after ten runs; of a process that does nothing else."""
    if batch == 0:
        module, x, y = batch_of_step(name)
    else:
        make, data, _ = NETWORKS[name]
        module, x, y = make().cuda().eval().half(), data(batch), None
    empty_caches()
    free = torch.cuda.mem_get_info()[0]
    run: Run
    if y is not None:
        run = step_of(module, x, y, way)[2]
    elif way == OURS:
        fast = xt.XRTModule(module, engine=["cuda", "native"])
        run = lambda: fast(x)  # noqa: E731
    else:
        compiled = torch.compile(module, mode="reduce-overhead")
        run = lambda: compiled(x)  # noqa: E731
    with torch.set_grad_enabled(batch == 0):
        run()
        empty_caches()
        for _ in range(10):
            run()
    torch.cuda.synchronize()
    return (free - torch.cuda.mem_get_info()[0]) / 2**20


def measure_memory() -> list[dict[str, Any]]:
    """Each way in a process of its own."""
    rows = []
    for name, batch in MEMORY:
        for way in (OURS, "torch.compile" if batch == 0 else "torch.compile, reduce-overhead"):
            command = [sys.executable, __file__, "--memory-of", name, str(batch), way]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            mib = float(done.stdout.split()[-1])
            print(f"{name} {batch or 'step'} {way}: {mib:.0f} MiB", flush=True)
            rows.append({"network": name, "batch": batch, "way": way, "mib": mib})
    return rows


def host_times() -> dict[str, float]:
    """Microseconds that a queued call of a small module takes its caller."""
    module = nn.Sequential(nn.Linear(64, 64), nn.ReLU()).cuda().half().eval()
    x = torch.randn(8, 64, device="cuda", dtype=torch.float16)
    times = {}
    with torch.no_grad():
        fast = xt.XRTModule(module, engine=["cuda", "native"])
        compiled = torch.compile(module, mode="reduce-overhead")
        for way, run in (("XRTModule", fast), ("torch.compile, reduce-overhead", compiled)):
            for _ in range(20):
                run(x)
            torch.cuda.synchronize()
            least = float("inf")
            for _ in range(20):
                start = time.perf_counter()
                for _ in range(50):
                    run(x)
                least = min(least, time.perf_counter() - start)
                torch.cuda.synchronize()
            times[way] = least / 50 * 1e6
            print(f"host: {way} {times[way]:.1f} µs", flush=True)
    return times


START = """
import sys, time
import numpy as np
import openxrt
start = time.perf_counter()
program = openxrt.load(sys.argv[1], engine=["cuda", "native"], device="cuda", cache_dir=sys.argv[2])
program.run({"x": np.ones((8, 128, 768), np.float32)})
loaded = [launch["from_cache"] for launch in program.explain()["launches"]]
print(time.perf_counter() - start, all(loaded))
"""


def start_times() -> dict[str, float]:
    """Seconds from a file to the first result, in processes of their own: without a cache, and
    with the one that the first has left. Of twelve layers of BERT's size."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(layers_of_bert(12), path)
        seconds = []
        for _ in range(2):
            command = [sys.executable, "-c", START, path, Path(folder) / "cache"]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            taken, from_cache = done.stdout.split()[-2:]
            print(f"start: {taken} s, from the cache: {from_cache}", flush=True)
            seconds.append(float(taken))
    return {"first_s": seconds[0], "from_cache_s": seconds[1]}


def layers_of_bert(count: int, width: int = 768, heads: int = 12) -> onnx.ModelProto:
    """An ONNX model in float16 between casts."""
    rng = np.random.default_rng(0)
    shape = (8, TOKENS, width)
    constants = {
        "apart": np.array([*shape[:2], heads, width // heads], np.int64),
        "together": np.array(shape, np.int64),
        "scale": np.array((width // heads) ** -0.5, np.float16),
        "one": np.ones(width, np.float16),
        "zero": np.zeros(width, np.float16),
    }
    nodes = [helper.make_node("Cast", ["x"], ["h0"], to=TensorProto.FLOAT16)]

    def add(op: str, inputs: str, output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op, inputs.split(), [output], **attributes))
        return output

    def linear(x: str, name: str, wide: int, far: int) -> str:
        constants[f"{name}_w"] = (rng.standard_normal((wide, far)) / wide**0.5).astype(np.float16)
        constants[f"{name}_b"] = np.zeros(far, np.float16)
        return add("Add", f"{add('MatMul', f'{x} {name}_w', f'{name}_p')} {name}_b", name)

    for i in range(count):
        parts = {}
        for n in "qkv":
            flat = linear(f"h{i}", f"{n}{i}", width, width)
            parts[n] = add("Reshape", f"{flat} apart", f"{n}{i}_r")
            perm = [0, 2, 3, 1] if n == "k" else [0, 2, 1, 3]
            parts[n] = add("Transpose", parts[n], f"{n}{i}_t", perm=perm)
        scores = add("MatMul", f"{parts['q']} {parts['k']}", f"s{i}")
        weights = add("Softmax", add("Mul", f"{scores} scale", f"m{i}"), f"w{i}", axis=-1)
        y = add("MatMul", f"{weights} {parts['v']}", f"y{i}")
        y = add("Reshape", f"{add('Transpose', y, f'b{i}', perm=[0, 2, 1, 3])} together", f"z{i}")
        y = add("Add", f"h{i} {linear(y, f'o{i}', width, width)}", f"a{i}")
        y = add("LayerNormalization", f"{y} one zero", f"n{i}", axis=-1)
        wide = add("Gelu", linear(y, f"u{i}", width, 4 * width), f"g{i}")
        y = add("Add", f"{y} {linear(wide, f'd{i}', 4 * width, width)}", f"e{i}")
        add("LayerNormalization", f"{y} one zero", f"h{i + 1}", axis=-1)
    add("Cast", f"h{count}", "y", to=TensorProto.FLOAT)
    graph = helper.make_graph(
        nodes,
        "layers",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(v, n) for n, v in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def made_by() -> dict[str, Any]:
    """The command and what it ran with."""
    return {
        "commands": [" ".join([f"./dev bench {Path(sys.argv[0]).stem}", *sys.argv[1:]])],
        "device": torch.cuda.get_device_name(),
        "pytorch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "openxrt": openxrt.__version__,
        "python": platform.python_version(),
    }


def with_earlier(facts: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """The figures, beside others of the same device and versions."""
    mine = {key: facts[key] for key in ("device", "pytorch", "cudnn", "openxrt", "python")}
    if mine != {key: old.get(key) for key in mine}:
        raise SystemExit("--add: bench.json is of another device or of other versions")
    known = {(row["network"], row["batch"], row["way"]) for row in facts["rows"]}
    kept = [r for r in old["rows"] if (r["network"], r["batch"], r["way"]) not in known]
    order = list(NETWORKS)
    rows = sorted(
        [*kept, *facts["rows"]],
        key=lambda r: (order.index(r["network"].split(",")[0]), "step" in r["network"], r["batch"]),
    )
    return facts | {
        "commands": [*old["commands"], *facts["commands"]],
        "start": facts["start"] or old["start"],
        "host_us": facts["host_us"] or old["host_us"],
        "rows": rows,
    }


def write(name: str, facts: dict[str, Any], lines: list[str]) -> None:
    """The figures as JSON, and the page that shows them."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(facts, indent=2) + "\n")
    (FOLDER / f"{name}.md").write_text("\n".join(lines) + "\n")


def bench_page(facts: dict[str, Any]) -> list[str]:
    """Times, as a page."""
    lines = [
        "# The CUDA engine beside torch.compile",
        "",
        f"Made on one {facts['device']}, PyTorch {facts['pytorch']}, cuDNN {facts['cudnn']}, by",
        "",
        "```text",
        *facts["commands"],
        "```",
        "",
        "float16, training steps in bfloat16, tensors on the card; medians of runs that are waited "
        "for, means of runs that are queued. `off`: the largest difference from PyTorch in "
        "float32, of a training step's gradients from PyTorch in bfloat16, over the largest value.",
        "",
        "| network | batch | way | waited, ms | queued, ms | first run, s | off |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in facts["rows"]:
        off = "" if row["off"] is None else f"{row['off']:.1e}"
        lines.append(
            f"| {row['network']} | {row['batch']} | {row['way']} | {row['waited_ms']:.3f} | "
            f"{row['queued_ms']:.3f} | {row['made_s']:.1f} | {off} |"
        )
    if start := facts["start"]:
        lines += [
            "",
            "From an ONNX file of twelve layers of BERT's size to the first result, in a process "
            f"of its own: {start['first_s']:.2f} s without a cache, {start['from_cache_s']:.2f} s "
            "with what that has left there.",
        ]
    if host := facts["host_us"]:
        told = ", ".join(f"{way} {us:.1f} µs" for way, us in host.items())
        lines += ["", f"A queued call of a linear layer of 64 × 64 takes its caller: {told}."]
    return lines


def memory_page(facts: dict[str, Any]) -> list[str]:
    """Memory, as a page."""
    lines = [
        "# Memory of the CUDA engine beside torch.compile",
        "",
        f"Made by `{facts['commands'][0]}` on one {facts['device']}: PyTorch {facts['pytorch']}. "
        "What the device has less of after ten runs than before a way was made, in a process of "
        "its own: code, weights of its own and what allocators keep. The module's weights are not "
        "counted.",
        "",
        "| network | batch | OpenXRT, MiB | torch.compile, MiB | ratio |",
        "| --- | --- | --- | --- | --- |",
    ]
    for ours, theirs in zip(facts["rows"][::2], facts["rows"][1::2], strict=True):
        batch = ours["batch"] or f"{STEPS[ours['network']]}, step"
        lines.append(
            f"| {ours['network']} | {batch} | {ours['mib']:.0f} | {theirs['mib']:.0f} | "
            f"{ours['mib'] / theirs['mib']:.2f} |"
        )
    return lines


def main() -> None:
    """Everything, or what --only names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="parts of the networks' names: BERT,ViT")
    parser.add_argument("--batches", default="", help="1,32 instead of all")
    parser.add_argument("--modes", default="reduce-overhead,max-autotune", help="of torch.compile")
    parser.add_argument("--parts", default="float16", help="of float16,int8,training,host; memory")
    parser.add_argument("--memory-of", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=1.0, help="per way")
    parser.add_argument("--write", action="store_true", help="docs/gpu/bench.json and bench.md")
    parser.add_argument("--add", action="store_true", help="keep what bench.json has of others")
    parser.add_argument("--start", action="store_true", help="also time starts from the cache")
    arguments = parser.parse_args()
    if arguments.memory_of:
        name, batch, way = arguments.memory_of
        print(memory_mib(name, int(batch), way))
        return
    if arguments.parts == "memory":
        facts = made_by() | {"rows": measure_memory()}
        if arguments.write:
            write("memory", facts, memory_page(facts))
        return
    start = start_times() if arguments.start else {}
    earlier = json.loads((FOLDER / "bench.json").read_text()) if arguments.add else {}
    rows = Rows(arguments.seconds)
    parts = arguments.parts.split(",")
    host = host_times() if "host" in parts else {}
    modes = [m for m in arguments.modes.split(",") if m]

    def is_wanted(name: str) -> bool:
        return any(part.lower() in name.lower() for part in arguments.only.split(","))

    def keep() -> None:
        if arguments.write:
            facts = made_by() | {"start": start, "host_us": host, "rows": rows.rows}
            facts = with_earlier(facts, earlier) if earlier else facts
            write("bench", facts, bench_page(facts))

    for name, (_, _, batches) in NETWORKS.items():
        chosen = [int(b) for b in arguments.batches.split(",") if b] or batches
        for batch in chosen if is_wanted(name) else []:
            if "float16" in parts:
                measure(name, batch, modes, rows)
            if "int8" in parts and name == "ResNet-50":
                measure_int8(batch, rows)
            keep()
        if "training" in parts and is_wanted(name) and name in STEPS:
            measure_step(name, rows)
            keep()


if __name__ == "__main__":
    main()
