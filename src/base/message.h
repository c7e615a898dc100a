// SPDX-License-Identifier: Apache-2.0
// Messages that quote what a file or a library says: names and lists may have any length there.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "xrt/export.h"

namespace xrt {

// What a quotation may have, what an engine says of its failure, and a whole message that leaves
// the library.
inline constexpr std::size_t kMostQuoted = 300;
inline constexpr std::size_t kMostOfCause = 1500;
inline constexpr std::size_t kMostTold = 4000;

// The text, or its beginning and end with the number of characters left out between them. Never
// cuts a character of UTF-8.
XRT_API std::string shortened(std::string_view text, std::size_t most = kMostQuoted);

// A message as it leaves the library: no word in it is longer than a quotation, whoever quoted it,
// and the whole no longer than kMostTold.
XRT_API std::string told(std::string_view message);

}  // namespace xrt
