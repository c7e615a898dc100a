# SPDX-License-Identifier: Apache-2.0
"""Calls of KServe's own clients, in a process of their own: its messages of gRPC have the names of
tritonclient's, and one process cannot import both.

    python kserve_calls.py rest|grpc PORT < CALLS

A call is a JSON object: model, and of each input name, datatype, shape and data. Printed is a list:
the outputs of each call by name, or `status` and `error`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import grpc
import httpx
import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest
from kserve.inference_client import RESTConfig


def request(call: dict[str, Any]) -> InferRequest:
    """Binary where the input says so."""
    inputs = []
    for given in call["inputs"]:
        binary = given.pop("binary", False)
        data = given.pop("data")
        inputs.append(InferInput(**given, data=None if binary else data))
        if binary:
            dtype = object if given["datatype"] == "BYTES" else np.float32
            inputs[-1].set_data_from_numpy(np.array(data, dtype).reshape(given["shape"]))
    return InferRequest(call["model"], inputs)


def outputs(answer: Any) -> dict[str, Any]:
    """Name to data as lists."""
    return {
        output.name: [v.decode() if isinstance(v, bytes) else v for v in output.as_numpy().tolist()]
        for output in answer.outputs
    }


async def rest(port: int, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Over HTTP."""
    client = InferenceRESTClient(RESTConfig(protocol="v2", retries=0, timeout=30))
    url = f"http://127.0.0.1:{port}"
    found = [{"live": await client.is_server_live(url), "ready": await client.is_server_ready(url)}]
    for call in calls:
        try:
            answer = await client.infer(url, request(call), model_name=call["model"])
            found.append(outputs(answer))
        except httpx.HTTPStatusError as error:
            text = error.response.json()["error"]
            found.append({"status": error.response.status_code, "error": text})
    await client.close()
    return found


async def rpc(port: int, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Over gRPC."""
    client = InferenceGRPCClient(f"127.0.0.1:{port}", retries=0, timeout=30)
    found = [{"live": await client.is_server_live(), "ready": await client.is_server_ready()}]
    for call in calls:
        try:
            found.append(outputs(await client.infer(request(call))))
        except grpc.RpcError as error:
            found.append({"status": error.code().name, "error": error.details()})
    await client.close()
    return found


if __name__ == "__main__":
    ask = rest if sys.argv[1] == "rest" else rpc
    print(json.dumps(asyncio.run(ask(int(sys.argv[2]), json.load(sys.stdin)))))
