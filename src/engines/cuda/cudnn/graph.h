// SPDX-License-Identifier: Apache-2.0
// Graphs of cuDNN's operations, and steps that they compute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "engines/cuda/computation.h"
#include "engines/cuda/cudnn/library.h"
#include "engines/cuda/plan.h"

namespace xrt::cuda::cudnn {

// cudnnPointwiseMode_t.
constexpr int kAdd = 0, kMultiply = 1, kDivide = 6, kSubtract = 9, kExponential = 13,
              kLogarithm = 15, kReluForward = 100, kNotLess = 303, kIndex = 501, kSelect = 601;

// A tensor's number, by which a pack names its memory.
enum Id : std::int64_t {
  kIdX = 1,
  kIdW,
  kIdY,
  kIdBias,
  kIdResidual,
  kIdQ,
  kIdK,
  kIdV,
  kIdO,
  kIdSums,
  kIdMask,
  kIdScale,
  kIdLow,
  kIdResidualScale,
  kIdResultScale,
  kIdFirstInner
};

struct TensorFacts {
  std::int64_t id = 0;
  int type = 0;
  Dims dims = {}, strides = {};
  bool is_virtual = false;   // inside the graph
  bool is_by_value = false;  // a number in the host's memory
};
Owned tensor(const TensorFacts& facts);
Owned tensor(std::int64_t id, const View& view);
// A float that the host holds.
Owned number(std::int64_t id);

struct PointwiseFacts {
  int mode = 0;
  Owned x = nullptr, b = nullptr, condition = nullptr, y = nullptr;
  std::optional<std::int64_t> axis = {};
  int computed_in = data_type(DType::kFloat32);
};
Owned pointwise(const PointwiseFacts& facts);

// What a graph reads and writes: memory, or a number.
struct Operand {
  std::int64_t id = 0;
  std::optional<View> view = {};
  float value = 0;
};

// Operations that compute a step.
struct Formulation {
  std::vector<Owned> operations;
  std::vector<Operand> operands;
};

// A step by graphs of operations: the first formulation is always there, others are further ways.
// Takes up to `most` ways of each formulation, of which none rounds factors of `dtype` that nobody
// asked for. `saved`: as make_computation() has it.
std::unique_ptr<Computation> make_graph_computation(const LibraryOptions& options, DType dtype,
                                                    std::vector<Formulation> formulations,
                                                    std::size_t most, std::string_view saved);

}  // namespace xrt::cuda::cudnn
