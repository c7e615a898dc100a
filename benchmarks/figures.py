# SPDX-License-Identifier: Apache-2.0
"""The figures that the documentation shows: docs/background/figures.json, one section a benchmark.

Benchmarks with `--write` replace their section and make the page again
(benchmarks/make_performance.py). A section says the command, the machine and the versions of the
packages that were measured.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "docs" / "background" / "figures.json"
# Processor features that decide which kernels run.
FEATURES = {"avx2": "AVX2", "avx512f": "AVX-512", "avx512_vnni": "VNNI", "amx_int8": "AMX"}


def machine() -> str:
    """The processor of this machine, in words."""
    name, flags = "unknown processor", set()
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            name = value.strip()
        elif key.strip() == "flags":
            flags = set(value.split())
    features = [word for flag, word in FEATURES.items() if flag in flags]
    cores = len(os.sched_getaffinity(0))
    return f"{name}, {cores} logical processors ({', '.join(features) or 'none of the usual SIMD'})"


def versions(packages: list[str]) -> dict[str, str]:
    """The versions of installed packages; of openxrt the one that is imported."""
    import openxrt

    return {
        name: openxrt.__version__ if name == "openxrt" else metadata.version(name)
        for name in packages
    }


def rounded(value: Any) -> Any:
    """The same with four digits of every number, so that the file stays readable."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [rounded(entry) for entry in value]
    return value


def dump(figures: dict[str, Any]) -> None:
    """Writes the file, lists and objects that hold no others on one line each."""
    text = json.dumps(figures, indent=1, ensure_ascii=False)
    text = re.sub(r"[\[{][^][{}]*[\]}]", lambda match: re.sub(r"\s*\n\s*", " ", match[0]), text)
    FILE.write_text(text + "\n", encoding="utf-8")


def write_run(
    name: str,
    benchmark: str,
    threads: int,
    packages: list[str],
    content: dict[str, Any],
    arguments: list[str] | None = None,
) -> None:
    """Keeps what was measured as a section: the command (with `arguments`, or those of this
    process), the machine, the versions of the packages, and `content`.
    """
    if arguments is None:
        arguments = [argument for argument in sys.argv[1:] if argument != "--write"]
    section = {
        "command": shlex.join(["./dev", "bench", benchmark, *arguments]),
        "machine": machine(),
        "threads": threads,
        "versions": versions(packages),
    }
    write_section(name, section | content)


def write_section(name: str, section: dict[str, Any]) -> None:
    """Replaces a section of the file and makes the page of it."""
    figures = json.loads(FILE.read_text(encoding="utf-8"))
    dump({**figures, name: rounded(section)})
    subprocess.run([sys.executable, ROOT / "benchmarks" / "make_performance.py"], check=True)
