#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""generate() of transformers through XRTModule against PyTorch: a Llama of SmolLM2-135M's sizes
with random weights, greedy, one prompt.

    ./dev run python benchmarks/generate.py
    ./dev run python benchmarks/generate.py --engine xla --tokens 64 --prompts 16,23,29

The first call of each prompt length is told by itself; then calls of both alternate. The tokens of
both have to be the same.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

VOCABULARY = 49152


def llama(layers: int) -> Any:
    """SmolLM2-135M has 30 layers."""
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=576,
        num_hidden_layers=layers,
        num_attention_heads=9,
        num_key_value_heads=3,
        intermediate_size=1536,
        vocab_size=VOCABULARY,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=None,
    )
    return transformers.LlamaForCausalLM(config).eval()


def timed(call: Callable[[], torch.Tensor]) -> tuple[float, torch.Tensor]:
    """The seconds of a call, and its result."""
    begin = time.perf_counter()
    result = call()
    return time.perf_counter() - begin, result


def main() -> int:
    """Prints a line per prompt length; the exit status is 1 where tokens differ."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engine", default="native", help="engines, with commas between them")
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--tokens", type=int, default=32, help="new tokens of a call")
    parser.add_argument("--prompts", default="16,23,29", help="lengths of prompts")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    import openxrt.torch

    model = llama(arguments.layers)
    fast = openxrt.torch.XRTModule(model, engine=arguments.engine.split(","))
    options: dict[str, Any] = {
        "max_new_tokens": arguments.tokens,
        "do_sample": False,
        "pad_token_id": 0,
    }
    is_same = True
    for length in map(int, arguments.prompts.split(",")):
        prompt = torch.randint(1, VOCABULARY, (1, length))
        first, found = timed(lambda p=prompt: fast.generate(p, **options))
        theirs, ours = [], []
        for _ in range(arguments.rounds):
            seconds, wanted = timed(lambda p=prompt: model.generate(p, **options))
            theirs.append(seconds)
            ours.append(timed(lambda p=prompt: fast.generate(p, **options))[0])
        is_same &= torch.equal(found, wanted)
        print(
            f"prompt {length:4}: first call {first:6.2f} s, then {min(ours):6.3f} s; PyTorch "
            f"{min(theirs):6.3f} s: {min(ours) / min(theirs):.2f} ×; "
            f"{'the same' if torch.equal(found, wanted) else 'OTHER'} tokens; "
            f"{len(list(fast.programs()))} programs",
            flush=True,
        )
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main())
