# SPDX-License-Identifier: Apache-2.0
"""Products with 4- and 8-bit weights in blocks, against ONNX Runtime's MatMulNBits and float32.

    ./dev bench block_weights --rows 1 4 8 64 --memory

"Q/DQ" and further engines read what `xrt quantize --weights` writes, the others MatMulNBits. A
chain of products is larger than the caches, so that few rows are bound by memory. All runtimes
take turns in one process; times are medians, per product. `GB/s` is what of the weights, scales and
zero points of the file goes through the processor; the last column compares that of one row with
reading float32 weights, the fastest of the runtimes. --memory loads each runtime in a process of
its own and prints how much its resident memory grew by, beside the size of the weights.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import onnx
import onnxruntime
import openxrt
import openxrt.quantize
from onnx import TensorProto, helper, numpy_helper
from own_memory import own_bytes

Run = Callable[[np.ndarray], object]


@dataclass(frozen=True)
class Chain:
    """Products of a square matrix, one behind the other."""

    size: int
    layers: int
    bits: int  # 32: float32
    block: int = 32
    accuracy: int = 0  # MatMulNBits' accuracy_level

    def weight_bytes(self) -> int:
        """Of one matrix in the file."""
        count = self.size * self.size
        if self.bits == 32:
            return 4 * count
        return count * self.bits // 8 + count // self.block * 4

    def save(self, path: Path) -> Path:
        rng = np.random.default_rng(0)
        nodes, constants = [], []
        for i in range(self.layers):
            ends = [f"x{i}" if i else "x"], [f"x{i + 1}" if i + 1 < self.layers else "y"]
            if self.bits == 32:
                w = rng.standard_normal((self.size, self.size), np.float32) / self.size**0.5
                constants.append(numpy_helper.from_array(w, f"w{i}"))
                nodes.append(helper.make_node("MatMul", [*ends[0], f"w{i}"], ends[1]))
                continue
            blocks = self.size // self.block
            shape = (self.size, blocks, self.block * self.bits // 8)
            q = rng.integers(0, 256, shape, np.uint8)
            step = 1.7 / 2**self.bits / self.size**0.5
            scale = np.full(self.size * blocks, step, np.float32)
            constants.append(numpy_helper.from_array(q, f"q{i}"))
            constants.append(numpy_helper.from_array(scale, f"s{i}"))
            nodes.append(
                helper.make_node(
                    "MatMulNBits",
                    [*ends[0], f"q{i}", f"s{i}"],
                    ends[1],
                    domain="com.microsoft",
                    bits=self.bits,
                    block_size=self.block,
                    N=self.size,
                    K=self.size,
                    accuracy_level=self.accuracy,
                )
            )
        graph = helper.make_graph(
            nodes,
            "chain",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", self.size])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", self.size])],
            constants,
        )
        domains = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        onnx.save(
            helper.make_model(graph, opset_imports=domains, ir_version=10),
            path,
            save_as_external_data=True,
            location=path.name + ".data",
        )
        return path


def xrt(path: Path, threads: int, engine: str = "native", **engine_options: str) -> Run:
    options = {"engine_options": {engine: engine_options}} if engine_options else {}
    return openxrt.load(path, engine=engine, num_threads=threads, **options)


def ort(path: Path, threads: int) -> Run:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options)
    return lambda x: session.run(None, {"x": x})


def runtimes(folder: Path, arguments: argparse.Namespace) -> dict[str, tuple[Chain, Callable]]:
    """By name: what is computed, and what loads it."""
    size, layers, bits = arguments.size, arguments.layers, arguments.bits
    small = Chain(size, layers, bits, arguments.block)
    rounding = Chain(size, layers, bits, arguments.block, accuracy=4)
    plain = Chain(size, layers, 32)
    threads = arguments.threads
    paths = {
        chain: folder / f"{chain.bits}_{chain.accuracy}.onnx" for chain in (small, rounding, plain)
    }
    dequantised = folder / f"dq{bits}.onnx"  # what `xrt quantize --weights` writes
    found: dict[str, tuple[Chain, Callable]] = {
        "ort": (small, lambda: ort(paths[small], threads)),
        "ort level 4": (rounding, lambda: ort(paths[rounding], threads)),
        "ort f32": (plain, lambda: ort(paths[plain], threads)),
        "native": (small, lambda: xrt(paths[small], threads)),
        "native int8": (small, lambda: xrt(paths[small], threads, activations="int8")),
        "native f32": (plain, lambda: xrt(paths[plain], threads)),
        "ort Q/DQ": (small, lambda: ort(dequantised, threads)),
        "native Q/DQ": (small, lambda: xrt(dequantised, threads)),
    }
    for engine in arguments.engine:
        found[engine] = (small, lambda engine=engine: xrt(dequantised, threads, engine))
    if arguments.only:
        found = {name: found[name] for name in arguments.only}
    for chain in paths:
        if not paths[chain].exists():
            chain.save(paths[chain])
    if not dequantised.exists():
        openxrt.quantize.quantize(
            paths[plain],
            dequantised,
            weights=f"int{bits}",
            block=arguments.block,
            symmetric=True,
        )
    return found


def speed(folder: Path, arguments: argparse.Namespace) -> None:
    found = runtimes(folder, arguments)
    programs = {name: load() for name, (_, load) in found.items()}
    bandwidth = 0.0
    for rows in arguments.rows:
        x = np.random.default_rng(1).standard_normal((rows, arguments.size), np.float32)
        times: dict[str, list[float]] = {name: [] for name in programs}
        for name, run in programs.items():
            run(x)
            times[name].clear()
        end = time.perf_counter() + arguments.seconds
        while time.perf_counter() < end or len(next(iter(times.values()))) < 3:
            for name, run in programs.items():
                begin = time.perf_counter()
                run(x)
                times[name].append((time.perf_counter() - begin) / arguments.layers)
        each = {name: median(values) for name, values in times.items()}
        print(f"\n{rows} rows, {len(next(iter(times.values())))} rounds", flush=True)
        for name, seconds in each.items():
            rate = found[name][0].weight_bytes() / seconds
            if rows == 1 and name.endswith("f32"):
                bandwidth = max(bandwidth, rate)
        for name, seconds in each.items():
            chain = found[name][0]
            rate = chain.weight_bytes() / seconds
            line = f"{name:14}{seconds * 1e6:12.1f} us{rate / 1e9:9.1f} GB/s"
            line += f"{2 * rows * arguments.size**2 / seconds / 1e9:10.0f} GFLOP/s"
            if "ort" in each:
                line += f"   x ort {seconds / each['ort']:.2f}"
            if bandwidth and rows == 1:
                line += f"   {rate / bandwidth:.2f} of the bandwidth"
            print(line, flush=True)


def memory(folder: Path, arguments: argparse.Namespace) -> None:
    """One line per runtime, each loaded in a process of its own."""
    if arguments.inside:
        ((name, (chain, load)),) = runtimes(folder, arguments).items()
        x = np.zeros((1, arguments.size), np.float32)
        gc.collect()
        begin = own_bytes("RssAnon")
        run = load()
        loaded = own_bytes("RssAnon") - begin
        run(x)
        grown = own_bytes("RssAnon") - begin
        weights = chain.weight_bytes() * chain.layers
        print(
            f"{name:14} weights {weights / 1e6:8.1f} MB   loaded {loaded / 1e6:8.1f} MB   "
            f"after a run {grown / 1e6:8.1f} MB",
            flush=True,
        )
        return
    for name in runtimes(folder, arguments):
        command = [sys.executable, __file__, "--memory", "--inside", str(folder), "--only", name]
        for key in ("size", "layers", "bits", "block", "threads"):
            command += [f"--{key}", str(getattr(arguments, key))]
        for engine in arguments.engine:
            command += ["--engine", engine]
        subprocess.run(command, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 4, 8, 64, 256])
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--bits", type=int, choices=(4, 8), default=4)
    parser.add_argument("--block", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4.0, help="per number of rows")
    parser.add_argument("--engine", action="append", default=[], help="further engines")
    parser.add_argument("--only", nargs="+", help="names of the runtimes to run")
    parser.add_argument("--memory", action="store_true", help="measure memory, not time")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        return memory(Path(arguments.inside), arguments)
    with tempfile.TemporaryDirectory() as folder:
        (memory if arguments.memory else speed)(Path(folder), arguments)
    return None


if __name__ == "__main__":
    main()
