// SPDX-License-Identifier: Apache-2.0
#include "engines/native/kernels/vector/panels.h"

#define XRT_ISA kPanelOpsBaseline
#include "engines/native/kernels/vector/panels.inc"
