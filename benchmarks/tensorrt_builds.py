# SPDX-License-Identifier: Apache-2.0
"""Builds the node tests of the onnx package with TensorRT, for a GPU that need not be there.

    ./dev bench tensorrt_builds                        # all tests, for compute capability 8.9
    ./dev bench tensorrt_builds -k 'conv|pool' -v      # some, with every reason

Each test's model is loaded with the engine tensorrt alone. It is *built* if TensorRT took all of
its nodes and its builder gave a plan, *left* if the engine refused a node, and *broken* if the
engine took all nodes and the builder failed: an answer that was not honest. Nothing is run. Exit
status 1 if a test is broken.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from pathlib import Path

import onnx
import openxrt
from openxrt.conformance.onnx_tests import Case, load_cases

NEEDS_GPU = "a plan of TensorRT runs on a GPU"


def build(case: Case, capability: str) -> tuple[str, str]:
    """The outcome ("built", "run", "left", "broken" or "invalid") and the reason."""
    model = case.model_bytes()
    try:
        program = openxrt.load(
            model,
            engine="tensorrt",
            device="cuda:0",
            strict=True,
            cache_dir="",
            engine_options={"tensorrt": {"compute_capabilities": capability}},
        )
        # Shapes that the model leaves open are those of the test's data.
        feeds, _ = case.data_sets(onnx.load_model_from_string(model))[0]
        program.run(feeds)
    except openxrt.Unsupported as error:
        return "left", str(error).splitlines()[-1].strip()
    except openxrt.EngineError as error:
        if NEEDS_GPU in str(error):
            return "built", ""
        return "broken", str(error).splitlines()[0]
    except openxrt.Error as error:
        return "invalid", str(error).splitlines()[0]
    return "run", ""


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-k", dest="pattern", default="", help="tests whose name matches")
    parser.add_argument(
        "--one-per-op", action="store_true", help="the first test of each op that is built"
    )
    parser.add_argument("--capability", default="89", help="default: %(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results")
    parser.add_argument("-v", "--verbose", action="store_true", help="print each reason")
    arguments = parser.parse_args()
    if "tensorrt" not in openxrt.engines():
        sys.exit("no TensorRT package is installed")
    start = time.monotonic()
    outcomes: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    results = {}
    done: set[str] = set()
    for case in load_cases(["node"]):
        if not re.search(arguments.pattern, case.name):
            continue
        if arguments.one_per_op:
            nodes = onnx.load_model_from_string(case.model_bytes()).graph.node
            if len(nodes) != 1 or nodes[0].op_type in done:
                continue
        outcome, reason = build(case, arguments.capability)
        if arguments.one_per_op and outcome == "built":
            done.add(nodes[0].op_type)
        outcomes[outcome] += 1
        results[case.name] = {"outcome": outcome, "reason": reason}
        if outcome == "left":
            reasons[re.sub(r"'[^']*'|\d+", "…", reason)[:110]] += 1
        if outcome in ("broken", "invalid") or (arguments.verbose and reason):
            print(f"{case.name}: {outcome}: {reason}")
    seconds = time.monotonic() - start
    print(
        f"{sum(outcomes.values())} node tests of onnx {onnx.__version__} in {seconds:.0f} s: ",
        end="",
    )
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())))
    for reason, count in reasons.most_common(15):
        print(f"  {count:5} {reason}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    return 1 if outcomes["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
