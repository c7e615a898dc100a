// SPDX-License-Identifier: Apache-2.0
// DynamicQuantizeLSTM of the domain "xrt" (ops/own_ops.cc): products of bytes, with exact sums.
#include <algorithm>
#include <memory>
#include <utility>

#include "engines/native/kernels/recurrent/operands.h"

namespace xrt::native {
namespace {

using DirectionPanels = std::vector<BytePanels>;

// Where the operands of W are, and those of R.
struct OperandPlaces {
  std::size_t weights, scale, zero;
};
constexpr OperandPlaces kInputPlaces{1, 8, 9};
constexpr OperandPlaces kRecurrentPlaces{2, 10, 11};

// Weights [directions, depth, 4 * hidden].
DirectionPanels packed_directions(const Tensor& w) {
  DirectionPanels panels;
  const std::int64_t each = w.dims()[1] * w.dims()[2];
  for (std::int64_t d = 0; d < w.dims()[0]; ++d) {
    panels.emplace_back(w.data<std::uint8_t>() + d * each, w.dtype(), w.dims()[2], w.dims()[1]);
  }
  return panels;
}

// One number a direction, or one a column.
template <typename T>
std::vector<T> direction_numbers(const Tensor* given, DType dtype, const Tensor& w,
                                 std::size_t input, std::int64_t direction) {
  if (given == nullptr) return {T{0}};
  const std::int64_t directions = w.dims()[0];
  const bool one = given->count() == directions;
  if (!one && given->dims() != Dims{directions, w.dims()[2]}) {
    fail("input " + std::to_string(input) + " has shape " + shape_text(given->dims()) +
         ", neither one number a direction nor one a column");
  }
  const Tensor numbers = converted(*given, dtype);
  const std::int64_t n = one ? 1 : w.dims()[2];
  const T* from = numbers.data<T>() + direction * n;
  return std::vector<T>(from, from + n);
}

// `of(i)`: the i-th input or null.
template <typename F>
std::vector<ByteWeights> byte_weights(const DirectionPanels& panels, const OperandPlaces& places,
                                      const F& of) {
  const Tensor& w = *of(places.weights);
  std::vector<ByteWeights> weights;
  for (std::size_t d = 0; d < panels.size(); ++d) {
    const auto direction = static_cast<std::int64_t>(d);
    weights.emplace_back(
        panels[d], w.dtype(),
        direction_numbers<float>(of(places.scale), DType::kFloat32, w, places.scale, direction),
        direction_numbers<std::int32_t>(of(places.zero), DType::kInt32, w, places.zero, direction));
  }
  return weights;
}

void check_byte_weights(const RecurrentConfig& config, const Tensor& w, const Tensor& r) {
  if (w.rank() != 3 || r.rank() != 3 || r.dims()[1] == 0) fail("W or R is not of rank 3");
  const std::int64_t hidden = r.dims()[1];
  if (config.hidden != 0 && config.hidden != hidden) fail("'hidden_size' is not the weights' size");
  check_recurrent_input(1, "W", w, {config.directions, w.dims()[1], 4 * hidden});
  check_recurrent_input(2, "R", r, {config.directions, hidden, 4 * hidden});
}

class QuantizedLstm final : public Kernel {
 public:
  explicit QuantizedLstm(const KernelCreateContext& create)
      : config_(parse_recurrent(create.node(), Cell::kLstm)) {
    const auto of = [&](std::size_t i) { return create.constant_input(i); };
    for (const OperandPlaces& p : {kInputPlaces, kRecurrentPlaces}) {
      if (of(p.weights) == nullptr || of(p.scale) == nullptr) return;
      if (create.has_input(p.zero) && of(p.zero) == nullptr) return;
    }
    check_byte_weights(config_, *of(1), *of(2));
    config_.hidden = of(2)->dims()[1];
    const auto shared = [](const Tensor& w) {
      return std::static_pointer_cast<const DirectionPanels>(
          shared_packing(w, "quantized lstm",
                         [&] { return std::make_shared<DirectionPanels>(packed_directions(w)); }));
    };
    input_panels_ = shared(*of(1));
    recurrent_panels_ = shared(*of(2));
    input_ = byte_weights(*input_panels_, kInputPlaces, of);
    recurrent_ = byte_weights(*recurrent_panels_, kRecurrentPlaces, of);
  }

  void run(KernelContext& k) const override {
    if (input_panels_ != nullptr) return run_recurrent(k, config_, input_, recurrent_);
    const auto of = [&](std::size_t i) { return k.optional_input(i); };
    const Tensor& w = k.input(1);
    const Tensor& r = k.input(2);
    check_byte_weights(config_, w, r);
    RecurrentConfig config = config_;
    config.hidden = r.dims()[1];
    const DirectionPanels of_input = packed_directions(w);
    const DirectionPanels of_state = packed_directions(r);
    run_recurrent(k, config, byte_weights(of_input, kInputPlaces, of),
                  byte_weights(of_state, kRecurrentPlaces, of));
  }

  bool reads_input(std::size_t i) const override {
    return input_panels_ == nullptr || i == 0 || (i >= 3 && i <= 7);
  }

  std::size_t weight_bytes() const override {
    std::size_t bytes = 0;
    for (const auto& panels : {input_panels_, recurrent_panels_}) {
      if (panels == nullptr) continue;
      for (const BytePanels& p : *panels) bytes += p.bytes();
    }
    return bytes;
  }

 private:
  RecurrentConfig config_;
  std::shared_ptr<const DirectionPanels> input_panels_, recurrent_panels_;  // null: not constant
  std::vector<ByteWeights> input_, recurrent_;
};

}  // namespace

void register_quantized_lstm(KernelRegistry& registry) {
  registry.add({.domain = "xrt",
                .op = "DynamicQuantizeLSTM",
                .supports =
                    [](const NodeView& n) {
                      for (const std::size_t i : {1, 2}) {
                        const Support bytes = n.check_input(i, {DType::kInt8, DType::kUInt8});
                        if (!bytes) return bytes;
                      }
                      return n.check_input(0, {DType::kFloat32});
                    },
                .create =
                    [](const KernelCreateContext& create) {
                      return std::make_unique<QuantizedLstm>(create);
                    }});
}

}  // namespace xrt::native
