// SPDX-License-Identifier: Apache-2.0
// The machine's NVIDIA GPUs, without CUDA's headers and without making a context on any.
#pragma once

namespace xrt::xla {

// How many GPUs NVIDIA's driver offers this process; 0 where there is no driver or no GPU.
int cuda_device_count();

}  // namespace xrt::xla
