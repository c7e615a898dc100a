# SPDX-License-Identifier: Apache-2.0
"""An encoder and a decoder of trained weights in int8: titles for texts, token by token as ONNX
Runtime gives them.

    pip install --no-deps traceforge-title-model
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openxrt.generate
import pytest

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")
titles = pytest.importorskip("traceforge_title_model")

TEXTS = [
    "Fixed the parser so that it no longer crashes on empty input files.",
    "Read the file src/main.py and searched for all uses of the function load_config.",
    "Ran the unit tests, found three failures in the cache and repaired them.",
    "Installed the dependencies and configured the database connection for the new server.",
]
END = 1


def by_onnxruntime(folder: Path, tokens: list[int], count: int) -> list[int]:
    encoder, decoder = (
        onnxruntime.InferenceSession(folder / f"{part}.onnx", providers=["CPUExecutionProvider"])
        for part in ("encoder", "decoder")
    )
    given = np.array([tokens], np.int64)
    mask = np.ones_like(given)
    (hidden,) = encoder.run(None, {"input_ids": given, "attention_mask": mask})
    made = [0]
    while len(made) <= count and made[-1] != END:
        feeds = {
            "input_ids": np.array([made], np.int64),
            "encoder_hidden_states": hidden,
            "encoder_attention_mask": mask,
        }
        made.append(int(decoder.run(None, feeds)[0][0, -1].argmax()))
    return [token for token in made[1:] if token != END]


@pytest.mark.parametrize("engine", ["native", "onnxruntime,native"])
def test_titles(engine: str) -> None:
    folder = titles.span_dir()
    model = openxrt.generate.load(folder, engine=engine, num_threads=2)
    for text in TEXTS:
        found = model.generate(text, max_tokens=24, greedy=True)
        wanted = by_onnxruntime(folder, model.tokenizer.encode(text), 24)
        assert found.tokens == wanted, found.text
        assert len(found.text) > 5


@pytest.mark.parametrize("engine", ["native", "onnxruntime", "openvino", "xla"])
def test_encoder(engine: str) -> None:
    """From the first run on: no engine leaves it to the checks of results."""
    file = titles.span_dir() / "encoder.onnx"
    program = openxrt.load(file, engine=list({engine: 0, "native": 0}), check_results=False)
    judge = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    for length in (17, 9, 30):
        tokens = np.random.default_rng(length).integers(2, 30000, (1, length))
        feeds = {"input_ids": tokens, "attention_mask": np.ones_like(tokens)}
        (wanted,) = judge.run(None, feeds)
        (found,) = program.run(feeds).values()
        # A value that is rounded to another byte changes what follows: 3 hundredths are usual.
        noise = np.sqrt(np.mean((found - wanted) ** 2) / np.mean(wanted**2))
        assert noise < 0.05
