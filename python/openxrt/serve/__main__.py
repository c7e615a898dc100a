# SPDX-License-Identifier: Apache-2.0
"""`xrt serve`: a folder of models behind Triton's, KServe's or LitServe's server.

    xrt serve models/                     Triton: HTTP on 8000, gRPC on 8001, metrics on 8002
    xrt serve models/ --server kserve --host 0.0.0.0
    xrt serve models/ --server litserve         language models: OpenAI's chat completions
    xrt serve models/ --write-repository DIR    a model repository for a Triton of yours

Needs the package's extra: pip install 'openxrt[serve]'. Arguments behind `--` go to tritonserver.
"""

from __future__ import annotations

import argparse
import importlib.util
import logging
import signal
import sys
from pathlib import Path

from .. import Error, InvalidArgument, NotFound
from .repository import find_models
from .settings import MAX_REQUEST_BYTES
from .triton_repository import write_model
from .triton_server import INSTALL, TritonServer


def parser() -> argparse.ArgumentParser:
    """The command line."""
    words = argparse.ArgumentParser(
        prog="xrt serve",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    words.add_argument(
        "models", type=Path, help="folder of models: NAME.onnx, NAME/1/model.onnx, NAME.gguf"
    )
    words.add_argument(
        "--server",
        choices=("triton", "kserve", "litserve"),
        default="triton",
        help="(default: %(default)s)",
    )
    words.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: %(default)s)"
    )
    words.add_argument("--port", type=int, default=8000, help="of HTTP (default: %(default)s)")
    words.add_argument(
        "--drain", type=int, default=30, metavar="S", help="seconds to end in (default: 30)"
    )
    words.add_argument(
        "--max-request-bytes",
        type=int,
        default=MAX_REQUEST_BYTES,
        metavar="N",
        help="bytes of a request at most (default: %(default)s)",
    )
    words.add_argument(
        "--exit-on-error",
        action="store_true",
        help="end with exit code 1 where a model cannot be served at the start",
    )
    words.add_argument(
        "--write-repository", type=Path, metavar="DIR", help="write a Triton repository and end"
    )
    words.add_argument("arguments", nargs="*", help=argparse.SUPPRESS)
    return words


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 after SIGTERM or SIGINT; 1 for an error; 2 for a wrong command line."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    rest: list[str] = []
    if "--" in given:
        at = given.index("--")
        given, rest = given[:at], given[at + 1 :]
    words = parser().parse_args(given)
    if words.max_request_bytes < 1:
        parser().error("--max-request-bytes is at least 1")
    logging.basicConfig(level=logging.INFO, format="xrt serve: %(message)s")
    try:
        if words.write_repository is not None:
            words.write_repository.mkdir(parents=True, exist_ok=True)
            for model in find_models(words.models):
                print(
                    write_model(
                        words.write_repository,
                        model,
                        copy=True,
                        max_request_bytes=words.max_request_bytes,
                    )
                )
            return 0
        if words.server == "triton":
            return _serve_triton(words, rest)
        if rest:
            raise InvalidArgument(f"arguments behind -- are tritonserver's: {' '.join(rest)}")
        if importlib.util.find_spec(words.server) is None:
            raise NotFound(f"there is no {words.server}: {INSTALL}")
        return _serve_python(words)
    except (Error, OSError) as error:
        print(f"xrt serve: {error}", file=sys.stderr)
        return 1


def _serve_triton(words: argparse.Namespace, rest: list[str]) -> int:
    server = TritonServer(
        words.models,
        host=words.host,
        port=words.port,
        drain_s=words.drain,
        exit_on_error=words.exit_on_error,
        max_request_bytes=words.max_request_bytes,
        arguments=tuple(rest),
    )
    stopped = []

    def stop(number: int, _frame: object) -> None:
        stopped.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    try:
        server.start()
        logging.info("listening: http://%s:%d", words.host, words.port)
        code = server.wait()
    except KeyboardInterrupt:
        code = 0
    finally:
        server.stop()
    if code != 0:
        print(f"xrt serve: tritonserver ended with {code}", file=sys.stderr)
    return 0 if code == 0 else 1


def _serve_python(words: argparse.Namespace) -> int:
    """A server that runs in this process."""
    # kserve reads the command line of the process when it is imported.
    sys.argv = sys.argv[:1]
    if words.server == "kserve":
        from .kserve_server import serve
    else:
        from .chat_server import serve

    serve(
        words.models,
        host=words.host,
        port=words.port,
        drain_s=words.drain,
        exit_on_error=words.exit_on_error,
        max_request_bytes=words.max_request_bytes,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
