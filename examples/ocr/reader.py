# SPDX-License-Identifier: Apache-2.0
"""Reads the text in a picture with PP-OCRv6: what comes before, between and after its two networks.

    reader = Reader(detect, recognize, characters)     # two callables: array in, array out
    for line in reader.read(Image.open("page.png")):
        print(line.text, line.confidence, line.box)

Detection is a segmentation network (differentiable binarization, arXiv:1911.08947): it gives for
every pixel the probability of lying in the shrunken core of a text line. Cores are grouped into
connected components, each becomes the smallest rectangle of any angle around it, grown back to the
line's size. Recognition reads each straightened line as a sequence of character probabilities,
decoded greedily by the rule of connectionist temporal classification. Needs NumPy and Pillow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PIL import Image

CORE_THRESHOLD = 0.3  # probability from which a pixel belongs to a core
LINE_THRESHOLD = 0.6  # mean probability from which a component is a line
GROWTH = 1.6  # how far a core grows, in units of its area over its perimeter
LINE_HEIGHT = 48  # pixels, what the recognizer was trained on
BATCH = 8  # lines in one run of the recognizer

Network = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Line:
    """A line of text. The box is float64 [4, 2]: corners x, y from the top left, clockwise."""

    text: str
    confidence: float
    box: np.ndarray


def to_input(image: Image.Image, width: int, height: int) -> np.ndarray:
    """float32 [3, height, width] in -1 … 1, channels blue, green, red as in training."""
    image = image.convert("RGB").resize((width, height), Image.Resampling.BICUBIC)
    pixels = np.asarray(image, np.float32)[:, :, ::-1]
    return np.ascontiguousarray((pixels / 127.5 - 1.0).transpose(2, 0, 1))


def detection_input(image: Image.Image, long_side: int) -> np.ndarray:
    """float32 [1, 3, h, w]: the longer side about `long_side`, both sides multiples of 32."""
    scale = long_side / max(image.size)
    width, height = (max(32, round(side * scale / 32) * 32) for side in image.size)
    return to_input(image, width, height)[None]


def components(mask: np.ndarray) -> list[np.ndarray]:
    """Connected components (8 neighbours) of a boolean [h, w] mask, each int64 [runs, 3]: the row,
    first and last column of its horizontal runs.
    """
    padded = np.pad(mask, ((0, 0), (1, 1))).astype(np.int8)
    rows, edges = np.nonzero(np.diff(padded, axis=1))
    runs = np.stack([rows[::2], edges[::2], edges[1::2] - 1], axis=1)
    parent = np.arange(len(runs))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    starts = np.searchsorted(runs[:, 0], np.arange(mask.shape[0] + 1))
    for row in range(1, mask.shape[0]):
        above, here = starts[row - 1], starts[row]
        while above < starts[row] and here < starts[row + 1]:
            if runs[above, 1] <= runs[here, 2] + 1 and runs[here, 1] <= runs[above, 2] + 1:
                parent[root(here)] = root(above)
            if runs[above, 2] < runs[here, 2]:
                above += 1
            else:
                here += 1
    roots = np.array([root(index) for index in range(len(runs))], np.int64)
    return [runs[roots == label] for label in np.unique(roots)]


def convex_hull(points: np.ndarray) -> np.ndarray:
    """Corners of the convex hull of [n, 2] points, in order (monotone chain)."""
    points = np.unique(points, axis=0)

    def chain(ordered: np.ndarray) -> list[np.ndarray]:
        hull: list[np.ndarray] = []
        for point in ordered:
            while len(hull) > 1:
                (ax, ay), (bx, by) = hull[-1] - hull[-2], point - hull[-2]
                if ax * by - ay * bx > 0:
                    break
                hull.pop()
            hull.append(point)
        return hull[:-1]

    return np.array(chain(points) + chain(points[::-1])) if len(points) > 2 else points


def smallest_rectangle(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Centre [2], half sides [2] and axes [2, 2] (rows: along, across) of the rectangle of least
    area around the points. One of its sides lies on an edge of the convex hull, so only those
    angles are tried.
    """
    hull = convex_hull(points).astype(np.float64)
    edges = np.roll(hull, -1, axis=0) - hull
    angles = np.unique(np.arctan2(edges[:, 1], edges[:, 0]) % (np.pi / 2))
    best = None
    for angle in angles:
        axes = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        projected = hull @ axes.T
        low, high = projected.min(0), projected.max(0)
        area = np.prod(high - low)
        if best is None or area < best[0]:
            best = (area, (low + high) / 2 @ axes, (high - low) / 2, axes)
    _, centre, half, axes = best
    if abs(axes[0, 0]) < abs(axes[0, 1]):  # the first axis is the one nearer to the horizontal
        axes, half = axes[::-1], half[::-1]
    axes = axes * np.where([axes[0, 0] < 0, axes[1, 1] < 0], -1.0, 1.0)[:, None]
    return centre, half, axes


def text_boxes(probability: np.ndarray) -> list[np.ndarray]:
    """Boxes [4, 2] of text lines in the detector's [h, w] map, in reading order, in its pixels."""
    boxes = []
    for runs in components(probability > CORE_THRESHOLD):
        lengths = runs[:, 2] - runs[:, 1] + 1
        values = [probability[y, a : b + 1].sum() for y, a, b in runs]
        if lengths.sum() < 24 or np.sum(values) / lengths.sum() < LINE_THRESHOLD:
            continue
        y, left, right = runs.T
        corners = [(left, y), (left, y + 1), (right + 1, y), (right + 1, y + 1)]
        points = np.concatenate([np.stack(corner, axis=1) for corner in corners])
        centre, half, axes = smallest_rectangle(points)
        if half.min() < 1.5:
            continue
        half = half + GROWTH * half.prod() / half.sum()
        signs = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
        boxes.append(centre + (signs * half) @ axes)
    return reading_order(boxes)


def reading_order(boxes: list[np.ndarray]) -> list[np.ndarray]:
    """Top to bottom; boxes whose centres are within half a line's height of each other, left to
    right.
    """
    rows: list[list[np.ndarray]] = []
    for box in sorted(boxes, key=lambda box: box[:, 1].mean()):
        height = np.linalg.norm(box[3] - box[0])
        if rows and box[:, 1].mean() - rows[-1][-1][:, 1].mean() < height / 2:
            rows[-1].append(box)
        else:
            rows.append([box])
    return [box for row in rows for box in sorted(row, key=lambda box: box[:, 0].mean())]


def straightened(image: Image.Image, box: np.ndarray) -> Image.Image:
    """The part of the picture in the box, turned upright and scaled to the recognizer's height."""
    width, height = np.linalg.norm(box[1] - box[0]), np.linalg.norm(box[3] - box[0])
    size = (max(16, round(LINE_HEIGHT * width / max(height, 1.0))), LINE_HEIGHT)
    corners = box[[0, 3, 2, 1]].reshape(-1).tolist()  # Pillow wants them counter-clockwise
    return image.transform(size, Image.Transform.QUAD, corners, Image.Resampling.BICUBIC)


def recognition_inputs(lines: list[Image.Image]) -> list[np.ndarray]:
    """Batches float32 [n, 3, 48, w]; lines are filled up with grey to a multiple of 32."""
    batches = []
    for start in range(0, len(lines), BATCH):
        group = lines[start : start + BATCH]
        width = -(-max(line.width for line in group) // 32) * 32
        batch = np.zeros((len(group), 3, LINE_HEIGHT, width), np.float32)
        for row, line in zip(batch, group, strict=True):
            row[:, :, : line.width] = to_input(line, line.width, LINE_HEIGHT)
        batches.append(batch)
    return batches


def decode(probabilities: np.ndarray, characters: list[str]) -> tuple[str, float]:
    """Text and mean confidence of one line's [steps, classes]: the best class of each step, repeats
    merged, class 0 (blank) dropped.
    """
    best = probabilities.argmax(axis=1)
    kept = (best != 0) & (best != np.concatenate([[0], best[:-1]]))
    text = "".join(characters[label - 1] for label in best[kept])
    return text, float(probabilities.max(axis=1)[kept].mean()) if kept.any() else 0.0


class Reader:
    """The two networks and the character set, put together."""

    def __init__(
        self, detect: Network, recognize: Network, characters: list[str], long_side: int = 640
    ) -> None:
        self.detect = detect
        self.recognize = recognize
        self.characters = characters
        self.long_side = long_side

    def read(self, image: Image.Image) -> list[Line]:
        """The picture's lines of text in reading order; box corners in the picture's pixels."""
        image = image.convert("RGB")
        pixels = detection_input(image, self.long_side)
        scale = np.array(image.size) / np.array(pixels.shape[:1:-1])
        boxes = [box * scale for box in text_boxes(self.detect(pixels)[0, 0])]
        batches = recognition_inputs([straightened(image, box) for box in boxes])
        rows = [row for batch in batches for row in self.recognize(batch)]
        lines = []
        for box, row in zip(boxes, rows, strict=True):
            text, confidence = decode(row, self.characters)
            if text.strip():
                lines.append(Line(text, confidence, box))
        return lines
