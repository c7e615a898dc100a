// SPDX-License-Identifier: Apache-2.0
// Text for terminals: aligned tables, byte counts and times.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace xrt::cli {

// Writes to standard error. What cannot be written is dropped: no command fails because a note of
// it was not read.
void tell(const std::string& text);

template <typename... T>
void tell(fmt::format_string<T...> format, T&&... arguments) {
  tell(fmt::format(format, std::forward<T>(arguments)...));
}

// Columns aligned by content; the first row is the head. Columns named in `right` (by index) are
// aligned to the right. Every line ends with a newline and begins with two spaces.
std::string table(const std::vector<std::vector<std::string>>& rows,
                  const std::vector<std::size_t>& right = {});

std::string bytes_text(double bytes);                            // "1.5 MiB"
std::string time_text(double seconds);                           // "1.23 ms"
std::string plural(std::size_t count, const std::string& noun);  // "1 node", "2 nodes"

// Wraps at `width` columns; every line but the first is indented.
std::string wrap(const std::string& text, std::size_t width, std::size_t indent);

// A word of a POSIX shell, in quotes where it needs them.
std::string quoted(const std::string& word);

}  // namespace xrt::cli
