// SPDX-License-Identifier: Apache-2.0
#include "registry/engine_options.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "base/nearest.h"
#include "xrt/error.h"
#include "xrt/options.h"

namespace xrt {
namespace {

template <typename T>
bool is_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

// What the kind wants where the value is none; null where it fits.
const char* misfit(EngineOption::Kind kind, std::string_view value) {
  switch (kind) {
    case EngineOption::Kind::kBool:
      return value == "true" || value == "false" || value == "1" || value == "0" ? nullptr
                                                                                 : "true or false";
    case EngineOption::Kind::kInt:
      return is_number<std::int64_t>(value) ? nullptr : "a whole number";
    case EngineOption::Kind::kNumber:
      return is_number<double>(value) ? nullptr : "a number";
    case EngineOption::Kind::kText:
      break;
  }
  return nullptr;
}

bool is_program_option(const std::string& name) {
  const std::vector<OptionInfo>& all = option_table();
  return std::any_of(all.begin(), all.end(), [&](const auto& option) {
    return option.name == name && option.retired.empty();
  });
}

bool has_option(const Engine& engine, const std::string& name) {
  const std::vector<EngineOption>& table = engine.info().options;
  return std::any_of(table.begin(), table.end(), [&](const auto& o) { return o.name == name; });
}

}  // namespace

std::optional<Precision> own_precision(const Engine& engine,
                                       const std::map<std::string, std::string>& options) {
  const auto given = options.find(kPrecisionOption);
  if (given == options.end() || has_option(engine, kPrecisionOption)) return std::nullopt;
  const std::optional<Precision> precision = parse_precision(given->second);
  if (!precision) {
    throw Error(ErrorCode::kInvalidArgument, "engine_options of '" + engine.name() +
                                                 "': the precision is '" + given->second +
                                                 "'; f32, bf16 or f16 is wanted");
  }
  return precision;
}

void check_engine_options(const Engine& engine, const std::map<std::string, std::string>& options) {
  const std::vector<EngineOption>& table = engine.info().options;
  for (const auto& [name, value] : options) {
    if (name == kPrecisionOption && own_precision(engine, options)) continue;
    const auto row = std::find_if(table.begin(), table.end(),
                                  [&, &wanted = name](const auto& o) { return o.name == wanted; });
    if (row == table.end()) {
      if (engine.info().checks_options) continue;
      if (is_program_option(name)) {
        throw Error(ErrorCode::kInvalidArgument,
                    "engine '" + engine.name() + "' has no option '" + name +
                        "' of its own: it is an option of the program, for all engines");
      }
      std::vector<std::string> known;
      known.reserve(table.size() + 1);
      for (const EngineOption& option : table) known.push_back(option.name);
      if (!has_option(engine, kPrecisionOption)) known.emplace_back(kPrecisionOption);
      throw Error(ErrorCode::kInvalidArgument, "engine '" + engine.name() + "' has no option '" +
                                                   name + "'" + suggestion(name, known));
    }
    if (const char* wanted = misfit(row->kind, value)) {
      throw Error(ErrorCode::kInvalidArgument, "engine '" + engine.name() + "', option '" + name +
                                                   "': '" + value + "' is not " + wanted);
    }
  }
}

}  // namespace xrt
