# SPDX-License-Identifier: Apache-2.0
"""Placement by the runtime, from Python and from the command line."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from openxrt import _command
from small_models import usable

RNG = np.random.default_rng(0)
W = RNG.standard_normal((64, 64)).astype(np.float32)
X = RNG.standard_normal((32, 64)).astype(np.float32)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """y = relu(x·w)·w."""
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["a"]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("MatMul", ["b", "w"], ["y"]),
        ],
        "two products",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [32, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [32, 64])],
        [numpy_helper.from_array(W, "w")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(made, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


EXPECTED = np.maximum(X @ W, 0) @ W


def error(y: np.ndarray) -> float:
    """Over the range, as the tolerance counts."""
    return float(np.abs(y - EXPECTED).max() / np.ptp(EXPECTED))


def test_fast_decides_by_estimates(model: Path) -> None:
    """At once, and it says what there was to choose from."""
    program = openxrt.load(model, auto_mode="fast")
    explanation = program.explain()
    assert explanation["placement"] == "estimated"
    assert explanation["precision"] == "f32"
    assert sum(row["chosen"] for row in explanation["candidates"]) == 1
    assert explanation["candidates"][0]["chosen"]
    assert "placement: estimated" in str(explanation)
    assert error(program(X)) < 1e-6


def test_full_measures(model: Path) -> None:
    """Every candidate has a time, or a reason why not."""
    program = openxrt.load(model, engine=["auto", "native", "openvino"], auto_mode="full")
    explanation = program.explain()
    assert explanation["placement"].startswith("measured")
    for row in explanation["candidates"]:
        assert row["measured_us"] > 0 or row["note"]
        assert row["precision"] == "f32"
    assert error(program(X)) < 1e-6
    assert "measured" in explanation.to_html()


@pytest.mark.parametrize("tolerance", [0.0, 0.05])
def test_precision_stays_within_the_tolerance(model: Path, tolerance: float) -> None:
    """Never beyond, and what it states is what comes out."""
    program = openxrt.load(
        model, engine=["auto", "native", "openvino"], precision="auto", tolerance=tolerance
    )
    explanation = program.explain()
    chosen = explanation["candidates"][0]
    assert chosen["precision"] == explanation["precision"]
    assert chosen["error"] <= tolerance
    if tolerance == 0:
        assert explanation["precision"] == "f32"
    assert error(program(X)) <= 1.5 * tolerance + 1e-6  # other inputs than it was judged by


def script(text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs Python code in a process of its own, with a cache folder where the user's would be."""
    clean = {
        key: value for key, value in os.environ.items() if key not in ("XRT_CACHE_DIR", "HOME")
    }
    return subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        check=False,
        env={**clean, **environment},
        timeout=120,
    )


# Runs until auto has decided, at most a minute.
UNTIL_MEASURED = """
import sys, time
import numpy as np
import openxrt
program = openxrt.load(MODEL, engine=["auto", "native", "openvino"])
x = np.zeros((32, 64), np.float32)
print(program.explain()["placement"])
end = time.monotonic() + 60
while "to be measured" in program.explain()["placement"] and time.monotonic() < end:
    program(x)
    time.sleep(0.005)
explanation = program.explain()
print(explanation["placement"])
print(*explanation["notes"], sep="\\n")
"""


def test_what_was_measured_is_kept_for_other_processes(model: Path, tmp_path: Path) -> None:
    """In the user's cache folder, where no folder was named; the command shows and clears it."""
    text = f"MODEL = {str(model)!r}\n{UNTIL_MEASURED}"
    cache = tmp_path / "home"
    for _ in range(3):  # a measurement on a busy machine is not kept
        first = script(text, XDG_CACHE_HOME=str(cache))
        assert first.returncode == 0, first.stderr
        assert first.stderr == ""
        if first.stdout.splitlines()[1] == "measured":
            break
    else:
        pytest.skip("the machine was busy all the time")
    assert first.stdout.startswith("estimated, to be measured")
    assert "auto: measured on 20" in first.stdout
    folder = cache / "openxrt" / "decisions"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert sum(path.stat().st_size for path in folder.iterdir()) < 100_000
    second = script(text, XDG_CACHE_HOME=str(cache))
    assert second.stdout.splitlines()[:2] == ["measured earlier"] * 2
    assert "auto: measured on 20" in second.stdout, "when"
    program = next(path for path in _command.programs() if path.is_file())
    environment = {key: value for key, value in os.environ.items() if key != "XRT_CACHE_DIR"}
    for arguments, said in ((["list"], "1 entry"), (["clear"], "removed 1 entry")):
        done = subprocess.run(
            [program, "cache", *arguments],
            capture_output=True,
            text=True,
            check=True,
            env={**environment, "XDG_CACHE_HOME": str(cache)},
            timeout=60,
        )
        assert said in done.stdout
    assert not list(folder.iterdir())


@pytest.mark.parametrize("home", ["/dev/null/home", "/proc/home", ""])
def test_a_home_that_cannot_be_written_to_is_no_error(model: Path, home: str) -> None:
    """It is measured all the same, and nothing is said."""
    text = f"MODEL = {str(model)!r}\n{UNTIL_MEASURED}"
    done = script(text, XDG_CACHE_HOME=home)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.splitlines()[1].startswith("measured")


def test_a_process_may_end_while_it_is_measured(model: Path) -> None:
    """With the program still there; and a child that fork() made may let go of its copy."""
    text = f"""
import os, sys, time
import numpy as np
import openxrt
program = openxrt.load({str(model)!r}, engine=["auto", "native", "openvino", "onnxruntime"])
x = np.zeros((32, 64), np.float32)
end = time.monotonic() + 1.05  # measuring has just begun
while time.monotonic() < end:
    program(x)
child = os.fork()
if child == 0:
    del program
    os._exit(7)  # other libraries' threads would be waited for
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""
    start = time.monotonic()
    done = script(text, XRT_CACHE_DIR="")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - start < 20


def test_mistakes(model: Path) -> None:
    """Words that mean nothing."""
    with pytest.raises(openxrt.InvalidArgument, match="fast, full or background"):
        openxrt.load(model, auto_mode="slow")
    with pytest.raises(openxrt.InvalidArgument, match="f32, bf16, f16 or auto"):
        openxrt.load(model, precision="int8")


def test_command(model: Path) -> None:
    """The same options."""
    program = next(path for path in _command.programs() if path.is_file())
    done = subprocess.run(
        [program, "inspect", model, "-e", "auto,native,openvino", "--auto", "full", "--json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    explanation = json.loads(done.stdout)
    assert explanation["placement"].startswith("measured")
    assert {row["plan"] for row in explanation["candidates"]} >= {"native", "openvino,native"}


NOT_OPENED = """
import openxrt
from encoder import encoder_feeds, encoder_model

program = openxrt.load(
    encoder_model(1, 32),
    ranges={"batch": (1, 2, 4), "sequence": (1, 64)},
    auto_mode="full",
    cache_dir="",
)
program.run(encoder_feeds(2, 9))
notes = {row["plan"]: row["note"] for row in program.explain()["candidates"]}
assert "fixed sizes" in notes["xla,native"], notes
assert "pjrt" not in open("/proc/self/maps").read()
"""


def test_an_engine_of_fixed_sizes_is_not_opened_for_open_ones() -> None:
    """What its library would take is memory for nothing."""
    if not usable("xla"):
        pytest.skip("xla is not there")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", NOT_OPENED],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
