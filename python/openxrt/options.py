# SPDX-License-Identifier: Apache-2.0
"""The options of a program as data: names, kinds, defaults, help.

>>> [option.name for option in openxrt.options.table() if option.words]
['auto_mode', 'precision']
"""

from __future__ import annotations

from ._option import Option
from ._option_table import TABLE

__all__ = ["Option", "table"]


def table() -> tuple[Option, ...]:
    """Every option of :func:`openxrt.load`, in the order of docs/reference/options.md.

    Those without effect (`retired`) come last: programs written for OneFlow-XRT may name them.
    """
    return TABLE
