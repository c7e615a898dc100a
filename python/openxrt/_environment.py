# SPDX-License-Identifier: Apache-2.0
"""What engines and compilers outside Python learn of this interpreter: environment variables."""

from __future__ import annotations

import os
import sys


def set_defaults() -> None:
    """Sets XRT_PYTHON to this interpreter and XRT_PYTHON_PACKAGES to the folders that it imports
    from, unless they are set."""
    os.environ.setdefault("XRT_PYTHON", sys.executable)
    # Without pathlib, which takes as long to import as the rest of the package.
    folders = (path for path in sys.path if os.path.isdir(path))  # noqa: PTH112
    os.environ.setdefault("XRT_PYTHON_PACKAGES", os.pathsep.join(folders))
