// SPDX-License-Identifier: Apache-2.0
#include "engines/native/kernels/common/broadcast.h"

namespace xrt::native {

BroadcastLoop::BroadcastLoop(const Dims& target, std::span<const Tensor* const> inputs)
    : inputs_(inputs.size()) {
  const bool same = std::all_of(inputs.begin(), inputs.end(),
                                [&](const Tensor* t) { return t->dims() == target; });
  if (same) {
    for (const std::int64_t d : target) inner_ *= d;
    dense_.fill(true);
    return;
  }
  // Axes from the innermost outwards, merged while every input continues as it did.
  struct Axis {
    std::int64_t size;
    std::array<std::int64_t, kMaxInputs> strides;
  };
  std::array<Axis, kMaxRank + 1> axes;
  std::size_t count = 0;
  std::array<std::int64_t, kMaxInputs> step;
  step.fill(1);
  for (std::size_t back = 0; back < target.size(); ++back) {
    const std::int64_t size = target[target.size() - 1 - back];
    Axis axis{size, {}};
    for (std::size_t i = 0; i < inputs_; ++i) {
      const Dims& dims = inputs[i]->dims();
      const std::int64_t own = back < dims.size() ? dims[dims.size() - 1 - back] : 1;
      axis.strides[i] = own == 1 ? 0 : step[i];
      step[i] *= own;
    }
    if (size == 1) continue;
    if (count > 0) {
      Axis& inside = axes[count - 1];
      bool merge = true;
      for (std::size_t i = 0; i < inputs_; ++i) {
        merge = merge && axis.strides[i] == inside.strides[i] * inside.size;
      }
      if (merge) {
        inside.size *= size;
        continue;
      }
    }
    if (count == axes.size()) {
      throw Error(ErrorCode::kUnsupported, "shapes broadcast along too many separate axes");
    }
    axes[count++] = axis;
  }
  if (count == 0) return;  // one element
  inner_ = axes[0].size;
  for (std::size_t i = 0; i < inputs_; ++i) dense_[i] = axes[0].strides[i] != 0;
  rank_ = count - 1;
  for (std::size_t a = 0; a < rank_; ++a) {
    const Axis& axis = axes[count - 1 - a];
    dims_[a] = axis.size;
    outer_ *= axis.size;
    for (std::size_t i = 0; i < inputs_; ++i) strides_[i][a] = axis.strides[i];
  }
}

void BroadcastLoop::start(std::int64_t row, std::array<std::int64_t, kMaxRank>& index,
                          std::array<std::int64_t, kMaxInputs>& offsets) const {
  for (std::size_t axis = rank_; axis-- > 0;) {
    index[axis] = row % dims_[axis];
    row /= dims_[axis];
    for (std::size_t i = 0; i < inputs_; ++i) offsets[i] += strides_[i][axis] * index[axis];
  }
}

Dims broadcast_inputs(const KernelContext& context, std::size_t count) {
  Dims dims = context.input(0).dims();
  for (std::size_t i = 1; i < count; ++i) {
    const Dims& other = context.input(i).dims();
    if (other != dims) dims = broadcast_dims(dims, other);
  }
  return dims;
}

}  // namespace xrt::native
