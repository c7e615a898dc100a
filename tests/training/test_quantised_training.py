# SPDX-License-Identifier: Apache-2.0
"""Quantisation-aware training: a quantised network is trained on, and exported in int8."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import openxrt
import openxrt.quantize
import pytest
from openxrt import optim
from small_models import usable

torch = pytest.importorskip("torch")
sklearn_datasets = pytest.importorskip("sklearn.datasets")
onnxruntime = pytest.importorskip("onnxruntime")


def digits() -> tuple[np.ndarray, np.ndarray]:
    found = sklearn_datasets.load_digits()
    order = np.random.default_rng(0).permutation(len(found.images))
    images = (found.images / 16.0).astype(np.float32)[:, None]
    return images[order], found.target.astype(np.int64)[order]


def steps(trainer: openxrt.Trainer, images: np.ndarray, labels: np.ndarray, count: int) -> None:
    rng = np.random.default_rng(1)
    for _ in range(count):
        rows = rng.choice(1400, 64, replace=False)
        trainer.step(images[rows], target=labels[rows])


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """In float32, in int8 by samples, and trained on."""
    folder = tmp_path_factory.mktemp("digits")
    paths = {name: folder / f"{name}.onnx" for name in ("plain", "int8", "qat")}
    torch.manual_seed(0)
    nn = torch.nn
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(512, 10),
    )
    images, labels = digits()
    trainer = openxrt.Trainer.from_torch(
        net,
        (torch.from_numpy(images[:2]),),
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        optimizer=optim.SGD(learning_rate=0.02, momentum=0.9),
    )
    steps(trainer, images, labels, 200)
    paths["plain"].write_bytes(trainer.model().to_onnx())
    samples = [{trainer.input_names[0]: images[i : i + 32]} for i in range(0, 128, 32)]
    openxrt.quantize.quantize(paths["plain"], paths["int8"], calibration=samples)
    again = openxrt.Trainer(
        openxrt.quantize.trainable(paths["int8"]),
        optimizer=optim.SGD(learning_rate=0.002, momentum=0.9),
    )
    assert len(again.parameter_names) == 6  # weights and biases, no scale
    steps(again, images, labels, 60)
    openxrt.quantize.export_trained(again.model(), paths["qat"])
    paths["trainer"] = again
    return paths


def test_what_is_exported_is_what_was_trained(models: dict[str, Path]) -> None:
    onnx.checker.check_model(str(models["qat"]), full_check=True)
    graph = onnx.load(models["qat"]).graph
    small = {t.name for t in graph.initializer if t.data_type == onnx.TensorProto.INT8}
    assert len([name for name in small if name.endswith("/quantized")]) == 3, small
    assert [n.op_type for n in graph.node].count("QuantizeLinear") == [
        n.op_type for n in onnx.load(models["int8"]).graph.node
    ].count("QuantizeLinear")
    images, _ = digits()
    trained = models["trainer"].evaluate(images[1400:])[0]
    as_written = onnxruntime.SessionOptions()  # its integers saturate on processors without VNNI
    as_written.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (judged,) = onnxruntime.InferenceSession(models["qat"], as_written).run(
        None, {graph.input[0].name: images[1400:]}
    )
    error = np.abs(judged - trained).max() / np.abs(trained).max()
    assert error < 0.03


@pytest.mark.parametrize("engine", ["native", "openvino", "xla", "tvm", "onnxruntime"])
def test_accuracy(models: dict[str, Path], engine: str) -> None:
    images, labels = digits()
    test, truth = images[1400:], labels[1400:]

    def accuracy(path: Path, engine: str) -> float:
        if engine == "onnxruntime":
            session = onnxruntime.InferenceSession(path)
            scores = session.run(None, {session.get_inputs()[0].name: test})[0]
        else:
            scores = openxrt.load(path, engine=engine)(test)
        return float((scores.argmax(1) == truth).mean())

    if engine != "onnxruntime" and not usable(engine):
        pytest.skip(f"{engine} is not here")
    plain = accuracy(models["plain"], "native")
    assert plain > 0.95
    assert accuracy(models["qat"], engine) >= plain - 0.005


def test_a_model_without_quantised_weights_is_refused(models: dict[str, Path]) -> None:
    with pytest.raises(openxrt.InvalidArgument, match="no quantised weights: quantise it first"):
        openxrt.quantize.trainable(models["plain"])
