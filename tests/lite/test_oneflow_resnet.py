# SPDX-License-Identifier: Apache-2.0
"""ResNet-50 as OneFlow saves it, compiled to one file; PyTorch's layers are the judge.

data/resnet50.mlir.gz is the `model.mlir` that OneFlow 0.9.0 wrote for
examples/oneflow/save_resnet50.py; the weights, 100 MB, are made here.
"""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import openxrt
import openxrt.lite
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
F = torch.nn.functional

TEXT = Path(__file__).resolve().parent / "data" / "resnet50.mlir.gz"
VARIABLE = re.compile(r'"oneflow\.variable"\(\) \{.*?op_name = "([^"]+)".*?-> tensor<([\dx]*)f32>')
Weights = dict[str, np.ndarray]


def values(name: str, dims: list[int], rng: np.random.Generator) -> np.ndarray:
    """Weights that keep the range of activations."""
    if name.endswith("running_var"):
        return rng.uniform(0.5, 1.5, dims).astype(np.float32)
    if len(dims) == 1:
        return (rng.standard_normal(dims) * 0.1 + (name.endswith("weight"))).astype(np.float32)
    fan_in = int(np.prod(dims[1:]))
    return (rng.standard_normal(dims) * np.sqrt(1 / fan_in)).astype(np.float32)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Weights]:
    """A folder as oneflow.save() writes it, and its variables."""
    folder = tmp_path_factory.mktemp("resnet50")
    text = gzip.decompress(TEXT.read_bytes()).decode()
    (folder / "model.mlir").write_text(text)
    rng = np.random.default_rng(0)
    weights = {}
    for name, dims in VARIABLE.findall(text):
        shape = [int(d) for d in dims.split("x") if d]
        weights[name.removeprefix("model.")] = array = values(name, shape, rng)
        (folder / name).mkdir()
        array.tofile(folder / name / "out")
        lines = "".join(f"  dim: {d}\n" for d in shape)
        (folder / name / "meta").write_text(f"shape {{\n{lines}}}\ndata_type: kFloat\n")
    assert len(weights) == 5 * 53 + 2
    return folder, weights


def resnet50(weights: Weights, image: np.ndarray) -> np.ndarray:
    """He and others, "Deep Residual Learning for Image Recognition", 2016, in float64."""
    w = {name: torch.from_numpy(array).double() for name, array in weights.items()}

    def conv(x, convolution: str, norm: str, stride: int = 1):
        kernel = w[f"{convolution}.weight"]
        x = F.conv2d(x, kernel, stride=stride, padding=kernel.shape[2] // 2)
        kinds = ("running_mean", "running_var", "weight", "bias")
        return F.batch_norm(x, *(w[f"{norm}.{kind}"] for kind in kinds))

    x = torch.from_numpy(image).double()
    x = F.max_pool2d(F.relu(conv(x, "conv1", "bn1", 2)), 3, 2, 1)
    for layer, blocks in enumerate((3, 4, 6, 3), 1):
        for block in range(blocks):
            at = f"layer{layer}.{block}"
            stride = 2 if layer > 1 and block == 0 else 1
            y = F.relu(conv(x, f"{at}.conv1", f"{at}.bn1"))
            y = F.relu(conv(y, f"{at}.conv2", f"{at}.bn2", stride))
            y = conv(y, f"{at}.conv3", f"{at}.bn3")
            if block == 0:
                x = conv(x, f"{at}.downsample.0", f"{at}.downsample.1", stride)
            x = F.relu(x + y)
    return F.linear(x.mean((2, 3)), w["fc.weight"], w["fc.bias"]).numpy()


@pytest.mark.parametrize("targets", ["generic", "x86"])
def test_resnet50(targets: str, saved: tuple[Path, Weights], tmp_path: Path) -> None:
    folder, weights = saved
    image = np.random.default_rng(1).standard_normal((1, 3, 224, 224), np.float32)
    wanted = resnet50(weights, image)
    openxrt.lite.compile(folder, tmp_path / "model.bin", targets=targets)
    model = openxrt.lite.Model(tmp_path / "model.bin", threads=2)
    (found,) = model.run({"input_0": image}).values()
    assert np.abs(found - wanted).max() < 1e-4 * np.ptp(wanted)


def test_the_same_on_an_engine(saved: tuple[Path, Weights]) -> None:
    folder, weights = saved
    image = np.random.default_rng(2).standard_normal((1, 3, 224, 224), np.float32)
    wanted = resnet50(weights, image)
    found = openxrt.load(folder, engine="native")(image)
    assert np.abs(found - wanted).max() < 1e-4 * np.ptp(wanted)
