# SPDX-License-Identifier: Apache-2.0
"""When the weights of a module in evaluation are built into its program again."""

from __future__ import annotations


class Refolding:
    """Weights that changed are inputs of a slower program. Building them in again costs a
    compilation: it is worth that once runs since the change have taken as long. Whatever comes
    then, no more than twice the time is spent that the best choice in hindsight would have taken;
    where what was built did not live as long as its compilation took, the next one waits twice as
    long.
    """

    def __init__(self) -> None:
        self._cost = 0.0  # of the latest compilation, seconds
        self._patience = 1.0
        self._slow = 0.0  # seconds of runs with weights as inputs since they changed
        self._fast = 0.0  # seconds of runs with the weights built in

    def folded(self, seconds: float) -> None:
        """The weights were built in, which took so long."""
        self._cost = seconds
        self._slow = self._fast = 0.0

    def ran(self, seconds: float, folded: bool) -> None:
        """A run took so long."""
        if folded:
            self._fast += seconds
        else:
            self._slow += seconds

    def changed(self) -> None:
        """The weights are others than those that were built in."""
        self._patience = 1.0 if self._fast >= self._cost else self._patience * 2
        self._slow = 0.0

    def is_due(self) -> bool:
        """Whether to build the weights in again."""
        return self._slow >= self._cost * self._patience
