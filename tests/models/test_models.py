# SPDX-License-Identifier: Apache-2.0
"""Real models on every list of engines.

Models that packages ship are compared with ONNX's reference evaluator in double precision, whose
results expected.py has computed once; models that are exported from PyTorch, with PyTorch in double
precision. By default the models that ship in small packages run; ``XRT_TEST_MODELS=all`` runs every
model of benchmarks/zoo.py that is in the model folder (benchmarks/export_models.py makes them).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import openxrt
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import expected
from expected import ILL_CONDITIONED, TOLERANCE, Output, zoo

ENGINES = (["native"], ["openvino", "native"], ["xla", "native"], ["openvino", "xla", "native"])
IMAGENET = {"chelsea.png": 285, "coffee.png": 967}


def models() -> list[zoo.ZooModel]:
    """The models of this run."""
    everything = os.environ.get("XRT_TEST_MODELS") == "all"
    return [model for model in zoo.ZOO.values() if everything or model.quick]


@pytest.fixture(scope="module")
def kept() -> dict[str, dict[str, Output]]:
    """What models must compute, by model and output; PyTorch's results are added as they come."""
    return expected.load()


def torch_output(model: zoo.ZooModel) -> dict[str, Output]:
    """By the network that the ONNX file was exported from."""
    torch = pytest.importorskip("torch", reason="pip install torch: what the model comes from")
    from export_models import torch_inputs, torch_network

    with torch.no_grad():
        network = torch_network(model.name).double()
        inputs = [x.double() if x.is_floating_point() else x for x in torch_inputs(model.feeds())]
        return {"y": Output.of(network(*inputs).numpy())}


def wanted_outputs(model: zoo.ZooModel, known: dict[str, dict[str, Output]]) -> dict[str, Output]:
    if model.export and model.name not in known:
        known[model.name] = torch_output(model)
    if not model.export and expected.stored_digest(model.name) != expected.digest(model.path()):
        pytest.fail(f"another file than the expected values are of: expected.py {model.name}")
    return known[model.name]


def check(program: Any, model: zoo.ZooModel, wanted: dict[str, Output], outputs: list[str]) -> None:
    results = program.run(model.feeds())
    assert list(results) == outputs
    for name in outputs:
        got, want = results[name], wanted[name]
        assert got.shape == want.shape, name
        if got.size:
            worst = want.worst(got)
            assert worst <= TOLERANCE, f"{name}: {worst:.1e} of the range of {want.span:g}"


@pytest.mark.parametrize("engines", ENGINES, ids=",".join)
@pytest.mark.parametrize("model", models(), ids=lambda model: model.name)
def test_model_computes_what_it_must(
    model: zoo.ZooModel, engines: list[str], kept: dict[str, dict[str, Output]]
) -> None:
    """Largest difference at most a thousandth of the output's range."""
    if reason := model.why_missing():
        pytest.skip(reason)
    wanted = wanted_outputs(model, kept)
    inner = ILL_CONDITIONED.get(model.name)
    if inner:
        program = openxrt.load(expected.cut_at(model.path(), inner), engine=engines)
        check(program, model, wanted, [inner])
    else:
        program = openxrt.load(model.path(), engine=engines)
        check(program, model, wanted, [name for name in wanted if name != inner])
    if engines[0] != "native":
        assert program.explain().nodes_per_engine.get(engines[0], 0) > 0


@pytest.mark.parametrize("name", ILL_CONDITIONED)
def test_ill_conditioned_model_runs_whole(name: str, kept: dict[str, dict[str, Output]]) -> None:
    """Natively, where equal sums are added in one order."""
    model = zoo.ZOO[name]
    wanted = wanted_outputs(model, kept)
    outputs = [output for output in wanted if output != ILL_CONDITIONED[name]]
    check(openxrt.load(model.path(), engine=["native"]), model, wanted, outputs)


@pytest.mark.parametrize("picture", IMAGENET)
def test_efficientnet_names_what_is_in_the_picture(picture: str) -> None:
    """Real ImageNet weights on real photographs."""
    model = zoo.ZOO["efficientnet_lite0"]
    if reason := model.why_missing():
        pytest.skip(reason)
    try:
        photograph = zoo.photograph(picture, 224)
    except (FileNotFoundError, ModuleNotFoundError) as error:
        pytest.skip(str(error))
    program = openxrt.load(model.path())
    (name,) = model.feeds()
    scores = next(iter(program.run({name: photograph}).values()))
    assert int(scores.argmax()) == IMAGENET[picture]
