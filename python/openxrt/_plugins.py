# SPDX-License-Identifier: Apache-2.0
"""Where the vendors' packages of this Python environment keep what the engines open at run time."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path


def set_defaults() -> None:
    """Sets XRT_PJRT_PLUGIN to the plugin of xla-cpu-pjrt, unless it is set or not installed, and
    XRT_PYTHON, with which TVM's compiler runs, to this interpreter.

    No package is imported: the import system is only asked for a folder.
    """
    os.environ.setdefault("XRT_PYTHON", sys.executable)
    if "XRT_PJRT_PLUGIN" in os.environ:
        return
    spec = find_spec("xla_plugins")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        plugin = Path(folder) / "xla_cpu_pjrt" / "xla_cpu_pjrt.so"
        if plugin.is_file():
            os.environ["XRT_PJRT_PLUGIN"] = str(plugin)
            return
