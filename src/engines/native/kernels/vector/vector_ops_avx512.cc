// SPDX-License-Identifier: Apache-2.0
#include "engines/native/kernels/vector/vector_ops.h"

#define XRT_ISA kVectorOpsAvx512
#include "engines/native/kernels/vector/vector_ops.inc"
