# SPDX-License-Identifier: Apache-2.0
"""The program that runs an engine written in Python for another process.

`openxrt.engines.worker_command` starts it; libxrt puts a socket, the engine's name and its own
process id behind the command.
"""

from __future__ import annotations

import sys

from . import engines  # noqa: F401 so that engines of Python are known
from ._core import serve_engine


def main() -> None:
    """Serves until the other process is gone; does not return."""
    socket, engine, parent = sys.argv[1:]
    serve_engine(socket, engine, parent)
