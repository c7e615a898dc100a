#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the archives for C and C++: headers, libraries, CMake package, pkg-config.

    ./dev sdk          dist/openxrt-sdk-VERSION-linux-x86_64.tar.xz and
                       dist/xrt-lite-sdk-VERSION-linux-x86_64.tar.xz

The first has libxrt, the engine native with the libraries that it loads, the command and lite's
compiler; it needs no Python. The second has lite's C runtime alone, with its sources for other
processors. Both load on machines with glibc 2.28 and libstdc++ of GCC 8 or later (tools/portable).
Each is unpacked into another folder and used by a program there (tests/packaging/test_sdk.py).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from make_wheels import ROOT, copy_licences, find_interpreters, make_portable, run, say

BUILD = ROOT / "build" / "sdk"
LITE = ROOT / "build" / "sdk-lite"
PLATFORM = "linux-x86_64"
TOOLS = ROOT / ".venv" / "bin"


def version() -> str:
    """As in pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r'^version = "(.+)"$', text, re.MULTILINE)
    assert found is not None
    return found[1]


def build(source: Path, folder: Path, prefix: Path, jobs: str, *options: str) -> None:
    """Configures, builds and installs."""
    run(
        *(TOOLS / "cmake", "-G", "Ninja", "-S", source, "-B", folder),
        *("-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_MAKE_PROGRAM={TOOLS / 'ninja'}"),
        *("-DCMAKE_INSTALL_LIBDIR=lib", *options),
    )
    run(TOOLS / "ninja", "-C", folder, "-j", jobs, quiet=False)
    shutil.rmtree(prefix, ignore_errors=True)
    run(TOOLS / "cmake", "--install", folder, "--prefix", prefix, "--strip")


def pack(prefix: Path, out: Path) -> Path:
    """The folder as an archive that holds one folder of its name."""
    for name in ("LICENSE", "README.md", "SECURITY.md"):
        shutil.copy2(ROOT / name, prefix / name)
    archive = out / f"{prefix.name}.tar.xz"
    with tarfile.open(archive, "w:xz", preset=6) as tar:
        tar.add(prefix, prefix.name)
    files = [path for path in prefix.rglob("*") if path.is_file() and not path.is_symlink()]
    size = sum(path.stat().st_size for path in files) / 1e6
    say(f"{archive.name}: {archive.stat().st_size / 1e6:.1f} MB, unpacked {size:.1f} MB")
    return archive


def main() -> int:
    """Exit code 1 where an archive cannot be used."""
    words = argparse.ArgumentParser(
        prog="./dev sdk", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument("--out", type=Path, default=ROOT / "dist", help="folder (default: dist)")
    words.add_argument("--no-test", action="store_true", help="make the archives only")
    words.add_argument("--onnx", type=Path, required=True, help=argparse.SUPPRESS)
    words.add_argument("--jobs", default="1", help=argparse.SUPPRESS)
    given = words.parse_args()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    portable = make_portable(find_interpreters([])[0])

    prefix = BUILD / "install" / f"openxrt-sdk-{version()}-{PLATFORM}"
    say("building libxrt, the engine native, the command and lite")
    build(
        *(ROOT, BUILD, prefix, given.jobs),
        *(f"-DXRT_PORTABLE={portable}", f"-DXRT_ONNX_ROOT={given.onnx}"),
        *("-DXRT_BUILD_PYTHON=OFF", "-DXRT_BUILD_TESTS=OFF"),
        *("-DXRT_ENGINE_OPENVINO=OFF", "-DXRT_ENGINE_XLA=OFF", "-DXRT_ENGINE_TVM=OFF"),
        *("-DXRT_ENGINE_TENSORRT=OFF", f"-DXRT_LIBRARY_PREFIX={ROOT / '.venv'}"),
        "-DCMAKE_DISABLE_FIND_PACKAGE_Python=ON",
    )
    copy_licences(prefix / "share" / "openxrt" / "licenses")
    archives = [pack(prefix, out)]

    prefix = LITE / "install" / f"xrt-lite-sdk-{version()}-{PLATFORM}"
    say("building lite's C runtime")
    build(
        *(ROOT / "lite" / "runtime", LITE, prefix, given.jobs),
        f"-DCMAKE_SHARED_LINKER_FLAGS=-B{portable}/",
    )
    shutil.copytree(ROOT / "lite" / "runtime", prefix / "share" / "xrt_lite" / "runtime")
    archives.append(pack(prefix, out))
    if given.no_test:
        return 0
    environment = {**os.environ, "XRT_SDK": str(archives[0]), "XRT_LITE_SDK": str(archives[1])}
    tests = ROOT / "tests" / "packaging" / "test_sdk.py"
    command = [str(TOOLS / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    # The tests of a build import it; these use what is unpacked.
    command += [f"--confcutdir={tests.parent}", str(tests)]
    return subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
