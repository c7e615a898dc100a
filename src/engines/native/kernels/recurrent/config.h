// SPDX-License-Identifier: Apache-2.0
// What the attributes of RNN, GRU and LSTM say: the cell, its functions, the direction.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "engines/native/kernels/vector/vector_ops.h"
#include "xrt/graph.h"

namespace xrt::native {

enum class Cell : std::uint8_t { kRnn, kGru, kLstm };

struct Activation {
  enum class Kind : std::uint8_t {
    kRelu,
    kTanh,
    kSigmoid,
    kAffine,
    kLeakyRelu,
    kThresholdedRelu,
    kScaledTanh,
    kHardSigmoid,
    kElu,
    kSoftsign,
    kSoftplus,
  };
  Kind kind = Kind::kTanh;
  float alpha = 0, beta = 0;

  double value(double x) const;

  template <typename T>
  void apply(T* x, std::int64_t n) const {
    if constexpr (std::is_same_v<T, float>) {
      const VectorOps& ops = vector_ops();
      switch (kind) {
        case Kind::kRelu:
          return ops.relu(x, x, n, 0, 0);
        case Kind::kTanh:
          return ops.tanh(x, x, n, 0, 0);
        case Kind::kSigmoid:
          return ops.sigmoid(x, x, n, 0, 0);
        default:
          break;
      }
    }
    for (std::int64_t i = 0; i < n; ++i) x[i] = static_cast<T>(value(static_cast<double>(x[i])));
  }
};

struct RecurrentConfig {
  Cell cell;
  std::int64_t gates;
  std::int64_t directions = 1;
  bool reverse = false;  // of the first direction
  std::int64_t hidden;   // 0: as the weights have it
  bool batch_first;
  bool linear_before_reset;
  bool input_forget;
  float clip;                           // 0: none
  std::vector<Activation> activations;  // per direction: 1 (RNN), 2 (GRU) or 3 (LSTM)
};

RecurrentConfig parse_recurrent(const Node& node, Cell cell);

}  // namespace xrt::native
