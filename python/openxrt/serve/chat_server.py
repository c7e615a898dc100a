# SPDX-License-Identifier: Apache-2.0
"""Runs LitServe over a folder of language models: OpenAI's chat completions.

    models/
      smol.gguf                the model "smol"
      llama/xrt.json           settings, may be left out
      llama/model.gguf         one file
      phi/tokenizer.json       a folder as openxrt.generate.load() reads it

Conversations take turns token by token; what runs at once shares the threads of the process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import litserve
from fastapi import Depends, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from litserve.specs.openai import ChatCompletionRequest, ChatMessage, OpenAISpec
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import JSONResponse

from .. import Error, InvalidArgument, NotFound, ResourceError, Unsupported
from ..generate import LanguageModel, TextPieces, load
from .repository import check_entry, check_inside, named_entries
from .request_limits import what_is_wrong
from .settings import MAX_REQUEST_BYTES, ModelSettings

_LOG = logging.getLogger("openxrt.serve")
_MAX_CONVERSATIONS = 64  # at once, unless the model says otherwise
_SUFFIX = ".gguf"

# What a request may ask for that is not done, with what it holds where it does not ask.
_NOT_DONE: dict[str, tuple[Any, ...]] = {
    "presence_penalty": (None, 0),
    "frequency_penalty": (None, 0),
    "tools": (None, []),
}


@dataclass(frozen=True)
class LanguageModelFile:
    """One model of a folder."""

    path: Path
    settings: ModelSettings


def find_language_models(folder: Path) -> dict[str, LanguageModelFile]:
    """The models of a folder by name.

    Raises NotFound where there is no folder or no model in it, InvalidArgument naming the file for
    settings that do not fit, a name that is none, two models of one name, or a link that leads out.
    """
    found: dict[str, LanguageModelFile] = {}
    for name, entries in named_entries(folder, _SUFFIX).items():
        models = {entry: model for entry in entries if (model := _model_in(entry)) is not None}
        if not models:
            continue
        entry = check_entry(folder, name, list(models))
        settings = ModelSettings.of_folder(entry) if entry.is_dir() else ModelSettings()
        found[name] = LanguageModelFile(check_inside(folder, models[entry]), settings)
    if not found:
        raise NotFound(f"'{folder}' has no model: NAME{_SUFFIX}, or a folder NAME")
    return found


def _model_in(entry: Path) -> Path | None:
    """What openxrt.generate.load() is to read of an entry; None for a folder of other things."""
    if entry.is_file():
        return entry
    files = sorted(entry.glob(f"*{_SUFFIX}"))
    if len(files) > 1:
        raise InvalidArgument(f"'{entry}' has two models: {files[0].name}, {files[1].name}")
    return files[0] if files else entry if (entry / "tokenizer.json").exists() else None


@dataclass
class _Conversation:
    """A request that was read."""

    model: _Served
    pieces: TextPieces
    cancel: threading.Event
    deadline: float | None


class _Served:
    """A model, or why there is none, and its conversations under way."""

    def __init__(self, name: str, file: LanguageModelFile) -> None:
        self.name = name
        self.settings = file.settings
        self.under_way = 0
        self.why = ""
        self.model: LanguageModel | None = None
        try:
            self.model = load(file.path, **file.settings.options)
        except (Error, OSError, TypeError) as error:
            self.why = f"'{name}' is not served: {error}"
            _LOG.error("%s", self.why)
        else:
            _LOG.info("serving '%s'", name)

    @property
    def most(self) -> int:
        """Conversations at once; 0: no bound."""
        given = self.settings.max_queue_size
        return _MAX_CONVERSATIONS if given is None else given


class ChatAPI(litserve.LitAPI):
    """What LitServe's worker calls. Requests name one of the models.

    Args:
        models: by name.
        exit_on_error: ends the worker where a model cannot be served.
    """

    def __init__(self, models: dict[str, LanguageModelFile], exit_on_error: bool = False) -> None:
        super().__init__(enable_async=True, spec=OpenAISpec())
        self._models = models
        self._exit_on_error = exit_on_error

    def setup(self, device: str) -> None:
        """Loads the models, once, in the worker."""
        del device  # each model's settings name its engines and their device
        logging.basicConfig(level=logging.INFO, format="xrt serve: %(message)s")
        self._served = {name: _Served(name, file) for name, file in self._models.items()}
        failed = [s.why for s in self._served.values() if s.why]
        if failed and self._exit_on_error:
            raise Unsupported(failed[0])
        _LOG.info("%d of %d models are ready", len(self._served) - len(failed), len(self._served))
        self._threads = ThreadPoolExecutor(thread_name_prefix="xrt-chat")

    def decode_request(self, request: ChatCompletionRequest) -> _Conversation:
        """Raises HTTPException for a request that does not fit."""
        served = self._served.get(request.model or "")
        if served is None:
            known = ", ".join(self._served)
            raise HTTPException(404, f"there is no model {request.model!r}; there are {known}")
        if served.model is None:
            raise HTTPException(503, served.why)
        if served.most and served.under_way >= served.most:
            raise HTTPException(429, f"'{served.name}' has {served.most} conversations already")
        for name, plain in _NOT_DONE.items():
            if getattr(request, name) not in plain:
                raise HTTPException(400, f"{name} is not supported")
        if request.response_format is not None and request.response_format.type != "text":
            raise HTTPException(400, "response_format: there is 'text' only")
        cancel = threading.Event()
        timeout = served.settings.timeout_ms
        deadline = time.monotonic() + timeout / 1000 if timeout else None
        try:
            messages = [{"role": m.role, "content": _text(m)} for m in request.messages]
            pieces = served.model.stream(
                served.model.chat_prompt(messages),
                max_tokens=_max_tokens(request, served.model),
                stop=request.stop or (),
                cancel=cancel,
                **_sampling(request),
            )
        except Error as error:
            raise _http_error(error) from error
        return _Conversation(served, pieces, cancel, deadline)

    async def predict(self, x: _Conversation) -> AsyncIterator[dict[str, Any]]:
        """Pieces of the text, and at the end how many tokens there were."""
        loop = asyncio.get_running_loop()
        x.model.under_way += 1
        try:
            while True:
                piece = await loop.run_in_executor(self._threads, next, x.pieces, None)
                if piece is None:
                    break
                yield {"role": "assistant", "content": piece}
                if x.deadline is not None and time.monotonic() >= x.deadline:
                    took = x.model.settings.timeout_ms
                    raise HTTPException(503, f"the text took longer than {took} ms (timeout_ms)")
        except Error as error:
            raise _http_error(error) from error
        finally:
            x.cancel.set()
            x.model.under_way -= 1
        made = x.pieces.result()
        yield {
            "role": "assistant",
            "content": "",
            "prompt_tokens": made.prompt_tokens,
            "completion_tokens": len(made.tokens),
            "total_tokens": made.prompt_tokens + len(made.tokens),
        }


def _text(message: ChatMessage) -> str:
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    parts = []
    for part in message.content:
        if part.type != "text":
            raise InvalidArgument(f"a message has a part of the type '{part.type}'; there is text")
        parts.append(part.text)
    return "".join(parts)


def _max_tokens(request: ChatCompletionRequest, model: LanguageModel) -> int:
    for given in (request.max_completion_tokens, request.max_tokens):
        if given is not None:
            return given
    return model.decoder.context


def _sampling(request: ChatCompletionRequest) -> dict[str, Any]:
    """As OpenAI has it: a temperature of 0 takes the likeliest token, and no word is left out."""
    temperature = 1.0 if request.temperature is None else request.temperature
    if temperature == 0:
        return {"greedy": True}
    top_p = 1.0 if request.top_p is None else request.top_p
    return {"temperature": temperature, "top_p": top_p, "top_k": 0}


def _told(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, StarletteHTTPException)
    return _error(error.status_code, str(error.detail))


def _no_request(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    return _error(400, what_is_wrong(error))


def _error(status: int, message: str) -> JSONResponse:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return JSONResponse({"error": {"message": message, "type": kind, "code": status}}, status)


def _http_error(error: Error) -> HTTPException:
    if isinstance(error, InvalidArgument | Unsupported):
        return HTTPException(400, str(error))
    return HTTPException(503 if isinstance(error, ResourceError) else 500, str(error))


def serve(
    folder: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    drain_s: int = 30,
    exit_on_error: bool = False,
    max_request_bytes: int = MAX_REQUEST_BYTES,
) -> None:
    """Serves until the process gets SIGTERM or SIGINT.

    Args:
        folder: of the models.
        host: 127.0.0.1, 0.0.0.0 or ::.
        port: of HTTP, 1024 or above.
        drain_s: seconds that requests under way have at the end.
        exit_on_error: raises where a model cannot be served at the start.
        max_request_bytes: bytes of a request at most.
    """
    models = find_language_models(folder)
    server = litserve.LitServer(
        ChatAPI(models, exit_on_error),
        accelerator="cpu",
        timeout=False,
        max_payload_size=max_request_bytes,
    )
    server.uvicorn_graceful_timeout = drain_s
    listed = [{"id": name, "object": "model", "created": 0, "owned_by": ""} for name in models]
    key = Depends(server.setup_auth())
    server.app.get("/v1/models", dependencies=[key])(lambda: {"object": "list", "data": listed})

    # OpenAI's clients read errors in this form.
    server.app.add_exception_handler(StarletteHTTPException, _told)
    server.app.add_exception_handler(RequestValidationError, _no_request)
    parent = os.getpid()

    def stop(_number: int, _frame: object) -> None:
        if os.getpid() == parent:
            raise KeyboardInterrupt  # which LitServe ends by
        raise SystemExit(0)  # its process for HTTP, which has answered its requests

    signal.signal(signal.SIGTERM, stop)
    try:
        server.run(host=host, port=port, num_api_servers=1, generate_client_file=False)
    except (ValueError, RuntimeError) as error:
        raise InvalidArgument(f"LitServe: {error}") from error
