// SPDX-License-Identifier: Apache-2.0
#include "passes/narrow_floats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/half.h"
#include "ops/canonical.h"
#include "ops/op_facts.h"
#include "xrt/error.h"

namespace xrt {
namespace {

bool is_float32(const Type& type) { return type.is_tensor() && type.dtype == DType::kFloat32; }

constexpr std::uint16_t kMagnitude = 0x7FFF;

std::uint16_t infinity_of(DType half) { return half == DType::kFloat16 ? 0x7C00 : 0x7F80; }

std::uint16_t rounded(float value, DType half) {
  return half == DType::kFloat16 ? float_to_half(value) : float_to_bfloat16(value);
}

// The largest number that rounding would make infinite, or, where it is the only one, zero.
std::optional<float> largest_lost(const Tensor& tensor, DType half) {
  const float* values = tensor.data<float>();
  std::optional<float> lost;
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    const auto bits = static_cast<std::uint16_t>(rounded(values[i], half) & kMagnitude);
    const bool overflows = std::isfinite(values[i]) && bits == infinity_of(half);
    const bool vanishes = tensor.count() == 1 && bits == 0 && values[i] != 0;
    if (!overflows && !vanishes) continue;
    if (!lost || std::abs(values[i]) > std::abs(*lost)) lost = values[i];
  }
  return lost;
}

Tensor rounded(const Tensor& tensor, DType half) {
  Tensor to = Tensor::allocate(half, tensor.dims());
  std::transform(tensor.data<float>(), tensor.data<float>() + tensor.count(),
                 to.data<std::uint16_t>(), [half](float value) { return rounded(value, half); });
  return to;
}

// Copies a graph node by node; a value of float32 there is up to two values here.
class Copy {
 public:
  Copy(const Graph& from, DType half, const std::set<std::string>& keep)
      : from_(from), half_(half), keep_(keep) {
    result_.graph.set_name(from.name());
    result_.graph.opsets() = from.opsets();
    result_.graph.metadata() = from.metadata();
  }

  NarrowedGraph run() && {
    if (!from_.captures().empty()) {
      throw Error(ErrorCode::kInternal, "narrow_floats: '" + from_.name() + "' has captures");
    }
    Graph& to = result_.graph;
    for (const ValueId v : from_.inputs()) {
      wide_[v] = to.add_input(from_.value(v).name, from_.type(v));
    }
    for (const auto& [v, tensor] : from_.input_defaults()) {
      to.input_defaults().emplace(wide_.at(v), tensor);
    }
    for (const NodeId id : from_.topological_order()) copy(id);
    for (const ValueId v : from_.outputs()) to.add_output(wide(v));
    return std::move(result_);
  }

 private:
  bool is_half(ValueId v) const { return computed_.contains(v); }

  // Whether the node is to compute in half precision.
  bool is_to_narrow(const Node& node) {
    const Narrowing kind = narrowing(node);
    if (kind == Narrowing::kNo || keep_.contains(node.name)) return false;
    bool reads_float = false, reads_half = false;
    for (const ValueId v : node.inputs) {
      if (!v.valid() || !is_float32(from_.type(v))) continue;
      reads_float = true;
      const NodeId producer = from_.value(v).producer;
      if (producer.valid() && from_.node(producer).op == "DequantizeLinear") return false;
      if (const Tensor* constant = from_.constant(v)) {
        if (const std::optional<float> lost = lost_of(v, *constant)) {
          if (kind == Narrowing::kFactors) tell(node, v, *lost);
          return false;
        }
      } else if (is_half(v)) {
        reads_half = true;
      } else if (kind == Narrowing::kFollows) {
        return false;
      }
    }
    return kind == Narrowing::kFactors ? reads_float : reads_half;
  }

  std::optional<float> lost_of(ValueId v, const Tensor& constant) {
    const auto [at, is_new] = lost_.try_emplace(v);
    if (is_new) at->second = largest_lost(constant, half_);
    return at->second;
  }

  void tell(const Node& node, ValueId constant, float value) {
    result_.overflows.push_back(
        fmt::format("node '{}': '{}' holds {}", node.name, from_.value(constant).name, value));
  }

  void copy(NodeId id) {
    const Node& node = from_.node(id);
    const bool narrows = is_to_narrow(node);
    std::vector<ValueId> inputs;
    for (const ValueId v : node.inputs) {
      if (!v.valid()) {
        inputs.push_back(v);
      } else {
        inputs.push_back(narrows && is_float32(from_.type(v)) ? narrow(v) : wide(v));
      }
    }
    Graph& to = result_.graph;
    Attributes attributes = node.attributes;
    for (auto& [name, attribute] : attributes) {
      if (auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute)) {
        *body = std::make_shared<Graph>(**body);
        (*body)->remap_captures([&](ValueId v) { return wide(v); });
      }
    }
    // Sums of weights stay wide where the op says so.
    if (narrows && node.op == "Attention") {
      attributes.insert_or_assign("softmax_precision", static_cast<std::int64_t>(DType::kFloat32));
    }
    std::vector<std::string> names;
    for (const ValueId v : node.outputs) {
      // An output of the function keeps its name, and is what is cast back.
      const bool is_taken = v.valid() && narrows && from_.is_output(v) && is_float32(from_.type(v));
      names.push_back(!v.valid() ? "" : from_.value(v).name + (is_taken ? "_half" : ""));
    }
    const NodeId made = to.add_node(node.domain, node.op, std::move(inputs), names,
                                    std::move(attributes), node.name, true);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId v = node.outputs[i];
      if (!v.valid()) continue;
      const ValueId copy = to.node(made).outputs[i];
      Type type = from_.type(v);
      if (narrows && is_float32(type)) {
        type.dtype = half_;
        narrow_[v] = copy;
        computed_.insert(v);
      } else {
        wide_[v] = copy;
      }
      to.set_type(copy, std::move(type));
    }
    if (narrows) ++result_.nodes;
  }

  ValueId cast(ValueId source, DType dtype, std::string_view name, Type type) {
    Graph& to = result_.graph;
    const ValueId made =
        to.add_op("Cast", {source}, {{"to", static_cast<std::int64_t>(dtype)}}, name);
    canonicalize_node(to, to.value(made).producer);
    type.dtype = dtype;
    to.set_type(made, std::move(type));
    return made;
  }

  ValueId wide(ValueId v) {
    const auto found = wide_.find(v);
    if (found != wide_.end()) return found->second;
    const Value& value = from_.value(v);
    if (const Tensor* constant = from_.constant(v)) {
      return wide_[v] = result_.graph.add_constant(value.name, *constant);
    }
    return wide_[v] = cast(narrow_.at(v), DType::kFloat32, value.name, value.type);
  }

  ValueId narrow(ValueId v) {
    const auto found = narrow_.find(v);
    if (found != narrow_.end()) return found->second;
    const Value& value = from_.value(v);
    const std::string name = value.name + "_half";
    if (const Tensor* constant = from_.constant(v)) {
      return narrow_[v] = result_.graph.add_constant(name, rounded(*constant, half_));
    }
    return narrow_[v] = cast(wide(v), half_, name, value.type);
  }

  const Graph& from_;
  const DType half_;
  const std::set<std::string>& keep_;
  NarrowedGraph result_;
  std::map<ValueId, ValueId> wide_, narrow_;
  std::set<ValueId> computed_;  // by nodes in half precision
  std::map<ValueId, std::optional<float>> lost_;
};

}  // namespace

NarrowedGraph narrow_floats(const Graph& graph, DType half, const std::set<std::string>& keep) {
  return Copy(graph, half, keep).run();
}

}  // namespace xrt
