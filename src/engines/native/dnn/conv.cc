// SPDX-License-Identifier: Apache-2.0
// Conv and ConvTranspose, with or without fused post-ops.
//
// The fused form, op "Conv" of domain kDomain, has the inputs X, W, B (may be left out) and the
// operands of its post-ops, the attributes of the standard op, the post-op attributes, and
// `channels_last`: X, Y and the operands are stored as (batch, spatial …, channels).
// With the attributes of dnn/int8/int8.h it computes on bytes. With kFactorType X and W are rounded
// to that type, where the library has a fast convolution of it (dnn/fuse/half.cc).

#include <algorithm>
#include <numeric>

#include "engines/native/dnn/families.h"
#include "engines/native/dnn/int8/int8.h"
#include "engines/native/dnn/plan.h"
#include "engines/native/dnn/post_ops.h"
#include "engines/native/kernels/common/window.h"
#include "ir/attributes.h"
#include "ops/sizes/wide_window.h"

namespace xrt::native::dnn {
namespace {

using dnnl::memory;

// Of float32, an eighth of what a core's second cache holds (512 KiB).
constexpr std::int64_t kFarElements = 16384;

struct ConvAttributes {
  WindowAttributes window;
  std::int64_t group = 1;
  bool channels_last = false;
  DType factor_type = DType::kUndefined;
  std::vector<PostOp> post_ops;
  std::optional<Int8Terms> int8;

  static ConvAttributes of(const Node& node) {
    ConvAttributes a;
    a.window = WindowAttributes::of(node);
    a.group = need_int(node, "group");
    a.channels_last = node.attr_int("channels_last", 0) != 0;
    a.factor_type = static_cast<DType>(node.attr_int(kFactorType, 0));
    a.post_ops = read_post_ops(node);
    a.int8 = Int8Terms::of(node);
    return a;
  }
};

// The element types that a convolution computes with.
struct ConvTypes {
  DType x = DType::kFloat32;
  DType w = DType::kFloat32;
  DType b = DType::kFloat32;
  DType y = DType::kFloat32;
};

// The logical order (batch, channels, spatial …) of a stored shape.
Dims logical_dims(const Dims& stored, bool channels_last) {
  if (!channels_last) return stored;
  Dims dims = stored;
  std::rotate(dims.begin() + 1, dims.end() - 1, dims.end());
  return dims;
}

Dims stored_dims(const Dims& logical, bool channels_last) {
  if (!channels_last) return logical;
  Dims dims = logical;
  std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
  return dims;
}

memory::desc any_layout(const memory::desc& desc) {
  return memory::desc(desc.get_dims(), desc.get_data_type(), memory::format_tag::any);
}

Dims minus_one(Dims dilations) {
  for (std::int64_t& d : dilations) --d;
  return dilations;
}

class ConvKernel final : public PlanKernel {
 public:
  // On bytes.
  ConvKernel(ConvAttributes attributes, DType x, dnnl::fpmath_mode mode)
      : PlanKernel({.in_place = summed_inputs(attributes.post_ops), .uses_arena = true}),
        attributes_(std::move(attributes)),
        x_(x),
        y_(attributes_.int8->to),
        choices_{{x, DType::kInt8, DType::kFloat32, y_}},
        mode_(mode) {}

  explicit ConvKernel(const KernelCreateContext& context)
      : PlanKernel({.in_place = summed_inputs(read_post_ops(context.node())), .uses_arena = true}),
        attributes_(ConvAttributes::of(context.node())),
        x_(context.input_dtype(0)),
        y_(context.output_dtype(0)),
        inputs_(input_types(context)),
        mode_(fpmath_mode(context.options())) {
    const DType bias = context.has_input(2) ? context.input_dtype(2) : DType::kFloat32;
    if (attributes_.int8) {
      choices_ = {{x_, DType::kInt8, DType::kFloat32, y_}};
    } else if (attributes_.factor_type == DType::kUndefined) {
      choices_ = {{x_, x_, x_, y_}};
    } else {
      choices_ = {{attributes_.factor_type, attributes_.factor_type, bias, y_},
                  {DType::kFloat32, DType::kFloat32, bias, DType::kFloat32}};
    }
    if (const Tensor* w = context.constant_input(1)) weights_ = *w;
    if (const Tensor* b = context.constant_input(2)) bias_ = *b;
  }

  // Whether better than a reference loop computes inputs of these shapes, with the channels last.
  bool is_fast(const Dims& x_dims, const Dims& w_dims) const {
    check(x_dims, w_dims);
    Window window = resolve(attributes_.window, Dims(x_dims.begin() + 2, x_dims.end()),
                            Dims(w_dims.begin() + 2, w_dims.end()));
    Dims x = x_dims, w = w_dims, y{x_dims[0], w_dims[0]};
    y.insert(y.end(), window.output.begin(), window.output.end());
    if (element_count(y) == 0) return false;
    std::vector<Dims> operands(4, stored_dims(y, attributes_.channels_last));
    drop_unit_dims(x, w, y, window, operands);
    const std::vector<DType> types(operands.size(), y_);
    const PostOpChain chain = make_chain(attributes_.post_ops, operands, types, y, true);
    const Description pd = description_of(choices_[0], x, w, y, window, true, &chain);
    return pd && !is_reference(pd.impl_info_str());
  }

 protected:
  std::shared_ptr<const Plan> make_plan(std::span<const Dims> inputs) const override {
    const bool last = attributes_.channels_last;
    Dims x_dims = logical_dims(inputs[0], last);
    Dims w_dims = inputs[1];
    check(x_dims, w_dims);
    const Dims spatial(x_dims.begin() + 2, x_dims.end());
    Window window = resolve(attributes_.window, spatial, Dims(w_dims.begin() + 2, w_dims.end()));
    Dims y_dims{x_dims[0], w_dims[0]};
    y_dims.insert(y_dims.end(), window.output.begin(), window.output.end());

    auto plan = std::make_shared<Plan>();
    plan->set_output(0, y_, stored_dims(y_dims, last));
    if (element_count(y_dims) == 0) return plan;
    for (const PostOp& op : attributes_.post_ops) {
      if (op.op == "Sum") plan->start_from(0, static_cast<std::size_t>(op.input));
    }

    std::vector<Dims> operands(inputs.begin(), inputs.end());
    drop_unit_dims(x_dims, w_dims, y_dims, window, operands);
    const bool has_bias = inputs.size() > 2 && !inputs[2].empty();
    if (has_bias && element_count(inputs[2]) != y_dims[1]) {
      throw Error(ErrorCode::kInvalidArgument,
                  "there are " + std::to_string(y_dims[1]) + " channels, and the bias is " +
                      to_string(std::span<const std::int64_t>(inputs[2])));
    }
    const PostOpChain chain = make_chain(attributes_.post_ops, operands, inputs_, y_dims, last);
    Description pd;
    bool fused = false;
    for (const ConvTypes& types : choices_) {
      pd = description_of(types, x_dims, w_dims, y_dims, window, has_bias, &chain);
      fused = pd && (attributes_.int8 || !is_reference(pd.impl_info_str()));
      if (fused) break;
    }
    if (!fused) {
      pd = description_of(choices_.back(), x_dims, w_dims, y_dims, window, has_bias, nullptr);
    }
    if (!pd) {
      throw Error(ErrorCode::kEngine, "oneDNN has no convolution for these shapes");
    }
    build(*plan, pd, operands, x_dims, w_dims, y_dims, has_bias, fused ? &chain : nullptr);
    return plan;
  }

  void drop_sources() override { weights_ = bias_ = Tensor(); }

 private:
  using Description = dnnl::convolution_forward::primitive_desc;

  void check(const Dims& x, const Dims& w) const {
    if (x.size() < 3 || x.size() != w.size()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "X has rank " + std::to_string(x.size()) + " and W " + std::to_string(w.size()));
    }
    const std::int64_t g = attributes_.group;
    if (g < 1 || x[1] % g != 0 || x[1] / g != w[1] || w[0] % g != 0) {
      throw Error(ErrorCode::kInvalidArgument, "X has " + std::to_string(x[1]) +
                                                   " channels, W is " +
                                                   to_string(std::span<const std::int64_t>(w)) +
                                                   " and group is " + std::to_string(g));
    }
  }

  // A dimension of one element under a window of one is no dimension. Without it the library sees
  // long rows where the shape has a column.
  void drop_unit_dims(Dims& x, Dims& w, Dims& y, Window& window,
                      std::vector<Dims>& operands) const {
    const auto erase = [](Dims& d, std::size_t i) {
      d.erase(d.begin() + static_cast<std::ptrdiff_t>(i));
    };
    for (std::size_t i = x.size(); i-- > 2 && x.size() > 3;) {
      if (x[i] != 1 || w[i] != 1 || y[i] != 1 || window.pads_begin[i - 2] != 0) continue;
      for (const PostOp& op : attributes_.post_ops) {
        if (!op.is_binary()) continue;
        Dims& d = operands[op.input];
        d = padded_dims(d, x.size());
        erase(d, attributes_.channels_last ? i - 1 : i);
      }
      for (Dims* d : {&x, &w, &y}) erase(*d, i);
      for (Dims* d : {&window.strides, &window.dilations, &window.pads_begin, &window.pads_end}) {
        erase(*d, i - 2);
      }
    }
  }

  memory::desc plain_weights(const Dims& w, DType dtype) const {
    if (attributes_.group == 1) return plain_desc(w, dtype);
    Dims grouped{attributes_.group, w[0] / attributes_.group};
    grouped.insert(grouped.end(), w.begin() + 1, w.end());
    return plain_desc(grouped, dtype);
  }

  // Whether the rows that one window reads lie so far apart that those between them drop out of the
  // cache before they are read again.
  static bool reaches_far(const Dims& x, const Dims& w, const Window& window) {
    std::int64_t elements = x[1];
    for (std::size_t d = window.dilations.size(); d-- > 0;) {
      if (window.dilations[d] > 1 &&
          (w[d + 2] - 1) * window.dilations[d] * elements > kFarElements) {
        return true;
      }
      elements *= x[d + 2];
    }
    return false;
  }

  // Batches of small products take up to twice as long there as one loop, on AVX2.
  static void prefer_direct(Description& pd) {
    if (std::string_view(pd.impl_info_str()) != "brgconv:avx2") return;
    Description next = pd;
    while (next.next_impl()) {
      const std::string_view name = next.impl_info_str();
      if (is_reference(next.impl_info_str())) return;
      if (name == "jit:avx2") {
        pd = next;
        return;
      }
    }
  }

  // Empty where oneDNN has no implementation.
  Description description_of(const ConvTypes& types, const Dims& x, const Dims& w, const Dims& y,
                             const Window& window, bool has_bias, const PostOpChain* chain) const {
    dnnl::primitive_attr attributes = base_attributes(mode_);
    if (chain != nullptr) attributes.set_post_ops(chain->post_ops);
    if (attributes_.int8) {
      attributes_.int8->declare(attributes, attributes_.group == 1 ? 1 : 3);
    }
    const bool last = attributes_.channels_last;
    // Rows of channels are what the fast implementations want on both sides; elsewhere they
    // choose, and a reorder brings what they chose.
    const memory::desc xd = plain_desc(x, types.x, last);
    const memory::desc yd = plain_desc(y, types.y, last);
    const memory::desc wd = any_layout(plain_weights(w, types.w));
    const memory::desc bd =
        has_bias ? memory::desc({w[0]}, data_type(types.b), memory::format_tag::x) : memory::desc();
    const auto make = [&](const memory::desc& from, const memory::desc& to) {
      Description pd(cpu_engine(), dnnl::prop_kind::forward_inference,
                     dnnl::algorithm::convolution_direct, from, wd, bd, to, window.strides,
                     minus_one(window.dilations), window.pads_begin, window.pads_end, attributes,
                     /*allow_empty=*/true);
      if (pd && reaches_far(x, w, window)) prefer_direct(pd);
      return pd;
    };
    if (last || attributes_.int8) {
      Description pd = make(xd, yd);
      if (pd && (attributes_.int8 || !is_reference(pd.impl_info_str()))) return pd;
    }
    return make(any_layout(xd), any_layout(yd));
  }

  void build(Plan& plan, const Description& pd, std::span<const Dims> inputs, const Dims& x_dims,
             const Dims& w_dims, const Dims& y_dims, bool has_bias,
             const PostOpChain* chain) const {
    const bool last = attributes_.channels_last;
    const Operand x = Plan::input(0, plain_desc(x_dims, x_, last));
    const Operand y = Plan::output(0, plain_desc(y_dims, y_, last));
    const memory::desc plain = plain_weights(w_dims, attributes_.int8 ? DType::kInt8 : inputs_[1]);
    const Operand w = weights_.defined()
                          ? plan.constant(packed(1, weights_, plain, pd.weights_desc()))
                          : plan.reordered(Plan::input(1, plain), pd.weights_desc());
    std::vector<Plan::Argument> arguments{{DNNL_ARG_SRC, plan.reordered(x, pd.src_desc())},
                                          {DNNL_ARG_WEIGHTS, w}};
    if (has_bias) {
      arguments.push_back(
          {DNNL_ARG_BIAS, bias_.defined()
                              ? plan.constant(packed(2, bias_, pd.bias_desc(), pd.bias_desc()))
                              : Plan::input(2, pd.bias_desc())});
    }
    if (attributes_.int8) {
      const auto pack = [&](const Tensor& values, std::size_t slot) {
        return packed_vector(plan, slot, values);
      };
      for (Plan::Argument& argument : attributes_.int8->arguments(plan, x_, pack, 3)) {
        arguments.push_back(std::move(argument));
      }
    }
    const bool direct = pd.dst_desc() == y.desc;
    const Operand result = direct ? y : plan.temporary(pd.dst_desc());
    arguments.push_back({DNNL_ARG_DST, result});
    if (chain != nullptr) {
      arguments.insert(arguments.end(), chain->arguments.begin(), chain->arguments.end());
    }
    plan.add(dnnl::convolution_forward(pd), pd.scratchpad_desc(), std::move(arguments),
             attributes_.int8 ? int8_name(pd.impl_info_str()) : pd.impl_info_str());
    if (!direct) plan.add_reorder(result, y);
    if (chain == nullptr) add_post_op_steps(plan, attributes_.post_ops, inputs, inputs_, y, last);
  }

  ConvAttributes attributes_;
  DType x_, y_;
  std::vector<DType> inputs_;
  std::vector<ConvTypes> choices_;  // the first that the library has a fast convolution of
  dnnl::fpmath_mode mode_;
  Tensor weights_;
  Tensor bias_;
};

Support supports_conv(const NodeView& node) {
  if (const Support dtype = computes(node.input_dtype(0)); !dtype) return dtype;
  if (!node.input_type(0).has_rank()) return Support::no("the rank of X is unknown");
  const std::size_t rank = node.input_type(0).rank();
  if (rank < 3 || rank > 5) {
    return Support::no("oneDNN convolves over 1 to 3 dimensions, not " +
                       std::to_string(static_cast<std::int64_t>(rank) - 2));
  }
  const std::optional<Dims> w = node.input_type(1).static_dims();
  // By wide windows the library takes a hundred times as long as the general kernel.
  if (!w) return Support::no("the sizes of the weights are open");
  if (has_slow_window(node.node(), *w)) {
    return Support::no("oneDNN has no fast convolution by windows that are so wide or far apart");
  }
  return Support::yes();
}

}  // namespace

bool int8_convolution_is_fast(const Node& fused, DType x_type, const Dims* x, const Tensor& w,
                              Instead instead) {
  if (has_far_window(fused)) return false;
  if (byte_products() == ByteProducts::kTiles)
    return tile_convolution_is_fast(fused, x, w, instead);
  if (x == nullptr) return true;
  ConvAttributes attributes = ConvAttributes::of(fused);
  attributes.channels_last = true;
  return guarded([&] {
    return ConvKernel(std::move(attributes), x_type, dnnl::fpmath_mode::strict)
        .is_fast(*x, w.dims());
  });
}

void register_conv(KernelRegistry& registry) {
  const auto create = [](const KernelCreateContext& c) {
    return make_plan_kernel<ConvKernel>(c, c);
  };
  registry.add({.op = "Conv", .priority = kPriority, .supports = supports_conv, .create = create});
  registry.add({.domain = std::string(kDomain), .op = "Conv", .create = create});
}

}  // namespace xrt::native::dnn
