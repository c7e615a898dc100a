# SPDX-License-Identifier: Apache-2.0
"""Writes the assembler source and the version script of a libstdc++.so.6 that ends with GCC 8.

    python libstdcxx_stub.py /usr/lib/x86_64-linux-gnu/libstdc++.so.6 FOLDER

The library that is built of them is only linked against: it has names, kinds, sizes and versions of
the symbols, and no code. What is newer is left out, so that the linker takes it from a static
library.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

# What Red Hat Enterprise Linux 8 has: GCC 8.
NEWEST = {"GLIBCXX": (3, 4, 25), "CXXABI": (1, 3, 11)}
# Other versions of the library: they do not grow.
KEPT = {"CXXABI_TM_1", "CXXABI_FLOAT128", "GLIBCXX_LDBL_3.4", "CXXABI_LDBL_1.3"}
SYMBOL = re.compile(
    r"^\s*\d+: [0-9a-f]+\s+(\d+|0x[0-9a-f]+) (FUNC|OBJECT|TLS|IFUNC)\s+(GLOBAL|WEAK|UNIQUE)\s+"
    r"DEFAULT\s+\d+ ([^@\s]+)@@?(\S+)"
)


def numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version's name."""
    return tuple(int(part) for part in version.split("_")[-1].split("."))


def is_old(version: str) -> bool:
    """Whether the oldest library that is supported has it."""
    if version in KEPT:
        return True
    family = version.split("_")[0]
    return family in NEWEST and numbers(version) <= NEWEST[family]


def main(library: str, folder: Path) -> None:
    """Writes folder/libstdcxx.s and folder/libstdcxx.map."""
    table = subprocess.run(
        ["readelf", "--wide", "--dyn-syms", library], check=True, capture_output=True, text=True
    ).stdout
    symbols: dict[str, list[tuple[str, str, int]]] = {}
    for line in table.splitlines():
        found = SYMBOL.match(line)
        if found and is_old(found[5]):
            symbols.setdefault(found[4], []).append((found[5], found[2], int(found[1], 0)))
    versions = sorted({row[0] for rows in symbols.values() for row in rows})
    lines = []
    for name, rows in sorted(symbols.items()):
        # The linker takes the newest of a name, as it does of the real library.
        version, kind, size = max(
            rows, key=lambda row: (row[0] not in KEPT, numbers_or_none(row[0]))
        )
        label = f"xrt_stub_{len(lines)}"
        section = {"FUNC": ".text", "IFUNC": ".text", "OBJECT": ".data"}.get(kind, ".tdata")
        word = {"FUNC": "function", "IFUNC": "function", "OBJECT": "object"}.get(kind, "tls_object")
        space = 1 if section == ".text" else max(size, 1)
        flags = ',"awT",@progbits' if section == ".tdata" else ""
        lines.append(
            f"{'.section ' if flags else ''}{section}{flags}\n.globl {label}\n"
            f".type {label}, @{word}\n.size {label}, {size}\n"
            f".symver {label}, {name}@@@{version}\n{label}: .skip {space}"
        )
    text = "\n".join(lines) + '\n.section .note.GNU-stack,"",@progbits\n'
    (folder / "libstdcxx.s").write_text(text)
    script = "".join(f"{version} {{ }};\n" for version in versions)
    (folder / "libstdcxx.map").write_text(script)


def numbers_or_none(version: str) -> tuple[int, ...]:
    """As numbers(), of a version that may have none."""
    return () if version in KEPT else numbers(version)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
