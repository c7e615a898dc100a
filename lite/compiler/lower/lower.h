// SPDX-License-Identifier: Apache-2.0
// One handler per ONNX op, by what it becomes.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "lir/lir.h"
#include "ops/quantized.h"
#include "ops/sizes/resize_places.h"

namespace xrt::lite {

class Lowering {
 public:
  explicit Lowering(const Graph& graph) : graph_(graph) {}
  LGraph run();

 private:
  using Handler = void (Lowering::*)(const Node&);
  static const std::map<std::string, Handler, std::less<>>& handlers();

  // Values.
  int value(ValueId id);
  int input(const Node& node, std::size_t i) { return value(node.input(i)); }
  int output(const Node& node, std::size_t i = 0);
  const Dims& dims(int v) const { return out_.values[static_cast<std::size_t>(v)].dims; }
  DType dtype(int v) const { return out_.values[static_cast<std::size_t>(v)].dtype; }
  const Tensor* constant(const Node& node, std::size_t i) const;
  std::vector<std::int64_t> int_constant(const Node& node, std::size_t i) const;
  // A constant, or what a DequantizeLinear makes of one. `what` it is, for the refusal of others.
  Tensor numbers(const Node& node, std::size_t i, const char* what) const;
  bool has_input(const Node& node, std::size_t i) const { return node.input(i).valid(); }
  // Whether an input is known to have no element, as an absent one's place is filled at times.
  bool is_empty(const Node& node, std::size_t i) const;
  // Throws kUnsupported where an op would have to read or write a tensor without elements.
  void refuse_empties() const;
  void add(const Node& node, LKind kind, int y);
  [[noreturn]] void refuse(const Node& node, const std::string& why) const;

  // Handlers (lower_*.cc).
  void conv(const Node& node);
  void conv_transpose(const Node& node);
  void gemm(const Node& node);
  void matmul(const Node& node);
  void pool(const Node& node);
  void global_pool(const Node& node);
  void pointwise(const Node& node);
  void batch_norm(const Node& node);
  void quantize(const Node& node);
  void dequantize(const Node& node);
  int quantization_parameter(const Node& node, const Tensor& t, std::size_t rank);
  void reshape(const Node& node);
  void transpose(const Node& node);
  void slice(const Node& node);
  void concat(const Node& node);
  void split(const Node& node);
  void pad(const Node& node);
  void expand(const Node& node);
  void reduce(const Node& node);
  void reduce_elements(const Node& node, xrt_reduce_kind kind);
  void softmax(const Node& node);
  void layer_norm(const Node& node);
  void local_response(const Node& node);
  void gather(const Node& node);
  void resize(const Node& node);
  ResizedAxis resized_axis(const Node& node, std::size_t axis, const Dims& from,
                           const Dims& to) const;
  void arg(const Node& node);
  void lstm(const Node& node);

  // Integer kernels (lower_quantized.cc).
  struct QuantizedSum {
    NodeId node;
    std::vector<NodeId> absorbed;
    QuantisedSum sum;
    std::optional<Grid> residual;
    Grid to;
    Epilogue epilogue;  // in steps of `to`
  };
  std::optional<QuantizedSum> match_quantized(NodeId id) const;
  int factor(const Node& node);
  void find_quantized();
  void quantized_sum(const Node& node, const QuantizedSum& match);
  Window window(const Node& node, const Dims& x, const std::vector<std::int64_t>& kernel);
  LConv conv_shape(const Node& node, const Dims& x, const Dims& w);

  const Graph& graph_;
  LGraph out_;
  std::map<ValueId, int> values_;
  std::map<ValueId, QuantizedSum> sums_;  // by what the QuantizeLinear makes that they end in
  std::set<NodeId> absorbed_;             // nodes that an integer kernel has taken in
};

}  // namespace xrt::lite
