# SPDX-License-Identifier: Apache-2.0
"""Programs in C: of the sources that the compiler writes, in C and in C++, and with the loader."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import openxrt.lite
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from networks import run

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples" / "lite_mcu" / "digits_int8.onnx"
RUNTIME = ROOT / "lite" / "runtime"
GUIDE = ROOT / "docs" / "guides" / "lite.md"
FLAGS = ["-Wall", "-Wextra", "-Werror", "-O2", "-ffp-contract=off"]

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")


def judge(value: float) -> np.ndarray:
    """What ONNX Runtime makes of a picture of this value, node by node.

    Its products of 8 bits saturate on processors without VNNI; unfused nodes compute in float32.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(MODEL, options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.full((1, 1, 8, 8), value, np.float32)})[0].ravel()


def wanted() -> np.ndarray:
    """Of a picture of sixteens (ones, after scaling)."""
    return judge(1)


MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "digits.h"
int main(void) {
  float x[64], y[10];
  const void* inputs[] = {x};
  void* outputs[] = {y};
  void* arena = aligned_alloc(64, (DIGITS_ARENA_BYTES + 63) / 64 * 64);
  for (int i = 0; i < 64; ++i) x[i] = 1;
  if (digits_run(inputs, outputs, arena) != XRT_LITE_OK) return 1;
  for (int i = 0; i < 10; ++i) printf("%.6g\\n", y[i]);
  free(arena);
  return 0;
}
"""


@pytest.mark.parametrize(
    ("compiler", "standard"), [("gcc", "c11"), ("g++", "c++11"), ("g++", "c++20")]
)
def test_sources_are_c_and_cpp(compiler: str, standard: str, tmp_path: Path) -> None:
    openxrt.lite.compile(MODEL, tmp_path / "digits.c", emit="c", targets="generic")
    suffix = "c" if compiler == "gcc" else "cc"
    (tmp_path / f"main.{suffix}").write_text(MAIN)
    shutil.copy(tmp_path / "digits.c", tmp_path / f"model.{suffix}")
    includes = [f"-I{tmp_path}", f"-I{RUNTIME / 'include'}", f"-I{RUNTIME / 'src'}"]
    kernels = [p for p in (RUNTIME / "drivers" / "generic").glob("*.c") if p.name != "driver.c"]
    run(["gcc", "-std=c11", "-r", *FLAGS, *includes, *kernels, "-o", tmp_path / "k.o"])
    program = tmp_path / "program"
    ours = [tmp_path / f"main.{suffix}", tmp_path / f"model.{suffix}"]
    options = [f"-std={standard}", "-pedantic", *FLAGS, *includes]
    run([compiler, *options, *ours, tmp_path / "k.o", "-lm", "-o", program])
    found = np.array(run([program]).split(), np.float32)
    assert np.abs(found - wanted()).max() < 0.02 * np.ptp(wanted())


def test_the_example(tmp_path: Path) -> None:
    """examples/lite_c prints the largest score of a picture of zeros."""
    openxrt.lite.compile(MODEL, tmp_path / "digits.bin", targets="generic")
    example = ROOT / "examples" / "lite_c"
    cmake = Path(sys.executable).parent / "cmake"
    cmake = cmake if cmake.is_file() else Path("cmake")
    run([cmake, "-S", example, "-B", tmp_path / "build"])
    run([cmake, "--build", tmp_path / "build"])
    said = run([tmp_path / "build" / "lite_c", tmp_path / "digits.bin"])
    scores = judge(0)
    match = re.fullmatch(r"y: largest (\S+) at (\d+)\n", said)
    assert match, said
    assert int(match[2]) == scores.argmax()
    assert abs(float(match[1]) - scores.max()) < 0.02 * np.ptp(scores)
    failed = subprocess.run(
        [tmp_path / "build" / "lite_c", MODEL], capture_output=True, text=True, check=False
    )
    assert failed.returncode == 1
    assert "not a model file" in failed.stderr


def test_the_compiler_line_of_the_guide(tmp_path: Path) -> None:
    """The guide's command builds the example without CMake."""
    text = GUIDE.read_text()
    line = text[text.index("gcc -std=gnu11") :].split("\n```")[0]
    done = subprocess.run(
        line.replace("-o lite_c", f"-o {tmp_path / 'lite_c'}"),
        shell=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    openxrt.lite.compile(MODEL, tmp_path / "digits.bin", targets="generic")
    assert run([tmp_path / "lite_c", tmp_path / "digits.bin"]).startswith("y: largest ")
