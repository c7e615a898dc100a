# SPDX-License-Identifier: Apache-2.0
"""A folder of pictures is scored over a Ray cluster, into Parquet.

    python examples/ray_batch/score.py pictures scores --model model.onnx --workers 1 8

The model takes float32[n,3,height,width] of 0 to 1 and gives a row for each picture. Without
--address Ray starts a cluster of this machine's processors.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import openxrt.ray
import ray


def prepare(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Pictures as the model takes them: channels first, 0 to 1."""
    pictures = np.ascontiguousarray(batch["image"].transpose(0, 3, 1, 2), np.float32)
    return {"pictures": pictures / np.float32(255)}


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("pictures", type=Path, help="folder of JPEG and PNG files")
    words.add_argument("scores", type=Path, help="folder of Parquet files to write")
    words.add_argument("--model", type=Path, required=True)
    words.add_argument("--size", type=int, nargs=2, default=(224, 224), help="height, width")
    words.add_argument("--engine", default="native")
    words.add_argument("--workers", type=int, nargs=2, default=(1, 2), help="least, most")
    words.add_argument("--batch", type=int, default=16)
    words.add_argument(
        "--cache", type=Path, help="folder of compiled models that all processes see"
    )
    words.add_argument("--address", help="of a cluster that runs")
    given = words.parse_args()

    ray.init(address=given.address, include_dashboard=False)
    options = {"engine": given.engine}
    if given.cache:
        options["cache_dir"] = str(given.cache.absolute())
    pictures = ray.data.read_images(
        str(given.pictures), size=tuple(given.size), mode="RGB", include_paths=True
    )
    # The model's own names of its input and output are those of its first ones.
    model = openxrt.load(given.model, engine="native")
    scored = openxrt.ray.map_batches(
        pictures,
        given.model.absolute(),
        inputs={model.inputs[0].name: "pictures"},
        outputs={model.outputs[0].name: "scores"},
        keep=["path"],
        prepare=prepare,
        options=options,
        batch_size=given.batch,
        workers=tuple(given.workers),
    )
    scored.write_parquet(str(given.scores))
    print(f"{ray.data.read_parquet(str(given.scores)).count()} pictures scored")


if __name__ == "__main__":
    main()
