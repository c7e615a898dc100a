#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the size of the lite runtime's code, by part, for x86-64 and for Cortex-M.

    ./dev bench lite_size [--check]

Text and data of the objects, as `size` counts them. --check fails where a limit is passed.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

RUNTIME = Path(__file__).resolve().parent.parent / "lite" / "runtime"
FLAGS = [
    *("-std=c11", "-Os", "-ffunction-sections", "-fdata-sections"),
    *("-fno-asynchronous-unwind-tables", "-fvisibility=hidden", "-ffp-contract=off"),
]
TARGETS = {
    "x86-64": (["gcc"], "size"),
    "cortex-m4": (["arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb"], "arm-none-eabi-size"),
}
KIB = 1024
LIMITS = {
    ("x86-64", "core"): 40 * KIB,
    ("x86-64", "core with dispatch of generic"): 50 * KIB,
    ("cortex-m4", "core"): 20 * KIB,
}


def code_bytes(target: str, sources: list[Path]) -> int | None:
    """Text and data of the sources' objects; None where the compiler is not installed."""
    compiler, size = TARGETS[target]
    if shutil.which(compiler[0]) is None:
        return None
    include = [f"-I{RUNTIME / 'include'}", f"-I{RUNTIME / 'src'}"]
    with tempfile.TemporaryDirectory() as folder:
        objects = []
        for source in sources:
            objects.append(f"{folder}/{source.parent.name}_{source.stem}.o")
            command = [*compiler, *FLAGS, *include, "-c", str(source), "-o", objects[-1]]
            subprocess.run(command, check=True)
        done = subprocess.run([size, "-t", *objects], check=True, capture_output=True, text=True)
    text, data = done.stdout.splitlines()[-1].split()[:2]
    return int(text) + int(data)


def table() -> dict[tuple[str, str], int]:
    """Bytes by target and part."""
    core = sorted((RUNTIME / "src").glob("*.c"))
    generic = sorted((RUNTIME / "drivers" / "generic").glob("*.c"))
    dispatch = [file for file in generic if file.name == "driver.c"]
    cortex_m = sorted((RUNTIME / "drivers" / "cortex_m").glob("*.c"))
    shared = [file for file in generic if file.stem in ("data", "ew", "pool", "reduce")]
    parts = {
        "core": core,
        "core with dispatch of generic": core + dispatch,
        "core with all of generic": core + generic,
        "core with all of cortex-m": core + cortex_m + shared,
    }
    sizes = {}
    for target in TARGETS:
        for part, sources in parts.items():
            size = code_bytes(target, sources)
            if size is not None:
                sizes[target, part] = size
    return sizes


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="fail where a limit is passed")
    arguments = parser.parse_args()
    failed = False
    print(f"{'target':<10} {'part':<30} {'text+data':>10} {'limit':>8}")
    for (target, part), size in table().items():
        limit = LIMITS.get((target, part))
        print(f"{target:<10} {part:<30} {size:>10} {limit or '':>8}")
        failed = failed or (limit is not None and size > limit)
    return int(arguments.check and failed)


if __name__ == "__main__":
    sys.exit(main())
