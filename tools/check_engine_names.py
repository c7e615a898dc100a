#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that engines are named only where they may be.

What is known about one engine lies in its folder: src/engines/<name>/, or
python/openxrt/engines/<name>.py. Tests, documents, examples, benchmarks and the packaging may name
engines, and so may DATA, which holds the default order of `auto` and the fallback. Elsewhere a name
in a string or in an identifier is an error; comments and docstrings do not count. A name that is an
ordinary word counts where a string holds nothing but names: "native" does, "on the native engine"
does not.

tools/engine_names.txt lists the exceptions, each with the number of names, the path and the reason:
the file may not hold more names than that. Where it holds fewer, --write lowers the number.

    python tools/check_engine_names.py [--write] [ROOT]
"""

from __future__ import annotations

import argparse
import functools
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

# The default order of `auto` and the engine that takes what no other takes.
DATA = ("src/registry/engine_names.h",)
FREE = re.compile(
    r"(src/engines/|python/openxrt/engines/|tests/|docs/|examples/|benchmarks/|tools/requirements)"
)
EXCEPTIONS = "tools/engine_names.txt"
C_LIKE = (".h", ".cc", ".c", ".inc", ".in")
HASH_COMMENTS = (".cmake", ".sh")
ORDINARY_WORDS = frozenset({"native", "template"})
# Folders and modules beside the engines that are none.
NO_ENGINES = frozenset({"common"})
# Engines that bear the name of the devices that they run on: the word says the device.
NAMES_OF_DEVICES = frozenset({"cuda"})

C_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/"""  # comments
    r"""|R"(?P<mark>[^()\s]{0,16})\((?P<raw>.*?)\)(?P=mark)\""""
    r"""|(?P<text>"(?:\\.|[^"\\\n])*")|'(?:\\.|[^'\\\n])*'"""
    r"""|(?P<include>^[ \t]*\#[ \t]*include[^\n]*)"""
    r"""|(?P<name>[A-Za-z_]\w*)""",
    re.DOTALL | re.MULTILINE,
)
HASH_TOKEN = re.compile(r"""(?P<comment>\#[^\n]*)|(?P<name>[A-Za-z_]\w*)""")
# The parts of snake_case and CamelCase names.
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


class Piece(NamedTuple):
    """An identifier or a string of a source file, with its line."""

    text: str
    line: int
    is_text: bool


def engine_names(root: Path) -> frozenset[str]:
    """The engines of the tree: a folder or a public module each."""
    folders = (root / "src" / "engines").glob("*/CMakeLists.txt")
    modules = (root / "python" / "openxrt" / "engines").glob("[a-z]*.py")
    return (
        frozenset({f.parent.name for f in folders} | {f.stem for f in modules})
        - NO_ENGINES
        - NAMES_OF_DEVICES
    )


def python_pieces(source: str) -> Iterator[Piece]:
    """Names and strings of a Python file, without docstrings."""
    text = ("STRING", "FSTRING_MIDDLE")
    line_begins = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    before = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            yield Piece(token.string, token.start[0], is_text=False)
        elif tokenize.tok_name[token.type] in text and before not in line_begins:
            yield Piece(token.string, token.start[0], is_text=True)
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            before = token.type


def pattern_pieces(source: str, pattern: re.Pattern[str]) -> Iterator[Piece]:
    """Names and strings that a pattern's groups tell apart."""
    for match in pattern.finditer(source):
        groups = match.groupdict()
        line = source.count("\n", 0, match.start()) + 1
        for group in ("text", "raw"):
            if groups.get(group):
                yield Piece(groups[group], line, is_text=True)
        if groups.get("name"):
            yield Piece(groups["name"], line, is_text=False)


def pieces(path: Path) -> Iterator[Piece]:
    """Names and strings of a file that this check reads."""
    read: Callable[[str], Iterator[Piece]]
    if path.suffix in (".py", ".pyi"):
        read = python_pieces
    elif path.suffix in C_LIKE:
        read = functools.partial(pattern_pieces, pattern=C_TOKEN)
    elif path.suffix in HASH_COMMENTS or path.name in ("CMakeLists.txt", "dev"):
        read = functools.partial(pattern_pieces, pattern=HASH_TOKEN)
    else:
        return iter(())
    # Names of engines are ASCII: what is not UTF-8 hides none.
    return read(path.read_text(encoding="utf-8", errors="replace"))


def named(piece: Piece, engines: frozenset[str]) -> str | None:
    """The engine that a piece names, if it names one."""
    if piece.is_text:
        words = re.findall(r"[a-z0-9]+", piece.text.lower())
        if words and engines.issuperset(words):
            return words[0]
        return next((word for word in words if word in engines - ORDINARY_WORDS), None)
    parts = [part.lower() for part in PART.findall(piece.text)]
    runs = ("".join(parts[i:j]) for i in range(len(parts)) for j in range(i + 1, len(parts) + 1))
    return next((run for run in runs if run in engines - ORDINARY_WORDS), None)


def source_files(root: Path) -> list[Path]:
    """The files that git knows or would add; all of them where there is no repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0 and listed.stdout:
        files = [root / name for name in listed.stdout.splitlines()]
    else:
        files = sorted(root.rglob("*"))
    return [file for file in files if file.is_file() and not file.is_symlink()]


def read_exceptions(root: Path) -> dict[str, tuple[int, str]]:
    """Path -> how many names it may hold, and why."""
    file = root / EXCEPTIONS
    exceptions = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
        if line and not line.startswith("#"):
            count, path, reason = line.split(maxsplit=2)
            exceptions[path] = (int(count), reason)
    return exceptions


def write_exceptions(root: Path, exceptions: dict[str, tuple[int, str]]) -> None:
    """Keeps the comment at the head of the file."""
    file = root / EXCEPTIONS
    head = [line for line in file.read_text(encoding="utf-8").splitlines() if line[:1] == "#"]
    rows = [f"{n} {path} {reason}" for path, (n, reason) in sorted(exceptions.items())]
    file.write_text("\n".join([*head, *rows]) + "\n", encoding="utf-8")


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="lower the numbers of the exceptions")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parents[1])
    arguments = parser.parse_args()
    root: Path = arguments.root

    engines = engine_names(root)
    exceptions = read_exceptions(root)
    kept = {}
    clean = True
    for path in source_files(root):
        relative = path.relative_to(root).as_posix()
        if FREE.match(relative) or relative in DATA:
            continue
        found = [(piece, name) for piece in pieces(path) if (name := named(piece, engines))]
        allowed, reason = exceptions.get(relative, (0, ""))
        if len(found) > allowed:
            clean = False
            for piece, name in found:
                print(f"{relative}:{piece.line}: names the engine {name}: {piece.text[:60]}")
            print(f"{relative}:1: {len(found)} names of engines, {EXCEPTIONS} allows {allowed}")
        elif found:
            kept[relative] = (len(found), reason)
    if arguments.write:
        write_exceptions(root, {**{p: e for p, e in exceptions.items() if p in kept}, **kept})
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
