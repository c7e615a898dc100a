# SPDX-License-Identifier: Apache-2.0
"""What programs and libraries ask of a machine's C and C++ libraries."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

# What manylinux_2_28 allows: Red Hat Enterprise Linux 8.
NEWEST = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 25), "CXXABI": (1, 3, 11)}


def binaries(folder: Path) -> Iterator[Path]:
    """All ELF files below a folder, whatever their names."""
    for file in sorted(folder.rglob("*")):
        if file.is_symlink() or not file.is_file():
            continue
        with file.open("rb") as start:
            if start.read(4) == b"\x7fELF":
                yield file


def needed_versions(file: Path) -> set[str]:
    """As {"GLIBC_2.17", "GCC_3.0"}."""
    told = subprocess.run(
        ["readelf", "--version-info", "--wide", file], capture_output=True, text=True, check=True
    ).stdout
    _, found, needs = told.partition("Version needs section '.gnu.version_r'")
    return {
        line.split("Name: ")[1].split()[0]
        for line in needs.splitlines()
        if found and "Name: " in line
    }


def too_new(versions: set[str]) -> list[str]:
    """Those that a machine of manylinux_2_28 has not."""
    found = []
    for version in sorted(versions):
        family, _, number = version.partition("_")
        if family not in NEWEST or not number[:1].isdigit():
            continue
        if tuple(int(part) for part in number.split(".")) > NEWEST[family]:
            found.append(version)
    return found
