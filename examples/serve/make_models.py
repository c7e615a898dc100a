#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the folder of models that the page of examples/serve asks: PP-OCRv6's two networks.

    pip install --no-deps rapidocr==3.10.0        # which holds the networks; it is not imported
    python make_models.py models/
    xrt serve models/

models/detect and models/read have an xrt.json each; models/characters.json is the character set.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import sys
from pathlib import Path

import onnx

NETWORKS = {"detect": "PP-OCRv6_det_small.onnx", "read": "PP-OCRv6_rec_small.onnx"}
# Sizes that most pictures have: the first request finds them compiled.
WARM_UP = {"detect": [1, 3, 640, 640], "read": [8, 3, 48, 320]}


def main() -> int:
    """Exit code 1 where rapidocr is not installed."""
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument("models", type=Path, help="folder that is made")
    words.add_argument("--engine", default="openvino,native", help="(default: %(default)s)")
    given = words.parse_args()
    spec = importlib.util.find_spec("rapidocr")
    if spec is None or not spec.submodule_search_locations:
        print("The networks are in the package rapidocr, see --help", file=sys.stderr)
        return 1
    source = Path(next(iter(spec.submodule_search_locations))) / "models"
    for name, file in NETWORKS.items():
        (given.models / name / "1").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / file, given.models / name / "1" / "model.onnx")
        model = onnx.load(source / file, load_external_data=False)
        settings = {
            "options": {"engine": given.engine},
            "warm_up": {model.graph.input[0].name: WARM_UP[name]},
            "timeout_ms": 10_000,
            "max_queue_size": 64,
        }
        (given.models / name / "xrt.json").write_text(json.dumps(settings, indent=1) + "\n")
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    characters = [*metadata["character"].split("\n"), " "]
    text = json.dumps(characters, ensure_ascii=False)
    (given.models / "characters.json").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
