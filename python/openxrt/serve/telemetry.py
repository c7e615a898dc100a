# SPDX-License-Identifier: Apache-2.0
"""What a server tells of its runs: counters for Prometheus, spans for OpenTelemetry.

The servers publish the counters at their own endpoints: Triton's Python backend has metrics of its
own, KServe's server shows those of prometheus_client. Spans are made with OpenTelemetry's API,
which does nothing until a provider is set; configure() sets one where the variables of
OpenTelemetry name a collector.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .. import NotFound

if TYPE_CHECKING:
    from .._core import LaunchEvent

# Counter to its description and the labels that it has beside model and version.
COUNTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "xrt_runs_total": ("Runs of the program, failed ones included", ("engines",)),
    "xrt_run_failures_total": ("Runs of the program that failed", ("engines",)),
    "xrt_run_duration_us_total": ("Microseconds in which the program ran, summed", ("engines",)),
    "xrt_launches_total": ("Launches of a function by its engine", ("engine", "function")),
    "xrt_launch_duration_us_total": (
        "Microseconds in which an engine ran a function, summed",
        ("engine", "function"),
    ),
}
# Either names a collector; the second is of spans alone.
ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
INSTALL = "pip install 'openxrt[otel]'"

Increment = Callable[[float], object]
"""Adds to one counter of one set of labels."""


class RunMetrics:
    """The counters of one version of a model.

    Args:
        counter: makes or finds the counter of a name of COUNTERS with all its labels.
        model: name of the model.
        version: number of the version.
    """

    def __init__(
        self, counter: Callable[[str, Mapping[str, str]], Increment], model: str, version: str
    ) -> None:
        self._counter = counter
        self._labels = {"model": model, "version": version}
        self._known: dict[tuple[str, ...], Increment] = {}

    def add_run(self, engines: str, microseconds: float, failed: bool) -> None:
        """Counts a run of the program."""
        self._add("xrt_runs_total", 1, engines=engines)
        self._add("xrt_run_failures_total", int(failed), engines=engines)
        self._add("xrt_run_duration_us_total", microseconds, engines=engines)

    def add_launches(self, launches: Sequence[LaunchEvent]) -> None:
        """Counts launches, of one run or of several."""
        for launch in launches:
            labels = {"engine": launch.engine, "function": launch.function}
            self._add("xrt_launches_total", 1, **labels)
            self._add("xrt_launch_duration_us_total", launch.duration_us, **labels)

    def _add(self, name: str, value: float, **labels: str) -> None:
        key = (name, *labels.values())
        increment = self._known.get(key)
        if increment is None:
            increment = self._counter(name, {**self._labels, **labels})
            self._known[key] = increment
        increment(value)


def prometheus_counter(registry: Any = None) -> Callable[[str, Mapping[str, str]], Increment]:
    """Counters of prometheus_client, in its own registry unless another one is given."""
    import prometheus_client

    registry = registry or prometheus_client.REGISTRY
    counters = {
        # prometheus_client puts _total behind the name.
        name: prometheus_client.Counter(
            name.removesuffix("_total"), text, ("model", "version", *labels), registry=registry
        )
        for name, (text, labels) in COUNTERS.items()
    }
    return lambda name, labels: counters[name].labels(**labels).inc


def configure() -> None:
    """Sends spans to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names, as OpenTelemetry's
    specification says; without it, spans go to whatever provider the process has set.

    Raises NotFound where a collector is named and OpenTelemetry's SDK is not installed.
    """
    if not any(os.environ.get(name) for name in ENDPOINTS):
        return
    if find_spec("opentelemetry") is None or any(
        find_spec(f"opentelemetry.{name}") is None for name in ("sdk", "exporter")
    ):
        raise NotFound(f"{ENDPOINTS[0]} is set, and there is no opentelemetry-sdk: {INSTALL}")
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if isinstance(trace.get_tracer_provider(), TracerProvider):
        return  # the process has one
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)


class RunSpan:
    """The span of one run; of nothing where OpenTelemetry's API is not installed."""

    def __init__(self, span: Any, tracer: Any) -> None:
        self._span, self._tracer = span, tracer

    def add_launches(self, launches: Sequence[LaunchEvent]) -> None:
        """Makes a child of each launch. A launch knows its time since the program was made: the
        last one is put at the present."""
        if self._span is None or not launches or not self._span.is_recording():
            return
        from opentelemetry import trace

        shift = time.time_ns() - int(1e3 * max(e.start_us + e.duration_us for e in launches))
        parent = trace.set_span_in_context(self._span)
        for launch in launches:
            begin = shift + int(1e3 * launch.start_us)
            attributes = {"xrt.engine": launch.engine, "xrt.function": launch.function}
            child = self._tracer.start_span(
                "xrt.launch", context=parent, attributes=attributes, start_time=begin
            )
            child.end(end_time=begin + int(1e3 * launch.duration_us))


@contextmanager
def run_span(
    model: str, version: str, engines: str, callers: Sequence[Mapping[str, str]] = ()
) -> Iterator[RunSpan]:
    """The span "xrt.run" around a run; an exception is recorded in it.

    Args:
        model: name of the model.
        version: number of its version.
        engines: that run it.
        callers: the W3C trace context of each request that shares the run, as headers. The span is
            a child of the first and linked to the others.
    """
    if find_spec("opentelemetry") is None:
        yield RunSpan(None, None)
        return
    from opentelemetry import propagate, trace

    contexts = [propagate.extract(dict(caller)) for caller in callers]
    links = [
        trace.Link(span.get_span_context())
        for span in map(trace.get_current_span, contexts[1:])
        if span.get_span_context().is_valid
    ]
    tracer = trace.get_tracer("openxrt")
    with tracer.start_as_current_span(
        "xrt.run",
        context=contexts[0] if contexts else None,
        attributes={"xrt.model": model, "xrt.version": version, "xrt.engines": engines},
        links=links,
    ) as span:
        yield RunSpan(span, tracer)
