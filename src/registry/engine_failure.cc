// SPDX-License-Identifier: Apache-2.0
#include "registry/engine_failure.h"

#include <algorithm>
#include <cstddef>
#include <exception>

#include "base/message.h"

namespace xrt {

std::string exception_text() {
  try {
    throw;
  } catch (const std::exception& error) {
    return shortened(error.what(), kMostOfCause);
  } catch (...) {
    return "it threw something that is no std::exception";
  }
}

std::string list_nodes(const std::vector<std::pair<std::string_view, std::string_view>>& nodes) {
  constexpr std::size_t kShown = 4;
  std::string text = nodes.size() == 1 ? "node " : "nodes ";
  for (std::size_t i = 0; i < std::min(nodes.size(), kShown); ++i) {
    text += i == 0 ? "'" : ", '";
    text += shortened(nodes[i].first);
    text += "' (";
    text += shortened(nodes[i].second);
    text += ")";
  }
  if (nodes.size() > kShown) text += " and " + std::to_string(nodes.size() - kShown) + " more";
  return text;
}

}  // namespace xrt
