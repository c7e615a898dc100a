// SPDX-License-Identifier: Apache-2.0
#include "engines/tensorrt/ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

#include "xrt/error.h"

namespace xrt::tensorrt {

namespace {

constexpr std::int64_t kDefaultMaximum = 64;  // of a dimension that nobody bounds

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// "8" or "1:8:32".
std::optional<Range> parse_range(std::string_view text) {
  const std::vector<std::string_view> parts = split(text, ':');
  std::vector<std::int64_t> values;
  for (const std::string_view part : parts) {
    const auto value = number(part);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  if (values.size() == 1) return Range{values[0], values[0], values[0]};
  if (values.size() != 3 || values[0] > values[1] || values[1] > values[2]) return std::nullopt;
  return Range{values[0], values[1], values[2]};
}

std::map<std::string, Range, std::less<>> declared_ranges(const CompileOptions& options) {
  std::map<std::string, Range, std::less<>> out;
  const auto found = options.engine_options.find("shapes");
  if (found == options.engine_options.end() || found->second.empty()) return out;
  for (const std::string_view part : split(found->second, ',')) {
    const std::size_t equals = part.find('=');
    const auto range =
        equals == std::string_view::npos ? std::nullopt : parse_range(part.substr(equals + 1));
    if (!range) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("TensorRT: option shapes: '{}' is not SYMBOL=LENGTH or "
                              "SYMBOL=MIN:OPTIMUM:MAX",
                              part));
    }
    out.emplace(std::string(part.substr(0, equals)), *range);
  }
  return out;
}

}  // namespace

Ranges initial_ranges(const Graph& graph, const CompileOptions& options) {
  // What is said to the engine itself goes before what is said to all.
  auto declared = declared_ranges(options);
  for (const SizeRange& range : options.ranges) {
    declared.emplace(range.symbol, Range{range.least, range.usual, range.most});
  }
  Ranges out;
  for (const ValueId id : graph.inputs()) {
    std::vector<Range> axes;
    const Shape& shape = graph.type(id).shape.value();
    for (std::size_t i = 0; i < shape.size(); ++i) {
      Range range;
      if (shape[i].is_known()) {
        range = {shape[i].value(), shape[i].value(), shape[i].value()};
      } else if (const auto found = declared.find(shape[i].symbol()); found != declared.end()) {
        range = found->second;
      } else if (i == 0 && options.max_batch_size > 0) {
        range = {1, options.max_batch_size, options.max_batch_size};
      }
      axes.push_back(range);
    }
    out.push_back(std::move(axes));
  }
  return out;
}

bool complete(const Ranges& ranges) {
  return std::all_of(ranges.begin(), ranges.end(), [](const std::vector<Range>& axes) {
    return std::all_of(axes.begin(), axes.end(), [](const Range& r) { return r.known(); });
  });
}

void close(Ranges& ranges) {
  for (auto& axes : ranges) {
    for (Range& range : axes) {
      if (!range.known()) range = {1, kDefaultMaximum, kDefaultMaximum};
    }
  }
}

bool fits(const Ranges& ranges, const std::vector<Dims>& shapes) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    for (std::size_t k = 0; k < ranges[i].size(); ++k) {
      const Range& r = ranges[i][k];
      if (!r.known() || shapes[i][k] < r.min || shapes[i][k] > r.max) return false;
    }
  }
  return true;
}

Ranges grown(const Ranges& ranges, const std::vector<Dims>& shapes) {
  Ranges out = ranges;
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (std::size_t k = 0; k < out[i].size(); ++k) {
      Range& r = out[i][k];
      const std::int64_t length = shapes[i][k];
      if (!r.known()) {
        // A smaller batch is to be expected; a smaller image might not even pass the network.
        r = {k == 0 ? std::min<std::int64_t>(1, length) : length, length, length};
        continue;
      }
      r.min = std::min(r.min, length);
      if (length > r.max) r.max = r.opt = length;
    }
  }
  return out;
}

std::string misfit(const Ranges& ranges, const std::vector<Dims>& shapes,
                   const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    for (std::size_t k = 0; k < ranges[i].size(); ++k) {
      const Range& r = ranges[i][k];
      if (r.known() && (shapes[i][k] < r.min || shapes[i][k] > r.max)) {
        return fmt::format("input '{}': axis {} is {}, the engine was built for {} to {}", names[i],
                           k, shapes[i][k], r.min, r.max);
      }
    }
  }
  return {};
}

std::string to_text(const Ranges& ranges) {
  std::string text;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (i > 0) text += ';';
    for (std::size_t k = 0; k < ranges[i].size(); ++k) {
      if (k > 0) text += ',';
      const Range& r = ranges[i][k];
      text += r.fixed() ? fmt::format("{}", r.min) : fmt::format("{}:{}:{}", r.min, r.opt, r.max);
    }
  }
  return text;
}

Ranges from_text(const std::string& text) {
  Ranges out;
  for (const std::string_view input : split(text, ';')) {
    std::vector<Range> axes;
    if (!input.empty()) {
      for (const std::string_view axis : split(input, ',')) {
        const auto range = parse_range(axis);
        if (!range) {
          throw Error(ErrorCode::kInvalidModel,
                      fmt::format("TensorRT: '{}' is no range of lengths", axis));
        }
        axes.push_back(*range);
      }
    }
    out.push_back(std::move(axes));
  }
  return out;
}

}  // namespace xrt::tensorrt
