# SPDX-License-Identifier: Apache-2.0
"""Runs Triton's server over a folder of models and follows the folder's changes."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import json
import logging
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .. import EngineError, Error, NotFound
from .repository import FolderWatch, ModelFolder, is_model_name, no_model
from .settings import MAX_REQUEST_BYTES
from .triton_repository import write_failed_model, write_model

_LOG = logging.getLogger("openxrt.serve")
_PR_SET_PDEATHSIG = 1
_SHARED_MEMORY = Path("/dev/shm")
INSTALL = "pip install 'openxrt[serve]'"


class TritonServer:
    """A tritonserver of its own process.

    Args:
        models: the folder of models (:mod:`openxrt.serve.repository`).
        host: address that HTTP, gRPC and metrics listen on.
        port: of HTTP; gRPC listens on the next one, metrics on the one after that.
        drain_s: seconds that requests under way have when the server is stopped.
        exit_on_error: start() raises where a model cannot be served. Otherwise that model is not
            ready, the repository's index tells why, and others are served.
        max_request_bytes: bytes of a request at most.
        arguments: further arguments of tritonserver.
    """

    def __init__(
        self,
        models: Path,
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        drain_s: int = 30,
        exit_on_error: bool = False,
        max_request_bytes: int = MAX_REQUEST_BYTES,
        arguments: tuple[str, ...] = (),
    ) -> None:
        self.models, self.host, self.port, self.drain_s = models, host, port, drain_s
        self._exit_on_error = exit_on_error
        self._max_request_bytes = max_request_bytes
        self._arguments = arguments
        self._watch = FolderWatch(models)
        self._known_workers: dict[int, str] = {}
        self._folder = TemporaryDirectory(prefix="xrt-serve-")
        self._repository = Path(self._folder.name) / "models"
        self._region_prefix = f"{Path(self._folder.name).name}-"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, ready_s: float = 600) -> None:
        """Returns when the server answers and each model is ready or failed.

        Raises NotFound for a folder without a model; EngineError where the server ends or does not
        answer after `ready_s` seconds; with `exit_on_error` also what a model raises.
        """
        root = Path(self._folder.name)
        self._repository.mkdir()
        self._look()
        if not self._watch.names:
            raise no_model(self.models)
        command = self._command(root)
        parent = os.getpid()
        self._process = subprocess.Popen(
            command, env=_environment(), preexec_fn=lambda: _prepare_child(parent)
        )
        self._wait_until_live(ready_s)
        self._known_workers = self._workers()
        states = [entry.get("state") for entry in self.index()]
        _LOG.info("%d of %d models are ready", states.count("READY"), len(states))

    def follow(self) -> None:
        """Looks once for models that changed, and for ones whose process ended, and has the server
        take them over.

        A model that cannot be served is told in the log; where an older one was served, that goes
        on being served, and otherwise the model is not ready.
        """
        self._revive()
        try:
            self._look()
        except (NotFound, OSError) as error:  # the folder is away, such as one of a network
            _LOG.warning("what is served goes on being served: %s", error)

    def index(self) -> list[dict[str, Any]]:
        """Triton's index of the repository: name, state, and the reason of each that failed."""
        return json.loads(self._ask("v2/repository/index"))

    def _look(self) -> None:
        self._watch.follow(self._take_over, self._refuse, self._leave)

    def _take_over(self, model: ModelFolder) -> None:
        write_model(self._repository, model, max_request_bytes=self._max_request_bytes)
        if self._process is not None:
            self._ask(f"v2/repository/models/{model.name}/load")

    def _refuse(self, name: str, error: Error | OSError) -> None:
        if self._exit_on_error and self._process is None:
            raise error
        if self._process is not None and self._is_ready(name):
            _LOG.warning("'%s' is served as it was: %s", name, error)
            return
        _LOG.error("'%s' is not served: %s", name, error)
        if not is_model_name(name):
            return
        # On a full disk the log alone tells.
        with contextlib.suppress(OSError):
            write_failed_model(self._repository, name, str(error))
        if self._process is not None:
            with contextlib.suppress(EngineError):  # which it is written for
                self._ask(f"v2/repository/models/{name}/load")

    def _leave(self, name: str) -> None:
        self._ask(f"v2/repository/models/{name}/unload")
        shutil.rmtree(self._repository / name, ignore_errors=True)

    def _revive(self) -> None:
        """Loads models anew that lost a process; Triton answers 500 for them and starts none."""
        alive = self._workers()
        for name in {name for pid, name in self._known_workers.items() if pid not in alive}:
            if name not in self._models():
                continue
            _LOG.warning("a process of '%s' ended; it is loaded anew", name)
            try:
                self._ask(f"v2/repository/models/{name}/load")
            except EngineError as error:
                _LOG.error("'%s' cannot be loaded anew: %s", name, error)
        self._known_workers = self._workers()

    def _models(self) -> set[str]:
        return {
            folder.name for folder in self._repository.iterdir() if not folder.name.startswith(".")
        }

    def _workers(self) -> dict[int, str]:
        """The Python backend's processes to the models that they run."""
        assert self._process is not None
        repository = os.fspath(self._repository) + "/"
        found = {}
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:  # it ended meanwhile
                continue
            if not words[0].endswith("triton_python_backend_stub"):
                continue
            for word in words:
                if word.startswith(repository):
                    found[int(folder.name)] = word[len(repository) :].split("/")[0]
                    break
        return found

    def wait(self, poll_s: float = 1.0) -> int:
        """Serves until the server ends; its exit code."""
        assert self._process is not None
        while True:
            try:
                return self._process.wait(poll_s)
            except subprocess.TimeoutExpired:
                self.follow()

    def stop(self) -> None:
        """Lets requests under way finish, at most `drain_s` seconds."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(self.drain_s + 10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        # A server that was killed or aborted leaves the memory that it shared with its models.
        for region in _SHARED_MEMORY.glob(f"{self._region_prefix}*"):
            region.unlink(missing_ok=True)
        self._folder.cleanup()

    def __enter__(self) -> TritonServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _command(self, root: Path) -> list[str]:
        binary, backends = _find_server(root)
        return [
            os.fspath(binary),
            f"--model-repository={self._repository}",
            f"--backend-directory={backends}",
            f"--backend-config=python,shm-region-prefix-name={self._region_prefix}",
            "--model-control-mode=explicit",
            "--load-model=*",
            # With strict readiness one model that failed, or that was unloaded, has the server not
            # ready for ever, and a load balancer would take the others away.
            "--strict-readiness=false",
            f"--exit-on-error={'true' if self._exit_on_error else 'false'}",
            f"--exit-timeout-secs={self.drain_s}",
            f"--http-address={self.host}",
            f"--http-port={self.port}",
            f"--grpc-address={self.host}",
            f"--grpc-port={self.port + 1}",
            f"--metrics-address={self.host}",
            f"--metrics-port={self.port + 2}",
            *_size_limit(binary, self._max_request_bytes),
            *self._arguments,
        ]

    def _wait_until_live(self, seconds: float) -> None:
        """Triton listens when it is done with loading."""
        assert self._process is not None
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            code = self._process.poll()
            if code is not None:
                raise EngineError(f"tritonserver ended with {code} before it answered")
            with contextlib.suppress(EngineError):
                self._ask("v2/health/live", b"")
                return
            time.sleep(0.1)
        self.stop()
        raise EngineError(f"tritonserver did not answer after {seconds:.0f} s")

    def _is_ready(self, name: str) -> bool:
        try:
            self._ask(f"v2/models/{urllib.parse.quote(name)}/ready", b"")
        except EngineError:
            return False
        return True

    def _ask(self, path: str, body: bytes | None = b"{}") -> bytes:
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host
        request = urllib.request.Request(f"http://{host}:{self.port}/{path}")
        if body:
            request = urllib.request.Request(request.full_url, data=body, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            raise EngineError(f"tritonserver: {error.read().decode(errors='replace')}") from None
        except OSError as error:
            raise EngineError(f"tritonserver does not answer: {error}") from None


def _find_server(root: Path) -> tuple[Path, Path]:
    """tritonserver and the folder of its backends: the one on PATH, else the one that the package
    nvidia-pytriton brings, with the stub of this Python put beside its Python backend."""
    installed = shutil.which("tritonserver")
    if installed:
        return Path(installed), Path(installed).resolve().parent.parent / "backends"
    spec = importlib.util.find_spec("pytriton")
    if spec is None or not spec.submodule_search_locations:
        raise NotFound(f"there is no tritonserver: {INSTALL}, or Triton on PATH")
    files = Path(next(iter(spec.submodule_search_locations))) / "tritonserver"
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    stub = files / "python_backend_stubs" / version / "triton_python_backend_stub"
    if not stub.exists():
        raise NotFound(f"nvidia-pytriton has no backend for Python {version}")
    backends = root / "backends"
    shutil.copytree(files / "backends", backends)
    # A link: the stub finds its libraries from where it really lies.
    (backends / "python" / stub.name).symlink_to(stub)
    return files / "bin" / "tritonserver", backends


def _size_limit(binary: Path, most: int) -> list[str]:
    """Newer tritonservers refuse a body before they read it; for older ones the model alone does,
    afterwards."""
    option = "--http-max-input-size"
    told = subprocess.run([binary, "--help"], capture_output=True, text=True, check=False)
    return [f"{option}={most}"] if option in told.stdout + told.stderr else []


def _environment() -> dict[str, str]:
    """The stub finds the packages of the Python that comes first on PATH: this one's."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])  # noqa: PTH120
    return {**os.environ, "PATH": path}


def _prepare_child(parent: int) -> None:
    """In the child: ends with the process that started it, however that ends; has as many
    descriptors, which are its clients, as it may have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(1)
