# SPDX-License-Identifier: Apache-2.0
"""What one replica of a served model costs, and what a fleet of 1,000 needs.

    ./dev bench replicas
    ./dev bench replicas --model minilm --engine openvino,native --write

A replica is a process that imports openxrt, loads the model and runs it once. The first one finds
an empty cache folder; others find it full, one alone and several at once. A start maps the files
of the cache: their size is the most that it reads from a shared folder. The fleet's table
multiplies the first one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import figures
from own_memory import own_bytes
from zoo import ZOO

FLEET = 1000
AT_ONCE = (1, 2, 4)
RUN_S = 3.0


def replica(name: str, engines: str, cache: str, runs: bool) -> None:
    """The process: prints when its first run was done, and what it took."""
    import openxrt

    program = openxrt.load(ZOO[name].path(), engine=engines.split(","), cache_dir=cache)
    feeds = ZOO[name].feeds()
    program.run(feeds)
    told: dict[str, Any] = {
        "at": time.monotonic(),
        "rss": own_bytes("VmRSS"),
    }
    if runs:
        count, start, cpu = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - start < RUN_S:
            program.run(feeds)
            count += 1
        told["cpu_ms"] = 1e3 * (time.process_time() - cpu) / count
        told["per_s"] = count / (time.perf_counter() - start)
    print(json.dumps(told), flush=True)


def start(name: str, engines: str, cache: Path, count: int, runs: bool = False) -> list[dict]:
    """What each of so many replicas told, with `start_s` from the start of its process."""
    command = [sys.executable, __file__, "--replica", name, engines, os.fspath(cache)]
    command += ["runs"] if runs else []
    begin = time.monotonic()
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    told = []
    for process in processes:
        text, _ = process.communicate(timeout=300)
        if process.returncode != 0:
            raise RuntimeError(f"a replica of {name} ended with {process.returncode}")
        told.append(json.loads(text.splitlines()[-1]))
        told[-1]["start_s"] = told[-1]["at"] - begin
    return told


def median(told: list[dict], key: str) -> float:
    return statistics.median(row[key] for row in told)


def measure(name: str, engines: str) -> tuple[list[str], list[str]]:
    """A row of a replica's table, and one of the fleet's."""
    with tempfile.TemporaryDirectory(prefix="xrt-replicas-") as folder:
        cache = Path(folder) / "cache"
        cold = start(name, engines, cache, 1)
        warm = {count: start(name, engines, cache, count) for count in AT_ONCE}
        alone = [row for _ in range(4) for row in start(name, engines, cache, 1)] + warm[1]
        (busy,) = start(name, engines, cache, 1, runs=True)
        size = sum(file.stat().st_size for file in cache.rglob("*") if file.is_file())
    mib = 1 << 20
    row = [name, f"{cold[0]['start_s']:.2f}", f"{median(alone, 'start_s'):.2f}"]
    row += [f"{max(r['start_s'] for r in warm[count]):.2f}" for count in AT_ONCE[1:]]
    row += [f"{size / mib:.1f}", f"{median(alone, 'rss') / mib:.0f}", f"{busy['cpu_ms']:.1f}"]
    fleet = [
        name,
        f"{FLEET * size / (1 << 30):.0f}",
        f"{FLEET * median(alone, 'rss') / (1 << 30):.0f}",
    ]
    fleet += [f"{FLEET * busy['per_s']:.0f}", f"{1e6 * busy['cpu_ms'] / 3.6e6:.2f}"]
    return row, fleet


def main() -> int:
    """Exit code 1 where a model is missing."""
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument("--model", action="append", choices=sorted(ZOO), help="may be repeated")
    words.add_argument("--engine", default="openvino,native")
    words.add_argument("--write", action="store_true", help="keep the figures for the docs")
    given = words.parse_args()
    rows, fleet, missing = [], [], 0
    for name in given.model or ("ppocr_v6_rec", "minilm"):
        if (why := ZOO[name].why_missing()) is not None:
            print(f"missing: {why}", file=sys.stderr)
            missing = 1
            continue
        row, of_fleet = measure(name, given.engine)
        rows.append(row)
        fleet.append(of_fleet)
    heads = ["model", "first start, s", "start from cache, s"]
    heads += [f"{count} at once, s" for count in AT_ONCE[1:]]
    heads += ["cache, MiB", "memory, MiB", "processor ms a run"]
    tables = [
        {"title": f"A replica (`{given.engine}`)", "columns": heads, "rows": rows},
        {
            "title": f"{FLEET} replicas, each on a machine like this one",
            "columns": [
                "model",
                "read from a shared cache at most, GiB",
                "memory, GiB",
                "runs a second",
                "processor hours a million runs",
            ],
            "rows": fleet,
        },
    ]
    for table in tables:
        print(f"\n{table['title']}")
        for line in (table["columns"], *table["rows"]):
            print("  " + " | ".join(line))
    if given.write:
        threads = len(os.sched_getaffinity(0))
        figures.write_run(
            "replicas", "replicas", threads, ["openxrt", "openvino"], {"tables": tables}
        )
    return missing


if __name__ == "__main__":
    if sys.argv[1:2] == ["--replica"]:
        replica(*sys.argv[2:5], runs="runs" in sys.argv[5:])
    else:
        sys.exit(main())
