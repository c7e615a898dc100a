# SPDX-License-Identifier: Apache-2.0
"""A wheel of the package works in a fresh environment, with the native engine and no other.

Building it compiles most of the project, so that this runs on demand: ./dev test --wheel.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
Call = Callable[..., str]

pytestmark = pytest.mark.skipif(
    os.environ.get("XRT_TEST_WHEEL") != "1", reason="it builds a wheel: ./dev test --wheel"
)

SCRIPT = """
import sys
import numpy as np
import openxrt
found = {report.name: report for report in openxrt.doctor()}
assert found["native"].available, found["native"].error
assert not found["openvino"].available
assert "pip install" in found["openvino"].install_hint, found["openvino"].install_hint
x = np.array([[1, -2, 0.5], [0, -3, 4]], np.float32)
for engine in ("native", "auto"):
    y = openxrt.load(sys.argv[1], engine=engine)(x)
    np.testing.assert_array_equal(y, np.maximum(x, 0))
print(openxrt.__file__)
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, call: Call) -> Path:
    """A virtual environment with the wheel and what it depends on."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", folder / "wheels"]
    call(*pip, "wheel", *options, ROOT)
    call(sys.executable, "-m", "venv", folder / "env")
    [wheel] = (folder / "wheels").glob("openxrt-*.whl")
    call(folder / "env" / "bin" / "pip", "install", "--quiet", wheel)
    return folder / "env"


def clean(tmp_path: Path) -> dict[str, str]:
    """Variables of a shell that knows nothing of the build."""
    return {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}


def test_the_package(environment: Path, model: Path, tmp_path: Path, call: Call) -> None:
    python = environment / "bin" / "python"
    told = call(python, "-c", SCRIPT, model, env=clean(tmp_path), cwd=tmp_path)
    assert told.startswith(str(environment))


def test_the_command(environment: Path, model: Path, tmp_path: Path, call: Call) -> None:
    command = [environment / "bin" / "xrt", "run", model, "-i", "x=[[1,-2,0.5],[0,-3,4]]"]
    assert "1, 0, 0.5, 0, 0, 4" in call(*command, env=clean(tmp_path), cwd=tmp_path)


def test_bench_with_a_peer(environment: Path, model: Path, tmp_path: Path, call: Call) -> None:
    """The peer's script lies in the package, wherever the command does."""
    requirements = (ROOT / "tools" / "requirements-test.txt").read_text(encoding="utf-8")
    [peer] = [line for line in requirements.splitlines() if line.startswith("onnxruntime==")]
    call(environment / "bin" / "pip", "install", "--quiet", peer)
    command = [environment / "bin" / "xrt", "bench", model, "-e", "native"]
    told = call(
        *command, "--peer", "onnxruntime", "--rounds", "3", env=clean(tmp_path), cwd=tmp_path
    )
    assert "onnxruntime" in told


def test_the_library_bears_one_name_everywhere(
    environment: Path, call: Call, dynamic: Callable[[Path, str], list[str]]
) -> None:
    [package] = environment.glob("lib/python3*/site-packages/openxrt")
    [library] = package.glob("lib/libxrt.so*")
    assert dynamic(library, "SONAME") == [library.name]
    build = call(sys.executable, "-c", "import openxrt; print(openxrt.__file__)")
    built = Path(build.strip()).parents[2] / "lib" / "libxrt.so"
    assert dynamic(built, "SONAME") == [library.name]
