// SPDX-License-Identifier: Apache-2.0
// What memory this process can still have.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "xrt/export.h"

namespace xrt {

// Bytes that can be had without swapping: the least of what the kernel says is available and what
// the process's control groups leave. All there could be where neither can be read.
XRT_API std::size_t available_memory();

// Bytes that the machine has, or that the process's control groups may use, whoever uses them now.
XRT_API std::size_t machine_memory();

// The same with control groups whose folders are given, see control_group_folders().
XRT_API std::size_t available_memory(std::span<const std::filesystem::path> groups);
XRT_API std::size_t machine_memory(std::span<const std::filesystem::path> groups);

// Gives free memory of the heap back to the system: the C library keeps what lies between blocks
// in use. Takes milliseconds; for after work that took much more memory than it leaves behind.
XRT_API void release_free_memory();

}  // namespace xrt
