# SPDX-License-Identifier: Apache-2.0
"""The process under load: clients load models, run them, drop them and judge every outcome.

It writes a line of JSON each second, and some before the clients begin. Lines of its input say
which faults are at work: "NAME on", "NAME off", and "end".
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import dataclasses
import errno
import faulthandler
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openxrt
from load_models import Arrays, Model, make_models, relu

SHARED = 12  # programs that several clients run at once
THREADS = [1, 2]  # that a program may have
PLANS = 4  # of a program: for each of three sizes, and one for all others
GRACE = 3.0  # seconds after a fault in which something may still fail of it
SECONDS = 60  # of what is left to do at the end
DEADLINE = 300.0  # what an owner who runs models of strangers sets: with it, loops can be ended
CHOICES = {
    "native": ["native"],
    "openvino": ["openvino", "native"],
    "xla": ["xla", "native"],
    "onnxruntime": ["onnxruntime", "native"],
}
# By kind of fault: what may fail besides what the client itself asked for. The compile cache and a
# full disk may cost time, never an error; without descriptors anything may be refused.
FAULTS = ("worker", "descriptors", "disk")
# What an error of a fault says, and its kinds: the system refused a file of ours, memory that is
# shared with a worker (a file, too), or a file of an engine's library.
REFUSED = (openxrt.IoError, openxrt.ResourceError, openxrt.EngineError)
SAYS = {
    "descriptors": os.strerror(errno.EMFILE),
    "disk": os.strerror(errno.EFBIG),
}


class HeapState(ctypes.Structure):
    """What glibc's mallinfo2() returns: numbers of blocks, and bytes."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def heap_in_use() -> int:
    """Bytes of blocks that somebody holds, of all heaps and of those mapped by themselves. The free
    pages between them go back to the system, so that resident memory shows what is held.
    """
    library = ctypes.CDLL(None)
    library.malloc_trim(0)
    library.mallinfo2.restype = HeapState
    state = library.mallinfo2()
    return state.uordblks + state.hblkhd


class Faults:
    """When which fault was at work."""

    def __init__(self) -> None:
        self._at_work = dict.fromkeys(FAULTS, 0)
        self._until = dict.fromkeys(FAULTS, 0.0)
        self._lock = threading.Lock()

    def set(self, name: str, on: bool) -> None:
        with self._lock:
            self._at_work[name] += 1 if on else -1
            self._until[name] = time.monotonic() + GRACE

    def during(self, start: float) -> set[str]:
        """Those at work at some time since `start`."""
        with self._lock:
            return {
                name for name in FAULTS if self._at_work[name] > 0 or self._until[name] >= start
            }

    @contextlib.contextmanager
    def ends_worker(self, loaded: Loaded, when: bool) -> Iterator[None]:
        """Around a run that takes the worker of its engine along, with the runs of others there."""
        ends = when and loaded.isolated
        if ends:
            self.set("worker", True)
        try:
            yield
        finally:
            if ends:
                self.set("worker", False)


@dataclasses.dataclass
class Loaded:
    """A program of a model."""

    model: Model
    program: openxrt.Program
    isolated: bool
    bounded: bool
    text: str


class Tally:
    """What happened, and what was not to happen."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts: collections.Counter[str] = collections.Counter()
        self.wrong: list[str] = []

    def count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    def fail(self, kind: str, text: str) -> None:
        with self._lock:
            self.counts[kind] += 1
            if len(self.wrong) < 50:
                self.wrong.append(f"{kind}: {text[:600]}")


def difference(model: Model, given: dict[str, np.ndarray], wanted: Arrays) -> str:
    """Why the outputs are wrong; empty: they are right."""
    for name, right in wanted.items():
        made = np.asarray(given[name])
        if made.shape != right.shape:
            return f"'{name}' is of shape {made.shape}, not {right.shape}"
        if right.dtype.kind in "OU":
            if list(map(str, made.ravel())) != list(map(str, right.ravel())):
                return f"'{name}' has other texts"
        elif made.dtype != right.dtype:
            return f"'{name}' is {made.dtype}, not {right.dtype}"
        elif not np.allclose(made, right, rtol=model.tolerance, atol=model.tolerance):
            return f"'{name}' differs by {np.abs(made.astype(float) - right).max():.3g}"
    return ""


class Client:
    """One of many that work at the same time."""

    def __init__(self, seed: int, load: Load) -> None:
        self.load = load
        self.chance = random.Random(seed)
        self.began = 0.0  # of the operation under way; 0: none
        self.what = ""

    def work(self) -> None:
        while not self.load.ended.is_set():
            loaded = self.obtain()
            if loaded is None:
                continue
            for _ in range(self.chance.randint(1, 12)):
                if self.load.ended.is_set():
                    return
                self.act(loaded)

    def obtain(self) -> Loaded | None:
        """A program of this client, or one that is shared."""
        shared = self.load.shared
        place = self.chance.randrange(SHARED)
        if self.chance.random() < 0.5 and shared[place] is not None:
            return shared[place]
        made = self.load_program()
        if made is not None and self.chance.random() < 0.3:
            shared[place] = made  # the one before goes with its last run
        return made

    def load_program(self) -> Loaded | None:
        model = self.chance.choice(self.load.models)
        usable = [name for name in self.load.engines if name in model.engines]
        name = self.chance.choice([*usable, "native"] if "native" in usable else usable)
        engines = CHOICES[name]
        isolated = self.chance.random() < 0.3 and model.name != "texts"
        bounded = self.chance.random() < 0.1
        options: dict[str, Any] = {
            "cache_dir": self.chance.choice(["", str(self.load.cache)]),
            "num_threads": self.chance.choice(THREADS),
            "deadline_s": DEADLINE,
            "isolation": [name] if isolated else [],
        }
        if bounded:
            options["max_memory_bytes"] = self.chance.choice([64, 4096])
        path = self.load.folder / f"{model.name}.onnx"
        source: Any = path if self.chance.random() < 0.5 else model.content
        text = f"{model.name} on {name}, {options}"
        loaded = Loaded(model, None, isolated, bounded, text)  # type: ignore[arg-type]
        if self.chance.random() < 0.03:
            cut = model.content[: self.chance.randrange(len(model.content))]
            part = dataclasses.replace(loaded, isolated=False, bounded=False)
            what = f"load a part of {text}"
            self.expect_error(what, part, lambda: openxrt.load(cut), openxrt.InvalidModel)
            return None
        made = self.attempt(
            f"load {text}", loaded, lambda: openxrt.load(source, engine=engines, **options)
        )
        if made is None:
            return None
        loaded.program = made
        return loaded

    def act(self, loaded: Loaded) -> None:
        chance, model = self.chance.random(), loaded.model
        if chance < 0.06 and model.refused:
            values = self.chance.choice(model.refused)
            self.expect_error(
                f"refused values for {loaded.text}",
                loaded,
                lambda: loaded.program.run(values),
                (openxrt.InvalidArgument, openxrt.EngineError),
            )
        elif chance < 0.10:
            self.run_wrong_inputs(loaded)
        elif chance < 0.13 and model.endless is not None:
            with self.load.faults.ends_worker(loaded, True):
                self.expect_error(
                    f"a run without end of {loaded.text}",
                    loaded,
                    lambda: loaded.program.run(model.endless, timeout=0.2),
                    openxrt.ResourceError,
                )
        elif chance < 0.16:
            self.attempt(f"explain {loaded.text}", loaded, lambda: str(loaded.program.explain()))
        else:
            self.run_right(loaded, 1e-4 if chance < 0.22 else None)

    def run_right(self, loaded: Loaded, timeout: float | None) -> None:
        place = self.chance.randrange(len(loaded.model.inputs))
        values, wanted = loaded.model.inputs[place], loaded.model.outputs[place]
        with self.load.faults.ends_worker(loaded, timeout is not None):
            given = self.attempt(
                f"run {place} of {loaded.text}",
                loaded,
                lambda: loaded.program.run(values, timeout=timeout),
                timed=timeout is not None,
            )
        if given is None:
            return
        if why := difference(loaded.model, given, wanted):
            self.load.tally.fail("wrong result", f"run {place} of {loaded.text}: {why}")
        else:
            self.load.tally.count("right results")

    def run_wrong_inputs(self, loaded: Loaded) -> None:
        values = dict(self.chance.choice(loaded.model.inputs))
        name = self.chance.choice(sorted(values))
        kind = self.chance.choice(["dtype", "rank", "missing"])
        if kind == "dtype":
            values[name] = np.zeros(values[name].shape, np.complex64)
        elif kind == "rank":
            values[name] = np.zeros((2, 2, 2, 2, 2), values[name].dtype)
        else:
            del values[name]
        self.expect_error(
            f"{kind} of '{name}' of {loaded.text}",
            loaded,
            lambda: loaded.program.run(values),
            (openxrt.InvalidArgument, TypeError),
        )

    def begin(self, what: str) -> float:
        self.what, self.began = what, time.monotonic()
        return self.began

    def attempt(
        self, what: str, loaded: Loaded, call: Callable[[], Any], *, timed: bool = False
    ) -> Any:
        """What is to succeed but for faults; None where one of them was in the way."""
        start, tally = self.begin(what), self.load.tally
        try:
            return call()
        except Exception as error:  # every kind is judged
            faults = self.load.faults.during(start)
            reason = self.excuse(error, loaded, faults, timed=timed)
            if reason:
                tally.count(f"errors of {reason}")
            else:
                tally.fail("error", f"{what}: {type(error).__name__}: {error} {sorted(faults)}")
            return None
        finally:
            self.began = 0.0

    @staticmethod
    def excuse(error: Exception, loaded: Loaded, faults: set[str], *, timed: bool) -> str:
        """What the error is of; empty: there was to be none."""
        text = str(error)
        if isinstance(error, openxrt.ResourceError):
            if timed and "longer than its limit" in text:
                return "timeouts"
            if loaded.bounded and "max_memory_bytes" in text:
                return "bounds on memory"
        is_of_engine = isinstance(error, openxrt.EngineError)
        if is_of_engine and "worker" in faults and loaded.isolated and "worker" in text:
            return "workers"
        for name in faults & SAYS.keys():
            if isinstance(error, (*REFUSED, OSError)) and SAYS[name] in text:
                return name
        return ""

    def expect_error(
        self,
        what: str,
        loaded: Loaded,
        call: Callable[[], Any],
        kinds: type[Exception] | tuple[type[Exception], ...],
    ) -> None:
        """One of the kinds, or one of a fault that came first."""
        start, tally = self.begin(what), self.load.tally
        try:
            call()
            tally.fail("no error", what)
        except Exception as error:  # every kind is judged
            faults = self.load.faults.during(start)
            if isinstance(error, kinds):
                tally.count("errors that were asked for")
            elif reason := self.excuse(error, loaded, faults, timed=False):
                tally.count(f"errors of {reason}")
            else:
                tally.fail("error", f"{what}: {type(error).__name__}: {error} {sorted(faults)}")
        finally:
            self.began = 0.0


class Load:
    """What all clients share."""

    def __init__(self, folder: Path, engines: list[str], seed: int, clients: int) -> None:
        self.folder, self.engines = folder, engines
        self.cache = folder / "cache"
        self.models = make_models(folder)
        self.shared: list[Loaded | None] = [None] * SHARED
        self.faults, self.tally, self.ended = Faults(), Tally(), threading.Event()
        # Libraries write to standard output, too.
        self.report = os.fdopen(os.dup(sys.stdout.fileno()), "w")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        self.clients = [Client(seed * 1000 + number, self) for number in range(clients)]

    def listen(self) -> None:
        """Obeys the lines of standard input."""
        for line in sys.stdin:
            words = line.split()
            if words == ["end"]:
                break
            self.faults.set(words[0], words[1] == "on")
        self.ended.set()

    def slowest(self) -> tuple[float, str]:
        now = time.monotonic()
        return max(
            ((now - client.began, client.what) for client in self.clients if client.began),
            default=(0.0, ""),
        )

    def tell(self, **more: Any) -> None:
        seconds, what = self.slowest()
        row = {
            "counts": dict(self.tally.counts),
            "slowest": seconds,
            "what": what,
            "heap": heap_in_use(),
            **more,
        }
        print(json.dumps(row), file=self.report, flush=True)

    def fill_pools(self) -> None:
        """Has as many programs at once as the clients ever hold, of each engine and number of
        threads, each with as many plans as a program keeps. OpenVINO has two threads for each model
        and keeps them for models that follow: a pool that grows whenever there are more than ever
        before. Here it becomes as large as it can, so that later growth is a leak.
        """
        inputs = [np.linspace(-1, 1, n, dtype=np.float32) for n in range(2, 2 + PLANS)]
        for name in self.engines:
            for threads in THREADS:
                held = []
                for _ in range(SHARED + len(self.clients)):
                    program = openxrt.load(
                        relu(),
                        engine=CHOICES[name],
                        num_threads=threads,
                        cache_dir="",
                        force_compile=True,  # none shares what another one has
                    )
                    held.append(program)
                    for x in inputs:
                        if not np.array_equal(program(x), np.maximum(x, 0)):
                            self.tally.fail("wrong result", f"relu on {name}")
                self.tell(starting=True)

    def run(self) -> None:
        self.fill_pools()
        threads = [threading.Thread(target=client.work, daemon=True) for client in self.clients]
        threads.append(threading.Thread(target=self.listen, daemon=True))
        for thread in threads:
            thread.start()
        while not self.ended.wait(1):
            self.tell()
        hung = []
        for client, thread in zip(self.clients, threads, strict=False):
            thread.join(SECONDS)
            if thread.is_alive():
                hung.append(client.what)
        if hung:
            faulthandler.dump_traceback()
        self.shared.clear()
        self.tell(wrong=self.tally.wrong, hung=hung)


def main() -> None:
    """The arguments are a folder, names of engines by commas, a seed and the number of clients."""
    folder, engines, seed, clients = sys.argv[1:]
    Load(Path(folder), engines.split(","), int(seed), int(clients)).run()


if __name__ == "__main__":
    main()
