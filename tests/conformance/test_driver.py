# SPDX-License-Identifier: Apache-2.0
"""The conformance driver itself: a wrong engine must fail it, whatever way it is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from openxrt.conformance.judge import mismatch, reason_class
from openxrt.conformance.onnx_tests import load_cases

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from run import below_floors, record, unexplained  # noqa: E402

TESTS = "^test_(relu|sigmoid|add|split_to_sequence_1|cast_FLOAT_to_BFLOAT16)$"


def drive(
    tmp_path: Path, fault: str, *options: str, pattern: str = TESTS
) -> tuple[subprocess.CompletedProcess, dict[str, dict]]:
    file = tmp_path / "result.json"
    command = [sys.executable, str(HERE / "run.py"), "fixture", "--kind", "node", "-k", pattern]
    command += ["--runner", f"{HERE / 'broken_runners.py'}:{fault}", "--json", str(file), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    tests = json.loads(file.read_text())["tests"] if file.exists() else {}
    return done, {key.removeprefix("node/test_"): value for key, value in tests.items()}


def statuses(tests: dict[str, dict]) -> dict[str, str]:
    return {name: result["status"] for name, result in tests.items()}


def test_correct_runner_passes(tmp_path: Path) -> None:
    done, tests = drive(tmp_path, "Correct", "--ops")
    assert done.returncode == 0
    assert set(statuses(tests).values()) == {"pass"} and len(tests) == 5
    assert tests["relu"]["nodes"] == {"fixture": 1} and tests["relu"]["ops"] == ["Relu"]
    assert done.stdout.splitlines()[-1] == "5 passed, 0 failed, 0 skipped"


@pytest.mark.parametrize(
    ("fault", "word"),
    [
        ("WrongValue", "values differ"),
        ("WrongDtype", "dtype float64, expected float32"),
        ("WrongShape", "shape [1, 3, 4, 5], expected [3, 4, 5]"),
        ("MissingOutput", "0 outputs, expected 1"),
    ],
)
def test_wrong_engine_fails(tmp_path: Path, fault: str, word: str) -> None:
    _, tests = drive(tmp_path, fault)
    assert tests["relu"]["status"] == "fail" and word in tests["relu"]["reason"]
    assert tests["sigmoid"]["status"] == "fail" and tests["add"]["status"] == "fail"


@pytest.mark.parametrize(
    ("fault", "options", "word"),
    [
        ("CrashesOnRelu", [], "crash: SIGABRT"),
        ("HangsOnRelu", ["--timeout", "5"], "hang: no result within 5 s"),
        ("RaisesOnRelu", [], "ValueError: node 'y': no kernel | for this type"),
    ],
)
def test_bad_test_does_not_end_the_run(
    tmp_path: Path, fault: str, options: list[str], word: str
) -> None:
    done, tests = drive(tmp_path, fault, *options, pattern="^test_(relu|sigmoid|add|tanh)$")
    assert statuses(tests) == {"add": "pass", "relu": "fail", "sigmoid": "pass", "tanh": "pass"}
    assert word in tests["relu"]["reason"]
    assert done.stdout.splitlines()[-1] == "3 passed, 1 failed, 0 skipped"


def test_declined_test_is_unsupported_not_passed(tmp_path: Path) -> None:
    done, tests = drive(tmp_path, "DeclinesRelu")
    assert tests["relu"] | {"seconds": 0} == {
        "ops": ["Relu"],
        "status": "unsupported",
        "reason": "Relu is not lowered",
        "seconds": 0,
    }
    assert done.stdout.splitlines()[-1] == "4 passed, 0 failed, 1 skipped"


def test_engine_that_cannot_start_is_an_error(tmp_path: Path) -> None:
    done, tests = drive(tmp_path, "DoesNotStart")
    assert done.returncode != 0 and not tests
    assert "libengine.so: cannot open shared object file" in done.stderr


def test_misuse_is_refused(tmp_path: Path) -> None:
    for options in (["-k", "no_such_test"], ["--kind", "nodes"], ["--check"]):
        done, _ = drive(tmp_path, "Correct", *options)
        assert done.returncode == 2, options


def test_every_test_of_the_package_is_there() -> None:
    assert len(load_cases(["node"])) == 1884
    assert len(load_cases(["simple", "pytorch-operator", "pytorch-converted"])) == 140


def test_what_does_not_pass_needs_an_explanation() -> None:
    results = {
        "node/test_a": {"status": "pass", "reason": None},
        "node/test_b": {"status": "fail", "reason": "output 0: values differ: 3 / 10"},
        "node/test_c": {"status": "fail", "reason": "output 0: shape [2], expected [1]"},
        "node/test_d": {"status": "unsupported", "reason": "no kernel"},
    }
    reasons = {"node/test_b": "random", "node/test_c": "random", "node/test_d": "not there"}
    assert unexplained(reasons, results) == [
        "node/test_c (fail): output 0: shape [2], expected [1]"
    ]
    assert len(unexplained({}, results)) == 3


def test_record_counts_by_op() -> None:
    results = {
        "node/test_a": {"status": "pass", "reason": None, "ops": ["Add"], "nodes": {"x": 1}},
        "node/test_b": {
            "status": "pass",
            "reason": None,
            "ops": ["Add", "Mul"],
            "nodes": {"x": 1, "y": 2},
        },
        "node/test_c": {"status": "fail", "reason": "values differ", "ops": ["Mul"]},
        "simple/test_d": {"status": "pass", "reason": None, "ops": ["Add"], "nodes": {"x": 1}},
    }
    kept = json.loads(record(["x", "y"], {"passed": 3}, results))
    assert kept["operators"] == {
        "Add": {"tests": 2, "passed": 2, "alone": {"x": 1}},
        "Mul": {"tests": 2, "passed": 1, "alone": {}},
    }
    assert kept["not_passed"] == {"node/test_c": "fail: values differ"}
    assert kept["engines"] == ["x", "y"] and kept["summary"] == {"passed": 3}


def test_floors() -> None:
    floors = {"passed": {"node": 10, "simple": 2}, "node_tests_ran_by": {"a": 8, "b": 1}}
    kinds = {"node": {"pass": 10, "fail": 3}}
    assert not below_floors(
        floors, {"kinds": kinds, "engines": {"a": {"node_tests": 9}, "b": {"node_tests": 1}}}
    )
    below = below_floors(
        floors, {"kinds": {"node": {"pass": 9}}, "engines": {"a": {"node_tests": 8}}}
    )
    assert below == [
        "passed[node] is 9, must be at least 10",
        "node_tests_ran_by[b] is 0, must be at least 1",
    ]


def test_comparison_of_structures() -> None:
    one, two = np.float32([1, 2]), np.float32([1, 2.5])

    def differs(want: object, got: object) -> str | None:
        return mismatch([want], [got], 1e-3, 1e-7)

    assert differs([one, one], [one, one]) is None and differs(None, None) is None
    assert differs([np.float32(1)], [np.array(1, np.float32)]) is None
    assert differs(np.array(["a"], object), np.array(["a"], object)) is None
    assert "expected nothing" in differs(None, one)
    assert "a sequence, expected" in differs(one, [one])
    assert "sequence of 1" in differs([one, one], [one])
    assert "element 1: values differ" in differs([one, one], [one, two])
    assert "values differ" in differs(np.array(["a"], object), np.array(["b"], object))
    assert "a list" not in differs(one, 1.0) and "a float" in differs(one, 1.0)
    assert "dtype" in differs(np.int32([1, 2]), one)
    # Of ZipMap, whose maps may hold NaN.
    assert differs([{1: 0.5, 2: np.nan}], [{1: 0.5, 2: np.nan}]) is None
    assert "element 0: element 1: values" in differs([{1: 0.5, 2: 0.5}], [{1: 0.5, 2: 0.75}])
    assert "keys ['b'], expected ['a']" in differs({"a": 0.5}, {"b": 0.5})
    # The package takes two units in the last place of bfloat16.
    brain = np.array([1, 1 + 2**-7, 1 + 2**-5], ml_dtypes.bfloat16)
    assert differs(brain[:1], brain[1:2]) is None
    assert "values differ" in differs(brain[:1], brain[2:])


def test_reasons_of_one_kind_are_counted_together() -> None:
    a = "node 'n1': shape [1, 2] has 3.5e-2% of 12"
    b = "node 'm': shape [7] has 9% of 1"
    assert reason_class(a) == reason_class(b)
