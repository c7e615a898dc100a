// SPDX-License-Identifier: Apache-2.0
#include "ops/choices.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/message.h"
#include "xrt/error.h"

namespace xrt {
namespace {

constexpr std::string_view kPadding = "NOTSET, SAME_UPPER, SAME_LOWER, VALID";
constexpr std::string_view kDirections = "forward, reverse, bidirectional";
constexpr std::string_view kReductions = "none, add, mul, max, min";
constexpr std::string_view kLosses = "mean, sum, none";
constexpr std::string_view kBlocks = "DCR, CRD";

struct Choice {
  std::string_view op, attribute, ways;
};

constexpr Choice kChoices[] = {
    {"AveragePool", "auto_pad", kPadding},
    {"BitShift", "direction", "LEFT, RIGHT"},
    {"Conv", "auto_pad", kPadding},
    {"ConvInteger", "auto_pad", kPadding},
    {"ConvTranspose", "auto_pad", kPadding},
    {"DepthToSpace", "mode", kBlocks},
    {"GRU", "direction", kDirections},
    {"Gelu", "approximate", "none, tanh"},
    {"GridSample", "mode", "linear, nearest, cubic"},
    {"GridSample", "padding_mode", "zeros, border, reflection"},
    {"LSTM", "direction", kDirections},
    {"LpNormalization", "p", "1, 2"},
    {"LpPool", "auto_pad", kPadding},
    {"MaxPool", "auto_pad", kPadding},
    {"NegativeLogLikelihoodLoss", "reduction", kLosses},
    {"Pad", "mode", "constant, reflect, edge, wrap"},
    {"QLinearConv", "auto_pad", kPadding},
    {"RNN", "direction", kDirections},
    {"Resize", "coordinate_transformation_mode",
     "half_pixel, half_pixel_symmetric, pytorch_half_pixel, align_corners, asymmetric, "
     "tf_crop_and_resize"},
    {"Resize", "keep_aspect_ratio_policy", "stretch, not_larger, not_smaller"},
    {"Resize", "mode", "nearest, linear, cubic"},
    {"Resize", "nearest_mode", "round_prefer_floor, round_prefer_ceil, floor, ceil"},
    {"RoiAlign", "coordinate_transformation_mode", "half_pixel, output_half_pixel"},
    {"RoiAlign", "mode", "avg, max"},
    {"ScatterElements", "reduction", kReductions},
    {"ScatterND", "reduction", kReductions},
    {"SoftmaxCrossEntropyLoss", "reduction", kLosses},
    {"SpaceToDepth", "mode", kBlocks},
    {"StringNormalizer", "case_change_action", "NONE, LOWER, UPPER"},
    {"TensorScatter", "mode", "linear, circular"},
};

bool holds(std::string_view ways, std::string_view way) {
  while (!ways.empty()) {
    const std::size_t end = ways.find(", ");
    if (ways.substr(0, end) == way) return true;
    ways = end == std::string_view::npos ? std::string_view{} : ways.substr(end + 2);
  }
  return false;
}

}  // namespace

void check_choices(const Node& node) {
  if (!node.domain.empty() || node.attributes.empty()) return;
  for (const Choice& choice : kChoices) {
    if (choice.op != node.op) continue;
    const auto found = node.attributes.find(choice.attribute);
    if (found == node.attributes.end()) continue;
    const auto* number = std::get_if<std::int64_t>(&found->second);
    const std::string way =
        number != nullptr ? fmt::to_string(*number) : node.attr_string(choice.attribute, "");
    if (holds(choice.ways, way)) continue;
    const std::string shown = number != nullptr ? way : "'" + shortened(way) + "'";
    throw Error(ErrorCode::kInvalidModel, fmt::format("attribute '{}' is {}, not one of {}",
                                                      choice.attribute, shown, choice.ways));
  }
}

}  // namespace xrt
