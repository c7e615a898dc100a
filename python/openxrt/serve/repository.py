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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .. import Error, InvalidArgument, NotFound
from .settings import ModelSettings

SUFFIX = ".onnx"
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
    models = [read_model(folder, *found) for found in named_entries(folder).items()]
    served = [model for model in models if model is not None]
    if not served:
        raise no_model(folder)
    return served


def find_model(folder: Path, name: str) -> ModelFolder | None:
    """One model of a folder, whatever the others are; None where it is not there. Raises what
    find_models() raises."""
    found = named_entries(folder)
    return read_model(folder, name, found[name]) if name in found else None


def no_model(folder: Path) -> NotFound:
    """The error of a folder that holds none."""
    return NotFound(
        f"'{folder}' has no model: NAME.onnx, or NAME/1/{MODEL_FILE} (see docs/guides/serve.md)"
    )


def is_model_name(name: str) -> bool:
    """Whether a server can have a model of this name."""
    return _NAME.fullmatch(name) is not None


def named_entries(folder: Path, suffix: str = SUFFIX) -> dict[str, list[Path]]:
    """Names in order to what may be the model: folders, and files that end in `suffix`; hidden ones
    are none. Raises NotFound where there is no folder."""
    if not folder.is_dir():
        raise NotFound(f"there is no folder '{folder}'")
    found: dict[str, list[Path]] = {}
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            found.setdefault(entry.name, []).append(entry)
        elif entry.suffix == suffix:
            found.setdefault(entry.stem, []).append(entry)
    return dict(sorted(found.items()))


def read_model(root: Path, name: str, entries: list[Path]) -> ModelFolder | None:
    """The model of a name, of its entries in `root`; None where they are a folder without a
    version. Raises what find_models() raises."""
    found = [(entry, versions) for entry in entries if (versions := _versions(entry))]
    if not found:
        return None
    entry = check_entry(root, name, [entry for entry, _ in found])
    versions = found[0][1]
    for path in versions.values():
        check_inside(root, path)
    settings = ModelSettings.of_folder(entry) if entry.is_dir() else ModelSettings()
    return ModelFolder(name, versions, settings)


def check_entry(root: Path, name: str, entries: list[Path]) -> Path:
    """The one entry of a name; InvalidArgument where there are two, the name is none, or it leads
    out of the folder."""
    if len(entries) > 1:
        raise InvalidArgument(f"'{root}' has two models '{name}': a folder and a file")
    (entry,) = entries
    if not is_model_name(name):
        raise InvalidArgument(
            f"'{entry}': a model's name has letters, digits, '_', '-' and '.' only"
        )
    check_inside(root, entry)
    return entry


def check_inside(root: Path, path: Path) -> Path:
    """The path; InvalidArgument where it leads out of the folder."""
    if not path.resolve().is_relative_to(root.resolve()):
        raise InvalidArgument(f"'{path}' leads out of '{root}'")
    return path


def _versions(entry: Path) -> dict[int, Path]:
    if entry.is_file():
        return {1: entry}
    return {
        int(version.name): version / MODEL_FILE
        for version in sorted(entry.iterdir())
        if _VERSION.fullmatch(version.name) and (version / MODEL_FILE).is_file()
    }


def _stamp(entries: list[Path]) -> Stamp:
    """What tells whether a model changed: path, inode, size and time of each of its files."""
    found = []
    for entry in entries:
        files = [entry] if entry.is_file() else [p for p in sorted(entry.rglob("*")) if p.is_file()]
        for file in files:
            try:
                status = file.stat()
            except FileNotFoundError:  # removed after it was listed: the next look has it right
                continue
            found.append((str(file), status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(found)


class FolderWatch:
    """Notices the models of a folder and what changes: the first look finds all of them.

    Attributes:
        names: of the models that the folder had at the last look, also of those that fail.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stamps: dict[str, Stamp | None] = {}
        self.names: set[str] = set()

    def follow(
        self,
        take_over: Callable[[ModelFolder], object],
        refuse: Callable[[str, Error | OSError], object],
        leave: Callable[[str], object],
    ) -> None:
        """Looks once.

        Args:
            take_over: called with each model that is new or changed. It may raise
                :class:`openxrt.Error` or OSError.
            refuse: called with the name of each new or changed model that cannot be served, and
                with what it or `take_over` raised. After an OSError, such as that of a full disk,
                the model is tried again at the next look.
            leave: called with the name of each model that is gone.

        Raises NotFound where there is no folder, and what `refuse` raises.
        """
        entries = named_entries(self._folder)
        for name, found in entries.items():
            now = _stamp(found)
            if now == self._stamps.get(name):
                continue
            self._stamps[name] = now
            try:
                model = read_model(self._folder, name, found)
                if model is None:
                    continue
                self.names.add(name)
                take_over(model)
            except Error as error:
                self.names.add(name)
                refuse(name, error)
            except OSError as error:
                self.names.add(name)
                self._stamps[name] = None
                refuse(name, error)
            else:
                _LOG.info("serving '%s'", name)
        for name in set(self._stamps) - set(entries):
            del self._stamps[name]
            if name not in self.names:
                continue
            self.names.remove(name)
            try:
                leave(name)
            except Error as error:
                _LOG.warning("'%s' is gone from the folder, and still served: %s", name, error)
            else:
                _LOG.info("'%s' is served no more", name)
