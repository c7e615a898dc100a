# SPDX-License-Identifier: Apache-2.0
"""Tensors in a GPU's memory in and out of programs, with stand-ins for the driver and for XLA's
CUDA plugin, so that it runs without a GPU. They must be found when the process starts."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SUPPORT = HERE.parent / "support"


def test_cuda_tensors(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or pytest.skip("there is no C compiler")
    spec = importlib.util.find_spec("xla_plugins")
    if spec is None:
        pytest.skip("XLA's CPU plugin is not installed")
    plugin = Path(next(iter(spec.submodule_search_locations))) / "xla_cpu_pjrt"
    sources = {"libcuda.so.1": SUPPORT / "fake_cuda.c", "plugin.so": HERE / "fake_cuda_plugin.c"}
    for name, source in sources.items():
        command = [compiler, "-shared", "-fPIC", "-I", plugin / "include", "-o", tmp_path / name]
        subprocess.run([*command, source, "-ldl"], check=True)
    libraries = [str(tmp_path), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": os.pathsep.join(libraries),
        "XRT_PJRT_CUDA_PLUGIN": str(tmp_path / "plugin.so"),
        "FAKE_CUDA_BEHIND": str(plugin / "xla_cpu_pjrt.so"),
    }
    checks = [sys.executable, "-m", "pytest", "-q", "-x", HERE / "cuda_tensors_checks.py"]
    run = subprocess.run(
        [*checks, "-p", "no:cacheprovider"], env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert " passed" in run.stdout
