# SPDX-License-Identifier: Apache-2.0
"""The `xrt` command of an installed package: hands over to the program beside this file."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from . import _plugins


def programs() -> list[Path]:
    """Where the program may be: in an installed package, or in a build folder."""
    folder = Path(__file__).absolute().parent
    return [folder / "bin" / "xrt", folder.parent.parent / "bin" / "xrt"]


def main() -> None:
    """Replaces this process by the C++ program, with the same arguments."""
    for program in programs():
        if program.is_file():
            _plugins.set_defaults()
            # `xrt bench --peers` runs its peers with this Python.
            os.environ.setdefault("XRT_PYTHON", sys.executable)
            os.execv(program, ["xrt", *sys.argv[1:]])
    sys.exit(f"xrt: the program is missing; looked for {', '.join(map(str, programs()))}")


if __name__ == "__main__":
    main()
