// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM with constant weights and the activations that oneDNN knows. All sequences of a
// batch are of one length; others, clipping and layout 1 are for kernels/nn/recurrent.cc.
#include <algorithm>
#include <array>
#include <cctype>

#include "engines/native/dnn/families.h"
#include "engines/native/dnn/plan.h"
#include "ir/attributes.h"

namespace xrt::native::dnn {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

// What oneDNN calls each cell, and which gate of ONNX its gates are.
struct CellKind {
  dnnl::algorithm algorithm;
  std::vector<std::size_t> gates;
  std::vector<std::size_t> peepholes;  // LSTM only
};

constexpr dnnl::algorithm kLinearBeforeReset = dnnl::algorithm::lbr_gru;

CellKind kind_of(const Node& node) {
  if (node.op == "LSTM") return {dnnl::algorithm::vanilla_lstm, {0, 2, 3, 1}, {0, 2, 1}};
  if (node.op == "GRU") {
    const bool linear = need_int(node, "linear_before_reset") != 0;
    return {linear ? kLinearBeforeReset : dnnl::algorithm::vanilla_gru, {0, 1, 2}, {}};
  }
  return {dnnl::algorithm::vanilla_rnn, {0}, {}};
}

// The functions of one direction, in lower case.
std::vector<std::string> default_activations(const Node& node) {
  if (node.op == "LSTM") return {"sigmoid", "tanh", "tanh"};
  if (node.op == "GRU") return {"sigmoid", "tanh"};
  return {"tanh"};
}

std::vector<std::string> activations_of(const Node& node) {
  std::vector<std::string> names = node.attr_strings("activations");
  for (std::string& name : names) {
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return names;
}

// What a simple RNN applies, of those that oneDNN has; undef for any other.
dnnl::algorithm rnn_activation(const std::string& name) {
  if (name == "tanh") return dnnl::algorithm::eltwise_tanh;
  if (name == "relu") return dnnl::algorithm::eltwise_relu;
  if (name == "sigmoid") return dnnl::algorithm::eltwise_logistic;
  return dnnl::algorithm::undef;
}

std::int64_t directions_of(const Node& node) {
  return need_string(node, "direction") == "bidirectional" ? 2 : 1;
}

// Blocks of `rows` rows of each direction in the order `gates`: [directions, blocks * rows, …].
Tensor reordered_gates(const Tensor& tensor, const std::vector<std::size_t>& gates) {
  Tensor result = Tensor::allocate(DType::kFloat32, tensor.dims());
  const std::int64_t block =
      tensor.count() / tensor.dims()[0] / static_cast<std::int64_t>(gates.size());
  const float* from = tensor.data<float>();
  float* to = result.data<float>();
  for (std::int64_t d = 0; d < tensor.dims()[0]; ++d) {
    const float* source = from + d * block * static_cast<std::int64_t>(gates.size());
    for (const std::size_t gate : gates) {
      to = std::copy_n(source + static_cast<std::int64_t>(gate) * block, block, to);
    }
  }
  return result;
}

class RecurrentKernel final : public PlanKernel {
 public:
  explicit RecurrentKernel(const KernelCreateContext& context)
      : PlanKernel({.uses_arena = true}),
        kind_(kind_of(context.node())),
        directions_(directions_of(context.node())),
        reverse_(need_string(context.node(), "direction") == "reverse"),
        weights_dims_(context.constant_input(1)->dims()),
        hidden_(context.constant_input(2)->dims().back()) {
    if (kind_.algorithm == dnnl::algorithm::vanilla_rnn) {
      const auto names = activations_of(context.node());
      activation_ = rnn_activation(names.empty() ? "tanh" : names[0]);
    }
    for (std::size_t i = 0; i < 3; ++i) wanted_[i] = context.has_output(i);
    has_peephole_ = context.has_input(7);
    // Packed weights that come from a blob stand for these constants, which have no elements then.
    if (context.stored_weights() != nullptr && !context.stored_weights()->empty()) return;
    weights_ = reordered_gates(*context.constant_input(1), kind_.gates);
    recurrence_ = reordered_gates(*context.constant_input(2), kind_.gates);
    bias_ = summed_bias(context.constant_input(3));
    if (has_peephole_) peephole_ = reordered_gates(*context.constant_input(7), kind_.peepholes);
  }

 protected:
  std::shared_ptr<const Plan> make_plan(std::span<const Dims> inputs) const override {
    const Dims& x = inputs[0];
    if (x.size() != 3 || x[2] != weights_dims_[2]) {
      throw Error(ErrorCode::kInvalidArgument,
                  "X is " + to_string(std::span<const std::int64_t>(x)) + " and W " +
                      to_string(std::span<const std::int64_t>(weights_dims_)));
    }
    const std::int64_t times = x[0];
    const std::int64_t batch = x[1];
    const Dims state{directions_, batch, hidden_};
    for (const std::size_t i : {5, 6}) {
      if (has(inputs, i) && inputs[i] != state) {
        throw Error(ErrorCode::kInvalidArgument,
                    "input " + std::to_string(i) + " is " +
                        to_string(std::span<const std::int64_t>(inputs[i])) + ", not " +
                        to_string(std::span<const std::int64_t>(state)));
      }
    }
    auto plan = std::make_shared<Plan>();
    if (wanted_[0]) plan->set_output(0, DType::kFloat32, {times, directions_, batch, hidden_});
    for (const std::size_t i : {1, 2}) {
      if (wanted_[i]) plan->set_output(i, DType::kFloat32, state);
    }
    if (times * batch == 0) {
      for (const std::size_t i : {1, 2}) {
        if (!wanted_[i]) continue;
        if (has(inputs, i + 4)) {
          plan->start_from(i, i + 4);
        } else {
          plan->zero_output(i);
        }
      }
      return plan;
    }
    build(*plan, inputs, times, batch);
    return plan;
  }

  void drop_sources() override { weights_ = recurrence_ = bias_ = peephole_ = Tensor(); }

 private:
  static bool has(std::span<const Dims> inputs, std::size_t i) {
    return i < inputs.size() && !inputs[i].empty();
  }

  std::int64_t bias_gates() const {
    const auto gates = static_cast<std::int64_t>(kind_.gates.size());
    return kind_.algorithm == kLinearBeforeReset ? gates + 1 : gates;
  }

  // oneDNN has one bias where ONNX has one of the input and one of the state; both of the last gate
  // where the reset gate comes after the product. `given` is [directions, 2 * gates * hidden], or
  // null for none.
  Tensor summed_bias(const Tensor* given) const {
    const auto gates = static_cast<std::int64_t>(kind_.gates.size());
    Tensor sums = Tensor::allocate(DType::kFloat32, {1, directions_, bias_gates(), hidden_});
    float* y = sums.data<float>();
    std::fill_n(y, sums.count(), 0.0F);
    for (std::int64_t d = 0; given != nullptr && d < directions_; ++d) {
      const float* of_input = given->data<float>() + d * 2 * gates * hidden_;
      const float* of_state = of_input + gates * hidden_;
      for (std::int64_t g = 0; g < bias_gates(); ++g, y += hidden_) {
        const bool apart = bias_gates() > gates && g + 1 >= gates;
        const std::int64_t from =
            g < gates ? static_cast<std::int64_t>(kind_.gates[static_cast<std::size_t>(g)])
                      : gates - 1;
        for (std::int64_t i = 0; i < hidden_; ++i) {
          const std::int64_t at = from * hidden_ + i;
          y[i] = apart ? (g < gates ? of_input[at] : of_state[at]) : of_input[at] + of_state[at];
        }
      }
    }
    return sums;
  }

  // Constant weights [directions, gates * hidden, columns] in the layout that the primitive wants.
  Operand weights(Plan& plan, std::size_t slot, const Tensor& source, std::int64_t columns,
                  const memory::desc& wanted) const {
    const auto gates = static_cast<std::int64_t>(kind_.gates.size());
    const memory::desc from({1, directions_, columns, gates, hidden_}, memory::data_type::f32,
                            Tag::ldgoi);
    return plan.constant(packed(slot, source, from, wanted));
  }

  void build(Plan& plan, std::span<const Dims> inputs, std::int64_t times,
             std::int64_t batch) const {
    const auto gates = static_cast<std::int64_t>(kind_.gates.size());
    const std::int64_t columns = weights_dims_[2];
    constexpr auto f32 = memory::data_type::f32;
    const memory::desc none;
    const memory::desc state({1, directions_, batch, hidden_}, f32, Tag::ldnc);
    const bool lstm = kind_.algorithm == dnnl::algorithm::vanilla_lstm;
    const bool starts = has(inputs, 5);
    const bool ends = wanted_[1] || wanted_[2];
    const memory::desc x({times, batch, columns}, f32, Tag::tnc);
    const memory::desc start = starts ? state : none;
    const memory::desc end = ends ? state : none;
    const memory::desc w({1, directions_, columns, gates, hidden_}, f32, Tag::any);
    const memory::desc r({1, directions_, hidden_, gates, hidden_}, f32, Tag::any);
    const memory::desc bias({1, directions_, bias_gates(), hidden_}, f32, Tag::ldgo);
    const memory::desc peephole =
        has_peephole_ ? memory::desc({1, directions_, 3, hidden_}, f32, Tag::ldgo) : none;
    const memory::desc y({times, batch, directions_ * hidden_}, f32, Tag::tnc);
    const dnnl::rnn_direction direction =
        directions_ == 2 ? dnnl::rnn_direction::bidirectional_concat
        : reverse_       ? dnnl::rnn_direction::unidirectional_right2left
                         : dnnl::rnn_direction::unidirectional_left2right;

    // oneDNN writes the directions of one step and row side by side, ONNX those of one step.
    const bool direct = wanted_[0] && (directions_ == 1 || batch == 1);
    const Operand result = direct ? Plan::output(0, y) : plan.temporary(y);
    std::vector<Plan::Argument> arguments{{DNNL_ARG_SRC_LAYER, Plan::input(0, x)},
                                          {DNNL_ARG_DST_LAYER, result}};
    if (starts) arguments.push_back({DNNL_ARG_SRC_ITER, Plan::input(5, state)});
    if (starts && lstm) arguments.push_back({DNNL_ARG_SRC_ITER_C, Plan::input(6, state)});
    const auto last = [&](std::size_t i) {
      return wanted_[i] ? Plan::output(i, state) : plan.temporary(state);
    };
    if (ends) arguments.push_back({DNNL_ARG_DST_ITER, last(1)});
    if (ends && lstm) arguments.push_back({DNNL_ARG_DST_ITER_C, last(2)});
    if (has_peephole_) {
      arguments.push_back(
          {DNNL_ARG_WEIGHTS_PEEPHOLE, plan.constant(packed(7, peephole_, peephole, peephole))});
    }
    arguments.push_back({DNNL_ARG_BIAS, plan.constant(packed(3, bias_, bias, bias))});

    const auto add = [&](const auto& pd) {
      arguments.push_back(
          {DNNL_ARG_WEIGHTS_LAYER, weights(plan, 1, weights_, columns, pd.weights_layer_desc())});
      arguments.push_back(
          {DNNL_ARG_WEIGHTS_ITER, weights(plan, 2, recurrence_, hidden_, pd.weights_iter_desc())});
      plan.add(dnnl::primitive(pd.get()), pd.scratchpad_desc(), std::move(arguments),
               pd.impl_info_str());
    };
    constexpr auto inference = dnnl::prop_kind::forward_inference;
    const dnnl::primitive_attr attributes = base_attributes();
    switch (kind_.algorithm) {
      case dnnl::algorithm::vanilla_lstm:
        add(dnnl::lstm_forward::primitive_desc(cpu_engine(), inference, direction, x, start, start,
                                               w, r, peephole, bias, y, end, end, attributes));
        break;
      case kLinearBeforeReset:
        add(dnnl::lbr_gru_forward::primitive_desc(cpu_engine(), inference, direction, x, start, w,
                                                  r, bias, y, end, attributes));
        break;
      case dnnl::algorithm::vanilla_gru:
        add(dnnl::gru_forward::primitive_desc(cpu_engine(), inference, direction, x, start, w, r,
                                              bias, y, end, attributes));
        break;
      default:
        add(dnnl::vanilla_rnn_forward::primitive_desc(cpu_engine(), inference, activation_,
                                                      direction, x, start, w, r, bias, y, end,
                                                      attributes));
        break;
    }
    if (!wanted_[0] || direct) return;
    Operand apart = result;
    apart.desc = memory::desc({times, directions_, batch, hidden_}, f32,
                              {batch * directions_ * hidden_, hidden_, directions_ * hidden_, 1});
    plan.add_reorder(
        apart, Plan::output(0, plain_desc({times, directions_, batch, hidden_}, DType::kFloat32)));
  }

  CellKind kind_;
  std::int64_t directions_;
  bool reverse_;
  Dims weights_dims_;  // [directions, gates * hidden, columns]
  std::int64_t hidden_;
  dnnl::algorithm activation_ = dnnl::algorithm::undef;
  std::array<bool, 3> wanted_{};
  bool has_peephole_ = false;
  Tensor weights_, recurrence_, bias_, peephole_;  // gates in oneDNN's order
};

Support supports_recurrent(const NodeView& view) {
  const Node& node = view.node();
  if (const Support dtype = view.check_input(0, {DType::kFloat32}); !dtype) return dtype;
  const auto no = [](std::string reason) { return Support::no(std::move(reason)); };
  if (need_int(node, "layout") != 0) return no("layout 1");
  if (node.attr_float("clip", 0.0F) > 0) return no("gates are clipped");
  if (view.has_input(4)) return no("sequences of different lengths");
  if (node.op == "LSTM" && need_int(node, "input_forget") != 0) return no("input_forget");
  if (node.op == "LSTM" && view.has_input(5) != view.has_input(6)) {
    return no("one of both initial states");
  }
  const std::vector<std::string> names = activations_of(node);
  const std::vector<std::string> usual = default_activations(node);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string& first = names[i % usual.size()];
    const bool known = node.op == "RNN" ? rnn_activation(first) != dnnl::algorithm::undef
                                        : names[i] == usual[i % usual.size()];
    if (!known || names[i] != first) return no("activations that oneDNN has no cell for");
  }
  const std::int64_t directions = directions_of(node);
  if (!names.empty() && names.size() != usual.size() * static_cast<std::size_t>(directions)) {
    return no("another number of activations");
  }
  const Tensor* w = view.constant_input(1);
  const Tensor* r = view.constant_input(2);
  if (w == nullptr || r == nullptr || (view.has_input(3) && view.constant_input(3) == nullptr) ||
      (view.has_input(7) && view.constant_input(7) == nullptr)) {
    return no("weights that are no constants");
  }
  if (w->rank() != 3 || r->rank() != 3) return no("weights that are not of rank 3");
  const auto gates = static_cast<std::int64_t>(kind_of(node).gates.size());
  const std::int64_t hidden = r->dims()[2];
  const bool fits =
      hidden > 0 && w->dims()[2] > 0 && node.attr_int("hidden_size", hidden) == hidden &&
      w->dims() == Dims{directions, gates * hidden, w->dims()[2]} &&
      r->dims() == Dims{directions, gates * hidden, hidden} &&
      (!view.has_input(3) ||
       view.constant_input(3)->dims() == Dims{directions, 2 * gates * hidden}) &&
      (!view.has_input(7) || view.constant_input(7)->dims() == Dims{directions, 3 * hidden});
  return fits ? Support::yes() : no("weights whose shapes do not fit together");
}

}  // namespace

void register_recurrent(KernelRegistry& registry) {
  for (const char* op : {"RNN", "GRU", "LSTM"}) {
    registry.add({.op = op,
                  .priority = kPriority,
                  .supports = supports_recurrent,
                  .create = [](const KernelCreateContext& context) {
                    return make_plan_kernel<RecurrentKernel>(context, context);
                  }});
  }
}

}  // namespace xrt::native::dnn
