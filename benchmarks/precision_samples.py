# SPDX-License-Identifier: Apache-2.0
"""What precision.py calibrates and judges its models with: real pictures, text, sound and files.

    calibration, judged = CASES["minilm"].samples()

Nothing that is judged was calibrated with: the two take turns in the list of pictures, sentences or
files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from zoo import REPOSITORY, Feeds, noise, package_dir, page, photograph, speech, token_feeds

COUNT = 16  # samples of either kind


@dataclass(frozen=True)
class Case:
    """Samples of a model of the zoo, and what its answer is."""

    name: str
    everything: Callable[[], list[Feeds]]
    same: Callable[[list[np.ndarray], list[np.ndarray]], float]  # of the first output

    def samples(self) -> tuple[list[Feeds], list[Feeds]]:
        """For calibration, and to be judged with."""
        found = self.everything()
        return found[::2][:COUNT], found[1::2][:COUNT]

    def agreement(self, wanted: list[Feeds], found: list[Feeds]) -> float:
        """The part of the answers that are the same."""
        return self.same([x["0"] for x in wanted], [x["0"] for x in found])


# --- answers -------------------------------------------------------------------------------------


def largest(wanted: list[np.ndarray], found: list[np.ndarray]) -> float:
    """The index of the largest score, for each row of scores."""
    pairs = zip(wanted, found, strict=True)
    return float(np.mean([(w.argmax(-1) == f.argmax(-1)).mean() for w, f in pairs]))


def one_side(wanted: list[np.ndarray], found: list[np.ndarray]) -> float:
    """On which side of 0.3 a score lies: text or background, a note or none."""
    pairs = zip(wanted, found, strict=True)
    return float(np.mean([((w > 0.3) == (f > 0.3)).mean() for w, f in pairs]))


def nearest(wanted: list[np.ndarray], found: list[np.ndarray]) -> float:
    """Which other sentence is nearest, by the cosine of the sums of their tokens."""

    def neighbours(outputs: list[np.ndarray]) -> np.ndarray:
        vectors = np.stack([x.reshape(-1, x.shape[-1]).mean(0) for x in outputs])
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        cosines = vectors @ vectors.T
        np.fill_diagonal(cosines, -1)
        return cosines.argmax(1)

    return float((neighbours(wanted) == neighbours(found)).mean())


# --- samples -------------------------------------------------------------------------------------


def pictures(size: int) -> list[Feeds]:
    """The colour photographs of scikit-image, as they are and mirrored."""
    from PIL import Image

    folder = package_dir("skimage")
    if folder is None:
        raise FileNotFoundError(
            "photographs come from scikit-image: pip install --no-deps scikit-image"
        )
    files = []
    for file in sorted((folder / "data").iterdir()):
        if file.suffix not in (".png", ".jpg", ".jpeg"):
            continue
        with Image.open(file) as image:
            if image.mode == "RGB" and min(image.size) >= 200:
                files.append(file.name)
    whole = [photograph(file, size) for file in files]
    mirrored = [np.ascontiguousarray(x[..., ::-1]) for x in whole]
    # Both forms of a picture are on one side.
    pairs = [x for pair in zip(whole, mirrored, strict=True) for x in pair]
    order = [i for k in range(0, len(pairs), 4) for i in (k, k + 2, k + 1, k + 3)]
    return [{"x": pairs[i]} for i in order if i < len(pairs)]


def parts_of_page(width: int, height: int, box: tuple[int, int], step: int) -> list[Feeds]:
    """Boxes of that width and height all over the page of examples/ocr."""
    from PIL import Image

    with Image.open(REPOSITORY / "examples" / "ocr" / "page.png") as image:
        right, bottom = image.size[0] - box[0], image.size[1] - box[1]
    places = [(x, y) for y in range(0, bottom + 1, step) for x in range(0, right + 1, 2 * step)]
    chosen = places[:: max(1, len(places) // (2 * COUNT))]
    return [{"x": page(width, height, (x, y, x + box[0], y + box[1]))} for x, y in chosen]


# Each says what its neighbour says: the nearest other sentence is the one beside it.
PARAPHRASES = (
    (
        "How do I return a pair of shoes that does not fit?",
        "Can I send back footwear of the wrong size?",
    ),
    (
        "The train to the coast leaves at half past nine.",
        "At 9:30 a train departs for the seaside.",
    ),
    (
        "Heavy rain flooded several streets of the town.",
        "Some roads in the city were under water after a storm.",
    ),
    ("She plays the violin in a small orchestra.", "She is a violinist of a little ensemble."),
    (
        "Bake the bread for forty minutes until it is brown.",
        "The loaf stays in the oven for 40 minutes.",
    ),
    (
        "The bank raised its interest rate by a quarter of a percent.",
        "Borrowing money became slightly more expensive.",
    ),
    ("Children under six travel free of charge.", "No ticket is needed for a five-year-old."),
    (
        "The telescope found a planet around a distant star.",
        "Astronomers discovered a world outside the solar system.",
    ),
)


def sentences() -> list[Feeds]:
    """To calibrate with, those of the examples' texts that are long enough to say something; to be
    judged, PARAPHRASES."""
    files = [REPOSITORY / "examples" / name for name in ("training/text.txt", "pytorch/fable.txt")]
    text = " ".join(" ".join(file.read_text(encoding="utf-8").split()) for file in files)
    found = [each for each in re.split(r"(?<=[.!?]) ", text) if len(each) > 60][:COUNT]
    judged = [each for pair in PARAPHRASES for each in pair]
    mixed = [each for both in zip(found, judged, strict=True) for each in both]
    return [token_feeds([each], 128) for each in mixed]


def sounds() -> list[Feeds]:
    """A vowel-like tone, louder and softer, under changing noise."""
    samples = []
    for i in range(2 * COUNT):
        mixed = speech(43844) * (0.3 + 0.05 * i) + 0.02 * noise(i, 1, 43844)
        samples.append({"serving_default_input_2:0": mixed[..., None].astype(np.float32)})
    return samples


def files() -> list[Feeds]:
    """The first and the last 1,024 bytes of files of the repository."""
    patterns = ("src/base/*.cc", "docs/guides/*.md", "docs/**/*.svg", "docs/**/*.json", "*.toml")
    found = [file for pattern in patterns for file in sorted(REPOSITORY.glob(pattern))[:8]]
    samples = []
    for file in found:
        content = file.read_bytes().ljust(1024, b"\n")
        ends = content[:1024] + content[-1024:]
        samples.append({"bytes": np.frombuffer(ends, np.uint8).astype(np.int32)[None]})
    return samples


_CASES = [
    Case("efficientnet_lite0", lambda: pictures(224), largest),
    Case("resnet50", lambda: pictures(224), largest),
    Case("mobilenet_v2", lambda: pictures(224), largest),
    Case("squeezenet1_1", lambda: pictures(224), largest),
    Case("inception_v3", lambda: pictures(299), largest),
    Case("ppocr_v6_det", lambda: parts_of_page(640, 320, (300, 150), 6), one_side),
    Case("ppocr_v6_rec", lambda: parts_of_page(432, 48, (288, 32), 12), largest),
    Case("ppocr_v2_cls", lambda: parts_of_page(192, 48, (128, 32), 12), largest),
    Case("minilm", sentences, nearest),
    Case("basic_pitch", sounds, one_side),
    Case("magika", files, largest),
]
CASES = {case.name: case for case in _CASES}
