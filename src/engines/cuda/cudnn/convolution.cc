// SPDX-License-Identifier: Apache-2.0
// Convolutions with what is behind them.
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "engines/cuda/computation.h"
#include "engines/cuda/cudnn/graph.h"

namespace xrt::cuda {
namespace cudnn {
namespace {

constexpr int kCrossCorrelation = 1;  // cudnnConvolutionMode_t
constexpr std::size_t kMostConvolutionWays = 6;
// The library compiles each of these for a quarter of a second.
constexpr std::size_t kMostIntegerWays = 3;

// A line is a plane of one row.
View as_plane(View view) {
  if (view.dims.size() == 3) {
    view.dims.insert(view.dims.begin() + 2, 1);
    view.strides.insert(view.strides.begin() + 2, view.strides[2] * view.dims[3]);
  }
  return view;
}

// What an operation and its attributes are called.
struct Names {
  Descriptor operation;
  Name alpha, beta, convolution, x, w, y;
};
Names names_of(ConvolutionStep::Result result) {
  switch (result) {
    case ConvolutionStep::Result::kX:
      return {
          kConvolutionBackwardData, kBackwardDataAlpha, kBackwardDataBeta, kBackwardDataConvolution,
          kBackwardDataX,           kBackwardDataW,     kBackwardDataY};
    case ConvolutionStep::Result::kW:
      return {kConvolutionBackwardFilter,
              kBackwardFilterAlpha,
              kBackwardFilterBeta,
              kBackwardFilterConvolution,
              kBackwardFilterX,
              kBackwardFilterW,
              kBackwardFilterY};
    case ConvolutionStep::Result::kY:
      break;
  }
  return {kConvolutionForward, kForwardAlpha, kForwardBeta, kForwardConvolution,
          kForwardX,           kForwardW,     kForwardY};
}

// How windows move; what is summed in.
Owned description(int sum_type, const std::vector<std::int64_t>& strides,
                  const std::vector<std::int64_t>& dilations,
                  const std::vector<std::int64_t>& before, const std::vector<std::int64_t>& after) {
  Owned convolution = make(kConvolution);
  set(convolution, kComputedIn, kDataType, sum_type);
  set(convolution, kModeOfConvolution, kConvolutionMode, kCrossCorrelation);
  set(convolution, kSpatialDims, kInt64, static_cast<std::int64_t>(strides.size()));
  set_all(convolution, kDilations, kInt64, dilations);
  set_all(convolution, kStrides, kInt64, strides);
  set_all(convolution, kPadsBefore, kInt64, before);
  set_all(convolution, kPadsAfter, kInt64, after);
  finalize(convolution);
  return convolution;
}

Owned convolve(const Names& names, const Owned& convolution, const Owned& x, const Owned& w,
               const Owned& y) {
  Owned operation = make(names.operation);
  set(operation, names.alpha, kFloat, 1.0F);
  set(operation, names.beta, kFloat, 0.0F);
  set_descriptor(operation, names.convolution, convolution);
  set_descriptor(operation, names.x, x);
  set_descriptor(operation, names.w, w);
  set_descriptor(operation, names.y, y);
  finalize(operation);
  return operation;
}

// A number per channel.
Owned by_channel(std::int64_t id, const View& numbers, const View& y) {
  Dims ones(y.dims.size(), 1);
  ones[1] = y.dims[1];
  Dims apart(y.dims.size(), y.dims[1]);
  apart[1] = 1;
  return tensor({.id = id, .type = data_type(numbers.dtype), .dims = ones, .strides = apart});
}

// The convolution, then what is added, then the activation: the order that most engines know.
Formulation formulation_of(const ConvolutionStep& step) {
  const View y = as_plane(step.y);
  const bool is_double = y.dtype == DType::kFloat64;
  const int inner_type = data_type(is_double ? DType::kFloat64 : DType::kFloat32);
  const Owned result = tensor(kIdY, y);
  const bool has_relu = step.activation == Activation::kRelu;
  int left = (step.residual ? 1 : 0) + (step.bias ? 1 : 0) + (has_relu ? 1 : 0);
  std::int64_t next_id = kIdFirstInner;
  // The next result: the last one is the graph's.
  const auto next = [&] {
    if (left-- == 0) return result;
    return tensor({.id = next_id++,
                   .type = inner_type,
                   .dims = y.dims,
                   .strides = y.strides,
                   .is_virtual = true});
  };
  std::vector<std::int64_t> strides = step.strides, dilations = step.dilations,
                            before = step.pads_begin, after = step.pads_end;
  if (step.y.dims.size() == 3) {
    strides.insert(strides.begin(), 1);
    dilations.insert(dilations.begin(), 1);
    before.insert(before.begin(), 0);
    after.insert(after.begin(), 0);
  }
  const Owned convolution = description(inner_type, strides, dilations, before, after);
  Owned last = next();
  const Names names = names_of(step.result);
  const Owned forward = convolve(names, convolution, tensor(kIdX, as_plane(step.x)),
                                 tensor(kIdW, as_plane(step.w)), last);
  Formulation made{{forward}, {{kIdX, step.x}, {kIdW, step.w}, {kIdY, step.y}}};
  if (step.residual) {
    const Owned sum = next();
    made.operations.push_back(pointwise(
        {.mode = kAdd, .x = last, .b = tensor(kIdResidual, as_plane(*step.residual)), .y = sum}));
    made.operands.push_back({kIdResidual, *step.residual});
    last = sum;
  }
  if (step.bias) {
    const Owned sum = next();
    made.operations.push_back(
        pointwise({.mode = kAdd, .x = last, .b = by_channel(kIdBias, *step.bias, y), .y = sum}));
    made.operands.push_back({kIdBias, *step.bias});
    last = sum;
  }
  if (has_relu) {
    made.operations.push_back(pointwise({.mode = kReluForward, .x = last, .y = next()}));
  }
  return made;
}

Formulation formulation_of(const IntegerConvolution& step) {
  std::int64_t next_id = kIdFirstInner;
  const auto inner = [&](int type) {
    return tensor({.id = next_id++,
                   .type = type,
                   .dims = step.y.dims,
                   .strides = step.y.strides,
                   .is_virtual = true});
  };
  const auto real = [&] { return inner(data_type(DType::kFloat32)); };
  Formulation made{{}, {{kIdX, step.x}, {kIdW, step.w}, {kIdY, step.y}}};
  const auto compute = [&](int mode, const Owned& x, const Owned& b, const Owned& y) {
    made.operations.push_back(pointwise({.mode = mode, .x = x, .b = b, .y = y}));
    return y;
  };
  const auto give_number = [&](Id id, float value) {
    made.operands.push_back({.id = id, .view = {}, .value = value});
    return number(id);
  };
  const Owned sums = inner(kInt32Data);
  made.operations.push_back(convolve(
      names_of(ConvolutionStep::Result::kY),
      description(kInt32Data, step.strides, step.dilations, step.pads_begin, step.pads_end),
      tensor(kIdX, step.x), tensor(kIdW, step.w), sums));
  made.operands.push_back({kIdScale, step.scale});
  Owned last = compute(kMultiply, sums, by_channel(kIdScale, step.scale, step.y), real());
  const bool has_scale = step.y_scale != 1;
  int left = (step.residual ? 1 : 0) + (step.has_relu ? 1 : 0) + (has_scale ? 1 : 0);
  // The next of them: the last one is the graph's result.
  const auto next = [&] { return left-- == 0 ? tensor(kIdY, step.y) : real(); };
  made.operands.push_back({kIdBias, step.bias});
  last = compute(kAdd, last, by_channel(kIdBias, step.bias, step.y), next());
  if (step.residual) {
    made.operands.push_back({kIdResidual, *step.residual});
    const Owned scaled = compute(kMultiply, tensor(kIdResidual, *step.residual),
                                 give_number(kIdResidualScale, step.residual_scale), real());
    last = compute(kAdd, last, scaled, next());
  }
  if (step.has_relu) last = compute(kReluForward, last, nullptr, next());
  if (has_scale) {
    compute(kMultiply, last, give_number(kIdResultScale, step.y_scale), next());
  }
  return made;
}

}  // namespace
}  // namespace cudnn

std::unique_ptr<Computation> make_convolution(const LibraryOptions& options,
                                              const ConvolutionStep& step, std::string_view saved) {
  return cudnn::make_graph_computation(options, step.y.dtype, {cudnn::formulation_of(step)},
                                       cudnn::kMostConvolutionWays, saved);
}

std::unique_ptr<Computation> make_integer_convolution(const LibraryOptions& options,
                                                      const IntegerConvolution& step,
                                                      std::string_view saved) {
  return cudnn::make_graph_computation(options, step.y.dtype, {cudnn::formulation_of(step)},
                                       cudnn::kMostIntegerWays, saved);
}

}  // namespace xrt::cuda
