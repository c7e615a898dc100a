// SPDX-License-Identifier: Apache-2.0
// If: the branch itself where the condition is known, else a conditional of TensorRT's.
#include <memory>

#include "engines/tensorrt/lowering.h"

namespace xrt::tensorrt {

namespace {

void branch(NodeContext& c) {
  const std::shared_ptr<const Graph> yes = c.node.attr_graph("then_branch");
  const std::shared_ptr<const Graph> no = c.node.attr_graph("else_branch");
  c.need(yes != nullptr && no != nullptr, "a branch is missing");
  if (const Tensor* condition = c.constant(0)) {
    c.need(condition->dtype() == DType::kBool && condition->count() == 1, "the condition");
    const std::vector<Bound> results = c.lower_graph(*condition->data<bool>() ? *yes : *no, {});
    for (std::size_t k = 0; k < results.size(); ++k) c.out(k, results[k]);
    return;
  }
  c.need(c.dtype(0) == DType::kBool, "the condition is not bool");
  nvinfer1::IIfConditional* choice =
      c.net.made(c.net.network().addIfConditional(), "a conditional");
  Value condition = c.in(0);
  if (c.rank(0) > 0) condition = c.net.reshape(condition, {});
  c.net.made(choice->setCondition(*condition), "the condition");
  // What comes from outside enters through a layer of its own.
  const auto enter = [&](Value x) {
    return c.net.out(c.net.made(choice->addInput(*x), "an operand of a branch"));
  };
  const auto results = [&](const Graph& graph) {
    std::vector<Value> values;
    for (const Bound& result : c.lower_graph(graph, enter)) {
      // A result must be of a layer inside of the branch.
      const Value x = result.tensor != nullptr ? result.tensor : c.net.constant(*result.constant);
      values.push_back(c.net.out(c.net.made(c.net.network().addIdentity(*x), "an identity")));
    }
    return values;
  };
  const std::vector<Value> then_values = results(*yes);
  const std::vector<Value> else_values = results(*no);
  c.need(then_values.size() == else_values.size(), "the branches differ in their results");
  for (std::size_t k = 0; k < then_values.size(); ++k) {
    c.need(dims_of(then_values[k]) == dims_of(else_values[k]),
           "TensorRT's branches give results of one shape");
    c.out(k, c.net.out(c.net.made(choice->addOutput(*then_values[k], *else_values[k]),
                                  "the result of a conditional")));
  }
}

}  // namespace

void register_control(LoweringTable& t) { t.add("If", branch); }

}  // namespace xrt::tensorrt
