# SPDX-License-Identifier: Apache-2.0
"""Damaged pictures and records: pixels or an error, within bounds of memory; never a crash."""

import io
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import openxrt
import pytest
from ofrecord_files import encoded, part_file, record
from onnx import TensorProto, helper
from PIL import Image
from process_growth import PRINT_PEAK
from small_models import make_model, tensor

RNG = np.random.default_rng(11)
PICTURE = RNG.integers(0, 256, (60, 45, 3), np.uint8)
FORMATS = {
    "baseline": ("JPEG", {"quality": 85}),
    "progressive": ("JPEG", {"quality": 85, "progressive": True}),
    "png": ("PNG", {}),
    "bmp": ("BMP", {}),
    "ppm": ("PPM", {}),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> openxrt.Program:
    """The mean of each channel."""
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["p"]),
        helper.make_node("Flatten", ["p"], ["y"]),
    ]
    made = make_model(
        nodes,
        [tensor("x", TensorProto.FLOAT, ["N", 3, 16, 16])],
        [tensor("y", TensorProto.FLOAT, ["N", 3])],
    )
    return openxrt.load(made, engine="native", cache_dir="")


def damaged(content: bytes, seed: int) -> bytes:
    """Cut short, bits turned, a piece overwritten or left out."""
    rng = np.random.default_rng(seed)
    data = np.frombuffer(content, np.uint8).copy()
    kind = seed % 4
    if kind == 0:
        return data[: rng.integers(1, len(data))].tobytes()
    if kind == 1:
        for at in rng.integers(0, len(data), rng.integers(1, 9)):
            data[at] ^= np.uint8(1 << rng.integers(8))
        return data.tobytes()
    begin, end = sorted(int(n) for n in rng.integers(0, len(data), 2))
    if kind == 2:
        data[begin:end] = rng.integers(0, 256, end - begin, np.uint8)
        return data.tobytes()
    return data[:begin].tobytes() + data[end:].tobytes()


@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_pictures(kind: str, tmp_path: Path, model: openxrt.Program) -> None:
    name, options = FORMATS[kind]
    good = encoded(PICTURE, name, **options)
    pictures = [good, *(damaged(good, seed) for seed in range(200))]
    part_file(
        tmp_path / "part-00000",
        [
            record(encoded=("bytes_list", [each]), class_label=("int32_list", [i % 3]))
            for i, each in enumerate(pictures)
        ],
    )
    found = openxrt.evaluate(model, tmp_path, skip_bad=True, batch=7, resize_shorter=16, crop=16)
    assert found.samples + found.skipped == len(pictures)
    assert found.samples >= 1
    if kind != "ppm":
        assert found.skipped > 0
    for text in found.skipped_because:
        assert "part-00000 at byte" in text


def test_damaged_part_files(tmp_path: Path, model: openxrt.Program) -> None:
    good = part_file(
        tmp_path / "good",
        [
            record(encoded=("bytes_list", [encoded(PICTURE)]), class_label=("int32_list", [n]))
            for n in range(3)
        ],
    ).read_bytes()
    for seed in range(120):
        folder = tmp_path / str(seed)
        folder.mkdir()
        (folder / "part-00000").write_bytes(damaged(good, seed))
        try:
            openxrt.evaluate(model, folder, skip_bad=True, resize_shorter=16, crop=16)
        except openxrt.Error as error:
            assert str(folder) in str(error) or "label" in str(error), error


def png_of(width: int, height: int) -> bytes:
    """A header that claims so much, and one row of pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0" * (1 + 3 * min(width, 30000)))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


def jpeg_of(width: int, height: int, *, progressive: bool) -> bytes:
    """A small picture whose header claims so much."""
    data = bytearray(encoded(PICTURE, "JPEG", progressive=progressive))
    at = data.index(b"\xff\xc2" if progressive else b"\xff\xc0")
    data[at + 5 : at + 9] = struct.pack(">HH", height, width)
    return bytes(data)


def jpeg_of_scans(count: int) -> bytes:
    """A large grey picture, and scans of ten bytes that each go over all of it."""
    data = encoded(np.zeros((4000, 4000), np.uint8), "JPEG", progressive=True)
    scan = b"\xff\xda\0\x08\x01\x01\0\x01\x3f\0"
    return data[:-2] + scan * count + data[-2:]


BOMBS = {
    "png": png_of(30000, 30000),
    "png2": png_of(2**31 - 1, 2**31 - 1),
    "baseline": jpeg_of(65500, 65500, progressive=False),
    "progressive": jpeg_of(30000, 30000, progressive=True),
    "scans": jpeg_of_scans(50_000),
    "bmp": encoded(PICTURE, "BMP")[:18]
    + struct.pack("<ii", 30000, 30000)
    + b"\1\0\x18\0"
    + b"\0" * 99,
    "ppm": b"P6 30000 30000 255\n" + b"\0" * 99,
}

READS = """
import sys, openxrt
try:
    openxrt.evaluate("model.onnx", sys.argv[1], engine="native", resize_shorter=16, crop=16)
except openxrt.InvalidArgument as error:
    print(error)
"""


@pytest.mark.parametrize("kind", BOMBS)
def test_a_header_that_claims_too_much(kind: str, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["p"]),
        helper.make_node("Flatten", ["p"], ["y"]),
    ]
    (tmp_path / "model.onnx").write_bytes(
        make_model(
            nodes,
            [tensor("x", TensorProto.FLOAT, ["N", 3, 16, 16])],
            [tensor("y", TensorProto.FLOAT, ["N", 3])],
        )
    )
    folder = tmp_path / "set" / "c"
    folder.mkdir(parents=True)
    ending = {"png2": "png", "baseline": "jpg", "progressive": "jpg", "scans": "jpg"}.get(
        kind, kind
    )
    (folder / f"a.{ending}").write_bytes(BOMBS[kind])
    done = subprocess.run(
        [sys.executable, "-c", READS + PRINT_PEAK, "set"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    message, peak = done.stdout.rsplit("\n", 2)[0], int(done.stdout.split()[-1])
    assert f"a.{ending}" in message
    assert peak < 400 * 1024, "KiB"


def test_pillow_reads_what_is_right() -> None:
    """The damage of these tests is damage: the pictures without it are right."""
    for name, options in FORMATS.values():
        content = encoded(PICTURE, name, **options)
        assert Image.open(io.BytesIO(content)).size == (45, 60)
