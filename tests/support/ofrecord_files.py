# SPDX-License-Identifier: Apache-2.0
"""Writes part files of OneFlow's OFRecord (oneflow/core/record/record.proto), with protobuf."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from PIL import Image

KINDS = ("bytes_list", "float_list", "double_list", "int32_list", "int64_list")


def of_record() -> type:
    """The message OFRecord."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="record.proto", package="test", syntax="proto2")
    types = (field.TYPE_BYTES, field.TYPE_FLOAT, field.TYPE_DOUBLE, field.TYPE_INT32)
    feature = descriptor_pb2.DescriptorProto(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, (kind, type_) in enumerate(zip(KINDS, (*types, field.TYPE_INT64), strict=True), 1):
        values = file.message_type.add(name=kind)
        value = values.field.add(name="value", number=1, type=type_, label=field.LABEL_REPEATED)
        value.options.packed = kind != "bytes_list"
        feature.field.add(
            name=kind,
            number=number,
            type=field.TYPE_MESSAGE,
            type_name=f".test.{kind}",
            label=field.LABEL_OPTIONAL,
            oneof_index=0,
        )
    file.message_type.append(feature)
    record = file.message_type.add(name="OFRecord")
    entry = record.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    entry.field.add(
        name="value",
        number=2,
        type=field.TYPE_MESSAGE,
        type_name=".test.Feature",
        label=field.LABEL_OPTIONAL,
    )
    record.field.add(
        name="feature",
        number=1,
        type=field.TYPE_MESSAGE,
        type_name=".test.OFRecord.FeatureEntry",
        label=field.LABEL_REPEATED,
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    message = pool.FindMessageTypeByName("test.OFRecord")
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(message)
    return message_factory.MessageFactory(pool).GetPrototype(message)  # protobuf 3, OneFlow's


RECORD = of_record()


def record(**fields: tuple[str, list]) -> bytes:
    """A serialised OFRecord; `class_label` is the field class/label."""
    made = RECORD()
    for name, (kind, values) in fields.items():
        getattr(made.feature[name.replace("_", "/")], kind).value.extend(values)
    return made.SerializeToString()


def part_file(path: Path, records: Iterable[bytes]) -> Path:
    """The records, each behind its length."""
    with path.open("wb") as file:
        for each in records:
            file.write(struct.pack("<q", len(each)) + each)
    return path


def encoded(pixels: np.ndarray, kind: str = "PNG", **options: object) -> bytes:
    """uint8 [height, width, 3] as the content of a picture's file."""
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind, **options)
    return stream.getvalue()


def crops(pictures: list[np.ndarray], count: int, size: int, seed: int = 0) -> Iterable[tuple]:
    """`count` squares out of pictures, each with the number of its picture."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        label = int(rng.integers(len(pictures)))
        height, width = pictures[label].shape[:2]
        side = int(rng.integers(min(size, height, width) // 2, min(height, width) + 1))
        top, left = (int(rng.integers(n - side + 1)) for n in (height, width))
        square = Image.fromarray(pictures[label][top : top + side, left : left + side])
        yield np.asarray(square.resize((size, size), Image.Resampling.BILINEAR)), label


def write_crops(
    folder: Path, pictures: list[np.ndarray], count: int, size: int = 224, parts: int = 4
) -> None:
    """A labelled set of `count` JPEGs in so many part files."""
    folder.mkdir(parents=True, exist_ok=True)
    made = crops(pictures, count, size)
    for part in range(parts):
        share = count // parts + (part < count % parts)
        records = (
            record(
                encoded=("bytes_list", [encoded(pixels, "JPEG", quality=90)]),
                class_label=("int32_list", [label]),
            )
            for pixels, label in (next(made) for _ in range(share))
        )
        part_file(folder / f"part-{part:05}", records)
