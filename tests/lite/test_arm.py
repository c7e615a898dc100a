# SPDX-License-Identifier: Apache-2.0
"""The driver "arm" as an emulated 64-bit Arm processor runs it: the kernels against their
definition, whole models against the native engine, int8 bit for bit against the other drivers.
examples/lite_aarch64 is the program that runs them.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path

import numpy as np
import openxrt
import openxrt.lite
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(ROOT / "tests" / "models"))
from expected import zoo  # noqa: E402
from networks import build_aarch64, emulated, fixed, int8_network, run, run_aarch64  # noqa: E402

COMPILER = "aarch64-linux-gnu-gcc"
QEMU = "qemu-aarch64-static"
pytestmark = pytest.mark.skipif(
    shutil.which(COMPILER) is None or shutil.which(QEMU) is None,
    reason="needs gcc-aarch64-linux-gnu and qemu-user-static",
)
RUNTIME = ROOT / "lite" / "runtime"
# A processor with dot products, and one without.
PROCESSORS = ("max", "cortex-a53")
# Models that are small or ship in small packages; all of the list with XRT_TEST_MODELS=all.
QUICK = ("silero_vad_16k_op15", "silero_vad_16k_sequence", "ppocr_v2_cls")
ALL = (*QUICK, "squeezenet1_1", "mobilenet_v2", "efficientnet_lite0", "resnet50", "minilm")
MODELS = ALL if os.environ.get("XRT_TEST_MODELS") == "all" else QUICK


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's build folder."""
    folder = tmp_path_factory.mktemp("aarch64")
    build_aarch64(folder)
    return folder


@pytest.mark.parametrize("isa", ["neon", "dotprod"])
def test_kernels_are_what_they_must_be(built: Path, isa: str, tmp_path: Path) -> None:
    program = tmp_path / "check"
    run(
        [COMPILER, "-std=c11", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror"]
        + [f"-I{RUNTIME / folder}" for folder in ("", "include", "src")]
        + [f"-I{ROOT / 'examples' / 'lite_mcu'}", "-DWIDE", '-DHEADER="drivers/arm/arm.h"']
        + [f'-DTABLE=xrt_arm_kernels("{isa}")', "-DPACK_N_F32=16", "-DPACK_K_F32=1"]
        + ["-DPACK_N_Q8=16", "-DPACK_K_Q8=4", ROOT / "tests" / "lite" / "kernel_check.c"]
        + [ROOT / "examples" / "lite_mcu" / "desktop.c", built / "lite" / "libxrt_lite.a"]
        + ["-lm", "-o", program]
    )
    cpu = "max" if isa == "dotprod" else "cortex-a53"
    assert emulated(cpu, program).endswith("all right\n")


@pytest.mark.parametrize("activation", [np.uint8, np.int8], ids=["uint8", "int8"])
@pytest.mark.parametrize("cpu", PROCESSORS)
def test_int8_is_the_same_on_all_drivers(
    built: Path, cpu: str, activation: type, tmp_path: Path
) -> None:
    model = tmp_path / "int8.onnx"
    feeds = int8_network(model, activation)
    openxrt.lite.compile(model, tmp_path / "m.bin", targets=["arm"])
    openxrt.lite.compile(model, tmp_path / "m.generic.bin", targets=["generic"])
    expected = openxrt.lite.Model(tmp_path / "m.generic.bin").run(feeds)
    assert len(np.unique(expected["z"])) > 50  # nothing is lost to saturation
    drivers = {
        "arm": run_aarch64(built, cpu, tmp_path / "m.bin", tmp_path / "m.generic.bin", feeds)
    }
    here = ["cortex-m", "x86"] if platform.machine() in ("x86_64", "AMD64") else ["cortex-m"]
    for target in here:
        openxrt.lite.compile(model, tmp_path / "here.bin", targets=[target])
        drivers[target] = openxrt.lite.Model(tmp_path / "here.bin").run(feeds)
    for driver, got in drivers.items():
        for name, want in expected.items():
            np.testing.assert_array_equal(got[name], want, err_msg=f"{driver}: {name}")


@pytest.mark.parametrize("name", MODELS)
def test_models_agree_with_the_native_engine(built: Path, name: str, tmp_path: Path) -> None:
    """Largest difference 1e-4 of the output's range."""
    model = zoo.ZOO[name]
    if reason := model.why_missing():
        pytest.skip(reason)
    static = tmp_path / "m.onnx"
    feeds = fixed(model.path(), model.feeds(), static)
    openxrt.lite.compile(static, tmp_path / "m.bin", targets=["arm"])
    openxrt.lite.compile(static, tmp_path / "m.generic.bin")
    expected = openxrt.load(static, ["native"]).run(feeds)
    for output, got in run_aarch64(
        built, "max", tmp_path / "m.bin", tmp_path / "m.generic.bin", feeds
    ).items():
        want = expected[output]
        assert got.shape == want.shape
        span = float(want.max() - want.min()) or 1.0
        difference = np.abs(got - want).max() / span
        print(f"{name}, {output}: {difference:.2e} of its range")
        assert difference <= 1e-4, output


@pytest.mark.parametrize("name", ["cnn", "mobile", "attention"])
def test_folders_of_oneflow(built: Path, name: str, tmp_path: Path) -> None:
    """A folder that OneFlow saved, and the outputs that OneFlow computed."""
    folder = ROOT / "tests" / "frontends" / "oneflow" / "data" / name
    openxrt.lite.compile(folder, tmp_path / "m.bin", targets="arm")
    openxrt.lite.compile(folder, tmp_path / "m.generic.bin")
    with np.load(folder / "cases.npz") as cases:
        feeds = {key: cases[key] for key in cases}
    outputs = run_aarch64(built, "max", tmp_path / "m.bin", tmp_path / "m.generic.bin", feeds)
    for key, actual in outputs.items():
        np.testing.assert_allclose(actual, feeds[key], rtol=1e-4, atol=1e-5)
