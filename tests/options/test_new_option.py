# SPDX-License-Identifier: Apache-2.0
"""An option is added by a row of the table alone."""

import importlib.util
import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROW = """
XRT_OPTION(int, warp_factor, 1,
           .help = "Multiple of the speed of light. Nothing uses it.",
           .other_names = "warp", .flags = "--warp,--warp-factor", .value = "FACTOR",
           .least = 1, .most = 9, .environment = true, .cached = true)
"""

# What C++ makes of the table. The log and the thread budget are stood in for.
PROGRAM = """
#include <cstdio>
#include "base/log.h"
#include "cli/option_flags.h"
#include "device/threads.h"
#include "xrt/error.h"

namespace xrt {
int granted_threads(int wanted) { return wanted; }
void log_warning(std::string_view) {}
void log_everything() {}
}

template <typename Act>
void say_error(Act&& act) {
  try {
    act();
  } catch (const xrt::Error& error) {
    std::puts(error.what());
  }
}

int main(int argc, char** argv) {
  xrt::ProgramOptions options;
  std::printf("default %d\\n", options.warp_factor);
  xrt::set_option(options, "warp_factor", "3");
  std::printf("field %d\\n", options.warp_factor);
  std::printf("key %d\\n", xrt::option_key(options) != xrt::option_key({}));
  xrt::set_option(options, "warp", "4");
  std::printf("other name %s\\n", xrt::option_text(options, "warp_factor").c_str());
  say_error([&] { xrt::set_option(options, "warp_factor", "10"); });
  say_error([&] { xrt::set_option(options, "warp_facto", "2"); });
  say_error([&] { xrt::check_options({.warp_factor = 0}); });
  std::printf("environment %d\\n", xrt::resolve_options({}).warp_factor);
  CLI::App app;
  xrt::ProgramOptions flags;
  xrt::cli::add_option_flags(app, flags, "Placement");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  std::printf("flag %d\\n", flags.warp_factor);
  return 0;
}
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the generator reads and writes, with one row more in the table."""
    root = tmp_path_factory.mktemp("tree")
    for name in (
        "include/xrt/options.inc",
        "docs/reference/options.md",
        "CMakeLists.txt",
        "tools/variables.inc",
        "lite/variables.inc",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    for pattern in ("src/**/variables.inc", "src/engines/*/CMakeLists.txt"):
        for path in ROOT.glob(pattern):
            copy = root / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
    (root / "python" / "openxrt").mkdir(parents=True)
    table = root / "include/xrt/options.inc"
    text = table.read_text(encoding="utf-8")
    first_retired = text.index("\nXRT_RETIRED_OPTION(")
    table.write_text(text[:first_retired] + ROW + text[first_retired:], encoding="utf-8")
    tool = ROOT / "tools" / "make_options.py"
    subprocess.run([sys.executable, tool, "--root", root], check=True)
    return root


def module(tree: Path, name: str) -> ModuleType:
    """A generated module, as part of the package."""
    path = tree / "python" / "openxrt" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"openxrt.{name}_with_a_new_option", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_python_has_it(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = module(tree, "_load")
    parameter = inspect.signature(made.load).parameters["warp_factor"]
    assert (parameter.default, parameter.annotation) == (1, "int")
    assert parameter.kind == inspect.Parameter.KEYWORD_ONLY
    assert "warp_factor: Multiple of the speed of light. Nothing uses it." in made.load.__doc__
    assert "warp_factor" in made.LoadOptions.__annotations__
    passed = []
    monkeypatch.setattr(made, "_load", lambda _model, options: passed.append(options))
    made.load(b"", warp_factor=5)
    assert passed[0]["warp_factor"] == 5
    (row,) = (row for row in module(tree, "_option_table").TABLE if row.name == "warp_factor")
    assert row.flags == ("--warp", "--warp-factor")
    assert row.variables == ("XRT_WARP_FACTOR", "XRT_WARP")
    assert (row.kind, row.least, row.most, row.cached) == ("integer", 1, 9, True)


def test_modules_have_it(tree: Path) -> None:
    made = module(tree, "_module_options")

    class Module(made.ModuleOptions):
        def _set_up(self, module: object, options: dict, *further: object) -> None:
            self.options = options

    parameter = inspect.signature(Module).parameters["warp_factor"]
    assert (parameter.default, parameter.annotation) == (None, "int | None")
    assert parameter.kind == inspect.Parameter.KEYWORD_ONLY
    described = made.ModuleOptions.__init__.__doc__
    assert "warp_factor: Multiple of the speed of light. Nothing uses it. Default: 1." in described
    assert Module(None, warp_factor=5).options["warp_factor"] == 5


def test_the_page_has_it(tree: Path) -> None:
    page = (tree / "docs/reference/options.md").read_text(encoding="utf-8")
    assert (
        "| `warp_factor`, `warp` | integer, 1 to 9 | `1` | Multiple of the speed of light. Nothing "
        "uses it. | `--warp`, `--warp-factor` | `XRT_WARP_FACTOR`, `XRT_WARP` |"
    ) in page
    assert re.search(r"kept in a cache depends on .*`warp_factor`", page)


def test_stale_files_are_found(tree: Path, tmp_path: Path) -> None:
    copy = tmp_path / "stale"
    shutil.copytree(tree, copy)
    subprocess.run(["git", "init", "-q", copy], check=True)
    check = [sys.executable, ROOT / "tools" / "make_options.py", "--check", "--root", copy]
    assert subprocess.run(check, check=False).returncode == 0
    table = copy / "include/xrt/options.inc"
    table.write_text(table.read_text().replace("Nothing uses it.", "Ships use it."))
    source = copy / "src" / "options" / "reads.cc"
    source.write_text('const char* depth() { return std::getenv("XRT_DEPTH"); }\n')
    found = subprocess.run(check, check=False, capture_output=True, text=True)
    assert found.returncode == 1
    for name in ("_load.py", "_module_options.py", "_option_table.py", "options.md"):
        assert re.search(rf"{name} is stale", found.stdout)
    assert "src/options/reads.cc:1: XRT_DEPTH is in no table" in found.stdout


@pytest.fixture(scope="module")
def program(tree: Path) -> Path:
    """The C++ sources that know options by name, compiled against the changed table."""
    (tree / "program.cc").write_text(PROGRAM, encoding="utf-8")
    compiler = [shutil.which("ccache"), "g++"] if shutil.which("ccache") else ["g++"]
    # The changed table comes first, and relative: a compiler cache knows it again.
    folders = ["include", ROOT / "include", ROOT / "src"]
    sources = ["options/options.cc", "cli/option_flags.cc"]
    sources += [f"base/{name}.cc" for name in ("error", "fork_mutex", "nearest", "precision")]
    for source in ("program.cc", *(ROOT / "src" / name for name in sources)):
        subprocess.run(
            [*compiler, "-std=c++20", "-c", *(f"-I{folder}" for folder in folders), source],
            cwd=tree,
            check=True,
            env={**os.environ, "CCACHE_NOHASHDIR": "1"},
        )
    subprocess.run(["g++", *tree.glob("*.o"), "-lfmt", "-o", tree / "program"], check=True)
    return tree / "program"


def test_cpp_has_it(program: Path) -> None:
    run = subprocess.run(
        [program, "--warp", "6"],
        capture_output=True,
        text=True,
        check=True,
        env={"XRT_WARP_FACTOR": "7"},
    )
    assert run.stdout.splitlines() == [
        "default 1",
        "field 3",
        "key 1",
        "other name 4",
        "option 'warp_factor' is '10'; a whole number from 1 to 9 is wanted",
        "there is no option 'warp_facto'; did you mean 'warp_factor'?",
        "option 'warp_factor' is '0'; a whole number from 1 to 9 is wanted",
        "environment 7",
        "flag 6",
    ]


def test_the_command_has_it(program: Path) -> None:
    described = subprocess.run([program, "--help"], capture_output=True, text=True, check=True)
    assert re.search(
        r"--warp,--warp-factor FACTOR=1\s+Multiple of the speed of light "
        r"\(XRT_WARP_FACTOR, XRT_WARP\)",
        described.stdout,
    )
    refused = subprocess.run(
        [program, "--option", "warp_factor=10"], capture_output=True, text=True, check=False
    )
    assert refused.returncode != 0
    assert (
        "--option: option 'warp_factor' is '10'; a whole number from 1 to 9 is wanted"
        in refused.stderr
    )
