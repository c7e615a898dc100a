# SPDX-License-Identifier: Apache-2.0
"""Whether memory holds what it held before."""

from __future__ import annotations

import numpy as np
import openxrt
import pytest
from openxrt._core import Contents


def arrays() -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    large = generator.normal(size=(700, 900)).astype(np.float32)
    return [large, generator.normal(size=3), np.zeros((0, 4), np.int8), np.array(True)]


def test_every_element_counts() -> None:
    now = arrays()
    before = Contents(now)
    assert before.equal(now)
    assert before.equal(arrays())
    for at in [0, 1, 12345, now[0].size - 1]:
        kept = now[0].flat[at]
        now[0].flat[at] = np.nextafter(kept, np.float32(9))
        assert not before.equal(now)
        now[0].flat[at] = kept
    now[3][...] = False
    assert not before.equal(now)


def test_views_of_any_strides() -> None:
    whole = np.arange(24.0).reshape(4, 6)
    before = Contents([whole.T])
    assert before.equal([np.ascontiguousarray(whole.T)])
    whole[1, 2] += 1
    assert not before.equal([whole.T])


def test_another_number_of_arrays() -> None:
    with pytest.raises(openxrt.InvalidArgument, match="3 arrays are compared with 4"):
        Contents(arrays()).equal(arrays()[:3])
