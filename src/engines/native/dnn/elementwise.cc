// SPDX-License-Identifier: Apache-2.0
// Elementwise ops on float32 tensors, single or in fused chains.
//
// The fused form, op "Elementwise" of domain kDomain, applies its post-ops to input 0.
#include <algorithm>
#include <string_view>

#include "engines/native/dnn/families.h"
#include "engines/native/dnn/plan.h"
#include "engines/native/dnn/post_ops.h"
#include "engines/native/kernels/vector/instruction_sets.h"

namespace xrt::native::dnn {
namespace {

using dnnl::memory;

// Below this many elements a call of the library costs more than the work.
constexpr std::int64_t kLeastElements = 4096;

Dims broadcast(const Dims& a, const Dims& b) {
  const std::size_t rank = std::max(a.size(), b.size());
  const Dims x = padded_dims(a, rank);
  const Dims y = padded_dims(b, rank);
  Dims dims(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    if (x[i] != y[i] && x[i] != 1 && y[i] != 1) {
      throw Error(ErrorCode::kInvalidArgument,
                  to_string(std::span<const std::int64_t>(a)) + " and " +
                      to_string(std::span<const std::int64_t>(b)) + " do not broadcast");
    }
    dims[i] = x[i] == 1 ? y[i] : x[i];
  }
  return dims;
}

// Merges neighbouring dimensions over which every operand is either whole or broadcast, so that
// the library sees few, long dimensions. All of `operands` have the rank of `dims`.
void merge_dims(Dims& dims, std::vector<Dims>& operands) {
  std::size_t i = 0;
  while (i + 1 < dims.size()) {
    const bool merge = std::all_of(operands.begin(), operands.end(), [&](const Dims& o) {
      const bool first = o[i] == dims[i];
      const bool second = o[i + 1] == dims[i + 1];
      return (first && second) || (o[i] == 1 && o[i + 1] == 1);
    });
    if (!merge) {
      ++i;
      continue;
    }
    const auto join = [i](Dims& d) {
      d[i] *= d[i + 1];
      d.erase(d.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    };
    join(dims);
    for (Dims& o : operands) join(o);
  }
}

class ElementwiseKernel final : public PlanKernel {
 public:
  explicit ElementwiseKernel(std::vector<PostOp> post_ops)
      : PlanKernel({.in_place = safe_in_place(post_ops), .uses_arena = true}),
        post_ops_(std::move(post_ops)) {}

 protected:
  std::shared_ptr<const Plan> make_plan(std::span<const Dims> inputs) const override {
    Dims dims = inputs[0];
    for (const PostOp& op : post_ops_) {
      if (op.is_binary()) dims = broadcast(dims, inputs[op.input]);
    }
    auto plan = std::make_shared<Plan>();
    plan->set_output(0, DType::kFloat32, dims);
    if (element_count(dims) == 0) return plan;
    std::vector<Dims> operands;
    for (const Dims& d : inputs) operands.push_back(padded_dims(d, dims.size()));
    merge_dims(dims, operands);
    const Operand y = Plan::output(0, plain_desc(dims, DType::kFloat32));
    const Operand x = Plan::input(0, plain_desc(operands[0], DType::kFloat32));
    // The first op makes y; the others ride along or follow in place.
    const std::span<const PostOp> rest(post_ops_.begin() + 1, post_ops_.end());
    const std::vector<DType> types(operands.size(), DType::kFloat32);
    if (!add_first(*plan, x, y, operands, types, rest)) {
      add_first(*plan, x, y, operands, types, {});
      add_post_op_steps(*plan, rest, operands, types, y, false);
    }
    return plan;
  }

 private:
  // A later operand may be the very memory that the first op overwrites.
  static std::vector<int> safe_in_place(const std::vector<PostOp>& post_ops) {
    for (std::size_t i = 1; i < post_ops.size(); ++i) {
      if (post_ops[i].is_binary()) return {};
    }
    return {0};
  }

  bool add_first(Plan& plan, const Operand& x, const Operand& y, const std::vector<Dims>& operands,
                 std::span<const DType> types, std::span<const PostOp> rest) const {
    const PostOp& op = post_ops_[0];
    const PostOpChain chain = make_chain(rest, operands, types, y.desc.get_dims(), false);
    dnnl::primitive_attr attributes = base_attributes();
    attributes.set_post_ops(chain.post_ops);
    std::vector<Plan::Argument> arguments{{DNNL_ARG_DST, y}};
    arguments.insert(arguments.end(), chain.arguments.begin(), chain.arguments.end());
    if (op.is_binary()) {
      const Operand other = Plan::input(op.input, plain_desc(operands[op.input], DType::kFloat32));
      const dnnl::binary::primitive_desc pd(cpu_engine(), binary_algorithm(op), x.desc, other.desc,
                                            y.desc, attributes, /*allow_empty=*/true);
      if (!pd || (!rest.empty() && is_reference(pd.impl_info_str()))) return false;
      arguments.push_back({DNNL_ARG_SRC_0, x});
      arguments.push_back({DNNL_ARG_SRC_1, other});
      plan.add(dnnl::binary(pd), pd.scratchpad_desc(), std::move(arguments), pd.impl_info_str());
      return true;
    }
    const dnnl::eltwise_forward::primitive_desc pd(cpu_engine(), dnnl::prop_kind::forward_inference,
                                                   eltwise_algorithm(op), x.desc, y.desc, op.alpha,
                                                   op.beta, attributes, /*allow_empty=*/true);
    if (!pd || (!rest.empty() && is_reference(pd.impl_info_str()))) return false;
    arguments.push_back({DNNL_ARG_SRC, x});
    plan.add(dnnl::eltwise_forward(pd), pd.scratchpad_desc(), std::move(arguments),
             pd.impl_info_str());
    return true;
  }

  std::vector<PostOp> post_ops_;
};

Support large_float(const NodeView& node) {
  const auto dims = node.output_type(0).static_dims();
  if (!dims) return Support::no("the shape is not known before the run");
  if (element_count(*dims) < kLeastElements) return Support::no("too small to be worth a call");
  if (dims->size() > 6) return Support::no("oneDNN works on rank 6 at most here");
  if (node.output_dtype(0) != DType::kFloat32) return Support::no("not float32");
  return Support::yes();
}

Support supports_unary(const NodeView& node) {
  std::size_t operand = 0;
  if (const Support size = large_float(node); !size) return size;
  if (!unary_post_op(node.graph(), node.node(), &operand)) {
    return Support::no("its parameters are not known before the run");
  }
  return Support::yes();
}

// Whether the library has better than a reference loop for these shapes, `a` being as large as
// the result.
bool binary_is_fast(const std::string& op, const Dims& a, const Dims& b) {
  Dims y = broadcast(a, b);
  if (element_count(a) != element_count(y)) return false;
  std::vector<Dims> operands{padded_dims(a, y.size()), padded_dims(b, y.size())};
  merge_dims(y, operands);
  return guarded([&] {
    const dnnl::binary::primitive_desc pd(
        cpu_engine(), binary_algorithm({op, 0, 0, 1}), plain_desc(operands[0], DType::kFloat32),
        plain_desc(operands[1], DType::kFloat32), plain_desc(y, DType::kFloat32), base_attributes(),
        /*allow_empty=*/true);
    return static_cast<bool>(pd) && !is_reference(pd.impl_info_str());
  });
}

Support supports_binary(const NodeView& node) {
  if (const Support size = large_float(node); !size) return size;
  const auto a = node.input_type(0).static_dims();
  const auto b = node.input_type(1).static_dims();
  if (!a || !b) return Support::no("a shape is not known before the run");
  if (!binary_is_fast(node.node().op, *a, *b)) {
    return Support::no("oneDNN has no fast loop for these shapes");
  }
  return Support::yes();
}

std::unique_ptr<Kernel> create_unary(const KernelCreateContext& context) {
  std::size_t operand = 0;
  const std::optional<PostOp> op = unary_post_op(context.graph(), context.node(), &operand);
  return make_plan_kernel<ElementwiseKernel>(context, std::vector<PostOp>{*op});
}

std::unique_ptr<Kernel> create_binary(const KernelCreateContext& context) {
  return make_plan_kernel<ElementwiseKernel>(context,
                                             std::vector<PostOp>{{context.node().op, 0, 0, 1}});
}

}  // namespace

void register_elementwise(KernelRegistry& registry) {
  std::vector<const char*> unary{"Relu",      "LeakyRelu", "Elu", "HardSigmoid",
                                 "HardSwish", "Clip",      "Exp"};
  // oneDNN's functions for AVX2 are slower than ours: its tanh looks up its coefficients number by
  // number.
  if (instruction_sets().avx512) unary.insert(unary.end(), {"Sigmoid", "Tanh", "Swish"});
  for (const char* op : unary) {
    registry.add(
        {.op = op, .priority = kPriority, .supports = supports_unary, .create = create_unary});
  }
  for (const char* op : {"Add", "Sub", "Mul", "Div"}) {
    registry.add(
        {.op = op, .priority = kPriority, .supports = supports_binary, .create = create_binary});
  }
  registry.add({.domain = std::string(kDomain),
                .op = "Elementwise",
                .create = [](const KernelCreateContext& c) {
                  return make_plan_kernel<ElementwiseKernel>(c, read_post_ops(c.node()));
                }});
}

}  // namespace xrt::native::dnn
