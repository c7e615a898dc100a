# SPDX-License-Identifier: Apache-2.0
"""tools/lint.py calls a file clean only where clang-tidy has seen it."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def lint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Callable[[str], ModuleType]
) -> ModuleType:
    """The program over a tree of two files, one of them compiled; clang-tidy likes all."""
    module = tool("lint")
    for name in ("src/a.cc", "src/b.cc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("int x;\n")
    (tmp_path / ".clang-tidy").touch()
    build = tmp_path / "build" / "debug"
    build.mkdir(parents=True)
    entry = {"directory": str(build), "file": str(tmp_path / "src/a.cc"), "command": "c++ a.cc"}
    (build / "compile_commands.json").write_text(json.dumps([entry]))
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "tidy_one", lambda name: (name, 0, ""))
    return module


def test_a_file_that_was_seen_is_clean(lint: ModuleType) -> None:
    assert lint.check_tidy(["src/a.cc"], 1, True, 60)


def test_a_file_that_is_not_compiled_is_not_clean(
    lint: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not lint.check_tidy(["src/a.cc", "src/b.cc"], 1, True, 60)
    assert "src/b.cc:1: clang-tidy did not reach it" in capsys.readouterr().out


def test_a_file_that_was_not_reached_in_time_is_not_clean(
    lint: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not lint.check_tidy(["src/a.cc"], 1, True, 1e-9)
    told = capsys.readouterr().out
    assert "1 of 1 changed files not reached in 0 s: src/a.cc" in told
    assert "--tidy-seconds" in told
    # What was found clean once needs no time.
    assert lint.check_tidy(["src/a.cc"], 1, True, 0)
    assert lint.check_tidy(["src/a.cc"], 1, True, 1e-9)


def test_what_another_build_compiles_is_not_missed(lint: ModuleType) -> None:
    built = {"src/a.cc", "src/engines/swift/engine.cc"}
    names = [
        "src/a.cc",
        "src/b.cc",
        "examples/a.cc",
        "tests/fuzz/a.cc",
        "src/engines/swift/new.cc",
        "src/engines/absent/engine.cc",
        "tests/engines/absent/engine_test.cc",
    ]
    assert lint.unbuilt(names, built) == ["src/b.cc", "src/engines/swift/new.cc"]


def test_clang_is_not_shown_precompiled_headers_of_gcc(lint: ModuleType) -> None:
    build = lint.ROOT / "build" / "debug"
    command = "c++ -O2 -Winvalid-pch -include /b/x.dir/cmake_pch.hxx -fpch-preprocess -c a.cc"
    entry = {"directory": str(build), "file": str(lint.ROOT / "src/a.cc"), "command": command}
    (build / "compile_commands.json").write_text(json.dumps([entry]))
    assert lint.tidy_commands(build)["src/a.cc"]["command"] == "c++ -O2 -c a.cc"
