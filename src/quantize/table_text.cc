// SPDX-License-Identifier: Apache-2.0
// The file of a calibration table: lines of text, a value each, a checksum at the end.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "xrt/calibration.h"
#include "xrt/error.h"

namespace xrt {
namespace {

constexpr std::string_view kTitle = "openxrt calibration 1";
constexpr std::string_view kTitleOfAny = "openxrt calibration ";
constexpr std::string_view kChecksum = "checksum: ";
constexpr const char* kNoOp = "-";

std::string quoted_name(const std::string& name) {
  return nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string checksum_of(std::string_view text) {
  return hash_bytes(text.data(), text.size()).hex();
}

class TableReader {
 public:
  TableReader(std::string_view text, const std::string& origin) : text_(text), origin_(origin) {}

  CalibrationTable read() {
    check_whole();
    next();  // the title
    CalibrationTable table;
    table.model = name_of(field("model"));
    table.structure = field("structure");
    table.weights = field("weights");
    table.observer = field("observer");
    table.samples = count_of(field("samples"));
    const std::size_t values = count_of(field("values"));
    for (std::size_t i = 0; i < values; ++i) table.values.push_back(value_of(next()));
    if (!next().starts_with(kChecksum)) refuse("more values than it says");
    return table;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorCode::kInvalidModel,
                fmt::format("calibration table '{}'{}: {}", origin_,
                            line_ == 0 ? "" : fmt::format(", line {}", line_), why));
  }

  // The title, and that nothing was lost or changed since the table was written.
  void check_whole() const {
    if (!text_.starts_with(kTitleOfAny)) {
      refuse(fmt::format("it does not begin with '{}'", kTitle));
    }
    const std::string_view title = text_.substr(0, text_.find('\n'));
    if (title != kTitle) refuse(fmt::format("'{}' is not read here, '{}' is", title, kTitle));
    const std::size_t at = text_.rfind(kChecksum);
    if (at == std::string_view::npos || text_[at - 1] != '\n') {
      refuse("the checksum at the end is missing: the file is truncated");
    }
    if (text_.substr(at) != fmt::format("{}{}\n", kChecksum, checksum_of(text_.substr(0, at)))) {
      refuse("the checksum is another: the file is damaged");
    }
  }

  std::string_view next() {
    ++line_;
    const std::size_t end = text_.find('\n', at_);
    if (end == std::string_view::npos) refuse("a line is missing");
    const std::string_view line = text_.substr(at_, end - at_);
    at_ = end + 1;
    return line;
  }

  std::string field(std::string_view name) {
    const std::string_view line = next();
    const std::string start = fmt::format("{}: ", name);
    if (!line.starts_with(start)) refuse(fmt::format("'{}' is wanted", start));
    return std::string(line.substr(start.size()));
  }

  std::string name_of(std::string_view text) const {
    const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!json.is_string()) refuse(fmt::format("{} is no name in quotation marks", text));
    return json.get<std::string>();
  }

  std::size_t count_of(const std::string& text) const {
    std::size_t count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc() || end != text.data() + text.size()) {
      refuse(fmt::format("'{}' is no count", text));
    }
    return count;
  }

  float number_of(std::string_view text) const {
    float number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) {
      refuse(fmt::format("'{}' is no finite number", text));
    }
    return number;
  }

  // "name" op low high
  CalibratedValue value_of(std::string_view line) const {
    std::array<std::string_view, 3> parts;  // from the end: high, low, op
    std::string_view rest = line;
    for (std::string_view& part : parts) {
      const std::size_t space = rest.rfind(' ');
      if (space == std::string_view::npos) refuse("\"name\" op low high is wanted");
      part = rest.substr(space + 1);
      rest = rest.substr(0, space);
    }
    CalibratedValue value;
    value.name = name_of(rest);
    value.op = parts[2] == kNoOp ? "" : std::string(parts[2]);
    value.range = {number_of(parts[1]), number_of(parts[0])};
    if (value.range.low > value.range.high) refuse("the low end is above the high one");
    return value;
  }

  std::string_view text_;
  const std::string& origin_;
  std::size_t at_ = 0, line_ = 0;
};

}  // namespace

std::string format_table(const CalibrationTable& table) {
  std::string text = fmt::format(
      "{}\nmodel: {}\nstructure: {}\nweights: {}\nobserver: {}\nsamples: {}\n", kTitle,
      quoted_name(table.model), table.structure, table.weights, table.observer, table.samples);
  text += fmt::format("values: {}\n", table.values.size());
  for (const CalibratedValue& value : table.values) {
    text += fmt::format("{} {} {} {}\n", quoted_name(value.name),
                        value.op.empty() ? kNoOp : value.op, value.range.low, value.range.high);
  }
  return text + fmt::format("{}{}\n", kChecksum, checksum_of(text));
}

CalibrationTable parse_table(std::string_view text, const std::string& origin) {
  return TableReader(text, origin).read();
}

CalibrationTable load_table(const std::filesystem::path& path) {
  return parse_table(read_file(path), path.string());
}

void save_table(const CalibrationTable& table, const std::filesystem::path& path) {
  write_output_file(path, format_table(table));
}

}  // namespace xrt
