// SPDX-License-Identifier: Apache-2.0
// Op "Int8MatMul" of domain kDomain, see dnn/int8/int8.h: A of shape [..., K], constant W of [K,
// N], or of [N, K] where the attribute trans_b is 1; operands of post-ops have Y's shape. Op
// "Int8Sums" is MatMulInteger of A and W [K, N] without zero points: the library would bring them
// in with float32, which does not hold large sums.
#include <algorithm>

#include "engines/native/dnn/families.h"
#include "engines/native/dnn/int8/int8.h"
#include "engines/native/dnn/plan.h"
#include "engines/native/dnn/post_ops.h"

namespace xrt::native::dnn {
namespace {

// The first input's shape times a matrix of k × n. Throws kInvalidArgument where its rows differ.
Dims product_dims(std::span<const Dims> inputs, std::int64_t k, std::int64_t n) {
  Dims y = inputs[0];
  if (y.empty() || y.back() != k) {
    throw Error(ErrorCode::kInvalidArgument,
                "the shapes " + to_string(std::span<const std::int64_t>(inputs[0])) + " and " +
                    to_string(std::span<const std::int64_t>(inputs[1])) + " cannot be multiplied");
  }
  y.back() = n;
  return y;
}

using dnnl::memory;

class Int8MatMulKernel final : public PlanKernel {
 public:
  explicit Int8MatMulKernel(const KernelCreateContext& context)
      : PlanKernel({.in_place = summed_inputs(read_post_ops(context.node())), .uses_arena = true}),
        terms_(*Int8Terms::of(context.node())),
        post_ops_(read_post_ops(context.node())),
        trans_b_(context.node().attr_int("trans_b", 0) != 0),
        dtype_(context.input_dtype(0)),
        weights_(*context.constant_input(1)),
        bias_(*context.constant_input(2)) {}

 protected:
  std::shared_ptr<const Plan> make_plan(std::span<const Dims> inputs) const override {
    const std::int64_t k = inputs[1][trans_b_ ? 1 : 0];
    const std::int64_t n = inputs[1][trans_b_ ? 0 : 1];
    const Dims y = product_dims(inputs, k, n);
    auto plan = std::make_shared<Plan>();
    plan->set_output(0, terms_.to, y);
    if (element_count(y) == 0) return plan;
    for (const PostOp& op : post_ops_) {
      if (op.op == "Sum") plan->start_from(0, static_cast<std::size_t>(op.input));
    }
    const std::int64_t m = element_count(y) / n;
    const memory::desc x = plain_desc({m, k}, dtype_);
    const memory::desc result = plain_desc({m, n}, terms_.to);
    std::vector<Dims> operands(inputs.begin(), inputs.end());
    for (const PostOp& op : post_ops_) {
      if (op.is_binary()) operands[static_cast<std::size_t>(op.input)] = {m, n};  // Y's shape
    }
    const std::vector<DType> types(operands.size(), terms_.to);
    const PostOpChain chain = make_chain(post_ops_, operands, types, {m, n}, false);
    dnnl::primitive_attr attributes = base_attributes();
    attributes.set_post_ops(chain.post_ops);
    terms_.declare(attributes, 2);
    const dnnl::matmul::primitive_desc pd(
        cpu_engine(), x, memory::desc({k, n}, memory::data_type::s8, memory::format_tag::any),
        plain_desc({1, n}, DType::kFloat32), result, attributes);
    const memory::desc given({k, n}, memory::data_type::s8,
                             trans_b_ ? memory::dims{1, k} : memory::dims{n, 1});
    const Operand w = plan->constant(packed(1, weights_, given, pd.weights_desc()));
    const Operand b = plan->constant(packed(2, bias_, pd.bias_desc(), pd.bias_desc()));
    std::vector<Plan::Argument> arguments = terms_.arguments(
        *plan, dtype_,
        [&](const Tensor& values, std::size_t slot) { return packed_vector(*plan, slot, values); },
        3);
    for (Plan::Argument& argument :
         std::vector<Plan::Argument>{{DNNL_ARG_SRC, Plan::input(0, x)},
                                     {DNNL_ARG_WEIGHTS, w},
                                     {DNNL_ARG_BIAS, b},
                                     {DNNL_ARG_DST, Plan::output(0, result)}}) {
      arguments.push_back(std::move(argument));
    }
    arguments.insert(arguments.end(), chain.arguments.begin(), chain.arguments.end());
    plan->add(dnnl::matmul(pd), pd.scratchpad_desc(), std::move(arguments),
              int8_name(pd.impl_info_str()));
    return plan;
  }

  void drop_sources() override { weights_ = bias_ = Tensor(); }

 private:
  Int8Terms terms_;
  std::vector<PostOp> post_ops_;
  bool trans_b_;
  DType dtype_;
  Tensor weights_;
  Tensor bias_;
};

class SumsKernel final : public PlanKernel {
 public:
  explicit SumsKernel(const KernelCreateContext& context)
      : PlanKernel({.uses_arena = true}),
        a_(context.input_dtype(0)),
        weights_(*context.constant_input(1)) {}

 protected:
  std::shared_ptr<const Plan> make_plan(std::span<const Dims> inputs) const override {
    const std::int64_t k = inputs[1][0];
    const std::int64_t n = inputs[1][1];
    const Dims y = product_dims(inputs, k, n);
    auto plan = std::make_shared<Plan>();
    plan->set_output(0, DType::kInt32, y);
    if (element_count(y) == 0) return plan;
    const std::int64_t m = element_count(y) / n;
    const memory::desc x = plain_desc({m, k}, a_);
    const memory::desc result = plain_desc({m, n}, DType::kInt32);
    const dnnl::matmul::primitive_desc pd(
        cpu_engine(), x, memory::desc({k, n}, memory::data_type::s8, memory::format_tag::any),
        result, base_attributes());
    std::vector<Plan::Argument> arguments{
        {DNNL_ARG_SRC, Plan::input(0, x)},
        {DNNL_ARG_WEIGHTS,
         plan->constant(packed(1, weights_, plain_desc({k, n}, DType::kInt8), pd.weights_desc()))},
        {DNNL_ARG_DST, Plan::output(0, result)}};
    plan->add(dnnl::matmul(pd), pd.scratchpad_desc(), std::move(arguments),
              int8_name(pd.impl_info_str()));
    return plan;
  }

  void drop_sources() override { weights_ = Tensor(); }

 private:
  DType a_;
  Tensor weights_;
};

}  // namespace

void register_int8_matmul(KernelRegistry& registry) {
  registry.add(
      {.domain = std::string(kDomain),
       .op = "Int8Sums",
       .create = [](const KernelCreateContext& c) { return make_plan_kernel<SumsKernel>(c, c); }});
  registry.add({.domain = std::string(kDomain),
                .op = "Int8MatMul",
                .create = [](const KernelCreateContext& c) {
                  return make_plan_kernel<Int8MatMulKernel>(c, c);
                }});
}

}  // namespace xrt::native::dnn
