# SPDX-License-Identifier: Apache-2.0
"""examples/serve: a page in a browser, the text of a picture read by Triton and by KServe's server.

XRT_SCREENSHOT names a file for what the browser shows.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from serving import free_ports

chromium = pytest.importorskip("chromium")
pytest.importorskip("tritonclient.grpc")

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "serve"
PICTURE = ROOT / "examples" / "ocr" / "page.png"
LINES = ["Region-based segmentation", "histogram of grey values"]


@pytest.fixture(scope="module", params=["triton", "kserve"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the page, in front of a server."""
    if find_spec({"triton": "pytriton"}.get(request.param, request.param)) is None:
        pytest.skip(f"{request.param} is not installed")
    # The networks are in a package of the environment of the other tests.
    python = ROOT / ".venv" / "bin" / "python"
    models = tmp_path_factory.mktemp(request.param) / "models"
    made = subprocess.run(
        [python, EXAMPLE / "make_models.py", models, "--engine", "native"],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode == 1 and "rapidocr" in made.stderr:
        pytest.skip("rapidocr is not installed")
    assert made.returncode == 0, made.stderr
    port = free_ports(4)
    server = subprocess.Popen(
        f"{sys.executable} -m openxrt.serve {models} --server {request.param} --port {port} "
        "--drain 2 --exit-on-error".split(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    app = None
    try:
        wait_until_ready(server, port)
        command = [sys.executable, EXAMPLE / "web.py", models, "--port", str(port + 3)]
        command += ["--server", f"127.0.0.1:{port + 1}"]
        app = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert app.stdout is not None
        yield app.stdout.readline().strip()
    finally:
        if app is not None:
            app.kill()
            app.wait()
        server.send_signal(signal.SIGTERM)
        server.wait(60)


def wait_until_ready(server: subprocess.Popen[bytes], port: int) -> None:
    for _ in range(600):
        assert server.poll() is None, "the server ended"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/models/read/ready"):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the server is not ready")


def test_the_text_of_a_picture_is_shown(page: str, tmp_path: Path) -> None:
    if chromium.find() is None:
        pytest.skip("Chromium is not installed")
    with chromium.browse(page, tmp_path) as tab:
        tab.choose_file("#file", PICTURE)
        tab.until("document.getElementById('status').dataset.state == 'done'")
        if "XRT_SCREENSHOT" in os.environ:
            tab.screenshot(Path(os.environ["XRT_SCREENSHOT"]))
        texts = tab.evaluate("[...document.querySelectorAll('#lines li')].map(i => i.textContent)")
        for line in LINES:
            assert any(line in text for text in texts), texts
        # A box of each line, within the picture.
        boxes = tab.evaluate(
            "[...document.querySelectorAll('#boxes polygon')].map(b => b.getAttribute('points'))"
        )
        assert len(boxes) == len(texts) == 7
        for box in boxes:
            corners = [[float(n) for n in corner.split(",")] for corner in box.split()]
            assert len(corners) == 4
            assert all(-10 < x < 394 and -10 < y < 201 for x, y in corners)
        shown = tab.evaluate("document.getElementById('picture').getBoundingClientRect().width")
        assert shown > 300
        # What is no picture is told, and the page goes on.
        (tmp_path / "no.png").write_text("no picture")
        tab.choose_file("#file", tmp_path / "no.png")
        tab.until("document.getElementById('status').dataset.state == 'error'")
        told = tab.evaluate("document.getElementById('status').textContent")
        assert "no picture" in told
        tab.choose_file("#file", PICTURE)
        tab.until("document.getElementById('status').dataset.state == 'done'")


def post(url: str, body: bytes, **headers: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_the_page_refuses_what_is_no_picture(page: str) -> None:
    status, text = post(f"{page}/read", PICTURE.read_bytes())
    assert status == 200
    assert re.search(LINES[0], " ".join(line["text"] for line in json.loads(text)["lines"]))
    assert post(f"{page}/read", b"GIF89a")[0] == 400
    assert post(f"{page}/read", PICTURE.read_bytes()[:3000])[0] == 400
    assert post(f"{page}/other", b"")[0] == 404
    assert post(f"{page}/read", bytes(100), **{"Content-Length": str(11 << 20)})[0] == 413
