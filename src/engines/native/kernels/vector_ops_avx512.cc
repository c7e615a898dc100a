// SPDX-License-Identifier: Apache-2.0
#include "engines/native/kernels/vector_ops.h"

#define XRT_ISA vector_ops_avx512
#include "engines/native/kernels/vector_ops.inc"
