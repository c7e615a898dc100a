# SPDX-License-Identifier: Apache-2.0
"""Calibration: observers judged by NumPy, PyTorch and ONNX Runtime's calibrators; tables; programs
that calibrate by their first runs; the command."""

import json
import os
import resource
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import openxrt
import openxrt.quantize
import pytest
from onnx import TensorProto, helper, numpy_helper
from openxrt import _command
from openxrt.quantize import CalibrationTable, calibrate
from PIL import Image
from process_growth import PRINT_PEAK
from small_models import model_proto, tensor

OK, FAILED, USAGE, UNAVAILABLE, MISMATCH = range(5)
INTERRUPTED = 130
RNG = np.random.default_rng(0)


def network(path: Path, seed: int = 0, shape: tuple = ("N", 16), inner: int = 32) -> Path:
    """y = MatMul(Relu(MatMul(x, w)), v)."""
    rng = np.random.default_rng(seed)
    weights = {
        "w": rng.standard_normal((shape[-1], inner)).astype(np.float32),
        "v": rng.standard_normal((inner, 4)).astype(np.float32),
    }
    model = model_proto(
        [
            helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("MatMul", ["b", "v"], ["y"], name="second"),
        ],
        [tensor("x", TensorProto.FLOAT, list(shape))],
        [tensor("y", TensorProto.FLOAT, [*shape[:-1], 4])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    onnx.save(model, path)
    return path


def pictures_model(path: Path) -> Path:
    """A convolution of pictures, 3 x 8 x 8."""
    weights = np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype(np.float32)
    model = model_proto(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        [tensor("x", TensorProto.FLOAT, ["N", 3, 8, 8])],
        [tensor("y", TensorProto.FLOAT, ["N", 4, 6, 6])],
        [numpy_helper.from_array(weights, "w")],
    )
    onnx.save(model, path)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return network(tmp_path / "model.onnx")


@pytest.fixture
def samples() -> list[np.ndarray]:
    """With heavy tails, so that observers differ."""
    rng = np.random.default_rng(5)
    return [rng.standard_t(3, (64, 16)).astype(np.float32) for _ in range(20)]


def feeds(samples: list[np.ndarray]) -> list[dict[str, np.ndarray]]:
    return [{"x": x} for x in samples]


def table_of(model: Path, samples: list[np.ndarray], **options: object) -> CalibrationTable:
    """The table by runs of whole arrays."""
    return calibrate(model, feeds(samples), batch=len(samples[0]), **options)


def xrt(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    program = next(path for path in _command.programs() if path.is_file())
    return subprocess.run(
        [program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "XRT_CACHE_DIR": "", "XRT_PYTHON": sys.executable},
        timeout=120,
        **options,
    )


# --- observers ------------------------------------------------------------------------------------


def test_min_max_is_that_of_onnxruntime(
    model: Path, samples: list[np.ndarray], tmp_path: Path
) -> None:
    calibration = pytest.importorskip("onnxruntime.quantization.calibrate")

    class Reader(calibration.CalibrationDataReader):
        def __init__(self) -> None:
            self.left = iter(feeds(samples))

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.left, None)

    judge = calibration.create_calibrator(
        model, augmented_model_path=str(tmp_path / "augmented.onnx")
    )
    judge.collect_data(Reader())
    wanted = judge.compute_data().data
    found = table_of(model, samples).ranges
    assert set(found) == {"x", "b"}
    for name, (low, high) in found.items():
        np.testing.assert_allclose(low, min(wanted[name].lowest, 0), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(high, max(wanted[name].highest, 0), rtol=1e-4)


def test_moving_averages_are_those_of_pytorch(model: Path, samples: list[np.ndarray]) -> None:
    torch = pytest.importorskip("torch")
    from torch.ao.quantization import MovingAverageMinMaxObserver

    judge = MovingAverageMinMaxObserver(averaging_constant=0.05)
    for x in samples:
        judge(torch.from_numpy(x))
    found = table_of(model, samples, clipping="moving_average", average_factor=0.05).ranges["x"]
    np.testing.assert_allclose(found, [judge.min_val, judge.max_val], rtol=1e-5)


@pytest.mark.parametrize("percentile", [90, 99, 99.9])
def test_percentiles_are_those_of_numpy(
    model: Path, samples: list[np.ndarray], percentile: float
) -> None:
    cut = (100 - percentile) / 2
    everything = np.concatenate(samples)
    found = table_of(model, samples, clipping="percentile", percentile=percentile)
    # Far out elements are few: between the two next to the cut.
    for end, at in zip(found.ranges["x"], (cut, 100 - cut), strict=True):
        least, most = (np.percentile(everything, at, method=m) for m in ("lower", "higher"))
        assert least - 0.01 * abs(least) <= end <= most + 0.01 * abs(most)
    assert found.observer == f"percentile {percentile}"


def squared_error(values: np.ndarray, low: float, high: float) -> float:
    step = (high - low) / 255
    steps = np.clip(np.round((values - low) / step), 0, 255)
    return float(((low + steps * step - values) ** 2).mean())


def test_least_squared_error_is_the_best_of_all(model: Path, samples: list[np.ndarray]) -> None:
    everything = np.concatenate(samples).ravel().astype(np.float64)
    errors = {
        clipping: squared_error(
            everything, *table_of(model, samples, clipping=clipping).ranges["x"]
        )
        for clipping in ("minmax", "moving_average", "percentile", "entropy", "mse")
    }
    assert min(errors, key=errors.get) == "mse"
    # And of a search by brute force.
    ends = np.geomspace(1, np.abs(everything).max(), 60)
    best = min(squared_error(everything, -low, high) for low in ends for high in ends)
    assert errors["mse"] < 1.03 * best


def test_entropy_beside_that_of_onnxruntime(
    model: Path, samples: list[np.ndarray], tmp_path: Path
) -> None:
    """Theirs is symmetric: ours may not leave more squared error than the range that it gives."""
    calibration = pytest.importorskip("onnxruntime.quantization.calibrate")
    collector = calibration.HistogramCollector(
        method="entropy",
        symmetric=True,
        num_bins=2048,
        num_quantized_bins=255,
        percentile=99.99,
        scenario="same",
    )
    for x in samples:
        collector.collect({"x": [x]})
    low, high = (float(end) for end in collector.compute_entropy()["x"][:2])
    everything = np.concatenate(samples).ravel().astype(np.float64)
    found = table_of(model, samples, clipping="entropy").ranges["x"]
    assert squared_error(everything, *found) < 1.1 * squared_error(everything, low, high)
    assert found[1] < 0.8 * everything.max()  # it cuts the tail


def test_memory_does_not_grow_with_the_samples(tmp_path: Path) -> None:
    """10 and 1,000 samples of 1 MiB."""
    model = network(tmp_path / "wide.onnx", shape=("N", 1024))
    script = """
import sys
import numpy as np
from openxrt.quantize import calibrate
def samples(count):
    rng = np.random.default_rng(0)
    base = rng.standard_normal((256, 1024)).astype(np.float32)
    for i in range(count):
        yield {"x": base * (1 + i / 1000)}
for clipping in ("minmax", "moving_average", "percentile", "entropy", "mse"):
    calibrate(sys.argv[1], samples(int(sys.argv[2])), clipping=clipping, batch=256)
"""
    peaks = [
        int(
            subprocess.run(
                [sys.executable, "-c", script + PRINT_PEAK, model, str(count)],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        for count in (10, 200)
    ]
    assert peaks[1] < peaks[0] + 32 * 1024  # KiB; 190 samples are 190 MiB


def test_runs_without_elements_do_not_calibrate(model: Path, samples: list[np.ndarray]) -> None:
    """Nothing was seen in them, and everything would be quantised by a range of zero."""
    p = openxrt.load(model, engine="native", use_int8=True, int8_calibration="2")
    empty = np.zeros((0, 16), np.float32)
    assert [p(x).shape for x in (empty, samples[0], empty, empty)] == [
        (0, 4), (64, 4), (0, 4), (0, 4)
    ]  # fmt: skip
    assert any("1 of 2 runs" in note for note in p.explain()["notes"])
    p(samples[1]), p(empty)
    assert any("by 2 samples" in note for note in p.explain()["notes"])
    assert not any("is below" in note for note in p.explain()["notes"])


def test_runs_of_zeros_are_told(model: Path) -> None:
    p = openxrt.load(model, engine="native", use_int8=True, int8_calibration="1")
    for _ in range(2):
        p(np.zeros((3, 16), np.float32))
    assert any("the range of 'x', 'b' is below 1e-30" in note for note in p.explain()["notes"])


# --- samples --------------------------------------------------------------------------------------


def picture(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def test_every_layout_of_samples_gives_the_same_ranges(tmp_path: Path) -> None:
    model = pictures_model(tmp_path / "m.onnx")
    for i in range(6):
        picture(tmp_path / "flat" / f"{i}.png", i)
        picture(tmp_path / "classes" / str(i % 2) / f"{i}.png", i)
    listed = tmp_path / "list.csv"
    listed.write_text("".join(f"flat/{i}.png,{i}\n" for i in range(6)))
    arrays = np.stack(
        [np.asarray(Image.open(tmp_path / "flat" / f"{i}.png"), np.float32) for i in range(6)]
    )
    x = np.ascontiguousarray(arrays.transpose(0, 3, 1, 2) / 255)
    (tmp_path / "npz").mkdir()
    np.savez(tmp_path / "npz" / "all.npz", x=x)
    (tmp_path / "labelled").mkdir()
    np.savez(tmp_path / "labelled" / "all.npz", x=x, labels=np.arange(6))
    (tmp_path / "npy").mkdir()
    for i in range(6):
        np.save(tmp_path / "npy" / f"{i}.npy", x[i : i + 1])
    np.savez(tmp_path / "one.npz", x=x)
    tables = {
        name: calibrate(model, tmp_path / name)
        for name in (
            *("flat", "classes", "list.csv", "npz", "labelled", "labelled/all.npz"),
            *("npy", "one.npz"),
        )
    }
    wanted = calibrate(model, [{"x": x}])
    for name, found in tables.items():
        assert found.samples == 6, name
        for value, ends in wanted.ranges.items():
            np.testing.assert_allclose(found.ranges[value], ends, atol=1e-5, err_msg=name)
    assert calibrate(model, tmp_path / "npy", limit=2).samples == 2
    assert calibrate(model, tmp_path / "classes", batch=3).samples == 2  # runs of three
    normed = calibrate(model, tmp_path / "flat", mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
    np.testing.assert_allclose(normed.ranges["x"], [-1, 1], atol=0.02)


def test_bad_samples_are_named(model: Path, tmp_path: Path) -> None:
    def refused(samples: object, kind: type, match: str) -> None:
        with pytest.raises(kind, match=match):
            calibrate(model, samples)

    good = np.zeros((1, 16), np.float32)
    for bad in (np.nan, np.inf):
        broken = good.copy()
        broken[0, 3] = bad
        refused([{"x": good}, {"x": broken}], openxrt.InvalidArgument, "sample 2.*'x' holds")
    refused([{"x": good * 0 + 3e38}], openxrt.InvalidArgument, "overflows")
    refused([{"y": good}], openxrt.InvalidArgument, "sample 1: input 'x' is missing")
    refused([{"x": good, "z": good}], openxrt.InvalidArgument, "no input 'z'")
    refused([{"x": good[:, :3]}], openxrt.InvalidArgument, "sample 1: input 'x' must be")
    refused([good], TypeError, "sample 0 is ndarray")
    refused([], openxrt.InvalidArgument, "at least one sample")
    refused(tmp_path / "nowhere", openxrt.NotFound, "nowhere")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", openxrt.NotFound, "empty: there are no")
    with pytest.raises(openxrt.InvalidArgument, match="did you mean 'first'"):
        calibrate(model, [{"x": good}], keep_float=["frist"])


# --- tables ---------------------------------------------------------------------------------------


def test_tables_are_kept_merged_and_compared(
    model: Path, samples: list[np.ndarray], tmp_path: Path
) -> None:
    first, second = (table_of(model, part) for part in (samples[:10], samples[10:]))
    first.save(tmp_path / "first.table")
    again = CalibrationTable.load(tmp_path / "first.table")
    assert again == first
    assert again != second
    assert again.model == "model.onnx"
    both = first.merge(second)
    assert both.samples == 20
    assert both.ranges == table_of(model, samples).ranges
    rows = first.diff(second)
    assert rows
    assert rows == sorted(rows, key=lambda row: -row[3])
    for name, before, after, _ in rows:
        assert (before, after) == (first.ranges[name], second.ranges[name])
    first.set_ranges({"b": (0, 2.5)})
    assert first.ranges["b"] == (0, 2.5)
    with pytest.raises(openxrt.InvalidArgument, match="no such value"):
        first.set_ranges({"c": (0, 1)})
    for ends in ((-np.inf, 1), (0, np.inf), (np.nan, 1), (0, 1e39)):
        with pytest.raises(openxrt.InvalidArgument, match=r"range of 'b': its ends .* finite"):
            first.set_ranges({"b": ends})
    with pytest.raises(openxrt.InvalidArgument, match="low end is above"):
        first.set_ranges({"b": (1, 0)})
    assert first.ranges["b"] == (0, 2.5)
    first.set_ranges({"b": (5, 6)})  # as a file may have it; what is quantised by it has 0, too
    first.save(tmp_path / "first.table")
    assert CalibrationTable.load(tmp_path / "first.table").ranges["b"] == (5, 6)
    other = table_of(network(tmp_path / "other.onnx", seed=1), samples)
    with pytest.raises(openxrt.InvalidArgument, match="different models"):
        first.merge(other)


def test_damaged_tables_are_refused(model: Path, samples: list[np.ndarray], tmp_path: Path) -> None:
    path = tmp_path / "t.table"
    table_of(model, samples[:1]).save(path)
    text = path.read_bytes()
    for changed in (text[:-20], text[: len(text) // 2], text.replace(b"Relu", b"Relv"), b"", b"{}"):
        path.write_bytes(changed)
        with pytest.raises(openxrt.InvalidModel, match=r"calibration table '.*t\.table'"):
            openxrt.load(model, use_int8=True, int8_calibration=path)


def test_tensorrt_caches_are_read_and_written(
    model: Path, samples: list[np.ndarray], tmp_path: Path
) -> None:
    table = table_of(model, samples)
    head, *lines = table.to_tensorrt(100300).splitlines()
    assert head == "TRT-100300-EntropyCalibration2"
    scales = {}
    for line in lines:
        name, digits = line.rsplit(": ", 1)
        (scales[name],) = struct.unpack("!f", bytes.fromhex(digits))
    for name, (low, high) in table.ranges.items():
        assert scales[name] == pytest.approx(max(-low, high) / 127, rel=1e-6)
    cache = tmp_path / "cache"
    # As TensorRT has it: other values, and weights, are there too.
    cache.write_text("\n".join([head, *lines, "(Unnamed Layer* 0) [Constant]_output: 3c010a14"]))
    back = CalibrationTable.of_tensorrt(cache, model)
    assert back.ranges["b"][0] == 0  # behind a Relu
    assert back.ranges["x"][0] == -back.ranges["x"][1]
    x = RNG.standard_normal((64, 16)).astype(np.float32)
    cache.write_text(table_of(model, [x]).to_tensorrt(8601))
    program = openxrt.load(model, engine="native", use_int8=True, int8_calibration=cache)
    wanted = openxrt.load(model, engine="native")(x)
    assert 10 * np.log10((wanted**2).mean() / ((program(x) - wanted) ** 2).mean()) > 25
    cache.write_text(f"{head}\nother: 3c010a14\n")
    with pytest.raises(openxrt.InvalidArgument, match="no scale for 'x', 'b'"):
        CalibrationTable.of_tensorrt(cache, model)


# --- programs -------------------------------------------------------------------------------------


def quantised(model: Path, calibration: object, output: Path, x: np.ndarray) -> np.ndarray:
    # By ranges alone, as a program that calibrates itself does.
    openxrt.quantize.quantize(model, output, calibration=calibration, smooth=0, correct_bias=False)
    return openxrt.load(output, engine="native")(x)


def test_the_first_runs_calibrate(model: Path, samples: list[np.ndarray], tmp_path: Path) -> None:
    program = openxrt.load(model, engine="native", use_int8=True, int8_calibration=3)
    plain = openxrt.load(model, engine="native")
    assert [port.name for port in program.outputs] == ["y"]
    for i, x in enumerate(samples[:3]):
        notes = program.explain()["notes"]
        assert f"int8: {i} of 3 runs that calibrate are done, in floating point" in notes
        np.testing.assert_array_equal(program(x), plain(x))
    wanted = quantised(model, feeds(samples[:3]), tmp_path / "int8.onnx", samples[5])
    np.testing.assert_array_equal(program(samples[5]), wanted)
    assert not np.array_equal(wanted, plain(samples[5]))
    (note,) = [note for note in program.explain()["notes"] if note.startswith("int8")]
    assert note.startswith("int8: 2 of 2 Conv, Gemm and MatMul nodes are quantised, 2 values")
    out = np.empty_like(wanted)
    program.run({"x": samples[5]}, out={"y": out})
    np.testing.assert_array_equal(out, wanted)


def test_runs_that_calibrate_write_what_they_are_given(
    model: Path, samples: list[np.ndarray]
) -> None:
    program = openxrt.load(model, engine="native", use_int8=True, int8_calibration=1)
    with pytest.raises(openxrt.InvalidArgument, match="'x' holds nan"):
        program(np.full((2, 16), np.nan, np.float32))
    out = np.empty((64, 4), np.float32)
    program.run({"x": samples[0]}, out={"y": out})
    np.testing.assert_array_equal(out, openxrt.load(model, engine="native")(samples[0]))


def test_programs_take_tables(model: Path, samples: list[np.ndarray], tmp_path: Path) -> None:
    table = table_of(model, samples)
    table.save(tmp_path / "t.table")
    wanted = quantised(model, table, tmp_path / "int8.onnx", samples[0])
    for source in (model, model.read_bytes()):
        program = openxrt.load(
            source, engine="native", use_int8=True, int8_calibration=tmp_path / "t.table"
        )
        np.testing.assert_array_equal(program(samples[0]), wanted)
    other = network(tmp_path / "other.onnx", seed=1)
    with pytest.raises(openxrt.InvalidArgument, match=r"of 'model\.onnx'.*its weights are others"):
        openxrt.load(other, use_int8=True, int8_calibration=tmp_path / "t.table")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"use_int8": True}, "use_int8 needs int8_calibration"),
        ({"int8_calibration": 3}, "int8_calibration without use_int8"),
        ({"use_int8": True, "int8_calibration": 0}, "at least one run"),
        ({"use_int8": True, "int8_calibration": -1}, "int8_calibration"),
        ({"use_int8": True, "int8_calibration": 1.5}, "option 'int8_calibration' is 1.5"),
        ({"use_int8": True, "int8_calibration": True}, "option 'int8_calibration' is True"),
    ],
)
def test_options_that_make_no_sense(model: Path, options: dict, match: str) -> None:
    with pytest.raises(openxrt.InvalidArgument, match=match):
        openxrt.load(model, **options)
    with pytest.raises(openxrt.NotFound, match="nowhere"):
        openxrt.load(model, use_int8=True, int8_calibration="nowhere")


def test_one_table_serves_all_sizes(tmp_path: Path) -> None:
    """Calibrated one by one, run in batches; ranges are those of float programs."""
    model = network(tmp_path / "model.onnx", shape=("N", 16))
    rows = RNG.standard_normal((64, 16)).astype(np.float32)
    table = tmp_path / "t.table"
    calibrate(model, [{"x": rows}], max_batch_size=64).save(table)
    sized = {"shapes": {"x": ("batch", 16)}, "ranges": {"batch": (1, 8, 64)}}
    program = openxrt.load(model, engine="native", use_int8=True, int8_calibration=table, **sized)
    wanted = openxrt.load(model, engine="native")
    for batch in (1, 7, 64):
        x = rows[:batch]
        error = program(x) - wanted(x)
        assert 10 * np.log10((wanted(x) ** 2).mean() / (error**2).mean()) > 20


def test_a_larger_batch_is_told_of_once(samples: list[np.ndarray], tmp_path: Path) -> None:
    """In the words of the log that users of OneFlow know; int8 and float32 alike."""
    model = network(tmp_path / "model.onnx")
    table = tmp_path / "t.table"
    calibrate(model, feeds(samples[:2])).save(table)
    script = """
import sys
import numpy as np
import openxrt
for int8 in ({}, {"use_int8": True, "int8_calibration": sys.argv[2]}):
    program = openxrt.load(sys.argv[1], engine="native", max_batch_size=1, **int8)
    for batch in (1, 256, 8, 256, 1024):
        assert program(np.ones((batch, 16), np.float32)).shape == (batch, 4)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, model, table], capture_output=True, text=True, check=True
    )
    sentence = "Rebuild engine since the maximum batch size 1 is less than the input batch size 256"
    assert done.stderr.count(sentence) == 2
    assert done.stderr.count("Rebuild engine") == 2


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture
def data(samples: list[np.ndarray], tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for i, x in enumerate(samples[:4]):
        np.save(folder / f"{i}.npy", x[:1])
    return folder


def test_the_command_calibrates_quantises_and_runs(model: Path, data: Path, tmp_path: Path) -> None:
    table = tmp_path / "t.table"
    result = xrt("calibrate", model, "--data", data, "-o", table)
    assert result.returncode == OK, result.stderr
    assert "ranges of 2 values by minmax, 4 runs of model.onnx" in result.stdout
    wanted = calibrate(model, data)
    assert CalibrationTable.load(table) == wanted
    quantized = tmp_path / "int8.onnx"
    result = xrt("quantize", model, "--table", table, "-o", quantized)
    assert result.returncode == OK, result.stderr
    assert "2 of 2 Conv" in result.stdout
    result = xrt(
        "run", model, "--int8", "--int8-calibration", table, "-e", "native", "--dim", "N=2"
    )
    assert result.returncode == OK, result.stderr
    assert "int8: 2 of 2" in result.stdout
    result = xrt("run", model, "--int8", "--int8-calibration", 2, "--runs", 3, "--dim", "N=2")
    assert result.returncode == OK, result.stderr
    assert "by 2 samples" in result.stdout
    np.savez(tmp_path / "set.npz", x=np.load(data / "0.npy"), labels=np.zeros(1, np.int64))
    report = tmp_path / "r.json"
    result = xrt(
        *("eval", model, "--data", tmp_path / "set.npz", "--int8", "--table", table),
        *("--json", report, "-e", "native"),
    )
    assert result.returncode == OK, result.stderr
    assert json.loads(report.read_text())["int8"] is True


def test_the_command_handles_tables(model: Path, data: Path, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a", "b", "c")]
    for file, limit in zip(files, (2, 4), strict=False):
        assert (
            xrt("calibrate", model, "--data", data, "-o", file, "--limit", limit).returncode == OK
        )
    assert xrt("calibrate", "--merge", *files[:2], "-o", files[2]).returncode == OK
    assert CalibrationTable.load(files[2]).samples == 6
    result = xrt("calibrate", "--diff", files[0], files[1])
    assert result.returncode == MISMATCH
    assert "of 2 values differ" in result.stdout
    assert xrt("calibrate", "--diff", files[0], files[0]).returncode == OK
    cache = tmp_path / "cache"
    assert xrt("calibrate", "--from", files[0], "-o", cache, "--tensorrt", 8601).returncode == OK
    assert cache.read_text() == CalibrationTable.load(files[0]).to_tensorrt(8601)
    assert xrt("calibrate", model, "--from", cache, "-o", tmp_path / "back").returncode == OK
    assert CalibrationTable.load(tmp_path / "back").observer == "tensorrt"
    result = xrt("calibrate", "--from", cache, "-o", tmp_path / "none")
    assert result.returncode == USAGE
    assert "name the MODEL" in result.stderr
    other = network(tmp_path / "other.onnx", seed=1)
    for arguments in (
        ("quantize", other, "--table", files[0], "-o", tmp_path / "none"),
        ("calibrate", other, "--from", files[0], "-o", tmp_path / "none"),
        ("run", other, "--int8", "--int8-calibration", files[0], "--dim", "N=1"),
    ):
        result = xrt(*arguments)
        assert result.returncode == USAGE
        assert "the calibration table is of 'model.onnx'" in result.stderr
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "match"),
    [
        (("MODEL",), USAGE, "--data DIR are wanted"),
        (("--data", "DATA"), USAGE, "MODEL"),
        (("MODEL", "--data", "DATA", "-o", "nowhere/x"), USAGE, "no folder 'nowhere'"),
        (("MODEL", "--data", "EMPTY"), FAILED, "there are no"),
        (("MODEL", "--data", "DATA", "--clipping", "best"), USAGE, "best"),
        (("MODEL", "--data", "DATA", "--percentile", "12"), USAGE, "percentile of 12"),
        (("--merge", "OUT"), USAGE, "--merge"),
        (("--merge", "MODEL", "MODEL"), FAILED, "does not begin with"),
        (("--diff", "gone", "gone"), FAILED, "gone"),
    ],
)
def test_mistakes_on_the_command_line(
    arguments: tuple, code: int, match: str, model: Path, data: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    out = tmp_path / "out"
    words = {"MODEL": model, "DATA": data, "EMPTY": tmp_path / "empty", "OUT": out}
    given = [words.get(word, word) for word in arguments]
    extra = () if "-o" in arguments or "--diff" in arguments else ("-o", out)
    result = xrt("calibrate", *given, *extra)
    assert (result.returncode, match in result.stderr) == (code, True), result.stderr
    assert not out.exists()


def test_a_full_disk_leaves_the_old_table(model: Path, data: Path, tmp_path: Path) -> None:
    assert xrt("calibrate", model, "--data", data, "-o", "/dev/full").returncode == FAILED
    table = tmp_path / "tables" / "t.table"
    table.parent.mkdir()
    table.write_text("old")

    def tiny_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, resource.RLIM_INFINITY))

    result = xrt("calibrate", model, "--data", data, "-o", table, preexec_fn=tiny_files)
    assert result.returncode == FAILED
    assert "t.table" in result.stderr
    assert table.read_text() == "old"
    assert list(table.parent.iterdir()) == [table]


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGKILL])
def test_ctrl_c_leaves_nothing(which: signal.Signals, tmp_path: Path) -> None:
    model = network(tmp_path / "model.onnx", shape=("N", 1024), inner=1024)
    folder = tmp_path / "many"
    folder.mkdir()
    x = np.ones((1024, 1024), np.float32)
    for i in range(300):
        target = folder / f"{i}.npy"
        if i == 0:
            np.save(target, x)
        else:
            os.link(folder / "0.npy", target)
    output = tmp_path / "out" / "t.table"
    output.parent.mkdir()
    program = next(path for path in _command.programs() if path.is_file())
    process = subprocess.Popen(
        [program, "calibrate", model, "--data", folder, "-o", output, "--clipping", "entropy"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "XRT_CACHE_DIR": ""},
    )
    time.sleep(1.5)
    process.send_signal(which)
    _, said = process.communicate(timeout=60)
    if which == signal.SIGINT:
        assert process.returncode == INTERRUPTED, said
        assert "interrupted after" in said
        assert "t.table is not written" in said
    assert not list(output.parent.iterdir())
