#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own op tests as a judge of openxrt.torch: the samples of `op_db`, forward and gradient.

    ./dev conformance torch native       # five samples of each op and dtype on the native engine
    ./dev conformance torch xla,native --record       # keeps the counts for docs/reference/aten.md
    ./dev conformance torch native -k 'conv|pool' --samples 0     # all samples of some ops

    ./dev conformance torch native --dtypes float64,float16,bfloat16,int32,uint8 --samples 2
    ./dev conformance torch native --way dynamic -k '^(add|cat|nn)'   # with symbolic sizes

Each sample goes the way that torch.compile takes: PyTorch derives the forward and backward graphs
of ATen ops, both are imported and run by the engines, and the results, the gradients of all inputs
for random gradients of the outputs included, are compared with PyTorch's. A sample passes with the
right dtypes, shapes and, within 1e-4 (float64 1e-7, float16 1e-3, bfloat16 1.6e-2; gradients ten
times that) relative and a tenth of that of the range absolute, values. Gradients are of float32 and
float64. Vectors that are defined up to a sign are compared as the sample says. Ops that draw random
numbers are judged by dtype and shape and do not count.

Where the size of a result depends on data, which AOTAutograd does not take, torch.export traces the
sample and the forward result alone is judged.

An op is supported if at least one of its samples is imported; each sample of a supported op counts,
also one that is refused.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from openxrt.conformance.pool import WorkerLost, run_all

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

RECORDS = HERE.parents[1] / "docs" / "conformance"
WAYS = ("forward", "gradient")
FLOOR = 0.95
DTYPES = "float32,int64,bool"


def run_ops(
    names: list[str],
    engines: str,
    samples: int,
    dtypes: str,
    jobs: int,
    seconds: float,
    way: str = "aot",
) -> dict[str, dict[str, Any]]:
    """Answers by op, in the order of `names`."""
    environment = os.environ | {"XRT_CACHE_DIR": "", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE / "torch_worker.py"), engines, str(samples), dtypes, way]

    def lost(_: dict[str, Any], loss: WorkerLost) -> dict[str, Any]:
        counts = {way: {"fail": 1} if way == "forward" else {} for way in WAYS}
        return {**counts, "dtypes": {}, "missing": [], "nodes": {}, "reasons": [str(loss)]}

    requests = [{"name": name} for name in names]
    answers = run_all(requests, command, environment, jobs=jobs, seconds=seconds, lost=lost)
    return dict(zip(names, answers, strict=True))


def is_supported(answer: dict[str, Any], way: str) -> bool:
    """Whether any sample of the op could be imported and judged."""
    return bool(answer[way].keys() & {"pass", "fail"})


def summarize(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Counts over all ops, per way."""
    summary: dict[str, Any] = {}
    for way in WAYS:
        supported = [a for a in results.values() if is_supported(a, way)]
        passed = sum(a[way].get("pass", 0) for a in supported)
        judged = sum(a[way].get(s, 0) for a in supported for s in ("pass", "fail", "unsupported"))
        whole = sum(set(a[way]) <= {"pass", "random"} for a in supported)
        summary[way] = {
            "ops": len(supported),
            "ops_that_pass_all": whole,
            "passed": passed,
            "samples": judged,
            "rate": round(passed / judged, 4) if judged else 0.0,
        }
    summary["unsupported_ops"] = sum(
        "unsupported" in a["forward"] and not is_supported(a, "forward") for a in results.values()
    )
    return summary


def report(results: dict[str, dict[str, Any]], summary: dict[str, Any], failures: int) -> None:
    for way in WAYS:
        s = summary[way]
        print(
            f"{way:9} {s['passed']} of {s['samples']} samples pass ({s['rate']:.1%}), all of them "
            f"for {s['ops_that_pass_all']} of {s['ops']} ops"
        )
    print(f"{summary['unsupported_ops']} ops are not imported")
    for name, answer in results.items():
        if not any("fail" in answer[way] for way in WAYS) or failures <= 0:
            continue
        failures -= 1
        reason = next((r for r in answer["reasons"] if "unsupported" not in r), "")
        print(f"  {name}: {answer['forward']} {answer['gradient']}: {reason}")


def record(
    results: dict[str, dict[str, Any]], engines: str, samples: int, dtypes: str, partly: bool
) -> None:
    """Keeps the counts; `partly`, those of some ops, beside what is known of the others."""
    kept = {
        name: {"forward": a["forward"], "gradient": a["gradient"], "dtypes": a["dtypes"],
               "missing": a["missing"], "reasons": a["reasons"][:2]}
        for name, a in results.items()
    }  # fmt: skip
    further = "" if dtypes == DTYPES else "-further"
    path = RECORDS / f"torch-{engines.split(',')[0]}{further}.json"
    if partly and path.exists():
        known = json.loads(path.read_text(encoding="utf-8"))
        if (known["engines"], known["samples"], known.get("dtypes")) != (engines, samples, dtypes):
            raise SystemExit(
                f"{path.name} is of {known['samples']} samples of {known.get('dtypes')} on "
                f"{known['engines']}: some ops alone can be recorded for the same only"
            )
        kept = dict(sorted({**known["ops"], **kept}.items()))
    lines = ",\n".join(f" {json.dumps(n)}: {json.dumps(a)}" for n, a in kept.items())
    path.write_text(
        f'{{"engines": {json.dumps(engines)},\n"samples": {samples},\n'
        f'"dtypes": {json.dumps(dtypes)},\n'
        f'"summary": {json.dumps(summarize(kept))},\n"ops": {{\n{lines}\n}}}}\n',
        encoding="utf-8",
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("engines", help="in order of priority: a,b")
    parser.add_argument("-k", metavar="REGEX", default="", help="ops whose name matches")
    parser.add_argument("--samples", type=int, default=5, help="per op and dtype; 0: all")
    parser.add_argument("--dtypes", default=DTYPES, help="where an op takes them")
    parser.add_argument("--json", type=Path, help="where to write the results")
    parser.add_argument(
        "--record", action="store_true", help="keep the counts in docs/conformance; with -k, theirs"
    )
    parser.add_argument(
        "--way",
        choices=("aot", "compile", "dynamic"),
        default="aot",
        help="AOTAutograd alone, torch.compile, or that with symbolic sizes",
    )
    parser.add_argument("--check", action="store_true", help=f"fail below a rate of {FLOOR}")
    parser.add_argument("--failures", type=int, default=20, help="how many to print")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--seconds", type=float, default=300, help="limit per op")
    options = parser.parse_args()

    from torch_worker import OPS

    if options.record and options.way != "aot":
        parser.error("records are of --way aot")
    names = sorted(name for name in OPS if re.search(options.k, name))
    if not names:
        parser.error(f"no op matches {options.k!r}")
    results = run_ops(
        names,
        options.engines,
        options.samples,
        options.dtypes,
        options.jobs,
        options.seconds,
        options.way,
    )
    summary = summarize(results)
    report(results, summary, options.failures)
    whole = {"engines": options.engines, "summary": summary, "ops": results}
    if options.json:
        options.json.write_text(json.dumps(whole, indent=1), encoding="utf-8")
    if options.record:
        record(results, options.engines, options.samples, options.dtypes, partly=bool(options.k))
    if options.check and any(summary[way]["rate"] < FLOOR for way in WAYS):
        print(f"below the floor of {FLOOR:.0%}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
