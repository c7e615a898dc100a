// SPDX-License-Identifier: Apache-2.0
// Lists in messages.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "xrt/export.h"

namespace xrt {

// "a, b, c and 7 more": at most so many of the words.
XRT_API std::string listed(std::span<const std::string> words, std::size_t most);

}  // namespace xrt
