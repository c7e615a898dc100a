# SPDX-License-Identifier: Apache-2.0
"""Folders that OneFlow 0.9.0 saved, read without OneFlow: its own outputs are the judge."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import openxrt
import pytest
from openxrt import _core

DATA = Path(__file__).resolve().parent.parent / "frontends" / "oneflow" / "data"
FOLDERS = sorted(folder.name for folder in DATA.iterdir() if folder.is_dir())
JOBS = sorted(file.name.removesuffix(".mlir.gz") for file in DATA.glob("*.mlir.gz"))
TOLERANCE = 1e-3  # of an output's range


def cases(name: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The inputs, and what OneFlow made of them."""
    with np.load(DATA / name / "cases.npz") as arrays:
        count = sum(key.startswith("input_") for key in arrays)
        inputs = [arrays[f"input_{i}"] for i in range(count)]
        return inputs, [arrays[f"output_{i}"] for i in range(len(arrays.files) - count)]


def error(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference over the range of what is wanted."""
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    if wanted.dtype.kind in "biu":
        return float(np.mean(found != wanted))
    spread = float(wanted.max() - wanted.min()) or max(abs(float(wanted.max())), 1.0)
    return float(np.abs(found.astype(np.float64) - wanted).max()) / spread


@pytest.mark.parametrize("engine", ["native", "openvino", "xla"])
@pytest.mark.parametrize("name", FOLDERS)
def test_outputs_are_those_of_oneflow(name: str, engine: str) -> None:
    inputs, wanted = cases(name)
    program = openxrt.load(DATA / name, engine=engine)
    assert [port.name for port in program.inputs] == [f"input_{i}" for i in range(len(inputs))]
    found = program(*inputs)
    found = found if isinstance(found, tuple) else (found,)
    assert len(found) == len(wanted)
    assert max(error(a, b) for a, b in zip(found, wanted, strict=True)) <= TOLERANCE


def load_job(name: str) -> dict[str, Any]:
    return _core.import_oneflow_job(
        gzip.decompress((DATA / f"{name}.mlir.gz").read_bytes()).decode()
    )


@pytest.mark.parametrize("engine", ["native", "xla"])
@pytest.mark.parametrize("name", JOBS)
def test_jobs_train_as_oneflow_does(name: str, engine: str) -> None:
    job = load_job(name)
    program = openxrt.load(job["graph"], engine=engine, aliases=job["aliases"])
    with np.load(DATA / f"{name}.npz") as arrays:
        feeds = {key: arrays[key] for key in job["inputs"]}
        for key in job["schedules"]:
            feeds[key] = arrays["learning_rate"]
        for port in program.inputs:
            if port.name in job["variables"]:
                before = f"before/{port.name}"
                start = np.zeros([int(n) for n in port.shape or ()], port.dtype)
                feeds[port.name] = arrays[before].copy() if before in arrays else start
        losses = [program.run(feeds)["output_0"] for _ in arrays["losses"]]
        assert error(np.array(losses), arrays["losses"]) <= TOLERANCE
        for key in (key for key in arrays if key.startswith("after/")):
            variable = key.removeprefix("after/")
            if variable in feeds:
                assert error(feeds[variable], arrays[key]) <= TOLERANCE, variable


def test_the_committed_folders_are_small() -> None:
    size = sum(file.stat().st_size for file in DATA.rglob("*") if file.is_file())
    assert size <= 2 * 1024 * 1024


def test_the_mlir_file_itself_is_a_model() -> None:
    inputs, wanted = cases("cnn")
    program = openxrt.load(DATA / "cnn" / "model.mlir", engine="native")
    assert error(program(*inputs), wanted[0]) <= TOLERANCE


def test_the_program_is_kept_and_changed_variables_are_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "cnn"
    shutil.copytree(DATA / "cnn", folder)
    inputs, wanted = cases("cnn")
    for _ in range(2):
        program = openxrt.load(folder, engine="native", cache_dir=tmp_path / "cache")
        assert error(program(*inputs), wanted[0]) <= TOLERANCE
        del program
    bias = np.fromfile(folder / "net.8.bias" / "out", np.float32)
    bias[0] += 100.0
    bias.tofile(folder / "net.8.bias" / "out")
    changed = openxrt.load(folder, engine="native", cache_dir=tmp_path / "cache")(*inputs)
    assert np.argmax(changed, axis=1).tolist() == [0, 0]


def break_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "cnn"
    shutil.copytree(DATA / "cnn", folder)
    return folder


def test_missing_and_short_variables(tmp_path: Path) -> None:
    folder = break_folder(tmp_path)
    weight = folder / "net.0.weight"
    (weight / "out").write_bytes((weight / "out").read_bytes()[:-4])
    with pytest.raises(openxrt.InvalidModel, match=r"net\.0\.weight.*860 bytes.*needs 864"):
        openxrt.load(folder)
    (weight / "out").unlink()
    with pytest.raises(openxrt.NotFound, match=r"net\.0\.weight.*out"):
        openxrt.load(folder)
    shutil.rmtree(weight)
    with pytest.raises(openxrt.NotFound, match=r"net\.0\.weight.*meta"):
        openxrt.load(folder)


def test_variables_outside_of_the_folder(tmp_path: Path) -> None:
    folder = break_folder(tmp_path)
    outside = tmp_path / "outside"
    shutil.move(folder / "net.0.weight", outside)
    (folder / "net.0.weight").symlink_to(outside)
    with pytest.raises(openxrt.InvalidModel, match="link out of the model's folder"):
        openxrt.load(folder)
    text = (folder / "model.mlir").read_text()
    (folder / "model.mlir").write_text(text.replace('"net.0.weight"', '"../outside"'))
    with pytest.raises(openxrt.InvalidModel, match="leaves the model's folder"):
        openxrt.load(folder)


def test_variable_of_another_type(tmp_path: Path) -> None:
    folder = break_folder(tmp_path)
    meta = folder / "net.0.weight" / "meta"
    meta.write_text(meta.read_text().replace("kFloat", "kDouble"))
    with pytest.raises(openxrt.InvalidModel, match=r"float64\[8,3,3,3\].*float32\[8,3,3,3\]"):
        openxrt.load(folder)
    meta.write_text("shape { dim: eight }")
    with pytest.raises(openxrt.InvalidModel, match=r"net\.0\.weight/meta: line 1, column 14"):
        openxrt.load(folder)


def test_an_op_without_a_counterpart_is_named(tmp_path: Path) -> None:
    folder = break_folder(tmp_path)
    text = (folder / "model.mlir").read_text()
    (folder / "model.mlir").write_text(text.replace('"oneflow.relu"', '"oneflow.warp"'))
    with pytest.raises(openxrt.Unsupported, match=r"warp \(1 of them.*net\.2-relu.*line \d+"):
        openxrt.load(folder)


def test_a_folder_that_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(openxrt.NotFound, match=r"model\.mlir.*oneflow\.save"):
        openxrt.load(tmp_path)
