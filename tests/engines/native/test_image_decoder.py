# SPDX-License-Identifier: Apache-2.0
"""ImageDecoder of the native engine, against Pillow."""

from __future__ import annotations

import io
import zlib

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper
from PIL import Image
from small_models import model_proto, tensor, untyped

RNG = np.random.default_rng(8)


def decode(content: bytes, pixel_format: str = "RGB") -> np.ndarray:
    node = helper.make_node("ImageDecoder", ["x"], ["y"], pixel_format=pixel_format)
    model = model_proto(
        [node],
        [tensor("x", TensorProto.UINT8, ["n"])],
        [untyped("y")],
        opset=20,
    )
    program = openxrt.load(model.SerializeToString(), engine=["native"])
    return program.run({"x": np.frombuffer(content, np.uint8)})["y"]


def picture(mode: str, width: int = 37, height: int = 21) -> Image.Image:
    """Smooth, so that the lossy format keeps it."""
    y, x = np.mgrid[0:height, 0:width]
    waves = [127 + 120 * np.sin(x / (5 + c) + y / (9 - c)) for c in range(3)]
    return Image.fromarray(np.stack(waves, 2).astype(np.uint8)).convert(mode)


def encoded(image: Image.Image, format_: str, **options: object) -> bytes:
    with io.BytesIO() as file:
        image.save(file, format_, **options)
        return file.getvalue()


CASES = {
    "png": encoded(picture("RGB"), "png"),
    "png_grey": encoded(picture("L"), "png"),
    "png_palette": encoded(picture("P"), "png"),
    "png_1_bit": encoded(picture("1"), "png"),
    "jpeg": encoded(picture("RGB"), "jpeg"),
    "jpeg_grey": encoded(picture("L"), "jpeg"),
    "jpeg_progressive": encoded(picture("RGB"), "jpeg", progressive=True, quality=95),
    "bmp": encoded(picture("RGB"), "bmp"),
    "bmp_palette": encoded(picture("P"), "bmp"),
    "bmp_grey": encoded(picture("L"), "bmp"),
    "bmp_32_bits": encoded(picture("RGBA"), "bmp"),
    "ppm": encoded(picture("RGB"), "ppm"),
    "pgm": encoded(picture("L"), "ppm"),
    "ppm_text": b"P3 # a comment\n2 1\n 15\n15 0 5\n3 3 3\n",
    "pgm_text": b"P2\n3 1 4\n0 2 4",
}


@pytest.mark.parametrize("pixel_format", ["RGB", "BGR", "Grayscale"])
@pytest.mark.parametrize("name", CASES)
def test_as_pillow_has_it(name: str, pixel_format: str) -> None:
    image = Image.open(io.BytesIO(CASES[name]))
    rgb = np.array(image.convert("RGB"))
    wanted = {
        "RGB": rgb,
        "BGR": rgb[:, :, ::-1],
        "Grayscale": np.array(Image.fromarray(rgb).convert("L"))[:, :, None],
    }[pixel_format]
    got = decode(CASES[name], pixel_format)
    assert got.shape == wanted.shape and got.dtype == np.uint8
    # Two decoders of one lossy format may round differently, and scales of levels, too.
    slack = 1 if name.startswith("jpeg") or name.endswith("text") else 0
    assert np.abs(got.astype(int) - wanted).max() <= slack


@pytest.mark.parametrize("name", CASES)
def test_pictures_that_are_cut_short_are_errors(name: str) -> None:
    content = CASES[name]
    for length in (3, len(content) // 3, len(content) // 2):
        with pytest.raises(openxrt.Error, match="ImageDecoder"):
            decode(content[:length])


@pytest.mark.parametrize("name", [name for name in CASES if "text" not in name])
def test_damaged_pictures_do_no_harm(name: str) -> None:
    """Either some picture or an error."""
    for _ in range(40):
        content = bytearray(CASES[name])
        for at in RNG.integers(2, min(len(content), 120), 3):
            content[at] = RNG.integers(0, 256)
        try:
            decode(bytes(content))
        except openxrt.Error as error:
            assert "ImageDecoder" in str(error)


def test_memory_stays_in_proportion_to_the_bytes() -> None:
    """Few bytes that claim 16,000 × 16,000 pixels are refused; a large plain picture fits."""
    side = (16000).to_bytes(4, "big")
    header = b"IHDR" + side + side + bytes([8, 2, 0, 0, 0])
    check = zlib.crc32(header).to_bytes(4, "big")
    rest = CASES["png"][CASES["png"].index(b"IDAT") - 4 :]
    png = b"\x89PNG\r\n\x1a\n" + (13).to_bytes(4, "big") + header + check + rest
    jpeg = bytearray(CASES["jpeg"])
    frame = jpeg.index(b"\xff\xc0") + 5
    jpeg[frame : frame + 4] = side[2:] + side[2:]
    for content in (png, bytes(jpeg)):
        with pytest.raises(openxrt.Error, match="too large for its bytes"):
            decode(content)
    for format_ in ("png", "jpeg"):
        plain = encoded(Image.new("L", (3000, 2000), 77), format_)
        assert (decode(plain) == 77).all()


def test_other_formats_are_refused_by_name() -> None:
    for format_ in ("tiff", "webp"):
        with pytest.raises(openxrt.Unsupported, match="neither PNG, JPEG, BMP nor PNM"):
            decode(encoded(picture("RGB"), format_))
