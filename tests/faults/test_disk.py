# SPDX-License-Identifier: Apache-2.0
"""Files that users name, where they cannot be written: the error names file and cause, what was
there before stays whole, and nothing half written is left beside it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import openxrt
import openxrt.lite
import openxrt.quantize
import pytest
from faulty_process import without_rights_of_root, write_model
from openxrt import _command
from openxrt.comparison import Comparison
from openxrt.engines._tensorrt_library import write_record
from small_disk import FILLER, KINDS, place
from small_models import usable

X = np.ones((4, 64), np.float32)
SAMPLES = [{"x": X * k} for k in (0.5, 1, 1.5)]
OLD = b"what was there before"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a folder of samples beside it."""
    path = write_model(tmp_path_factory.mktemp("model") / "model.onnx")
    (path.parent / "data").mkdir()
    for i, sample in enumerate(SAMPLES):
        np.savez(path.parent / "data" / f"{i}.npz", **sample)
    return path


def quantise_weights(model: Path, target: Path) -> None:
    openxrt.quantize.quantize(model, target, weights="int8")


def quantise_by_samples(model: Path, target: Path) -> None:
    openxrt.quantize.quantize(model, target, calibration=model.parent / "data")


def report_of_quantising(model: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "int8.onnx"
        openxrt.quantize.quantize(model, output, calibration=model.parent / "data", report=target)


def table_of_ranges(model: Path, target: Path) -> None:
    openxrt.quantize.calibrate(model, model.parent / "data").save(target)


def checkpoint(model: Path, target: Path) -> None:
    openxrt.Trainer(model, loss="mse").save(target)


def page_of_placement(model: Path, target: Path) -> None:
    openxrt.load(model, engine="native", cache_dir="").explain().to_html(target)


# Who writes which file.
WRITERS: dict[str, tuple[str, Callable[[Path, Path], None]]] = {
    "weights in int8": ("out.onnx", quantise_weights),
    "int8": ("out.onnx", quantise_by_samples),
    "report as page": ("report.html", report_of_quantising),
    "report as JSON": ("report.json", report_of_quantising),
    "table": ("ranges.table", table_of_ranges),
    "checkpoint": ("run.state", checkpoint),
    "explanation": ("page.html", page_of_placement),
}


def expect_old_files(folder: Path, names: list[str], kind: str) -> None:
    """The old ones, and nothing besides."""
    beside = [FILLER] if kind == "full" else []
    assert sorted(path.name for path in folder.iterdir()) == sorted([*names, *beside])
    for name in names:
        assert (folder / name).read_bytes() == OLD


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("writer", WRITERS)
def test_what_cannot_be_written_is_an_error(
    writer: str, kind: str, model: Path, tmp_path: Path
) -> None:
    name, write = WRITERS[writer]
    if write is report_of_quantising and kind == "bounded":
        pytest.skip("the model is not written either")
    folder = tmp_path / "disk"
    folder.mkdir()
    target = folder / name
    with place(kind, folder):
        target.write_bytes(OLD)
        with KINDS[kind](folder) as cause:
            with pytest.raises(openxrt.IoError) as caught:
                write(model, target)
            expect_old_files(folder, [name], kind)
        assert os.fspath(target) in str(caught.value)
        assert cause in str(caught.value)
        write(model, target)
        assert target.read_bytes() != OLD
        assert [path.name for path in folder.iterdir()] == [name]


COMPARED = Comparison(
    differs=True,
    outputs_error=1.0,
    piece=bytes(1000),
    inputs={"x": X},
    expected={"y": X},
    actual={"y": X},
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_comparison_leaves_each_old_file_whole(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    names = ["piece.onnx", "inputs.npz", "expected.npz", "actual.npz"]
    with place(kind, folder):
        for name in names:
            (folder / name).write_bytes(OLD)
        with KINDS[kind](folder) as cause:
            with pytest.raises(openxrt.IoError, match=r"piece\.onnx") as caught:
                COMPARED.write(folder)
            expect_old_files(folder, names, kind)
        assert cause in str(caught.value)
        COMPARED.write(folder)
        assert (folder / "piece.onnx").read_bytes() == COMPARED.piece
        np.testing.assert_array_equal(np.load(folder / "actual.npz")["y"], X)


@pytest.mark.parametrize("kind", KINDS)
def test_samples_that_cannot_be_handed_over(
    kind: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler is a program of its own: they go through a folder for temporary files."""
    folder = tmp_path / "disk"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", os.fspath(folder))
    with place(kind, folder), KINDS[kind](folder) as cause:
        with pytest.raises((openxrt.IoError, OSError), match=cause) as caught:
            openxrt.lite.compile(model, tmp_path / "out", precision="int8", calibration=SAMPLES)
        assert os.fspath(folder) in str(caught.value)
        expect_old_files(folder, [], kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_costs_a_warning(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What an engine keeps for the next process."""
    folder = tmp_path / "disk"
    folder.mkdir()
    with place(kind, folder):
        (folder / "timings").write_bytes(OLD)
        with KINDS[kind](folder) as cause:
            write_record(folder / "timings", bytes(1000))
            expect_old_files(folder, ["timings"], kind)
    assert cause in caplog.text
    assert os.fspath(folder / "timings") in caplog.text


# Commands with the files that they write: OUT is the first one of them.
COMMANDS = {
    "outputs as npy": ("xrt run MODEL -e native -o OUT", ["out.npy"]),
    "outputs as npz": ("xrt run MODEL -e native -o OUT", ["out.npz"]),
    "profile": ("xrt run MODEL -e native --profile OUT", ["out.json"]),
    "page": ("xrt inspect MODEL -e native --html OUT", ["out.html"]),
    "times": ("xrt bench MODEL -e native --rounds 1 --json OUT", ["out.json"]),
    "weights in int8": ("xrt quantize MODEL --weights int8 -o OUT", ["out.onnx"]),
    "int8": ("xrt quantize MODEL --calibrate DATA -o OUT", ["out.onnx"]),
    "table": ("xrt calibrate MODEL --data DATA -o OUT", ["out.table"]),
    "lite": ("xrt-lite-compile MODEL -o OUT", ["out.bin"]),
    "lite as C": ("xrt-lite-compile MODEL --emit c -o OUT", ["out.c", "out.h"]),
    "report of lite": ("xrt-lite-compile MODEL -o BESIDE --report OUT", ["out.html"]),
    "difference": (
        "xrt compare MODEL -e native -e xla --tolerance 0 -o FOLDER",
        ["piece.onnx", "inputs.npz", "expected.npz", "actual.npz", "rerun.txt"],
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_command_cannot_write_is_an_error(
    command: str, kind: str, model: Path, tmp_path: Path
) -> None:
    text, names = COMMANDS[command]
    folder = tmp_path / "disk"
    folder.mkdir()
    if command == "difference" and not usable("xla"):
        pytest.skip("engine xla is not usable here")
    words = {
        "MODEL": model,
        "DATA": model.parent / "data",
        "OUT": folder / names[0],
        "BESIDE": tmp_path / "beside",
        "FOLDER": folder,
    }
    if command == "report of lite" and kind == "bounded":
        pytest.skip("the file beside it is not written either")
    program, *arguments = [str(words.get(word, word)) for word in text.split()]
    found = next(path for path in _command.programs() if path.is_file()).with_name(program)
    prefix = without_rights_of_root() if kind == "revoked" else ()

    def execute() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*prefix, found, *arguments], capture_output=True, text=True, check=False
        )

    with place(kind, folder):
        for name in names:
            (folder / name).write_bytes(OLD)
        with KINDS[kind](folder) as cause:
            done = execute()
            assert done.returncode == 1, done.stderr
            expect_old_files(folder, names, kind)
        assert os.fspath(folder) in done.stderr
        assert cause in done.stderr
        assert "internal error" not in done.stderr
