# SPDX-License-Identifier: Apache-2.0
"""Disks that take nothing more: full, read-only, without the right to write, with a bound on files.

Each is a context in which a folder is like that, in this process and in those that it starts.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SIZE = "256k"
FILLER = "filler"  # takes what is free


@contextlib.contextmanager
def place(kind: str, folder: Path) -> Iterator[None]:
    """The folder, with a file system of its own of 256 KiB where the kind wants that."""
    if kind not in ("full", "read-only"):
        yield
        return
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=700", "tmpfs", os.fspath(folder)]
    if shutil.which("mount") is None:
        pytest.skip("the command mount is missing")
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("a file system of a fixed size cannot be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", os.fspath(folder)], check=True)


@contextlib.contextmanager
def full(folder: Path) -> Iterator[str]:
    """No block of the file system is free."""
    filler = folder / FILLER
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    assert shutil.disk_usage(folder).free == 0
    try:
        yield os.strerror(errno.ENOSPC)
    finally:
        filler.unlink()


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[str]:
    """The file system is mounted to be read."""

    def remount(how: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{how}", os.fspath(folder)], check=True)

    remount("ro")
    try:
        yield os.strerror(errno.EROFS)
    finally:
        remount("rw")


@contextlib.contextmanager
def bounded(_folder: Path) -> Iterator[str]:
    """No file of this process grows beyond some bytes (ulimit -f)."""
    kind = resource.RLIMIT_FSIZE
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (16, before[1]))
    try:
        yield os.strerror(errno.EFBIG)
    finally:
        resource.setrlimit(kind, before)


class _Capabilities(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable")]


@contextlib.contextmanager
def revoked(folder: Path) -> Iterator[str]:
    """Nobody may write there; root, too, does without its rights over files, in this thread. A
    program that root starts has them again."""
    library = ctypes.CDLL(None, use_errno=True)
    head = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3 of the structure, this thread
    rights = (_Capabilities * 2)()
    assert library.capget(head, rights) == 0
    before = rights[0].effective
    rights[0].effective &= ~0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
    assert library.capset(head, rights) == 0
    folder.chmod(0o500)
    try:
        yield os.strerror(errno.EACCES)
    finally:
        rights[0].effective = before
        assert library.capset(head, rights) == 0
        folder.chmod(0o700)


KINDS = {"full": full, "read-only": read_only, "bounded": bounded, "revoked": revoked}
