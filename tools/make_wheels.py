#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the wheels of openxrt, installs each in an empty environment, and runs it there.

    ./dev wheel                       CPython 3.10 to 3.13, those of this machine, into dist/
    ./dev wheel --python python3.12   one of them

All but the extension module is built once, in build/wheel, and linked against names of glibc 2.28
and of GCC 8's libstdc++ (tools/portable): the wheels are manylinux_2_28. The extension module is
built for each Python; the one for 3.12 has the stable ABI and serves later ones too. Vendors'
libraries are not in the wheels: they come from the vendors' packages.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEPS = Path(os.environ.get("XRT_DEPS_DIR", Path.home() / ".cache" / "openxrt"))
BUILD = ROOT / "build" / "wheel"
CORE = BUILD / "core"
PLATFORM = "manylinux_2_28_x86_64"
VERSIONS = ("3.10", "3.11", "3.12", "3.13")
STABLE_ABI = "3.12"
# What the wheels ask for and vendors' packages hold.
VENDORS = ("libdnnl*", "libtbb*", "libopenvino*", "libtvm*", "libnvinfer*", "libtensorrt*")


@dataclass(frozen=True)
class Interpreter:
    """A Python to build for or to test with."""

    version: str
    path: Path

    @property
    def tag(self) -> str:
        """As in the name of a wheel: cp312."""
        return f"cp{self.version.replace('.', '')}"


def say(text: str) -> None:
    """Where the work is."""
    print(f"==> {text}", flush=True)


def run(*command: object, quiet: bool = True, **options: object) -> str:
    """Runs a command that must succeed; what it wrote is shown where it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet else None,
        text=True,
        check=False,
        **options,  # type: ignore[call-overload]
    )
    if done.returncode != 0:
        sys.exit(f"{done.stdout or ''}\nmake_wheels: failed: {' '.join(words)}")
    return done.stdout or ""


def version_of(python: Path) -> str:
    """As 3.12; empty for a program that is no Python with venv."""
    code = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run(
            [python, "-c", code], capture_output=True, text=True, check=False, timeout=60
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def find_interpreters(named: list[str]) -> list[Interpreter]:
    """Those that are named, else the supported ones on PATH and where pyenv and uv keep theirs."""
    if named:
        found = []
        for name in named:
            path = shutil.which(name)
            version = version_of(Path(path)) if path else ""
            if version not in VERSIONS:
                sys.exit(f"make_wheels: '{name}' is no Python {', '.join(VERSIONS)}")
            found.append(Interpreter(version, Path(str(path))))
        return found
    homes = [
        Path.home() / ".pyenv" / "versions",
        Path.home() / ".local" / "share" / "uv" / "python",
    ]
    found = []
    for version in VERSIONS:
        places = [
            *(
                path
                for home in homes
                for path in sorted(home.glob(f"*{version}.*/bin/python{version}"))
            ),
            *(Path(path) for path in [shutil.which(f"python{version}")] if path),
        ]
        path = next((path for path in places if version_of(path) == version), None)
        if path is None:
            say(f"no Python {version} here: its wheel is not made (--python names one)")
        else:
            found.append(Interpreter(version, path))
    return found


def make_environment(python: Interpreter, name: str, requirements: Path) -> Path:
    """An environment with pinned packages, made where it is missing; its folder of programs."""
    folder = DEPS / "wheel" / f"{name}-{python.tag}"
    stamp = folder / "requirements.stamp"
    wanted = requirements.read_text(encoding="utf-8")
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != wanted:
        say(f"installing {requirements.name} for Python {python.version}")
        shutil.rmtree(folder, ignore_errors=True)
        run(python.path, "-m", "venv", folder)
        pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet"]
        run(*pip, "--disable-pip-version-check", "-r", requirements)
        stamp.write_text(wanted, encoding="utf-8")
    return folder / "bin"


def make_portable(python: Interpreter) -> Path:
    """What the libraries are linked against (tools/portable), made where it is missing."""
    scripts = ROOT / "tools" / "portable"
    state = hashlib.sha256(b"".join(p.read_bytes() for p in sorted(scripts.iterdir())))
    folder = DEPS / f"portable-{state.hexdigest()[:12]}"
    if not (folder / "complete").is_file():
        say("making what to link against for glibc 2.28 (five minutes on two cores)")
        tools = make_environment(python, "build", ROOT / "tools" / "requirements-wheel.txt")
        path = f"{tools}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "XRT_PYTHON": str(tools / "python"), "PATH": path}
        run(scripts / "build.sh", folder, env=environment)
    return folder


# Debian's packages of what the libraries hold: their licences ask to be handed on.
LINKED = (
    *("libcli11-dev", "libfmt-dev", "libjpeg62-turbo-dev", "libpng-dev", "libprotobuf-dev"),
    *("libre2-dev", "libspdlog-dev", "libutf8proc-dev", "libxxhash-dev", "libzip-dev"),
    *("nlohmann-json3-dev", "zlib1g-dev", "gcc-12-base"),
)


def copy_licences(folder: Path) -> None:
    """The texts of what is linked statically."""
    folder.mkdir(parents=True)
    for package in LINKED:
        text = (Path("/usr/share/doc") / package / "copyright").read_bytes()
        (folder / f"{package}.txt").write_bytes(text)


def build_core(jobs: str, portable: Path, onnx: Path) -> None:
    """Everything but the extension modules, installed in CORE as the wheel has it."""
    python = ROOT / ".venv" / "bin" / "python"
    say("building libxrt, the engines and the command")
    run(
        *(ROOT / ".venv" / "bin" / "cmake", "-G", "Ninja", "-S", ROOT, "-B", BUILD),
        *("-DCMAKE_BUILD_TYPE=Release", "-DSKBUILD=ON", "-DXRT_BUILD_TESTS=OFF"),
        *(f"-DPython_EXECUTABLE={python}", f"-DXRT_ONNX_ROOT={onnx}", f"-DXRT_PORTABLE={portable}"),
        f"-DCMAKE_MAKE_PROGRAM={ROOT / '.venv' / 'bin' / 'ninja'}",
    )
    run(ROOT / ".venv" / "bin" / "ninja", "-C", BUILD, "-j", jobs, quiet=False)
    shutil.rmtree(CORE, ignore_errors=True)
    cmake = ROOT / ".venv" / "bin" / "cmake"
    run(cmake, "--install", BUILD, "--prefix", CORE, "--component", "OpenXRT", "--strip")
    copy_licences(CORE / "openxrt" / "licenses")


def make_wheel(python: Interpreter, portable: Path, out: Path, jobs: str) -> Path:
    """The wheel for one Python, judged and named by auditwheel."""
    tools = make_environment(python, "build", ROOT / "tools" / "requirements-wheel.txt")
    raw = BUILD / "raw" / python.tag
    shutil.rmtree(raw, ignore_errors=True)
    environment = {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "CMAKE_BUILD_PARALLEL_LEVEL": jobs,
    }
    defines = [
        f"XRT_BUILD={BUILD}",
        f"XRT_CORE={CORE}",
        f"XRT_PORTABLE={portable}",
        "XRT_UNITY=ON",
    ]
    say(f"building the extension module for Python {python.version}")
    settings = [
        "-Ccmake.source-dir=python/extension",
        f"-Cbuild-dir={BUILD / python.tag}",
        *(f"-Ccmake.define.{define}" for define in defines),
    ]
    pip = [tools / "python", "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    run(*pip, "--wheel-dir", raw, *settings, ROOT, env=environment)
    [wheel] = raw.glob("openxrt-*.whl")
    shutil.rmtree(out / "new", ignore_errors=True)
    run(
        *(
            tools / "auditwheel",
            "repair",
            "--plat",
            PLATFORM,
            "--only-plat",
            "--wheel-dir",
            out / "new",
        ),
        *(word for pattern in VENDORS for word in ("--exclude", pattern)),
        wheel,
        env=environment,
    )
    [made] = (out / "new").glob("openxrt-*.whl")
    final = out / made.name
    made.replace(final)
    (out / "new").rmdir()
    say(f"{final.relative_to(ROOT) if final.is_relative_to(ROOT) else final}")
    return final


def serves(wheel: Path, version: str) -> bool:
    """Whether a Python takes the wheel."""
    tag = wheel.name.split("-")[2]
    if "-abi3-" in wheel.name:
        return int(version.split(".")[1]) >= int(tag[3:])
    return tag == f"cp{version.replace('.', '')}"


def megabytes(folder: Path) -> float:
    """Of all regular files below it."""
    sizes = (p.stat().st_size for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
    return sum(sizes) / 1e6


def table_of_sizes(environment: Path) -> list[str]:
    """Each installed distribution's size, the largest first."""
    code = """
import importlib.metadata as m, pathlib
for d in m.distributions():
    size = 0
    for f in d.files or []:
        p = pathlib.Path(d.locate_file(f))
        if p.is_file() and '__pycache__' not in p.parts: size += p.stat().st_size
    print(d.metadata['Name'], d.version, size)
"""
    rows = [line.split() for line in run(environment / "bin" / "python", "-c", code).splitlines()]
    rows.sort(key=lambda row: -int(row[2]))
    return [f"    {name:28} {version:14} {int(size) / 1e6:7.1f} MB" for name, version, size in rows]


def test_wheels(interpreters: list[Interpreter], wheels: list[Path], jobs: str) -> int:
    """Runs tests/packaging/test_wheel.py for each Python; how many did not pass."""
    failed = 0
    for python in interpreters:
        wheel = next((wheel for wheel in wheels if serves(wheel, python.version)), None)
        if wheel is None:
            continue
        say(f"Python {python.version}: testing {wheel.name} in an empty environment")
        environment = {
            **os.environ,
            "XRT_TEST_WHEEL": "1",
            "XRT_WHEEL": str(wheel),
            "XRT_WHEEL_PYTHON": str(python.path),
            "OMP_NUM_THREADS": jobs,
        }
        command = [
            *(
                ROOT / ".venv" / "bin" / "python",
                "-m",
                "pytest",
                "-q",
                "-s",
                "-p",
                "no:cacheprovider",
                # The tests of a build import it; these use what is installed.
                f"--confcutdir={ROOT / 'tests' / 'packaging'}",
            ),
            ROOT / "tests" / "packaging" / "test_wheel.py",
        ]
        done = subprocess.run([str(w) for w in command], env=environment, cwd=ROOT, check=False)
        failed += done.returncode != 0
    return failed


def main() -> int:
    """Exit code 1 where a wheel does not work."""
    words = argparse.ArgumentParser(
        prog="./dev wheel",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    words.add_argument(
        "--python", action="append", default=[], help="one to build for; may be repeated"
    )
    words.add_argument("--out", type=Path, default=ROOT / "dist", help="folder (default: dist)")
    words.add_argument("--no-test", action="store_true", help="build only")
    words.add_argument("--test-only", action="store_true", help="test the wheels that are in --out")
    words.add_argument("--onnx", type=Path, required=True, help=argparse.SUPPRESS)
    words.add_argument("--jobs", default="1", help=argparse.SUPPRESS)
    given = words.parse_args()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    interpreters = find_interpreters(given.python)
    if not interpreters:
        sys.exit(f"make_wheels: no Python {', '.join(VERSIONS)} was found; --python names one")
    if given.test_only:
        wheels = sorted(out.glob("openxrt-*.whl"))
    else:
        portable = make_portable(interpreters[0])
        build_core(given.jobs, portable, given.onnx)
        stable = [p for p in interpreters if _minor(p.version) >= _minor(STABLE_ABI)]
        plain = [p for p in interpreters if p not in stable]
        wheels = [make_wheel(python, portable, out, given.jobs) for python in [*stable[:1], *plain]]
    for wheel in wheels:
        print(f"    {wheel.name} {wheel.stat().st_size / 1e6:.1f} MB")
    return 1 if not given.no_test and test_wheels(interpreters, wheels, given.jobs) else 0


def _minor(version: str) -> int:
    return int(re.findall(r"\d+", version)[1])


if __name__ == "__main__":
    sys.exit(main())
