# SPDX-License-Identifier: Apache-2.0
"""Every row of the table of options, in every place that takes options by name."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import openxrt
import pytest
from openxrt import _command
from openxrt.options import Option
from openxrt.torch import XRTModule
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
ROWS = {option.name: option for option in openxrt.options.table()}
LIVE = [option for option in ROWS.values() if not option.retired]
RETIRED = [option for option in ROWS.values() if option.retired]
X = np.array([-1, 2, -3, 4], np.float32)

# Values of the wrong kind by kind, as Python has them and as text; text and paths take any text.
WRONG = {
    "switch": ("maybe", "maybe"),
    "integer": (1.5, "1.5"),
    "number": ("many", "many"),
    "word": ("nonsense", "nonsense"),
    "list": ([1], "a,,b"),
    "map": (7, "7"),
    "text": (7, None),
    "path": (7, None),
}


def by_name(option: Option) -> str:
    return option.name


def wrong_words(option: Option, shown: str) -> str:
    """The end of the message is the same everywhere, its beginning names the option."""
    return f"is {shown}; {wanted(option)} is wanted"


def wanted(option: Option) -> str:
    kinds = {
        "switch": "true or false",
        "text": "text",
        "path": "a path",
        "list": "a name, or a list of names,",
    }
    if option.kind in kinds:
        return kinds[option.kind]
    if option.words:
        return ", ".join(option.words[:-1]) + " or " + option.words[-1]
    if option.kind == "map":
        return {
            "node_engines": "NODE=ENGINE",
            "aliases": "INPUT=OUTPUT",
            "engine_options": "ENGINE.KEY=VALUE",
            "shapes": "INPUT=D,D,...",
            "ranges": "DIM=LEAST:USUAL:MOST",
        }[option.name]
    what = "a whole number" if option.kind == "integer" else "a number"
    if option.most is not None:
        return f"{what} from {option.least} to {option.most}"
    return f"{what} from {option.least} on" if option.least is not None else what


@pytest.fixture
def graph() -> openxrt.Graph:
    graph = openxrt.Graph()
    x = graph.add_input("x", "float32", [4])
    (y,) = graph.add_node("Relu", [x], ["y"], name="relu")
    graph.add_output(y)
    return graph


@pytest.fixture
def model(graph: openxrt.Graph, tmp_path: Path) -> Path:
    path = tmp_path / "relu.onnx"
    path.write_bytes(graph.to_onnx())
    return path


def xrt(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    program = next(path for path in _command.programs() if path.is_file())
    clean = {key: value for key, value in os.environ.items() if not key.startswith("XRT_")}
    return subprocess.run(
        [program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**clean, **environment},
        timeout=120,
    )


@pytest.mark.parametrize("option", LIVE, ids=by_name)
def test_load_has_the_option(option: Option, graph: openxrt.Graph, tmp_path: Path) -> None:
    parameter = inspect.signature(openxrt.load).parameters[option.keyword]
    assert parameter.default == option.default
    assert parameter.annotation.replace("'", '"') == option.annotation
    assert openxrt.LoadOptions.__annotations__[option.keyword].__forward_arg__.replace(
        "'", '"'
    ) == (option.annotation)
    documented = " ".join(openxrt.load.__doc__.split())
    assert f"{option.keyword}: {option.help}" in documented
    value, _ = WRONG[option.kind]
    if option.name == "int8_calibration":  # a number of runs is an int for Python, text for a table
        value = 1.5
    for name in (option.keyword, option.name, *option.other_names):
        with pytest.raises(openxrt.InvalidArgument) as refused:
            openxrt.load(graph, **{"engine": "native", name: value})
        assert str(refused.value) == f"option '{name}' {wrong_words(option, repr(value))}"
    fitting = {
        "switch": option.name != "verbose",  # the log of the whole process
        "integer": 2 if option.most else 1 << 20,
        "number": 0.5,
        "path": tmp_path / "folder",
        "list": ["cpu" if option.name == "devices" else "native"],
        "map": None,
        "text": "cpu",
        "word": option.words and option.words[0],
    }
    given = {"engine": "native", option.keyword: fitting[option.kind]}
    # Two that mean nothing alone. The graph has nothing to quantise: the first run says so.
    if option.name in ("use_int8", "int8_calibration"):
        given |= {"use_int8": True, "int8_calibration": "1"}
        with pytest.raises(openxrt.InvalidArgument, match="has no Conv, Gemm or MatMul"):
            openxrt.load(graph, **given)
        return
    np.testing.assert_array_equal(openxrt.load(graph, **given)(X), np.maximum(X, 0))


@pytest.mark.parametrize(
    "option", [option for option in LIVE if option.least is not None], ids=by_name
)
def test_ranges_hold_in_every_place(option: Option, graph: openxrt.Graph, model: Path) -> None:
    beyond = [option.least - 1] + ([option.most + 1] if option.most and option.most < 2**31 else [])
    for value in map(type(option.default), beyond):
        with pytest.raises(openxrt.InvalidArgument) as refused:
            openxrt.load(graph, "native", **{option.keyword: value})
        assert str(refused.value) == f"option '{option.keyword}' {wrong_words(option, repr(value))}"
        text = f"{value:g}"
        result = xrt("run", model, "-e", "native", f"{option.flags[0]}={text}")
        assert result.returncode == 2
        expected = f"option '{option.name}' " + wrong_words(option, f"'{text}'")
        assert f"{option.flags[0]}: {expected}" in result.stderr
        for variable in option.variables:
            result = xrt("run", model, "-e", "native", **{variable: text})
            assert result.returncode == 2
            assert f"{variable}: {expected}" in result.stderr


def test_the_command_has_every_flag() -> None:
    described = xrt("run", "--help").stdout
    for option in LIVE:
        for flag in option.flags:
            assert flag in described
        for variable in option.variables:
            assert variable in described
        if option.flags:
            sentence = option.help.split(". ")[0].rstrip(".")
            assert " ".join(sentence.split()) in " ".join(described.split())
    general = xrt("--help").stdout
    for option in LIVE:
        if option.variables:
            assert f"{option.variables[0]} " in general


@pytest.mark.parametrize(
    "option", [option for option in LIVE if WRONG[option.kind][1] is not None], ids=by_name
)
def test_the_command_refuses_in_the_same_words(option: Option, model: Path) -> None:
    text = WRONG[option.kind][1]
    expected = f"option '{option.name}' " + wrong_words(option, f"'{text}'")
    ways = [("--option", f"{option.name}={text}")]
    if option.flags and option.kind != "switch" and option.name != "engines":
        ways += [(flag, text) for flag in option.flags]
    for way in ways:
        result = xrt("run", model, "-e", "native", *way)
        assert result.returncode == 2
        assert expected in result.stderr
    for variable in option.variables:
        result = xrt("run", model, "-e", "native", **{variable: text})
        assert result.returncode == 2
        assert f"xrt: {variable}: {expected}" in result.stderr


def test_unknown_names_suggest_the_nearest(graph: openxrt.Graph, model: Path) -> None:
    said = "there is no option 'cluster_minimum_node'; did you mean 'cluster_minimum_nodes'?"
    for act in (
        lambda: openxrt.load(graph, cluster_minimum_node=2),
        lambda: openxrt.Trainer(graph, loss="output", cluster_minimum_node=2),
        lambda: XRTModule(nn.ReLU(), cluster_minimum_node=2)(nn.Parameter(0 * _tensor())),
        lambda: openxrt.compare(model, ("native", "native"), cluster_minimum_node=2),
    ):
        with pytest.raises(openxrt.InvalidArgument) as refused:
            act()
        assert str(refused.value) == said
    result = xrt("run", model, "--option", "cluster_minimum_node=2")
    assert result.returncode == 2
    assert f"--option: {said}" in result.stderr
    result = xrt("run", model, "--cluster-minimum-node", "2")
    assert result.returncode == 2
    assert "did you mean '--cluster-minimum-nodes'?" in result.stderr
    result = xrt("run", model, XRT_CLUSTER_MINIMUM_NODE="2")
    assert result.returncode == 0
    assert "is XRT_CLUSTER_MINIMUM_NODES meant?" in result.stderr


def _tensor() -> "object":
    import torch

    return torch.ones(4)


@pytest.mark.parametrize("option", LIVE, ids=by_name)
def test_the_trainer_takes_what_the_table_says(option: Option) -> None:
    graph = openxrt.Graph()
    x = graph.add_input("x", "float32", [4])
    w = graph.add_constant(np.ones(4, np.float32), "float32", name="w")
    (product,) = graph.add_node("Mul", [x, w], ["product"])
    (loss,) = graph.add_node("ReduceSum", [product], ["loss"], {"keepdims": 0})
    graph.add_output(loss)
    value = WRONG[option.kind][0]
    with pytest.raises(openxrt.InvalidArgument) as refused:
        openxrt.Trainer(graph, loss="output", **{option.keyword: value})
    if option.trainer:
        assert str(refused.value) == (
            f"option '{option.keyword}' {wrong_words(option, repr(value))}"
        )
    else:
        assert str(refused.value) == f"Trainer has no option '{option.keyword}'"


@pytest.mark.parametrize("option", RETIRED, ids=by_name)
def test_options_of_oneflow_xrt_are_accepted(
    option: Option, graph: openxrt.Graph, model: Path
) -> None:
    value = 20 if option.kind == "integer" else True
    openxrt.load(graph, "native", **{option.name: value})
    said = f"option '{option.name}' has no effect here: {option.retired}"
    text = str(value).lower()
    assert said in xrt("run", model, "--option", f"{option.name}={text}").stderr
    assert said in xrt("run", model, **{option.variables[0]: text}).stderr
    with pytest.raises(openxrt.InvalidArgument, match=r"is 'neither'; .* is wanted"):
        openxrt.load(graph, "native", **{option.name: "neither"})


def test_what_is_made_of_the_tables_is_there() -> None:
    page = (ROOT / "docs" / "reference" / "options.md").read_text(encoding="utf-8")
    for option in LIVE:
        assert f"| {option.help} |" in page
    tool = ROOT / "tools" / "make_options.py"
    done = subprocess.run([sys.executable, tool, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
