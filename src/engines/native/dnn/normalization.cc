// SPDX-License-Identifier: Apache-2.0
// LayerNormalization, BatchNormalization (inference) and LRN.
#include <algorithm>
#include <cmath>

#include "engines/native/dnn/families.h"
#include "engines/native/dnn/plan.h"
#include "engines/native/dnn/post_ops.h"
#include "ir/attributes.h"

namespace xrt::native::dnn {
namespace {

using dnnl::memory;

std::size_t wrapped_axis(std::int64_t axis, std::size_t rank) {
  const auto n = static_cast<std::int64_t>(rank);
  if (axis < -n || axis >= n) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "axis " + std::to_string(axis) + " is outside a tensor of rank " + std::to_string(rank));
  }
  return static_cast<std::size_t>(axis < 0 ? axis + n : axis);
}

std::int64_t product(const Dims& dims, std::size_t begin, std::size_t end) {
  std::int64_t n = 1;
  for (std::size_t i = begin; i < end; ++i) n *= dims[i];
  return n;
}

class LayerNormKernel final : public PlanKernel {
 public:
  explicit LayerNormKernel(const KernelCreateContext& context)
      : PlanKernel({.uses_arena = true}),
        axis_(need_int(context.node(), "axis")),
        epsilon_(need_float(context.node(), "epsilon")) {}

 protected:
  std::shared_ptr<const Plan> make_plan(std::span<const Dims> inputs) const override {
    const Dims& dims = inputs[0];
    const std::size_t axis = wrapped_axis(axis_, dims.size());
    const std::int64_t rows = product(dims, 0, axis);
    const std::int64_t columns = product(dims, axis, dims.size());
    const auto check = [&](const Dims& d, const char* what) {
      if (element_count(d) != columns) {
        throw Error(ErrorCode::kInvalidArgument,
                    std::string(what) + " has " + std::to_string(element_count(d)) +
                        " elements, the normalised dimensions " + std::to_string(columns));
      }
    };
    check(inputs[1], "Scale");
    const bool has_bias = inputs.size() > 2 && !inputs[2].empty();
    if (has_bias) check(inputs[2], "B");
    auto plan = std::make_shared<Plan>();
    plan->set_output(0, DType::kFloat32, dims);
    if (rows * columns == 0) return plan;
    const memory::desc desc = plain_desc({rows, columns}, DType::kFloat32);
    auto flags = dnnl::normalization_flags::use_scale;
    if (has_bias) flags = flags | dnnl::normalization_flags::use_shift;
    const dnnl::layer_normalization_forward::primitive_desc pd(
        cpu_engine(), dnnl::prop_kind::forward_inference, desc, desc, epsilon_, flags,
        base_attributes());
    const memory::desc vector = plain_desc({columns}, DType::kFloat32);
    std::vector<Plan::Argument> arguments{{DNNL_ARG_SRC, Plan::input(0, desc)},
                                          {DNNL_ARG_DST, Plan::output(0, desc)},
                                          {DNNL_ARG_SCALE, Plan::input(1, vector)}};
    if (has_bias) arguments.push_back({DNNL_ARG_SHIFT, Plan::input(2, vector)});
    plan->add(dnnl::layer_normalization_forward(pd), pd.scratchpad_desc(), std::move(arguments),
              pd.impl_info_str());
    return plan;
  }

 private:
  std::int64_t axis_;
  float epsilon_;
};

class BatchNormKernel final : public PlanKernel {
 public:
  explicit BatchNormKernel(const KernelCreateContext& context)
      : PlanKernel({.in_place = {0}, .uses_arena = true}),
        epsilon_(need_float(context.node(), "epsilon")),
        channels_last_(!context.node().domain.empty()),
        relu_(context.node().attr_int("relu", 0) != 0) {}

 protected:
  std::shared_ptr<const Plan> make_plan(std::span<const Dims> inputs) const override {
    Dims dims = inputs[0];
    if (channels_last_) std::rotate(dims.begin() + 1, dims.end() - 1, dims.end());
    const std::int64_t channels = dims.at(1);
    for (std::size_t i = 1; i < 5; ++i) {
      if (inputs[i] != Dims{channels}) {
        throw Error(ErrorCode::kInvalidArgument,
                    "input " + std::to_string(i) + " is " +
                        to_string(std::span<const std::int64_t>(inputs[i])) + ", but X has " +
                        std::to_string(channels) + " channels");
      }
    }
    auto plan = std::make_shared<Plan>();
    plan->set_output(0, DType::kFloat32, inputs[0]);
    if (element_count(dims) == 0) return plan;
    const memory::desc desc = plain_desc(dims, DType::kFloat32, channels_last_);
    auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift |
                 dnnl::normalization_flags::use_global_stats;
    if (relu_) flags = flags | dnnl::normalization_flags::fuse_norm_relu;
    const dnnl::batch_normalization_forward::primitive_desc pd(
        cpu_engine(), dnnl::prop_kind::forward_inference, desc, desc, epsilon_, flags,
        base_attributes());
    const memory::desc vector = plain_desc({channels}, DType::kFloat32);
    plan->add(dnnl::batch_normalization_forward(pd), pd.scratchpad_desc(),
              {{DNNL_ARG_SRC, Plan::input(0, desc)},
               {DNNL_ARG_DST, Plan::output(0, desc)},
               {DNNL_ARG_SCALE, Plan::input(1, vector)},
               {DNNL_ARG_SHIFT, Plan::input(2, vector)},
               {DNNL_ARG_MEAN, Plan::input(3, vector)},
               {DNNL_ARG_VARIANCE, Plan::input(4, vector)}},
              pd.impl_info_str());
    return plan;
  }

 private:
  float epsilon_;
  bool channels_last_;
  bool relu_;
};

class LrnKernel final : public PlanKernel {
 public:
  explicit LrnKernel(const KernelCreateContext& context)
      : PlanKernel({.uses_arena = true}),
        size_(need_int(context.node(), "size")),
        alpha_(need_float(context.node(), "alpha")),
        beta_(need_float(context.node(), "beta")),
        bias_(need_float(context.node(), "bias")),
        channels_last_(!context.node().domain.empty()) {}

 protected:
  std::shared_ptr<const Plan> make_plan(std::span<const Dims> inputs) const override {
    auto plan = std::make_shared<Plan>();
    plan->set_output(0, DType::kFloat32, inputs[0]);
    if (element_count(inputs[0]) == 0) return plan;
    Dims dims = inputs[0];
    if (channels_last_) std::rotate(dims.begin() + 1, dims.end() - 1, dims.end());
    const memory::desc desc = plain_desc(dims, DType::kFloat32, channels_last_);
    const dnnl::lrn_forward::primitive_desc pd(cpu_engine(), dnnl::prop_kind::forward_inference,
                                               dnnl::algorithm::lrn_across_channels, desc, desc,
                                               size_, alpha_, beta_, bias_, base_attributes());
    plan->add(dnnl::lrn_forward(pd), pd.scratchpad_desc(),
              {{DNNL_ARG_SRC, Plan::input(0, desc)}, {DNNL_ARG_DST, Plan::output(0, desc)}},
              pd.impl_info_str());
    return plan;
  }

 private:
  std::int64_t size_;
  float alpha_;
  float beta_;
  float bias_;
  bool channels_last_;
};

Support float_input(const NodeView& node, std::size_t least_rank, std::size_t most_rank) {
  if (node.input_dtype(0) != DType::kFloat32) {
    return Support::no("oneDNN normalises float32 here, not " +
                       std::string(to_string(node.input_dtype(0))));
  }
  if (!node.input_type(0).has_rank()) return Support::no("the rank of the input is unknown");
  const std::size_t rank = node.input_type(0).rank();
  if (rank < least_rank || rank > most_rank) {
    return Support::no("oneDNN does not normalise a tensor of rank " + std::to_string(rank));
  }
  return Support::yes();
}

Dims without_leading_ones(Dims dims) {
  dims.erase(dims.begin(), std::find_if(dims.begin(), dims.end(), [](auto n) { return n != 1; }));
  return dims;
}

Support supports_layer_norm(const NodeView& node) {
  if (node.has_output(1) || node.has_output(2)) {
    return Support::no("mean and deviation are wanted too");
  }
  if (need_int(node.node(), "stash_type") != 1) return Support::no("stash_type is not float32");
  for (const std::size_t i : {1, 2}) {
    if (node.has_input(i) && node.input_dtype(i) != DType::kFloat32) {
      return Support::no("Scale and B must be float32");
    }
  }
  // Scale and bias may broadcast; the primitive wants one value per normalised element. Only the
  // normalised sizes must be known: there may be any number of rows.
  const Type& x = node.input_type(0);
  const auto scale = node.input_type(1).static_dims();
  if (!x.has_rank() || x.rank() == 0 || !scale) {
    return Support::no("the rank of X or the shape of Scale is not known");
  }
  Dims row;
  for (std::size_t i = wrapped_axis(need_int(node.node(), "axis"), x.rank()); i < x.rank(); ++i) {
    const Dim& dim = (*x.shape)[i];
    if (!dim.is_known()) return Support::no("a normalised size is not known before the run");
    row.push_back(dim.value());
  }
  if (without_leading_ones(*scale) != without_leading_ones(row)) {
    return Support::no("Scale broadcasts");
  }
  if (node.has_input(2)) {
    const auto bias = node.input_type(2).static_dims();
    if (!bias || without_leading_ones(*bias) != without_leading_ones(row)) {
      return Support::no("B broadcasts");
    }
  }
  return float_input(node, 1, 12);
}

Support supports_batch_norm(const NodeView& node) {
  if (node.has_output(1) || need_int(node.node(), "training_mode") != 0) {
    return Support::no("oneDNN is used for inference only");
  }
  for (std::size_t i = 1; i < 5; ++i) {
    if (node.input_dtype(i) != DType::kFloat32) {
      return Support::no("statistics, scale and bias must be float32");
    }
  }
  return float_input(node, 2, 5);
}

template <typename K>
std::unique_ptr<Kernel> create(const KernelCreateContext& context) {
  return make_plan_kernel<K>(context, context);
}

}  // namespace

void register_normalization(KernelRegistry& registry) {
  registry.add({.op = "LayerNormalization",
                .priority = kPriority,
                .supports = supports_layer_norm,
                .create = create<LayerNormKernel>});
  registry.add({.op = "BatchNormalization",
                .priority = kPriority,
                .supports = supports_batch_norm,
                .create = create<BatchNormKernel>});
  registry.add({.domain = std::string(kDomain),
                .op = "BatchNormalization",
                .create = create<BatchNormKernel>});
  registry.add({.op = "LRN",
                .priority = kPriority,
                .supports =
                    [](const NodeView& n) {
                      constexpr std::int64_t kUsual = 31;
                      const std::int64_t size = need_int(n.node(), "size");
                      if (size % 2 == 0) {
                        return Support::no("oneDNN wants an odd number of channels");
                      }
                      if (size > kUsual) return Support::no("oneDNN is slow over many channels");
                      return float_input(n, 4, 4);
                    },
                .create = create<LrnKernel>});
  registry.add({.domain = std::string(kDomain), .op = "LRN", .create = create<LrnKernel>});
}

}  // namespace xrt::native::dnn
