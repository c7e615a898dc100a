// SPDX-License-Identifier: Apache-2.0
#include "program/calibration.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "base/hash.h"
#include "base/log.h"
#include "cache/cache_entry.h"
#include "device/threads.h"
#include "ops/fingerprint.h"
#include "xrt/error.h"
#include "xrt/graph_runner.h"

namespace xrt {
namespace {

constexpr const char* kEntryKind = "ranges";

// The fingerprint leaves the names of inner values out, by which ranges are known.
std::string key_of(const Graph& graph, const std::vector<std::vector<Tensor>>& samples,
                   const QuantizeOptions& options) {
  Hasher hasher;
  const Digest content = fingerprint(graph);
  hasher.add_bytes(&content, sizeof(content));
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    hasher.add(node.name);
    for (const ValueId v : node.outputs) hasher.add(v.valid() ? graph.value(v).name : "");
  }
  hasher.add(static_cast<std::int64_t>(options.clipping));
  hasher.add_bytes(&options.percentile, sizeof(options.percentile));
  hasher.add_bytes(&options.round_sums, sizeof(options.round_sums));
  for (const std::string& name : options.skip) hasher.add(name);
  for (const std::vector<Tensor>& sample : samples) {
    for (const Tensor& t : sample) {
      hasher.add(to_string(t.dtype())).add(to_string(t.dims()));
      const Digest bytes = hash_large(t.raw(), t.bytes(), thread_budget());
      hasher.add_bytes(&bytes, sizeof(bytes));
    }
  }
  return "ranges-" + hasher.digest().hex();
}

std::optional<ValueRanges> read(const std::filesystem::path& dir, const std::string& key) {
  try {
    std::error_code missing;
    if (!std::filesystem::exists(entry_path(dir, key), missing)) return std::nullopt;
    prepare_folder(dir);
    const auto payload = read_entry(entry_path(dir, key), entry_header(kEntryKind, "", key));
    if (!payload) return std::nullopt;
    const nlohmann::json json = nlohmann::json::parse(std::string_view(
        reinterpret_cast<const char*>(payload->data<std::uint8_t>()), payload->bytes()));
    ValueRanges ranges;
    for (const auto& [name, range] : json.items()) {
      ranges[name] = {range.at(0).get<float>(), range.at(1).get<float>()};
    }
    return ranges;
  } catch (const Error& error) {
    log_warning(std::string("calibration: ") + error.what() + ": calibrating again");
  } catch (const nlohmann::json::exception&) {
    log_warning("calibration: entry '" + key + "' makes no sense: calibrating again");
  }
  return std::nullopt;
}

void write(const std::filesystem::path& dir, const std::string& key, const ValueRanges& ranges) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, range] : ranges) json[name] = {range.low, range.high};
  const std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const std::string_view blocks[] = {text};
  try {
    prepare_folder(dir);
    write_entry(dir, key, entry_header(kEntryKind, "", key), blocks);
  } catch (const Error& error) {
    log_trouble(dir, std::string(error.what()) + ": ranges are not kept");
  }
}

}  // namespace

ValueRanges calibrate(const Graph& graph, const std::vector<std::vector<Tensor>>& samples,
                      const QuantizeOptions& options, const std::filesystem::path& cache_dir) {
  for (const std::vector<Tensor>& sample : samples) {
    for (const Tensor& t : sample) {
      if (t.defined() && t.dtype() != DType::kString) continue;
      throw Error(ErrorCode::kInvalidArgument,
                  "calibration samples consist of tensors that hold numbers");
    }
  }
  const std::string key = cache_dir.empty() ? "" : key_of(graph, samples, options);
  if (!key.empty()) {
    if (auto known = read(cache_dir, key)) return std::move(*known);
  }
  Calibrator calibrator(graph, options, program_runner());
  for (const std::vector<Tensor>& sample : samples) calibrator.add(sample);
  ValueRanges ranges = calibrator.ranges();
  if (!key.empty()) write(cache_dir, key, ranges);
  return ranges;
}

}  // namespace xrt
