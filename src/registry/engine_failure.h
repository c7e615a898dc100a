// SPDX-License-Identifier: Apache-2.0
// What goes wrong in engines' code, in words.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace xrt {

// What the exception says that is being handled: within a catch block alone. Engines come from
// anywhere, and may throw what is no std::exception.
std::string exception_text();

// "node 'a' (Relu)", "nodes 'a' (Relu), 'b' (Add) and 7 more": names and ops.
std::string list_nodes(const std::vector<std::pair<std::string_view, std::string_view>>& nodes);

}  // namespace xrt
