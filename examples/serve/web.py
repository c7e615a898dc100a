#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A web page that shows the text in a picture: boxes and lines, read by a server of models.

    python make_models.py models/
    xrt serve models/ &                    # or: --server kserve
    python web.py models/                  # http://127.0.0.1:8080

Needs Pillow, NumPy and tritonclient[grpc], whose gRPC both servers speak. What comes before,
between and after the two networks is examples/ocr/reader.py, here with networks that are requests.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import tritonclient.grpc as grpc
from PIL import Image
from tritonclient.utils import InferenceServerException

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "ocr"))

from reader import Reader  # noqa: E402

MAX_BYTES = 10 << 20
MAX_PIXELS = 40_000_000
TIMEOUT_S = 10.0


class Remote:
    """A network behind a server: array in, array out.

    Args:
        client: of the server.
        model: which has one input and one output.
    """

    def __init__(self, client: grpc.InferenceServerClient, model: str) -> None:
        described = client.get_model_metadata(model)
        self._client, self._model = client, model
        self._input, self._output = described.inputs[0].name, described.outputs[0].name

    def __call__(self, array: np.ndarray) -> np.ndarray:
        """One request."""
        given = grpc.InferInput(self._input, list(array.shape), "FP32")
        given.set_data_from_numpy(array)
        answer = self._client.infer(self._model, [given], client_timeout=TIMEOUT_S)
        return answer.as_numpy(self._output)


class Handler(BaseHTTPRequestHandler):
    """GET /: the page. POST /read: a picture, answered by {"width", "height", "lines"}."""

    reader: Reader

    def do_GET(self) -> None:
        """The page."""
        if self.path != "/":
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self._answer(HTTPStatus.OK, (HERE / "page.html").read_bytes(), "text/html; charset=utf-8")

    def do_POST(self) -> None:
        """Reads a picture."""
        length = self.headers.get("Content-Length", "")
        if self.path != "/read":
            self._tell(HTTPStatus.NOT_FOUND, "there is POST /read")
        elif not length.isdigit():
            self._tell(HTTPStatus.LENGTH_REQUIRED, "how long is the picture?")
        elif int(length) > MAX_BYTES:
            self.close_connection = True
            self._tell(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"{MAX_BYTES >> 20} MiB at most")
        else:
            self._read(self.rfile.read(int(length)))

    def _read(self, data: bytes) -> None:
        try:
            image = Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "WEBP"))
            if image.width * image.height > MAX_PIXELS:
                raise ValueError(f"{MAX_PIXELS} pixels at most")
            image.load()
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            self._tell(HTTPStatus.BAD_REQUEST, f"no picture: {error}")
            return
        try:
            lines = self.reader.read(image)
        except InferenceServerException as error:
            self._tell(HTTPStatus.SERVICE_UNAVAILABLE, error.message())
            return
        found = [
            {"text": line.text, "confidence": line.confidence, "box": line.box.tolist()}
            for line in lines
        ]
        told = {"width": image.width, "height": image.height, "lines": found}
        self._answer(HTTPStatus.OK, json.dumps(told).encode(), "application/json")

    def _tell(self, status: HTTPStatus, error: str) -> None:
        self._answer(status, json.dumps({"error": error}).encode(), "application/json")

    def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header(
            "Content-Security-Policy", "default-src 'self' 'unsafe-inline' blob: data:"
        )
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Serves until it is ended."""
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument("models", type=Path, help="folder that make_models.py made")
    words.add_argument("--server", default="127.0.0.1:8001", help="its gRPC (%(default)s)")
    words.add_argument("--host", default="127.0.0.1", help="(default: %(default)s)")
    words.add_argument("--port", type=int, default=8080, help="(default: %(default)s)")
    given = words.parse_args()
    characters = json.loads((given.models / "characters.json").read_text(encoding="utf-8"))
    client = grpc.InferenceServerClient(given.server)
    Handler.reader = Reader(Remote(client, "detect"), Remote(client, "read"), characters)
    with ThreadingHTTPServer((given.host, given.port), Handler) as server:
        print(f"http://{given.host}:{given.port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
