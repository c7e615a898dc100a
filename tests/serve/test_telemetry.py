# SPDX-License-Identifier: Apache-2.0
"""Counters as a Prometheus client reads them, and spans as OpenTelemetry's SDK exports them."""

from __future__ import annotations

import base64
import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import openxrt
import pytest
from openxrt.serve import ModelSettings, telemetry
from openxrt.serve.served_program import ServedProgram
from openxrt.serve.telemetry import RunMetrics, prometheus_counter
from serving import KServeProcess, free_ports, linear_model

prometheus = pytest.importorskip("prometheus_client")
parser = pytest.importorskip("prometheus_client.parser")
pytest.importorskip("opentelemetry.sdk")

from opentelemetry import trace  # noqa: E402
from opentelemetry.sdk.trace import TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402

X = np.ones((2, 4), np.float32)
TRACE = ["0af7651916cd43dd8448eb211c80319c", "1bf7651916cd43dd8448eb211c80319d"]
CALLERS = [{"traceparent": f"00-{number}-b7ad6b7169203331-01"} for number in TRACE]


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    """What the process has exported; a provider is set once in a process."""
    provider = TracerProvider()
    kept = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    trace.set_tracer_provider(provider)
    return kept


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> InMemorySpanExporter:
    exporter.clear()
    return exporter


def served(
    tmp_path: Path, metrics: RunMetrics | None = None, engine: str = "native"
) -> ServedProgram:
    linear_model(tmp_path / "m.onnx")
    settings = ModelSettings(options={"engine": engine})
    return ServedProgram(tmp_path / "m.onnx", settings, model="m", version="3", metrics=metrics)


def samples(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Name of each sample to its labels and value."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def page(url: str) -> str:
    with urllib.request.urlopen(url) as answer:
        return answer.read().decode()


def launch_counts(found: dict[str, Any], model: str) -> list[float]:
    """Of the model's launches, whose time is counted, too."""
    labels = [labels for labels, _ in found["xrt_launches_total"] if labels["model"] == model]
    assert all(entry["engine"] == "native" and entry["function"] for entry in labels)
    times = [v for entry, v in found["xrt_launch_duration_us_total"] if entry["model"] == model]
    assert len(times) == len(labels)
    assert all(value > 0 for value in times)
    return [value for entry, value in found["xrt_launches_total"] if entry["model"] == model]


def test_runs_and_launches_are_counted(tmp_path: Path) -> None:
    registry = prometheus.CollectorRegistry()
    program = served(tmp_path, RunMetrics(prometheus_counter(registry), "m", "3"))
    for _ in range(3):
        program.run({"x": X})
    with pytest.raises(openxrt.InvalidArgument):
        program.run({"x": np.ones((2, 5), np.float32)})
    found = samples(prometheus.generate_latest(registry).decode())
    runs = {"model": "m", "version": "3", "engines": "native"}
    assert (runs, 4.0) in found["xrt_runs_total"]
    assert (runs, 1.0) in found["xrt_run_failures_total"]
    (launches,) = launch_counts(found, "m")
    assert launches == 3


def test_a_run_is_a_span_of_its_request(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    program = served(tmp_path)
    spans.clear()
    before = time.time_ns()
    program.run({"x": X}, None, CALLERS)
    launch, run = spans.get_finished_spans()
    assert (run.name, launch.name) == ("xrt.run", "xrt.launch")
    assert dict(run.attributes) == {
        "xrt.model": "m",
        "xrt.version": "3",
        "xrt.engines": "native",
    }
    assert f"{run.context.trace_id:032x}" == TRACE[0]
    assert run.parent.span_id == 0xB7AD6B7169203331
    assert [f"{link.context.trace_id:032x}" for link in run.links] == [TRACE[1]]
    assert launch.parent.span_id == run.context.span_id
    assert launch.attributes["xrt.engine"] == "native"
    assert before <= run.start_time <= launch.start_time <= launch.end_time <= run.end_time


def test_a_run_that_fails_says_so_in_its_span(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    program = served(tmp_path)
    spans.clear()
    with pytest.raises(openxrt.InvalidArgument):
        program.run({"x": np.ones((2, 5), np.float32)})
    (run,) = spans.get_finished_spans()
    assert run.status.status_code is trace.StatusCode.ERROR
    assert [event.name for event in run.events] == ["exception"]


def test_runs_at_once_have_their_own_launches(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    registry = prometheus.CollectorRegistry()
    program = served(tmp_path, RunMetrics(prometheus_counter(registry), "m", "3"))
    spans.clear()

    def work() -> None:
        for _ in range(50):
            program.run({"x": X})

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    finished = spans.get_finished_spans()
    runs = {span.context.span_id for span in finished if span.name == "xrt.run"}
    parents = [span.parent.span_id for span in finished if span.name == "xrt.launch"]
    assert len(runs) == 400
    assert sorted(parents) == sorted(runs)
    assert launch_counts(samples(prometheus.generate_latest(registry).decode()), "m") == [400]


def test_a_collector_without_the_sdk_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr(
        telemetry, "find_spec", lambda name: None if name.endswith("sdk") else object()
    )
    with pytest.raises(openxrt.NotFound, match=r"openxrt\[otel\]"):
        telemetry.configure()


class Collector:
    """Of OTLP over HTTP: the spans that were sent."""

    def __init__(self) -> None:
        pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
        from google.protobuf import json_format
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
            ExportTraceServiceRequest as Request,
        )

        self.spans: list[Any] = []
        spans = self.spans

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers["Content-Type"] == "application/json":  # Triton's exporter
                    request = json_format.ParseDict(_bytes(json.loads(body)), Request())
                else:
                    request = Request.FromString(body)
                for resource in request.resource_spans:
                    for scope in resource.scope_spans:
                        spans.extend(scope.spans)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def wait(self, trace_id: str, caller: str = "") -> None:
        """Returns when the run, its launch and the run's parent have come: the span `caller`, or
        one that was sent."""
        for _ in range(200):
            found = {span.name: span for span in self.spans if span.trace_id.hex() == trace_id}
            sent = {span.span_id.hex() for span in self.spans} | {caller}
            if {"xrt.run", "xrt.launch"} <= set(found):
                run, launch = found["xrt.run"], found["xrt.launch"]
                assert launch.parent_span_id == run.span_id
                if run.parent_span_id.hex() in sent:
                    return
            time.sleep(0.1)
        raise AssertionError(f"of {trace_id} there is {sorted(found)}, without the run's parent")


def _bytes(value: Any) -> Any:
    """OTLP's JSON has numbers of traces and spans in hexadecimal, protobuf's JSON in base64."""
    if isinstance(value, list):
        return [_bytes(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    return {
        key: base64.b64encode(bytes.fromhex(entry)).decode()
        if key in ("traceId", "spanId", "parentSpanId")
        else _bytes(entry)
        for key, entry in value.items()
    }


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    running = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{running.port}")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    yield running
    running.server.shutdown()


def test_triton_counts_and_traces(models: Path, collector: Collector) -> None:
    http = pytest.importorskip("tritonclient.http")
    pytest.importorskip("pytriton")
    from openxrt.serve.triton_server import TritonServer

    tracing = [
        "level=TIMESTAMPS",
        "rate=1",
        "mode=opentelemetry",
        f"opentelemetry,url=http://127.0.0.1:{collector.port}/v1/traces",
        "opentelemetry,bsp_schedule_delay=100",
    ]
    arguments = tuple(f"--trace-config={word}" for word in tracing)
    with (
        TritonServer(models, port=free_ports(3), drain_s=2, arguments=arguments) as server,
        http.InferenceServerClient(f"127.0.0.1:{server.port}") as client,
    ):
        given = http.InferInput("x", [2, 4], "FP32")
        given.set_data_from_numpy(X)
        for _ in range(5):
            client.infer("plain", [given], headers=CALLERS[0])
        client.infer("batched", [given], headers=CALLERS[1])
        after = samples(page(f"http://127.0.0.1:{server.port + 2}/metrics"))
        assert launch_counts(after, "plain") == [5]  # those of the warm-up are not counted
        assert launch_counts(after, "batched") == [1]
        for number in TRACE:
            collector.wait(number)  # the run is a child of what Triton made of the request


def test_kserve_counts_and_traces(models: Path, collector: Collector) -> None:
    if find_spec("kserve") is None:
        pytest.skip("kserve is not installed")
    server = KServeProcess(models)
    try:
        body = (
            b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1,1,1,1]}]}'
        )
        for _ in range(4):
            request = urllib.request.Request(
                f"http://127.0.0.1:{server.port}/v2/models/plain/infer",
                body,
                {"Content-Type": "application/json", **CALLERS[0]},
            )
            with urllib.request.urlopen(request) as answer:
                assert answer.status == 200
        found = samples(page(f"http://127.0.0.1:{server.port}/metrics"))
        assert launch_counts(found, "plain") == [4]
        collector.wait(TRACE[0], "b7ad6b7169203331")
    finally:
        server.process.terminate()
        server.process.wait(60)
