// SPDX-License-Identifier: Apache-2.0
// Resize: by scales or to sizes, in the modes that TensorRT shares with the standard.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "engines/tensorrt/lowering.h"

namespace xrt::tensorrt {

namespace {

using nvinfer1::InterpolationMode;
using nvinfer1::ResizeCoordinateTransformation;
using nvinfer1::ResizeRoundMode;
using nvinfer1::ResizeSelector;

void resize(NodeContext& c) {
  c.require_float(0);
  c.need(c.attr("antialias") == 0, "TensorRT has no antialias");
  c.need(need_string(c.node, "keep_aspect_ratio_policy") == "stretch", "an aspect-ratio policy");
  const Dims dims = c.require_static(0, "Resize");
  const std::int64_t rank = c.rank(0);
  const std::string mode = need_string(c.node, "mode");
  const std::string coordinates = need_string(c.node, "coordinate_transformation_mode");
  Dims axes(dims.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (c.node.has("axes")) axes = c.node.attr_ints("axes");
  const bool by_scales = c.has(2) && c.constant(2) != nullptr && c.constant(2)->count() > 0;
  Dims target = dims;
  std::vector<float> scales(dims.size(), 1.0F);
  if (by_scales) {
    const std::vector<float> given = c.floats(2, "the scales");
    c.need(given.size() == axes.size(), "the scales are not one per axis");
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const auto axis = static_cast<std::size_t>(axes[i]);
      scales[axis] = given[i];
      target[axis] =
          static_cast<std::int64_t>(std::floor(static_cast<float>(dims[axis]) * given[i]));
    }
  } else {
    const Dims given = c.integers(3, "the sizes");
    c.need(given.size() == axes.size(), "the sizes are not one per axis");
    for (std::size_t i = 0; i < axes.size(); ++i) {
      target[static_cast<std::size_t>(axes[i])] = given[i];
    }
  }
  // TensorRT interpolates over the last axes only.
  std::size_t first = 0;
  while (first < dims.size() && target[first] == dims[first] && scales[first] == 1.0F) ++first;
  const std::size_t changing = dims.size() - first;
  auto* layer = c.net.made(c.net.network().addResize(*c.in(0)), "a resize layer");
  if (mode == "nearest") {
    layer->setResizeMode(InterpolationMode::kNEAREST);
    const std::string rounding = need_string(c.node, "nearest_mode");
    layer->setNearestRounding(rounding == "round_prefer_floor"  ? ResizeRoundMode::kHALF_DOWN
                              : rounding == "round_prefer_ceil" ? ResizeRoundMode::kHALF_UP
                              : rounding == "floor"             ? ResizeRoundMode::kFLOOR
                                                                : ResizeRoundMode::kCEIL);
  } else if (mode == "linear") {
    c.need(changing <= 3, "TensorRT interpolates over the last three axes only");
    layer->setResizeMode(InterpolationMode::kLINEAR);
  } else {
    c.need(rank == 4 && changing <= 2, "TensorRT's cubic mode takes images of rank 4");
    layer->setResizeMode(InterpolationMode::kCUBIC);
    layer->setCubicCoeff(need_float(c.node, "cubic_coeff_a"));
    layer->setExcludeOutside(c.attr("exclude_outside") != 0);
  }
  c.need(mode == "cubic" || c.attr("exclude_outside") == 0, "exclude_outside");
  if (coordinates == "half_pixel" || coordinates == "pytorch_half_pixel") {
    layer->setCoordinateTransformation(ResizeCoordinateTransformation::kHALF_PIXEL);
    if (coordinates == "pytorch_half_pixel") {
      layer->setSelectorForSinglePixel(ResizeSelector::kUPPER);
    }
  } else if (coordinates == "asymmetric") {
    layer->setCoordinateTransformation(ResizeCoordinateTransformation::kASYMMETRIC);
  } else if (coordinates == "align_corners") {
    layer->setCoordinateTransformation(ResizeCoordinateTransformation::kALIGN_CORNERS);
  } else {
    c.refuse("TensorRT has no coordinate mode " + coordinates);
  }
  // Given scales decide the coordinates also where they do not divide evenly.
  if (by_scales) {
    layer->setScales(scales.data(), static_cast<std::int32_t>(scales.size()));
  } else {
    layer->setOutputDimensions(to_trt(target));
  }
  c.out(c.net.out(layer));
}

}  // namespace

void register_resize(LoweringTable& t) { t.add("Resize", resize); }

}  // namespace xrt::tensorrt
