# SPDX-License-Identifier: Apache-2.0
"""What `cmake --install` makes works in any folder, without the environment of the build."""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import onnx
import pytest
from openxrt import _command

Call = Callable[..., str]
Dynamic = Callable[[Path, str], list[str]]

PROGRAM = next(path for path in _command.programs() if path.is_file())
BUILD = PROGRAM.parent.parent
CMAKE = str(Path(sys.executable).parent / "cmake")

pytestmark = pytest.mark.skipif(
    not (BUILD / "CMakeCache.txt").is_file(), reason="this is not a build folder"
)


@pytest.fixture(scope="module")
def tree(call: Call) -> Iterator[Path]:
    """The installed tree, moved after it was installed; removed, as it holds vendors' libraries."""
    with tempfile.TemporaryDirectory(prefix="openxrt-tree-") as name:
        call(CMAKE, "--install", BUILD, "--prefix", Path(name) / "first")
        yield (Path(name) / "first").rename(Path(name) / "second")


def own_binaries(tree: Path) -> list[Path]:
    """What the project itself built, without the vendors' libraries."""
    libraries = [*tree.glob("lib*/**/libxrt*.so*"), *(tree / "bin").iterdir()]
    return [path for path in libraries if not path.is_symlink() and "vendor" not in path.parts]


def test_no_search_path_names_a_folder_of_this_machine(tree: Path, dynamic: Dynamic) -> None:
    binaries = own_binaries(tree)
    assert {"xrt", "libxrt_engine_native.so"} <= {path.name for path in binaries}
    for binary in binaries:
        folders = [f for tag in ("RPATH", "RUNPATH") for f in dynamic(binary, tag)]
        for folder in ":".join(folders).split(":"):
            assert not folder or folder.startswith("$ORIGIN"), binary


def test_every_binary_asks_for_the_versioned_library(tree: Path, dynamic: Dynamic) -> None:
    [library] = [path for path in own_binaries(tree) if re.match(r"libxrt\.so", path.name)]
    assert dynamic(library, "SONAME") == [library.name]
    assert re.fullmatch(r"libxrt\.so\.\d+\.\d+", library.name)
    for binary in own_binaries(tree):
        needed = [name for name in dynamic(binary, "NEEDED") if name.startswith("libxrt.so")]
        assert needed in ([], [library.name]), binary


@pytest.mark.parametrize("engine", ["native", "openvino", "xla"])
def test_the_command_runs_without_the_build_environment(
    tree: Path,
    model: Path,
    tmp_path: Path,
    call: Call,
    foreign: Callable[..., list[str]],
    engine: str,
) -> None:
    library = f"libxrt_engine_{engine}.so"
    if not any(path.name == library for path in own_binaries(tree)):
        pytest.skip(f"the engine {engine} was not built")
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "XRT_CACHE_DIR": str(tmp_path / "cache"),
    }
    inputs = ["-i", "x=[[1,-2,0.5],[0,-3,4]]", "--strict"]
    command = [tree / "bin" / "xrt", "run", model, "-e", engine, *inputs]
    assert "1, 0, 0.5, 0, 0, 4" in call(*command, env=environment, cwd=tmp_path)
    own = {path.name for path in own_binaries(tree)}
    found = foreign(tree, *command, env=environment)
    # A build for this machine links Debian's libraries, too; engines' come from the tree.
    assert [file for file in found if not file.startswith(("/lib", "/usr/lib"))] == []
    assert not [file for file in found if Path(file).name in own or "libtbb" in file]


C_PROGRAM = """
#include <stdio.h>
#include <xrt_lite.h>
#include <xrt_lite_hal.h>
int main(void) {
  xrt_lite_model* model = NULL;
  printf("%s\\n", xrt_lite_message(xrt_lite_load("no model", 8, NULL, &model)));
  return 0;
}
"""


def test_the_c_runtime_with_pkg_config(tree: Path, tmp_path: Path, call: Call) -> None:
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not installed")
    (tmp_path / "main.c").write_text(C_PROGRAM)
    [folder] = {path.parent for path in tree.glob("lib*/**/xrt_lite.pc")}
    environment = {**os.environ, "PKG_CONFIG_PATH": str(folder)}
    flags = call("pkg-config", "--cflags", "--libs", "xrt_lite", env=environment).split()
    call("cc", "-Werror", tmp_path / "main.c", "-o", tmp_path / "main", *flags)
    library = {**os.environ, "LD_LIBRARY_PATH": str(folder.parent)}
    assert call(tmp_path / "main", env=library).strip()


def test_the_c_runtime_with_cmake(tree: Path, tmp_path: Path, call: Call) -> None:
    (tmp_path / "main.c").write_text(C_PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\n"
        "project(main LANGUAGES C)\n"
        "find_package(OpenXRTLite REQUIRED)\n"
        "add_executable(main main.c)\n"
        "target_link_libraries(main PRIVATE OpenXRT::lite)\n"
    )
    call(CMAKE, "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={tree}")
    call(CMAKE, "--build", tmp_path / "build")
    assert call(tmp_path / "build" / "main").strip()


# Its file has the name of ONNX's own in libprotobuf's table of files.
OWN_MESSAGES_BUILD = """
cmake_minimum_required(VERSION 3.25)
project(own_messages LANGUAGES CXX)
find_package(OpenXRT 0.1 REQUIRED)
find_package(Protobuf REQUIRED)
add_executable(own_messages main.cc onnx/onnx-ml.pb.cc)
target_include_directories(own_messages PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
target_link_libraries(own_messages PRIVATE OpenXRT::xrt protobuf::libprotobuf)
"""

OWN_MESSAGES = """
#include <fstream>
#include <iostream>
#include "onnx/onnx-ml.pb.h"
#include "xrt/onnx.h"
int main(int, char** arguments) {
  onnx::ModelProto model;
  std::ifstream file(arguments[1], std::ios::binary);
  if (!model.ParseFromIstream(&file)) return 1;
  std::cout << model.graph().node(0).op_type() << " "
            << onnx::ModelProto::descriptor()->full_name() << " "
            << xrt::import_onnx(arguments[1]).inputs().size() << "\\n";
}
"""


def test_a_program_with_onnx_messages_of_its_own(
    tree: Path, tmp_path: Path, model: Path, call: Call
) -> None:
    if shutil.which("protoc") is None:
        pytest.skip("protoc is not installed")
    source = tmp_path / "source"
    (source / "onnx").mkdir(parents=True)
    proto = (Path(onnx.__file__).parent / "onnx-ml.proto").read_text()
    # Messages of the lite runtime are not in libprotobuf's table.
    proto = proto.replace("option optimize_for = LITE_RUNTIME;", "")
    (source / "onnx" / "onnx-ml.proto").write_text(proto)
    call("protoc", "--cpp_out=.", "onnx/onnx-ml.proto", cwd=source)
    (source / "main.cc").write_text(OWN_MESSAGES)
    (source / "CMakeLists.txt").write_text(OWN_MESSAGES_BUILD)
    build = tmp_path / "build"
    call(CMAKE, "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={tree}")
    call(CMAKE, "--build", build)
    told = call(build / "own_messages", model)
    assert told.split() == ["Relu", "onnx.ModelProto", "1"]
