#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures lite beside OpenVINO, ONNX Runtime and LiteRT, in float32 and int8, in one run.

    ./dev bench lite                                  # three networks, 2 threads
    ./dev bench lite mobilenet_v2 --rounds 30 --json lite.json

Every runtime has a process of its own; the processes take turns, a few runs each, so that drift of
the machine meets all alike. Batch 1, `--threads` threads each. int8: one Q/DQ file, made by
`xrt quantize` from random samples (ranges do not change the time), for lite, OpenVINO and ONNX
Runtime alike; OpenVINO computes the rest in float32. Medians of all runs; ratios are of medians,
below 1 lite is faster. `--cpu` takes CPU time of one thread instead, the least of all runs, which
other programs disturb least.

LiteRT (formerly TFLite) is measured where it is installed (tools/requirements-litert.txt), on files
that lite_tflite.py writes of the same networks; its outputs are compared with those of ONNX Runtime
first. Its input is N, H, W, C, so that it does not turn the image, which the others do. int8 is
TFLite's own scheme, with ranges from the same samples.

Of lite alone: load (mapping and checking a file, making a context; median), memory (the peak of a
process through load and runs beyond what it had before, beside weights and arena), and the time
per op of a chain of 1,000 ops on two numbers each: the overhead per op, and the little work.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from own_memory import own_bytes
from zoo import ZOO

NETWORKS = ("resnet50", "mobilenet_v2", "squeezenet1_1")
PEERS = ("openvino", "onnxruntime", "litert")
PRECISIONS = ("fp32", "int8")
PROGRAMS = Path(__file__).resolve().parent.parent / "build" / "release" / "bin"
CHAIN = 1000
MIB = 1 << 20


# --- one runtime, in a process of its own ------------------------------------------------------


def runner(runtime: str, file: str, threads: int, feeds: dict[str, np.ndarray]) -> Callable:
    """Loads `file`; what is returned runs it once."""
    if runtime == "lite":
        import openxrt.lite

        model = openxrt.lite.Model(file, threads=threads)
        return lambda: model.run(feeds)
    if runtime == "onnxruntime":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        return lambda: session.run(None, feeds)
    if runtime == "openvino":
        import openvino

        settings = {
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": threads,
            "PERFORMANCE_HINT": "LATENCY",
        }
        request = openvino.Core().compile_model(file, "CPU", settings).create_infer_request()
        return lambda: request.infer(feeds, share_inputs=True)
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=file, num_threads=threads)
    interpreter.allocate_tensors()
    (port,) = interpreter.get_input_details()
    (value,) = feeds.values()
    # TFLite's images are N, H, W, C where its converter was told so.
    if tuple(port["shape"]) != value.shape:
        value = np.ascontiguousarray(value.transpose(0, 2, 3, 1))

    def run() -> None:
        interpreter.set_tensor(port["index"], value)
        interpreter.invoke()

    return run


def work(runtime: str, file: str, feeds_file: str, threads: int, cpu: bool) -> int:
    """A line of JSON, a list of seconds, per line of standard input, a count of runs."""
    clock = time.process_time if cpu else time.perf_counter
    with np.load(feeds_file) as stored:
        feeds = {key: stored[key] for key in stored.files}
    run = runner(runtime, file, threads, feeds)
    run()
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            begin = clock()
            run()
            times.append(clock() - begin)
        print(json.dumps(times), flush=True)
    return 0


def watch_memory(file: str, feeds_file: str, threads: int) -> int:
    """Prints load times and the growth of memory through load and runs."""
    import openxrt.lite

    with np.load(feeds_file) as stored:
        feeds = {key: stored[key] for key in stored.files}
    loads = []
    for _ in range(21):
        begin = time.perf_counter()
        model = openxrt.lite.Model(file)
        loads.append(time.perf_counter() - begin)
        del model
    before = own_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is what there is now
    model = openxrt.lite.Model(file, threads=threads)
    for _ in range(3):
        outputs = model.run(feeds)
    grown = own_bytes("VmHWM") - before - sum(a.nbytes for a in outputs.values())
    print(json.dumps({"load": statistics.median(loads), "memory": grown}))
    return 0


# --- the run -------------------------------------------------------------------------------------


class Worker:
    """A process that runs one model on one runtime."""

    def __init__(
        self, runtime: str, file: Path, feeds: Path, arguments: argparse.Namespace
    ) -> None:
        words = [sys.executable, __file__, "--worker", runtime, str(file), str(feeds)]
        words += ["--cpu"] if arguments.cpu else []
        self.process = subprocess.Popen(
            [*words, "--threads", str(arguments.threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.times: list[float] = []
        self.ready = self.answer() == "ready"

    def answer(self) -> Any:
        """The next line that the process prints as JSON; None where it has ended."""
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def run(self, count: int) -> None:
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        self.times += self.answer()

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def said(text: str, what: str) -> float:
    """Bytes behind `what` in what the compiler says: "weights 24.5 MiB"."""
    number, unit = re.search(rf"{what} ([\d.]+) (B|KiB|MiB|GiB)", text).groups()
    return float(number) * {"B": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30}[unit]


def compile_lite(model: Path, output: Path) -> str:
    """Compiles for x86; what it does not take runs on generic."""
    import openxrt.lite

    return openxrt.lite.compile(model, output, targets="x86,generic")


def quantized(name: str, folder: Path) -> Path:
    """The network as a Q/DQ file."""
    samples = folder / f"{name}-samples"
    samples.mkdir()
    for i in range(2):
        np.savez(samples / f"{i}.npz", **ZOO[name].feeds())
    output = folder / f"{name}-int8.onnx"
    command = [PROGRAMS / "xrt", "quantize", ZOO[name].path(), "-o", output]
    subprocess.run([*command, "--calibrate", samples], check=True, stdout=subprocess.DEVNULL)
    return output


def has_litert() -> bool:
    return find_spec("ai_edge_litert") is not None


def write_tflite(name: str, precision: str, folder: Path) -> Path:
    """The network for LiteRT, which gives what ONNX Runtime gives."""
    import lite_tflite

    path, feeds = ZOO[name].path(), ZOO[name].feeds()
    file = folder / f"{name}-{precision}.tflite"
    file.write_bytes(lite_tflite.convert(path, [feeds] if precision == "int8" else None))
    share = lite_tflite.check(path, file, feeds, 0.5 if precision == "int8" else 1e-3)
    print(f"{name} {precision}: LiteRT's outputs within {share:.1e} of their norm", file=sys.stderr)
    return file


def measure(name: str, arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Medians of one network, in milliseconds; load and memory of lite."""
    feeds = folder / f"{name}.npz"
    np.savez(feeds, **ZOO[name].feeds())
    models = {"fp32": Path(ZOO[name].path())}
    if "int8" in arguments.precisions:
        models["int8"] = quantized(name, folder)
    if "fp32" not in arguments.precisions:
        del models["fp32"]
    workers: dict[str, Worker] = {}
    result: dict[str, Any] = {"ms": {}, "lite": {}}
    for precision, model in models.items():
        binary = folder / f"{name}-{precision}.bin"
        text = compile_lite(model, binary)
        command = [sys.executable, __file__, "--memory", str(binary), str(feeds)]
        words = ["--threads", str(arguments.threads)]
        alone = json.loads(subprocess.check_output([*command, *words], text=True))
        alone["planned"] = said(text, "weights") + said(text, "arena")
        result["lite"][precision] = alone
        files = {"lite": binary, "openvino": model, "onnxruntime": model}
        if has_litert():
            files["litert"] = write_tflite(name, precision, folder)
        for runtime, file in files.items():
            worker = Worker(runtime, file, feeds, arguments)
            if worker.ready:
                workers[f"{runtime} {precision}"] = worker
            else:
                print(f"{name}: {runtime} does not run {file.name}", file=sys.stderr)
    order = list(workers)
    for _ in range(arguments.rounds):
        for key in order:
            workers[key].run(arguments.runs)
        order.reverse()  # threads of some runtimes spin on: into another's turn each time
    for key, worker in workers.items():
        worker.close()
        chosen = min if arguments.cpu else statistics.median
        result["ms"][key] = 1e3 * chosen(worker.times)
    return result


def overhead(folder: Path) -> float:
    """Seconds per op of a chain of tiny ops, on one thread."""
    import onnx
    import openxrt.lite
    from onnx import TensorProto, helper

    def seconds(count: int) -> float:
        names = ["x", *(f"v{i}" for i in range(count - 1)), "y"]
        # Softmax is no pointwise op: nothing fuses.
        nodes = [
            helper.make_node("Softmax", [names[i]], [names[i + 1]], axis=1) for i in range(count)
        ]
        port = [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 2]) for n in (names[0], "y")
        ]
        graph = helper.make_graph(nodes, "chain", port[:1], port[1:])
        opsets = [helper.make_opsetid("", 17)]
        file = folder / f"chain{count}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), file)
        compile_lite(file, folder / "chain.bin")
        model = openxrt.lite.Model(folder / "chain.bin")
        feeds = {"x": np.zeros((1, 2), np.float32)}
        times = []
        for _ in range(200):
            begin = time.perf_counter()
            model.run(feeds)
            times.append(time.perf_counter() - begin)
        return statistics.median(times)

    return (seconds(CHAIN + 1) - seconds(1)) / CHAIN


def print_report(results: dict[str, Any], per_op: float) -> None:
    """Tables as Markdown."""
    keys = [f"{r} {p}" for p in PRECISIONS for r in ("lite", *PEERS)]
    keys = [k for k in keys if any(k in r["ms"] for r in results.values())]
    print(f"\n| ms | {' | '.join(keys)} |\n| --- |{' --- |' * len(keys)}")
    for name, result in results.items():
        cells = [f"{result['ms'][k]:.2f}" if k in result["ms"] else "–" for k in keys]
        print(f"| {name} | {' | '.join(cells)} |")
    print("\n| lite over | network | fp32 | int8 |\n| --- | --- | --- | --- |")
    for peer in PEERS:
        means = {p: [] for p in PRECISIONS}
        for name, result in results.items():
            cells = []
            for precision in PRECISIONS:
                times = result["ms"]
                ours, theirs = f"lite {precision}", f"{peer} {precision}"
                if ours in times and theirs in times:
                    means[precision].append(times[ours] / times[theirs])
                    cells.append(f"{means[precision][-1]:.2f}")
                else:
                    cells.append("–")
            if any(c != "–" for c in cells):
                print(f"| {peer} | {name} | {' | '.join(cells)} |")
        cells = [
            f"{math.exp(statistics.mean(map(math.log, m))):.2f}" if m else "–"
            for m in means.values()
        ]
        if any(means.values()):
            print(f"| {peer} | geometric mean | {' | '.join(cells)} |")
    print("\n| lite | load | weights + arena | memory beyond it |\n| --- | --- | --- | --- |")
    for name, result in results.items():
        for precision, alone in result["lite"].items():
            beyond = (alone["memory"] - alone["planned"]) / MIB
            print(
                f"| {name} {precision} | {alone['load'] * 1e3:.2f} ms | "
                f"{alone['planned'] / MIB:.1f} MiB | {beyond:+.2f} MiB |"
            )
    print(f"\nper op of a chain of {CHAIN}: {per_op * 1e9:.0f} ns")


def main() -> int:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*", help=f"of the zoo (default: {' '.join(NETWORKS)})")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each process")
    parser.add_argument("--runs", type=int, default=40, help="runs per turn")
    parser.add_argument("--cpu", action="store_true", help="CPU time of one thread, the least")
    parser.add_argument(
        "--precisions", nargs="+", choices=PRECISIONS, default=list(PRECISIONS), metavar="PRECISION"
    )
    parser.add_argument("--json", type=Path, help="writes the figures to this file")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--memory", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return work(*arguments.worker, arguments.threads, arguments.cpu)
    if arguments.memory:
        return watch_memory(*arguments.memory, arguments.threads)
    if arguments.cpu:
        arguments.threads = 1
    if not has_litert():
        print("litert is left out: tools/requirements-litert.txt is not installed", file=sys.stderr)
    names = arguments.networks or list(NETWORKS)
    for name in names:
        if name not in ZOO:
            parser.error(f"the zoo has no '{name}'; it has {', '.join(ZOO)}")
    with tempfile.TemporaryDirectory() as folder:
        results = {name: measure(name, arguments, Path(folder)) for name in names}
        per_op = overhead(Path(folder))
    print_report(results, per_op)
    if arguments.json:
        figures = {"networks": results, "seconds_per_op": per_op, "threads": arguments.threads}
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
