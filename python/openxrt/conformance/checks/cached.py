# SPDX-License-Identifier: Apache-2.0
"""One step of the check `cache`, in a process of its own: programs with a cache folder.

Reads a request as JSON from standard input; writes `N.npz` with the outputs of case N, or `N.txt`
with what went wrong, into the folder named there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from ..subject import Failed, Skipped, Subject
from .programs import _cached_sample
from .registry import Case


def main() -> None:
    """Runs every case of the request."""
    request = json.load(sys.stdin)
    subject = Subject(**request["engine"])
    folder = Path(request["outputs"])
    for i, (op, name) in enumerate(request["cases"]):
        model, feeds = _cached_sample(Case("cache", name, op), request["seed"])
        try:
            program = subject.load(
                model, cache_dir=request["folder"], force_compile=request["step"] == "force"
            )
            outputs = subject.run(program, feeds)
        except (Failed, Skipped) as error:
            (folder / f"{i}.txt").write_text(str(error), encoding="utf-8")
            continue
        part = folder / f"{i}.part.npz"
        np.savez(part, **{f"y{k}": value for k, value in enumerate(outputs)})
        part.replace(folder / f"{i}.npz")


if __name__ == "__main__":
    main()
