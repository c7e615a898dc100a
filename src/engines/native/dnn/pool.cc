// SPDX-License-Identifier: Apache-2.0
// AveragePool, MaxPool of bytes, and the global pools; MaxPool of float32 is in max_pool.h.
//
// Op "MaxPool" or "AveragePool" of domain kDomain is the same with X and Y stored as
// (batch, spatial …, channels).
#include <algorithm>

#include "engines/native/dnn/families.h"
#include "engines/native/dnn/max_pool.h"
#include "engines/native/dnn/plan.h"
#include "engines/native/dnn/post_ops.h"
#include "engines/native/kernels/common/window.h"
#include "ir/attributes.h"
#include "ops/sizes/wide_window.h"

namespace xrt::native::dnn {
namespace {

using dnnl::memory;

class PoolKernel final : public PlanKernel {
 public:
  explicit PoolKernel(const KernelCreateContext& context)
      : PlanKernel({.uses_arena = true}),
        window_(WindowAttributes::of(context.node())),
        global_(context.node().op.starts_with("Global")),
        channels_last_(!context.node().domain.empty()),
        dtype_(context.input_dtype(0)) {
    if (context.node().op.ends_with("MaxPool")) {
      algorithm_ = dnnl::algorithm::pooling_max;
    } else if (context.node().attr_int("count_include_pad", 0) != 0) {
      algorithm_ = dnnl::algorithm::pooling_avg_include_padding;
    } else {
      algorithm_ = dnnl::algorithm::pooling_avg_exclude_padding;
    }
  }

 protected:
  std::shared_ptr<const Plan> make_plan(std::span<const Dims> inputs) const override {
    Dims x_dims = inputs[0];
    if (x_dims.size() < 3) {
      throw Error(ErrorCode::kInvalidArgument,
                  "X has rank " + std::to_string(x_dims.size()) + "; 3 is the least");
    }
    if (channels_last_) std::rotate(x_dims.begin() + 1, x_dims.end() - 1, x_dims.end());
    const Dims spatial(x_dims.begin() + 2, x_dims.end());
    const Window w =
        global_ ? resolve({}, spatial, spatial) : resolve(window_, spatial, window_.kernel);
    Dims y_dims{x_dims[0], x_dims[1]};
    y_dims.insert(y_dims.end(), w.output.begin(), w.output.end());
    Dims stored = y_dims;
    if (channels_last_) std::rotate(stored.begin() + 1, stored.begin() + 2, stored.end());

    auto plan = std::make_shared<Plan>();
    plan->set_output(0, dtype_, stored);
    if (element_count(y_dims) == 0) return plan;
    Dims dilations = w.dilations;
    for (std::int64_t& d : dilations) --d;
    // With ceil_mode the last window may reach beyond the padding asked for.
    Dims pads_end = w.pads_end;
    for (std::size_t i = 0; i < spatial.size(); ++i) {
      const std::int64_t extent = (w.kernel[i] - 1) * w.dilations[i] + 1;
      pads_end[i] = std::max(
          pads_end[i], (w.output[i] - 1) * w.strides[i] + extent - spatial[i] - w.pads_begin[i]);
    }
    // Of bytes the library has fast loops for one layout alone.
    const bool last = channels_last_ || dtype_ != DType::kFloat32;
    const Operand x = Plan::input(0, plain_desc(x_dims, dtype_, channels_last_));
    const Operand y = Plan::output(0, plain_desc(y_dims, dtype_, channels_last_));
    const dnnl::pooling_forward::primitive_desc pd(
        cpu_engine(), dnnl::prop_kind::forward_inference, algorithm_,
        plain_desc(x_dims, dtype_, last), plain_desc(y_dims, dtype_, last), w.strides, w.kernel,
        dilations, w.pads_begin, pads_end, base_attributes());
    const Operand result = pd.dst_desc() == y.desc ? y : plan->temporary(pd.dst_desc());
    plan->add(dnnl::pooling_forward(pd), pd.scratchpad_desc(),
              {{DNNL_ARG_SRC, plan->reordered(x, pd.src_desc())}, {DNNL_ARG_DST, result}},
              pd.impl_info_str());
    if (pd.dst_desc() != y.desc) plan->add_reorder(result, y);
    return plan;
  }

 private:
  WindowAttributes window_;
  bool global_;
  bool channels_last_;
  DType dtype_;
  dnnl::algorithm algorithm_ = dnnl::algorithm::pooling_max;
};

Support supports_pool(const NodeView& node) {
  const bool picks_bytes = node.node().op == "MaxPool" && (node.input_dtype(0) == DType::kUInt8 ||
                                                           node.input_dtype(0) == DType::kInt8);
  if (node.input_dtype(0) != DType::kFloat32 && !picks_bytes) {
    return Support::no("oneDNN pools float32 here, not " +
                       std::string(to_string(node.input_dtype(0))));
  }
  if (!node.input_type(0).has_rank() || node.input_type(0).rank() < 3 ||
      node.input_type(0).rank() > 5) {
    return Support::no("oneDNN pools over 1 to 3 dimensions");
  }
  if (node.has_output(1)) return Support::no("oneDNN gives no indices of the maxima");
  const Node& n = node.node();
  if (n.op == "AveragePool" && need_int(n, "ceil_mode") != 0 &&
      need_int(n, "count_include_pad") != 0) {
    return Support::no("oneDNN counts the padding that ceil_mode adds");
  }
  if (is_long_pool(n, node.output_type(0))) {
    return Support::no("oneDNN walks over whole windows, be they padding or not, without a limit");
  }
  for (const std::int64_t d : n.attr_ints("dilations")) {
    if (d != 1 && n.op == "AveragePool") return Support::no("oneDNN averages dense windows only");
  }
  return Support::yes();
}

}  // namespace

void register_pool(KernelRegistry& registry) {
  const auto create = [](const KernelCreateContext& c) -> std::unique_ptr<Kernel> {
    if (c.node().op.ends_with("MaxPool") && c.input_dtype(0) == DType::kFloat32) {
      return create_float_max_pool(c);
    }
    return make_plan_kernel<PoolKernel>(c, c);
  };
  for (const char* op : {"MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"}) {
    registry.add({.op = op, .priority = kPriority, .supports = supports_pool, .create = create});
  }
  for (const char* op : {"MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"}) {
    registry.add({.domain = std::string(kDomain), .op = op, .create = create});
  }
}

}  // namespace xrt::native::dnn
