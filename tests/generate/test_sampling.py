# SPDX-License-Identifier: Apache-2.0
"""The choice of tokens, against transformers' own processors of logits."""

from __future__ import annotations

import numpy as np
import openxrt
import pytest
from openxrt.generate.sampling import Sampler, Sampling

LOGITS = np.random.default_rng(0).normal(0, 2, 50).astype(np.float32)


def drawn(how: Sampling, seen: list[int], count: int) -> np.ndarray:
    sampler = Sampler(how)
    found = [sampler.choose(LOGITS, seen) for _ in range(count)]
    return np.bincount(found, minlength=len(LOGITS)) / count


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p", "penalty"),
    [(1.0, 0, 1.0, 1.0), (0.7, 5, 1.0, 1.0), (1.3, 0, 0.6, 1.0), (1.0, 20, 0.9, 1.5)],
)
def test_probabilities(temperature: float, top_k: int, top_p: float, penalty: float) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    seen = [3, 17, 3, 40]
    processors = transformers.LogitsProcessorList()
    processors.append(transformers.RepetitionPenaltyLogitsProcessor(penalty))
    processors.append(transformers.TemperatureLogitsWarper(temperature))
    if top_k:
        processors.append(transformers.TopKLogitsWarper(top_k))
    if top_p < 1:
        processors.append(transformers.TopPLogitsWarper(top_p))
    scores = processors(torch.tensor([seen]), torch.from_numpy(LOGITS)[None])
    wanted = scores.softmax(-1)[0].numpy()
    how = Sampling(False, temperature, top_k, top_p, penalty, seed=1)
    found = drawn(how, seen, 20_000)
    assert not found[wanted == 0].any()
    np.testing.assert_allclose(found, wanted, atol=0.015)


def test_greedy() -> None:
    best = int(LOGITS.argmax())
    assert Sampler(Sampling(greedy=True)).choose(LOGITS, [1]) == best
    assert Sampler(Sampling(temperature=0)).choose(LOGITS, [1]) == best
    penalised = Sampler(Sampling(greedy=True, repetition_penalty=1e6)).choose(LOGITS, [best])
    assert penalised == int(np.argsort(LOGITS)[-2])


def test_seeds() -> None:
    how = Sampling(seed=5)
    runs = [[s.choose(LOGITS, [1]) for _ in range(20)] for s in (Sampler(how), Sampler(how))]
    assert runs[0] == runs[1]
    other = Sampler(how, stream=1)
    assert [other.choose(LOGITS, [1]) for _ in range(20)] != runs[0]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_no_numbers(value: float) -> None:
    broken = LOGITS.copy()
    broken[9] = value
    with pytest.raises(openxrt.EngineError, match="logits"):
        Sampler(Sampling()).choose(broken, [1])
    with pytest.raises(openxrt.EngineError, match="logits"):
        Sampler(Sampling()).choose(np.full(9, -np.inf, np.float32), [1])
