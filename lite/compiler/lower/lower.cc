// SPDX-License-Identifier: Apache-2.0
#include "lower/lower.h"

#include <fmt/format.h>

#include <algorithm>

#include "xrt/error.h"

namespace xrt::lite {

const std::map<std::string, Lowering::Handler, std::less<>>& Lowering::handlers() {
  static const std::map<std::string, Handler, std::less<>> table = {
      {"Conv", &Lowering::conv},
      {"ConvTranspose", &Lowering::conv_transpose},
      {"Gemm", &Lowering::gemm},
      {"MatMul", &Lowering::matmul},
      {"MaxPool", &Lowering::pool},
      {"AveragePool", &Lowering::pool},
      {"GlobalAveragePool", &Lowering::global_pool},
      {"GlobalMaxPool", &Lowering::global_pool},
      {"BatchNormalization", &Lowering::batch_norm},
      {"QuantizeLinear", &Lowering::quantize},
      {"DequantizeLinear", &Lowering::dequantize},
      {"Reshape", &Lowering::reshape},
      {"Flatten", &Lowering::reshape},
      {"Squeeze", &Lowering::reshape},
      {"Unsqueeze", &Lowering::reshape},
      {"Identity", &Lowering::reshape},
      {"Dropout", &Lowering::reshape},
      {"Transpose", &Lowering::transpose},
      {"Slice", &Lowering::slice},
      {"Concat", &Lowering::concat},
      {"Split", &Lowering::split},
      {"Pad", &Lowering::pad},
      {"Expand", &Lowering::expand},
      {"ReduceSum", &Lowering::reduce},
      {"ReduceMean", &Lowering::reduce},
      {"ReduceMax", &Lowering::reduce},
      {"ReduceMin", &Lowering::reduce},
      {"ReduceProd", &Lowering::reduce},
      {"ReduceL1", &Lowering::reduce},
      {"ReduceL2", &Lowering::reduce},
      {"ReduceSumSquare", &Lowering::reduce},
      {"Softmax", &Lowering::softmax},
      {"LogSoftmax", &Lowering::softmax},
      {"LayerNormalization", &Lowering::layer_norm},
      {"LRN", &Lowering::local_response},
      {"Gather", &Lowering::gather},
      {"Resize", &Lowering::resize},
      {"ArgMax", &Lowering::arg},
      {"ArgMin", &Lowering::arg},
      {"LSTM", &Lowering::lstm},
  };
  return table;
}

void Lowering::refuse(const Node& node, const std::string& why) const {
  throw Error(ErrorCode::kUnsupported,
              fmt::format("node '{}' ({}): {}", node.name, node.qualified_op(), why));
}

int Lowering::value(ValueId id) {
  const auto found = values_.find(id);
  if (found != values_.end()) return found->second;
  const Value& v = graph_.value(id);
  const std::optional<Dims> shape = v.type.static_dims();
  if (!v.type.is_tensor() || !shape) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("value '{}' has type {}: lite needs static shapes (--dim SYMBOL=SIZE "
                            "sets those of the inputs)",
                            v.name, to_string(v.type)));
  }
  const int index = out_.add_value(v.name, v.type.dtype, *shape);
  if (const Tensor* tensor = graph_.constant(id)) out_.values.back().constant = *tensor;
  values_[id] = index;
  return index;
}

int Lowering::output(const Node& node, std::size_t i) {
  if (!node.output(i).valid()) refuse(node, "an output that is needed is absent");
  for (std::size_t k = 0; k < node.outputs.size(); ++k) {
    const ValueId other = node.output(k);
    if (k != i && other.valid() && node.op != "Split" && node.op != "LSTM" &&
        (!graph_.uses(other).empty() || graph_.is_output(other))) {
      refuse(node, fmt::format("its output {} is used; lite computes the first only", k));
    }
  }
  return value(node.output(i));
}

const Tensor* Lowering::constant(const Node& node, std::size_t i) const {
  const ValueId id = node.input(i);
  return id.valid() ? graph_.constant(id) : nullptr;
}

std::vector<std::int64_t> Lowering::int_constant(const Node& node, std::size_t i) const {
  const Tensor* tensor = constant(node, i);
  if (tensor == nullptr) refuse(node, fmt::format("input {} must be a constant", i));
  return tensor->to_int64();
}

Tensor Lowering::numbers(const Node& node, std::size_t i, const char* what) const {
  Tensor found = constant_numbers(graph_, node.input(i));
  if (!found.defined()) refuse(node, fmt::format("its {} is no constant", what));
  return found;
}

bool Lowering::is_empty(const Node& node, std::size_t i) const {
  const std::optional<Dims> shape = graph_.value(node.input(i)).type.static_dims();
  return shape && element_count(*shape) == 0;
}

void Lowering::refuse_empties() const {
  const auto empty = [&](int v) { return element_count(dims(v)) == 0; };
  for (const LOp& op : out_.ops) {
    // Copies leave pieces without elements out.
    const auto* copy = std::get_if<LCopy>(&op.kind);
    const bool output =
        std::find(out_.outputs.begin(), out_.outputs.end(), op.y) != out_.outputs.end();
    if (copy != nullptr && !(empty(op.y) && (copy->fill || output))) continue;
    std::vector<int> all = reads(op);
    all.push_back(op.y);
    const auto found = std::find_if(all.begin(), all.end(), empty);
    if (found == all.end()) continue;
    const LValue& v = out_.values[static_cast<std::size_t>(*found)];
    throw Error(ErrorCode::kUnsupported,
                fmt::format("node '{}': '{}' is {}{}: lite has no tensors without elements",
                            op.name, v.name, to_string(v.dtype), to_string(v.dims)));
  }
  for (std::size_t i = 0; i < out_.outputs.size(); ++i) {
    if (!empty(out_.outputs[i])) continue;
    throw Error(ErrorCode::kUnsupported,
                fmt::format("output '{}' is {}{}: lite has no tensors without elements",
                            out_.output_names[i], to_string(dtype(out_.outputs[i])),
                            to_string(dims(out_.outputs[i]))));
  }
}

void Lowering::add(const Node& node, LKind kind, int y) {
  out_.ops.push_back({node.name, std::move(kind), y, false});
}

LGraph Lowering::run() {
  out_.name = graph_.name();
  for (const ValueId id : graph_.inputs()) {
    const int v = value(id);
    out_.values[static_cast<std::size_t>(v)].input = static_cast<int>(out_.inputs.size());
    out_.inputs.push_back(v);
  }
  find_quantized();
  for (const NodeId id : graph_.topological_order()) {
    if (absorbed_.contains(id)) continue;
    const Node& node = graph_.node(id);
    if (!node.domain.empty()) refuse(node, "lite has ops of the ONNX standard only");
    const auto found = handlers().find(node.op);
    if (found != handlers().end()) {
      (this->*found->second)(node);
    } else {
      pointwise(node);
    }
  }
  for (const ValueId id : graph_.outputs()) {
    out_.outputs.push_back(value(id));
    out_.output_names.push_back(graph_.value(id).name);
  }
  refuse_empties();
  return std::move(out_);
}

LGraph lower(const Graph& graph) { return Lowering(graph).run(); }

}  // namespace xrt::lite
