// SPDX-License-Identifier: Apache-2.0
// The operands that all recurrent ops have at the same places: X, B, sequence_lens, initial_h,
// initial_c and P are inputs 0 and 3 … 7, Y, Y_h and Y_c are the outputs.
#pragma once

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/recurrent/sequences.h"

namespace xrt::native {

void register_quantized_lstm(KernelRegistry& registry);

inline void check_recurrent_input(std::size_t i, const char* name, const Tensor& t,
                                  const Dims& expected) {
  if (t.dims() != expected) {
    fail("input " + std::to_string(i) + " (" + name + ") has shape " + shape_text(t.dims()) +
         ", not " + shape_text(expected));
  }
}

// One run of the node. `config.hidden` is set; `input` and `recurrent` as for SequenceRun.
template <typename W>
void run_recurrent(KernelContext& k, const RecurrentConfig& config, const std::vector<W>& input,
                   const std::vector<W>& recurrent) {
  using T = typename W::Value;
  constexpr DType compute = std::is_same_v<T, float> ? DType::kFloat32 : DType::kFloat64;
  const std::int64_t hidden = config.hidden;
  const std::int64_t dirs = config.directions;
  const Tensor x = converted(k.input(0), compute);
  const std::int64_t size = input[0].depth();
  if (x.rank() != 3 || x.dims()[2] != size) {
    fail("X has shape " + shape_text(x.dims()) + ", not three dimensions of which the last is " +
         std::to_string(size));
  }
  Sequences<T> s;
  s.times = x.dims()[config.batch_first ? 1 : 0];
  s.batch = x.dims()[config.batch_first ? 0 : 1];
  s.input = size;
  s.x = x.data<T>();
  const auto optional = [&](std::size_t i, const char* name, const Dims& dims) {
    const Tensor* given = k.optional_input(i);
    if (given == nullptr) return Tensor();
    check_recurrent_input(i, name, *given, dims);
    return converted(*given, compute);
  };
  const bool lstm = config.cell == Cell::kLstm;
  const Tensor bias = optional(3, "B", {dirs, 2 * config.gates * hidden});
  const Tensor peephole = lstm ? optional(7, "P", {dirs, 3 * hidden}) : Tensor();
  if (bias.defined()) s.bias = bias.data<T>();
  if (peephole.defined()) s.peephole = peephole.data<T>();
  s.lengths.assign(static_cast<std::size_t>(s.batch), s.times);
  if (k.has_input(4)) {
    check_recurrent_input(4, "sequence_lens", k.input(4), {s.batch});
    const std::vector<std::int64_t> given = ints_input(k, 4);
    s.lengths.assign(given.begin(), given.end());
    for (const std::int64_t n : s.lengths) {
      if (n < 0 || n > s.times) fail("a sequence length is outside the sequence");
    }
  }
  // States are [batch, directions, hidden] where the batch comes first; here directions do.
  const Dims state_dims =
      config.batch_first ? Dims{s.batch, dirs, hidden} : Dims{dirs, s.batch, hidden};
  const auto outer = [&](std::int64_t row) {
    return config.batch_first ? row % s.batch * dirs + row / s.batch : row;
  };
  const auto state = [&](std::size_t i, const char* name) {
    const Tensor given = optional(i, name, state_dims);
    Tensor own = allocate_checked(compute, {dirs, s.batch, hidden});
    if (!given.defined()) std::fill_n(own.data<T>(), own.count(), T{0});
    for (std::int64_t row = 0; given.defined() && row < dirs * s.batch; ++row) {
      std::copy_n(given.data<T>() + outer(row) * hidden, hidden, own.data<T>() + row * hidden);
    }
    return own;
  };
  Tensor h = state(5, "initial_h");
  Tensor c = lstm ? state(6, "initial_c") : Tensor();
  s.h = h.data<T>();
  if (lstm) s.c = c.data<T>();

  const DType dtype = k.input(0).dtype();
  const Dims y_dims = config.batch_first ? Dims{s.batch, s.times, dirs, hidden}
                                         : Dims{s.times, dirs, s.batch, hidden};
  Tensor y;
  if (k.wants_output(0)) {
    Tensor& target = k.output(0, dtype, y_dims);
    y = dtype == compute ? target : allocate_checked(compute, y_dims);
    const bool whole = std::all_of(s.lengths.begin(), s.lengths.end(),
                                   [&](std::int64_t n) { return n == s.times; });
    if (!whole) std::fill_n(y.data<T>(), y.count(), T{0});
    s.y = y.data<T>();
  }
  if constexpr (std::is_same_v<W, ByteWeights>) {
    // One range for all steps that any sequence has.
    const auto longest = std::max_element(s.lengths.begin(), s.lengths.end());
    const std::int64_t n = longest == s.lengths.end() ? 0 : *longest * s.batch * size;
    if (n > 0) s.x_range = byte_range(vector_ops().minimum(s.x, n), vector_ops().maximum(s.x, n));
  }
  if (s.times * s.batch > 0) SequenceRun<W>(k, config, s, input, recurrent).run();

  if (y.defined() && dtype != compute) {
    store_float(dtype, y.data<float>(), y.count(), k.output(0, dtype, y_dims).raw(), 0);
  }
  const auto put = [&](std::size_t i, const Tensor& value) {
    if (!k.wants_output(i)) return;
    Tensor& target = k.output(i, dtype, state_dims);
    for (std::int64_t row = 0; row < dirs * s.batch; ++row) {
      const T* from = value.data<T>() + row * hidden;
      if constexpr (std::is_same_v<T, float>) {
        store_float(dtype, from, hidden, target.raw(), outer(row) * hidden);
      } else {
        store_double(dtype, from, hidden, target.raw(), outer(row) * hidden);
      }
    }
  };
  put(1, h);
  if (lstm) put(2, c);
}

}  // namespace xrt::native
