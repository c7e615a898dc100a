// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM, computed in float (double for double). Constant weights are packed once.
#include <memory>
#include <utility>

#include "engines/native/kernels/recurrent/operands.h"
#include "engines/native/kernels/register.h"

namespace xrt::native {
namespace {

using FloatPacks = std::vector<FloatWeights>;

Blocks blocks_of(const RecurrentConfig& config, std::int64_t hidden) {
  return {config.directions, config.gates, hidden, config.cell == Cell::kGru};
}

// W of [directions, blocks' rows, depth] as weights of type P.
template <typename P>
std::vector<P> cut(const Tensor& w, const Blocks& blocks) {
  std::vector<P> cuts;
  cuts.reserve(blocks.count());
  const std::int64_t depth = w.dims()[2];
  for_blocks(blocks, [&](std::int64_t first, std::int64_t rows) {
    cuts.emplace_back(w.data<typename P::Value>() + first * depth, rows, depth);
  });
  return cuts;
}

void check_weights(const RecurrentConfig& config, const Tensor& w, const Tensor& r) {
  if (w.rank() != 3 || r.rank() != 3) fail("W or R is not of rank 3");
  const std::int64_t hidden = r.dims()[2];
  if (config.hidden != 0 && config.hidden != hidden) fail("'hidden_size' is not the weights' size");
  if (hidden == 0) fail("hidden_size is 0");
  const std::int64_t rows = config.gates * hidden;
  check_recurrent_input(1, "W", w, {config.directions, rows, w.dims()[2]});
  check_recurrent_input(2, "R", r, {config.directions, rows, hidden});
}

class RecurrentKernel final : public Kernel {
 public:
  RecurrentKernel(const KernelCreateContext& create, Cell cell)
      : config_(parse_recurrent(create.node(), cell)) {
    const Tensor* w = create.constant_input(1);
    const Tensor* r = create.constant_input(2);
    if (w == nullptr || r == nullptr || compute_dtype(w->dtype()) != DType::kFloat32) return;
    check_weights(config_, *w, *r);
    config_.hidden = r->dims()[2];
    input_ = packed(*w);
    recurrent_ = packed(*r);
  }

  void run(KernelContext& k) const override {
    if (input_ != nullptr) return run_recurrent(k, config_, *input_, *recurrent_);
    const DType compute = compute_dtype(k.input(0).dtype());
    const Tensor w = converted(k.input(1), compute);
    const Tensor r = converted(k.input(2), compute);
    check_weights(config_, w, r);
    RecurrentConfig config = config_;
    config.hidden = r.dims()[2];
    const Blocks blocks = blocks_of(config, config.hidden);
    if (compute == DType::kFloat64) {
      run_recurrent(k, config, cut<PlainWeights>(w, blocks), cut<PlainWeights>(r, blocks));
    } else {
      run_recurrent(k, config, cut<FloatWeights>(w, blocks), cut<FloatWeights>(r, blocks));
    }
  }

  bool reads_input(std::size_t i) const override { return input_ == nullptr || (i != 1 && i != 2); }

  std::size_t weight_bytes() const override {
    std::size_t bytes = 0;
    for (const auto& packs : {input_, recurrent_}) {
      if (packs == nullptr) continue;
      for (const FloatWeights& pack : *packs) bytes += pack.bytes();
    }
    return bytes;
  }

 private:
  std::shared_ptr<const FloatPacks> packed(const Tensor& w) const {
    const Blocks blocks = blocks_of(config_, config_.hidden);
    const std::string kind = blocks.split ? "recurrent, split" : "recurrent";
    return std::static_pointer_cast<const FloatPacks>(shared_packing(w, kind, [&] {
      return std::make_shared<FloatPacks>(cut<FloatWeights>(converted(w, DType::kFloat32), blocks));
    }));
  }

  RecurrentConfig config_;
  std::shared_ptr<const FloatPacks> input_, recurrent_;  // null: not known before the run
};

}  // namespace

void register_recurrent_kernels(KernelRegistry& registry) {
  const auto add = [&](const char* op, Cell cell) {
    registry.add({.op = op,
                  .supports = [](const NodeView& n) { return n.check_input(0, kFloatTypes); },
                  .create =
                      [cell](const KernelCreateContext& create) {
                        return std::make_unique<RecurrentKernel>(create, cell);
                      }});
  };
  add("RNN", Cell::kRnn);
  add("GRU", Cell::kGru);
  add("LSTM", Cell::kLstm);
  register_quantized_lstm(registry);
}

}  // namespace xrt::native
