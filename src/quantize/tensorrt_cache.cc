// SPDX-License-Identifier: Apache-2.0
// Calibration tables in the form of TensorRT's IInt8Calibrator::writeCalibrationCache().
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <utility>

#include "base/listed.h"
#include "ir/pattern.h"
#include "ops/op_facts.h"
#include "quantize/calibration_values.h"
#include "xrt/calibration.h"
#include "xrt/error.h"

namespace xrt {
namespace {

constexpr std::string_view kStart = "TRT-";
constexpr float kSymmetricSteps = 127;  // on either side of zero
constexpr int kLeastVersion = 1000;
constexpr std::size_t kMostMissing = 3;  // values that a message lists

// Whether a value has no element below zero, as far as the ops before it tell.
bool is_never_negative(const Graph& graph, ValueId id) {
  for (;;) {
    const NodeId producer = graph.value(id).producer;
    if (!producer.valid()) return false;
    const Node& node = graph.node(producer);
    for (const char* op : {"Relu", "Sigmoid", "HardSigmoid", "Softmax", "Abs", "Exp"}) {
      if (is_op(node, op)) return true;
    }
    if (is_op(node, "Clip")) {
      const Tensor* least = node.input(1).valid() ? graph.constant(node.input(1)) : nullptr;
      return least != nullptr && least->dtype() == DType::kFloat32 && least->count() == 1 &&
             least->data<float>()[0] >= 0;
    }
    const bool pools = is_op(node, "MaxPool") || is_op(node, "AveragePool") ||
                       is_op(node, "GlobalAveragePool") || is_op(node, "GlobalMaxPool");
    if (!pools && !at_most_once(op_facts(node).moves)) return false;
    id = node.input(0);
  }
}

}  // namespace

std::string format_tensorrt_cache(const CalibrationTable& table, int version) {
  if (version < kLeastVersion) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a version of TensorRT is wanted as its caches write it, such as 8601 "
                            "or 100300, not {}",
                            version));
  }
  std::string text = fmt::format("{}{}-EntropyCalibration2\n", kStart, version);
  for (const CalibratedValue& value : table.values) {
    if (value.name.find('\n') != std::string::npos) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("a cache of TensorRT cannot hold the value '{}', whose name has a "
                              "line break",
                              value.name));
    }
    const float scale = std::max(-value.range.low, value.range.high) / kSymmetricSteps;
    text += fmt::format("{}: {:08x}\n", value.name, std::bit_cast<std::uint32_t>(scale));
  }
  return text;
}

bool is_tensorrt_cache(std::string_view text) { return text.starts_with(kStart); }

std::map<std::string, float> parse_tensorrt_cache(std::string_view text,
                                                  const std::string& origin) {
  std::size_t number = 0;
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kInvalidModel,
                fmt::format("TensorRT calibration cache '{}', line {}: {}", origin, number, why));
  };
  std::map<std::string, float> scales;
  for (std::size_t at = 0; at < text.size();) {
    ++number;
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (number == 1) {
      const bool known = line.starts_with(kStart) && line.find("Calibration") != line.npos;
      if (!known) refuse("TRT-<version>-<kind>Calibration is wanted");
      continue;
    }
    if (line.empty()) continue;
    // A name may hold colons.
    const std::size_t colon = line.rfind(": ");
    if (colon == line.npos) refuse("'name: scale in hexadecimal digits' is wanted");
    const std::string_view digits = line.substr(colon + 2);
    std::uint32_t bits = 0;
    const auto [stop, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
    const auto scale = std::bit_cast<float>(bits);
    if (error != std::errc() || stop != digits.data() + digits.size() || !(scale >= 0) ||
        !std::isfinite(scale * kSymmetricSteps)) {
      refuse(fmt::format("'{}' is no scale: the hexadecimal digits of a positive float32", digits));
    }
    scales[std::string(line.substr(0, colon))] = scale;
  }
  if (scales.empty()) refuse("it holds no scale");
  return scales;
}

CalibrationTable table_of_cache(const std::map<std::string, float>& scales,
                                const std::string& origin, const Graph& graph,
                                const QuantizeOptions& options) {
  CalibrationTable table;
  table.model = graph.name();
  const quantization::GraphDigests digests = quantization::digests_of(graph);
  table.structure = digests.structure;
  table.weights = digests.weights;
  table.observer = "tensorrt";
  table.values = quantization::values_to_calibrate(graph, options);
  std::vector<std::string> missing;
  for (CalibratedValue& value : table.values) {
    const auto found = scales.find(value.name);
    if (found == scales.end()) {
      missing.push_back("'" + value.name + "'");
      continue;
    }
    const float end = found->second * kSymmetricSteps;
    const ValueId id = *graph.find_value(value.name);
    value.range = {is_never_negative(graph, id) ? 0 : -end, end};
  }
  if (!missing.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("TensorRT calibration cache '{}' has no scale for {} of '{}': it is "
                            "of another model, or of one whose values have other names",
                            origin, listed(missing, kMostMissing), graph.name()));
  }
  return table;
}

}  // namespace xrt
