# SPDX-License-Identifier: Apache-2.0
"""Files that are no ONNX models are told by what they hold, with what to do; programs of
torch.export are imported."""

import io
import json
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import openxrt
import pytest


def archive(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name in names:
            file.writestr(name, b"\x80\x02.")
    return buffer.getvalue()


def safetensors() -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(4)


def message(*fields: tuple[int, bytes | int]) -> bytes:
    """A message of protocol buffers with fields of up to 127 bytes."""
    text = b""
    for number, value in fields:
        tag = number << 3 | (0 if isinstance(value, int) else 2)
        text += bytes([tag & 0x7F | 0x80, tag >> 7]) if tag > 127 else bytes([tag])
        text += bytes([value]) if isinstance(value, int) else bytes([len(value)]) + value
    return text


NODE_OF_TENSORFLOW = message((1, b"x"), (2, b"Placeholder"), (5, message((1, b"dtype"))))

FILES = {
    "module.pt": (
        archive("m/data.pkl", "m/constants.pkl", "m/code/m.py"),
        "TorchScript.*onnx.export",
    ),
    "state.pt": (archive("s/data.pkl", "s/data/0"), "torch.save.*XRTModule.*torch.onnx.export"),
    "old.pth": (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03", "pickle.*XRTModule"),
    "other.zip": (archive("readme.txt"), "ZIP archive: unpack"),
    "packed.zip": (archive("model.onnx"), "with an ONNX model in it: unpack"),
    "arrays.npz": (archive("a.npy"), "NumPy arrays"),
    "new.keras": (archive("config.json", "model.weights.h5"), "Keras.*format=.onnx"),
    "old.h5": (b"\x89HDF\r\n\x1a\n" + bytes(32), "HDF5.*tf2onnx"),
    "model.safetensors": (safetensors(), "safetensors.*no graph.*optimum"),
    "model.gguf": (b"GGUF\3\0\0\0" + bytes(16), "GGUF.*no graph"),
    "model.tflite": (b"\x1c\0\0\0TFL3" + bytes(32), "TensorFlow Lite.*tf2onnx"),
    "model.ort": (b"\x1c\0\0\0ORTM" + bytes(32), "ONNX Runtime's own format"),
    "model.pte": (b"\x1c\0\0\0ET12" + bytes(32), "ExecuTorch"),
    "frozen.pb": (message((1, NODE_OF_TENSORFLOW), (4, message((1, 27)))), "TensorFlow.*graphdef"),
    "saved_model.pb": (
        message((1, 1), (2, message((1, message((4, b"serve")))))),
        "SavedModel.*tf2onnx",
    ),
    "model.mlmodel": (message((1, 4), (2, b""), (500, message((1, b"")))), "Core ML"),
    "model.pdmodel": (message((1, message((1, 0), (2, 127)))), "PaddlePaddle.*paddle2onnx"),
    "model.xml": (b'<?xml version="1.0"?>\n<net name="n" version="11">', "OpenVINO.*ONNX file"),
    "feed.xml": (b'<?xml version="1.0"?>\n<rss>', "XML file, not a model"),
    "model.engine": (b"vtrt" + bytes(4) + b"\2" + bytes(32), "plan of TensorRT.*ONNX file"),
    "model.mlir": (b"module @m {\n}\n", "MLIR"),
    "page.onnx": (b"<!DOCTYPE html>\n<html>", "HTML: the download"),
    "pointer.onnx": (b"version https://git-lfs.github.com/spec/v1\noid", "git lfs pull"),
    "model.onnx.gz": (b"\x1f\x8b\x08" + bytes(32), "gzip: unpack"),
}


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_is_told_by_its_content(name: str, tmp_path: Path) -> None:
    content, advice = FILES[name]
    path = tmp_path / "anything"
    path.write_bytes(content)
    with pytest.raises(openxrt.InvalidModel, match=f"(?s)anything': not an ONNX model.*{advice}"):
        openxrt.load(path)


def test_names_of_producers_are_no_signatures() -> None:
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    for producer in ("TFL3", "ORTM", "GGUF", "<net "):
        model = onnx.helper.make_model(graph, producer_name=producer, ir_version=8)
        openxrt.load(model.SerializeToString(), engine="native")


class TestTorchExport:
    """openxrt.load() of what torch.export.save() wrote."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        torch = pytest.importorskip("torch")
        module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.GELU())
        samples = (torch.ones(2, 4),)
        rows = torch.export.Dim("rows")
        program = torch.export.export(module, samples, dynamic_shapes=({0: rows},))
        path = tmp_path / "model.pt2"
        torch.export.save(program, path)
        return path

    def test_it_is_imported(self, path: Path) -> None:
        import torch

        module = torch.export.load(path).module()
        program = openxrt.load(path, engine="native", cache_dir="")
        for rows in (2, 5):
            x = np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)
            expected = module(torch.from_numpy(x)).detach().numpy()
            np.testing.assert_allclose(program(x), expected, rtol=1e-5, atol=1e-6)

    def test_its_name_tells_what_it_is(self, path: Path) -> None:
        """PyTorch runs code that it may hold: nobody may pass one off as an ONNX file."""
        other = path.rename(path.with_suffix(".onnx"))
        with pytest.raises(openxrt.Unsupported, match=r"runs code .* ends with \.pt2"):
            openxrt.load(other)

    @pytest.mark.parametrize(
        ("member", "content"),
        [("model.json", b"{}"), ("model.json", b"["), ("model.pt", b"abc"), ("version", b"9")],
    )
    def test_a_damaged_one(self, member: str, content: bytes, path: Path) -> None:
        damaged = path.with_stem("damaged")
        with zipfile.ZipFile(path) as old, zipfile.ZipFile(damaged, "w") as new:
            for info in old.infolist():
                is_it = info.filename.endswith(member)
                new.writestr(info.filename, content if is_it else old.read(info))
        with pytest.raises(openxrt.InvalidModel, match=r"damaged\.pt2"):
            openxrt.load(damaged)

    def test_buffers_that_are_written_need_a_module(self, tmp_path: Path) -> None:
        torch = pytest.importorskip("torch")

        class Counter(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("count", torch.zeros(1))

            def forward(self, x: "torch.Tensor") -> "torch.Tensor":
                self.count += 1
                return x + self.count

        path = tmp_path / "counter.pt2"
        torch.export.save(torch.export.export(Counter(), (torch.ones(1),)), path)
        with pytest.raises(openxrt.Unsupported, match=r"writes its buffers.*XRTModule"):
            openxrt.load(path)

    def test_without_pytorch_it_says_what_to_install(self, path: Path) -> None:
        script = (
            "import sys\n"
            "sys.modules['torch'] = None\n"
            "import openxrt\n"
            "try:\n"
            f"    openxrt.load({str(path)!r})\n"
            "except openxrt.Unsupported as error:\n"
            "    print(error)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        )
        assert "a program of torch.export" in done.stdout
        assert "install torch" in done.stdout

    def test_bytes_say_what_they_are(self, path: Path) -> None:
        with pytest.raises(openxrt.InvalidModel, match=r"torch.export saved: openxrt.load\(\)"):
            openxrt.load(path.read_bytes())
