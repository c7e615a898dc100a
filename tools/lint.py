#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Formatting, static analysis and layers, over the files that git knows or would add.

Exit status 1 when any check finds something. clang-tidy looks at the C++ files that differ from the
main branch, on the main branch at those of the last commit; what it found clean is remembered in
build/lint-cache until the file, a header or the configuration changes. A file that it did not
reach, because its time was over or because the build does not compile it, is not clean.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LICENCE = "SPDX-License-Identifier: Apache-2.0"
TIDY_SECONDS = 1200
# Compile commands for clang-tidy: the build's without its precompiled headers, which are GCC's.
TIDY_FOLDER = Path("build") / "lint"
# What the build does not compile: programs of their own, and what asks for options.
NOT_IN_THE_BUILD = re.compile(
    r"(examples/|benchmarks/|tests/fuzz/|tests/abi/|tests/conformance/engines/)"
)
SOURCE_SUFFIXES = (".h", ".cc", ".c", ".py", ".sh", ".cmake", ".pyi")


def output_of(*command: str) -> str:
    """Standard output of a command that must succeed."""
    return subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def source_files() -> list[str]:
    """Tracked files and new ones that git does not ignore."""
    listed = output_of("git", "ls-files", "--cached", "--others", "--exclude-standard")
    return [name for name in listed.splitlines() if (ROOT / name).is_file()]


def cpp_files(files: list[str]) -> list[str]:
    """The C++ files among `files`."""
    return [name for name in files if name.endswith((".h", ".cc"))]


def changed_files() -> set[str] | None:
    """What differs from the main branch, or what the last commit changed; None without history."""
    base = None
    head = output_of("git", "rev-parse", "HEAD")
    for branch in ("origin/main", "main"):
        found = subprocess.run(
            ["git", "merge-base", "HEAD", branch],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if found.returncode == 0 and found.stdout.strip() != head:
            base = found.stdout.strip()
            break
    if base is None:
        parent = subprocess.run(
            ["git", "rev-parse", "--verify", "--quiet", "HEAD~1"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if parent.returncode != 0:
            return None
        base = parent.stdout.strip()
    changed = output_of("git", "diff", "--name-only", base).splitlines()
    changed += output_of("git", "ls-files", "--others", "--exclude-standard").splitlines()
    return set(changed)


def check_format(files: list[str], fix: bool) -> bool:
    """clang-format."""
    names = cpp_files(files)
    if not names:
        return True
    options = ["-i"] if fix else ["--dry-run", "-Werror"]
    return (
        subprocess.run(["clang-format-14", *options, *names], cwd=ROOT, check=False).returncode == 0
    )


def check_licences(files: list[str]) -> bool:
    """Each source file names its licence in its first lines."""
    clean = True
    for name in files:
        if not name.endswith(SOURCE_SUFFIXES) and name not in ("dev", ".ci/run"):
            continue
        head = (ROOT / name).read_text(encoding="utf-8").splitlines()[:3]
        if not any(LICENCE in line for line in head) and (ROOT / name).stat().st_size:
            print(f"{name}:1: the first lines lack '{LICENCE}'")
            clean = False
    return clean


def check_with(tool: str, *arguments: str) -> bool:
    """A check that is a program beside this one, or one in another folder ("benchmarks/x.py")."""
    path = ROOT / tool if "/" in tool else ROOT / "tools" / tool
    command = [sys.executable, str(path), *arguments]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def check_made_pages() -> bool:
    """Pages and pictures that are made of files of the source alone."""
    picture = check_with("make_architecture.py", "--check")
    return check_with("benchmarks/make_performance.py", "--check") and picture


def check_python(files: list[str], fix: bool) -> bool:
    """The linter and the formatter of ruff."""
    names = [name for name in files if name.endswith((".py", ".pyi"))]
    ruff = [sys.executable, "-m", "ruff"]
    linted = subprocess.run(
        [*ruff, "check", "--quiet", *(["--fix"] if fix else []), *names], cwd=ROOT, check=False
    )
    formatted = subprocess.run(
        [*ruff, "format", "--quiet", *([] if fix else ["--diff"]), *names], cwd=ROOT, check=False
    )
    return linted.returncode == 0 and formatted.returncode == 0


def tidy_one(name: str) -> tuple[str, int, str]:
    """clang-tidy over one file."""
    done = subprocess.run(
        [
            "clang-tidy-14",
            "-p",
            str(TIDY_FOLDER),
            "--quiet",
            "--extra-arg=-Wno-unknown-warning-option",
            "--extra-arg=-Wno-unknown-pragmas",
            name,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return name, done.returncode, done.stdout + (done.stderr if done.returncode else "")


def tidy_commands(build: Path) -> dict[str, dict[str, str]]:
    """File, relative to the root -> its entry of compile_commands.json, made fit for clang."""
    entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    found = {}
    for entry in entries:
        command = re.sub(r" -include \S*cmake_pch\.hx*\b", "", entry["command"])
        command = re.sub(r" -(Winvalid-pch|fpch-preprocess)\b", "", command)
        file = Path(entry["file"])
        if file.is_relative_to(ROOT):
            found[file.relative_to(ROOT).as_posix()] = {**entry, "command": command}
    return found


def unbuilt(names: list[str], built: set[str]) -> list[str]:
    """Files among `names` that should be compiled and are not.

    Not counted are programs of their own and engines of which nothing is built, because their
    vendor's package is not installed.
    """

    def engine(name: str) -> str | None:
        match = re.match(r"(?:src|tests)/engines/(\w+)/", name)
        return match[1] if match else None

    engines = {engine(name) for name in built}
    return [
        name
        for name in names
        if name not in built
        and not NOT_IN_THE_BUILD.match(name)
        and (engine(name) is None or engine(name) in engines)
    ]


def check_tidy(files: list[str], jobs: int, everything: bool, seconds: float) -> bool:
    """clang-tidy over the changed files; those that it did not reach are named."""
    commands = tidy_commands(ROOT / "build" / "debug")
    (ROOT / TIDY_FOLDER).mkdir(parents=True, exist_ok=True)
    text = json.dumps(list(commands.values()))
    (ROOT / TIDY_FOLDER / "compile_commands.json").write_text(text, encoding="utf-8")
    changed = None if everything else changed_files()
    names = [
        name for name in files if name.endswith(".cc") and (changed is None or name in changed)
    ]
    missing = unbuilt(names, set(commands))
    for name in missing:
        print(f"{name}:1: clang-tidy did not reach it: the build does not compile it")
    names = [name for name in names if name in commands]
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    for name in files:
        if name.endswith(".h"):
            digest.update((ROOT / name).read_bytes())
    cache = ROOT / "build" / "lint-cache"
    cache.mkdir(parents=True, exist_ok=True)

    def stamp(name: str) -> Path:
        own = digest.copy()
        own.update((ROOT / name).read_bytes())
        return cache / own.hexdigest()

    names = [name for name in names if not stamp(name).exists()]
    clean = not missing
    deadline = time.monotonic() + seconds if seconds else float("inf")
    left = list(names)

    def work(name: str) -> tuple[str, int, str] | None:
        return tidy_one(name) if time.monotonic() < deadline else None

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for result in pool.map(work, names):
            if result is None:
                continue
            name, status, text = result
            left.remove(name)
            if status:
                clean = False
                print(text)
            else:
                stamp(name).touch()
    if left:
        print(
            f"clang-tidy: {len(left)} of {len(names)} changed files not reached in "
            f"{seconds:.0f} s: {' '.join(left)}\nRun ./dev lint again to go on with them, or give "
            "clang-tidy more time with --tidy-seconds N (XRT_TIDY_SECONDS; 0: any)"
        )
    return clean and not left


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fix", action="store_true", help="rewrite what can be rewritten")
    parser.add_argument("--all", action="store_true", help="clang-tidy over all files")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--tidy-seconds",
        type=float,
        default=float(os.environ.get("XRT_TIDY_SECONDS", TIDY_SECONDS)),
        help="the time that clang-tidy may take; 0: any (default: XRT_TIDY_SECONDS or %(default)s)",
    )
    arguments = parser.parse_args()

    files = source_files()
    checks: dict[str, Callable[[], bool]] = {
        "licence headers": lambda: check_licences(files),
        "layers": lambda: check_with("check_includes.py"),
        "circular imports": lambda: check_with("check_imports.py"),
        "names of engines": lambda: check_with("check_engine_names.py"),
        "made pages": check_made_pages,
        "options": lambda: check_with("make_options.py", "--check"),
        "clang-format": lambda: check_format(files, arguments.fix),
        "ruff": lambda: check_python(files, arguments.fix),
        "clang-tidy": lambda: check_tidy(
            files, arguments.jobs, arguments.all, arguments.tidy_seconds
        ),
    }
    failed = []
    for name, check in checks.items():
        start = time.monotonic()
        clean = check()
        seconds = time.monotonic() - start
        print(f"{name}: {'clean' if clean else 'FAILED'} ({seconds:.1f} s)", flush=True)
        if not clean:
            failed.append(name)
    if failed:
        print(f"lint failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
