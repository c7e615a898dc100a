// SPDX-License-Identifier: Apache-2.0
// Attention as a whole.
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "engines/cuda/computation.h"
#include "engines/cuda/cudnn/graph.h"
#include "xrt/error.h"

namespace xrt::cuda {
namespace cudnn {
namespace {

constexpr int kSumOf = 0, kMostOf = 3;  // cudnnReduceTensorOp_t
constexpr std::size_t kMostPlans = 2;   // each is compiled by the library

Owned reduction(int mode, const Owned& x, const Owned& y) {
  const Owned description = make(kReduction);
  set(description, kModeOfReduction, kReductionMode, mode);
  set(description, kReductionComputedIn, kDataType, data_type(DType::kFloat32));
  finalize(description);
  Owned operation = make(kReductionOperation);
  set_descriptor(operation, kReductionX, x);
  set_descriptor(operation, kReductionY, y);
  set_descriptor(operation, kOperationOfReduction, description);
  finalize(operation);
  return operation;
}

Owned matmul(const Owned& a, const Owned& b, const Owned& c) {
  const Owned description = make(kMatmul);
  set(description, kMatmulComputedIn, kDataType, data_type(DType::kFloat32));
  finalize(description);
  Owned operation = make(kMatmulOperation);
  set_descriptor(operation, kMatmulA, a);
  set_descriptor(operation, kMatmulB, b);
  set_descriptor(operation, kMatmulC, c);
  set_descriptor(operation, kOperationOfMatmul, description);
  finalize(operation);
  return operation;
}

// Written out, with the logarithms of the sums: the form that kernels for all masks know.
Formulation formulation_of(const AttentionStep& step) {
  const Dims dims{step.q.dims[0], step.q.dims[1], step.q.dims[2], step.k.dims[2]};
  Dims row_dims = dims;
  row_dims.back() = 1;
  std::int64_t next_id = kIdFirstInner;
  const auto inner = [&](const Dims& of, int type = data_type(DType::kFloat32)) {
    return tensor({.id = next_id++,
                   .type = type,
                   .dims = of,
                   .strides = row_major_strides(of),
                   .is_virtual = true});
  };
  View keys = step.k;  // transposed
  std::swap(keys.dims[2], keys.dims[3]);
  std::swap(keys.strides[2], keys.strides[3]);
  Formulation made;
  const auto add = [&](Owned operation) { made.operations.push_back(std::move(operation)); };
  const Owned products = inner(dims);
  add(matmul(tensor(kIdQ, step.q), tensor(kIdK, keys), products));
  Owned scores = inner(dims);
  add(pointwise({.mode = kMultiply, .x = products, .b = number(kIdScale), .y = scores}));
  made.operands = {{kIdQ, step.q}, {kIdK, step.k},       {kIdV, step.v},
                   {kIdO, step.o}, {kIdSums, step.sums}, {kIdScale, std::nullopt, step.scale}};
  if (step.mask) {
    const Owned sum = inner(dims);
    add(pointwise({.mode = kAdd, .x = scores, .b = tensor(kIdMask, *step.mask), .y = sum}));
    made.operands.push_back({kIdMask, *step.mask});
    scores = sum;
  }
  if (step.causal) {
    const Owned row = inner(dims, kInt32Data), column = inner(dims, kInt32Data);
    for (const auto& [index, axis] : {std::pair{row, 2}, {column, 3}}) {
      add(pointwise(
          {.mode = kIndex, .x = scores, .y = index, .axis = axis, .computed_in = kInt32Data}));
    }
    const Owned visible = inner(dims, kBoolData);
    add(pointwise(
        {.mode = kNotLess, .x = row, .b = column, .y = visible, .computed_in = kInt32Data}));
    const Owned chosen = inner(dims);
    add(pointwise(
        {.mode = kSelect, .x = scores, .b = number(kIdLow), .condition = visible, .y = chosen}));
    made.operands.push_back({kIdLow, std::nullopt, -std::numeric_limits<float>::infinity()});
    scores = chosen;
  }
  const Owned most = inner(row_dims);
  add(reduction(kMostOf, scores, most));
  const Owned less = inner(dims), exponentials = inner(dims);
  add(pointwise({.mode = kSubtract, .x = scores, .b = most, .y = less}));
  add(pointwise({.mode = kExponential, .x = less, .y = exponentials}));
  const Owned sum = inner(row_dims), logarithm = inner(row_dims);
  add(reduction(kSumOf, exponentials, sum));
  add(pointwise({.mode = kLogarithm, .x = sum, .y = logarithm}));
  add(pointwise({.mode = kAdd, .x = most, .b = logarithm, .y = tensor(kIdSums, step.sums)}));
  const Owned weights = inner(dims, data_type(step.q.dtype));
  add(pointwise({.mode = kDivide, .x = exponentials, .b = sum, .y = weights}));
  add(matmul(weights, tensor(kIdV, step.v), tensor(kIdO, step.o)));
  return made;
}

// As one operation, which newer versions have, without masks.
std::optional<Formulation> formulation_as_whole(const AttentionStep& step) {
  constexpr std::size_t kFirstVersion = 91301;
  if (step.mask || step.causal || library().version() < kFirstVersion) return std::nullopt;
  const Owned operation = make(kAttentionForward);
  set_descriptor(operation, kAttentionQ, tensor(kIdQ, step.q));
  set_descriptor(operation, kAttentionK, tensor(kIdK, step.k));
  set_descriptor(operation, kAttentionV, tensor(kIdV, step.v));
  set_descriptor(operation, kAttentionO, tensor(kIdO, step.o));
  set_descriptor(operation, kAttentionScale, number(kIdScale));
  finalize(operation);
  return Formulation{{operation},
                     {{kIdQ, step.q},
                      {kIdK, step.k},
                      {kIdV, step.v},
                      {kIdO, step.o},
                      {kIdScale, std::nullopt, step.scale}}};
}

}  // namespace
}  // namespace cudnn

std::unique_ptr<Computation> make_attention(const LibraryOptions& options,
                                            const AttentionStep& step, std::string_view saved) {
  std::vector<cudnn::Formulation> formulations{cudnn::formulation_of(step)};
  try {
    if (auto whole = cudnn::formulation_as_whole(step)) formulations.push_back(std::move(*whole));
  } catch (const Error& error) {  // the other one may do
    if (error.code() != ErrorCode::kUnsupported) throw;
    log_debug(error.what());
  }
  return cudnn::make_graph_computation(options, step.o.dtype, std::move(formulations),
                                       cudnn::kMostPlans, saved);
}

}  // namespace xrt::cuda
