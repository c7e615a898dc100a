# SPDX-License-Identifier: Apache-2.0
"""One engine, built by several compilers and against the headers of each release."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "abi"
CLANG = next((name for name in ("clang++-14", "clang++") if shutil.which(name)), None)
GNU = ("g++",)
LIBCPP = (CLANG or "clang++", "-stdlib=libc++")

BUILDS = {
    "gnu": (GNU, "include"),
    "gnu without rtti": ((*GNU, "-fno-rtti"), "include"),
    "gnu with the old strings": ((*GNU, "-D_GLIBCXX_USE_CXX11_ABI=0"), "include"),
    "gnu with checks": ((*GNU, "-D_GLIBCXX_DEBUG"), "include"),
    "clang and libc++": (LIBCPP, "include"),
    "1.0, gnu": (GNU, "tests/abi/v1_0"),
    "1.0, clang and libc++": (LIBCPP, "tests/abi/v1_0"),
}

PROGRAM = """
import json
import sys
import numpy as np
import onnx.parser
import openxrt

def model(text):
    header = '<ir_version: 10, opset_import: ["" : 20]>'
    return onnx.parser.parse_model(header + text).SerializeToString()

numbers = model('''g (float[N] x) => (float[N] y) <float[2] two = {2, 3}> {
    a = LeakyRelu <alpha = 0.5> (x)
    y = Mul (a, two)
}''')
x = np.array([-1, 4], np.float32)
program = openxrt.load(
    numbers, engine="abi", strict=True, cache_dir=sys.argv[1], cluster_maximum_nodes=1
)
np.testing.assert_array_equal(program(x), [-1, 12])
told = program.explain()
assert told.nodes_per_engine == {"abi": 2}, told
assert "bytes was read" in told.to_json(), told.to_json()

texts = model("g (string[2] a, string[2] b) => (string[2] y) { y = StringConcat (a, b) }")
joined = openxrt.load(texts, engine="abi", strict=True, cache_dir="")(
    np.array(["a", "été"], object), np.array(["b" * 40, ""], object)
)
assert list(joined) == ["a" + "b" * 40, "été"], joined

try:
    program(np.array([1e31, 0], np.float32))
except openxrt.Error as error:
    assert "too large a number" in str(error), error
else:
    raise AssertionError("nothing was raised")

told_wrong = {"fail": "as it was told", "fial": "did you mean 'fail'"}
for option, message in told_wrong.items():
    own = {"abi": {option: "true"}}
    try:
        openxrt.load(numbers, engine="abi", engine_options=own, cache_dir="")(x)
    except openxrt.Error as error:
        assert message in str(error), error
    else:
        raise AssertionError("nothing was raised")
launches = json.loads(told.to_json())["launches"]
print("from the cache" if all(row["from_cache"] for row in launches) else "compiled")
"""


def build(compiler: tuple[str, ...], headers: str, to: Path) -> Path:
    """The engine's library; skips where the compiler or its standard library is missing."""
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"there is no {compiler[0]} (Debian: clang-14)")
    language = [*compiler, "-std=c++20", "-x", "c++"]
    probe = subprocess.run(
        [*language, "-fsyntax-only", "-"], input="#include <vector>", text=True, capture_output=True
    )
    if probe.returncode != 0:
        pytest.skip(
            f"{' '.join(compiler)} has no standard library (Debian: libc++-14-dev libc++abi-14-dev)"
        )
    library = to / "libxrt_engine_abi.so"
    command = [
        *compiler,
        *("-std=c++20", "-O1", "-fPIC", "-shared", "-fvisibility=hidden"),
        f"-I{ROOT / headers}",
        str(FOLDER / "engine.cc"),
        "-o",
        str(library),
    ]
    done = subprocess.run(command, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return library


@pytest.mark.parametrize("name", BUILDS)
def test_an_engine_of_another_compiler(name: str, tmp_path: Path) -> None:
    """Compiled in one process, taken from the cache in the next."""
    compiler, headers = BUILDS[name]
    library = build(compiler, headers, tmp_path)
    needed = subprocess.run(["readelf", "-d", library], text=True, capture_output=True, check=True)
    assert "libxrt.so" not in needed.stdout
    environment = os.environ | {"XRT_ENGINE_PATH": str(tmp_path)}
    for expected in ("compiled", "from the cache"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path / "cache")],
            text=True,
            capture_output=True,
            env=environment,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.strip() == expected


def test_the_command_loads_it_too(tmp_path: Path) -> None:
    """In a program whose libxrt lies in the global scope of symbols."""
    build(LIBCPP, "include", tmp_path)
    done = subprocess.run(
        ["xrt", "engines", "--ops"],
        text=True,
        capture_output=True,
        env=os.environ | {"XRT_ENGINE_PATH": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert "StringConcat" in done.stdout


def test_the_released_headers_are_what_they_were() -> None:
    """Whoever changes the contract adds a folder; this one stays (its digest is the proof)."""
    import hashlib

    digest = hashlib.sha256()
    for file in sorted((FOLDER / "v1_0" / "xrt").iterdir()):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    assert digest.hexdigest() == (FOLDER / "v1_0" / "sha256").read_text().strip()
