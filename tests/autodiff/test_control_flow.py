# SPDX-License-Identifier: Apache-2.0
"""Gradients through control flow, against finite differences in float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnx.parser
import openxrt
import pytest

Array = np.ndarray
RNG = np.random.default_rng(5)


def normal(*shape: int) -> Array:
    return RNG.standard_normal(shape)


def positive(*shape: int) -> Array:
    return RNG.uniform(0.5, 2.0, shape)


SCAN = """
<ir_version: 10, opset_import: ["" : 21]>
scan (double[3] h, double[4,2] x, double[2,3] w, double[3,3] u)
  => (double[3] last, double[4,3] all) {
  last, all = Scan <num_scan_inputs: int = 1, scan_input_directions: ints = [DIRECTION],
                    body = step (double[3] before, double[2] row)
                         => (double[3] after, double[3] out) {
    a = MatMul (row, w)
    b = MatMul (before, u)
    c = Add (a, b)
    after = Tanh (c)
    out = Mul (after, after)
  }> (h, x)
}
"""
LOOP = """
<ir_version: 10, opset_import: ["" : 21]>
loop (double[3] h, double[3] w) => (double[3] last, double[5,3] all) <int64 count = {5}> {
  last, all = Loop <body = step (int64 i, bool going, double[3] before)
                         => (bool on, double[3] after, double[3] out) {
    number = Cast <to: int = 11> (i)
    a = Mul (before, w)
    b = Add (a, number)
    after = Sin (b)
    out = Mul (after, w)
    on = Identity (going)
  }> (count, , h)
}
"""
# How each loop goes on and how often it runs, beside LOOP's five times.
LOOPS_THAT_STAY = {
    "until a number": ("three = Constant <value_int: int = 3> ()\n    on = Less (i, three)", 4),
    "until its data say so": (
        "size = ReduceL1 <keepdims: int = 0> (after)\n"
        "    bound = Constant <value_float: float = 1.9> ()\n"
        "    wide = Cast <to: int = 11> (bound)\n    on = Greater (size, wide)",
        3,
    ),
    "not once": ("on = Identity (going)", 0),
    "more often than can be written out": ("on = Identity (going)", 5000),
}
NESTED = """
<ir_version: 10, opset_import: ["" : 21]>
nested (double[3] h, double[3] w, int64 count) => (double[3] last) {
  last = Loop <body = outer (int64 i, bool going, double[3] before)
                   => (bool on, double[3] after) {
    on = Identity (going)
    turns = Cast <to: int = 7> (i)
    after = Loop <body = inner (int64 j, bool inner_going, double[3] x)
                        => (bool inner_on, double[3] y) {
      two = Constant <value_int: int = 2> ()
      inner_on = Less (j, two)
      a = Mul (x, w)
      b = Add (a, before)
      y = Sin (b)
    }> (turns, , before)
  }> (count, , h)
}
"""
BRANCH = """
<ir_version: 10, opset_import: ["" : 21]>
branch (bool flag, double[3] x, double[3] w) => (double[3] y, double[3] z) {
  twice = Add (x, x)
  y, z = If (flag) <
    then_branch = yes () => (double[3] p, double[3] q) {
      p = Mul (twice, w)
      q = Sqrt (w)
    },
    else_branch = no () => (double[3] r, double[3] s) {
      r = Exp (twice)
      s = Neg (w)
    }>
}
"""


def check_model(text: str, values: Sequence[Array], used: int) -> None:
    """Of a model whose inputs of float64 are weights: one step of gradient descent says what the
    gradients are, and losses beside it what they should be."""
    model = onnx.parser.parse_model(text)
    data: dict[str, Array] = {}
    for port, value in zip(list(model.graph.input), values, strict=True):
        if value.dtype == np.float64:
            model.graph.initializer.append(onnx.numpy_helper.from_array(value, port.name))
            model.graph.input.remove(port)
        else:
            data[port.name] = value
    trainer = openxrt.Trainer(
        model.SerializeToString(),
        loss="mse",
        prediction=used,
        optimizer=openxrt.optim.SGD(learning_rate=1.0),
    )
    shape = [d.dim_value for d in model.graph.output[used].type.tensor_type.shape.dim]
    data["target"] = np.random.default_rng(1).standard_normal(shape)
    before = trainer.state_dict()
    trainer.step(**data)
    after = trainer.state_dict()
    rng = np.random.default_rng(2)
    assert before

    def loss(name: str, value: Array) -> float:
        trainer.load_state_dict({**before, name: value})
        return trainer.loss(**data)

    for name, value in before.items():
        d = rng.standard_normal(value.shape)
        expected = (loss(name, value + 1e-6 * d) - loss(name, value - 1e-6 * d)) / 2e-6
        found = np.sum((value - after[name]) * d)
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-7), name


@pytest.mark.parametrize("used", [0, 1])
@pytest.mark.parametrize("direction", [0, 1])
def test_gradient_of_a_scan(direction: int, used: int) -> None:
    text = SCAN.replace("DIRECTION", str(direction))
    check_model(text, [normal(3), normal(4, 2), normal(2, 3), normal(3, 3)], used)


@pytest.mark.parametrize("used", [0, 1])
def test_gradient_of_a_loop(used: int) -> None:
    check_model(LOOP, [normal(3), normal(3)], used)


@pytest.mark.parametrize("used", [0, 1])
@pytest.mark.parametrize("flag", [True, False])
def test_gradient_of_a_branch(flag: bool, used: int) -> None:
    # The branch that is not taken is not computed: its derivative may well be NaN.
    w = positive(3) if flag or used == 0 else -positive(3)
    check_model(BRANCH, [np.array(flag), normal(3), w], used)


@pytest.mark.parametrize(
    ("name", "used"),
    [
        (name, used)
        for name in LOOPS_THAT_STAY
        for used in (0, 1)
        if (name, used) != ("not once", 1)
    ],
)
def test_gradient_of_a_loop_that_stays_one(name: str, used: int) -> None:
    goes_on, times = LOOPS_THAT_STAY[name]
    text = LOOP.replace("on = Identity (going)", goes_on).replace("5,3", f"{times},3")
    if times != 3:
        text = text.replace("{5}", f"{{{max(times, 5) if times else 0}}}")
    # Far from equal: how often it runs must not change with a step of the differences.
    h, w = np.array([0.3, -0.4, 0.9]), np.array([0.8, 1.1, -0.5])
    check_model(text, [h, w], used)


def test_how_often_a_loop_runs_may_be_an_input() -> None:
    text = LOOP.replace("double[3] w)", "double[3] w, int64 count)").replace(
        " <int64 count = {5}>", ""
    )
    check_model(text, [normal(3), normal(3), np.array(5)], 0)


def test_gradient_of_a_loop_in_a_loop() -> None:
    check_model(NESTED, [normal(3), normal(3), np.array(4)], 0)


def sines(graph: openxrt.Graph) -> tuple[list[int], int]:
    """x and w of float64[3] and a number of turns; the sum of x -> sin(w x) done so often."""
    x, w = (graph.add_input(name, "float64", [3]) for name in "xw")
    turns = graph.add_input("turns", "int64", [])
    body = openxrt.Graph("turn")
    body.add_input("i", "int64", [])
    going = body.add_input("going", "bool", [])
    before = body.add_input("before", "float64", [3])
    factor = body.add_capture(w, "w", "float64", [3])
    (product,) = body.add_node("Mul", [before, factor], ["product"])
    (after,) = body.add_node("Sin", [product], ["after"])
    for value in (body.add_node("Identity", [going], ["on"])[0], after):
        body.add_output(value)
    (last,) = graph.add_node("Loop", [turns, None, x], ["last"], {"body": body})
    graph.set_type(last, "float64", [3])
    (y,) = graph.add_node("ReduceSum", [last], ["y"], {"keepdims": 0})
    return [x, w], y


@pytest.mark.parametrize("turns", [0, 1, 4])
@pytest.mark.parametrize("engine", ["native", "xla,native", "openvino,native"])
def test_gradient_of_the_gradient_of_a_loop(engine: str, turns: int) -> None:
    graph = openxrt.Graph("hessian")
    inputs, y = sines(graph)
    graph.finish()
    first = graph.gradients(y, inputs)
    direction = [normal(3), normal(3)]
    parts = []
    for gradient, d in zip(first, direction, strict=True):
        constant = graph.add_constant(d, "float64")
        (part,) = graph.add_node("Mul", [gradient, constant], ["part"])
        parts += graph.add_node("ReduceSum", [part], ["slope"], {"keepdims": 0})
    (slope,) = graph.add_node("Add", parts, ["slope"])
    second = graph.gradients(slope, inputs, allow_unused=True)
    for value in (slope, *second):
        graph.add_output(value)
    run = openxrt.load(graph, engine=engine.split(","))
    x, w, n = normal(3), normal(3), np.array(turns)
    _, *products = run(x, w, n)
    step = 1e-6

    def slope_at(dx: Array, dw: Array) -> float:
        return float(run(x + dx, w + dw, n)[0])

    for i, product in enumerate(products):
        for k in range(3):
            d = np.zeros((2, 3))
            d[i, k] = step
            expected = (slope_at(*d) - slope_at(*-d)) / (2 * step)
            assert product[k] == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_a_loop_whose_values_grow_is_named() -> None:
    text = LOOP.replace("double[3] h, double[3] w", "double[3] h, double[1] w, int64 count")
    text = text.replace(" <int64 count = {5}>", "").replace("after = Sin", "grown = Sin")
    text = text.replace(
        "out = Mul (after, w)", "out = Mul (w, w)\n    after = Concat <axis: int = 0> (grown, w)"
    )
    text = text.replace("5,3", "5,1").replace("double[3] out", "double[1] out")
    for name in ("last", "before", "after"):
        text = text.replace(f"double[3] {name}", f"double[N_{name}] {name}")
    with pytest.raises(openxrt.Unsupported, match=r"\(Loop\).*its shape has to stay"):
        check_model(text, [normal(3), normal(1), np.array(5)], 1)
