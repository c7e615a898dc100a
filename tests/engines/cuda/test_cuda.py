# SPDX-License-Identifier: Apache-2.0
"""The CUDA engine without a GPU: its kernels run on the CPU through stand-ins for the driver and
for NVRTC, and are compiled by the real NVRTC for several generations of cards."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CHECKS = sorted((HERE / "checks").glob("*.py"))
STANDINS = HERE.parents[1] / "lite" / "standin"
SUPPORT = HERE.parents[1] / "support"
GENERATIONS = ("75", "80", "90", "100", "120")  # compute capabilities, without the point


@pytest.fixture(scope="module")
def standins(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which the engine finds the stand-ins."""
    compiler = shutil.which("c++") or pytest.skip("there is no C++ compiler")
    folder = tmp_path_factory.mktemp("standins")
    defines = {
        "cuda.cc": ["-DXRT_STANDIN_POINTERS=24"],
        "nvrtc.cc": [f'-DXRT_STANDIN_CXX="{compiler}"', f'-DXRT_STANDIN_INCLUDE="{STANDINS}"'],
    }
    files = {"cuda.cc": folder / "libcuda.so.1", "nvrtc.cc": folder / "libnvrtc.so"}
    command = [compiler, "-std=c++20", "-O1", "-fPIC", "-shared"]
    for source, given in defines.items():
        subprocess.run(
            [*command, *given, "-o", files[source], STANDINS / source, "-ldl"], check=True
        )
    for source in ("cublaslt", "cudnn"):
        made = ["-o", folder / f"lib{source}.so", HERE / "standin" / f"{source}.cc", "-ldl"]
        subprocess.run([*command, *made], check=True)
    libraries = [str(folder), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return {
        **os.environ,
        "LD_LIBRARY_PATH": os.pathsep.join(libraries),
        "XRT_NVRTC": str(files["nvrtc.cc"]),
        "CUDA_STANDIN": "1",
        "XRT_STANDIN_DEVICES": "2",
    }


@pytest.mark.parametrize("libraries", ["without libraries", "with libraries"])
@pytest.mark.parametrize("checks", [file.stem for file in CHECKS])
def test_checks_with_stand_ins(standins: dict[str, str], checks: str, libraries: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", HERE / "checks" / f"{checks}.py"]
    folder = Path(standins["XRT_NVRTC"]).parent if libraries == "with libraries" else Path("/none")
    also = {"XRT_CUDNN": f"{folder}/libcudnn.so", "XRT_CUBLASLT": f"{folder}/libcublaslt.so"}
    run = subprocess.run(
        [*command, "-p", "no:cacheprovider"], env=standins | also, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    assert " passed" in run.stdout


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import numpy as np
import cuda_models as c
folder = Path(sys.argv[2])
nodes = [c.node("Add", "x y", "a"), c.node("Softmax", "a", "b"),
         c.node("ReduceMean", "b axes", "d"), c.node("MatMul", "b y", "e"),
         c.node("MaxPool", "p", "f", kernel_shape=[3, 3]),
         c.node("Conv", "p w", "g", kernel_shape=[1, 1]),
         c.node("Conv", "r u", "h", kernel_shape=[7, 7], pads=[3] * 4, group=96),
         c.node("MaxPool", "h", "i", kernel_shape=[3, 3])]
for kind in (c.FLOAT, c.HALF):
    w = np.ones((4, 3, 1, 1), c.DTYPES[kind])
    u = np.ones((96, 1, 7, 7), c.DTYPES[kind])
    made = c.model(nodes, {"x": (kind, (8, 8)), "y": (kind, (8, 8)), "p": (kind, (1, 3, 9, 9)),
                           "r": (kind, (8, 96, 56, 56))},
                   list("defgi"), {"axes": np.array([0], np.int64), "w": w, "u": u})
    options = {"source_dir": str(folder / str(kind)), "measure": "false"}
    c.load(made, folder, engine_options={"cuda": options})
bytes_ = [c.node("QuantizeLinear", "p s z", "q"), c.node("DequantizeLinear", "q s z", "d"),
          c.node("DequantizeLinear", "w s t", "v"), c.node("Conv", "d v", "y", kernel_shape=[3, 3])]
made = c.model(bytes_, {"p": (c.FLOAT, (1, 64, 20, 20))}, ["y"],
               {"s": np.float32(0.1), "z": np.uint8(3), "t": np.int8(0),
                "w": np.ones((128, 64, 3, 3), np.int8)})
options = {"source_dir": str(folder / "bytes"), "measure": "false"}
c.load(made, folder, engine_options={"cuda": options})
"""


def test_sources_compile_for_each_generation(standins: dict[str, str], tmp_path: Path) -> None:
    """By NVRTC itself, which needs no GPU."""
    spec = importlib.util.find_spec("nvidia")
    found = [
        file
        for folder in (spec.submodule_search_locations if spec else [])
        for file in sorted(Path(folder).glob("*/lib/libnvrtc.so.1?"))
    ]
    if not found:
        pytest.skip("nvidia-cuda-nvrtc is not installed")
    subprocess.run([sys.executable, "-c", SCRIPT, SUPPORT, tmp_path], env=standins, check=True)
    sources = sorted(tmp_path.glob("*/*.cu"))
    assert len(sources) == 3
    for helper in found[-1].parent.glob("libnvrtc-builtins.so.*"):
        ctypes.CDLL(str(helper))
    nvrtc = ctypes.CDLL(str(found[-1]))
    for source in sources:
        wide = "warpgroup_sums" in source.read_text()  # made for one generation
        for generation in ("90a",) if wide else GENERATIONS:
            program = ctypes.c_void_p()
            text = source.read_bytes()
            assert (
                nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, b"m.cu", 0, None, None) == 0
            )
            options = [f"--gpu-architecture=sm_{generation}".encode(), b"--std=c++17"]
            status = nvrtc.nvrtcCompileProgram(program, 2, (ctypes.c_char_p * 2)(*options))
            size = ctypes.c_size_t()
            nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            nvrtc.nvrtcGetProgramLog(program, log)
            assert status == 0, (generation, log.value.decode()[:3000])
