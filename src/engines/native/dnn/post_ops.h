// SPDX-License-Identifier: Apache-2.0
// What a fused node does to its result before it is stored.
//
// A fused node (domain kDomain) carries its post-ops as four parallel attributes:
//   post_ops (strings)   name of a standard op: "Relu", "Clip", "Add", …, or "Linear" (a·x + b)
//   post_alpha, post_beta (floats)   its parameters
//   post_input (ints)    for "Add", "Sub", "Mul", "Div": which input of the node is the second
//                        operand; for "Sum" (y + alpha·input, bytes of the result's shape, beta
//                        is their DType) which input; -1 otherwise
// They apply in order to y, the result of the node so far.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engines/native/dnn/plan.h"
#include "xrt/graph.h"

namespace xrt::native::dnn {

// Ops made by fusion, never seen outside this engine.
inline constexpr std::string_view kDomain = "xrt.native";
// Attribute of Conv, MatMul and Gemm in float32, a DType: factors are rounded to it (fuse/half.cc).
inline constexpr std::string_view kFactorType = "factor_type";
// Attribute of ReluGradient: whether the gradient passes where the result is NaN.
inline constexpr const char* kKeepsNaN = "keeps_nan";

struct PostOp {
  std::string op;
  float alpha = 0;
  float beta = 0;
  std::int64_t input = -1;

  bool is_binary() const { return input >= 0; }
};

std::vector<PostOp> read_post_ops(const Node& node);
void write_post_ops(Attributes& attributes, const std::vector<PostOp>& post_ops);

// The unary post-op that a standard node is, if it is one: an activation, or arithmetic with a
// scalar constant. Its operand is input `*operand`.
std::optional<PostOp> unary_post_op(const Graph& graph, const Node& node, std::size_t* operand);

// oneDNN's algorithm for a unary post-op.
dnnl::algorithm eltwise_algorithm(const PostOp& op);
dnnl::algorithm binary_algorithm(const PostOp& op);

// The operands of sums: they lie where the result is written, if nobody reads them later.
std::vector<int> summed_inputs(const std::vector<PostOp>& post_ops);

// The element types of a node's inputs, by input; what is left out has any.
std::vector<DType> input_types(const NodeView& node);

// Builds oneDNN's post-ops. `inputs` and `types` are those of the kernel's inputs. `destination` is
// (batch, channels, spatial …) or any row-major shape; a binary operand has its rank and broadcasts
// to it.
struct PostOpChain {
  dnnl::post_ops post_ops;
  std::vector<Plan::Argument> arguments;  // the binary operands
};
PostOpChain make_chain(std::span<const PostOp> post_ops, std::span<const Dims> inputs,
                       std::span<const DType> types, const Dims& destination, bool channels_last);

// The same, as primitives of their own that work in place on `y`.
void add_post_op_steps(Plan& plan, std::span<const PostOp> post_ops, std::span<const Dims> inputs,
                       std::span<const DType> types, const Operand& y, bool channels_last);

// `dims` with ones in front up to `rank`.
Dims padded_dims(const Dims& dims, std::size_t rank);

}  // namespace xrt::native::dnn
