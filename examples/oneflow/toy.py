# SPDX-License-Identifier: Apache-2.0
"""A toy program: one layer of OneFlow through the engines.

./dev test oneflow -k readme        # once: installs OneFlow and builds the extension module
PYTHONPATH=build/release/python tools/extra_env.sh oneflow python examples/oneflow/toy.py
"""

from __future__ import annotations

import numpy as np
import oneflow as flow
from openxrt.oneflow import XRTModule

m = flow.nn.Linear(3, 4)
x = flow.randn(4, 3)
reference = m(x)

m = XRTModule(m, engine=["openvino", "native"])
y = m(x)
print(y)
print("largest difference from OneFlow:", np.abs(y.numpy() - reference.numpy()).max())
