// SPDX-License-Identifier: Apache-2.0
#include "isolation/description.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/handles.h"
#include "xrt/error.h"

namespace xrt {
namespace {

void write_texts(FlatWriter& to, const std::vector<std::string>& texts) {
  to.number(static_cast<std::int64_t>(texts.size()));
  for (const std::string& text : texts) to.text(text);
}

std::vector<std::string> read_texts(FlatReader& from) {
  std::vector<std::string> texts(from.count());
  for (std::string& text : texts) text = from.text();
  return texts;
}

void write_map(FlatWriter& to, const std::map<std::string, std::string>& map) {
  to.number(static_cast<std::int64_t>(map.size()));
  for (const auto& [key, value] : map) to.text(key).text(value);
}

std::map<std::string, std::string> read_map(FlatReader& from) {
  std::map<std::string, std::string> map;
  for (std::size_t n = from.count(); n-- > 0;) {
    std::string key = from.text();
    map[std::move(key)] = from.text();
  }
  return map;
}

template <typename T>
T read_word(FlatReader& from, T last) {
  const std::int64_t number = from.number();
  if (number < 0 || number > static_cast<std::int64_t>(last)) {
    throw Error(ErrorCode::kEngine, "its worker says what makes no sense");
  }
  return static_cast<T>(number);
}

}  // namespace

void write_description(FlatWriter& to, const EngineInfo& info) {
  to.text(core_version());
  to.text(info.name).text(info.version).text(info.location);
  to.number(static_cast<std::int64_t>(info.devices.size()));
  for (const DeviceInfo& device : info.devices) {
    to.text(device.name).number(static_cast<std::int64_t>(device.precisions.size()));
    for (const Precision precision : device.precisions) {
      to.number(static_cast<std::int64_t>(precision));
    }
  }
  to.number(static_cast<std::int64_t>(info.options.size()));
  for (const EngineOption& option : info.options) {
    to.text(option.name).number(static_cast<std::int64_t>(option.kind));
    to.text(option.default_value).text(option.help);
  }
  to.number(info.checks_options ? 1 : 0).number(static_cast<std::int64_t>(info.shapes));
  to.number(info.self_contained ? 1 : 0).number(info.checks_indices ? 1 : 0);
  write_map(to, info.offline_options);
  write_texts(to, info.files);
}

EngineInfo read_description(FlatReader& from) {
  if (const std::string version = from.text(); version != core_version()) {
    throw Error(ErrorCode::kEngine, "its worker is of OpenXRT " + version + ", this is " +
                                        core_version() + ": install one of them");
  }
  EngineInfo info;
  info.name = from.text();
  info.version = from.text();
  info.location = from.text();
  info.devices.clear();
  for (std::size_t n = from.count(); n-- > 0;) {
    DeviceInfo& device = info.devices.emplace_back();
    device.name = from.text();
    device.precisions.clear();
    for (std::size_t p = from.count(); p-- > 0;) {
      device.precisions.push_back(read_word(from, Precision::kF16));
    }
  }
  for (std::size_t n = from.count(); n-- > 0;) {
    EngineOption& option = info.options.emplace_back();
    option.name = from.text();
    option.kind = read_word(from, EngineOption::Kind::kNumber);
    option.default_value = from.text();
    option.help = from.text();
  }
  info.checks_options = from.number() != 0;
  info.shapes = read_word(from, Shapes::kAny);
  info.self_contained = from.number() != 0;
  info.checks_indices = from.number() != 0;
  info.offline_options = read_map(from);
  info.files = read_texts(from);
  return info;
}

void write_executable(FlatWriter& to, const ExecutableInfo& info) {
  to.number(info.workspace_bytes ? 1 : 0);
  to.number(static_cast<std::int64_t>(info.workspace_bytes.value_or(0)));
  to.number(static_cast<std::int64_t>(info.weight_bytes)).number(info.threads);
  to.number(reinterpret_cast<std::intptr_t>(info.pool)).number(info.runs_at_once);
  write_texts(to, info.remarks);
}

ExecutableDescription read_executable(FlatReader& from) {
  ExecutableDescription description;
  ExecutableInfo& info = description.info;
  const bool known = from.number() != 0;
  const std::int64_t workspace = from.number();
  info.workspace_bytes.reset();
  if (known) info.workspace_bytes = static_cast<std::size_t>(std::max<std::int64_t>(0, workspace));
  info.weight_bytes = static_cast<std::size_t>(std::max<std::int64_t>(0, from.number()));
  constexpr std::int64_t kMostThreads = 1 << 16;
  info.threads = static_cast<int>(std::clamp<std::int64_t>(from.number(), 0, kMostThreads));
  description.pool = static_cast<std::uint64_t>(from.number());
  info.runs_at_once = static_cast<int>(std::clamp<std::int64_t>(from.number(), 0, kMostThreads));
  info.remarks = read_texts(from);
  return description;
}

void write_options(FlatWriter& to, const CompileOptions& options) {
  to.text(options.device).number(static_cast<std::int64_t>(options.precision));
  to.number(static_cast<std::int64_t>(options.phase)).number(options.num_threads);
  to.number(options.streams);
  write_map(to, options.engine_options);
  to.number(static_cast<std::int64_t>(options.max_workspace_bytes));
  to.number(options.max_batch_size).text(options.records_dir);
  to.number(static_cast<std::int64_t>(options.ranges.size()));
  for (const SizeRange& range : options.ranges) {
    to.text(range.symbol).number(range.least).number(range.usual).number(range.most);
  }
}

CompileOptions read_options(FlatReader& from) {
  CompileOptions options;
  options.device = from.text();
  options.precision = read_word(from, Precision::kF16);
  options.phase = read_word(from, Phase::kTraining);
  options.num_threads = static_cast<int>(from.number());
  options.streams = static_cast<int>(from.number());
  options.engine_options = read_map(from);
  options.max_workspace_bytes = static_cast<std::size_t>(from.number());
  options.max_batch_size = from.number();
  options.records_dir = from.text();
  for (std::size_t n = from.count(); n-- > 0;) {
    SizeRange& range = options.ranges.emplace_back();
    range.symbol = from.text();
    range.least = from.number();
    range.usual = from.number();
    range.most = from.number();
  }
  return options;
}

}  // namespace xrt
