# SPDX-License-Identifier: Apache-2.0
"""What a process holds, sampled from outside, and whether it grows."""

from __future__ import annotations

import itertools
import statistics
from pathlib import Path

# The end of a child's program: its peak in KiB. ru_maxrss begins with what the parent had.
PRINT_PEAK = """
with open("/proc/self/status") as status:
    print(next(row.split()[1] for row in status if row.startswith("VmHWM:")))
"""


def first_number(path: Path, key: str) -> int:
    """That of a line of /proc."""
    for line in path.read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1])
    return 0


def sample(process: int) -> dict[str, int]:
    """What the process holds now."""
    folder = Path(f"/proc/{process}")
    return {
        "memory": first_number(folder / "status", "VmRSS:") << 10,
        "threads": first_number(folder / "status", "Threads:"),
        "descriptors": sum(1 for _ in (folder / "fd").iterdir()),
        "mappings": (folder / "maps").read_text().count("\n"),
    }


def peak_kib() -> int:
    """The most memory that this process had."""
    return first_number(Path("/proc/self/status"), "VmHWM:")


def rise(values: list[float]) -> float:
    """Of a line through values at equal distances, from the first to the last."""
    if len(values) < 2:
        return 0.0
    # A few hundred points say the same as thousands, whose pairs are millions.
    thinned = values[:: max(len(values) // 300, 1)]
    slopes = [(b - a) / (j - i) for (i, a), (j, b) in itertools.combinations(enumerate(thinned), 2)]
    return statistics.median(slopes) * (len(thinned) - 1)
