# SPDX-License-Identifier: Apache-2.0
"""`xrt eval`, and its answers to mistakes and interruptions."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import openxrt
import openxrt.quantize
import pytest
from labelled_sets import RNG, save, scores_model, top, xrt
from onnx import helper, numpy_helper
from openxrt import _command


def test_the_command(tmp_path: Path, scores: tuple[Path, np.ndarray, np.ndarray]) -> None:
    file, values, labels = scores
    model = scores_model(tmp_path / "m.onnx")
    report = tmp_path / "report.json"
    done = xrt("eval", model, "--data", file, "--top", "1,5", "--batch", 8, "-e", "native",
               "--json", report, "--confusion", 3, "--compare", "f32")  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text())
    assert found["top_1"] == pytest.approx(top(values, labels, 1))
    assert found["top_k"] == pytest.approx(top(values, labels, 5))
    assert found["samples"] == 23
    assert found["samples_per_s"] > 0
    assert 0 < found["busy"] < 1
    assert found["compare"]["agreement"] == 1
    assert sum(pair["count"] for pair in found["confusion"]) == 23
    assert (found["devices"], found["streams"]) == (["cpu"], 1)
    # The settings come before the model is loaded, in the words of OneFlow-Benchmark's script.
    settings = dict(re.findall(r"^(\w+) = (.*)$", done.stdout, re.MULTILINE))
    assert settings["dtype"] == "f32"
    assert settings["use_int8"] == "False"
    assert settings["batch_size_per_device"] == "8"
    assert settings["num_val_examples"] == "23 of 23"
    assert settings["val_data_dir"] == str(file)
    assert settings["val_data_part_num"] == "1"
    places = [
        done.stdout.index(line)
        for line in (
            "Running m.onnx: 1 device, 1 stream on each, engines native.",
            "rgb_mean = [0, 0, 0]",
            "Time stamp: 2",
            f"Restoring model from {model}.",
            f"Loading data from {file}.",
            "input = 'x' float32[N,7]",
            "validation: epoch 0, iter 0",
        )
    ]
    assert places == sorted(places)
    lines = re.findall(r"validation: epoch 0, iter (\d), top_1: ([\d.]+), top_k: ", done.stdout)
    assert [line[0] for line in lines] == ["0", "1", "2"]
    assert float(lines[-1][1]) == pytest.approx(found["top_1"], abs=1e-6)


def test_mistakes_on_the_command_line(tmp_path: Path, scores: tuple) -> None:
    model = scores_model(tmp_path / "m.onnx")
    common = ("eval", model, "--data", scores[0], "-e", "native")
    for arguments, code, message in (
        (("--json", tmp_path / "gone" / "a.json"), 2, "there is no folder"),
        (("--batch", "many"), 2, "a number from 1 on, or max"),
        (("--top", "1,9"), 2, "top 9 of 7 classes"),
        (("--scores", "z"), 2, "no output 'z'; it has 'y'"),
        (("--json", "/dev/full"), 1, "No space left"),
        (("--devices", "cpu,cpu"), 2, "'cpu' is there twice"),
        (("--devices", "cpu", "--device", "cuda:0"), 2, "one of them"),
        (("--devices", "cpu,cuda:0"), 1, "does not drive the device 'cuda:0'"),
    ):
        done = xrt(*common, *arguments)
        assert done.returncode == code, done.stderr
        assert message in done.stderr
    assert not list(tmp_path.glob("*.json*"))


@pytest.mark.parametrize("after", ["Loading data", "validation: epoch 0, iter 1"])
def test_ctrl_c_leaves_nothing(tmp_path: Path, after: str) -> None:
    """Neither the report nor the model in int8, which lies in a temporary folder."""
    weights = RNG.standard_normal((1024, 1024)).astype(np.float32)
    model = save(
        tmp_path / "m.onnx",
        [
            helper.make_node("MatMul", [a, "w"], [b])
            for a, b in zip("xabcdefg", "abcdefgy", strict=True)
        ],
        ["N", 1024],
        ["N", 1024],
        [numpy_helper.from_array(weights / 32, "w")],
    )
    np.savez(tmp_path / "set.npz", x=np.ones((20_000, 1024), np.float32), y=np.zeros(20_000, int))
    temporary, report = tmp_path / "temporary", tmp_path / "report.json"
    temporary.mkdir()
    program = next(path for path in _command.programs() if path.is_file())
    # A sample at a time, so that every CPU has seconds to go when the signal comes.
    process = subprocess.Popen(
        [program, "eval", model, "--data", tmp_path / "set.npz", "--batch", "1", "-e", "native",
         "--int8", "--json", report],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )  # fmt: skip
    for line in process.stdout:
        if line.startswith(after):
            break
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert re.search(r"interrupted after \d+ samples: .*report.json is not written", said)
    assert not report.exists()
    assert not list(temporary.iterdir())


def test_a_table_of_another_model(tmp_path: Path, scores: tuple) -> None:
    def product(seed: int) -> Path:
        weights = np.random.default_rng(seed).standard_normal((7, 7)).astype(np.float32)
        return save(
            tmp_path / f"m{seed}.onnx",
            [helper.make_node("MatMul", ["x", "w"], ["y"])],
            ["N", 7],
            ["N", 7],
            [numpy_helper.from_array(weights, "w")],
        )

    table = tmp_path / "t.table"
    openxrt.quantize.calibrate(product(0), [{"x": scores[1][:1]}]).save(table)
    found = openxrt.evaluate(product(0), scores[0], int8=True, table=table, engine="native")
    assert found.samples == 23
    with pytest.raises(openxrt.InvalidArgument, match=r"m0\.onnx"):
        openxrt.evaluate(product(1), scores[0], int8=True, table=table, engine="native")
    done = xrt("eval", product(1), "--data", scores[0], "-e", "native", "--int8", "--table", table)
    assert done.returncode == 2
    assert "m0.onnx" in done.stderr
