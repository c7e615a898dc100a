// SPDX-License-Identifier: Apache-2.0
#include "program/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "cache/cache_entry.h"
#include "device/threads.h"
#include "exec/native_evaluator.h"
#include "ops/fingerprint.h"
#include "ops/shape_inference.h"
#include "passes/pass_manager.h"
#include "program/input_sizes.h"
#include "program/option_checks.h"
#include "xrt/error.h"
#include "xrt/graph_runner.h"
#include "xrt/model.h"

namespace xrt {
namespace {

constexpr const char* kEntryKind = "calibration";

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
  hasher.add_bytes(&options.average_factor, sizeof(options.average_factor));
  hasher.add_bytes(&options.round_sums, sizeof(options.round_sums));
  for (const std::string& name : options.skip) hasher.add(name);
  for (const std::vector<Tensor>& sample : samples) {
    for (const Tensor& t : sample) {
      hasher.add(to_string(t.dtype())).add(to_string(t.dims()));
      const Digest bytes = hash_large(t.raw(), t.bytes(), thread_budget());
      hasher.add_bytes(&bytes, sizeof(bytes));
    }
  }
  return "calibration-" + hasher.digest().hex();
}

std::optional<CalibrationTable> read(const std::filesystem::path& dir, const std::string& key) {
  try {
    std::error_code missing;
    if (!std::filesystem::exists(entry_path(dir, key), missing)) return std::nullopt;
    prepare_folder(dir);
    const auto payload = read_entry(entry_path(dir, key), entry_header(kEntryKind, "", key));
    if (!payload) return std::nullopt;
    return parse_table(
        {reinterpret_cast<const char*>(payload->data<std::uint8_t>()), payload->bytes()}, key);
  } catch (const Error& error) {
    log_warning(std::string("calibration: ") + error.what() + ": calibrating again");
  }
  return std::nullopt;
}

void write(const std::filesystem::path& dir, const std::string& key,
           const CalibrationTable& table) {
  const std::string text = format_table(table);
  const std::string_view blocks[] = {text};
  try {
    prepare_folder(dir);
    write_entry(dir, key, entry_header(kEntryKind, "", key), blocks);
  } catch (const Error& error) {
    log_trouble(dir, std::string(error.what()) + ": ranges are not kept");
  }
}

}  // namespace

Graph graph_to_quantize(const std::filesystem::path& model, const QuantizeOptions& options,
                        const ProgramOptions& sizes) {
  Graph graph = import_model(model);
  check_node_names(graph, "keep_float", {options.skip.begin(), options.skip.end()});
  check_rules(graph, options.rules);
  refine_inputs(graph, sizes);
  infer_shapes(graph);
  run_passes(graph, {.evaluate = native_evaluator(), .dump_dir = {}});
  return graph;
}

std::vector<Port> sample_ports(const Graph& graph, std::int64_t batch) {
  std::vector<Port> inputs;
  for (const ValueId id : graph.inputs()) {
    Type type = graph.type(id);
    if (!type.has_rank()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("input '{}' is {}: calibration needs tensors of known rank",
                              graph.value(id).name, to_string(type)));
    }
    if (type.rank() > 0 && !(*type.shape)[0].is_known()) {
      (*type.shape)[0] = Dim(std::max<std::int64_t>(batch, 1));
    }
    inputs.push_back({graph.value(id).name, type, false});
  }
  return inputs;
}

CalibrationTable calibrate_model(const std::filesystem::path& model, const SampleSource& samples,
                                 const QuantizeOptions& options, const ProgramOptions& sizes,
                                 std::int64_t batch) {
  const Graph graph = graph_to_quantize(model, options, sizes);
  Calibrator calibrator(graph, options, program_runner());
  samples(sample_ports(graph, batch),
          [&](const std::vector<Tensor>& sample) { calibrator.add(sample); });
  CalibrationTable table = make_table(graph, calibrator, options);
  table.model = model.filename().string();
  return table;
}

CalibrationTable load_any_table(const std::filesystem::path& file, const Graph& graph,
                                const QuantizeOptions& options) {
  const std::string text = read_file(file);
  if (!is_tensorrt_cache(text)) return parse_table(text, file.string());
  return table_of_cache(parse_tensorrt_cache(text, file.string()), file.string(), graph, options);
}

CalibrationTable calibrate(const Graph& graph, const std::vector<std::vector<Tensor>>& samples,
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
  CalibrationTable table = make_table(graph, calibrator, options);
  if (!key.empty()) write(cache_dir, key, table);
  return table;
}

}  // namespace xrt
