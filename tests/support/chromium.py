# SPDX-License-Identifier: Apache-2.0
"""A page in headless Chromium, driven over its DevTools protocol."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import websocket


def find() -> str | None:
    """The browser's command."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


class Page:
    """A tab.

    Args:
        url: of the tab's DevTools.
    """

    def __init__(self, url: str) -> None:
        self._socket = websocket.create_connection(url, timeout=60, suppress_origin=True)
        self._number = 0

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a method of the protocol."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": parameters}
        self._socket.send(json.dumps(asked))
        while (told := json.loads(self._socket.recv())).get("id") != self._number:
            pass  # an event
        if "error" in told:
            raise AssertionError(f"{method}: {told['error']}")
        return told["result"]

    def evaluate(self, expression: str) -> Any:
        """The value of an expression of JavaScript."""
        told = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in told:
            raise AssertionError(f"{expression}: {told['exceptionDetails']}")
        return told["result"].get("value")

    def until(self, expression: str, seconds: float = 60) -> Any:
        """The value of an expression, once it is true."""
        end = time.monotonic() + seconds
        while not (value := self.evaluate(expression)):
            assert time.monotonic() < end, f"{expression} stays {value!r}"
            time.sleep(0.1)
        return value

    def choose_file(self, selector: str, file: Path) -> None:
        """Puts a file into an input of the page."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(file)])

    def screenshot(self, file: Path) -> None:
        """Of what is in view."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))


@contextlib.contextmanager
def browse(url: str, folder: Path) -> Iterator[Page]:
    """The page of a URL, loaded.

    Args:
        url: of the page.
        folder: for the browser's own files.
    """
    browser = find()
    assert browser is not None
    # Without a sandbox: it cannot be had as root, and the page is ours.
    process = subprocess.Popen(
        [
            *(browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *("--remote-debugging-port=0", "--window-size=1100,520"),
            *(f"--user-data-dir={folder}", "about:blank"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(r"ws://([^/]+)/", line):
                break
        else:
            raise AssertionError("the browser ended")
        control = Page(found.string[found.start() :].strip())
        target = control.call("Target.createTarget", url=url)["targetId"]
        page = Page(f"ws://{found[1]}/devtools/page/{target}")
        page.until("document.readyState == 'complete' && location.href != 'about:blank'")
        yield page
    finally:
        process.kill()
        process.communicate()
