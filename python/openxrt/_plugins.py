# SPDX-License-Identifier: Apache-2.0
"""Where the vendors' packages of this Python environment keep what the engines open at run time."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

# Variable of the XLA engine → package and files below it, the newest first.
PLUGINS = {
    "XRT_PJRT_PLUGIN": ("xla_plugins", ("xla_cpu_pjrt/xla_cpu_pjrt.so",)),
    "XRT_PJRT_CUDA_PLUGIN": (
        "jax_plugins",
        ("xla_cuda13/xla_cuda_plugin.so", "xla_cuda12/xla_cuda_plugin.so"),
    ),
}


def set_defaults() -> None:
    """Sets XRT_PJRT_PLUGIN and XRT_PJRT_CUDA_PLUGIN to the plugins of xla-cpu-pjrt and
    jax-cuda13-pjrt, unless they are set or not installed, and XRT_PYTHON, with which TVM's compiler
    runs, to this interpreter.

    No package is imported: the import system is only asked for a folder.
    """
    os.environ.setdefault("XRT_PYTHON", sys.executable)
    for variable, (package, files) in PLUGINS.items():
        if variable in os.environ:
            continue
        spec = find_spec(package)
        folders = (spec.submodule_search_locations or []) if spec else []
        # Without pathlib, which takes as long to import as the rest of the package.
        found = (f"{folder}/{file}" for file in files for folder in folders)
        if plugin := next(filter(os.path.isfile, found), None):
            os.environ[variable] = plugin
