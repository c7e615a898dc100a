# SPDX-License-Identifier: Apache-2.0
"""LitServe over a folder of language models, asked by OpenAI's own client."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openxrt.generate
import pytest
from gguf_files import tiny_llama, write_gguf
from serving import free_ports

pytest.importorskip("litserve")
openai = pytest.importorskip("openai")

MESSAGES = [{"role": "user", "content": "Hi"}]


def command(folder: Path, port: int, *more: str) -> list[str]:
    words = f"{sys.executable} -m openxrt.serve {folder} --server litserve --port {port}"
    return [*words.split(), *more]


class ChatProcess:
    """`xrt serve --server litserve` over a folder, ready."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.port = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = subprocess.Popen(
            command(folder, self.port, *arguments),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"{self.url}/health") as answer:
                    if answer.status == 200:
                        break
            except OSError:
                assert self.process.poll() is None, "the server ended"
            time.sleep(0.1)
        else:
            raise AssertionError("the server is not ready")
        self.client = openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0)

    def ask(self, model: str = "tiny", **more: Any) -> Any:
        options = {"messages": MESSAGES, "temperature": 0, "max_tokens": 12, **more}
        return self.client.chat.completions.create(model=model, **options)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_gguf(folder / "tiny.gguf", *tiny_llama("Q8_0"))
    (folder / "few").mkdir()
    return folder


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[ChatProcess]:
    (folder / "broken.gguf").write_bytes(b"GGUF" + bytes(20))
    running = ChatProcess(folder)
    yield running
    assert running.end() == 0


@pytest.fixture(scope="module")
def local(folder: Path) -> openxrt.generate.LanguageModel:
    return openxrt.generate.load(folder / "tiny.gguf")


def text_of(model: openxrt.generate.LanguageModel, content: str, count: int = 12) -> str:
    prompt = model.chat_prompt([{"role": "user", "content": content}])
    return model.generate(prompt, max_tokens=count, greedy=True).text


def test_answers_as_the_model_does(
    served: ChatProcess, local: openxrt.generate.LanguageModel
) -> None:
    answer = served.ask()
    assert answer.choices[0].message.content == text_of(local, "Hi")
    prompt = local.tokenizer.encode(local.chat_prompt(MESSAGES))
    assert answer.usage.prompt_tokens == len(prompt)
    assert answer.usage.completion_tokens == 12
    assert answer.usage.total_tokens == len(prompt) + 12
    parts = [{"type": "text", "text": "H"}, {"type": "text", "text": "i"}]
    answer = served.ask(messages=[{"role": "user", "content": parts}])
    assert answer.choices[0].message.content == text_of(local, "Hi")


def test_streams(served: ChatProcess, local: openxrt.generate.LanguageModel) -> None:
    pieces = [chunk.choices[0].delta.content or "" for chunk in served.ask(stream=True)]
    assert "".join(pieces) == text_of(local, "Hi")
    assert sum(1 for piece in pieces if piece) > 3


def test_stops(served: ChatProcess, local: openxrt.generate.LanguageModel) -> None:
    whole = text_of(local, "Hi", 40)
    stop = whole[7:10]
    answer = served.ask(max_tokens=40, stop=[stop])
    assert answer.choices[0].message.content == whole[: whole.index(stop)]


def test_conversations_at_once(served: ChatProcess, local: openxrt.generate.LanguageModel) -> None:
    contents = [f"{n} in the hat" for n in range(8)]
    wanted = [text_of(local, content) for content in contents]

    def ask(content: str) -> str:
        return (
            served.ask(messages=[{"role": "user", "content": content}]).choices[0].message.content
        )

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, contents)) == wanted


def test_models_are_listed(served: ChatProcess) -> None:
    assert sorted(model.id for model in served.client.models.list()) == ["broken", "tiny"]


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        ({"model": "none"}, 404, "there is no model 'none'; there are broken, tiny"),
        ({"model": "../tiny"}, 404, "there is no model"),
        ({"model": "broken"}, 503, r"broken\.gguf"),
        ({"model": "few"}, 404, "there is no model"),
        ({"messages": [{"role": "user", "content": "word " * 400}]}, 400, "256 positions"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"temperature": -1}, 400, "temperature"),
        ({"top_p": 7, "temperature": 1}, 400, "top_p"),
        ({"stop": [""]}, 400, "stop"),
        ({"presence_penalty": 1}, 400, "presence_penalty is not supported"),
        ({"response_format": {"type": "json_object"}}, 400, "response_format"),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "image_url", "image_url": {"url": "http://x/y.png"}}],
                    }
                ]
            },
            400,
            "'image_url'; there is text",
        ),
    ],
)
def test_what_does_not_fit(
    served: ChatProcess, options: dict[str, Any], status: int, message: str
) -> None:
    with pytest.raises(openai.APIStatusError, match=message) as error:
        served.ask(**options)
    assert error.value.status_code == status
    assert served.ask().usage.completion_tokens == 12  # the server goes on


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"messages": 1}', b"\xff" * 100])
def test_bodies_that_are_none(served: ChatProcess, body: bytes) -> None:
    request = urllib.request.Request(
        f"{served.url}/v1/chat/completions", body, {"Content-Type": "application/json"}
    )
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request)
    assert error.value.code == 400
    assert json.load(error.value)["error"]["type"] == "invalid_request_error"


def test_limits(tmp_path: Path) -> None:
    write_gguf(tmp_path / "quick.gguf", *tiny_llama("Q8_0"))
    for name, settings in {
        "tiny": {"options": {"engine": "banana"}},
        "late": {"timeout_ms": 1},
        "one": {"max_queue_size": 1},
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "xrt.json").write_text(json.dumps(settings))
        write_gguf(tmp_path / name / "model.gguf", *tiny_llama("Q8_0"))
    running = ChatProcess(tmp_path, "--max-request-bytes", "2000")
    try:
        with pytest.raises(openai.APIStatusError, match="banana"):
            running.ask()
        assert running.ask("quick").choices
        with pytest.raises(openai.APIStatusError, match="longer than 1 ms") as error:
            running.ask("late", max_tokens=200)
        assert error.value.status_code == 503
        under_way = iter(running.ask("one", stream=True, max_tokens=230))
        next(under_way)
        with pytest.raises(openai.APIStatusError, match="1 conversations already") as error:
            running.ask("one")
        assert error.value.status_code == 429
        assert len(list(under_way)) > 10
        assert running.ask("one").choices
        with pytest.raises(openai.APIStatusError) as error:
            running.ask("quick", messages=[{"role": "user", "content": "x" * 3000}])
        assert error.value.status_code == 413
    finally:
        assert running.end() == 0


@pytest.mark.parametrize("what", ["no folder", "no model", "exit on error"])
def test_ends_at_once(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "none" if what == "no folder" else tmp_path
    arguments = []
    if what == "exit on error":
        (tmp_path / "broken.gguf").write_bytes(b"GGUF")
        arguments = ["--exit-on-error"]
    ended = subprocess.run(
        command(folder, free_ports(1), *arguments),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 1
    assert "xrt serve: " in ended.stderr
