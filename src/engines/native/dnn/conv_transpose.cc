// SPDX-License-Identifier: Apache-2.0
// ConvTranspose. The op of that name in domain kDomain has X and Y stored channels last.
#include "engines/native/dnn/conv_transpose.h"

#include <algorithm>

#include "engines/native/dnn/families.h"
#include "engines/native/dnn/plan.h"
#include "engines/native/dnn/post_ops.h"
#include "engines/native/kernels/common/window.h"
#include "ir/attributes.h"
#include "ops/sizes/wide_window.h"

namespace xrt::native::dnn {
namespace {

using dnnl::memory;

class ConvTransposeKernel final : public PlanKernel {
 public:
  explicit ConvTransposeKernel(const KernelCreateContext& context)
      : PlanKernel({.uses_arena = true}),
        window_(WindowAttributes::of(context.node())),
        output_padding_(context.node().attr_ints("output_padding")),
        group_(need_int(context.node(), "group")),
        channels_last_(!context.node().domain.empty()) {
    if (const Tensor* w = context.constant_input(1)) weights_ = *w;
    if (const Tensor* b = context.constant_input(2)) bias_ = *b;
  }

 protected:
  std::shared_ptr<const Plan> make_plan(std::span<const Dims> inputs) const override {
    Dims x = inputs[0];
    const Dims& w = inputs[1];
    if (x.size() < 3 || x.size() != w.size()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "X has rank " + std::to_string(x.size()) + " and W " + std::to_string(w.size()));
    }
    if (channels_last_) std::rotate(x.begin() + 1, x.end() - 1, x.end());
    if (group_ < 1 || x[1] != w[0] || x[1] % group_ != 0) {
      throw Error(ErrorCode::kInvalidArgument, "X has " + std::to_string(x[1]) +
                                                   " channels, W is " +
                                                   to_string(std::span<const std::int64_t>(w)) +
                                                   " and group is " + std::to_string(group_));
    }
    const Window window = place(x, w);
    Dims y{x[0], w[1] * group_};
    y.insert(y.end(), window.output.begin(), window.output.end());
    Dims stored = y;
    if (channels_last_) std::rotate(stored.begin() + 1, stored.begin() + 2, stored.end());
    auto plan = std::make_shared<Plan>();
    plan->set_output(0, DType::kFloat32, stored);
    if (element_count(y) == 0) return plan;
    const bool has_bias = inputs.size() > 2 && !inputs[2].empty();
    if (has_bias && element_count(inputs[2]) != y[1]) {
      throw Error(ErrorCode::kInvalidArgument,
                  "there are " + std::to_string(y[1]) + " channels, and the bias is " +
                      to_string(std::span<const std::int64_t>(inputs[2])));
    }
    if (!plan_product(*plan, window, x, w, has_bias)) build(*plan, window, x, w, y, has_bias);
    return plan;
  }

  void drop_sources() override { weights_ = bias_ = Tensor(); }

 private:
  // The window and output size, by the formulas of the ONNX operator.
  Window place(const Dims& x, const Dims& w) const {
    const std::size_t n = x.size() - 2;
    check_kernel(window_, Dims(w.begin() + 2, w.end()));
    Window window;
    const auto entry = [](const std::vector<std::int64_t>& list, std::size_t i,
                          std::int64_t fallback) { return list.empty() ? fallback : list.at(i); };
    for (std::size_t i = 0; i < n; ++i) {
      const std::int64_t stride = entry(window_.strides, i, 1);
      const std::int64_t dilation = entry(window_.dilations, i, 1);
      const std::int64_t extent = (w[i + 2] - 1) * dilation + 1;
      const std::int64_t full = stride * (x[i + 2] - 1) + entry(output_padding_, i, 0) + extent;
      const std::int64_t begin = entry(window_.pads, i, 0);
      const std::int64_t end = entry(window_.pads, i + n, 0);
      window.kernel.push_back(w[i + 2]);
      window.strides.push_back(stride);
      window.dilations.push_back(dilation - 1);
      window.pads_begin.push_back(begin);
      // oneDNN wants output = stride · (input - 1) + extent - both pads.
      window.output.push_back(full - begin - end);
      window.pads_end.push_back(end - entry(output_padding_, i, 0));
      if (window.output.back() < 1) {
        throw Error(ErrorCode::kInvalidArgument, "the padding leaves no output");
      }
    }
    return window;
  }

  // Windows that neither overlap nor leave gaps: every input pixel gives a block of output pixels
  // of its own, and all blocks are one product. With channels last, row a of the blocks of an image
  // row is an image row of the result: Y (rows, kh, width, kw · outputs) = X (rows, 1, width,
  // inputs) · W (1, kh, inputs, kw · outputs). To describe the deconvolution takes oneDNN time that
  // grows with the square of the width: 40 ms for 320 pixels.
  bool plan_product(Plan& plan, const Window& window, const Dims& x, const Dims& w,
                    bool has_bias) const {
    if (!channels_last_ || group_ != 1 || x.size() != 4 || !weights_.defined()) return false;
    if (has_bias && !bias_.defined()) return false;
    for (std::size_t i = 0; i < 2; ++i) {
      if (window.kernel[i] != window.strides[i] || window.pads_begin[i] != 0 ||
          window.pads_end[i] != 0 || window.dilations[i] != 0) {
        return false;
      }
    }
    const std::int64_t kh = w[2];
    const std::int64_t kw = w[3];
    const std::int64_t columns = kw * w[1];
    const DType f32 = DType::kFloat32;
    const memory::desc xd = plain_desc({x[0] * x[2], 1, x[3], x[1]}, f32);
    const memory::desc wd = plain_desc({1, kh, x[1], columns}, f32);
    const memory::desc yd = plain_desc({x[0] * x[2], kh, x[3], columns}, f32);
    const memory::desc bd = has_bias ? plain_desc({1, 1, 1, columns}, f32) : memory::desc();
    const dnnl::matmul::primitive_desc pd(cpu_engine(), xd, wd, bd, yd, base_attributes(),
                                          /*allow_empty=*/true);
    if (!pd || is_reference(pd.impl_info_str())) return false;
    const Dims s = row_major_strides(w);  // inputs, outputs, kh, kw
    const memory::desc given({kh, w[0], kw, w[1]}, memory::data_type::f32,
                             {s[2], s[0], s[3], s[1]});
    Operand weights =
        plan.constant(packed(1, weights_, given, plain_desc({kh, w[0], kw, w[1]}, f32)));
    weights.desc = wd;
    std::vector<Plan::Argument> arguments{{DNNL_ARG_SRC, Plan::input(0, xd)},
                                          {DNNL_ARG_WEIGHTS, weights},
                                          {DNNL_ARG_DST, Plan::output(0, yd)}};
    if (has_bias) {
      Tensor repeated = Tensor::allocate(f32, {kw, w[1]});
      for (std::int64_t i = 0; i < kw; ++i) {
        std::copy_n(bias_.data<float>(), w[1], repeated.data<float>() + i * w[1]);
      }
      arguments.push_back({DNNL_ARG_BIAS, plan.constant(packed(2, repeated, bd, bd))});
    }
    plan.add(dnnl::matmul(pd), pd.scratchpad_desc(), std::move(arguments), pd.impl_info_str());
    return true;
  }

  void build(Plan& plan, const Window& window, const Dims& x, const Dims& w, const Dims& y,
             bool has_bias) const {
    const DType f32 = DType::kFloat32;
    const Dims s = row_major_strides(w);
    // ONNX stores (input channels, output channels / group, …); oneDNN counts outputs first.
    Dims wd{w[1], w[0] / group_};
    Dims ws{s[1], s[0]};
    wd.insert(wd.end(), w.begin() + 2, w.end());
    ws.insert(ws.end(), s.begin() + 2, s.end());
    if (group_ > 1) {
      wd.insert(wd.begin(), group_);
      ws.insert(ws.begin(), s[0] * (w[0] / group_));
    }
    const memory::desc plain(wd, memory::data_type::f32, ws);
    const memory::desc any(wd, memory::data_type::f32, memory::format_tag::any);
    const memory::desc bd = has_bias ? plain_desc({y[1]}, f32) : memory::desc();
    const memory::desc xd = plain_desc(x, f32, channels_last_);
    const memory::desc yd = plain_desc(y, f32, channels_last_);
    using Description = dnnl::deconvolution_forward::primitive_desc;
    const auto make = [&](const memory::desc& from, const memory::desc& to) {
      return Description(cpu_engine(), dnnl::prop_kind::forward_inference,
                         dnnl::algorithm::deconvolution_direct, from, any, bd, to, window.strides,
                         window.dilations, window.pads_begin, window.pads_end, base_attributes(),
                         /*allow_empty=*/true);
    };
    Description pd = channels_last_ ? make(xd, yd) : Description();
    if (!pd || is_reference(pd.impl_info_str())) {
      const auto free = [](const memory::desc& d) {
        return memory::desc(d.get_dims(), d.get_data_type(), memory::format_tag::any);
      };
      pd = make(free(xd), free(yd));
    }
    if (!pd) throw Error(ErrorCode::kEngine, "oneDNN has no deconvolution for these shapes");
    const Operand wo = weights_.defined()
                           ? plan.constant(packed(1, weights_, plain, pd.weights_desc()))
                           : plan.reordered(Plan::input(1, plain), pd.weights_desc());
    const Operand output = Plan::output(0, yd);
    const Operand result = pd.dst_desc() == yd ? output : plan.temporary(pd.dst_desc());
    std::vector<Plan::Argument> arguments{
        {DNNL_ARG_SRC, plan.reordered(Plan::input(0, xd), pd.src_desc())},
        {DNNL_ARG_WEIGHTS, wo},
        {DNNL_ARG_DST, result}};
    if (has_bias) {
      arguments.push_back({DNNL_ARG_BIAS, bias_.defined() ? plan.constant(packed(2, bias_, bd, bd))
                                                          : Plan::input(2, bd)});
    }
    plan.add(dnnl::deconvolution_forward(pd), pd.scratchpad_desc(), std::move(arguments),
             pd.impl_info_str());
    if (!(pd.dst_desc() == yd)) plan.add_reorder(result, output);
  }

  WindowAttributes window_;
  std::vector<std::int64_t> output_padding_;
  std::int64_t group_;
  bool channels_last_;
  Tensor weights_;
  Tensor bias_;
};

// In strides and with gaps oneDNN multiplies matrices, of a group at a time; where the matrix of
// all windows is large, it walks over elements, a hundred times as long.
bool is_slow_with_gaps(const Node& node, const Dims& w) {
  constexpr std::int64_t kFewTaps = 25;
  constexpr std::int64_t kFewInputs = 8;
  if (is_dense_window(node) || !is_strided_window(node)) return false;
  const std::int64_t taps = element_count(Dims(w.begin() + 2, w.end()));
  return taps > kFewTaps || w[0] / std::max<std::int64_t>(need_int(node, "group"), 1) < kFewInputs;
}

}  // namespace

Support supports_deconvolution(const Node& node, const Type& x, const Type& w) {
  if (x.dtype != DType::kFloat32) return Support::no("oneDNN is used for float32 only");
  if (!x.has_rank() || x.rank() < 3 || x.rank() > 5 || !w.is_static()) {
    return Support::no("oneDNN deconvolves over 1 to 3 dimensions of known rank");
  }
  if (has_slow_window(node, *w.static_dims())) {
    return Support::no("oneDNN has no fast deconvolution by windows that are so wide or far apart");
  }
  if (is_slow_with_gaps(node, *w.static_dims())) {
    return Support::no("oneDNN has no fast deconvolution in strides by such windows with gaps");
  }
  const std::vector<std::int64_t> strides = node.attr_ints("strides");
  const std::vector<std::int64_t> padding = node.attr_ints("output_padding");
  for (std::size_t i = 0; i < padding.size(); ++i) {
    const std::int64_t stride = i < strides.size() ? strides[i] : 1;
    if (padding[i] < 0 || padding[i] >= stride) {
      return Support::no("output_padding of a stride or more is left to the general kernel");
    }
  }
  if (node.has("output_shape") || node.has("auto_pad")) {
    return Support::no("a padding that the sizes decide is left to the general kernel");
  }
  for (const std::int64_t p : node.attr_ints("pads")) {
    if (p < 0) return Support::no("negative pads are left to the general kernel");
  }
  return Support::yes();
}

void register_conv_transpose(KernelRegistry& registry) {
  const auto create = [](const KernelCreateContext& c) {
    return make_plan_kernel<ConvTransposeKernel>(c, c);
  };
  registry.add({.op = "ConvTranspose",
                .priority = kPriority,
                .supports =
                    [](const NodeView& n) {
                      return supports_deconvolution(n.node(), n.input_type(0), n.input_type(1));
                    },
                .create = create});
  registry.add({.domain = std::string(kDomain), .op = "ConvTranspose", .create = create});
}

}  // namespace xrt::native::dnn
