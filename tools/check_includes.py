#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks who includes whom.

The rooms of the source (docs/background/architecture.md) stand in one order, ORDER below.
A file may include its own room and the rooms below it. Engines never see a frontend, a pass or each
other; whoever is not an engine knows engines by the engine interface alone. A vendor's header stays
in the one room that wraps it.

    python tools/check_includes.py [ROOT]
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')

# The rooms in the order in which data goes down them: a file may include its own room and those
# before it.
ORDER = (
    "base",
    "device",
    "ir",
    "onnx",
    "ops",
    "options",
    "engine",  # the engine interface, include/xrt/engine.h
    "frontends",
    "passes",
    "autodiff",
    "quantize",
    "partition",
    "registry",
    "placement",
    "cache",
    "plan",
    "exec",
    "measure",
    "program",
    "training",
    "report",
    "data",
    "cli",
)

# Rooms beside the order -> rooms they may include besides themselves.
ALLOWED: dict[str, frozenset[str]] = {
    "data": frozenset({"base"}),
    "engines": frozenset({"base", "device", "data", "ir", "ops", "engine"}),
    "python": frozenset(ORDER) - {"cli", "data"},
}

ROOMS = frozenset(ORDER) | frozenset(ALLOWED)

# Public header -> the room it belongs to.
PUBLIC_HEADERS = {
    "attribute.h": "base",
    "dtype.h": "base",
    "error.h": "base",
    "export.h": "base",
    "precision.h": "base",
    "tensor.h": "base",
    "type.h": "base",
    "version.h": "base",
    "autodiff.h": "autodiff",
    "graph.h": "ir",
    "model.h": "frontends",
    "oneflow.h": "frontends",
    "onnx.h": "onnx",
    "op.h": "ir",
    "engine.h": "engine",
    "engine_blobs.h": "engine",
    "engine_stream.h": "base",
    "engine_threads.h": "base",
    "engine_workspace.h": "base",
    "engine_remarks.h": "base",
    "quantize.h": "quantize",
    "options.h": "options",
    "threads.h": "device",
    "registry.h": "registry",
    "explanation.h": "placement",
    "cache.h": "cache",
    "program.h": "program",
    "trainer.h": "training",
}

# Sources that belong to another room than their folder: the engine interface has none of its own.
SOURCES = {"src/ir/engine.cc": "engine"}

# Header prefix of a library -> the files that may include it, as a regular expression.
VENDORS: dict[str, str] = {
    "CLI/": r"src/cli/",
    "dnnl": r"src/engines/native/",
    "google/protobuf/": r"src/(frontends/onnx|onnx|ops)/",
    "jerror": r"src/data/",
    "jpeglib": r"src/data/",
    "nanobind/": r"python/",
    "oneapi/dnnl/": r"src/engines/native/",
    "onnx/": r"src/(frontends/onnx|onnx|ops)/",
    "openvino/": r"src/engines/openvino/",
    "png.h": r"src/data/",
    "pjrt_c_api": r"src/engines/xla/",
}


def room_of(path: str) -> str | None:
    """The room of a source file, given its path from the root; None where no rule applies."""
    if path in SOURCES:
        return SOURCES[path]
    parts = path.split("/")
    if parts[:2] == ["include", "xrt"]:
        return PUBLIC_HEADERS.get(parts[-1])
    if parts[0] == "python":
        return "python"
    if parts[0] != "src" or len(parts) < 3:
        return None
    if parts[1] == "engines":
        return f"engines/{parts[2]}"
    return parts[1]


def room_of_include(name: str) -> str | None:
    """The room that an included name belongs to; None for the standard library and the like."""
    if name.startswith("xrt/"):
        return PUBLIC_HEADERS.get(name.removeprefix("xrt/"), "unknown")
    first = name.split("/")[0]
    return room_of(f"src/{name}") if first in ROOMS and "/" in name else None


def may_include(room: str, other: str) -> bool:
    """Whether a file of `room` may include a header of `other`."""
    if room == other:
        return True
    name = room.split("/")[0]
    if name in ALLOWED:
        return other in ALLOWED[name]
    return other in ORDER[: ORDER.index(name)]


def check_file(root: Path, path: Path) -> list[str]:
    """The violations in one file, each as ``path:line: reason``."""
    relative = path.relative_to(root).as_posix()
    room = room_of(relative)
    problems = []
    if relative.startswith("include/xrt/") and room is None:
        problems.append(f"{relative}:1: public header without a room; name it in PUBLIC_HEADERS")
    if room and room.split("/")[0] not in ROOMS:
        problems.append(f"{relative}:1: unknown room {room}; name it in ORDER")
        room = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        name = match.group(2)
        for prefix, places in VENDORS.items():
            library = match.group(1) == "<"
            if library and name.startswith(prefix) and not re.match(places, relative):
                problems.append(f"{relative}:{number}: <{name}> belongs in {places} alone")
        internal = match.group(1) == '"' and not name.startswith("xrt/")
        if relative.startswith("include/xrt/") and internal:
            problems.append(f"{relative}:{number}: a public header includes internal {name}")
            continue
        other = room_of_include(name)
        if room and other and not may_include(room, other):
            problems.append(f"{relative}:{number}: {room} may not include {name} ({other})")
    return problems


def check_tree(root: Path) -> list[str]:
    """The violations of the whole tree."""
    problems = []
    for folder in ("include", "src", "python"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cc"):
                problems += check_file(root, path)
    return problems


def main() -> int:
    """Command line."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    problems = check_tree(root)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
