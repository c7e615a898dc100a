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

DATA = Path(__file__).resolve().parent / "data"
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


def test_oversized_variables(tmp_path: Path) -> None:
    folder = break_folder(tmp_path)
    with (folder / "net.0.weight" / "out").open("ab") as file:
        file.write(b"\0")
    with pytest.raises(openxrt.InvalidModel, match=r"net\.0\.weight.*865 bytes.*needs 864"):
        openxrt.load(folder)
    meta = folder / "net.0.weight" / "meta"
    meta.unlink()
    meta.mkdir()
    with pytest.raises(openxrt.InvalidModel, match=r"net\.0\.weight/meta' is not a file"):
        openxrt.load(folder)


@pytest.mark.parametrize(
    "name",
    ["../net.0.weight", "..", ".", "net.0.weight/../net.0.weight", "/etc/passwd", "a\\00b", ""],
)
def test_names_that_are_paths(name: str, tmp_path: Path) -> None:
    folder = break_folder(tmp_path)
    text = (folder / "model.mlir").read_text()
    (folder / "model.mlir").write_text(text.replace('"net.0.weight"', f'"{name}"'))
    with pytest.raises(
        openxrt.InvalidModel, match=r"leaves the model's folder|has no op_name|code 0"
    ):
        openxrt.load(folder)


def replaced(folder: Path, before: str, after: str) -> None:
    text = (folder / "model.mlir").read_text()
    assert before in text
    (folder / "model.mlir").write_text(text.replace(before, after))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        # A result that does not follow from the op, wherever it is used.
        ("tensor<2x8x16x16xf32>", "tensor<2x9x16x16xf32>", r"net\.0-conv2d.*\[2,[89],16,16\]"),
        ("tensor<2x8x16x16xf32>", "tensor<2x8x16x16xf64>", r"net\.0-conv2d.*float(32|64)"),
        ("-> tensor<2x5xf32> {", "-> tensor<2x6xf32> {", r"line \d+.*result 0 of the job is said"),
        (
            "dilation_rate = [1 : si32, 1 : si32]",
            "dilation_rate = [1 : si32]",
            r"'net\.0-conv2d-0'",
        ),
        (
            "groups = 1 : si32",
            "groups = 3000000000 : si64",
            r"'net\.0-conv2d-0'.*'groups'.*too large",
        ),
        ("strides = [1 : si32,", "strides = [0 : si32,", r"'net\.0-conv2d-0'.*not positive"),
        ("epsilon = ", "epsilon = -nan", r"line \d+, column \d+"),
        ('"oneflow.conv2d"(', '"oneflow.conv2d"(%missing, ', "'%missing' is used before"),
    ],
)
def test_contradictions_name_the_place(
    before: str, after: str, message: str, tmp_path: Path
) -> None:
    folder = break_folder(tmp_path)
    replaced(folder, before, after)
    with pytest.raises(openxrt.InvalidModel, match=message):
        openxrt.load(folder)


def test_every_beginning_of_the_text_is_refused(tmp_path: Path) -> None:
    folder = break_folder(tmp_path)
    text = (folder / "model.mlir").read_text().rstrip()
    for length in [0, 1, *range(7, len(text) - 2, 97)]:
        (folder / "model.mlir").write_text(text[:length])
        with pytest.raises(openxrt.InvalidModel, match=r"model\.mlir.*line \d+, column \d+"):
            openxrt.load(folder)


def test_numbers_that_are_none_go_through(tmp_path: Path) -> None:
    folder = break_folder(tmp_path)
    bias = np.fromfile(folder / "net.8.bias" / "out", np.float32)
    bias[1] = np.nan
    bias.tofile(folder / "net.8.bias" / "out")
    inputs, _ = cases("cnn")
    found = openxrt.load(folder, engine="native")(*inputs)
    assert np.isnan(found[:, 1]).all()


def job_of(op: str, attributes: str, operand: str, result: str) -> str:
    return f"""oneflow.job @J(%a: {operand}) -> {result} {{
        %y = "oneflow.{op}"(%a) {{op_name = "it", {attributes}}} : ({operand}) -> {result}
        oneflow.return %y : {result}
    }}"""


@pytest.mark.parametrize(
    ("op", "attributes", "operand", "result", "message"),
    [
        (
            "scalar_add",
            "has_int_operand = false, float_operand = 0x7FC00000 : f32",
            "tensor<2xsi64>",
            "tensor<2xsi64>",
            "'it'.*nan is outside of int64",
        ),
        (
            "scalar_add",
            "has_int_operand = true, int_operand = 3000000000 : si64",
            "tensor<2xsi32>",
            "tensor<2xsi32>",
            "'it'.*3000000000 is outside of int32",
        ),
        ("softmax", "a = 1", "tensor<f32>", "tensor<f32>", r"node 'it' \(Softmax\)"),
        ("cumsum", "dim = 0 : si64", "tensor<f32>", "tensor<f32>", "axis 0 is outside"),
        ("identity", "a = 1", "tensor<2xf32>", "tensor<3xf32>", r"said to be float32\[3\], but is"),
        (
            "narrow",
            "dim = 0 : si64, start = 9223372036854775807 : si64, length = 9 : si64",
            "tensor<2xf32>",
            "tensor<2xf32>",
            "'start' holds 9223372036854775807",
        ),
    ],
)
def test_numbers_and_shapes_out_of_reach(
    op: str, attributes: str, operand: str, result: str, message: str
) -> None:
    with pytest.raises(openxrt.InvalidModel, match=message):
        _core.import_oneflow_job(job_of(op, attributes, operand, result))


def test_integers_keep_all_their_digits() -> None:
    largest = 2**63 - 1
    attributes = f"has_int_operand = true, int_operand = {largest} : si64"
    job = _core.import_oneflow_job(
        job_of("scalar_add", attributes, "tensor<2xsi64>", "tensor<2xsi64>")
    )
    program = openxrt.load(job["graph"], engine="native")
    assert program(np.array([0, -1])).tolist() == [largest, largest - 1]


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
