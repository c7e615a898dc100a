# SPDX-License-Identifier: Apache-2.0
"""Runs Triton's server over a folder of models and follows the folder's changes."""

from __future__ import annotations

import ctypes
import importlib.util
import logging
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from tempfile import TemporaryDirectory

from .. import EngineError, NotFound
from .repository import FolderWatch, ModelFolder, find_models
from .triton_repository import write_model

_LOG = logging.getLogger("openxrt.serve")
_PR_SET_PDEATHSIG = 1
INSTALL = "pip install 'openxrt[serve]'"


class TritonServer:
    """A tritonserver of its own process.

    Args:
        models: the folder of models (:mod:`openxrt.serve.repository`).
        host: address that HTTP, gRPC and metrics listen on.
        port: of HTTP; gRPC listens on the next one, metrics on the one after that.
        drain_s: seconds that requests under way have when the server is stopped.
        arguments: further arguments of tritonserver.
    """

    def __init__(
        self,
        models: Path,
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        drain_s: int = 30,
        arguments: tuple[str, ...] = (),
    ) -> None:
        self.models, self.host, self.port, self.drain_s = models, host, port, drain_s
        self._arguments = arguments
        self._watch: FolderWatch | None = None  # once it was started
        self._known_workers: dict[int, str] = {}
        self._folder = TemporaryDirectory(prefix="xrt-serve-")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, ready_s: float = 600) -> None:
        """Returns when all models are ready.

        Raises what find_models() and write_model() raise; EngineError where the server ends or is
        not ready after `ready_s` seconds.
        """
        root = Path(self._folder.name)
        repository = root / "models"
        repository.mkdir()
        self._watch = FolderWatch(self.models)
        for model in find_models(self.models):
            write_model(repository, model)
        command = self._command(root, repository)
        parent = os.getpid()
        self._process = subprocess.Popen(
            command, env=_environment(), preexec_fn=lambda: _prepare_child(parent)
        )
        self._wait_ready(ready_s)
        self._known_workers = self._workers()

    def follow(self) -> None:
        """Looks once for models that changed, and for ones whose process ended, and has the server
        take them over.

        A model that does not load is a warning in the log; what was served goes on being served.
        """
        assert self._watch is not None
        self._revive()
        self._watch.follow(self._take_over, self._leave)

    def _take_over(self, model: ModelFolder) -> None:
        write_model(Path(self._folder.name) / "models", model)
        self._ask(f"v2/repository/models/{model.name}/load")

    def _leave(self, name: str) -> None:
        self._ask(f"v2/repository/models/{name}/unload")
        shutil.rmtree(Path(self._folder.name) / "models" / name, ignore_errors=True)

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
        repository = Path(self._folder.name) / "models"
        return {folder.name for folder in repository.iterdir() if not folder.name.startswith(".")}

    def _workers(self) -> dict[int, str]:
        """The Python backend's processes to the models that they run."""
        assert self._process is not None
        repository = os.fspath(Path(self._folder.name) / "models") + "/"
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
        self._folder.cleanup()

    def __enter__(self) -> TritonServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _command(self, root: Path, repository: Path) -> list[str]:
        binary, backends = _find_server(root)
        return [
            os.fspath(binary),
            f"--model-repository={repository}",
            f"--backend-directory={backends}",
            "--model-control-mode=explicit",
            "--load-model=*",
            "--strict-readiness=true",
            "--exit-on-error=true",
            f"--exit-timeout-secs={self.drain_s}",
            f"--http-address={self.host}",
            f"--http-port={self.port}",
            f"--grpc-address={self.host}",
            f"--grpc-port={self.port + 1}",
            f"--metrics-address={self.host}",
            f"--metrics-port={self.port + 2}",
            *self._arguments,
        ]

    def _wait_ready(self, seconds: float) -> None:
        assert self._process is not None
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            code = self._process.poll()
            if code is not None:
                raise EngineError(f"tritonserver ended with {code} before it was ready")
            try:
                self._ask("v2/health/ready", b"")
                return
            except EngineError:
                time.sleep(0.1)
        self.stop()
        raise EngineError(f"tritonserver was not ready after {seconds:.0f} s")

    def _ask(self, path: str, body: bytes | None = b"{}") -> None:
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host
        request = urllib.request.Request(f"http://{host}:{self.port}/{path}")
        if body:
            request = urllib.request.Request(request.full_url, data=body, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=600):
                pass
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
