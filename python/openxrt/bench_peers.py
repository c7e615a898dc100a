# SPDX-License-Identifier: Apache-2.0
"""Another runtime behind a line protocol, for `xrt bench --peers`.

    python bench_peers.py PEER MODEL INPUTS.npz THREADS

Loads the model and answers ``{"version": ..., "load_s": ...}`` or ``{"error": ...}``, then for each
line of standard input: ``run`` → ``{"run_s": ...}``, ``save FILE.npz`` → ``{"saved": FILE.npz}``.
It imports nothing of openxrt, so that a peer is measured alone.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

import numpy as np

Run = Callable[[], dict[str, np.ndarray]]


def load_onnxruntime(model: str, inputs: dict[str, np.ndarray], threads: int) -> tuple[str, Run]:
    """ONNX Runtime on its CPU provider."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return onnxruntime.__version__, lambda: dict(
        zip(names, session.run(names, inputs), strict=True)
    )


def load_openvino(model: str, inputs: dict[str, np.ndarray], threads: int) -> tuple[str, Run]:
    """OpenVINO on the CPU in float32, for latency."""
    import openvino

    core = openvino.Core()
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
    }
    network = core.read_model(model)
    network.reshape({name: list(array.shape) for name, array in inputs.items()})
    compiled = core.compile_model(network, "CPU", settings)
    request = compiled.create_infer_request()
    names = [output.get_any_name() for output in compiled.outputs]

    def run() -> dict[str, np.ndarray]:
        request.infer(inputs, share_inputs=True, share_outputs=True)
        return {name: request.get_output_tensor(i).data for i, name in enumerate(names)}

    return openvino.__version__, run


PEERS = {"onnxruntime": load_onnxruntime, "openvino": load_openvino}


def main() -> int:
    """Serves one peer until standard input ends."""
    peer, model, inputs_path, threads = sys.argv[1:5]
    # What libraries print goes to standard error; the protocol keeps standard output to itself.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def answer(**values: object) -> None:
        answers.write(json.dumps(values) + "\n")

    try:
        with np.load(inputs_path, allow_pickle=False) as archive:
            inputs = {name: archive[name] for name in archive.files}
        start = time.perf_counter()
        version, run = PEERS[peer](model, inputs, int(threads))
        load_s = time.perf_counter() - start
        outputs = run()
    except Exception as error:  # whatever the peer raises is its answer
        answer(error=f"{type(error).__name__}: {error}")
        return 1
    answer(version=version, load_s=load_s)
    for line in sys.stdin:
        request, _, argument = line.strip().partition(" ")
        if request == "run":
            start = time.perf_counter()
            outputs = run()
            answer(run_s=time.perf_counter() - start)
        elif request == "save":
            np.savez(argument, **outputs)
            answer(saved=argument)
        else:
            answer(error=f"unknown request {request!r}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
