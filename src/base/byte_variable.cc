// SPDX-License-Identifier: Apache-2.0
#include "base/byte_variable.h"

#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/log.h"

namespace xrt {

std::optional<std::uint64_t> byte_variable(const char* name) {
  const char* given = std::getenv(name);
  const std::string_view text = given == nullptr ? std::string_view{} : given;
  if (text.empty()) return std::nullopt;
  std::uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error == std::errc{} && end == text.data() + text.size()) return bytes;
  log_warning(std::string(name) + " is '" + std::string(text) + "'; a number of bytes is wanted");
  return std::nullopt;
}

}  // namespace xrt
