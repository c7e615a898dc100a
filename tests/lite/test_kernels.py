# SPDX-License-Identifier: Apache-2.0
"""The drivers in plain C under AddressSanitizer and UndefinedBehaviorSanitizer, against the
definition of their kernels. Those for processors with vectors are in x86_kernels_test.cc and
test_arm.py, cortex-m's instructions in test_mcu.py.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from networks import run

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = ROOT / "lite" / "runtime"
# How the compiler's target packs: float by channels and terms, int8 likewise.
DRIVERS = {"generic": (8, 1, 8, 1), "cortex_m": (4, 1, 1, 4)}


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize("driver", DRIVERS)
def test_kernels_are_what_they_must_be(driver: str, tmp_path: Path) -> None:
    sources = [ROOT / "tests/lite/kernel_check.c", ROOT / "examples/lite_mcu/desktop.c"]
    for folder in {"generic", driver}:
        sources += (RUNTIME / "drivers" / folder).glob("*.c")
    flags = ["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]
    flags += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-DWIDE"]
    flags += [f"-I{ROOT / 'examples/lite_mcu'}", f"-I{RUNTIME / 'include'}", f"-I{RUNTIME / 'src'}"]
    names = ("PACK_N_F32", "PACK_K_F32", "PACK_N_Q8", "PACK_K_Q8")
    flags += [f"-D{name}={n}" for name, n in zip(names, DRIVERS[driver], strict=True)]
    program = tmp_path / "check"
    run(["gcc", *flags, f"-DDRIVER=xrt_lite_{driver}_driver", *sources, "-lm", "-o", program])
    assert run([program]).endswith("all right\n")
