# SPDX-License-Identifier: Apache-2.0
"""A repository of Triton made of a folder of models.

NAME/config.pbtxt     inputs, outputs, batching, settings
NAME/1/model.py       the Python backend's model: openxrt.serve.triton_model
NAME/1/model.path     where the model file is; without it, model.onnx beside model.py
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from .. import InvalidModel
from .repository import MODEL_FILE, ModelFolder
from .settings import MAX_REQUEST_BYTES, ModelSettings

_MODEL_PY = """\
# Written by xrt serve.
from openxrt.serve.triton_model import TritonPythonModel  # noqa: F401
"""
# Where the package is, for a server on this machine: it may lie in a build folder.
_THIS_PACKAGE = f"""\
import sys

sys.path.append({os.fspath(Path(__file__).absolute().parents[2])!r})
"""
_A_DAY_US = 86_400_000_000
_PATH_FILE = "model.path"
# A model that cannot be served: Triton's index of the repository shows what it raises.
_FAILED_MODEL_PY = """\
# Written by xrt serve.
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        raise pb_utils.TritonModelException({message!r})
"""


def model_file(version_folder: Path) -> Path:
    """The model of a version folder of a Triton repository."""
    path = version_folder / _PATH_FILE
    if path.exists():
        return Path(path.read_text(encoding="utf-8"))
    return version_folder / MODEL_FILE


def describe(path: Path, settings: ModelSettings) -> dict[str, Any]:
    """Inputs, outputs and engines of a model, found by a process that loads and runs it once.

    Raises InvalidModel with the message of what failed there, or the signal that ended it.
    """
    found = subprocess.run(
        [sys.executable, "-m", "openxrt.serve.describe", str(path), settings.to_json()],
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode != 0:
        last = found.stderr.strip().splitlines()
        if found.returncode == 1 and last:
            raise InvalidModel(last[-1])
        raise InvalidModel(f"'{path}': the process that loaded it ended with {found.returncode}")
    return json.loads(found.stdout)


def write_model(
    repository: Path,
    model: ModelFolder,
    *,
    copy: bool = False,
    max_request_bytes: int = MAX_REQUEST_BYTES,
) -> Path:
    """Writes one model into a Triton repository and returns its folder there.

    A folder of that name is replaced as a whole, so that no reader sees half of it. With `copy` the
    version folders hold the model files and what lies beside them, for a repository that travels.
    Raises what describe() raises, and nothing is changed then.
    """
    described = describe(model.versions[model.latest], model.settings)
    fresh = _fresh_folder(repository, model.name)
    for version in model.served:
        place = fresh / str(version)
        place.mkdir(parents=True)
        code = _MODEL_PY if copy else _THIS_PACKAGE + _MODEL_PY
        (place / "model.py").write_text(code, encoding="utf-8")
        source = model.versions[version]
        if not copy:
            (place / _PATH_FILE).write_text(os.fspath(source.resolve()), encoding="utf-8")
        elif source.name == MODEL_FILE:
            shutil.copytree(source.parent, place, dirs_exist_ok=True)
        else:
            shutil.copy2(source, place / MODEL_FILE)
    text = config_text(model, described, max_request_bytes)
    (fresh / "config.pbtxt").write_text(text, encoding="utf-8")
    return _replace_folder(fresh, repository / model.name)


def write_failed_model(repository: Path, name: str, message: str) -> Path:
    """As write_model() for a model that cannot be served: Triton does not load it, and tells the
    message as the reason."""
    fresh = _fresh_folder(repository, name)
    (fresh / "1").mkdir(parents=True)
    code = _FAILED_MODEL_PY.format(message=message)
    (fresh / "1" / "model.py").write_text(code, encoding="utf-8")
    text = f'name: {_quoted(name)}\nbackend: "python"\n'
    (fresh / "config.pbtxt").write_text(text, encoding="utf-8")
    return _replace_folder(fresh, repository / name)


def _fresh_folder(repository: Path, name: str) -> Path:
    fresh = repository / f".{name}.new"
    if fresh.exists():
        shutil.rmtree(fresh)
    return fresh


def _replace_folder(fresh: Path, folder: Path) -> Path:
    if folder.exists():
        shutil.rmtree(folder)
    return fresh.rename(folder)


def config_text(
    model: ModelFolder, described: dict[str, Any], max_request_bytes: int = MAX_REQUEST_BYTES
) -> str:
    """The text of config.pbtxt."""
    settings = model.settings
    batched = settings.max_batch_size > 0
    lines = [
        f"name: {_quoted(model.name)}",
        'backend: "python"',
        f"max_batch_size: {settings.max_batch_size}",
        "version_policy: { all: {} }",
    ]
    for what in ("input", "output"):
        for name, (datatype, dims, required) in described[what].items():
            sizes = dims[1:] if batched else dims
            entry = [
                f"name: {_quoted(name)}",
                f"data_type: TYPE_{'STRING' if datatype == 'BYTES' else datatype}",
                f"dims: {json.dumps(sizes or [1])}",
            ]
            # Triton has no scalars: clients see one element, in each row where there are batches.
            # Without batches triton_model changes the shape.
            if batched and not sizes:
                entry.append("reshape: { shape: [] }")
            if not required:
                entry.append("optional: true")
            lines.append(f"{what} [{{ {', '.join(entry)} }}]")
    lines.append(f"instance_group [{{ kind: KIND_CPU, count: {settings.instances} }}]")
    # With any rule of its queue Triton 2.51 looks twice a second only for requests that wait behind
    # others: there is none unless the model asks for it. Without batches a scheduler has a queue of
    # single requests.
    scheduler = []
    if batched:
        scheduler.append(f"max_queue_delay_microseconds: {settings.max_delay_us}")
    if settings.max_queue_size:
        # A request's own timeout holds in the queue where it is less than the default, which is
        # none without a number.
        queue = [
            f"max_queue_size: {settings.max_queue_size}",
            "allow_timeout_override: true",
            f"default_timeout_microseconds: {_A_DAY_US}",
        ]
        scheduler.append(f"default_queue_policy: {{ {', '.join(queue)} }}")
    if settings.priority_levels:
        level = settings.default_priority_level or settings.priority_levels
        scheduler.append(f"priority_levels: {settings.priority_levels}")
        scheduler.append(f"default_priority_level: {level}")
    if scheduler:
        lines.append(f"dynamic_batching: {{ {', '.join(scheduler)} }}")
    lines.append(
        f'parameters {{ key: "openxrt" value: {{ string_value: {_quoted(settings.to_json())} }} }}'
    )
    for key, value in (
        ("engines", ",".join(described["engines"])),
        ("max_request_bytes", str(max_request_bytes)),
    ):
        lines.append(f'parameters {{ key: "{key}" value: {{ string_value: {_quoted(value)} }} }}')
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
