# SPDX-License-Identifier: Apache-2.0
"""Requests per second of one program that runs several at once, beside the same engine by itself.

    ./dev bench throughput                           # ResNet-50 and SqueezeNet, 2 streams
    ./dev bench throughput --streams 4 --threads 8   # 4 streams of 2 threads
    ./dev bench throughput --json FILE

Peers in the same process, in turns: OpenVINO's AsyncInferQueue with as many requests and
NUM_STREAMS, and ONNX Runtime with as many threads that call one session whose intra-op threads are
those of one stream. `ratio` is ours over the peer's, the median over rounds; more is better.
"""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

import openvino
import openxrt
from zoo import ZOO, Feeds, ZooModel

Serve = Callable[[float], float]
"""Serves for so many seconds; requests per second."""


def session(model: ZooModel, threads: int, streams: int, feeds: Feeds) -> Serve:
    """ONNX Runtime, called by a thread for each stream."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = (threads - 1) * streams + 1
    options.inter_op_num_threads = 1
    runner = onnxruntime.InferenceSession(
        str(model.path()), options, providers=["CPUExecutionProvider"]
    )

    def serve(seconds: float) -> float:
        counts = [0] * streams
        begin = time.perf_counter()

        def call(stream: int) -> None:
            while time.perf_counter() - begin < seconds:
                runner.run(None, feeds)
                counts[stream] += 1

        callers = [threading.Thread(target=call, args=(n,)) for n in range(streams)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        return sum(counts) / (time.perf_counter() - begin)

    return serve


def async_infer_queue(model: ZooModel, threads: int, streams: int, feeds: Feeds) -> Serve:
    """OpenVINO's own queue of requests."""
    compiled = openvino.Core().compile_model(
        str(model.path()),
        "CPU",
        {
            "NUM_STREAMS": streams,
            "INFERENCE_NUM_THREADS": threads * streams,
            "INFERENCE_PRECISION_HINT": "f32",
        },
    )
    queue = openvino.AsyncInferQueue(compiled, streams)

    def serve(seconds: float) -> float:
        count = 0
        begin = time.perf_counter()
        while time.perf_counter() - begin < seconds:
            queue.start_async(feeds, share_inputs=True)
            count += 1
        queue.wait_all()
        return count / (time.perf_counter() - begin)

    return serve


def program(model: ZooModel, engine: str, threads: int, streams: int, feeds: Feeds) -> Serve:
    """Ours; what is under way is twice the streams, so that none waits for the caller."""
    ours = openxrt.load(
        model.path(),
        engine=[engine],
        streams=streams,
        num_threads=threads * streams,
        check_results=False,
        cache_dir="",
    )

    def serve(seconds: float) -> float:
        requests: list[openxrt.Request] = []
        count = 0
        begin = time.perf_counter()
        while time.perf_counter() - begin < seconds:
            requests.append(ours.submit(feeds))
            count += 1
            if len(requests) == 2 * streams:
                requests.pop(0).result()
        for request in requests:
            request.result()
        return count / (time.perf_counter() - begin)

    return serve


PEERS = {"openvino": async_infer_queue, "onnxruntime": session}


def compare(model: ZooModel, engine: str, arguments: argparse.Namespace) -> dict[str, float | str]:
    """One row."""
    streams = arguments.streams
    threads = max(1, arguments.threads // streams)
    feeds = model.feeds()
    ours = program(model, engine, threads, streams, feeds)
    peer = PEERS.get(engine)
    theirs = None if peer is None else peer(model, threads, streams, feeds)
    one = program(model, engine, threads * streams, 1, feeds)
    for serve in filter(None, (ours, theirs, one)):
        serve(0.3)
    rates: dict[str, list[float]] = {"ours": [], "peer": [], "one": []}
    for _ in range(arguments.rounds):
        rates["ours"].append(ours(arguments.seconds))
        if theirs is not None:
            rates["peer"].append(theirs(arguments.seconds))
        rates["one"].append(one(arguments.seconds))
    row: dict[str, float | str] = {"model": model.name, "engine": engine}
    row["requests_per_s"] = statistics.median(rates["ours"])
    row["one_stream"] = statistics.median(rates["one"])
    if theirs is not None:
        row["peer"] = statistics.median(rates["peer"])
        row["ratio"] = statistics.median(
            a / b for a, b in zip(rates["ours"], rates["peer"], strict=True)
        )
    return row


def main() -> None:
    """Parses, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="resnet50,squeezenet1_1")
    parser.add_argument("--engines", default="openvino,onnxruntime,native")
    parser.add_argument("--streams", type=int, default=2)
    parser.add_argument("--threads", type=int, default=openxrt.thread_budget(), help="of all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each turn")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    openxrt.set_num_threads(arguments.threads)
    rows = []
    print(f"{arguments.streams} streams, {arguments.threads} threads in all; requests/s")
    print(f"{'model':<16}{'engine':<14}{'ours':>9}{'peer':>9}{'ratio':>8}{'one stream':>12}")
    for name in arguments.models.split(","):
        model = ZOO[name]
        if missing := model.why_missing():
            parser.error(missing)
        for engine in arguments.engines.split(","):
            row = compare(model, engine, arguments)
            rows.append(row)
            peer = f"{row['peer']:>9.1f}{row['ratio']:>8.3f}" if "peer" in row else f"{'':>17}"
            print(
                f"{row['model']:<16}{engine:<14}{row['requests_per_s']:>9.1f}{peer}"
                f"{row['one_stream']:>12.1f}",
                flush=True,
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
