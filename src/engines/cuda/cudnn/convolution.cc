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
  const Owned convolution = make(kConvolution);
  set(convolution, kComputedIn, kDataType, inner_type);
  set(convolution, kModeOfConvolution, kConvolutionMode, kCrossCorrelation);
  set(convolution, kSpatialDims, kInt64, static_cast<std::int64_t>(strides.size()));
  set_all(convolution, kDilations, kInt64, dilations);
  set_all(convolution, kStrides, kInt64, strides);
  set_all(convolution, kPadsBefore, kInt64, before);
  set_all(convolution, kPadsAfter, kInt64, after);
  finalize(convolution);
  Owned last = next();
  const Names names = names_of(step.result);
  const Owned forward = make(names.operation);
  set(forward, names.alpha, kFloat, 1.0F);
  set(forward, names.beta, kFloat, 0.0F);
  set_descriptor(forward, names.convolution, convolution);
  set_descriptor(forward, names.x, tensor(kIdX, as_plane(step.x)));
  set_descriptor(forward, names.w, tensor(kIdW, as_plane(step.w)));
  set_descriptor(forward, names.y, last);
  finalize(forward);
  Formulation made{{forward}, {{kIdX, step.x}, {kIdW, step.w}, {kIdY, step.y}}};
  if (step.residual) {
    const Owned sum = next();
    made.operations.push_back(pointwise(
        {.mode = kAdd, .x = last, .b = tensor(kIdResidual, as_plane(*step.residual)), .y = sum}));
    made.operands.push_back({kIdResidual, *step.residual});
    last = sum;
  }
  if (step.bias) {
    Dims ones(y.dims.size(), 1);
    ones[1] = y.dims[1];
    Dims apart(y.dims.size(), y.dims[1]);
    apart[1] = 1;
    const Owned sum = next();
    made.operations.push_back(pointwise(
        {.mode = kAdd,
         .x = last,
         .b = tensor(
             {.id = kIdBias, .type = data_type(step.bias->dtype), .dims = ones, .strides = apart}),
         .y = sum}));
    made.operands.push_back({kIdBias, *step.bias});
    last = sum;
  }
  if (has_relu) {
    made.operations.push_back(pointwise({.mode = kReluForward, .x = last, .y = next()}));
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

}  // namespace xrt::cuda
