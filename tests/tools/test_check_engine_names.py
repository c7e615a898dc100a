# SPDX-License-Identifier: Apache-2.0
"""tools/check_engine_names.py finds names of engines where none may be, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "check_engine_names.py"


def check(tree: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs the tool over a tree."""
    return subprocess.run(
        [sys.executable, str(TOOL), *options, str(tree)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with the engines native, swift and quicksort, and without exceptions."""
    for name in ("native", "swift", "common"):
        folder = tmp_path / "src" / "engines" / name
        folder.mkdir(parents=True)
        (folder / "CMakeLists.txt").touch()
    engines = tmp_path / "python" / "openxrt" / "engines"
    engines.mkdir(parents=True)
    (engines / "quicksort.py").touch()
    (engines / "_helper.py").touch()
    return tmp_path


def write(tree: Path, path: str, text: str) -> None:
    file = tree / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/plan/plan.cc", 'if (name == "swift") return;\n'),
        ("src/plan/plan.cc", 'log("use swift, or another");\n'),
        ("src/plan/plan.cc", 'auto list = "native,swift";\n'),
        ("src/plan/plan.cc", 'auto list = "native";\n'),
        ("src/plan/plan.cc", 'auto text = R"(two\nlines of swift)";\n'),
        ("src/plan/plan.cc", "int swift_rate = 3;\n"),
        ("src/plan/plan.cc", "class SwiftRate;\n"),
        ("src/plan/plan.cc", "class QuickSort;\n"),
        ("include/xrt/x.h", "bool is_swift();\n"),
        ("python/openxrt/x.py", 'x = "swift"\n'),
        ("python/openxrt/x.py", 'x = f"{y} on swift"\n'),
        ("python/openxrt/x.py", "def load_quicksort(): ...\n"),
        ("python/openxrt/x.py", 'x = ["quicksort"]\n'),
        ("cmake/x.cmake", "find_package(swift)\n"),
        ("CMakeLists.txt", "add_engine(swift)\n"),
        ("dev", "build xrt_engine_swift\n"),
        ("lite/compiler/x.cc", 'run("swift");\n'),
    ],
)
def test_a_name_is_found(tree: Path, path: str, text: str) -> None:
    write(tree, path, text)
    done = check(tree)
    assert done.returncode == 1
    assert f"{path}:1:" in done.stdout


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/plan/plan.cc", "// as swift does\n/* swift\n swift */ int x;\n"),
        ("src/plan/plan.cc", "int swiftness = 0, aswift = 0;\n"),
        ("src/plan/plan.cc", 'log("swiftly");\n'),
        ("src/plan/plan.cc", 'log("runs on the native engine");\n'),
        ("src/plan/plan.cc", "int native_handle = 0;\n"),
        ("src/plan/plan.cc", "char c = '\"'; // swift\n"),
        ("src/plan/plan.cc", 'log("common");\n'),
        ("src/engines/swift/engine.cc", 'name = "swift";\n'),
        ("src/registry/engine_names.h", 'constexpr const char* kFallback = "native";\n'),
        ("python/openxrt/engines/quicksort.py", 'NAME = "quicksort"\n'),
        (
            "python/openxrt/x.py",
            '"""Runs on swift."""\n\n\ndef f():\n    """Of swift."""  # swift\n',
        ),
        ("tests/x.py", 'x = "swift"\n'),
        ("docs/x.py", 'x = "swift"\n'),
        ("pyproject.toml", 'swift = ["swift==1"]\n'),
        ("cmake/x.cmake", "# swift\n"),
    ],
)
def test_what_is_no_name_is_left_alone(tree: Path, path: str, text: str) -> None:
    write(tree, path, text)
    done = check(tree)
    assert done.returncode == 0, done.stdout


def test_files_need_not_be_utf_8(tree: Path) -> None:
    (tree / "model.onnx").write_bytes(b"\xff\xfe swift")
    source = tree / "src" / "plan.cc"
    source.write_bytes(b"// na\xefve\n")
    assert check(tree).returncode == 0
    source.write_bytes(b'// na\xefve\nf("swift");\n')
    assert "src/plan.cc:2:" in check(tree).stdout


def test_an_exception_holds_for_its_number_of_names(tree: Path) -> None:
    write(tree, "tools/engine_names.txt", "# head\n2 src/plan/plan.cc two names\n")
    write(tree, "src/plan/plan.cc", 'f("swift", "swift");\n')
    assert check(tree).returncode == 0
    write(tree, "src/plan/plan.cc", 'f("swift", "swift", "swift");\n')
    done = check(tree)
    assert done.returncode == 1
    assert "3 names of engines, tools/engine_names.txt allows 2" in done.stdout


def test_write_lowers_the_numbers_and_keeps_the_reasons(tree: Path) -> None:
    exceptions = "# head\n5 src/a.cc its reason\n1 src/b.cc gone\n"
    write(tree, "tools/engine_names.txt", exceptions)
    write(tree, "src/a.cc", 'f("swift");\n')
    assert check(tree, "--write").returncode == 0
    kept = (tree / "tools/engine_names.txt").read_text(encoding="utf-8")
    assert kept == "# head\n1 src/a.cc its reason\n"


def test_write_adds_nothing(tree: Path) -> None:
    write(tree, "tools/engine_names.txt", "# head\n")
    write(tree, "src/a.cc", 'f("swift");\n')
    assert check(tree, "--write").returncode == 1
    assert "src/a.cc" not in (tree / "tools/engine_names.txt").read_text(encoding="utf-8")


def test_the_project_itself() -> None:
    done = check(ROOT)
    assert done.returncode == 0, done.stdout


def test_every_exception_has_a_reason_and_a_file() -> None:
    lines = (ROOT / "tools" / "engine_names.txt").read_text(encoding="utf-8").splitlines()
    for line in (line for line in lines if not line.startswith("#")):
        count, path, reason = line.split(maxsplit=2)
        assert int(count) > 0
        assert (ROOT / path).is_file(), path
        assert reason
