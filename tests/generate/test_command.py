# SPDX-License-Identifier: Apache-2.0
"""xrt generate, as a user types it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import openxrt.generate
import pytest
from gguf_files import tiny_llama, write_gguf

pytest.importorskip("tokenizers")


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "openxrt", "generate", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", *tiny_llama("Q4_0"))


def test_text_and_report(path: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    words = ("--prompt", "the hat", "--max-tokens", "9", "--greedy")
    done = run(path, *words, "--json", report)
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text())
    wanted = openxrt.generate.load(path).generate("the hat", max_tokens=9, greedy=True)
    assert (found["text"], found["tokens"]) == (wanted.text, wanted.tokens)
    assert done.stdout == wanted.text + "\n"
    assert found["first_token_s"] > 0
    assert found["tokens_per_s"] >= 0
    assert json.loads(run(path, *words, "--json", "-").stdout)["tokens"] == wanted.tokens


def test_drawn_with_a_seed(path: Path) -> None:
    words = (path, "--chat", "--prompt", "Hi", "--max-tokens", "20", "--seed", "3")
    first = run(*words)
    assert first.returncode == 0, first.stderr
    assert first.stdout == run(*words).stdout


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("no.gguf", "--prompt", "a"), 1, "no such file"),
        (("MODEL", "--prompt", "a", "--max-tokens", "0"), 2, "max_tokens"),
        (("MODEL", "--prompt", "a", "--top-p", "7"), 2, "top_p"),
        (("MODEL",), 2, "--prompt"),
        (("MODEL", "--prompt", "a", "-e", "none"), 1, "none"),
    ],
)
def test_mistakes(path: Path, words: tuple[str, ...], code: int, message: str) -> None:
    done = run(*(path if word == "MODEL" else word for word in words))
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
