# SPDX-License-Identifier: Apache-2.0
"""Known faults of pinned versions: the vendor still has them, the engine's README lists them, and
programs on the engine are right all the same.
"""

from pathlib import Path

import ml_dtypes
import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper
from small_models import make_model, tensor, usable
from vendor_faults import FAULTS, Fault

ROOT = Path(__file__).resolve().parents[2]
CASES = [
    pytest.param(engine, fault, id=f"{engine}: {fault.title}")
    for engine, (_, _, faults) in FAULTS.items()
    for fault in faults
]


def agrees(actual: list[np.ndarray], fault: Fault) -> bool:
    """Whether all outputs are right: integers are, floating-point numbers to float32."""
    return all(
        a.shape == e.shape
        and (
            np.array_equal(a, e)
            if e.dtype.kind in "Obiu"
            else np.allclose(a, e, rtol=1e-5, atol=1e-5, equal_nan=True)
        )
        for a, e in zip(map(np.asarray, actual), fault.expected, strict=True)
    )


@pytest.mark.parametrize(("engine", "fault"), CASES)
def test_the_vendor_has_it_still(engine: str, fault: Fault) -> None:
    """Where this fails, a newer version has mended it: the rule and the row can go."""
    pytest.importorskip(engine)
    if fault.processor not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        pytest.skip(f"the processor has no {fault.processor}")
    alone = FAULTS[engine][0]
    try:
        results = alone(fault.model, fault.rounds())
    except Exception:  # of classes of its own, which have no base
        return  # it refuses what the standard allows
    right = agrees(results, fault)
    if right and fault.by_chance:
        pytest.skip("what lies in memory happens to be right")
    assert not right


@pytest.mark.parametrize(("engine", "fault"), CASES)
def test_programs_are_right_or_say_so(engine: str, fault: Fault) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not there")
    program = openxrt.load(
        fault.model, engine=[engine, "native"], check_results=False, cache_dir=""
    )
    for feeds in fault.rounds():
        results = list(program.run(feeds).values())
    assert agrees(results, fault) == (fault.program == "right"), results


@pytest.mark.parametrize("engine", FAULTS)
def test_the_readme_lists_them(engine: str) -> None:
    _, readme, faults = FAULTS[engine]
    text = (ROOT / readme).read_text(encoding="utf-8")
    assert [fault.title for fault in faults if f"| {fault.title} |" not in text] == []


def test_xla_rounds_where_the_graph_says() -> None:
    """XLA may otherwise leave out a cast to 16 bits and back."""
    if not usable("xla"):
        pytest.skip("xla is not there")
    model = make_model(
        [
            helper.make_node("Mul", ["x", "x"], ["square"]),
            helper.make_node("Cast", ["square"], ["half"], to=TensorProto.BFLOAT16),
            helper.make_node("Cast", ["half"], ["whole"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["whole", "x"], ["y"]),
        ],
        [tensor("x", TensorProto.FLOAT, [3])],
        [tensor("y", TensorProto.FLOAT, [3])],
    )
    x = np.array([1.1, 2.3, 3.7], np.float32)
    wanted = (x * x).astype(ml_dtypes.bfloat16).astype(np.float32) + x
    program = openxrt.load(model, engine="xla", strict=True, check_results=False, cache_dir="")
    np.testing.assert_array_equal(program.run({"x": x})["y"], wanted)
