// SPDX-License-Identifier: Apache-2.0
// Training in float32: batch normalisation over a batch's own statistics, and the gradients of the
// domain "xrt" (docs/reference/gradients.md) that oneDNN has primitives for.
//
// Ops of domain kDomain have their image operands and results stored as (batch, spatial …,
// channels). "ReluGradient" of kDomain, (Y, dY) -> dX with Y the result of Relu, is elementwise;
// its attribute kKeepsNaN says whether dY is kept where Y is NaN.
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

constexpr const char* kGradientDomain = "xrt";
constexpr DType kF32 = DType::kFloat32;

Dims logical(Dims dims, bool channels_last) {
  if (channels_last) std::rotate(dims.begin() + 1, dims.end() - 1, dims.end());
  return dims;
}

bool is_last(const KernelCreateContext& context) { return context.node().domain == kDomain; }

memory::desc free_layout(const memory::desc& d) {
  return memory::desc(d.get_dims(), d.get_data_type(), memory::format_tag::any);
}

Window window_of(const WindowAttributes& attributes, const Dims& x) {
  return resolve(attributes, Dims(x.begin() + 2, x.end()), attributes.kernel);
}

Dims minus_one(Dims dilations) {
  for (std::int64_t& d : dilations) --d;
  return dilations;
}

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::kInvalidArgument, what); }

class ConvWeightGradientKernel final : public PlanKernel {
 public:
  explicit ConvWeightGradientKernel(const KernelCreateContext& context)
      : PlanKernel({.uses_arena = true}),
        window_(WindowAttributes::of(context.node())),
        group_(need_int(context.node(), "group")),
        bias_(context.has_output(1)),
        channels_last_(is_last(context)) {}

 protected:
  std::shared_ptr<const Plan> make_plan(std::span<const Dims> inputs) const override {
    const Dims x = logical(inputs[0], channels_last_);
    const Dims y = logical(inputs[1], channels_last_);
    if (x.size() < 3 || y.size() != x.size() || x[0] != y[0] || group_ < 1 || x[1] % group_ != 0 ||
        y[1] % group_ != 0) {
      fail("X and dY do not belong to one convolution");
    }
    const Window window = window_of(window_, x);
    if (!std::equal(window.output.begin(), window.output.end(), y.begin() + 2)) {
      fail("dY is not of the shape of the convolution's result");
    }
    Dims w{y[1], x[1] / group_};
    w.insert(w.end(), window.kernel.begin(), window.kernel.end());
    auto plan = std::make_shared<Plan>();
    plan->set_output(0, kF32, w);
    if (bias_) plan->set_output(1, kF32, {y[1]});
    if (element_count(x) == 0 || element_count(y) == 0 || element_count(w) == 0) {
      plan->zero_output(0);
      if (bias_) plan->zero_output(1);
      return plan;
    }
    build(*plan, window, x, w, y);
    return plan;
  }

 private:
  using Forward = dnnl::convolution_forward::primitive_desc;
  using Backward = dnnl::convolution_backward_weights::primitive_desc;

  void build(Plan& plan, const Window& window, const Dims& x, const Dims& w, const Dims& y) const {
    Dims grouped = w;
    if (group_ > 1) {
      grouped[0] /= group_;
      grouped.insert(grouped.begin(), group_);
    }
    const memory::desc xd = plain_desc(x, kF32, channels_last_);
    const memory::desc yd = plain_desc(y, kF32, channels_last_);
    const memory::desc wd = plain_desc(grouped, kF32);
    const memory::desc bd = bias_ ? plain_desc({y[1]}, kF32) : memory::desc();
    const Dims dilations = minus_one(window.dilations);
    const auto describe = [&](const memory::desc& from, const memory::desc& to) {
      const Forward forward(cpu_engine(), dnnl::prop_kind::forward_training,
                            dnnl::algorithm::convolution_direct, from, free_layout(wd), bd, to,
                            window.strides, dilations, window.pads_begin, window.pads_end,
                            base_attributes(), /*allow_empty=*/true);
      if (!forward) return Backward();
      return Backward(cpu_engine(), dnnl::algorithm::convolution_direct, from, free_layout(wd), bd,
                      to, window.strides, dilations, window.pads_begin, window.pads_end, forward,
                      base_attributes(), /*allow_empty=*/true);
    };
    Backward pd = channels_last_ ? describe(xd, yd) : Backward();
    if (!pd || is_reference(pd.impl_info_str())) pd = describe(free_layout(xd), free_layout(yd));
    if (!pd) throw Error(ErrorCode::kEngine, "oneDNN has no weight gradient for these shapes");
    const Operand result = Plan::output(0, wd);
    const bool direct = pd.diff_weights_desc() == wd;
    const Operand made = direct ? result : plan.temporary(pd.diff_weights_desc());
    std::vector<Plan::Argument> arguments{
        {DNNL_ARG_SRC, plan.reordered(Plan::input(0, xd), pd.src_desc())},
        {DNNL_ARG_DIFF_DST, plan.reordered(Plan::input(1, yd), pd.diff_dst_desc())},
        {DNNL_ARG_DIFF_WEIGHTS, made}};
    if (bias_) arguments.push_back({DNNL_ARG_DIFF_BIAS, Plan::output(1, bd)});
    plan.add(dnnl::convolution_backward_weights(pd), pd.scratchpad_desc(), std::move(arguments),
             pd.impl_info_str());
    if (!direct) plan.add_reorder(made, result);
  }

  WindowAttributes window_;
  std::int64_t group_;
  bool bias_;
  bool channels_last_;
};

// The forward pass runs again for the places of the maxima.
class MaxPoolGradientKernel final : public PlanKernel {
 public:
  explicit MaxPoolGradientKernel(const KernelCreateContext& context)
      : PlanKernel({.uses_arena = true}),
        window_(WindowAttributes::of(context.node())),
        channels_last_(is_last(context)) {}

 protected:
  std::shared_ptr<const Plan> make_plan(std::span<const Dims> inputs) const override {
    const Dims x = logical(inputs[0], channels_last_);
    const Dims y = logical(inputs[1], channels_last_);
    if (x.size() < 3) fail("X has no spatial axes");
    const Window w = window_of(window_, x);
    if (y.size() != x.size() || !std::equal(w.output.begin(), w.output.end(), y.begin() + 2)) {
      fail("dY is not of the shape of the pool's result");
    }
    auto plan = std::make_shared<Plan>();
    plan->set_output(0, kF32, inputs[0]);
    if (element_count(x) == 0 || element_count(y) == 0) {
      plan->zero_output(0);
      return plan;
    }
    Dims pads_end = w.pads_end;
    for (std::size_t i = 0; i < w.output.size(); ++i) {
      const std::int64_t extent = (w.kernel[i] - 1) * w.dilations[i] + 1;
      pads_end[i] = std::max(
          pads_end[i], (w.output[i] - 1) * w.strides[i] + extent - x[i + 2] - w.pads_begin[i]);
    }
    const memory::desc xd = plain_desc(x, kF32, channels_last_);
    const memory::desc yd = plain_desc(y, kF32, channels_last_);
    const Dims dilations = minus_one(w.dilations);
    const dnnl::pooling_forward::primitive_desc forward(
        cpu_engine(), dnnl::prop_kind::forward_training, dnnl::algorithm::pooling_max, xd, yd,
        w.strides, w.kernel, dilations, w.pads_begin, pads_end, base_attributes());
    const dnnl::pooling_backward::primitive_desc backward(
        cpu_engine(), dnnl::algorithm::pooling_max, xd, yd, w.strides, w.kernel, dilations,
        w.pads_begin, pads_end, forward, base_attributes());
    const Operand places = plan->temporary(forward.workspace_desc());
    plan->add(dnnl::pooling_forward(forward), forward.scratchpad_desc(),
              {{DNNL_ARG_SRC, Plan::input(0, xd)},
               {DNNL_ARG_DST, plan->temporary(yd)},
               {DNNL_ARG_WORKSPACE, places}},
              forward.impl_info_str());
    plan->add(dnnl::pooling_backward(backward), backward.scratchpad_desc(),
              {{DNNL_ARG_DIFF_DST, Plan::input(1, yd)},
               {DNNL_ARG_WORKSPACE, places},
               {DNNL_ARG_DIFF_SRC, Plan::output(0, xd)}},
              backward.impl_info_str());
    return plan;
  }

 private:
  WindowAttributes window_;
  bool channels_last_;
};

const auto kAffine = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;

using NormForward = dnnl::batch_normalization_forward::primitive_desc;

NormForward describe_norm(const memory::desc& desc, float epsilon) {
  return NormForward(cpu_engine(), dnnl::prop_kind::forward_training, desc, desc, epsilon, kAffine,
                     base_attributes());
}

// Outputs 1 and 2 are the batch's statistics: momentum is 0.
class BatchNormTrainingKernel final : public PlanKernel {
 public:
  explicit BatchNormTrainingKernel(const KernelCreateContext& context)
      : PlanKernel({.uses_arena = true}),
        epsilon_(need_float(context.node(), "epsilon")),
        channels_last_(is_last(context)) {}

 protected:
  std::shared_ptr<const Plan> make_plan(std::span<const Dims> inputs) const override {
    const Dims dims = logical(inputs[0], channels_last_);
    const std::int64_t channels = dims.at(1);
    for (const std::size_t i : {1U, 2U}) {
      if (inputs[i] != Dims{channels}) fail("scale or B does not fit the channels of X");
    }
    auto plan = std::make_shared<Plan>();
    plan->set_output(0, kF32, inputs[0]);
    plan->set_output(1, kF32, {channels});
    plan->set_output(2, kF32, {channels});
    if (element_count(dims) == 0) {
      plan->zero_output(1);
      plan->zero_output(2);
      return plan;
    }
    const memory::desc desc = plain_desc(dims, kF32, channels_last_);
    const memory::desc vector = plain_desc({channels}, kF32);
    const NormForward pd = describe_norm(desc, epsilon_);
    plan->add(dnnl::batch_normalization_forward(pd), pd.scratchpad_desc(),
              {{DNNL_ARG_SRC, Plan::input(0, desc)},
               {DNNL_ARG_DST, Plan::output(0, desc)},
               {DNNL_ARG_SCALE, Plan::input(1, vector)},
               {DNNL_ARG_SHIFT, Plan::input(2, vector)},
               {DNNL_ARG_MEAN, Plan::output(1, vector)},
               {DNNL_ARG_VARIANCE, Plan::output(2, vector)}},
              pd.impl_info_str());
    return plan;
  }

 private:
  float epsilon_;
  bool channels_last_;
};

class BatchNormGradientKernel final : public PlanKernel {
 public:
  explicit BatchNormGradientKernel(const KernelCreateContext& context)
      : PlanKernel({.uses_arena = true}),
        epsilon_(need_float(context.node(), "epsilon")),
        channels_last_(is_last(context)) {}

 protected:
  std::shared_ptr<const Plan> make_plan(std::span<const Dims> inputs) const override {
    const Dims dims = logical(inputs[0], channels_last_);
    const std::int64_t channels = dims.at(1);
    if (inputs[4] != inputs[0]) fail("dY is not of the shape of X");
    for (const std::size_t i : {1U, 2U, 3U}) {
      if (inputs[i] != Dims{channels}) fail("a vector does not fit the channels of X");
    }
    auto plan = std::make_shared<Plan>();
    plan->set_output(0, kF32, inputs[0]);
    plan->set_output(1, kF32, {channels});
    plan->set_output(2, kF32, {channels});
    if (element_count(dims) == 0) {
      plan->zero_output(1);
      plan->zero_output(2);
      return plan;
    }
    const memory::desc desc = plain_desc(dims, kF32, channels_last_);
    const memory::desc vector = plain_desc({channels}, kF32);
    const dnnl::batch_normalization_backward::primitive_desc pd(
        cpu_engine(), dnnl::prop_kind::backward, desc, desc, desc, epsilon_, kAffine,
        describe_norm(desc, epsilon_), base_attributes());
    plan->add(dnnl::batch_normalization_backward(pd), pd.scratchpad_desc(),
              {{DNNL_ARG_SRC, Plan::input(0, desc)},
               {DNNL_ARG_SCALE, Plan::input(1, vector)},
               {DNNL_ARG_MEAN, Plan::input(2, vector)},
               {DNNL_ARG_VARIANCE, Plan::input(3, vector)},
               {DNNL_ARG_DIFF_DST, Plan::input(4, desc)},
               {DNNL_ARG_DIFF_SRC, Plan::output(0, desc)},
               {DNNL_ARG_DIFF_SCALE, Plan::output(1, vector)},
               {DNNL_ARG_DIFF_SHIFT, Plan::output(2, vector)}},
              pd.impl_info_str());
    return plan;
  }

 private:
  float epsilon_;
  bool channels_last_;
};

// A choice, not a product by 0 or 1: what is not kept may be infinite or NaN.
std::unique_ptr<Kernel> create_relu_gradient(const KernelCreateContext& context) {
  const bool keeps_nan = context.node().attr_int(kKeepsNaN, 0) != 0;
  return make_kernel(
      [keeps_nan](KernelContext& k) {
        const Tensor& y = k.input(0);
        const Tensor& dy = k.input(1);
        if (y.dims() != dy.dims()) fail("Y and dY differ in shape");
        Tensor& dx = k.output(0, kF32, y.dims());
        const auto* from = y.data<float>();
        const auto* gradient = dy.data<float>();
        auto* to = dx.data<float>();
        constexpr std::int64_t kAtOnce = 1 << 14;
        k.parallel_for(y.count(), kAtOnce, [&](std::int64_t begin, std::int64_t end) {
          // The gradient is read in any case: a read that depends on Y keeps the loop from being
          // vectorised.
          if (keeps_nan) {
            for (std::int64_t i = begin; i < end; ++i) {
              const float kept = gradient[i];
              to[i] = from[i] <= 0 ? 0.0F : kept;
            }
          } else {
            for (std::int64_t i = begin; i < end; ++i) {
              const float kept = gradient[i];
              to[i] = from[i] > 0 ? kept : 0.0F;
            }
          }
        });
      },
      {.in_place = {0, 1}});
}

Support supports_images(const NodeView& node) {
  if (node.input_dtype(0) != kF32) return Support::no("oneDNN trains float32 here");
  if (!node.input_type(0).has_rank()) return Support::no("the rank of X is unknown");
  const std::size_t rank = node.input_type(0).rank();
  if (rank < 3 || rank > 5) return Support::no("oneDNN wants 1 to 3 spatial dimensions");
  if (is_oversized_window(node.node())) return Support::no("the window is oversized");
  return Support::yes();
}

Support supports_norm(const NodeView& node, std::size_t vectors) {
  if (node.input_dtype(0) != kF32 || !node.input_type(0).has_rank() ||
      node.input_type(0).rank() < 2 || node.input_type(0).rank() > 5) {
    return Support::no("oneDNN normalises float32 of rank 2 to 5");
  }
  for (std::size_t i = 1; i <= vectors; ++i) {
    if (node.input_dtype(i) != kF32) return Support::no("scale and statistics must be float32");
  }
  return Support::yes();
}

template <typename K>
std::unique_ptr<Kernel> create(const KernelCreateContext& context) {
  return make_plan_kernel<K>(context, context);
}

}  // namespace

void register_training(KernelRegistry& registry) {
  const std::string last(kDomain);
  registry.add({.domain = kGradientDomain,
                .op = "ConvWeightGradient",
                .priority = kPriority,
                .supports = supports_images,
                .create = create<ConvWeightGradientKernel>});
  registry.add(
      {.domain = last, .op = "ConvWeightGradient", .create = create<ConvWeightGradientKernel>});
  registry.add({.domain = kGradientDomain,
                .op = "MaxPoolGradient",
                .priority = kPriority,
                .supports = supports_images,
                .create = create<MaxPoolGradientKernel>});
  registry.add({.domain = last, .op = "MaxPoolGradient", .create = create<MaxPoolGradientKernel>});
  registry.add({.domain = kGradientDomain,
                .op = "BatchNormalizationGradient",
                .priority = kPriority,
                .supports = [](const NodeView& n) { return supports_norm(n, 3); },
                .create = create<BatchNormGradientKernel>});
  registry.add({.domain = last,
                .op = "BatchNormalizationGradient",
                .create = create<BatchNormGradientKernel>});
  registry.add({.op = "BatchNormalization",
                .priority = kPriority + 1,
                .supports =
                    [](const NodeView& n) {
                      if (need_int(n.node(), "training_mode") == 0 ||
                          need_float(n.node(), "momentum") != 0) {
                        return Support::no("it is not training without momentum");
                      }
                      return supports_norm(n, 4);
                    },
                .create = create<BatchNormTrainingKernel>});
  registry.add({.domain = last,
                .op = "BatchNormalizationTraining",
                .create = create<BatchNormTrainingKernel>});
  registry.add({.domain = last, .op = "ReluGradient", .create = create_relu_gradient});
}

}  // namespace xrt::native::dnn
