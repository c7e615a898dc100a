# SPDX-License-Identifier: Apache-2.0
"""A folder of models behind a server of the Open Inference Protocol.

    xrt serve models/ --server triton --port 8000

The servers are Triton's and KServe's own: OpenXRT supplies what answers a request. A folder of
models is described at :mod:`openxrt.serve.repository`, the settings of a model at
:class:`ModelSettings`.
"""

from __future__ import annotations

from .repository import ModelFolder, find_models
from .settings import ModelSettings

__all__ = ["ModelFolder", "ModelSettings", "find_models"]
