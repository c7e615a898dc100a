# SPDX-License-Identifier: Apache-2.0
"""The console script `xrt` of an installed package: hands over to the program it holds."""

import os
import sys
from pathlib import Path


def main() -> None:
    """Replaces this process by openxrt/bin/xrt, with the same arguments."""
    program = Path(__file__).resolve().parent / "bin" / "xrt"
    os.execv(program, [str(program), *sys.argv[1:]])
