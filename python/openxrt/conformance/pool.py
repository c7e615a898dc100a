# SPDX-License-Identifier: Apache-2.0
"""Requests answered by worker processes: a crash or a hang costs one answer, not the run.

A worker is a process that reads one JSON request per line from standard input and answers each with
one JSON line. What libraries print in it goes to standard error.
"""

from __future__ import annotations

import json
import os
import queue
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

START_SECONDS = 120  # for a worker to import its engines on a busy machine

Request = dict[str, Any]
Answer = dict[str, Any]


class WorkerLost(Exception):
    """The worker died or hung; the message says how, and `kind` is "crash" or "hang"."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class Worker:
    """One worker process; its owner starts another one when it is `lost`."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 closed with the worker
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=environment,
            start_new_session=True,
            bufsize=0,
        )
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)
        self.buffer = b""
        try:
            started = self._read(START_SECONDS) is not None
        except TimeoutError:
            started = False
        if not started:
            reason = self._tail(4000)
            self.stop()
            raise RuntimeError(f"a worker did not start:\n{reason}")

    def ask(self, request: Request, seconds: float) -> Answer:
        """The answer. Raises WorkerLost where the worker dies or gives none within `seconds`."""
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            answer = self._read(seconds)
            if answer is not None:
                return answer
            raise self._death()
        except TimeoutError:
            self.stop()
            raise WorkerLost("hang", f"no result within {seconds:g} s") from None
        except BrokenPipeError:
            raise self._death() from None

    def stop(self) -> None:
        """Ends the process and what it started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.selector.close()
        self.process.stdin.close()
        self.process.stdout.close()
        self.log.close()

    @property
    def lost(self) -> bool:
        """Whether the process has ended."""
        return self.process.poll() is not None

    def _read(self, seconds: float) -> Answer | None:
        """The next answer; None at the end of the stream; TimeoutError when none came."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self.buffer:
            if not self.selector.select(max(0.0, deadline - time.monotonic())):
                raise TimeoutError
            chunk = os.read(self.process.stdout.fileno(), 1 << 16)
            if not chunk:
                return None
            self.buffer += chunk
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line)

    def _death(self) -> WorkerLost:
        code = self.process.wait()
        how = f"exit status {code}" if code >= 0 else signal.Signals(-code).name
        last = self._tail(300).strip().splitlines()
        self.stop()
        return WorkerLost("crash", how + (f": {last[-1]}" if last else ""))

    def _tail(self, size: int) -> str:
        end = self.log.seek(0, os.SEEK_END)
        self.log.seek(max(0, end - size))
        return self.log.read().decode(errors="replace")


def run_all(
    requests: list[Request],
    command: list[str],
    environment: dict[str, str],
    *,
    jobs: int,
    seconds: float,
    lost: Callable[[Request, WorkerLost], Answer],
    skip: Callable[[Request], Answer | None] = lambda _: None,
    ready: Worker | None = None,
) -> list[Answer]:
    """Answers in the order of the requests. `lost` gives that of a request that lost its worker;
    where `skip` gives one, no worker is asked. `ready` is a worker that runs already, and ends.
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for index in range(len(requests)):
        waiting.put(index)
    answers: dict[int, Answer] = {}
    errors: list[BaseException] = []
    progress = sys.stderr.isatty()

    def serve_requests(worker: Worker | None) -> None:
        try:
            while not errors:
                try:
                    index = waiting.get_nowait()
                except queue.Empty:
                    break
                if (answer := skip(requests[index])) is not None:
                    answers[index] = answer
                    continue
                if worker is None or worker.lost:
                    worker = Worker(command, environment)
                start = time.monotonic()
                try:
                    answers[index] = worker.ask(requests[index], seconds)
                except WorkerLost as loss:
                    spent = round(time.monotonic() - start, 4)
                    answers[index] = {"seconds": spent, **lost(requests[index], loss)}
                if progress and len(answers) % 25 == 0:
                    print(f"\r{len(answers)}/{len(requests)}", end="", file=sys.stderr, flush=True)
        except BaseException as error:  # handed to the main thread, which raises it
            errors.append(error)
        finally:
            if worker is not None and not worker.lost:
                worker.stop()

    threads = [
        threading.Thread(target=serve_requests, args=(None if i else ready,))
        for i in range(max(1, min(jobs, len(requests))))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if progress:
        print("\r", end="", file=sys.stderr)
    if errors:
        raise errors[0]
    return [answers[index] for index in range(len(requests))]


def serve(start: Callable[[], Callable[[Request], Answer]]) -> None:
    """The main function of a worker: `start` prepares it and gives what answers a request."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    answer = start()
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)


def first_lines(text: str, limit: int = 600) -> str:
    """A text in one line of at most `limit` characters."""
    text = " | ".join(line.strip() for line in text.splitlines() if line.strip())
    return text if len(text) <= limit else text[: limit - 1] + "…"
