# SPDX-License-Identifier: Apache-2.0
"""A wheel of the package works in an empty environment: the native engine alone, then with the
packages of further engines, also where these lie in another folder.

`./dev wheel` runs this for the wheel of each Python. `./dev test --wheel` first builds a wheel of
the source as `pip install .` does, which compiles most of the project.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from symbol_versions import binaries, needed_versions, too_new

ROOT = Path(__file__).resolve().parents[2]
Call = Callable[..., str]

pytestmark = pytest.mark.skipif(
    os.environ.get("XRT_TEST_WHEEL") != "1", reason="it builds a wheel: ./dev test --wheel"
)

# What the package itself may take beside NumPy and oneDNN.
MOST_MEGABYTES = 40
FURTHER = ("openvino", "xla", "onnxruntime")

SCRIPT = """
import sys
import numpy as np
import openxrt
found = {report.name: report for report in openxrt.doctor()}
x = np.array([[1, -2, 0.5], [0, -3, 4]], np.float32)
for engine in sys.argv[2].split(","):
    assert found[engine].available, found[engine].error
    y = openxrt.load(sys.argv[1], engine=engine)(x)
    np.testing.assert_array_equal(y, np.maximum(x, 0))
for engine in filter(None, sys.argv[3].split(",")):
    report = found.get(engine)
    assert report is None or not report.available
    assert report is None or "pip install" in report.install_hint, report.install_hint
np.testing.assert_array_equal(openxrt.load(sys.argv[1], engine="auto")(x), np.maximum(x, 0))
print(openxrt.__file__)
"""


@pytest.fixture(scope="module")
def python() -> str:
    """The Python that the wheel is for."""
    return os.environ.get("XRT_WHEEL_PYTHON", sys.executable)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, call: Call) -> Path:
    """The wheel that was named, else one of the source."""
    if "XRT_WHEEL" in os.environ:
        return Path(os.environ["XRT_WHEEL"])
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    call(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT)
    [built] = folder.glob("openxrt-*.whl")
    return built


@pytest.fixture(scope="module")
def environment(
    tmp_path_factory: pytest.TempPathFactory, call: Call, wheel: Path, python: str
) -> Path:
    """A virtual environment with the wheel and what it depends on."""
    folder = tmp_path_factory.mktemp("environment") / "env"
    call(python, "-m", "venv", folder)
    install(call, folder, wheel)
    return folder


@pytest.fixture(scope="module")
def full_environment(environment: Path, call: Call, wheel: Path) -> Path:
    """The same with the packages of further engines; tests of the native engine alone go before."""
    install(call, environment, f"{wheel}[{','.join(FURTHER)}]")
    return environment


def install(call: Call, environment: Path, what: object, *options: object) -> None:
    pip = environment / "bin" / "pip"
    call(pip, "install", "--quiet", "--disable-pip-version-check", *options, what)


def package(environment: Path) -> Path:
    [folder] = environment.glob("lib/python3*/site-packages/openxrt")
    return folder


def clean(tmp_path: Path, **more: str) -> dict[str, str]:
    """Variables of a shell that knows nothing of the build."""
    return {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **more}


def test_the_package(environment: Path, model: Path, tmp_path: Path, call: Call) -> None:
    python = environment / "bin" / "python"
    told = call(
        *(python, "-c", SCRIPT, model, "native", ",".join(FURTHER)),
        env=clean(tmp_path),
        cwd=tmp_path,
    )
    assert told.startswith(str(environment))


def test_the_command(environment: Path, model: Path, tmp_path: Path, call: Call) -> None:
    command = [environment / "bin" / "xrt", "run", model, "-i", "x=[[1,-2,0.5],[0,-3,4]]"]
    assert "1, 0, 0.5, 0, 0, 4" in call(*command, env=clean(tmp_path), cwd=tmp_path)


def test_a_function_in_a_worker(environment: Path, model: Path, tmp_path: Path, call: Call) -> None:
    """The program of the worker lies in the wheel and finds the library."""
    code = (
        "import sys, numpy, openxrt\n"
        "program = openxrt.load(sys.argv[1], engine='native', isolation='native')\n"
        "print(program(numpy.ones((2, 3), numpy.float32)).sum())"
    )
    python = environment / "bin" / "python"
    assert call(python, "-c", code, model, env=clean(tmp_path), cwd=tmp_path).strip() == "6.0"


def test_its_size(environment: Path) -> None:
    files = [p for p in package(environment).rglob("*") if "__pycache__" not in p.parts]
    size = sum(p.stat().st_size for p in files if p.is_file()) / 1e6
    print(f"\n    openxrt installed: {size:.1f} MB")
    assert size <= MOST_MEGABYTES


@pytest.mark.skipif("XRT_WHEEL" not in os.environ, reason="a wheel of this machine's libraries")
def test_what_it_asks_of_the_machine(environment: Path) -> None:
    """No newer C or C++ library than the wheel's name says."""
    found = list(binaries(package(environment)))
    assert {"xrt_worker", "libxrt_engine_native.so"} <= {file.name for file in found}
    assert {file.name: too_new(needed_versions(file)) for file in found} == {
        file.name: [] for file in found
    }


def test_the_library_bears_one_name_everywhere(
    environment: Path, wheel: Path, dynamic: Callable[[Path, str], list[str]]
) -> None:
    """The name that engines, which others build, ask for."""
    major, minor, *_ = wheel.name.split("-")[1].split(".")
    [library] = package(environment).glob("lib/libxrt.so*")
    assert dynamic(library, "SONAME") == [library.name] == [f"libxrt.so.{major}.{minor}"]


def test_packages_in_another_folder(
    environment: Path, model: Path, tmp_path: Path, call: Call
) -> None:
    """The engine's own search path does not lead there; Python's does."""
    elsewhere = tmp_path / "elsewhere"
    requirement = "openvino==2026.4.1"
    install(call, environment, requirement, "--no-deps", "--target", elsewhere)
    told = call(
        *(environment / "bin" / "python", "-c", SCRIPT, model, "native,openvino", "xla"),
        env=clean(tmp_path, PYTHONPATH=str(elsewhere)),
        cwd=tmp_path,
    )
    assert told.startswith(str(environment))


def test_another_version_of_a_vendors_library(
    environment: Path, model: Path, tmp_path: Path, call: Call
) -> None:
    """What was found and what is wanted stand in the report."""
    libraries = tmp_path / "elsewhere" / "openvino" / "libs"
    libraries.mkdir(parents=True)
    (libraries / "libopenvino.so.1999").write_bytes(b"another version")
    code = "import openxrt; print(*(r.error for r in openxrt.doctor() if r.name == 'openvino'))"
    told = call(
        *(environment / "bin" / "python", "-c", code),
        env=clean(tmp_path, PYTHONPATH=str(tmp_path / "elsewhere")),
        cwd=tmp_path,
    )
    assert "wanted libopenvino.so." in told
    assert "; to mend it: pip install openvino==" in told
    assert f"found {libraries / 'libopenvino.so.1999'}" in told


def test_further_engines(full_environment: Path, model: Path, tmp_path: Path, call: Call) -> None:
    engines = ",".join(("native", *FURTHER))
    python = full_environment / "bin" / "python"
    told = call(python, "-c", SCRIPT, model, engines, "", env=clean(tmp_path), cwd=tmp_path)
    assert told.startswith(str(full_environment))


def test_bench_with_a_peer(full_environment: Path, model: Path, tmp_path: Path, call: Call) -> None:
    """The peer's script lies in the package, wherever the command does."""
    command = [full_environment / "bin" / "xrt", "bench", model, "-e", "native"]
    told = call(
        *command, "--peer", "onnxruntime", "--rounds", "3", env=clean(tmp_path), cwd=tmp_path
    )
    assert "onnxruntime" in told
