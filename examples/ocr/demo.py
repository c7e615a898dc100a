#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the text in a picture with PP-OCRv6 on several engines and shows which ran what, how fast.

    ./dev demo                                         # the page that ships with the example
    ./dev demo receipt.jpg --engine native --engine openvino,native
    ./dev demo --cut                                   # also with each network cut in three

Per list of engines: median latency of both networks over interleaved rounds, the largest difference
of their outputs from the native engine's, and how many nodes each engine ran. Writes one HTML page
per network with its graph (which engine runs which node and why the others do not) and the picture
with its lines. "auto" measures which engine is the fastest on this machine, and says what it found.

Then the recognizer gets two more nodes, so that it returns text instead of probabilities. No engine
for numbers takes tensors of text: OpenVINO and the native engine run that model together.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openxrt
from PIL import Image, ImageDraw
from reader import Line, Reader

HERE = Path(__file__).resolve().parent
THIRDS = "openvino + xla + native"  # each network cut in three, one engine for each part
ENGINES = ["native", "openvino,native", "xla,native", "auto"]
NETWORKS = {"detection": "PP-OCRv6_det_small.onnx", "recognition": "PP-OCRv6_rec_small.onnx"}


@dataclass
class Run:
    """Both networks on one list of engines."""

    engines: str
    programs: dict[str, Any] = field(default_factory=dict)
    start_seconds: float = 0.0  # load, compile, first run
    outputs: dict[str, list[np.ndarray]] = field(default_factory=dict)
    milliseconds: dict[str, list[float]] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)


def model_folder() -> Path:
    """Folder of the networks in the installed package rapidocr, which is not imported."""
    spec = importlib.util.find_spec("rapidocr")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("The networks are in the package rapidocr: pip install --no-deps rapidocr==3.10.0")
    return Path(next(iter(spec.submodule_search_locations))) / "models"


def character_set(path: Path) -> list[str]:
    """The recognizer's characters by class, from the model's metadata; the last is a space."""
    metadata = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    return [*metadata["character"].split("\n"), " "]


def recorder(program: Any, inputs: list[np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """A network as the reader wants it, which also keeps what it was given."""

    def network(array: np.ndarray) -> np.ndarray:
        inputs.append(array)
        return program(array)

    return network


def load(path: Path, engines: str, native: Any) -> Any:
    """The network on `engines`. For THIRDS the nodes are dealt out by hand, which `node_engines`
    is for: a priority list would give all of them to the first engine, as it takes them all.
    """
    if engines == "auto":
        return openxrt.load(path, engine="auto", auto_mode="full", auto_budget_s=5)
    if engines != THIRDS:
        return openxrt.load(path, engine=engines.split(","))
    names = [node["name"] for node in native.explain()["nodes"]]
    parts = THIRDS.split(" + ")
    placed = {name: parts[i * len(parts) // len(names)] for i, name in enumerate(names)}
    return openxrt.load(path, engine=parts, node_engines=placed)


def start(
    engines: str, folder: Path, image: Image.Image, native: Run | None
) -> tuple[Run, dict[str, list[np.ndarray]]]:
    """Loads both networks on `engines` and reads the picture once; also returns the networks'
    inputs. `native` is the run whose nodes THIRDS deals out.
    """
    run = Run(engines)
    inputs: dict[str, list[np.ndarray]] = {name: [] for name in NETWORKS}
    begin = time.perf_counter()
    for name, file in NETWORKS.items():
        placed = native.programs[name] if native else None
        run.programs[name] = load(folder / file, engines, placed)
    detect, recognize = (recorder(run.programs[name], inputs[name]) for name in NETWORKS)
    characters = character_set(folder / NETWORKS["recognition"])
    run.lines = Reader(detect, recognize, characters).read(image)
    run.start_seconds = time.perf_counter() - begin
    return run, inputs


def measure(runs: list[Run], inputs: dict[str, list[np.ndarray]], rounds: int) -> None:
    """Runs every network of every run on the same inputs, one after the other, `rounds` times."""
    for name in NETWORKS:
        for run in runs:
            run.outputs[name] = [run.programs[name](array) for array in inputs[name]]
            run.milliseconds[name] = []
        for _ in range(rounds):
            for run in runs:
                begin = time.perf_counter()
                for array in inputs[name]:
                    run.programs[name](array)
                run.milliseconds[name].append((time.perf_counter() - begin) * 1e3)


def difference(run: Run, native: Run, name: str) -> float:
    """Largest absolute difference of a network's outputs (probabilities) from native's."""
    pairs = zip(run.outputs[name], native.outputs[name], strict=True)
    return max((float(np.abs(a - b).max()) for a, b in pairs), default=0.0)


def print_table(runs: list[Run], native: Run) -> None:
    """One row per list of engines."""
    width = max(len(run.engines) for run in runs)
    print(f"{'':{width}}    detection             recognition         first")
    print(f"{'engines':{width}}      ms  max diff         ms  max diff      run   nodes by engine")
    for run in runs:
        row = f"{run.engines:{width}}"
        for name in NETWORKS:
            median = statistics.median(run.milliseconds[name])
            row += f"{median:8.1f}  {difference(run, native, name):8.1e}   "
        counts: dict[str, int] = {}
        for program in run.programs.values():
            for engine, count in program.explain().nodes_per_engine.items():
                counts[engine] = counts.get(engine, 0) + count
        nodes = ", ".join(f"{engine} {count}" for engine, count in counts.items() if count)
        print(f"{row}{run.start_seconds:6.2f} s   {nodes}")


def print_choice(run: Run) -> None:
    """What "auto" had to choose from, per network."""
    for name, program in run.programs.items():
        told = program.explain()
        print(f"auto, {name} ({told['placement']}):")
        for row in told["candidates"]:
            time_text = f"{row['measured_us'] / 1e3:8.1f} ms" if row["measured_us"] else " " * 11
            mark = "chosen" if row["chosen"] else row["note"]
            print(f"  {row['plan']:20} {time_text}  {mark}")


def text_model(path: Path) -> bytes:
    """The recognizer with its characters: it returns text [lines, steps], "" for a blank."""
    model = onnx.load(path)
    characters = [b"", *(c.encode() for c in character_set(path))]
    graph = model.graph
    table = onnx.helper.make_tensor(
        "characters", onnx.TensorProto.STRING, [len(characters)], characters
    )
    graph.initializer.append(table)
    probabilities = graph.output[0].name
    graph.node.append(
        onnx.helper.make_node("ArgMax", [probabilities], ["classes"], axis=2, keepdims=0)
    )
    graph.node.append(onnx.helper.make_node("Gather", ["characters", "classes"], ["text"]))
    del graph.output[:]
    graph.output.append(
        onnx.helper.make_tensor_value_info("text", onnx.TensorProto.STRING, ["lines", "steps"])
    )
    return model.SerializeToString()


def read_as_text(path: Path, inputs: list[np.ndarray]) -> None:
    """Runs a model that no engine but the native one takes whole."""
    model = text_model(path)
    print("\nthe recognizer with its characters, a model that returns text:")
    for engines, strict in (("openvino", True), ("openvino,native", False)):
        try:
            program = openxrt.load(model, engine=engines.split(","), strict=strict)
            texts = [program(array) for array in inputs]
        except openxrt.Unsupported as error:
            print(f"  {engines} alone: {str(error).splitlines()[0][:100]} …")
            continue
        first = texts[0][0]
        steps = [c for i, c in enumerate(first) if i == 0 or c != first[i - 1]]
        counts = program.explain().nodes_per_engine
        nodes = ", ".join(f"{engine} {count}" for engine, count in counts.items() if count)
        print(f'  {engines}: "{"".join(steps)}"  ({nodes})')


def write_pages(run: Run, image: Image.Image, folder: Path) -> list[Path]:
    """The HTML page of each network and the picture with its lines."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{name}.html" for name in NETWORKS]
    for file, program in zip(files, run.programs.values(), strict=True):
        program.explain().to_html(file)
    scale = max(1, round(1000 / max(image.size)))
    picture = image.convert("RGB").resize((image.width * scale, image.height * scale))
    draw = ImageDraw.Draw(picture)
    for line in run.lines:
        draw.polygon([tuple(corner) for corner in line.box * scale], outline=(220, 30, 30), width=2)
    picture.save(folder / "lines.png")
    return [*files, folder / "lines.png"]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("picture", nargs="?", type=Path, default=HERE / "page.png")
    parser.add_argument(
        "--engine",
        action="append",
        metavar="A,B",
        help=f"engines in order of priority; may be repeated (default: {', then '.join(ENGINES)})",
    )
    parser.add_argument(
        "--cut",
        action="store_true",
        help=f"also deal the nodes of each network out to {THIRDS} by hand; slower than one engine",
    )
    parser.add_argument("--rounds", type=int, default=5, help="timed runs (default: %(default)s)")
    parser.add_argument(
        "--output", type=Path, default=HERE.parents[1] / "build" / "ocr", help="folder of the pages"
    )
    options = parser.parse_args()
    wanted = [*(options.engine or ENGINES), *([THIRDS] if options.cut else [])]
    wanted = ["native", *(engines for engines in wanted if engines != "native")]
    folder = model_folder()
    image = Image.open(options.picture)

    print(f"OpenXRT {openxrt.__version__} reads {options.picture.name} {image.size} with PP-OCRv6")
    runs: list[Run] = []
    inputs: dict[str, list[np.ndarray]] = {}
    failed = 0
    for engines in wanted:
        print(f"  starting {engines} …", flush=True)
        try:
            run, used = start(engines, folder, image, runs[0] if runs else None)
        except openxrt.Error as error:
            print(f"  {engines} cannot run: {error}")
            failed += 1
            continue
        runs.append(run)
        if engines == "native":
            inputs = used
    native = next((run for run in runs if run.engines == "native"), None)
    if native is None:
        return 1
    print("\nconfidence  text")
    for line in native.lines:
        print(f"{line.confidence:10.3f}  {line.text}")
    text = [line.text for line in native.lines]
    for run in runs:
        if [line.text for line in run.lines] != text:
            print(f"{run.engines} reads otherwise: {[line.text for line in run.lines]}")
            failed += 1
    print()
    measure(runs, inputs, max(1, options.rounds))
    print_table(runs, native)
    for run in runs:
        if run.engines == "auto":
            print()
            print_choice(run)
    read_as_text(folder / NETWORKS["recognition"], inputs["recognition"])
    print()
    for file in write_pages(runs[-1], image, options.output):
        print(f"wrote {file}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
