# SPDX-License-Identifier: Apache-2.0
"""Runs KServe's server (REST and gRPC of the Open Inference Protocol) over a folder of models."""

from __future__ import annotations

import asyncio
import threading
import uuid
from pathlib import Path
from typing import Any

import kserve
import numpy as np
from kserve.errors import InferenceError, InvalidInput
from kserve.protocol.infer_type import InferOutput, InferRequest, InferResponse

from .. import Error, InvalidArgument, ResourceError
from .repository import FolderWatch, ModelFolder, find_models
from .served_program import ServedProgram
from .telemetry import RunMetrics, configure, prometheus_counter

_COUNTER = prometheus_counter()  # KServe's server shows them at /metrics


class OpenXRTModel(kserve.Model):
    """The latest version of one model.

    Args:
        model: its folder. load() loads it; it is not ready until then.
    """

    def __init__(self, model: ModelFolder) -> None:
        super().__init__(model.name)
        self._metrics = RunMetrics(_COUNTER, model.name, str(model.latest))
        self._folder = model
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
        self.ready = True
        return self.ready

    def get_input_types(self) -> list[dict[str, Any]]:
        """Name, datatype and shape of each input."""
        return _described(self._loaded().inputs)

    def get_output_types(self) -> list[dict[str, Any]]:
        """Name, datatype and shape of each output."""
        return _described(self._loaded().outputs)

    async def predict(
        self,
        payload: Any,
        headers: dict[str, str] | None = None,
        response_headers: dict[str, str] | None = None,
    ) -> InferResponse:
        """One run; requests run beside each other in threads of the server's pool."""
        del response_headers
        if not isinstance(payload, InferRequest):
            raise InvalidInput("this model speaks version 2 of the protocol: /v2/models/NAME/infer")
        program = self._loaded()
        try:
            feeds = {tensor.name: tensor.as_numpy() for tensor in payload.inputs}
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"an input cannot be read: {error}") from None
        try:
            outputs = await asyncio.to_thread(program.run, feeds, None, [headers or {}])
        except InvalidArgument as error:
            raise InvalidInput(str(error)) from None
        except ResourceError as error:
            raise InferenceError(str(error), status="503") from None
        except Error as error:
            raise InferenceError(str(error)) from None
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

    def _loaded(self) -> ServedProgram:
        if self._program is None:
            raise InferenceError(f"'{self.name}' is not loaded")
        return self._program


class KServeRepository(kserve.ModelRepository):
    """The models of a folder, for the server's endpoints that load and unload."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self._folder = folder
        self._watch = FolderWatch(folder)

    def load_models(self) -> None:
        """All of them. Raises what find_models() and load() raise."""
        for folder in find_models(self._folder):
            self._take_over(folder)

    def load(self, name: str) -> bool:
        """Loads a model anew; what is served goes on being served until the new one is ready."""
        for folder in find_models(self._folder):
            if folder.name == name:
                self._take_over(folder)
                return True
        return False

    def load_model(self, name: str) -> bool:
        """As load()."""
        return self.load(name)

    def follow(self) -> None:
        """Looks once for models that changed."""
        self._watch.follow(self._take_over, self.unload)

    def _take_over(self, folder: ModelFolder) -> None:
        model = OpenXRTModel(folder)
        model.load()
        self.update(model)


def serve(
    folder: Path, *, port: int, grpc_port: int, drain_s: int = 30, poll_s: float = 1.0
) -> None:
    """Serves until the process gets SIGTERM or SIGINT; requests under way then finish.

    KServe's server listens on all addresses of the machine.
    """
    configure()
    repository = KServeRepository(folder)
    repository.load_models()
    server = kserve.ModelServer(
        http_port=port,
        grpc_port=grpc_port,
        registered_models=repository,
        grace_period=drain_s,
        enable_latency_logging=False,
    )
    ended = threading.Event()

    def follow() -> None:
        while not ended.wait(poll_s):
            repository.follow()

    follower = threading.Thread(target=follow, name="xrt-serve-follow", daemon=True)
    follower.start()
    try:
        server.start(list(repository.get_models().values()))
    finally:
        ended.set()
        follower.join()


def _described(ports: dict[str, tuple[str, list[int]]]) -> list[dict[str, Any]]:
    return [
        {"name": name, "datatype": datatype, "shape": dims}
        for name, (datatype, dims) in ports.items()
    ]


def _output(name: str, datatype: str, array: np.ndarray, binary: bool) -> InferOutput:
    output = InferOutput(name, list(array.shape), datatype)
    output.set_data_from_numpy(array, binary_data=binary)
    return output
