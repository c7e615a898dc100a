# SPDX-License-Identifier: Apache-2.0
"""Runs KServe's server (REST and gRPC of the Open Inference Protocol) over a folder of models."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import resource
import signal
import socket
import struct
import threading
import time
import uuid
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import grpc
import kserve
import numpy as np
import orjson
import uvicorn
from fastapi.exceptions import RequestValidationError
from kserve.constants.constants import (
    FASTAPI_APP_IMPORT_STRING,
    INFERENCE_CONTENT_LENGTH_HEADER,
)
from kserve.errors import InferenceError, InvalidInput, ModelNotFound, ModelNotReady
from kserve.logging import configure_logging
from kserve.model_server import app
from kserve.protocol.dataplane import DataPlane
from kserve.protocol.grpc import grpc_predict_v2_pb2, grpc_predict_v2_pb2_grpc
from kserve.protocol.grpc.interceptors import ExceptionToStatusInterceptor
from kserve.protocol.grpc.servicer import InferenceServicer
from kserve.protocol.infer_type import (
    InferInput,
    InferOutput,
    InferRequest,
    InferResponse,
    deserialize_bytes_tensor,
)
from kserve.protocol.model_repository_extension import ModelRepositoryExtension
from kserve.protocol.rest.server import RESTServer
from kserve.protocol.rest.v2_datamodels import InferenceRequest
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from .. import Error, InvalidArgument, NotFound, ResourceError
from .repository import FolderWatch, ModelFolder, find_model, is_model_name, no_model
from .request_limits import DeadlineError, HttpLimits, QueueFullError, RunQueue, what_is_wrong
from .served_program import ServedProgram, numpy_type
from .settings import MAX_REQUEST_BYTES
from .telemetry import RunMetrics, configure, prometheus_counter

_LOG = logging.getLogger("openxrt.serve")
_RETRY_AFTER_S = "1"
_MAX_QUEUE_SIZE = 1000  # unless the model says otherwise
# Seconds that an RPC has left when it begins; None for HTTP and without a deadline.
_rpc_seconds: ContextVar[float | None] = ContextVar("rpc_seconds", default=None)
_COUNTER = prometheus_counter()  # KServe's server shows them at /metrics


class Refused(Exception):
    """A request that is not answered.

    Args:
        http: status of REST.
        code: status of gRPC.
        message: what the client is told.
        headers: of HTTP, trailing metadata of gRPC.
    """

    def __init__(
        self, http: int, code: grpc.StatusCode, message: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.http, self.code, self.headers = http, code, headers or {}


class OpenXRTModel(kserve.Model):
    """The latest version of one model.

    Args:
        model: its folder. load() loads it; it is not ready until then.
    """

    def __init__(self, model: ModelFolder) -> None:
        super().__init__(model.name)
        self._metrics = RunMetrics(_COUNTER, model.name, str(model.latest))
        self._folder = model
        self._queue: RunQueue | None = None
        self._program: ServedProgram | None = None

    def load(self) -> bool:
        """Loads the model and runs it once. Raises what ServedProgram raises."""
        self._program = ServedProgram(
            self._folder.versions[self._folder.latest],
            self._folder.settings,
            model=self.name,
            version=str(self._folder.latest),
            metrics=self._metrics,
        )
        settings = self._folder.settings
        threads = max(settings.options.get("streams", 0), len(os.sched_getaffinity(0)))
        waiting = _MAX_QUEUE_SIZE if settings.max_queue_size is None else settings.max_queue_size
        self._queue = RunQueue(threads, waiting)
        self.ready = True
        return self.ready

    def get_input_types(self) -> list[dict[str, Any]]:
        """Name, datatype and shape of each input."""
        return _described(self._loaded()[0].inputs)

    def get_output_types(self) -> list[dict[str, Any]]:
        """Name, datatype and shape of each output."""
        return _described(self._loaded()[0].outputs)

    async def predict(
        self,
        payload: Any,
        headers: dict[str, str] | None = None,
        response_headers: dict[str, str] | None = None,
    ) -> InferResponse:
        """One run; requests run beside each other."""
        del response_headers
        if not isinstance(payload, InferRequest):
            raise InvalidInput("this model speaks version 2 of the protocol: /v2/models/NAME/infer")
        deadline = _deadline(payload)
        program, queue = self._loaded()
        feeds = _feeds(payload)
        try:
            outputs = await queue.run(
                lambda left: program.run(feeds, left, [headers or {}]), deadline
            )
        except (Error, QueueFullError, DeadlineError) as error:
            raise _protocol_error(error, deadline) from None
        wanted = {output.name for output in payload.request_outputs or []} or set(outputs)
        unknown = sorted(wanted - set(outputs))
        if unknown:
            raise InvalidInput(f"there is no output '{unknown[0]}'; outputs: {', '.join(outputs)}")
        return InferResponse(
            response_id=payload.id or str(uuid.uuid4()),
            model_name=self.name,
            infer_outputs=[
                _output(name, program.outputs[name][0], array, payload.use_binary_outputs)
                for name, array in outputs.items()
                if name in wanted
            ],
        )

    def _loaded(self) -> tuple[ServedProgram, RunQueue]:
        if self._program is None or self._queue is None:
            raise ModelNotReady(self.name)
        return self._program, self._queue


class FailedModel(kserve.Model):
    """A model that cannot be served: what asks for it is told why.

    Args:
        name: of the model.
        why: what it failed with.
    """

    def __init__(self, name: str, why: str) -> None:
        super().__init__(name)
        self._why = why

    async def healthy(self) -> bool:
        """Raises ModelNotReady with what the model failed with."""
        raise ModelNotReady(self.name, self._why)

    def get_input_types(self) -> list[dict[str, Any]]:
        """As healthy()."""
        raise ModelNotReady(self.name, self._why)


class KServeRepository(kserve.ModelRepository):
    """The models of a folder, for the server's endpoints that load and unload.

    Args:
        folder: of the models.
        exit_on_error: load_models() raises where a model cannot be served. Otherwise that model is
            not ready, and its endpoints tell why.
    """

    def __init__(self, folder: Path, exit_on_error: bool = False) -> None:
        super().__init__(str(folder))
        self._folder = folder
        self._watch = FolderWatch(folder)
        self._exit_on_error = exit_on_error

    def load_models(self) -> None:
        """All of them. Raises NotFound for a folder without a model; with `exit_on_error` also what
        a model raises."""
        self._watch.follow(self._take_over, self._refuse_at_start, self._leave)
        if not self._watch.names:
            raise no_model(self._folder)
        failed = [model for model in self.models.values() if isinstance(model, FailedModel)]
        _LOG.info("%d of %d models are ready", len(self.models) - len(failed), len(self.models))

    async def load(self, name: str) -> bool:
        """Loads a model anew; what is served goes on being served until the new one is ready, and
        other models are served meanwhile."""
        return await asyncio.to_thread(self.load_model, name)

    def load_model(self, name: str) -> bool:
        """As load(), for callers that may wait."""
        model = find_model(self._folder, name)
        if model is not None:
            self._take_over(model)
        return model is not None

    def follow(self) -> None:
        """Looks once for models that changed."""
        try:
            self._watch.follow(self._take_over, self._refuse, self._leave)
        except (NotFound, OSError) as error:  # the folder is away, such as one of a network
            _LOG.warning("what is served goes on being served: %s", error)

    def _take_over(self, folder: ModelFolder) -> None:
        model = OpenXRTModel(folder)
        model.load()
        self.update(model)

    def _refuse_at_start(self, name: str, error: Error | OSError) -> None:
        if self._exit_on_error:
            raise error
        self._refuse(name, error)

    def _refuse(self, name: str, error: Error | OSError) -> None:
        if isinstance(self.models.get(name), OpenXRTModel):
            _LOG.warning("'%s' is served as it was: %s", name, error)
            return
        _LOG.error("'%s' is not served: %s", name, error)
        if is_model_name(name):
            self.update(FailedModel(name, str(error)))

    def _leave(self, name: str) -> None:
        if name in self.models:  # a client may have unloaded it
            self.unload(name)


class _DataPlane(DataPlane):
    """What KServe's endpoints ask, with binary tensors that are read as such: KServe makes lists of
    numbers of them, and does not check how long they are."""

    def decode_inference_request(
        self, body: Any, headers: dict[str, str], model_name: str
    ) -> InferRequest:
        """A request of the binary form of the protocol, or of its JSON form."""
        if not isinstance(body, bytes):
            return super().decode_inference_request(body, headers, model_name)
        length = headers.get(INFERENCE_CONTENT_LENGTH_HEADER, "")
        if re.fullmatch(r"[0-9]{1,18}", length) is None or int(length) > len(body):
            raise InvalidInput(
                f"{INFERENCE_CONTENT_LENGTH_HEADER} is '{length}': the bytes of the JSON part of a "
                f"body of {len(body)}"
            )
        try:
            asked = InferenceRequest.model_validate(_with_data(orjson.loads(body[: int(length)])))
        except (orjson.JSONDecodeError, ValidationError) as error:
            raise InvalidInput(f"the request cannot be read: {error}") from None
        request = InferRequest.from_inference_request(asked, model_name)
        at = int(length)
        for tensor in request.inputs:
            size = (tensor.parameters or {}).get("binary_data_size")
            if size is None:
                continue
            if type(size) is not int or not 0 <= size <= len(body) - at:
                raise InvalidInput(
                    f"binary_data_size of '{tensor.name}' is {size!r}, of {len(body) - at} bytes"
                )
            _set_binary(tensor, body[at : at + size])
            at += size
        if at != len(body):
            raise InvalidInput(f"{len(body) - at} bytes behind the inputs belong to none")
        return request


class RpcErrors(ExceptionToStatusInterceptor):
    """The status that an RPC ends with, where KServe's own interceptor has none or another one."""

    async def intercept(
        self, method: Callable[..., Any], request: Any, context: Any, method_name: str
    ) -> Any:
        """Answers an RPC."""
        _rpc_seconds.set(context.time_remaining())
        if not method_name.endswith("/ModelReady"):
            return await super().intercept(method, request, context, method_name)
        try:
            return await method(request, context)
        except ModelNotReady:
            return grpc_predict_v2_pb2.ModelReadyResponse(ready=False)
        except ModelNotFound as error:
            await context.abort(grpc.StatusCode.NOT_FOUND, str(error))

    async def handle_exception(
        self, ex: Exception, request_or_iterator: Any, context: Any, method_name: str
    ) -> None:
        """Ends an RPC with a status."""
        if isinstance(ex, ModelNotReady):
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(ex))
        if isinstance(ex, Refused):
            await context.abort(ex.code, str(ex), tuple(ex.headers.items()))
        await super().handle_exception(ex, request_or_iterator, context, method_name)


class _HttpServer(uvicorn.Server):
    """HTTP, and gRPC with it: both end at once, in the same time.

    Args:
        config: of HTTP.
        rpc: the server of gRPC.
    """

    def __init__(self, config: uvicorn.Config, rpc: grpc.aio.Server) -> None:
        super().__init__(config)
        self._rpc = rpc

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listens."""
        await self._rpc.start()
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Listens no more, and waits for requests under way."""
        grace = self.config.timeout_graceful_shutdown
        await asyncio.gather(super().shutdown(sockets), self._rpc.stop(grace))


async def _serve(
    repository: KServeRepository, host: str, port: int, drain_s: int, max_request_bytes: int
) -> None:
    """KServe's endpoints on one address, until the process gets SIGTERM or SIGINT."""
    endpoints = _DataPlane(repository), ModelRepositoryExtension(repository)
    app.add_middleware(HttpLimits, max_request_bytes=max_request_bytes)
    # FastAPI's own errors have another form than the protocol's.
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(RequestValidationError, _no_request)
    app.add_exception_handler(HTTPException, _http_error)
    rest = RESTServer(FASTAPI_APP_IMPORT_STRING, *endpoints, port, grace_period=drain_s)
    rest.create_application()
    rest.config.host = host

    options = [
        ("grpc.max_receive_message_length", max_request_bytes),
        ("grpc.max_send_message_length", -1),
    ]
    rpc = grpc.aio.server(interceptors=[RpcErrors()], options=options)
    grpc_predict_v2_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(
        InferenceServicer(*endpoints), rpc
    )
    rpc.add_insecure_port(f"[{host}]:{port + 1}" if ":" in host else f"{host}:{port + 1}")

    server = _HttpServer(rest.config, rpc)
    # uvicorn takes signals while it serves, and then raises them again for who had them before.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, server.handle_exit)
    await server.serve()


def serve(
    folder: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    drain_s: int = 30,
    exit_on_error: bool = False,
    max_request_bytes: int = MAX_REQUEST_BYTES,
    poll_s: float = 1.0,
) -> None:
    """Serves until the process gets SIGTERM or SIGINT; requests under way then finish.

    Args:
        folder: of the models.
        host: address to listen on.
        port: of HTTP; gRPC listens on the next one.
        drain_s: seconds that requests under way have at the end.
        exit_on_error: raises what a model raises that cannot be served at the start; without it
            the others are served.
        max_request_bytes: bytes of a request at most.
        poll_s: seconds between two looks at the folder.
    """
    configure()
    configure_logging()
    # Its clients are its descriptors.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    repository = KServeRepository(folder, exit_on_error)
    repository.load_models()
    ended = threading.Event()

    def follow() -> None:
        while not ended.wait(poll_s):
            repository.follow()

    follower = threading.Thread(target=follow, name="xrt-serve-follow", daemon=True)
    follower.start()
    try:
        asyncio.run(_serve(repository, host, port, drain_s, max_request_bytes))
    finally:
        ended.set()
        follower.join()


def _feeds(request: InferRequest) -> dict[str, np.ndarray]:
    feeds: dict[str, np.ndarray] = {}
    for tensor in request.inputs:
        if tensor.name in feeds:
            raise InvalidInput(f"input '{tensor.name}' is given twice")
        if any(n < 0 for n in tensor.shape):
            raise InvalidInput(f"input '{tensor.name}' has the shape {list(tensor.shape)}")
        try:
            feeds[tensor.name] = tensor.as_numpy()
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInput(f"input '{tensor.name}' cannot be read: {error}") from None
    return feeds


def _with_data(request: Any) -> Any:
    """A tensor of the binary part has no data in the JSON part, where KServe's type wants some."""
    if isinstance(request, dict) and isinstance(request.get("inputs"), list):
        for tensor in request["inputs"]:
            if isinstance(tensor, dict):
                tensor.setdefault("data", [])
    return request


def _set_binary(tensor: InferInput, data: bytes) -> None:
    try:
        if tensor.datatype == "BYTES":
            array = deserialize_bytes_tensor(data)
        else:
            array = np.frombuffer(data, numpy_type(tensor.datatype))
        tensor.set_data_from_numpy(array.reshape(tensor.shape))
    except (ValueError, OverflowError, struct.error, InferenceError) as error:
        raise InvalidInput(f"input '{tensor.name}' cannot be read: {error}") from None


async def _no_request(_: Any, error: RequestValidationError) -> JSONResponse:
    return JSONResponse({"error": what_is_wrong(error)}, 400)


async def _http_error(_: Any, error: HTTPException) -> JSONResponse:
    return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)


async def _refused(_: Any, error: Refused) -> JSONResponse:
    return JSONResponse({"error": str(error)}, error.http, error.headers)


def _protocol_error(error: Exception, deadline: float | None) -> Exception:
    """What KServe's server answers with the status of the error."""
    status = grpc.StatusCode
    if isinstance(error, InvalidArgument):
        return InvalidInput(str(error))
    if isinstance(error, QueueFullError):
        wait = {"retry-after": _RETRY_AFTER_S}
        return Refused(429, status.RESOURCE_EXHAUSTED, str(error), wait)
    late = deadline is not None and time.monotonic() >= deadline
    if isinstance(error, DeadlineError) or (isinstance(error, ResourceError) and late):
        return Refused(504, status.DEADLINE_EXCEEDED, str(error))
    if isinstance(error, ResourceError):
        return Refused(503, status.UNAVAILABLE, str(error))
    return Refused(500, status.INTERNAL, str(error))


def _deadline(request: InferRequest) -> float | None:
    """Of time.monotonic(): an RPC's own, or the parameter `timeout`, microseconds, as Triton has
    it; None where there is neither."""
    given = (request.parameters or {}).get("timeout", 0)
    given = getattr(given, "int64_param", given)  # of gRPC
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise InvalidInput(f"timeout is {given!r}: microseconds")
    bounds = [s for s in (given / 1e6 or None, _rpc_seconds.get()) if s is not None]
    return time.monotonic() + min(bounds) if bounds else None


def _described(ports: dict[str, tuple[str, list[int]]]) -> list[dict[str, Any]]:
    return [
        {"name": name, "datatype": datatype, "shape": dims}
        for name, (datatype, dims) in ports.items()
    ]


def _output(name: str, datatype: str, array: np.ndarray, binary: bool) -> InferOutput:
    output = InferOutput(name, list(array.shape), datatype)
    output.set_data_from_numpy(array, binary_data=binary)
    return output
