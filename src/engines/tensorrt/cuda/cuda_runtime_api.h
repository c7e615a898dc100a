// SPDX-License-Identifier: Apache-2.0
// Stands where CUDA's header of this name would: NVIDIA's TensorRT headers include it for the two
// handles below and use nothing else of it, so that the engine builds without the CUDA toolkit.
// CUDA itself is reached at run time, through the driver's library (driver.h).
#pragma once

using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
