# SPDX-License-Identifier: Apache-2.0
"""What this process holds, as the kernel tells it."""

from __future__ import annotations

from pathlib import Path


def own_bytes(key: str) -> int:
    """VmRSS: resident now; RssAnon: of that, what is no mapped file; VmHWM: the most that was
    resident. Not ru_maxrss, which begins with what the process that started this one had."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    rows = dict(line.split(":", 1) for line in status.splitlines())
    return int(rows[key].split()[0]) * 1024
