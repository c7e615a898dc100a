# SPDX-License-Identifier: Apache-2.0
"""Requests per second and latencies of served models, beside other runtimes behind one server.

    ./dev bench serve                              # all models that are there
    ./dev bench serve --model ppocr_v6_rec --seconds 10 --write

One tritonserver holds the model of each runtime: openxrt's, and ONNX Runtime and OpenVINO in the
same Python backend (benchmarks/serve_peers.py), each without and with dynamic batching. A second
server is KServe's. Clients ask over gRPC, one request after the other, from a process of their own
on the same machine: their work is part of every figure. The variants take turns, in the opposite
order in every second round. Rates and p50 are medians over the rounds, so that a slow second of the
machine does not decide; p99 is of all requests.

`overhead` is the median latency of one client less that of Program.run in a process without a
server.

Then MLPerf's LoadGen (benchmarks/loadgen.py) judges the same models: through Program.submit in this
process, Triton and KServe, in its four scenarios and its accuracy mode. Its Server asks at half of
the rate that Offline reached; a path is late where more than 1 of 100 answers take longer than ten
times SingleStream's latency. On two processors both parts of all models take about half an hour.
--write keeps the tables in docs/background/figures.json.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# The runtimes that are compared are installed there; behind what this environment has itself.
PACKAGES = next((ROOT / ".venv" / "lib").glob("python3*")) / "site-packages"
sys.path.append(os.fspath(PACKAGES))

import figures  # noqa: E402
import numpy as np  # noqa: E402
import openxrt  # noqa: E402
import tritonclient.grpc as grpc  # noqa: E402
from openxrt.serve import ModelSettings, find_models  # noqa: E402
from openxrt.serve.served_program import ServedProgram, numpy_type  # noqa: E402
from openxrt.serve.triton_repository import write_model  # noqa: E402
from openxrt.serve.triton_server import TritonServer  # noqa: E402
from zoo import ZOO, Feeds  # noqa: E402

CLIENTS = (1, 8, 64)
MAX_BATCH = 8
DELAY_US = 2000
WARM_UP_S = 0.5
MIN_QUERIES = 10  # of each of LoadGen's tests
BOUND = 10  # times SingleStream's latency: what Server's may be
PEERS = {"onnxruntime": "OnnxruntimeModel", "openvino": "OpenvinoModel"}
MODELS = ("ppocr_v6_rec", "minilm", "light_resnet50")
# Runtime and number of clients to the seconds of each request of each round.
Cells = dict[tuple[str, int], list[list[float]]]
MODEL_PY = """\
import sys

sys.path.append({package!r})
sys.path.append({packages!r})
sys.path.append({here!r})
from serve_peers import {name} as TritonPythonModel
"""


def open_batch(source: Path, target: Path) -> None:
    """Writes the model with an open first dimension of inputs and outputs, as batches need it. A
    Reshape to a fixed first dimension of 1 keeps it open, too."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load(source)
    weights = {initializer.name for initializer in model.graph.initializer}
    for port in [*model.graph.input, *model.graph.output]:
        if port.name not in weights:
            port.type.tensor_type.shape.dim[0].dim_param = "batch"
    shapes = {node.input[1] for node in model.graph.node if node.op_type == "Reshape"}
    for initializer in model.graph.initializer:
        if initializer.name in shapes:
            values = numpy_helper.to_array(initializer).copy()
            if values[0] == 1 and -1 not in values:
                values[0] = -1
                initializer.CopyFrom(numpy_helper.from_array(values, initializer.name))
    del model.graph.value_info[:]
    onnx.save(model, target)


def write_models(folder: Path, repository: Path, name: str, options: dict[str, Any]) -> None:
    """`folder` for `xrt serve`: openxrt's model without and with batches; `repository`: the peers'
    models for the same tritonserver."""
    feeds = ZOO[name].feeds()
    for batched in (False, True):
        model = folder / ("xrt-batched" if batched else "xrt")
        (model / "1").mkdir(parents=True)
        path = model / "1" / "model.onnx"
        if name.startswith("light_"):
            open_batch(ZOO[name].path(), path)
        else:
            shutil.copyfile(ZOO[name].path(), path)
        settings = {
            "options": options,
            "warm_up": {port: list(array.shape) for port, array in feeds.items()},
            "max_batch_size": MAX_BATCH if batched else 0,
            "max_delay_us": DELAY_US if batched else 0,
            "max_queue_size": 0,  # LoadGen's Offline asks for all at once
        }
        (model / "xrt.json").write_text(json.dumps(settings), encoding="utf-8")
    for model in find_models(folder):
        for peer, class_name in PEERS.items():
            scratch = repository.with_name("scratch")
            made = write_model(scratch, model, copy=True)
            code = MODEL_PY.format(
                package=os.fspath(Path(openxrt.__file__).parents[1]),
                packages=os.fspath(PACKAGES),
                here=os.fspath(Path(__file__).parent),
                name=class_name,
            )
            (made / "1" / "model.py").write_text(code, encoding="utf-8")
            renamed = model.name.replace("xrt", peer)
            config = (made / "config.pbtxt").read_text(encoding="utf-8")
            (made / "config.pbtxt").write_text(
                config.replace(f'name: "{model.name}"', f'name: "{renamed}"', 1), encoding="utf-8"
            )
            repository.mkdir(exist_ok=True)
            made.rename(repository / renamed)


@contextlib.contextmanager
def kserve(folder: Path, port: int) -> Iterator[None]:
    """KServe's server over the folder, ready."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "openxrt.serve",
            folder,
            "--server",
            "kserve",
            *f"--port {port}".split(),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(1200):
            with (
                contextlib.suppress(OSError),
                urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready"),
            ):
                break
            if process.poll() is not None:
                raise RuntimeError(f"KServe's server ended with {process.returncode}")
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(60)


def ask(port: int, model: str, feeds: Feeds, clients: int, seconds: float) -> list[float]:
    """Seconds of each request that began in `seconds`, after a warm-up, of so many clients."""
    found: list[list[float]] = [[] for _ in range(clients)]
    failures: list[Exception] = []
    begin = time.perf_counter() + WARM_UP_S

    def work(number: int) -> None:
        try:
            with grpc.InferenceServerClient(f"127.0.0.1:{port}") as client:
                given = []
                for name, array in feeds.items():
                    given.append(grpc.InferInput(name, list(array.shape), datatype(array)))
                    given[-1].set_data_from_numpy(array)
                # One of each client at least: with many clients a request may take longer.
                while (now := time.perf_counter()) < begin + seconds or not found[number]:
                    client.infer(model, given)
                    if now >= begin:
                        found[number].append(time.perf_counter() - now)
        except Exception as error:
            failures.append(error)  # raised below, in the thread that reports

    threads = [threading.Thread(target=work, args=(n,)) for n in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [latency for each in found for latency in each]


def datatype(array: np.ndarray) -> str:
    """Of the protocol."""
    words = ("FP32", "INT64", "INT32", "UINT8")
    return next(word for word in words if numpy_type(word) == array.dtype)


def direct(path: Path, settings: ModelSettings, feeds: Feeds, seconds: float) -> list[float]:
    """Seconds of each Program.run without a server."""
    program = ServedProgram(path, settings)
    found = []
    end = time.perf_counter() + WARM_UP_S
    for bound in (end, end + seconds):
        found.clear()
        while (now := time.perf_counter()) < bound:
            program.run(feeds)
            found.append(time.perf_counter() - now)
    return found


def quantile(latencies: list[float], part: float) -> float:
    """Milliseconds."""
    return 1e3 * float(np.quantile(latencies, part))


def rate(clients: int, latencies: list[float]) -> float:
    """Requests per second of clients that each wait for their answer."""
    return clients / float(np.mean(latencies))


def usual(rounds: list[list[float]]) -> float:
    """The median over rounds of the median latency, in ms."""
    return statistics.median(quantile(latencies, 0.5) for latencies in rounds)


def judged(name: str, path: Path, given: argparse.Namespace) -> dict[str, Any]:
    """LoadGen's table of one model, whose servers run."""
    import loadgen

    program = openxrt.load(path, **json.loads(given.options))
    targets = {
        "Program.submit": program,
        "Triton, xrt": loadgen.Remote(f"127.0.0.1:{given.port + 1}/xrt"),
        "Triton, xrt-batched": loadgen.Remote(f"127.0.0.1:{given.port + 1}/xrt-batched"),
        "KServe, openxrt": loadgen.Remote(f"127.0.0.1:{given.port + 11}/xrt"),
    }
    shapes = {port: list(array.shape) for port, array in ZOO[name].feeds().items()}
    feeds = loadgen.samples(program, shapes)
    rows = []
    for target, asked in targets.items():

        def ask_for(asked: Any = asked, **test: Any) -> dict[str, str]:
            wanted = loadgen.Test(seconds=given.loadgen_seconds, queries=MIN_QUERIES, **test)
            return loadgen.summary(asked, feeds, wanted, path)

        single = milliseconds(ask_for(scenario="SingleStream"), "90")
        multi = milliseconds(ask_for(scenario="MultiStream"), "99")
        offline = float(ask_for(scenario="Offline")["Samples per second"])
        told = ask_for(scenario="Server", qps=offline / 2, bound_ms=BOUND * single)
        served = float(told["Completed samples per second"])
        late = milliseconds(told, "99")
        mark = " (late)" if late > BOUND * single else ""
        row = [
            target,
            f"{single:.1f}",
            f"{multi:.1f}",
            f"{served:.1f}/s, {late:.1f}{mark}",
            f"{offline:.1f}",
            ask_for(scenario="Offline", accuracy=True)["largest difference"],
        ]
        print(f"  {name} {target:20} {row[1:]}", flush=True)
        rows.append(row)
    return {
        "title": f"{name}, LoadGen",
        "columns": [
            "path",
            "SingleStream, p90 ms",
            "MultiStream of 8, p99 ms",
            "Server, p99 ms",
            "Offline, samples/s",
            "accuracy: difference",
        ],
        "rows": rows,
    }


def milliseconds(told: dict[str, str], percentile: str) -> float:
    """A latency of LoadGen's summary."""
    pattern = re.compile(rf"{percentile}(\.0+)?(th)? percentile latency \(ns\)")
    return next(float(value) / 1e6 for key, value in told.items() if pattern.match(key))


def measure(
    name: str, given: argparse.Namespace, folder: Path
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tables of one model, each with its part."""
    feeds = ZOO[name].feeds()
    models, repository = folder / "models", folder / "repository"
    write_models(models, repository, name, json.loads(given.options))
    (plain,) = (model for model in find_models(models) if model.name == "xrt")
    alone: list[float] = []
    if "clients" in given.part:
        alone = direct(plain.versions[1], plain.settings, feeds, given.seconds)
    variants = [f"{kind}{tail}" for tail in ("", "-batched") for kind in ("xrt", *PEERS)]
    cells: Cells = {}
    port = given.port
    with (
        TritonServer(models, port=port, drain_s=5, arguments=(f"--model-repository={repository}",)),
        kserve(models, port + 10),
    ):
        for round_ in range(given.rounds if "clients" in given.part else 0):
            turned = -1 if round_ % 2 else 1
            for clients in CLIENTS:
                for variant in [*variants, "kserve"][::turned]:
                    at, model = (port + 11, "xrt") if variant == "kserve" else (port + 1, variant)
                    seconds = given.seconds / given.rounds
                    latencies = ask(at, model, feeds, clients, seconds)
                    cells.setdefault((variant, clients), []).append(latencies)
                    told = f"{rate(clients, latencies):8.1f}/s  p50 {quantile(latencies, 0.5):8.2f}"
                    print(f"  {name} {variant:20} {clients:3} clients {told} ms", flush=True)
        if "clients" in given.part:
            for table in report(name, cells, alone, [*variants, "kserve"]):
                yield "clients", table
        if "loadgen" in given.part:
            yield "loadgen", judged(name, plain.versions[1], given)


def report(
    name: str, cells: Cells, alone: list[float], variants: list[str]
) -> list[dict[str, Any]]:
    """Two tables: all cells, and what the server adds."""
    rows = []
    for variant in variants:
        row = ["KServe, openxrt" if variant == "kserve" else f"Triton, {variant}"]
        for clients in CLIENTS:
            rounds = cells[variant, clients]
            per_second = statistics.median(rate(clients, latencies) for latencies in rounds)
            p99 = quantile([latency for latencies in rounds for latency in latencies], 0.99)
            row.append(f"{per_second:.1f}/s, {usual(rounds):.1f} / {p99:.1f}")
        rows.append(row)
    base = quantile(alone, 0.5)
    overhead = [["Program.run", f"{base:.2f}", ""]]
    for variant, label in (("xrt", "Triton"), ("kserve", "KServe")):
        median = usual(cells[variant, 1])
        overhead.append([label, f"{median:.2f}", f"{median - base:+.2f}"])
    heads = [f"{n} client{'s' * (n > 1)}" for n in CLIENTS]
    return [
        {
            "title": f"{name}, requests per second, then p50 / p99 in ms",
            "columns": ["server, runtime", *heads],
            "rows": rows,
        },
        {
            "title": f"{name}, one client: median ms, and what the server adds",
            "columns": ["path", "ms", "over Program.run"],
            "rows": overhead,
        },
    ]


def main() -> int:
    """Exit code 1 where a model is missing."""
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument("--model", action="append", choices=MODELS, help="may be repeated")
    words.add_argument("--seconds", type=float, default=4, help="of each cell (default: 4)")
    words.add_argument("--rounds", type=int, default=4, help="that a cell is made of (default: 4)")
    words.add_argument("--loadgen-seconds", type=float, default=10, help="(default: 10)")
    words.add_argument(
        "--part",
        action="append",
        choices=("clients", "loadgen"),
        help="may be repeated (default: both)",
    )
    words.add_argument("--options", default='{"engine": "openvino,native"}', help="of the models")
    words.add_argument("--port", type=int, default=28600, help="the first of twelve")
    words.add_argument("--write", action="store_true", help="keep the figures for the docs")
    given = words.parse_args()
    given.part = given.part or ["clients", "loadgen"]
    tables: dict[str, list[dict[str, Any]]] = {part: [] for part in given.part}
    missing = 0
    for name in given.model or MODELS:
        if (why := ZOO[name].why_missing()) is not None:
            print(f"missing: {why}", file=sys.stderr)
            missing = 1
            continue
        with tempfile.TemporaryDirectory(prefix="xrt-bench-serve-") as folder:
            for part, table in measure(name, given, Path(folder)):
                tables[part].append(table)
    for table in [table for part in given.part for table in tables[part]]:
        print(f"\n{table['title']}")
        for row in (table["columns"], *table["rows"]):
            print("  " + "".join(f"{cell:<28}" for cell in row))
    if given.write:
        packages = ["openxrt", "onnxruntime", "openvino", "nvidia-pytriton", "kserve"]
        packages += ["tritonclient", "mlcommons-loadgen"]
        threads = len(os.sched_getaffinity(0))
        for part in given.part:
            section = {"clients": "serve", "loadgen": "loadgen"}[part]
            figures.write_run(section, "serve", threads, packages, {"tables": tables[part]})
    return missing


if __name__ == "__main__":
    sys.exit(main())
