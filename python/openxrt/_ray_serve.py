# SPDX-License-Identifier: Apache-2.0
"""The deployments behind openxrt.ray.deployment(): replicas that run models, and their ingress."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from ray import serve
from ray.serve.exceptions import BackPressureError, RayServeException
from starlette.requests import Request
from starlette.responses import JSONResponse

from . import Error, InvalidArgument, NotFound, ResourceError
from .serve import find_models
from .serve.served_program import ServedProgram, numpy_type


def application(
    folder: Path, models: int, cpus: float, options: Mapping[str, Any]
) -> serve.Application:
    """What openxrt.ray.deployment() returns."""
    replica = serve.deployment(
        _replica_class(models),
        name="OpenXRTReplica",
        ray_actor_options={"num_cpus": cpus},
        **options,
    )
    ingress = serve.deployment(
        Ingress, name="OpenXRT", max_ongoing_requests=1000, ray_actor_options={"num_cpus": 0}
    )
    return ingress.bind(replica.bind(str(folder), max(1, int(cpus))), str(folder))


def _replica_class(models: int) -> type:
    class Replica:
        """A process that holds some models of the folder."""

        def __init__(self, folder: str, threads: int) -> None:
            self._folder = Path(folder)
            self._threads = threads

        @serve.multiplexed(max_num_models_per_replica=models)
        async def program(self, name: str) -> ServedProgram:
            """The latest version of a model, loaded and run once."""
            return await asyncio.to_thread(_load, self._folder, name, self._threads)

        async def infer(
            self, name: str, inputs: dict[str, np.ndarray], timeout_s: float | None = None
        ) -> dict[str, np.ndarray]:
            """One run."""
            program = await self.program(name)
            return await asyncio.to_thread(program.run, inputs, timeout_s)

        async def described(self, name: str) -> dict[str, Any]:
            """Inputs and outputs: name to datatype and dimensions."""
            program = await self.program(name)
            return {"inputs": program.inputs, "outputs": program.outputs}

    return Replica


def _load(folder: Path, name: str, threads: int) -> ServedProgram:
    found = {model.name: model for model in find_models(folder)}
    if name not in found:
        raise NotFound(f"there is no model '{name}'; models: {', '.join(found)}")
    model = found[name]
    options = {"num_threads": threads, **model.settings.options}
    settings = dataclasses.replace(model.settings, options=options)
    return ServedProgram(model.versions[model.latest], settings)


class Ingress:
    """The JSON form of the Open Inference Protocol over HTTP, and infer() for other deployments."""

    def __init__(self, replicas: Any, folder: str) -> None:
        self._replicas = replicas
        self._folder = Path(folder)

    async def infer(
        self, name: str, inputs: dict[str, np.ndarray], timeout_s: float | None = None
    ) -> dict[str, np.ndarray]:
        """All outputs of one run of a model by name."""
        handle = self._replicas.options(multiplexed_model_id=name)
        return await handle.infer.remote(name, inputs, timeout_s)

    async def __call__(self, request: Request) -> JSONResponse:
        """Answers a request as the protocol says, errors too."""
        try:
            return await self._answer(request)
        except BackPressureError as error:
            return _failure(503, str(error))
        except (Error, RayServeException) as error:
            cause = getattr(error, "cause", None) or error
            return _failure(_status(cause), str(cause))

    async def _answer(self, request: Request) -> JSONResponse:
        words = [word for word in request.url.path.split("/") if word]
        words = words[words.index("v2") + 1 :] if "v2" in words else []
        if words in (["health", "live"], ["health", "ready"]):
            return JSONResponse({})
        if len(words) < 2 or words[0] != "models":
            return _failure(404, "there is no such endpoint; there is v2/models/NAME/infer")
        name, rest = words[1], words[2:]
        handle = self._replicas.options(multiplexed_model_id=name)
        if rest in ([], ["ready"]):
            ports = await handle.described.remote(name)
            if rest:
                return JSONResponse({})
            described = {
                what: [
                    {"name": port, "datatype": datatype, "shape": dims}
                    for port, (datatype, dims) in ports[what].items()
                ]
                for what in ("inputs", "outputs")
            }
            return JSONResponse({"name": name, "platform": "openxrt", **described})
        if rest != ["infer"] or request.method != "POST":
            return _failure(404, f"there is no such endpoint; there is POST v2/models/{name}/infer")
        asked = _read(await request.body())
        ports = await handle.described.remote(name)
        outputs = await handle.infer.remote(name, asked["inputs"])
        wanted = asked["outputs"] or list(outputs)
        unknown = [output for output in wanted if output not in outputs]
        if unknown:
            raise InvalidArgument(
                f"there is no output '{unknown[0]}'; outputs: {', '.join(outputs)}"
            )
        return JSONResponse(
            {
                "model_name": name,
                **({"id": asked["id"]} if asked["id"] else {}),
                "outputs": [
                    {
                        "name": output,
                        "datatype": ports["outputs"][output][0],
                        "shape": list(outputs[output].shape),
                        "data": outputs[output].ravel().tolist(),
                    }
                    for output in wanted
                ],
            }
        )


def _read(body: bytes) -> dict[str, Any]:
    """Inputs as arrays, names of outputs, and the id of a request. Raises InvalidArgument."""
    try:
        request = json.loads(body)
        inputs = {}
        for given in request["inputs"]:
            datatype, shape = given["datatype"], given["shape"]
            array = np.asarray(given["data"], numpy_type(datatype)).reshape(shape)
            inputs[str(given["name"])] = array
        outputs = [str(output["name"]) for output in request.get("outputs", [])]
        return {"inputs": inputs, "outputs": outputs, "id": request.get("id", "")}
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise InvalidArgument(
            f"no request of the Open Inference Protocol: {type(error).__name__}: {error}"
        ) from None


def _status(error: BaseException) -> int:
    if isinstance(error, NotFound):
        return 404
    if isinstance(error, InvalidArgument):
        return 400
    return 503 if isinstance(error, ResourceError) else 500


def _failure(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message}, status_code=status)
