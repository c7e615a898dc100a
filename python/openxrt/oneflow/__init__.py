# SPDX-License-Identifier: Apache-2.0
"""OneFlow modules and graphs through the engines.

Needs OneFlow 0.9 in the same environment (Python 3.10). What ``oneflow.save(graph, folder)`` wrote
needs nothing of this: ``openxrt.load(folder)`` reads it.
"""

from __future__ import annotations

from .._core import oneflow_ops
from .._int8 import ptq_calibration_mode
from .job import Job, capture
from .module import XRTModule

__all__ = ["Job", "XRTModule", "capture", "oneflow_ops", "ptq_calibration_mode"]
