// SPDX-License-Identifier: Apache-2.0
// Walks tensors of different shapes as if each had been broadcast to one common shape.
//
// Neighbouring axes along which every input is either dense or repeated become one, so that the
// innermost loop is as long as the shapes allow; there each input's stride is 0 or 1.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "engines/native/context.h"
#include "engines/native/kernels/common/axes.h"

namespace xrt::native {

inline constexpr std::size_t kMaxInputs = 4;
inline constexpr std::size_t kMaxRank = 16;  // after neighbouring axes became one

class BroadcastLoop {
 public:
  BroadcastLoop(const Dims& target, std::span<const Tensor* const> inputs);

  std::int64_t inner() const { return inner_; }
  bool dense(std::size_t input) const { return dense_[input]; }

  // fn(out, offsets, n): n elements from output element `out`; offsets[i] is where input i starts.
  // Input i's stride is 1 if dense(i), else 0. `cost` is the work per element, 1 for an addition.
  template <typename F>
  void run(const KernelContext& context, std::int64_t cost, F&& fn) const {
    const std::int64_t grain = std::max<std::int64_t>(32768 / cost, 1);
    if (outer_ == 1) {
      context.parallel_for(inner_, grain, [&](std::int64_t begin, std::int64_t end) {
        std::array<std::int64_t, kMaxInputs> offsets{};
        for (std::size_t i = 0; i < inputs_; ++i) offsets[i] = dense_[i] ? begin : 0;
        fn(begin, offsets, end - begin);
      });
      return;
    }
    if (inner_ == 0) return;
    const std::int64_t rows = std::max<std::int64_t>(grain / std::max<std::int64_t>(inner_, 1), 1);
    context.parallel_for(outer_, rows, [&](std::int64_t begin, std::int64_t end) {
      std::array<std::int64_t, kMaxRank> index{};
      std::array<std::int64_t, kMaxInputs> offsets{};
      start(begin, index, offsets);
      for (std::int64_t row = begin; row < end; ++row) {
        fn(row * inner_, offsets, inner_);
        advance(index, offsets);
      }
    });
  }

 private:
  void start(std::int64_t row, std::array<std::int64_t, kMaxRank>& index,
             std::array<std::int64_t, kMaxInputs>& offsets) const;
  void advance(std::array<std::int64_t, kMaxRank>& index,
               std::array<std::int64_t, kMaxInputs>& offsets) const {
    for (std::size_t axis = rank_; axis-- > 0;) {
      for (std::size_t i = 0; i < inputs_; ++i) offsets[i] += strides_[i][axis];
      if (++index[axis] < dims_[axis]) return;
      for (std::size_t i = 0; i < inputs_; ++i) offsets[i] -= strides_[i][axis] * dims_[axis];
      index[axis] = 0;
    }
  }

  std::size_t inputs_;
  std::size_t rank_ = 0;  // of the outer axes
  std::int64_t inner_ = 1;
  std::int64_t outer_ = 1;
  std::array<bool, kMaxInputs> dense_{};
  std::array<std::int64_t, kMaxRank> dims_{};
  std::array<std::array<std::int64_t, kMaxRank>, kMaxInputs> strides_{};
};

// The shape that all inputs of the node broadcast to.
Dims broadcast_inputs(const KernelContext& context, std::size_t count);

}  // namespace xrt::native
