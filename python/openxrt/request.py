# SPDX-License-Identifier: Apache-2.0
"""Runs that were submitted: what :meth:`openxrt.Program.submit` returns."""

from __future__ import annotations

import asyncio
import atexit
import os
from collections.abc import Generator
from concurrent.futures import Future, wait
from threading import TIMEOUT_MAX
from typing import Any

from ._core import EngineError, SubmittedRun, end_visits


class Request(Future):
    """A run that was submitted: a :class:`concurrent.futures.Future` that can be awaited, too.

    >>> request = program.submit(x)
    >>> y = request.result()            # or: y = await request

    `cancel()` takes a run back that has not begun. Callbacks of `add_done_callback()` are called on
    a thread of the program; they may submit more.
    """

    def __init__(self) -> None:
        super().__init__()
        self._run: SubmittedRun | None = None  # from its place in the queue until its end
        self._process = os.getpid()
        _open.add(self)
        if _ending:
            self._abandon()
            raise EngineError("Python is shutting down")

    def cancel(self) -> bool:
        """Takes the run back where it has not begun: whether it was taken back."""
        run = self._run
        return self.cancelled() if run is None else run.cancel()

    def running(self) -> bool:
        """Whether the run takes place now."""
        run = self._run
        return run is not None and run.running()

    def result(self, timeout: float | None = None) -> Any:
        """What the run computed; waits for it, or raises its error."""
        self._check_process()
        return super().result(_waits(timeout))

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The run's error, or None; waits for its end."""
        self._check_process()
        return super().exception(_waits(timeout))

    def __await__(self) -> Generator[Any, None, Any]:
        self._check_process()
        return asyncio.wrap_future(self).__await__()

    def _check_process(self) -> None:
        if not self.done() and os.getpid() != self._process:
            raise EngineError(
                "the run was submitted in the process that this one was forked from, which "
                "carries it out"
            )

    def _begin(self, run: SubmittedRun) -> None:
        """Called when the run is in the queue."""
        self._run = run
        run.on_done(self)

    def _abandon(self) -> None:
        """Called where it did not get there: nobody is to wait for it."""
        super().cancel()
        self.set_running_or_notify_cancel()
        _open.discard(self)

    def _end(self) -> None:
        """Called once when it has ended, on whatever thread."""
        run, self._run = self._run, None
        if run.cancelled():
            super().cancel()
            self.set_running_or_notify_cancel()
        else:
            try:
                outputs = run.outputs()
            except BaseException as error:  # who waits for the result gets it
                self.set_exception(error)
            else:
                self.set_result(outputs)
        _open.discard(self)


def _waits(timeout: float | None) -> float | None:
    """None where the wait is longer than a lock can be waited for: nobody sees its end."""
    return None if timeout is not None and timeout > TIMEOUT_MAX else timeout


_open: set[Request] = set()  # without an end yet


_ending: list[bool] = []


def _end_all() -> None:
    """Before the interpreter ends: what has not begun is cancelled, the rest is waited for."""
    _ending.append(True)
    mine = [request for request in list(_open) if request._process == os.getpid()]
    for request in mine:
        request.cancel()
    wait(mine)
    end_visits()


atexit.register(_end_all)
