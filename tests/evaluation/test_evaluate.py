# SPDX-License-Identifier: Apache-2.0
"""openxrt.evaluate and `xrt eval`: files that NumPy, Pillow and protobuf wrote, and what NumPy
makes of them.
"""

import contextlib
import io
import json
import os
import re
import signal
import struct
import subprocess
import time
from pathlib import Path

import numpy as np
import onnx
import openxrt
import openxrt.quantize
import pytest
from ofrecord_files import encoded, part_file, record
from onnx import TensorProto, helper, numpy_helper
from openxrt import _command, _core
from PIL import Image
from small_models import model_proto, tensor

RNG = np.random.default_rng(7)


def picture(width: int, height: int) -> np.ndarray:
    return RNG.integers(0, 256, (height, width, 3), np.uint8)


def labelled(data: Path, **changes: object) -> _core.LabelledSet:
    options = {
        "format": "auto",
        "classes": None,
        "picture_field": "",
        "label_field": "",
        "preset": "",
        "resize_shorter": None,
        "crop": None,
        "mean": None,
        "std": None,
        "scale": None,
        "layout": "auto",
        "channels": "rgb",
        "limit": 0,
        "label_offset": 0,
        "skip_bad": False,
        "workers": 0,
    }
    return _core.LabelledSet(data, **{**options, **changes})


def save(path: Path, nodes: list, shape: list, out: list, weights: list = ()) -> Path:
    inputs = [tensor("x", TensorProto.FLOAT, shape)]
    outputs = [tensor("y", TensorProto.FLOAT, out)]
    onnx.save(model_proto(nodes, inputs, outputs, list(weights)), path)
    return path


def scores_model(path: Path, batch: int | str = "N", classes: int = 7) -> Path:
    """The input is the scores."""
    return save(
        path, [helper.make_node("Identity", ["x"], ["y"])], [batch, classes], [batch, classes]
    )


def picture_model(path: Path, size: int = 24, classes: int = 4) -> Path:
    """Scores from a picture: means of channels times weights."""
    weights = numpy_helper.from_array(RNG.standard_normal((3, classes)).astype(np.float32), "w")
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["y"]),
    ]
    return save(path, nodes, ["N", 3, size, size], ["N", classes], [weights])


@pytest.fixture
def scores(tmp_path: Path) -> tuple[Path, np.ndarray, np.ndarray]:
    """Scores of 23 samples for 7 classes with ties, and labels, in a file."""
    values = RNG.integers(0, 5, (23, 7)).astype(np.float32)
    labels = RNG.integers(0, 7, 23)
    np.savez(tmp_path / "set.npz", x=values, labels=labels)
    return tmp_path / "set.npz", values, labels


def top(values: np.ndarray, labels: np.ndarray, k: int) -> float:
    best = np.argsort(-values, axis=1, kind="stable")[:, :k]
    return float((best == labels[:, None]).any(axis=1).mean())


# --- readers --------------------------------------------------------------------------------------


def test_records_are_read_back_exactly(tmp_path: Path) -> None:
    written = []
    for number in range(3):
        records = []
        for i in range(number + 1):
            data, label = bytes(RNG.integers(0, 256, 50 + i, np.uint8)), 100 * number + i
            written.append((data, label))
            records.append(
                record(encoded=("bytes_list", [data]), class_label=("int32_list", [label]))
            )
        part_file(tmp_path / f"part-{number:05}", records)
    (tmp_path / "README").write_text("beside them")
    found = labelled(tmp_path)
    assert found.format == "ofrecord"
    assert [found.read(i)[::2] for i in range(len(found))] == written
    assert found.place(1) == f"{tmp_path / 'part-00001'} at byte 0"


def test_lists_of_numbers_of_a_record(tmp_path: Path) -> None:
    values = RNG.standard_normal(12).astype(np.float32)
    packed = record(images=("float_list", values.tolist()), labels=("int64_list", [-5]))
    # A list that is not packed, as older writers have it; and a field that nobody knows.
    loose = b"".join(b"\x0d" + struct.pack("<f", v) for v in values)
    feature = b"\x12" + bytes([len(loose)]) + loose + b"\x3a\x01z"
    entry = b"\x0a\x06images\x12" + bytes([len(feature)]) + feature
    other = record(labels=("int32_list", [9])) + b"\x0a" + bytes([len(entry)]) + entry
    found = labelled(part_file(tmp_path / "part-0", [packed, other]))
    for i, label in enumerate((-5, 9)):
        none, arrays, read = found.read(i)
        assert (none, read) == (b"", label)
        np.testing.assert_array_equal(arrays["images"], values)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-3], "a record of"),
        (lambda data: data + b"\x01\x02", "cut short: 2 bytes"),
        (lambda data: data + struct.pack("<Q", 2**63) + b"x", "9223372036854775808 bytes, but 1"),
        (lambda data: data + struct.pack("<q", 5) + b"\x0a\xff\xff\xff\xff", "no OFRecord"),
        (lambda data: data + struct.pack("<q", 0), "no label .*it has no fields"),
    ],
)
def test_damaged_parts_name_file_and_offset(tmp_path: Path, damage: object, message: str) -> None:
    good = [
        record(encoded=("bytes_list", [encoded(picture(24, 24))]), class_label=("int32_list", [i]))
        for i in range(3)
    ]
    file = part_file(tmp_path / "part-00000", good)
    file.write_bytes(damage(file.read_bytes()))
    model = picture_model(tmp_path / "m.onnx")
    with pytest.raises(openxrt.InvalidArgument, match=rf"part-00000 at byte \d+: .*{message}"):
        openxrt.evaluate(model, file, engine="native")
    found = openxrt.evaluate(model, file, engine="native", batch=2, skip_bad=True)
    assert (found.samples + found.skipped, found.skipped) == (len(labelled(file)), 1)
    assert "part-00000" in found.skipped_because[0]


def test_any_bytes_are_records_or_an_error(tmp_path: Path) -> None:
    good = record(encoded=("bytes_list", [b"abc"] * 2), class_label=("int32_list", [1]))
    for _ in range(300):
        data = bytearray(good)
        for at in RNG.integers(0, len(data), 3):
            data[at] = RNG.integers(0, 256)
        found = labelled(part_file(tmp_path / "part-0", [bytes(data[: RNG.integers(1, 99)])]))
        with contextlib.suppress(openxrt.Error):
            found.read(0)


def test_folders_of_classes(tmp_path: Path) -> None:
    for name, count in (("cat", 2), ("ant", 1), ("10", 1)):
        (tmp_path / name / "more").mkdir(parents=True)
        for i in range(count):
            (tmp_path / name / "more" / f"{i}.PNG").write_bytes(encoded(picture(3, 3)))
        (tmp_path / name / "notes.txt").write_text("no picture")
    found = labelled(tmp_path)
    assert (found.format, found.classes) == ("folders", ["10", "ant", "cat"])
    assert [found.read(i)[2] for i in range(len(found))] == [0, 1, 2, 2]
    names = tmp_path / "names.txt"
    names.write_text("cat\n10\nant\nbird\n")
    assert labelled(tmp_path, classes=names).read(0)[2] == 1
    names.write_text("cat\n10\nants\n")
    with pytest.raises(openxrt.InvalidArgument, match="no class is called 'ant'; did you mean 'a"):
        labelled(tmp_path, classes=names)


def test_lists_of_paths(tmp_path: Path) -> None:
    (tmp_path / "a, b.png").write_bytes(encoded(picture(3, 3)))
    file = tmp_path / "list.csv"
    file.write_text('Label,File\r\n4,"a, b.png"\r\n\r\n7,gone.png\r\n')
    found = labelled(tmp_path)
    assert (found.format, len(found), found.read(0)[2]) == ("csv", 2, 4)
    assert found.place(1).startswith(f"{file} line 4")
    with pytest.raises(openxrt.NotFound):
        found.read(1)
    file.write_text('"a, b.png",dog\n"a, b.png",cat\n')
    found = labelled(file)
    assert (found.classes, found.read(0)[2], found.read(1)[2]) == (["cat", "dog"], 1, 0)
    file.write_text("a.png\n")
    with pytest.raises(openxrt.InvalidArgument, match="line 1: there is no label"):
        labelled(file)


def test_what_is_no_labelled_set(tmp_path: Path) -> None:
    with pytest.raises(openxrt.NotFound, match="no labelled samples are there"):
        labelled(tmp_path / "gone")
    with pytest.raises(openxrt.NotFound, match="there are no labelled samples"):
        labelled(tmp_path)
    (tmp_path / "a.png").write_bytes(encoded(picture(3, 3)))
    with pytest.raises(openxrt.InvalidArgument, match="the pictures have no labels"):
        labelled(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(openxrt.NotFound, match="there are no labelled samples"):
        labelled(tmp_path)
    np.savez(tmp_path / "a.npz", x=np.zeros((2, 2)))
    with pytest.raises(openxrt.InvalidArgument, match="there are no labels"):
        labelled(tmp_path)
    (tmp_path / "part-1").write_bytes(b"")
    with pytest.raises(openxrt.InvalidArgument, match="several formats \\(ofrecord, arrays\\)"):
        labelled(tmp_path)


# --- preparation ----------------------------------------------------------------------------------


def as_torchvision(pixels: Image.Image, shorter: int, crop: int) -> np.ndarray:
    """Resize(shorter) and CenterCrop(crop) of torchvision, on Pillow's picture."""
    width, height = pixels.size
    if shorter:
        if width <= height:
            size = shorter, int(shorter * height / width)
        else:
            size = int(shorter * width / height), shorter
        pixels = pixels.resize(size, Image.Resampling.BILINEAR)
    width, height = pixels.size
    left, top_ = round((width - crop) / 2.0), round((height - crop) / 2.0)
    return np.asarray(pixels.crop((left, top_, left + crop, top_ + crop)))


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
@pytest.mark.parametrize("scale", [1, 255])
def test_pixels_are_those_of_pillow(tmp_path: Path, kind: str, scale: int) -> None:
    sizes = [(50, 40), (31, 77), (33, 32), (32, 32), (400, 300), (20, 29), (32, 45)]
    smooth = [np.asarray(Image.fromarray(picture(9, 9)).resize(s, 2)) for s in sizes]
    data = [encoded(p, kind) for p in smooth]
    part_file(
        tmp_path / "part-0",
        [record(encoded=("bytes_list", [d]), class_label=("int32_list", [0])) for d in data],
    )
    model = save(
        tmp_path / "m.onnx",
        [helper.make_node("Identity", ["x"], ["y"])],
        ["N", 3, 24, 24],
        ["N", 3, 24, 24],
    )
    seen = []
    mean, std = np.float32([0.4, 0.5, 0.6]) * scale, np.float32([0.2, 0.3, 0.25]) * scale
    openxrt.evaluate(
        model,
        tmp_path / "part-0",
        resize_shorter=32,
        crop=24,
        mean=mean.tolist(),
        std=std.tolist(),
        scale=scale,
        batch=2,
        top=(),
        metric=lambda outputs, labels: seen.extend(outputs) or np.zeros(len(labels)),
        engine="native",
    )
    assert len(seen) == len(data)
    for d, values in zip(data, seen, strict=True):
        want = as_torchvision(Image.open(io.BytesIO(d)), 32, 24).astype(np.float32)
        want = (want / np.float32(255 / scale) - mean) / std
        # libjpeg-turbo of another version may round a pixel otherwise.
        np.testing.assert_array_equal(values, want.transpose(2, 0, 1))


def test_means_of_another_scale_are_an_error(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((2, 2)), y=[0, 1])
    with pytest.raises(openxrt.InvalidArgument, match="beyond values from 0 to 1: say scale 255"):
        labelled(tmp_path / "a.npz", mean=(123.68, 116.8, 103.9))


# --- evaluation -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("declared", "batch"), [("N", 0), ("N", 4), ("N", 23), (4, 0), (5, 5)])
def test_top_k_is_that_of_numpy(
    tmp_path: Path, scores: tuple[Path, np.ndarray, np.ndarray], declared: int | str, batch: int
) -> None:
    file, values, labels = scores
    model = scores_model(tmp_path / "m.onnx", declared)
    lines = []
    found = openxrt.evaluate(
        model,
        file,
        top=(1, 3),
        batch=batch,
        engine="native",
        report=lambda *line: lines.append(line),
        metric=lambda outputs, targets: outputs[np.arange(len(targets)), targets],
    )
    assert (found.samples, found.classes, found.skipped) == (23, 7, 0)
    for k in (1, 3):
        assert found.top[k] == pytest.approx(top(values, labels, k))
    assert (found.top_1, found.top_k) == (found.top[1], found.top[3])
    want = np.zeros((7, 7), int)
    np.add.at(want, (labels, values.argmax(1)), 1)
    np.testing.assert_array_equal(found.confusion_matrix(), want)
    assert found.metric == pytest.approx(values[np.arange(23), labels].mean())
    assert lines[-1][1:4] == (23, found.top_1, found.top_k)
    assert len(lines) == -(-23 // found.batch)
    assert 0 < found.busy < 1


def test_the_largest_batch(tmp_path: Path, scores: tuple) -> None:
    model = scores_model(tmp_path / "m.onnx")
    assert openxrt.evaluate(model, scores[0], batch="max", engine="native").batch == 16
    assert openxrt.evaluate(model, scores[0], batch="max", limit=9, engine="native").batch == 8
    fixed = scores_model(tmp_path / "f.onnx", 4)
    assert openxrt.evaluate(fixed, scores[0], batch="max", engine="native").batch == 4


@pytest.mark.parametrize("streams", [1, 2, 5])
@pytest.mark.parametrize("compare", [None, "f32"])
def test_streams_change_no_answer(
    tmp_path: Path, scores: tuple, streams: int, compare: str | None
) -> None:
    file, values, labels = scores
    model = scores_model(tmp_path / "m.onnx")
    seen: list[np.ndarray] = []
    lines = []
    found = openxrt.evaluate(
        model,
        file,
        top=(1, 3),
        batch=2,
        engine="native",
        streams=streams,
        compare=compare,
        report=lambda *line: lines.append(line),
        metric=lambda outputs, _targets: seen.append(outputs) or 0.0,
    )
    assert found.top == {k: pytest.approx(top(values, labels, k)) for k in (1, 3)}
    # In the order of the samples.
    np.testing.assert_array_equal(np.concatenate(seen), values)
    assert [line[0] for line in lines] == list(range(12))
    assert 0 < found.busy <= 1
    if compare:
        assert found.agreement == 1


def test_several_programs_share_the_batches(tmp_path: Path, scores: tuple) -> None:
    """As on several devices."""
    file, values, labels = scores
    model = scores_model(tmp_path / "m.onnx")
    programs = [openxrt.load(model, engine="native", streams=n) for n in (1, 2)]
    for program in programs:
        program.enable_profile()
    seen: list[np.ndarray] = []
    found = _core.evaluate(
        programs,
        labelled(file),
        batch=1,
        top=[1],
        scores="",
        text=None,
        reference=None,
        judge=lambda outputs, _labels, _counts: seen.append(outputs["y"]),
        report=None,
    )
    assert found["top_1"] == pytest.approx(top(values, labels, 1))
    np.testing.assert_array_equal(np.concatenate(seen), values)
    runs = [len({event.run for event in program.profile()}) for program in programs]
    assert min(runs) > 1
    assert sum(runs) == 23 + 3  # each stream warms up


def test_devices(tmp_path: Path, scores: tuple) -> None:
    model = scores_model(tmp_path / "m.onnx")
    assert openxrt.evaluate(model, scores[0], devices=["cpu"], engine="native").samples == 23
    with pytest.raises(openxrt.Error, match="cuda:7"):
        openxrt.evaluate(model, scores[0], devices=["cpu", "cuda:7"], engine="native")
    with pytest.raises(openxrt.InvalidArgument, match="twice"):
        openxrt.evaluate(model, scores[0], devices=["cpu", "cpu"])
    with pytest.raises(openxrt.InvalidArgument, match="no device"):
        openxrt.evaluate(model, scores[0], devices=["cpu"], device="cpu")


def test_the_largest_batch_within_a_bound(tmp_path: Path) -> None:
    """A run of 8 samples takes more than 1 MiB."""
    np.savez(tmp_path / "set.npz", x=np.zeros((64, 2), np.float32), labels=np.zeros(64, int))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Relu", ["p"], ["q"]),
        helper.make_node("MatMul", ["q", "v"], ["y"]),
    ]
    wide = 1 << 15
    weights = [
        numpy_helper.from_array(np.zeros((2, wide), np.float32), "w"),
        numpy_helper.from_array(np.zeros((wide, 3), np.float32), "v"),
    ]
    model = save(tmp_path / "m.onnx", nodes, ["N", 2], ["N", 3], weights)
    bounded = {"engine": "native", "max_memory_bytes": 1 << 20, "cache_dir": ""}
    assert openxrt.evaluate(model, tmp_path / "set.npz", batch="max", **bounded).batch in (2, 4, 8)
    assert openxrt.evaluate(model, tmp_path / "set.npz", batch="max", engine="native").batch == 64


# --- text -----------------------------------------------------------------------------------------


def edits(a: list, b: list) -> int:
    """Levenshtein's distance, by its definition."""
    table = np.zeros((len(a) + 1, len(b) + 1), int)
    table[:, 0], table[0] = np.arange(len(a) + 1), np.arange(len(b) + 1)
    for i, j in np.ndindex(len(a), len(b)):
        table[i + 1, j + 1] = min(
            table[i, j] + (a[i] != b[j]), table[i, j + 1] + 1, table[i + 1, j] + 1
        )
    return int(table[-1, -1])


def decoded(rows: np.ndarray, symbols: str) -> list[str]:
    texts = []
    for best in rows.argmax(2):
        kept = [b for i, b in enumerate(best) if b and (i == 0 or best[i - 1] != b)]
        texts.append("".join(symbols[b - 1] for b in kept))
    return texts


def test_text_is_judged_by_its_characters_and_words(tmp_path: Path) -> None:
    """Pictures whose rows are the scores of steps."""
    symbols = "aéß7界 "
    (tmp_path / "symbols.txt").write_text("\n".join(symbols[:-1]) + "\n", encoding="utf-8")
    steps, classes = 9, len(symbols) + 1
    texts = ["a é7", "007", "界界", "", "ßa a 7"]
    rows = []
    lines = ["path,text"]
    for i, text in enumerate(texts):
        pixels = RNG.integers(0, 256, (steps, classes, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{i}.png")
        rows.append(pixels[:, :, 0])
        lines.append(f"{i}.png,{text}")
    (tmp_path / "lines.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    index = numpy_helper.from_array(np.array(0, np.int64), "red")
    nodes = [helper.make_node("Gather", ["x", "red"], ["y"], axis=1)]
    model = save(
        tmp_path / "m.onnx", nodes, ["N", 3, steps, classes], ["N", steps, classes], [index]
    )
    found = openxrt.evaluate(
        model, tmp_path / "lines.csv", text=tmp_path / "symbols.txt", batch=2, engine="native"
    )
    read = decoded(np.stack(rows), symbols)
    assert found.samples == 5
    wrong = sum(edits(list(a), list(b)) for a, b in zip(texts, read, strict=True))
    assert found.char_error_rate == pytest.approx(wrong / sum(map(len, texts)))
    words = sum(edits(a.split(), b.split()) for a, b in zip(texts, read, strict=True))
    assert found.token_error_rate == pytest.approx(words / sum(len(t.split()) for t in texts))
    assert found.exact == sum(a == b for a, b in zip(texts, read, strict=True))
    done = xrt("eval", model, "--data", tmp_path / "lines.csv", "--text", tmp_path / "symbols.txt",
               "-e", "native", "--json", tmp_path / "r.json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "char_error_rate" in done.stdout
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["char_error_rate"] == pytest.approx(found.char_error_rate)
    assert report["token_error_rate"] == pytest.approx(found.token_error_rate)
    (tmp_path / "few.txt").write_text("a\nb\n")
    with pytest.raises(openxrt.InvalidArgument, match=r"\[batch, steps, 3\] is wanted"):
        openxrt.evaluate(model, tmp_path / "lines.csv", text=tmp_path / "few.txt", engine="native")


def test_a_fixed_batch_is_kept(tmp_path: Path, scores: tuple) -> None:
    with pytest.raises(openxrt.InvalidArgument, match=r"a batch of 8 .* made for 4: ask for 4"):
        openxrt.evaluate(scores_model(tmp_path / "m.onnx", 4), scores[0], batch=8)


@pytest.mark.parametrize("label", [7, -1])
def test_labels_beyond_the_classes(tmp_path: Path, scores: tuple, label: int) -> None:
    _, values, labels = scores
    labels[9] = label
    np.savez(tmp_path / "bad.npz", x=values, labels=labels)
    model = scores_model(tmp_path / "m.onnx")
    with pytest.raises(openxrt.InvalidArgument, match=f"sample 9: label {label} is none of .* 7"):
        openxrt.evaluate(model, tmp_path / "bad.npz", batch=4, engine="native")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_scores_that_are_no_numbers(tmp_path: Path, scores: tuple, value: float) -> None:
    _, values, labels = scores
    values[11, 3] = value
    np.savez(tmp_path / "bad.npz", x=values, labels=labels)
    model = scores_model(tmp_path / "m.onnx")
    with pytest.raises(openxrt.InvalidArgument, match=r"sample 11: .* NaN or infinity"):
        openxrt.evaluate(model, tmp_path / "bad.npz", batch=4, engine="native")


def test_bad_pictures(tmp_path: Path) -> None:
    for i, data in enumerate((encoded(picture(24, 24), "JPEG"), b"", b"\xff\xd8broken")):
        (tmp_path / "set" / "c").mkdir(parents=True, exist_ok=True)
        (tmp_path / "set" / "c" / f"{i}.jpg").write_bytes(data)
    model = picture_model(tmp_path / "m.onnx")
    with pytest.raises(openxrt.InvalidArgument, match=r"c/1\.jpg: the file is empty"):
        openxrt.evaluate(model, tmp_path / "set", engine="native")
    found = openxrt.evaluate(model, tmp_path / "set", engine="native", batch=3, skip_bad=True)
    assert (found.samples, found.skipped) == (1, 2)
    (tmp_path / "set" / "c" / "0.jpg").unlink()
    with pytest.raises(openxrt.InvalidArgument, match=r"none of .* 2 samples .*2\.jpg"):
        openxrt.evaluate(model, tmp_path / "set", engine="native", skip_bad=True)


def test_a_metric_that_fails_and_one_of_another_shape(tmp_path: Path, scores: tuple) -> None:
    model = scores_model(tmp_path / "m.onnx")

    def fails(outputs: np.ndarray, labels: np.ndarray) -> float:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        openxrt.evaluate(model, scores[0], metric=fails, engine="native")
    with pytest.raises(openxrt.InvalidArgument, match=r"shape \(2,\) for 1 samples"):
        openxrt.evaluate(model, scores[0], metric=lambda *_: np.zeros(2), engine="native")


def test_int8_agrees_with_float32(tmp_path: Path) -> None:
    weights = RNG.standard_normal((64, 10)).astype(np.float32)
    values = RNG.standard_normal((200, 64)).astype(np.float32)
    np.savez(tmp_path / "set.npz", x=values, labels=(values @ weights).argmax(1))
    model = save(
        tmp_path / "m.onnx",
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        ["N", 64],
        ["N", 10],
        [numpy_helper.from_array(weights, "w")],
    )
    found = openxrt.evaluate(
        model, tmp_path / "set.npz", batch=16, int8=True, compare="f32", engine="native"
    )
    assert found.reference_top == {1: 1.0}
    assert found.agreement == found.top_1 > 0.95
    assert 0.99 < found.cosine < 1  # it is another model


@pytest.mark.parametrize("far", [0.0, 60.0])
def test_int8_is_what_the_quantiser_writes(tmp_path: Path, far: float) -> None:
    """The file of openxrt.quantize on the same samples, its clipping too."""
    weights = RNG.standard_normal((64, 10)).astype(np.float32)
    values = RNG.standard_normal((40, 64)).astype(np.float32)
    values[:, 0] = far  # which "minmax" would keep
    data = tmp_path / "set.npz"
    np.savez(data, x=values, labels=np.zeros(40, np.int64))
    model = save(
        tmp_path / "m.onnx",
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        ["N", 64],
        ["N", 10],
        [numpy_helper.from_array(weights, "w")],
    )
    openxrt.quantize.quantize(model, tmp_path / "q.onnx", data=data, engine="native")
    program = openxrt.load(tmp_path / "q.onnx", engine="native")
    wanted = np.concatenate([program(row[None]) for row in values])
    seen: list[np.ndarray] = []
    openxrt.evaluate(
        model,
        data,
        int8=True,
        engine="native",
        metric=lambda outputs, _targets: seen.append(np.array(outputs)) or 0.0,
    )
    np.testing.assert_array_equal(np.concatenate(seen), wanted)
    # The command says what it chose.
    said = openxrt.quantize.quantize(model, tmp_path / "q.onnx", data=data, engine="native")
    done = xrt("eval", model, "--data", data, "-e", "native", "--int8")
    assert done.returncode == 0, done.stderr
    assert said.splitlines()[-1] in (
        "clipping: mse",
        "clipping: minmax",
        "clipping: moving_average",
    )
    assert ", " + said.splitlines()[-1].replace(":", "") in done.stdout


# --- the command ----------------------------------------------------------------------------------


def xrt(*arguments: object) -> subprocess.CompletedProcess[str]:
    program = next(path for path in _command.programs() if path.is_file())
    return subprocess.run(
        [program, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120
    )


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


# --- real data ------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["native", "openvino", "xla"])
def test_digits_as_scikit_learn_scores_them(tmp_path: Path, engine: str) -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    linear = pytest.importorskip("sklearn.linear_model")
    if not openxrt.doctor([engine])[0].available:
        pytest.skip(f"{engine} is not here")
    digits = datasets.load_digits()
    train, rest = slice(0, 1000), slice(1000, None)
    judge = linear.LogisticRegression(max_iter=3000).fit(
        digits.data[train] * (15 / 255), digits.target[train]
    )
    model = save(
        tmp_path / "digits.onnx",
        [
            helper.make_node("Flatten", ["x"], ["f"]),
            helper.make_node("Gemm", ["f", "w", "b"], ["y"]),
        ],
        ["N", 1, 8, 8],
        ["N", 10],
        [
            numpy_helper.from_array(judge.coef_.T.astype(np.float32), "w"),
            numpy_helper.from_array(judge.intercept_.astype(np.float32), "b"),
        ],
    )
    pairs = zip(digits.images[rest], digits.target[rest], strict=True)
    for i, (pixels, label) in enumerate(pairs):
        folder = tmp_path / "set" / str(label)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels * 15).astype(np.uint8)).save(folder / f"{i}.png")
    found = openxrt.evaluate(model, tmp_path / "set", batch=64, engine=engine, strict=True)
    assert found.top_1 == judge.score(digits.data[rest] * (15 / 255), digits.target[rest])
