// SPDX-License-Identifier: Apache-2.0
#include "base/listed.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace xrt {

std::string listed(std::span<const std::string> words, std::size_t most) {
  const auto shown = words.first(std::min(words.size(), most));
  std::string text = fmt::format("{}", fmt::join(shown, ", "));
  if (shown.size() < words.size()) text += fmt::format(" and {} more", words.size() - shown.size());
  return text;
}

}  // namespace xrt
