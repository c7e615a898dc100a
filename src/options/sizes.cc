// SPDX-License-Identifier: Apache-2.0
#include "options/sizes.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "xrt/error.h"

namespace xrt {
namespace {

std::vector<std::string> parts_of(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    std::string_view part = text.substr(0, end);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    parts.emplace_back(part);
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool is_whole_number(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// A size of 1 or more.
std::optional<std::int64_t> size_of(std::string_view text) {
  std::int64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc() || end != text.data() + text.size() || size < 1) return std::nullopt;
  return size;
}

}  // namespace

Shape parse_shape(std::string_view input, std::string_view text) {
  Shape shape;
  if (text.empty()) return shape;
  for (const std::string& part : parts_of(text, ',')) {
    const std::optional<std::int64_t> size = size_of(part);
    if (size) {
      shape.emplace_back(*size);
    } else if (part.empty() || is_whole_number(part)) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("shapes: a dimension of '{}' is '{}' in '{}'; a size of 1 or more, a "
                              "name or ? is wanted",
                              input, part, text));
    } else {
      shape.push_back(part == "?" ? Dim() : Dim(part));
    }
  }
  return shape;
}

NamedRange parse_range(std::string_view dimension, std::string_view text) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("ranges: '{}' is '{}'; {}", dimension, text, what));
  };
  NamedRange range{.name = std::string(dimension)};
  std::vector<std::int64_t> sizes;
  for (const std::string& part : parts_of(text, ':')) {
    const std::optional<std::int64_t> size = size_of(part);
    if (!size) fail("sizes of 1 or more are wanted: least:usual:most, or least:most");
    sizes.push_back(*size);
  }
  if (sizes.size() > 3) fail("least:usual:most is wanted");
  range.least = sizes.front();
  range.most = sizes.back();
  range.usual = sizes.size() == 3 ? sizes[1] : range.most;
  if (range.least > range.most) fail("the least is more than the most");
  if (range.usual < range.least || range.usual > range.most) {
    fail("the usual size is not between the least and the most");
  }
  return range;
}

std::vector<NamedRange> named_ranges(const ProgramOptions& options) {
  std::vector<NamedRange> ranges;
  for (const auto& [name, text] : options.ranges) ranges.push_back(parse_range(name, text));
  return ranges;
}

OptionMap to_option(const std::vector<NamedRange>& ranges) {
  OptionMap texts;
  for (const NamedRange& range : ranges) {
    texts[range.name] = fmt::format("{}:{}:{}", range.least, range.usual, range.most);
  }
  return texts;
}

}  // namespace xrt
