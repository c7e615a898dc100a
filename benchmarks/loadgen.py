# SPDX-License-Identifier: Apache-2.0
"""MLPerf's LoadGen (PyPI mlcommons-loadgen) asks a program: it issues queries, measures and judges.

    ./dev bench loadgen model.onnx --engine native --scenario SingleStream
    ./dev bench loadgen model.onnx --engine auto --scenario Offline --shape x=1,3,224,224
    ./dev bench loadgen model.onnx --url 127.0.0.1:8001/NAME   # the same model, behind a server

SingleStream: one query after the other, judged by the latency of nine in ten. MultiStream: eight
samples a query. Server: queries come at random at --qps, judged by the latency of 99 in 100 against
--bound-ms. Offline: all at once, judged by samples per second. A query is a run of Program.submit
with random inputs, or a request over gRPC to a server of the Open Inference Protocol (Triton,
KServe); open dimensions are 1 unless --shape names them.

--accuracy: LoadGen issues each sample once and keeps the answers, which are compared with ONNX
Runtime's.
"""

from __future__ import annotations

import argparse
import array
import json
import re
import sys
import tempfile
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

# LoadGen is installed there; clients of servers are in an environment of their own, which is this
# process's with --url.
_VENV = Path(__file__).resolve().parents[1] / ".venv" / "lib"
sys.path.extend(str(folder / "site-packages") for folder in _VENV.glob("python3*"))

import mlperf_loadgen as loadgen  # noqa: E402
import numpy as np  # noqa: E402
import openxrt  # noqa: E402

SAMPLES = 64
SCENARIOS = ("SingleStream", "MultiStream", "Server", "Offline")
RESULT = re.compile(r"^\s*(.+?)\s*: (.+)$")


class Remote:
    """A model behind a server, as a program: inputs, submit() and run().

    Args:
        url: HOST:PORT/NAME, of gRPC.
    """

    def __init__(self, url: str) -> None:
        import tritonclient.grpc as grpc
        from openxrt.serve.served_program import numpy_type

        address, _, self._model = url.partition("/")
        self._grpc = grpc
        self._client = grpc.InferenceServerClient(address)
        described = self._client.get_model_metadata(self._model)
        self._types = {port.name: port.datatype for port in described.inputs}
        self._outputs = [port.name for port in described.outputs]
        self.inputs = [
            SimpleNamespace(
                name=port.name,
                dtype=numpy_type(port.datatype),
                shape=[n if n >= 0 else "open" for n in port.shape],
            )
            for port in described.inputs
        ]

    def submit(self, feeds: dict[str, np.ndarray]) -> Future[dict[str, np.ndarray]]:
        """Sends a request and returns at once."""
        request: Future[dict[str, np.ndarray]] = Future()
        given = []
        for name, value in feeds.items():
            given.append(self._grpc.InferInput(name, list(value.shape), self._types[name]))
            given[-1].set_data_from_numpy(value)

        def done(result: Any, error: Exception | None) -> None:
            if error is not None:
                request.set_exception(error)
            else:
                request.set_result({name: result.as_numpy(name) for name in self._outputs})

        self._client.async_infer(self._model, given, done)
        return request

    def run(self, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Waits for the answer."""
        return self.submit(feeds).result()


def samples(
    program: openxrt.Program | Remote, shapes: dict[str, list[int]]
) -> list[dict[str, np.ndarray]]:
    """Random inputs, of 0 and 1 where they are whole numbers."""
    generator = np.random.default_rng(0)
    found = []
    for _ in range(SAMPLES):
        feeds = {}
        for port in program.inputs:
            dims = [n if isinstance(n, int) else 1 for n in port.shape or []]
            dims = shapes.get(port.name, dims)
            dtype = np.dtype(port.dtype)
            values = generator.normal(size=dims)
            if dtype.kind != "f":
                values = generator.integers(0, 2, size=dims)
            feeds[port.name] = values.astype(dtype)
        found.append(feeds)
    return found


class Sut:
    """What LoadGen calls the system under test."""

    def __init__(
        self, program: openxrt.Program | Remote, feeds: list[dict[str, np.ndarray]]
    ) -> None:
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


def measure(given: argparse.Namespace, engine: str) -> dict[str, str]:
    """LoadGen's summary of one program."""
    program: openxrt.Program | Remote
    if given.url:
        program = Remote(given.url)
    else:
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
    test = Test(
        given.scenario, given.accuracy, given.seconds, given.queries, given.qps, given.bound_ms
    )
    return summary(program, samples(program, shapes), test, given.model)


@dataclass
class Test:
    """What LoadGen is asked for."""

    scenario: str  # of SCENARIOS
    accuracy: bool = False  # its accuracy mode
    seconds: float = 10  # at least
    queries: int = 100  # at least
    qps: float = 50  # of Server
    bound_ms: float = 100  # of Server's latency


def summary(
    program: openxrt.Program | Remote,
    feeds: list[dict[str, np.ndarray]],
    test: Test,
    model: Path,
) -> dict[str, str]:
    """LoadGen's summary; in accuracy mode the largest difference from ONNX Runtime's results of
    `model`."""
    for _ in range(3):
        program.run(feeds[0])
    expected = 1.0
    if test.scenario == "Offline":
        # LoadGen hands out as many samples at once as are expected to fill the time, and a tenth
        # more.
        begin = time.perf_counter()
        for request in [program.submit(feed) for feed in feeds]:
            request.result()
        expected = 1.2 * SAMPLES / (time.perf_counter() - begin)
    sut = Sut(program, feeds)
    settings = loadgen.TestSettings()
    settings.scenario = getattr(loadgen.TestScenario, test.scenario)
    modes = loadgen.TestMode
    settings.mode = modes.AccuracyOnly if test.accuracy else modes.PerformanceOnly
    settings.min_duration_ms = int(test.seconds * 1000)
    settings.min_query_count = test.queries
    settings.multi_stream_samples_per_query = 8
    settings.server_target_qps = test.qps
    settings.server_target_latency_ns = int(test.bound_ms * 1e6)
    settings.offline_expected_qps = expected
    with tempfile.TemporaryDirectory() as folder:
        outputs = loadgen.LogOutputSettings()
        outputs.outdir = folder
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
        if test.accuracy:
            difference = judge(model, feeds, Path(folder))
            return {"Result is": "VALID", "largest difference": difference}
        text = (Path(folder) / "mlperf_log_summary.txt").read_text(encoding="utf-8")
    return {found[1]: found[2] for found in map(RESULT.match, text.splitlines()) if found}


def judge(model: Path, feeds: list[dict[str, np.ndarray]], folder: Path) -> str:
    """The largest difference of the first output from ONNX Runtime's, over that one's range. Raises
    ValueError where a sample was not answered."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    answers = json.loads((folder / "mlperf_log_accuracy.json").read_text(encoding="utf-8"))
    if {answer["qsl_idx"] for answer in answers} != set(range(len(feeds))):
        raise ValueError("LoadGen has no answer for some of the samples")
    largest = 0.0
    for answer in answers:
        wanted = session.run(None, feeds[answer["qsl_idx"]])[0]
        found = np.frombuffer(bytes.fromhex(answer["data"]), wanted.dtype).reshape(wanted.shape)
        scale = float(np.ptp(wanted)) or 1.0
        largest = max(largest, float(np.max(np.abs(found - wanted))) / scale)
    return f"{largest:.2e}"


def main() -> int:
    """Exit code 1 where LoadGen calls a result invalid."""
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument("model", type=Path)
    words.add_argument("--engine", action="append", help="may be repeated (default: native)")
    words.add_argument("--scenario", choices=SCENARIOS, default="SingleStream")
    words.add_argument("--url", help="HOST:PORT/NAME: a server's gRPC, in place of a program")
    words.add_argument("--accuracy", action="store_true", help="LoadGen's accuracy mode")
    words.add_argument("--seconds", type=float, default=10, help="least duration")
    words.add_argument("--queries", type=int, default=100, help="least number of queries")
    words.add_argument("--qps", type=float, default=50, help="of Server")
    words.add_argument("--bound-ms", type=float, default=100, help="of Server's latency")
    words.add_argument("--shape", action="append", default=[], metavar="INPUT=N,N,...")
    words.add_argument("--threads", type=int, default=0)
    words.add_argument("--streams", type=int, default=0)
    given = words.parse_args()
    invalid = False
    for engine in [given.url] if given.url else given.engine or ["native"]:
        told = measure(given, engine)
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
                    "difference",
                )
            ):
                print(f"  {name}: {value}")
    return 1 if invalid else 0


if __name__ == "__main__":
    sys.exit(main())
