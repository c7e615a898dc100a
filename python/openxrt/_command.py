# SPDX-License-Identifier: Apache-2.0
"""The `xrt` command of an installed package.

The command is a C++ library. Called by this process, it also has the engines that are written in
Python; the program beside it (bin/xrt) is the same without Python.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path


def programs() -> list[Path]:
    """Where the program may be: in an installed package, or in a build folder."""
    folder = Path(__file__).absolute().parent
    return [folder / "bin" / "xrt", folder.parent.parent / "bin" / "xrt"]


def failure(code: int, stderr: str) -> Exception:
    """What to raise for a command that failed, by its exit code and what it wrote."""
    from ._core import Error, InvalidArgument

    usage = 2
    return (InvalidArgument if code == usage else Error)(stderr.strip())


def main() -> None:
    """Runs the command with the arguments of this process and exits with its code."""
    libraries = [p.parent.parent / "lib" / "libxrt_command.so" for p in programs()]
    library = next((path for path in libraries if path.is_file()), None)
    if library is None:
        sys.exit(f"xrt: the command is missing; looked for {', '.join(map(str, libraries))}")
    import openxrt  # noqa: F401 makes the engines of Python known, and finds vendors' packages

    # `xrt bench --peers` runs its peers with this Python.
    os.environ.setdefault("XRT_PYTHON", sys.executable)
    # As in any program: Ctrl-C ends it, and so does a closed pipe.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    words = [b"xrt", *map(os.fsencode, sys.argv[1:])]
    command = ctypes.CDLL(str(library)).xrt_run_command
    sys.exit(command(len(words), (ctypes.c_char_p * (len(words) + 1))(*words, None)))


if __name__ == "__main__":
    main()
