# SPDX-License-Identifier: Apache-2.0
"""The archives of `./dev sdk`, unpacked in another folder, are used by programs in C and C++."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from symbol_versions import binaries, needed_versions, too_new

Call = Callable[..., str]
CMAKE = str(Path(sys.executable).parent / "cmake")

pytestmark = pytest.mark.skipif(
    "XRT_SDK" not in os.environ, reason="it needs the archives: ./dev sdk"
)

CPP = """
#include <iostream>
#include "xrt/program.h"
int main(int, char** arguments) {
  const auto program = xrt::Program::load(arguments[1], {.engines = {"native"}});
  xrt::Tensor x = xrt::Tensor::allocate(xrt::DType::kFloat32, {2, 3});
  std::fill_n(x.data<float>(), 6, -2.0F);
  x.data<float>()[5] = 3.0F;
  const auto outputs = program->run({{"x", x}});
  std::cout << outputs.at(0).tensor().data<float>()[5] << "\\n";
}
"""
CPP_BUILD = """
cmake_minimum_required(VERSION 3.25)
project(main LANGUAGES CXX)
find_package(OpenXRT 0.1 REQUIRED)
add_executable(main main.cc)
target_link_libraries(main PRIVATE OpenXRT::xrt)
"""
C = """
#include <stdio.h>
#include <xrt/xrt.h>
int main(int count, char** arguments) {
  xrt_status* status = NULL;
  xrt_program* program = NULL;
  if (count < 2 || xrt_program_load(arguments[1], NULL, &program, &status) != XRT_OK) return 1;
  float x[6] = {-2, -2, -2, -2, -2, 3};
  const int64_t dims[] = {2, 3};
  const xrt_tensor tensor = {.size = sizeof tensor, .dtype = XRT_FLOAT32, .dims = dims, .rank = 2,
                             .data = x, .bytes = sizeof x};
  xrt_value* input = NULL;
  xrt_value* output = NULL;
  xrt_value_wrap(&tensor, &input, NULL);
  const xrt_value* inputs[] = {input};
  if (xrt_program_run(program, inputs, 1, &output, 1, NULL, NULL) != XRT_OK) return 2;
  printf("%g\\n", ((const float*)xrt_value_data(output))[5]);
  xrt_value_free(output);
  xrt_value_free(input);
  xrt_program_free(program);
  return 0;
}
"""
LITE = """
#include <stdio.h>
#include <xrt_lite.h>
int main(void) {
  xrt_lite_model* model = NULL;
  printf("%s\\n", xrt_lite_message(xrt_lite_load("no model", 8, NULL, &model)));
  return 0;
}
"""


def unpack(variable: str, folder: Path, call: Call) -> Path:
    call("tar", "-xf", os.environ[variable], "-C", folder)
    [tree] = folder.iterdir()
    return tree


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory, call: Call) -> Path:
    return unpack("XRT_SDK", tmp_path_factory.mktemp("sdk"), call)


@pytest.fixture(scope="module")
def lite(tmp_path_factory: pytest.TempPathFactory, call: Call) -> Path:
    return unpack("XRT_LITE_SDK", tmp_path_factory.mktemp("lite"), call)


def clean(tmp_path: Path, **more: str) -> dict[str, str]:
    """Variables of a shell that knows nothing of the build."""
    return {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **more}


def test_cpp_with_cmake(sdk: Path, model: Path, tmp_path: Path, call: Call) -> None:
    (tmp_path / "main.cc").write_text(CPP)
    (tmp_path / "CMakeLists.txt").write_text(CPP_BUILD)
    environment = clean(tmp_path)
    call(
        *(CMAKE, "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={sdk}"),
        env=environment,
    )
    call(CMAKE, "--build", tmp_path / "build", env=environment)
    assert call(tmp_path / "build" / "main", model, env=environment).strip() == "3"


def test_c_with_pkg_config(sdk: Path, model: Path, tmp_path: Path, call: Call) -> None:
    (tmp_path / "main.c").write_text(C)
    environment = clean(tmp_path, PKG_CONFIG_PATH=str(sdk / "lib" / "pkgconfig"))
    flags = call("pkg-config", "--cflags", "--libs", "openxrt", env=environment).split()
    call("cc", "-Werror", "-std=c99", tmp_path / "main.c", "-o", tmp_path / "main", *flags)
    environment = clean(tmp_path, LD_LIBRARY_PATH=str(sdk / "lib"))
    assert call(tmp_path / "main", model, env=environment).strip() == "3"


def test_the_command_and_lites_compiler(sdk: Path, model: Path, tmp_path: Path, call: Call) -> None:
    environment = clean(tmp_path)
    command = [sdk / "bin" / "xrt", "run", model, "-i", "x=[[1,-2,0.5],[0,-3,4]]"]
    assert "1, 0, 0.5, 0, 0, 4" in call(*command, env=environment)
    compiled = tmp_path / "model.xrtl"
    call(sdk / "bin" / "xrt-lite-compile", model, "-o", compiled, env=environment)
    assert compiled.stat().st_size > 0


def test_every_library_comes_from_the_archive(
    sdk: Path, model: Path, tmp_path: Path, foreign: Callable[..., list[str]]
) -> None:
    """Debian's libraries of the same names, TBB's for one, are not on other machines."""
    command = [sdk / "bin" / "xrt", "run", model, "-e", "native"]
    assert foreign(sdk, *command, env=clean(tmp_path)) == []


def test_lite_with_pkg_config(lite: Path, tmp_path: Path, call: Call) -> None:
    (tmp_path / "main.c").write_text(LITE)
    [folder] = {path.parent for path in lite.rglob("xrt_lite.pc")}
    environment = clean(tmp_path, PKG_CONFIG_PATH=str(folder))
    flags = call("pkg-config", "--cflags", "--libs", "xrt_lite", env=environment).split()
    call("cc", "-Werror", tmp_path / "main.c", "-o", tmp_path / "main", *flags)
    environment = clean(tmp_path, LD_LIBRARY_PATH=str(folder.parent))
    assert call(tmp_path / "main", env=environment).strip()


def test_lites_sources_build_by_themselves(lite: Path, tmp_path: Path, call: Call) -> None:
    source = lite / "share" / "xrt_lite" / "runtime"
    call(CMAKE, "-S", source, "-B", tmp_path / "build", "-DCMAKE_BUILD_TYPE=Release")
    call(CMAKE, "--build", tmp_path / "build")
    assert list((tmp_path / "build").rglob("libxrt_lite*"))


@pytest.mark.parametrize("tree", ["sdk", "lite"])
def test_what_it_asks_of_the_machine(tree: str, request: pytest.FixtureRequest) -> None:
    """No newer C or C++ library than manylinux_2_28 allows."""
    folder: Path = request.getfixturevalue(tree)
    found = list(binaries(folder))
    assert found
    assert {file.name: too_new(needed_versions(file)) for file in found} == {
        file.name: [] for file in found
    }
