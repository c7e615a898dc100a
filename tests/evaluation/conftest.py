# SPDX-License-Identifier: Apache-2.0
"""A labelled set of the tests of evaluation."""

from pathlib import Path

import numpy as np
import pytest
from labelled_sets import RNG


@pytest.fixture
def scores(tmp_path: Path) -> tuple[Path, np.ndarray, np.ndarray]:
    """Scores of 23 samples for 7 classes with ties, and labels, in a file."""
    values = RNG.integers(0, 5, (23, 7)).astype(np.float32)
    labels = RNG.integers(0, 7, 23)
    np.savez(tmp_path / "set.npz", x=values, labels=labels)
    return tmp_path / "set.npz", values, labels
