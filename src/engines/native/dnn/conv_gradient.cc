// SPDX-License-Identifier: Apache-2.0
// The gradient of a convolution's weight, by oneDNN.
//
//   xrt.ConvWeightGradient(X [N,C,…], dY [N,M,…]) -> dW [M,C/group,kernel…], dB [M] (optional)
//   dW[m,c,k…] = sum over n, o… of dY[n,m,o…] * X[n, group's c, o·stride + k·dilation - pad …]
//
// kernel_shape, strides, dilations, pads and group are the convolution's. In ops of the standard
// the same is a convolution in which batch and channels have changed places and the gradient is the
// weight; that form is recognised and replaced.
#include <algorithm>

#include "engines/native/dnn/families.h"
#include "engines/native/dnn/optimize.h"
#include "engines/native/dnn/pattern.h"
#include "engines/native/dnn/plan.h"
#include "engines/native/window.h"

namespace xrt::native::dnn {
namespace {

using dnnl::memory;

constexpr const char* kXrtDomain = "xrt";
constexpr const char* kOp = "ConvWeightGradient";

memory::desc any_layout(const memory::desc& desc) {
  return memory::desc(desc.get_dims(), desc.get_data_type(), memory::format_tag::any);
}

class ConvWeightGradientKernel final : public PlanKernel {
 public:
  explicit ConvWeightGradientKernel(const KernelCreateContext& context)
      : PlanKernel({.uses_arena = true}),
        window_(WindowAttributes::of(context.node())),
        group_(context.node().attr_int("group", 1)),
        has_bias_(context.node().outputs.size() > 1 && context.node().outputs[1].valid()) {}

 protected:
  std::shared_ptr<const Plan> make_plan(std::span<const Dims> inputs) const override {
    const Dims& x = inputs[0];
    const Dims& dy = inputs[1];
    if (x.size() < 3 || x.size() > 5 || dy.size() != x.size() ||
        window_.kernel.size() + 2 != x.size()) {
      refuse(x, dy, "ranks and 'kernel_shape' do not fit");
    }
    if (group_ < 1 || x[1] % group_ != 0 || dy[1] % group_ != 0 || x[0] != dy[0]) {
      refuse(x, dy, "batch or channels do not fit the group " + std::to_string(group_));
    }
    const Window window = resolve(window_, Dims(x.begin() + 2, x.end()), Dims(window_.kernel));
    if (window.output != Dims(dy.begin() + 2, dy.end())) {
      refuse(x, dy,
             "a convolution of X gives " + to_string(std::span<const std::int64_t>(window.output)));
    }
    Dims w{dy[1], x[1] / group_};
    w.insert(w.end(), window.kernel.begin(), window.kernel.end());
    auto plan = std::make_shared<Plan>();
    plan->set_output(0, DType::kFloat32, w);
    if (has_bias_) plan->set_output(1, DType::kFloat32, {dy[1]});
    if (element_count(x) == 0 || element_count(dy) == 0 || element_count(w) == 0) {
      plan->zero_output(0);
      if (has_bias_) plan->zero_output(1);
      return plan;
    }
    build(*plan, x, w, dy, window);
    return plan;
  }

 private:
  [[noreturn]] static void refuse(const Dims& x, const Dims& dy, const std::string& why) {
    throw Error(ErrorCode::kInvalidArgument,
                "X is " + to_string(std::span<const std::int64_t>(x)) + ", dY is " +
                    to_string(std::span<const std::int64_t>(dy)) + ": " + why);
  }

  void build(Plan& plan, const Dims& x, const Dims& w, const Dims& dy, const Window& window) const {
    const DType f32 = DType::kFloat32;
    Dims grouped = w;
    if (group_ > 1) {
      grouped = {group_, w[0] / group_};
      grouped.insert(grouped.end(), w.begin() + 1, w.end());
    }
    const memory::desc plain_x = plain_desc(x, f32);
    const memory::desc plain_w = plain_desc(grouped, f32);
    const memory::desc plain_dy = plain_desc(dy, f32);
    const memory::desc bias = has_bias_ ? plain_desc({dy[1]}, f32) : memory::desc();
    Dims dilations = window.dilations;
    for (std::int64_t& d : dilations) --d;
    const auto direct = dnnl::algorithm::convolution_direct;
    const dnnl::convolution_forward::primitive_desc forward(
        cpu_engine(), dnnl::prop_kind::forward_training, direct, any_layout(plain_x),
        any_layout(plain_w), bias, any_layout(plain_dy), window.strides, dilations,
        window.pads_begin, window.pads_end, base_attributes(), /*allow_empty=*/true);
    if (!forward) throw Error(ErrorCode::kEngine, "oneDNN has no convolution for these shapes");
    const dnnl::convolution_backward_weights::primitive_desc pd(
        cpu_engine(), direct, any_layout(plain_x), any_layout(plain_w), bias, any_layout(plain_dy),
        window.strides, dilations, window.pads_begin, window.pads_end, forward, base_attributes(),
        /*allow_empty=*/true);
    if (!pd) throw Error(ErrorCode::kEngine, "oneDNN has no gradient for these shapes");
    const Operand output = Plan::output(0, plain_w);
    const bool in_place = pd.diff_weights_desc() == plain_w;
    const Operand result = in_place ? output : plan.temporary(pd.diff_weights_desc());
    std::vector<Plan::Argument> arguments{
        {DNNL_ARG_SRC, plan.reordered(Plan::input(0, plain_x), pd.src_desc())},
        {DNNL_ARG_DIFF_DST, plan.reordered(Plan::input(1, plain_dy), pd.diff_dst_desc())},
        {DNNL_ARG_DIFF_WEIGHTS, result}};
    if (has_bias_) arguments.push_back({DNNL_ARG_DIFF_BIAS, Plan::output(1, bias)});
    plan.add(dnnl::convolution_backward_weights(pd), pd.scratchpad_desc(), std::move(arguments),
             pd.impl_info_str());
    if (!in_place) plan.add_reorder(result, output);
  }

  WindowAttributes window_;
  std::int64_t group_;
  bool has_bias_;
};

Support supports_gradient(const NodeView& node) {
  if (node.input_dtype(0) != DType::kFloat32 || node.input_dtype(1) != DType::kFloat32) {
    return Support::no("oneDNN is used for float32 only");
  }
  if (!node.input_type(0).has_rank() || node.input_type(0).rank() < 3 ||
      node.input_type(0).rank() > 5) {
    return Support::no("oneDNN convolves over 1 to 3 dimensions of known rank");
  }
  return Support::yes();
}

// --- the form in ops of the standard --------------------------------------------------------

// What a Transpose that exchanges the first two axes reads; nothing for anything else.
ValueId under_exchange(const Graph& graph, ValueId value) {
  const Node* node = producer(graph, value, "Transpose");
  if (node == nullptr) return {};
  const std::vector<std::int64_t> perm = node->attr_ints("perm");
  if (perm.size() < 3 || perm[0] != 1 || perm[1] != 0) return {};
  for (std::size_t i = 2; i < perm.size(); ++i) {
    if (perm[i] != static_cast<std::int64_t>(i)) return {};
  }
  return node->inputs[0];
}

// The result of a Slice that keeps the beginning of the spatial axes, or `value` itself.
ValueId behind_slice(const Graph& graph, ValueId value, std::size_t rank) {
  const auto use = sole_use(graph, value);
  if (!use) return value;
  const Node& slice = graph.node(use->node);
  if (!slice.domain.empty() || slice.op != "Slice" || use->index != 0) return value;
  const Tensor* starts = graph.constant(slice.input(1));
  const Tensor* axes = slice.input(3).valid() ? graph.constant(slice.input(3)) : nullptr;
  if (starts == nullptr || axes == nullptr || slice.input(4).valid()) return {};
  const std::vector<std::int64_t> zeros(rank - 2, 0);
  std::vector<std::int64_t> spatial;
  for (std::size_t i = 2; i < rank; ++i) spatial.push_back(static_cast<std::int64_t>(i));
  if (starts->to_int64() != zeros || axes->to_int64() != spatial) return {};
  return slice.outputs[0];
}

bool rewrite(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  if (node.attr_int("group", 1) != 1 || node.input(2).valid() || node.has("auto_pad")) return false;
  const ValueId x = under_exchange(graph, node.inputs[0]);
  const ValueId dy = under_exchange(graph, node.inputs[1]);
  if (!x.valid() || !dy.valid()) return false;
  const auto x_dims = graph.type(x).static_dims();
  const auto dy_dims = graph.type(dy).static_dims();
  if (!x_dims || !dy_dims || x_dims->size() > 5 || graph.type(x).dtype != DType::kFloat32) {
    return false;
  }
  const ValueId whole = behind_slice(graph, node.outputs[0], x_dims->size());
  if (!whole.valid()) return false;
  const auto use = sole_use(graph, whole);
  if (!use) return false;
  const ValueId result = graph.node(use->node).outputs[0];
  if (under_exchange(graph, result) != whole) return false;
  const auto w_dims = graph.type(result).static_dims();
  if (!w_dims) return false;
  const std::size_t spatial = x_dims->size() - 2;
  const std::vector<std::int64_t> ones(spatial, 1);
  const std::vector<std::int64_t> pads =
      node.has("pads") ? node.attr_ints("pads") : std::vector<std::int64_t>(2 * spatial, 0);
  const std::vector<std::int64_t> kernel(w_dims->begin() + 2, w_dims->end());
  // What was the stride is the distance of the weight's elements, and the other way round.
  const std::vector<std::int64_t> strides =
      node.has("dilations") ? node.attr_ints("dilations") : ones;
  const std::vector<std::int64_t> dilations =
      node.has("strides") ? node.attr_ints("strides") : ones;
  for (std::size_t i = 0; i < spatial; ++i) {
    const std::int64_t room =
        (*x_dims)[i + 2] + pads[i] + pads[i + spatial] - ((kernel[i] - 1) * dilations[i] + 1);
    if (room < 0 || room / strides[i] + 1 != (*dy_dims)[i + 2]) return false;
  }
  const NodeId made = graph.add_node(kXrtDomain, kOp, {x, dy}, {graph.value(result).name},
                                     {{"kernel_shape", kernel},
                                      {"strides", strides},
                                      {"dilations", dilations},
                                      {"pads", pads},
                                      {"group", std::int64_t{1}}});
  const ValueId out = graph.node(made).outputs[0];
  graph.set_type(out, Type(graph.type(result)));
  replace_value(graph, result, out);
  return true;
}

}  // namespace

void recognise_weight_gradients(Graph& graph) {
  for (const NodeId id : graph.topological_order()) {
    if (!graph.alive(id)) continue;
    const Node& node = graph.node(id);
    if (node.domain.empty() && node.op == "Conv") rewrite(graph, id);
  }
}

void register_conv_gradient(KernelRegistry& registry) {
  registry.add({.domain = kXrtDomain,
                .op = kOp,
                .priority = kPriority,
                .supports = supports_gradient,
                .create = [](const KernelCreateContext& c) {
                  return make_plan_kernel<ConvWeightGradientKernel>(c, c);
                }});
}

}  // namespace xrt::native::dnn
