# SPDX-License-Identifier: Apache-2.0
"""A module as Relax: in one call, as a part of a Relax function of one's own, and behind TVMModule.

./dev run python examples/torch2trt/basic_tvm.py --network squeezenet1_1
"""

from __future__ import annotations

import argparse

import torch
from networks import network
from openxrt.torch import GraphModule, TVMInference, TVMModuleWrapper, torch2tvm, tvm_network
from tvm import relax


def main() -> None:
    """Compares all three with PyTorch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", default="squeezenet1_1")
    parser.add_argument("--target", default="llvm")
    options = parser.parse_args()
    net, inputs = network(options.network)
    with torch.no_grad():
        expected = net(inputs)

    def compare(what: str, actual: torch.Tensor) -> None:
        print(f"{what}: difference {(actual - expected).abs().max().item():.3g}")

    # In one call.
    module, graph = torch2tvm(net, inputs, input_names=["image"], verbose=True)
    inference = TVMInference(module, options.target)
    compare("torch2tvm", torch.from_numpy(inference.inference(image=inputs)["output_0"]))

    # In a function of one's own, which first undoes a normalisation.
    graph = GraphModule(net, inputs)
    image = relax.Var("image", relax.TensorType(list(inputs.shape), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [image]):
        with builder.dataflow(), tvm_network():
            pixels = builder.emit(relax.op.divide(image, relax.const(255.0, "float32")))
            output = builder.emit_output(graph(pixels))
        builder.emit_func_output(output)
    inference = TVMInference(builder.get(), options.target)
    compare("own function", torch.from_numpy(inference.inference(inputs * 255)["output_0"]))

    # PyTorch in training mode, TVM in eval mode, with OpenXRT's schedules and compile cache.
    compare("TVMModuleWrapper", TVMModuleWrapper(net).eval()(inputs))


if __name__ == "__main__":
    main()
