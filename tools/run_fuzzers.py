#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the libFuzzer programs in build/fuzz/fuzz, each from a corpus of small real models.

python tools/run_fuzzers.py [TARGET] [RUNS]
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "fuzz"
# Larger files make few mutations a second and find nothing that small ones do not.
SEED_BYTES = 20_000
SEED_COUNT = 400


def collect_seeds(target: str) -> Path:
    """The corpus folder of a target: tests/fuzz/corpus/<target>, and small models of onnx."""
    corpus = BUILD / "corpus" / target
    corpus.mkdir(parents=True, exist_ok=True)
    own = ROOT / "tests" / "fuzz" / "corpus" / target
    if own.is_dir():
        for file in sorted(own.iterdir()):
            shutil.copy(file, corpus / file.name)
    if target == "read_flat":  # what to change, and the text of a graph
        for file in sorted((own.parent / "parse_graph").iterdir()):
            (corpus / file.name).write_bytes(bytes(8) + file.read_bytes())
    if target == "import_oneflow":  # jobs with gradients and updates
        for file in sorted((ROOT / "tests" / "frontends" / "oneflow" / "data").glob("*.mlir.gz")):
            (corpus / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
    spec = importlib.util.find_spec("onnx")
    if "model" in target and spec is not None and spec.submodule_search_locations:
        data = Path(next(iter(spec.submodule_search_locations))) / "backend" / "test" / "data"
        models = [f for f in sorted(data.rglob("*.onnx")) if f.stat().st_size <= SEED_BYTES]
        step = max(1, len(models) // SEED_COUNT)
        for file in models[::step]:
            name = "-".join(file.relative_to(data).parts[-2:])
            shutil.copy(file, corpus / name)
    return corpus


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", nargs="?", help="one program (default: all)")
    parser.add_argument("runs", nargs="?", type=int, default=10_000)
    arguments = parser.parse_args()

    programs = sorted(
        p for p in (BUILD / "fuzz").glob("*") if os.access(p, os.X_OK) and p.is_file()
    )
    if arguments.target:
        programs = [p for p in programs if p.name == arguments.target]
    if not programs:
        print(f"no fuzz program {arguments.target or ''} in {BUILD / 'fuzz'}", file=sys.stderr)
        return 2
    crashes = BUILD / "crashes"
    crashes.mkdir(parents=True, exist_ok=True)
    failed = []
    for program in programs:
        corpus = collect_seeds(program.name)
        seeds = len(list(corpus.iterdir()))
        # libFuzzer counts the reading of the seeds as runs; the mutations come on top.
        command = [
            str(program),
            f"-runs={arguments.runs + seeds}",
            f"-artifact_prefix={crashes}/{program.name}-",
            "-timeout=10",
            "-rss_limit_mb=2048",
            "-malloc_limit_mb=1024",
            "-max_len=65536",
            "-print_final_stats=1",
            "-verbosity=0",
            "-print_funcs=0",
            "-seed=1",
            str(corpus),
        ]
        print(f"==> {program.name}: {arguments.runs} mutations of {seeds} files", flush=True)
        done = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        lines = done.stdout.decode(errors="replace").splitlines()
        if done.returncode != 0:
            failed.append(program.name)
            print("\n".join(lines[-200:]))
        else:
            print("\n".join(line for line in lines if line.startswith("stat::")), flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}; the inputs are in {crashes}")
        return 1
    print("no crash")
    return 0


if __name__ == "__main__":
    sys.exit(main())
