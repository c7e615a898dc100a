# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own op tests, a light part: few samples of common ops. The whole is
``./dev conformance torch native --check``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest")
DRIVER = Path(__file__).with_name("torch_ops.py")
OPS = [
    "add",
    "addmm",
    "amax",
    "bmm",
    "cat",
    "clamp",
    "cumsum",
    "div.no_rounding_mode",
    "exp",
    "gather",
    "index_select",
    "log_softmax",
    "mean",
    "mul",
    "nn.functional.batch_norm",
    "nn.functional.conv2d",
    "nn.functional.cross_entropy",
    "nn.functional.embedding",
    "nn.functional.gelu",
    "nn.functional.layer_norm",
    "nn.functional.linear",
    "nn.functional.max_pool2d",
    "nn.functional.scaled_dot_product_attention",
    "permute",
    "pow",
    "select",
    "sigmoid",
    "softmax",
    "split",
    "sqrt",
    "sub",
    "sum",
    "tanh",
    "topk",
    "where",
]


def test_common_ops_pass_forward_and_gradient(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    pattern = "^(" + "|".join(OPS) + ")$"
    ran = subprocess.run(
        [sys.executable, DRIVER, "native", "-k", pattern, "--samples", "2", "--json", results],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    ops = json.loads(results.read_text(encoding="utf-8"))["ops"]
    assert len(ops) == len(OPS)
    wrong = {
        name: answer["reasons"]
        for name, answer in ops.items()
        for way in ("forward", "gradient")
        if answer[way].keys() - {"pass"}
    }
    assert not wrong
    assert sum(answer["gradient"].get("pass", 0) for answer in ops.values()) > len(OPS)


def test_a_wrong_result_is_seen(tmp_path: Path) -> None:
    """A lowering that computes something else fails its op, forward and gradient."""
    (tmp_path / "sitecustomize.py").write_text(
        "import openxrt.torch as xt\n"
        "@xt.lowering('aten.sin.default', override=True)\n"
        "def sin(b, x):\n"
        "    return b.op('Cos', x)\n",
        encoding="utf-8",
    )
    results = tmp_path / "results.json"
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        [
            sys.executable,
            DRIVER,
            "native",
            "-k",
            "^(sin|cos|tan)$",
            "--json",
            results,
            "--samples",
            "2",
        ],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        check=True,
    )
    ops = json.loads(results.read_text(encoding="utf-8"))["ops"]
    assert "pass" not in ops["sin"]["forward"] and ops["sin"]["forward"]["fail"]
    assert ops["cos"]["forward"].keys() == ops["tan"]["forward"].keys() == {"pass"}
    assert ops["cos"]["gradient"].keys() == {"fail"}
