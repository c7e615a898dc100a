# SPDX-License-Identifier: Apache-2.0
"""Readers of labelled data and the preparation of pictures: files that NumPy, Pillow and protobuf
wrote.
"""

import contextlib
import io
import struct
from pathlib import Path

import numpy as np
import openxrt
import openxrt.quantize
import pytest
from labelled_sets import RNG, labelled, picture, picture_model, save
from ofrecord_files import encoded, part_file, record
from onnx import helper
from PIL import Image

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
