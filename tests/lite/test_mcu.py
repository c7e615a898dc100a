# SPDX-License-Identifier: Apache-2.0
"""The example for microcontrollers: right, small, and bit for bit what a desktop computes."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import openxrt.lite
import pytest
from openxrt import _command

sys.path.insert(0, str(Path(__file__).resolve().parent))
from networks import int8_network

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "lite_mcu"
RUNTIME = ROOT / "lite" / "runtime"
needs_emulator = pytest.mark.skipif(
    shutil.which("arm-none-eabi-gcc") is None or shutil.which("qemu-system-arm") is None,
    reason="needs gcc-arm-none-eabi and qemu-system-arm",
)
# Plain C, SMLAD (twice) and MVE.
BOARDS = {
    "mps2-an385": ["-mcpu=cortex-m3"],
    "mps2-an386": ["-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"],
    "mps2-an500": ["-mcpu=cortex-m7", "-mfloat-abi=hard", "-mfpu=fpv5-sp-d16"],
    "mps3-an547": ["-mcpu=cortex-m55", "-mfloat-abi=hard"],
}


def make(target: str, out: Path, *variables: str) -> str:
    """Runs make and returns what it printed."""
    command = next(path for path in _command.programs() if path.is_file())
    compiler = command.with_name("xrt-lite-compile")
    arguments = [
        "make",
        "-s",
        "-C",
        EXAMPLE,
        target,
        f"OUT={out}",
        f"COMPILER={compiler}",
        *variables,
    ]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_desktop_reads_the_digits(tmp_path: Path) -> None:
    assert "20 of 20 right" in make("desktop", tmp_path)


@needs_emulator
@pytest.mark.parametrize(
    ("board", "target"), [("mps2-an385", "generic"), *((board, "cortex-m") for board in BOARDS)]
)
def test_cortex_m_computes_the_same_bits(board: str, target: str, tmp_path: Path) -> None:
    variables = (f"BOARD={board}", f"TARGET={target}")
    assert make("run", tmp_path, *variables) == make("desktop", tmp_path, *variables)


@needs_emulator
def test_program_with_the_loader_computes_the_same_bits(tmp_path: Path) -> None:
    assert make("run-file", tmp_path) == make("desktop", tmp_path)


@needs_emulator
def test_programs_are_small(tmp_path: Path) -> None:
    """With C sources, and with a file, the loader and all kernels."""
    for line in make("size", tmp_path).splitlines()[1:]:
        text, data = line.split()[:2]
        assert int(text) + int(data) <= 100 * 1024, line


@needs_emulator
@pytest.mark.parametrize("board", BOARDS)
def test_kernels_are_what_they_must_be(board: str, tmp_path: Path) -> None:
    """Those of the driver "cortex-m", against their definition."""
    packing = ["-DPACK_N_F32=4", "-DPACK_K_F32=1", "-DPACK_N_Q8=1", "-DPACK_K_Q8=4"]
    flags = [*packing, "-DDRIVER=xrt_lite_cortex_m_driver"]
    program = tmp_path / "check.elf"
    build(board, program, flags, [ROOT / "tests" / "lite" / "kernel_check.c"])
    assert emulated(board, program).endswith("all right\n")


@needs_emulator
@pytest.mark.parametrize("board", BOARDS)
def test_int8_network_computes_the_same_bits(board: str, tmp_path: Path) -> None:
    """All int8 kernels in one network, loaded from flash, against the driver generic here."""
    activation = np.uint8 if board == "mps2-an386" else np.int8
    feeds = int8_network(tmp_path / "m.onnx", activation)
    (tmp_path / "input").write_bytes(feeds["x"].tobytes())
    openxrt.lite.compile(tmp_path / "m.onnx", tmp_path / "m.bin", targets="cortex-m")
    openxrt.lite.compile(tmp_path / "m.onnx", tmp_path / "here.bin", targets="generic")
    expected = openxrt.lite.Model(tmp_path / "here.bin").run(feeds)
    files = [f'-DMODEL_FILE="{tmp_path}/m.bin"', f'-DINPUT_FILE="{tmp_path}/input"']
    sources = [ROOT / "tests" / "lite" / "mcu_model.c", *(RUNTIME / "src").glob("*.c")]
    program = tmp_path / "model.elf"
    build(board, program, files, sources)
    got = [int(word, 16) for word in emulated(board, program).split()]
    want = np.concatenate([value.ravel() for value in expected.values()]).view(np.uint32)
    np.testing.assert_array_equal(np.array(got, np.uint32), want)


def build(board: str, program: Path, flags: list[str], sources: list[Path]) -> None:
    """Links sources with the kernels for a board."""
    drivers = RUNTIME / "drivers"
    sources = [*sources, EXAMPLE / "board.c", *(drivers / "cortex_m").glob("*.c")]
    sources += (drivers / "generic").glob("*.c")
    include = [f"-I{folder}" for folder in (EXAMPLE, RUNTIME / "include", RUNTIME / "src")]
    common = ["-std=c11", "-Os", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-mthumb"]
    link = ["-nostartfiles", "--specs=nano.specs", "--specs=nosys.specs"]
    link += ["-Wl,--defsym=ram_bytes=512K", "-T", EXAMPLE / "mps2.ld"]
    command = ["arm-none-eabi-gcc", *common, *BOARDS[board], *include, *flags, *link, *sources]
    subprocess.run([*command, "-lm", "-o", program], check=True)


def emulated(board: str, program: Path) -> str:
    """What a program prints, which QEMU takes to standard error."""
    options = ["-nographic", "-monitor", "none", "-serial", "none"]
    options += ["-semihosting-config", "enable=on,target=native"]
    done = subprocess.run(
        ["qemu-system-arm", "-M", board, *options, "-kernel", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
