# SPDX-License-Identifier: Apache-2.0
"""What servers do not bound by themselves: how large a request is, how many wait and for how long,
what a client that left still costs; and what clients are told of bodies that are no requests."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from fastapi.exceptions import RequestValidationError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
T = TypeVar("T")


class QueueFullError(Exception):
    """As many runs wait as may."""


class DeadlineError(Exception):
    """The time of a request is over."""


class RunQueue:
    """Runs of one model, each in a thread.

    Args:
        threads: runs at once.
        waiting: runs that wait for a thread at most; 0: no bound.
    """

    def __init__(self, threads: int, waiting: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="xrt-serve-run")
        self._waiting = waiting
        self._room = threading.Semaphore(threads + waiting) if waiting else None

    async def run(self, function: Callable[[float | None], T], deadline: float | None = None) -> T:
        """What `function` returns. It is called with the seconds that are left, None without a
        deadline. Where this coroutine is cancelled or late, a run that has not begun never does;
        one that has begun keeps its thread until it ends.

        Args:
            function: the run.
            deadline: of time.monotonic().

        Raises QueueFullError at once, DeadlineError at the deadline, and what `function` raises.
        """
        if self._room is not None and not self._room.acquire(blocking=False):
            raise QueueFullError(f"{self._waiting} requests wait, which are as many as may")

        def call() -> T:
            if deadline is None:
                return function(None)
            left = deadline - time.monotonic()
            if left <= 0:
                raise _late()
            return function(left)

        future = self._pool.submit(call)
        if self._room is not None:
            future.add_done_callback(lambda _: self._room.release())
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), left)
        except asyncio.TimeoutError:
            raise _late() from None


def _late() -> DeadlineError:
    return DeadlineError("the time of the request is over")


class HttpLimits:
    """ASGI middleware: a body that is too large gets status 413, at its header where that tells,
    and the answer to a client that left is cancelled.

    Args:
        app: the application.
        max_request_bytes: of a body.
    """

    def __init__(self, app: Callable[..., Awaitable[None]], max_request_bytes: int) -> None:
        self._app, self._most = app, max_request_bytes

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request, or what else a server tells an application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = None
        if _declared_length(scope) <= self._most:
            body = await self._read(receive)
        if body is None:
            await _refuse(send, self._most)
            return
        left = asyncio.ensure_future(_disconnect(receive))

        async def replay() -> Message:
            return body.pop(0) if body else await asyncio.shield(left)

        answer = asyncio.ensure_future(self._app(scope, replay, send))
        try:
            await asyncio.wait({answer, left}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                answer.cancel()
                await asyncio.wait({answer})
            if not answer.cancelled():
                answer.result()
        finally:
            left.cancel()
            answer.cancel()

    async def _read(self, receive: Receive) -> list[Message] | None:
        """The messages of the body; None where it is too large."""
        messages, size = [], 0
        while True:
            messages.append(await receive())
            size += len(messages[-1].get("body", b""))
            if size > self._most:
                return None
            if not messages[-1].get("more_body", False):
                return messages


async def _disconnect(receive: Receive) -> Message:
    """Returns when the client has left."""
    while (message := await receive())["type"] != "http.disconnect":
        pass
    return message


def _declared_length(scope: Message) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and len(value) < 19:
            return int(value)
    return 0


async def _refuse(send: Send, most: int) -> None:
    body = json.dumps({"error": f"a request has at most {most} bytes"}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def what_is_wrong(error: RequestValidationError) -> str:
    """What a client is told of a body that is no request."""
    told = (f"{'.'.join(map(str, part['loc']))}: {part['msg']}" for part in error.errors()[:3])
    return f"the request cannot be read: {'; '.join(told)}"
