#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Language models: prefill and decode beside llama.cpp, ONNX Runtime GenAI and OpenVINO GenAI.

    ./dev run python benchmarks/language.py model.gguf
    ./dev run python benchmarks/language.py model.gguf --genai FOLDER --runtimes xrt llama genai

Each runtime is a process of its own, which loads the model and then works only when it is told to:
they take turns, so that a machine that is slow for a while is slow for all of them. A turn feeds a
prompt of so many tokens, greedy, and generates so many. Figures are medians over the turns; memory
is what the process holds more than before it loaded the model (resident; and of that, what is not
a mapped file). The first tokens of all runtimes are compared with those of the first one.

llama: PyPI llama-cpp-python; genai: PyPI onnxruntime-genai, on a folder that its builder wrote; ov:
PyPI openvino-genai, which reads GGUF files.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from own_memory import own_bytes

# (tokens, new tokens) -> the new tokens, seconds to the first, seconds from the first to the last
Turn = Callable[[list[int], int], tuple[list[int], float, float]]


def memory() -> tuple[int, int]:
    """Bytes resident, and of them those that are no mapped files."""
    return own_bytes("VmRSS"), own_bytes("RssAnon")


def xrt(arguments: argparse.Namespace, engine: str, **options: Any) -> Turn:
    import openxrt.generate

    model = openxrt.generate.load(
        arguments.model, engine=engine, num_threads=arguments.threads, **options
    )
    model.tokenizer.ends = frozenset()

    def turn(tokens: list[int], count: int) -> tuple[list[int], float, float]:
        found = model.generate(tokens, max_tokens=count, greedy=True)
        rest = (count - 1) / found.tokens_per_s if count > 1 else 0.0
        return found.tokens, found.first_token_s, rest

    return turn


def llama(arguments: argparse.Namespace) -> Turn:
    from llama_cpp import Llama

    model = Llama(
        str(arguments.model),
        n_ctx=arguments.prompt + arguments.tokens + 64,
        n_batch=512,
        n_threads=arguments.threads,
        n_threads_batch=arguments.threads,
        verbose=False,
    )

    def turn(tokens: list[int], count: int) -> tuple[list[int], float, float]:
        model.reset()
        begin = time.perf_counter()
        found: list[int] = []
        first = begin
        for token in model.generate(tokens, temp=0.0, repeat_penalty=1.0, reset=True):
            if not found:
                first = time.perf_counter()
            found.append(int(token))
            if len(found) == count:
                break
        return found, first - begin, time.perf_counter() - first

    return turn


def genai(arguments: argparse.Namespace) -> Turn:
    import onnxruntime_genai as og

    config = og.Config(str(arguments.genai))
    config.overlay(
        json.dumps(
            {"model": {"decoder": {"session_options": {"intra_op_num_threads": arguments.threads}}}}
        )
    )
    model = og.Model(config)

    def turn(tokens: list[int], count: int) -> tuple[list[int], float, float]:
        length = len(tokens) + count
        options = og.GeneratorParams(model)
        options.set_search_options(max_length=length, min_length=length, do_sample=False)
        begin = time.perf_counter()
        generator = og.Generator(model, options)
        generator.append_tokens(tokens)
        found: list[int] = []
        first = begin
        while len(found) < count:
            generator.generate_next_token()
            if not found:
                first = time.perf_counter()
            found.append(int(generator.get_next_tokens()[0]))
        return found, first - begin, time.perf_counter() - first

    return turn


def openvino(arguments: argparse.Namespace) -> Turn:
    import numpy as np
    import openvino as ov
    import openvino_genai as og

    pipeline = og.LLMPipeline(str(arguments.model), "CPU", INFERENCE_NUM_THREADS=arguments.threads)

    def turn(tokens: list[int], count: int) -> tuple[list[int], float, float]:
        config = og.GenerationConfig()
        config.max_new_tokens = count
        config.ignore_eos = True
        config.do_sample = False
        ids = ov.Tensor(np.array([tokens], np.int64))

        begin = time.perf_counter()
        result = pipeline.generate(ids, config)
        metrics = result.perf_metrics
        first = metrics.get_ttft().mean / 1e3
        return list(result.tokens[0]), first, time.perf_counter() - begin - first

    return turn


RUNTIMES: dict[str, Callable[[argparse.Namespace], Turn]] = {
    "xrt": lambda a: xrt(a, a.engine),
    "xrt-int8": lambda a: xrt(a, a.engine, activations="int8"),
    "llama": llama,
    "genai": genai,
    "ov": openvino,
}


def serve(arguments: argparse.Namespace) -> None:
    """The process of one runtime: a line of JSON in, a line out."""
    before = memory()
    begin = time.perf_counter()
    turn = RUNTIMES[arguments.serve](arguments)
    loaded = time.perf_counter() - begin
    print(json.dumps({"load_s": loaded}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        tokens, first, rest = turn(order["tokens"], order["count"])
        now = memory()
        grown = [n - b for n, b in zip(now, before, strict=True)]
        answer = {"tokens": tokens, "first_s": first, "rest_s": rest, "memory": grown}
        print(json.dumps(answer), flush=True)


class Peer:
    """A runtime in its process."""

    def __init__(self, name: str, arguments: argparse.Namespace, python: str) -> None:
        command = [python, __file__, str(arguments.model), "--serve", name]
        for key in ("threads", "prompt", "tokens", "engine", "genai"):
            command += [f"--{key}", str(getattr(arguments, key))]
        self.name = name
        environment = dict(os.environ)
        if not name.startswith("xrt"):
            environment.pop("PYTHONPATH", None)  # peers have their own environment
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.load_s = self._answer()["load_s"]
        self.turns: list[dict[str, Any]] = []

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise SystemExit(f"{self.name} ended with code {self.process.wait()}")

    def turn(self, tokens: list[int], count: int) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"tokens": tokens, "count": count}) + "\n")
        self.process.stdin.flush()
        return self._answer()


def main() -> int:
    """Prints a line per runtime."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path, help="a GGUF file")
    parser.add_argument(
        "--genai", type=Path, default=Path(), help="a folder for ONNX Runtime GenAI"
    )
    parser.add_argument("--runtimes", nargs="+", choices=RUNTIMES, default=["xrt", "llama", "ov"])
    parser.add_argument("--engine", default="native", help="of xrt")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512, help="tokens of the long prompt")
    parser.add_argument("--tokens", type=int, default=64, help="new tokens of a turn")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers-python", default=sys.executable, help="that has the peers")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments)
        return 0
    peers = [
        Peer(
            name,
            arguments,
            sys.executable if name.startswith("xrt") else arguments.peers_python,
        )
        for name in arguments.runtimes
    ]
    short = [504, 3575, 282, 4649, 314]
    long = [1000 + (i * 7919) % 40000 for i in range(arguments.prompt)]
    cold = {p.name: p.turn(short, arguments.tokens) for p in peers}
    for p in peers:
        p.turn(long, 1)
    decode: dict[str, list[float]] = {p.name: [] for p in peers}
    prefill: dict[str, list[float]] = {p.name: [] for p in peers}
    last: dict[str, dict[str, Any]] = {}
    for _ in range(arguments.rounds):
        for p in peers:
            last[p.name] = p.turn(short, arguments.tokens)
            decode[p.name].append((arguments.tokens - 1) / last[p.name]["rest_s"])
            prefill[p.name].append(arguments.prompt / p.turn(long, 1)["first_s"])
    rows = []
    wanted = last[peers[0].name]["tokens"]
    for p in peers:
        found = last[p.name]["tokens"]
        same = next(
            (i for i, (a, b) in enumerate(zip(found, wanted, strict=False)) if a != b), len(found)
        )
        rows.append(
            {
                "runtime": p.name,
                "decode_tokens_per_s": median(decode[p.name]),
                "prefill_tokens_per_s": median(prefill[p.name]),
                "load_s": p.load_s,
                "first_token_s": cold[p.name]["first_s"],
                "warm_first_token_s": last[p.name]["first_s"],
                "resident_mb": last[p.name]["memory"][0] / 1e6,
                "anonymous_mb": last[p.name]["memory"][1] / 1e6,
                "same_tokens": same,
            }
        )
    for row in rows:
        print(
            f"{row['runtime']:10} decode {row['decode_tokens_per_s']:7.1f}/s   prefill "
            f"{row['prefill_tokens_per_s']:7.1f}/s   load {row['load_s']:5.2f} s   first token "
            f"{row['first_token_s']:6.3f} s, then {row['warm_first_token_s']:6.3f} s   "
            f"{row['resident_mb']:6.0f} MB ({row['anonymous_mb']:.0f} anonymous)   "
            f"{row['same_tokens']} tokens the same"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
