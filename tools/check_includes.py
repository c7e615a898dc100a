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

import os
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
    "isolation",  # engines in a process of their own
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
    "evaluation",
    "capi",
    "worker",  # the program of such a process
    "cli",
)

# Rooms beside the order -> rooms they may include besides themselves.
ALLOWED: dict[str, frozenset[str]] = {
    "data": frozenset({"base", "program"}),
    "engines": frozenset({"base", "device", "data", "ir", "ops", "engine"}),
    "python": frozenset(ORDER) - {"cli"},
    # The C runtime of lite: its interface, the core that loads and runs files, the drivers with the
    # tiles that several of them share, and what a host system gives.
    "lite/runtime/include": frozenset(),
    "lite/runtime/src": frozenset({"lite/runtime/include"}),
    "lite/runtime/drivers": frozenset({"lite/runtime/include", "lite/runtime/src"}),
    "lite/runtime/platform": frozenset({"lite/runtime/include", "lite/runtime/src"}),
    # The compiler knows the file format and how the kernels want their weights.
    "lite/compiler": frozenset(ORDER[: ORDER.index("training")])
    | {"lite/runtime/include", "lite/runtime/src", "lite/runtime/drivers"},
    "lite/tools": frozenset(ORDER)
    | {"lite/compiler", "lite/runtime/include", "lite/runtime/src", "lite/runtime/drivers"},
}

ROOMS = frozenset(ORDER) | frozenset(ALLOWED)

# Folders that lite's targets search for headers, besides the folder of the file itself
# (lite/*/CMakeLists.txt).
LITE_FOLDERS = {
    "lite/runtime": ("lite/runtime/include", "lite/runtime/src"),
    "lite/compiler": (
        "lite/compiler",
        "lite/runtime/include",
        "lite/runtime/src",
        "lite/runtime",
    ),
    "lite/tools": (
        "lite/tools",
        "lite/compiler",
        "lite/runtime/include",
        "lite/runtime/src",
        "lite/runtime",
    ),
}

# Public header -> the room it belongs to.
PUBLIC_HEADERS = {
    "attribute.h": "base",
    "device.h": "base",
    "dtype.h": "base",
    "error.h": "base",
    "export.h": "base",
    "log.h": "base",
    "precision.h": "base",
    "tensor.h": "base",
    "type.h": "base",
    "version.h": "base",
    "autodiff.h": "autodiff",
    "graph.h": "ir",
    "ids.h": "ir",
    "model.h": "frontends",
    "oneflow.h": "frontends",
    "onnx.h": "onnx",
    "op.h": "ir",
    "engine.h": "engine",
    "engine_border.h": "engine",
    "engine_c.h": "engine",
    "engine_graph.h": "engine",
    "calibration.h": "quantize",
    "quantize.h": "quantize",
    "quantize_training.h": "quantize",
    "quantize_weights.h": "quantize",
    "options.h": "options",
    "options.inc": "options",
    "threads.h": "device",
    "registry.h": "registry",
    "explanation.h": "placement",
    "cache.h": "cache",
    "graph_runner.h": "program",
    "program.h": "program",
    "request.h": "program",
    "trainer.h": "training",
    "xrt.h": "capi",
}


# Folders of the C runtime that belong to another one's room.
RUNTIME_FOLDERS = {"tiles": "drivers"}

# Header prefix of a library -> the files that may include it, as a regular expression.
VENDORS: dict[str, str] = {
    "CLI/": r"(src/cli|lite/tools)/",
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
    parts = path.split("/")
    if parts[:2] == ["include", "xrt"]:
        return PUBLIC_HEADERS.get(parts[-1])
    if parts[0] == "python":
        return "python"
    if parts[0] == "lite" and len(parts) > 2:
        if parts[1] != "runtime":
            return f"lite/{parts[1]}"
        return f"lite/runtime/{RUNTIME_FOLDERS.get(parts[2], parts[2])}"
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


def lite_include(root: Path, path: Path, name: str) -> str | None:
    """Path of the file of lite that a file includes by `name`; None where it is no file of lite."""
    relative = path.relative_to(root)
    folders = LITE_FOLDERS.get("/".join(relative.parts[:2]), ())
    for folder in (path.parent, root, *(root / folder for folder in folders)):
        found = Path(os.path.normpath(folder / name))
        if found.is_file() and found.is_relative_to(root / "lite"):
            return found.relative_to(root).as_posix()
    return None


def rule_of(room: str) -> str:
    """The name under which ORDER or ALLOWED knows a room: every engine is one of "engines"."""
    return "engines" if room.startswith("engines/") else room


def may_include(room: str, other: str) -> bool:
    """Whether a file of `room` may include a header of `other`."""
    if room == other:
        return True
    name = rule_of(room)
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
    if room and rule_of(room) not in ROOMS:
        problems.append(f"{relative}:1: unknown room {room}; name it in ORDER")
        room = None
    lite = relative.startswith("lite/")
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
        inside = lite_include(root, path, name)
        other = room_of(inside) if inside else room_of_include(name)
        if lite and match.group(1) == '"' and other is None:
            problems.append(f"{relative}:{number}: {name} is in none of lite's folders")
        if room and other and not may_include(room, other):
            problems.append(f"{relative}:{number}: {room} may not include {name} ({other})")
    return problems


def check_tree(root: Path) -> list[str]:
    """The violations of the whole tree."""
    problems = []
    for folder in ("include", "src", "python", "lite"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cc", ".c", ".inc"):
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
