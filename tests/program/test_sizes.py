# SPDX-License-Identifier: Apache-2.0
"""Inputs whose sizes change from run to run, judged by ONNX Runtime."""

import numpy as np
import onnxruntime
import openxrt
import pytest
from encoder import encoder_feeds, encoder_model
from small_models import usable

ENGINES = ["native", "openvino", "onnxruntime", "xla", "auto"]
SIZES = [(1, 7), (1, 12), (1, 33), (2, 5), (3, 64), (1, 1), (8, 16), (2, 5), (1, 7), (5, 100)]


@pytest.fixture(scope="module")
def encoder() -> tuple[bytes, onnxruntime.InferenceSession]:
    """The model and its judge."""
    model = encoder_model()
    return model, onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("engine", ENGINES)
def test_an_encoder_at_many_sizes(
    encoder: tuple[bytes, onnxruntime.InferenceSession], engine: str
) -> None:
    if engine != "auto" and not usable(engine):
        pytest.skip(f"{engine} is not there")
    model, judge = encoder
    program = openxrt.load(model, engine=engine)
    for batch, sequence in SIZES:
        feeds = encoder_feeds(batch, sequence)
        (wanted,) = judge.run(None, feeds)
        np.testing.assert_allclose(program.run(feeds)["hidden"], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("engine", ["native", "openvino", "onnxruntime"])
def test_one_plan_serves_most_sizes(
    encoder: tuple[bytes, onnxruntime.InferenceSession], engine: str
) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not there")
    program = openxrt.load(encoder[0], engine=engine, strict=True)
    for length in range(3, 23):
        program.run(encoder_feeds(2, length))
    explanation = program.explain()
    assert len(explanation["launches"]) == 1
    assert explanation["launches"][0]["runs"] >= 18
    # Where it was made at loading the batch is open, too.
    assert any("sequence] mask int64[" in note for note in explanation["notes"])


def test_outputs_in_place_at_many_sizes(
    encoder: tuple[bytes, onnxruntime.InferenceSession],
) -> None:
    model, judge = encoder
    program = openxrt.load(model, engine="native")
    for length in range(3, 9):
        feeds = encoder_feeds(1, length)
        hidden = np.empty((1, length, 128), np.float32)
        assert program.run(feeds, out={"hidden": hidden})["hidden"] is hidden
        np.testing.assert_allclose(hidden, judge.run(None, feeds)[0], rtol=1e-4, atol=1e-4)
        with pytest.raises(openxrt.InvalidArgument, match="hidden"):
            program.run(feeds, out={"hidden": np.empty((1, length + 1, 128), np.float32)})
