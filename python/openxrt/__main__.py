# SPDX-License-Identifier: Apache-2.0
"""`python -m openxrt` is the `xrt` command."""

from ._command import main

main()
