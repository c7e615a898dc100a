# SPDX-License-Identifier: Apache-2.0
"""MLPerf's LoadGen (PyPI mlcommons-loadgen) asks a program: it issues queries, measures and judges.

    ./dev bench loadgen model.onnx --engine native --scenario SingleStream
    ./dev bench loadgen model.onnx --engine auto --scenario Offline --shape x=1,3,224,224

SingleStream: one query after the other, judged by the latency of nine in ten. MultiStream: eight
samples a query. Server: queries come at random at --qps, judged by the latency of 99 in 100 against
--bound-ms. Offline: all at once, judged by samples per second. A query is a run of Program.submit
with random inputs; open dimensions are 1 unless --shape names them.
"""

from __future__ import annotations

import argparse
import array
import re
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import mlperf_loadgen as loadgen
import numpy as np
import openxrt

SAMPLES = 64
RESULT = re.compile(r"^\s*(.+?)\s*: (.+)$")


def samples(program: openxrt.Program, shapes: dict[str, list[int]]) -> list[dict[str, np.ndarray]]:
    """Random inputs, of zeros where they are whole numbers."""
    generator = np.random.default_rng(0)
    found = []
    for _ in range(SAMPLES):
        feeds = {}
        for port in program.inputs:
            dims = [n if isinstance(n, int) else 1 for n in port.shape or []]
            dims = shapes.get(port.name, dims)
            dtype = np.dtype(port.dtype)
            values = generator.normal(size=dims)
            feeds[port.name] = (values if dtype.kind == "f" else np.zeros(dims)).astype(dtype)
        found.append(feeds)
    return found


class Sut:
    """What LoadGen calls the system under test."""

    def __init__(self, program: openxrt.Program, feeds: list[dict[str, np.ndarray]]) -> None:
        self.program, self.feeds = program, feeds
        self.failures: list[BaseException] = []
        self.lock = threading.Lock()
        self.kept: dict[int, Any] = {}

    def issue(self, queries: list[Any]) -> None:
        """Hands each sample to the program; it answers when its run is done."""
        for query in queries:
            request = self.program.submit(self.feeds[query.index])
            request.add_done_callback(lambda done, number=query.id: self.answer(number, done))

    def answer(self, number: int, done: Any) -> None:
        """Tells LoadGen of a result."""
        error = done.exception()
        if error is not None:
            with self.lock:
                self.failures.append(error)
            result = array.array("B", b"")
        else:
            first = next(iter(done.result().values()))
            result = array.array("B", np.asarray(first).tobytes())
        address, size = result.buffer_info()
        response = loadgen.QuerySampleResponse(number, address, size * result.itemsize)
        loadgen.QuerySamplesComplete([response])


def measure(given: argparse.Namespace, engine: str, folder: Path) -> dict[str, str]:
    """LoadGen's summary of one program."""
    program = openxrt.load(
        given.model,
        engine=[name for name in engine.split(",") if name],
        num_threads=given.threads,
        streams=given.streams,
    )
    shapes = {
        name: [int(n) for n in sizes.split(",")]
        for name, _, sizes in (entry.partition("=") for entry in given.shape)
    }
    feeds = samples(program, shapes)
    for _ in range(3):
        program.run(feeds[0])
    # LoadGen hands out as many samples at once as are expected to fill the time, and a tenth more.
    begin = time.perf_counter()
    for request in [program.submit(feed) for feed in feeds]:
        request.result()
    expected = 1.2 * SAMPLES / (time.perf_counter() - begin)
    sut = Sut(program, feeds)
    settings = loadgen.TestSettings()
    settings.scenario = getattr(loadgen.TestScenario, given.scenario)
    settings.mode = loadgen.TestMode.PerformanceOnly
    settings.min_duration_ms = int(given.seconds * 1000)
    settings.min_query_count = given.queries
    settings.multi_stream_samples_per_query = 8
    settings.server_target_qps = given.qps
    settings.server_target_latency_ns = int(given.bound_ms * 1e6)
    settings.offline_expected_qps = expected
    outputs = loadgen.LogOutputSettings()
    outputs.outdir = str(folder)
    outputs.copy_summary_to_stdout = False
    log = loadgen.LogSettings()
    log.log_output = outputs
    log.enable_trace = False
    handle = loadgen.ConstructSUT(sut.issue, lambda: None)
    library = loadgen.ConstructQSL(SAMPLES, SAMPLES, lambda _: None, lambda _: None)
    try:
        loadgen.StartTestWithLogSettings(handle, library, settings, log)
    finally:
        loadgen.DestroyQSL(library)
        loadgen.DestroySUT(handle)
    if sut.failures:
        raise sut.failures[0]
    text = (folder / "mlperf_log_summary.txt").read_text(encoding="utf-8")
    return {found[1]: found[2] for found in map(RESULT.match, text.splitlines()) if found}


def main() -> int:
    """Exit code 1 where LoadGen calls a result invalid."""
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument("model", type=Path)
    words.add_argument("--engine", action="append", help="may be repeated (default: native)")
    words.add_argument(
        "--scenario",
        choices=("SingleStream", "MultiStream", "Server", "Offline"),
        default="SingleStream",
    )
    words.add_argument("--seconds", type=float, default=10, help="least duration")
    words.add_argument("--queries", type=int, default=100, help="least number of queries")
    words.add_argument("--qps", type=float, default=50, help="of Server")
    words.add_argument("--bound-ms", type=float, default=100, help="of Server's latency")
    words.add_argument("--shape", action="append", default=[], metavar="INPUT=N,N,...")
    words.add_argument("--threads", type=int, default=0)
    words.add_argument("--streams", type=int, default=0)
    given = words.parse_args()
    invalid = False
    for engine in given.engine or ["native"]:
        with tempfile.TemporaryDirectory() as folder:
            told = measure(given, engine, Path(folder))
        invalid |= told.get("Result is") != "VALID"
        print(f"{engine}: {told.get('Result is')}")
        for name, value in told.items():
            if any(
                word in name
                for word in (
                    "latency",
                    "second",
                    "query count",
                    "Samples per",
                    "duration",
                    "INVALID",
                )
            ):
                print(f"  {name}: {value}")
    return 1 if invalid else 0


if __name__ == "__main__":
    sys.exit(main())
