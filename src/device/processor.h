// SPDX-License-Identifier: Apache-2.0
// What the system tells of the processor (/proc/cpuinfo).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "xrt/export.h"

namespace xrt {

// Of the first processor listed; empty where the system does not tell.
struct Processor {
  std::string model;               // as "model name" has it
  std::vector<std::string> flags;  // instruction sets and other features, by the system's names

  XRT_API bool has(std::string_view flag) const;
};

// Read once in a process.
XRT_API const Processor& processor();

}  // namespace xrt
