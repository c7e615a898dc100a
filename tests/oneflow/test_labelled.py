# SPDX-License-Identifier: Apache-2.0
"""Part files that the tests write, read by OneFlow's own reader and by openxrt's."""

from pathlib import Path

import numpy as np
import pytest
from ofrecord_files import crops, encoded, part_file, record
from openxrt import _core

flow = pytest.importorskip("oneflow")
from oneflow import nn  # noqa: E402

SIZE, COUNT, PARTS = 40, 22, 3


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, list[tuple[np.ndarray, int]]]:
    """Pictures without loss, labels and lists of numbers, in three parts."""
    rng = np.random.default_rng(3)
    sources = [rng.integers(0, 256, (90, 70, 3), np.uint8) for _ in range(5)]
    samples = list(crops(sources, COUNT, SIZE))
    for part in range(PARTS):
        records = [
            record(
                encoded=("bytes_list", [encoded(pixels)]),
                class_label=("int32_list", [label]),
                mean=("float_list", [float(pixels.mean()), float(label)]),
            )
            for pixels, label in samples[part::PARTS]
        ]
        part_file(tmp_path / f"part-{part:05}", records)
    return tmp_path, [sample for part in range(PARTS) for sample in samples[part::PARTS]]


def read_by_oneflow(folder: Path) -> list[tuple[np.ndarray, int, np.ndarray]]:
    reader = nn.OFRecordReader(
        str(folder), batch_size=1, data_part_num=PARTS, part_name_suffix_length=5
    )
    labels = nn.OFRecordRawDecoder("class/label", shape=(), dtype=flow.int32)
    means = nn.OFRecordRawDecoder("mean", shape=(2,), dtype=flow.float32)
    pictures = nn.OFRecordBytesDecoder("encoded")
    found = []
    for _ in range(COUNT):
        batch = reader()
        (content,) = (np.asarray(each).tobytes() for each in pictures(batch).numpy())
        found.append((content, int(labels(batch).numpy().reshape(())), means(batch).numpy()[0]))
    return found


def test_oneflow_reads_what_openxrt_reads(
    written: tuple[Path, list[tuple[np.ndarray, int]]],
) -> None:
    folder, samples = written
    ours = _core.LabelledSet(
        folder,
        format="ofrecord",
        classes=None,
        picture_field="",
        label_field="",
        preset="",
        resize_shorter=None,
        crop=None,
        mean=None,
        std=None,
        scale=None,
        layout="auto",
        channels="rgb",
        limit=0,
        label_offset=0,
        skip_bad=False,
        workers=0,
    )
    assert len(ours) == COUNT
    for i, (content, label, mean) in enumerate(read_by_oneflow(folder)):
        pixels, wanted = samples[i]
        picture, _, found = ours.read(i)
        assert label == found == wanted
        assert content.rstrip(b"\0") == picture.rstrip(b"\0") == encoded(pixels).rstrip(b"\0")
        np.testing.assert_array_equal(mean, np.array([pixels.mean(), wanted], np.float32))
