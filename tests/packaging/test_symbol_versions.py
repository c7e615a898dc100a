# SPDX-License-Identifier: Apache-2.0
"""The judge of what binaries ask of a machine, and the functions that older machines lack."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from symbol_versions import binaries, needed_versions, too_new

Call = Callable[..., str]
ROOT = Path(__file__).resolve().parents[2]


def library(folder: Path, call: Call, version: str) -> Path:
    """A library that asks for one function of a version of libother.so."""
    (folder / "other.map").write_text(f"{version} {{ global: function; local: *; }};\n")
    (folder / "other.c").write_text("int function(void) { return 1; }\n")
    (folder / "user.c").write_text("int function(void);\nint use(void) { return function(); }\n")
    script = f"-Wl,--version-script={folder / 'other.map'}"
    other = folder / "libother.so"
    call("cc", "-shared", "-fPIC", "-nostdlib", folder / "other.c", script, "-o", other)
    user = folder / "libuser.so"
    call("cc", "-shared", "-fPIC", "-nostdlib", folder / "user.c", other, "-o", user)
    return user


@pytest.mark.parametrize(
    ("version", "new"),
    [
        ("GLIBC_2.28", False),
        ("GLIBC_2.3.4", False),
        ("GLIBC_2.29", True),
        ("GLIBCXX_3.4.25", False),
        ("GLIBCXX_3.4.26", True),
        ("CXXABI_1.3.11", False),
        ("CXXABI_1.3.12", True),
        ("CXXABI_FLOAT128", False),
        ("GCC_3.0", False),
    ],
)
def test_one_version(tmp_path: Path, call: Call, version: str, new: bool) -> None:
    user = library(tmp_path, call, version)
    assert needed_versions(user) == {version}
    assert too_new(needed_versions(user)) == ([version] if new else [])


def test_a_file_without_versions(tmp_path: Path, call: Call) -> None:
    (tmp_path / "alone.c").write_text("int alone(void) { return 0; }\n")
    alone = tmp_path / "libalone.so"
    call("cc", "-shared", "-nostdlib", tmp_path / "alone.c", "-o", alone)
    assert needed_versions(alone) == set()


def test_binaries_are_found_by_what_they_hold(tmp_path: Path, call: Call) -> None:
    """xrt_worker has no suffix; a text may end with .so."""
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    call("cc", tmp_path / "main.c", "-o", tmp_path / "worker")
    (tmp_path / "text.so").write_text("INPUT ( libc.so.6 )\n")
    (tmp_path / "link").symlink_to("worker")
    assert list(binaries(tmp_path)) == [tmp_path / "worker"]


# Without dlsym's answers: a C library that has none of them.
OLD = """
#define dlsym(handle, name) NULL
#include "compat.c"
#undef dlsym
#include <fcntl.h>
#include <stdio.h>
int main(void) {
  int files[40], i, open_files = 0;
  for (i = 0; i < 40; ++i) files[i] = open("/dev/null", O_RDONLY);
  if (close_range(4, ~0U, 0) != 0) return 1;
  for (i = 0; i < 40; ++i) open_files += fcntl(files[i], F_GETFD) >= 0;
  printf("%d %d %d\\n", files[0], open_files, fcntl(2, F_GETFD) >= 0);
  if (close_range(5, 4, 0) == 0 || errno != EINVAL) return 2;
  return 0;
}
"""


def test_close_range_of_machines_without_it(tmp_path: Path, call: Call) -> None:
    """Files 4 and above are closed, however many there are; those below stay open."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    (tmp_path / "main.c").write_text(OLD)
    portable = ROOT / "tools" / "portable"
    program = tmp_path / "main"
    call("cc", "-Wall", "-Werror", f"-I{portable}", tmp_path / "main.c", "-o", program)
    first, left, standard = call(program, close_fds=True).split()
    assert (first, left, standard) == ("3", "1", "1")
