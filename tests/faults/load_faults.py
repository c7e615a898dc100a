# SPDX-License-Identifier: Apache-2.0
"""Faults of the mixed load, done to a process from outside: its workers, files and limits."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def children(process: int) -> list[int]:
    """Its workers."""
    found = []
    with contextlib.suppress(OSError):  # a thread that ends meanwhile
        for task in Path(f"/proc/{process}/task").iterdir():
            found += [int(word) for word in (task / "children").read_text().split()]
    return found


@dataclasses.dataclass
class Fault:
    """One kind of fault: what it does, and for how long what the clients are told of."""

    name: str
    begin: Callable[[], Any]
    end: Callable[[], Any] = lambda: None
    told: str = ""  # the name that the clients know it by
    seconds: float = 0.0


class Faults:
    """What is done to the process and to its files."""

    def __init__(self, process: int, folder: Path, chance: random.Random) -> None:
        self.process, self.folder, self.chance = process, folder, chance
        self.cache = folder / "cache"
        self.stopped: list[int] = []
        self.counts: dict[str, int] = {}
        self.kinds = [
            Fault("worker killed", lambda: self.signal_worker(signal.SIGKILL), told="worker"),
            Fault("worker aborted", lambda: self.signal_worker(signal.SIGABRT), told="worker"),
            Fault("worker stopped", self.stop_worker, self.go_on, seconds=1.0),
            Fault("cache file cut", lambda: self.damage(self.cut)),
            Fault("cache file changed", lambda: self.damage(self.flip)),
            Fault("cache file removed", lambda: self.damage(Path.unlink)),
            Fault("cache file unreadable", lambda: self.damage(lambda path: path.chmod(0))),
            Fault("cache folder removed", self.remove_folder),
            Fault(
                "cache folder open to all",
                lambda: self.mode(0o777),
                lambda: self.mode(0o700),
                seconds=1.0,
            ),
            Fault(
                "cache folder read-only",
                lambda: self.mode(0o500),
                lambda: self.mode(0o700),
                seconds=1.0,
            ),
            Fault("clock ahead", lambda: self.clock(time.time() + 1e8)),
            Fault("clock behind", lambda: self.clock(1e6)),
            Fault(
                "files may not grow",
                lambda: self.limit(resource.RLIMIT_FSIZE, 4096),
                lambda: self.lift(resource.RLIMIT_FSIZE),
                told="disk",
                seconds=2.0,
            ),
            Fault(
                "no descriptors left",
                lambda: self.limit(resource.RLIMIT_NOFILE, self.used_descriptors() + 2),
                lambda: self.lift(resource.RLIMIT_NOFILE),
                told="descriptors",
                seconds=1.0,
            ),
        ]
        self.limits = {
            kind: resource.prlimit(process, kind)
            for kind in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE)
        }

    def signal_worker(self, number: int) -> None:
        workers = children(self.process)
        if workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.chance.choice(workers), number)

    def stop_worker(self) -> None:
        self.stopped = children(self.process)[:1]
        for worker in self.stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGSTOP)

    def go_on(self) -> None:
        for worker in self.stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGCONT)

    def paths(self) -> list[Path]:
        """Files and folders of the cache, whatever the process removes meanwhile."""
        found = []
        for folder, folders, files in os.walk(self.cache):
            found += [Path(folder) / name for name in (*folders, *files)]
        return found

    def damage(self, how: Callable[[Path], Any]) -> None:
        files = [path for path in self.paths() if path.is_file()]
        if files:
            with contextlib.suppress(FileNotFoundError):  # one that the process removes
                how(self.chance.choice(files))

    def cut(self, path: Path) -> None:
        os.truncate(path, self.chance.randrange(max(path.stat().st_size, 1)))

    def flip(self, path: Path) -> None:
        size = path.stat().st_size
        if size == 0:
            return
        with path.open("r+b") as file:
            file.seek(self.chance.randrange(size))
            old = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([old[0] ^ 1 << self.chance.randrange(8)]))

    def remove_folder(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.cache.rename(self.folder / f"removed-{time.monotonic_ns()}")

    def mode(self, bits: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.cache.chmod(bits)

    def clock(self, seconds: float) -> None:
        """What files show of a clock that jumps."""
        for path in [*self.paths(), *self.folder.glob("*.onnx")]:
            with contextlib.suppress(FileNotFoundError):
                os.utime(path, (seconds, seconds))

    def used_descriptors(self) -> int:
        return max(int(path.name) for path in Path(f"/proc/{self.process}/fd").iterdir())

    def limit(self, kind: int, bound: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(self.process, kind, (bound, self.limits[kind][1]))

    def lift(self, kind: int) -> None:
        """As it was, for workers that began meanwhile, too."""
        for process in [self.process, *children(self.process)]:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(process, kind, self.limits[kind])

    def inject(self, tell: Callable[[str], None], wait: Callable[[float], Any]) -> None:
        """One of them, from its begin to its end."""
        fault = self.chance.choice(self.kinds)
        self.counts[fault.name] = self.counts.get(fault.name, 0) + 1
        if fault.told:
            tell(f"{fault.told} on")
            wait(0.1)  # the clients have read it
        try:
            fault.begin()
            wait(fault.seconds)
        finally:
            fault.end()
            if fault.told:
                tell(f"{fault.told} off")
