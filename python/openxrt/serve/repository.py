# SPDX-License-Identifier: Apache-2.0
"""A folder of models.

It looks like this::

    models/
      ocr/xrt.json             settings, may be left out
      ocr/1/model.onnx         a version: the file, beside its external data
      ocr/2/model.onnx
      digits.onnx              version 1 of the model "digits"

A name has letters, digits, ``_``, ``-`` and ``.``, and begins with a letter or a digit. Other
entries are left alone. A link that leads out of the folder is an error.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .. import Error, InvalidArgument, NotFound
from .settings import ModelSettings

MODEL_FILE = "model.onnx"
_LOG = logging.getLogger("openxrt.serve")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_VERSION = re.compile(r"[1-9][0-9]{0,17}")

Stamp = tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True)
class ModelFolder:
    """One model: its versions and how they are served."""

    name: str
    versions: dict[int, Path]
    """Number to the model file."""
    settings: ModelSettings

    @property
    def latest(self) -> int:
        """The greatest version."""
        return max(self.versions)

    @property
    def served(self) -> list[int]:
        """The versions that the settings ask for, in order."""
        return sorted(self.versions) if self.settings.versions == "all" else [self.latest]


def find_models(folder: Path) -> list[ModelFolder]:
    """The models of a folder in order of name.

    Raises NotFound where there is no folder or no model in it, InvalidArgument naming the file for
    settings that do not fit, a name that is none, or two models of one name.
    """
    if not folder.is_dir():
        raise NotFound(f"there is no folder '{folder}'")
    models = {}
    for entry in model_entries(folder):
        model = read_model(folder, entry)
        if model is None:
            continue
        if model.name in models:
            raise InvalidArgument(f"'{folder}' has two models '{model.name}': a folder and a file")
        models[model.name] = model
    if not models:
        raise NotFound(
            f"'{folder}' has no model: NAME.onnx, or NAME/1/{MODEL_FILE} (see docs/guides/serve.md)"
        )
    return [models[name] for name in sorted(models)]


def model_entries(folder: Path) -> Iterator[Path]:
    """What may be a model: folders, and files that end in .onnx; hidden ones are none."""
    for entry in sorted(folder.iterdir()):
        if not entry.name.startswith(".") and (entry.is_dir() or entry.suffix == ".onnx"):
            yield entry


def read_model(root: Path, entry: Path) -> ModelFolder | None:
    """The model of one entry of `root`; None for a folder without a version."""
    name = entry.stem if entry.is_file() else entry.name
    if entry.is_file():
        versions = {1: entry}
        settings = ModelSettings()
    else:
        versions = {
            int(version.name): version / MODEL_FILE
            for version in sorted(entry.iterdir())
            if _VERSION.fullmatch(version.name) and (version / MODEL_FILE).is_file()
        }
        if not versions:
            return None
        settings = ModelSettings.of_folder(entry)
    if not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"'{entry}': a model's name has letters, digits, '_', '-' and '.' only"
        )
    inside = root.resolve()
    for path in versions.values():
        if not path.resolve().is_relative_to(inside):
            raise InvalidArgument(f"'{path}' leads out of '{root}'")
    return ModelFolder(name, versions, settings)


def stamp(entry: Path) -> Stamp:
    """What tells whether an entry changed: path, inode, size and time of each of its files."""
    files = [entry] if entry.is_file() else [p for p in sorted(entry.rglob("*")) if p.is_file()]
    found = []
    for file in files:
        try:
            status = file.stat()
        except FileNotFoundError:  # removed since it was listed: the next look has it right
            continue
        found.append((str(file), status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(found)


class FolderWatch:
    """Notices what changes in a folder of models after this object was made."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stamps = {entry.name: stamp(entry) for entry in model_entries(folder)}

    def follow(
        self, take_over: Callable[[ModelFolder], object], leave: Callable[[str], object]
    ) -> None:
        """Looks once.

        Args:
            take_over: called with each model that is new or changed.
            leave: called with the name of each model that is gone.

        What these raise of :class:`openxrt.Error` is a warning in the log, with the model's name:
        what was served goes on being served. So is an OSError, such as that of a full disk; the
        model is then tried again at the next look.
        """
        entries = {entry.name: entry for entry in model_entries(self._folder)}
        for name, entry in entries.items():
            now = stamp(entry)
            if now == self._stamps.get(name):
                continue
            self._stamps[name] = now
            try:
                model = read_model(self._folder, entry)
                if model is None:
                    continue
                take_over(model)
            except Error as error:
                _LOG.warning("'%s' is served as it was: %s", name, error)
            except OSError as error:
                self._stamps[name] = ()
                _LOG.warning("'%s' is served as it was, and tried again: %s", name, error)
            else:
                _LOG.info("serving the new '%s'", model.name)
        for name in set(self._stamps) - set(entries):
            del self._stamps[name]
            model_name = Path(name).stem if name.endswith(".onnx") else name
            try:
                leave(model_name)
            except Error as error:
                _LOG.warning("'%s' is gone from the folder, and still served: %s", name, error)
            else:
                _LOG.info("'%s' is served no more", model_name)
