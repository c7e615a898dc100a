// SPDX-License-Identifier: Apache-2.0
// Convolutions, multiplications and elementwise ops take what follows them as post-ops.
#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "engines/native/dnn/fuse/optimize.h"
#include "engines/native/dnn/post_ops.h"
#include "engines/native/kernels/common/convert.h"
#include "ir/attributes.h"
#include "ir/pattern.h"
#include "ops/sizes/wide_window.h"

namespace xrt::native::dnn {
namespace {

constexpr std::size_t kMaximumPostOps = 12;

// A node under construction: what it reads, what it does, and the value it will stand for.
struct Fused {
  std::vector<ValueId> inputs;
  std::vector<PostOp> post_ops;
  ValueId result;
};

// A float constant with one value per channel (axis 1 of rank-`rank` values), or one for all.
std::optional<std::vector<float>> per_channel(const Graph& graph, ValueId value, std::size_t rank,
                                              std::int64_t channels) {
  const Tensor* tensor = graph.constant(value);
  if (tensor == nullptr || tensor->dtype() != DType::kFloat32 || tensor->rank() > rank) {
    return std::nullopt;
  }
  const float* data = tensor->data<float>();
  if (tensor->count() == 1) return std::vector<float>(channels, data[0]);
  const Dims dims = padded_dims(tensor->dims(), rank);
  if (tensor->count() != channels || dims[1] != channels) return std::nullopt;
  return std::vector<float>(data, data + channels);
}

Tensor vector_tensor(const std::vector<float>& values) {
  return Tensor::from<float>(DType::kFloat32, {static_cast<std::int64_t>(values.size())}, values);
}

// `other` as second operand of an elementwise post-op on `y`: same shape, or one that oneDNN
// broadcasts well.
bool good_operand(const Graph& graph, ValueId other, const Type& y, bool may_broadcast) {
  const Type& type = graph.type(other);
  if (type.dtype != DType::kFloat32) return false;
  if (same_shape(type, y)) return true;
  if (!may_broadcast) return false;
  const auto dims = type.static_dims();
  if (!dims || dims->empty() || !y.has_rank() || dims->size() > y.rank()) return false;
  // Only the last dimension is there: every row meets the same values.
  const Dim& columns = y.shape->back();
  return columns.is_known() && dims->back() == columns.value() &&
         element_count(*dims) == dims->back();
}

// Takes one elementwise node after `fused.result`; false where there is none to take.
bool take_next(const Graph& graph, Fused& fused, bool may_broadcast) {
  if (fused.post_ops.size() >= kMaximumPostOps) return false;
  const auto use = sole_use(graph, fused.result);
  if (!use) return false;
  const Node& node = graph.node(use->node);
  if (node.outputs.size() != 1 || !node.domain.empty()) return false;
  const Type& type = graph.type(fused.result);
  const ValueId out = node.outputs[0];
  if (!same_shape(type, graph.type(out)) || graph.type(out).dtype != DType::kFloat32) return false;
  std::size_t operand = 0;
  if (auto op = unary_post_op(graph, node, &operand)) {
    if (node.inputs[operand] != fused.result) return false;
    fused.post_ops.push_back(std::move(*op));
    fused.result = out;
    return true;
  }
  const bool commutes = node.op == "Add" || node.op == "Mul";
  if (!commutes && !(use->index == 0 && (node.op == "Sub" || node.op == "Div"))) return false;
  const ValueId other = other_input(node, fused.result);
  if (!good_operand(graph, other, type, may_broadcast)) return false;
  fused.post_ops.push_back({node.op, 0, 0, static_cast<std::int64_t>(fused.inputs.size())});
  fused.inputs.push_back(other);
  fused.result = out;
  return true;
}

NodeId replace_with_fused(Graph& graph, std::string_view op, const Fused& fused,
                          Attributes attributes) {
  write_post_ops(attributes, fused.post_ops);
  const NodeId made = graph.add_node(kDomain, op, fused.inputs, {graph.value(fused.result).name},
                                     std::move(attributes));
  const ValueId out = graph.node(made).outputs[0];
  graph.set_type(out, Type(graph.type(fused.result)));
  substitute(graph, fused.result, out);
  return made;
}

// --- convolutions ---------------------------------------------------------------------------

struct Folding {
  std::optional<std::vector<float>> scale;
  std::vector<float> bias;
};

// Constant Mul and Add right after the convolution become part of its weights and bias.
Folding fold_affine(const Graph& graph, Fused& fused, std::int64_t channels, bool may_scale) {
  Folding folding;
  folding.bias.assign(channels, 0);
  const Tensor* bias = graph.constant(fused.inputs[2]);
  if (bias != nullptr) std::copy_n(bias->data<float>(), channels, folding.bias.begin());
  for (;;) {
    const auto use = sole_use(graph, fused.result);
    if (!use) return folding;
    const Node& node = graph.node(use->node);
    if (!node.domain.empty() || (node.op != "Add" && node.op != "Mul")) return folding;
    if (!same_shape(graph.type(fused.result), graph.type(node.outputs[0]))) return folding;
    const ValueId other = other_input(node, fused.result);
    const auto values = per_channel(graph, other, graph.type(fused.result).rank(), channels);
    if (!values) return folding;
    if (node.op == "Mul" && !may_scale) return folding;
    if (node.op == "Mul" && !folding.scale) folding.scale.emplace(channels, 1.0F);
    for (std::int64_t c = 0; c < channels; ++c) {
      if (node.op == "Add") {
        folding.bias[c] += (*values)[c];
      } else {
        folding.bias[c] *= (*values)[c];
        (*folding.scale)[c] *= (*values)[c];
      }
    }
    fused.result = node.outputs[0];
  }
}

Tensor scaled_rows(const Tensor& weights, const std::vector<float>& scale) {
  Tensor result =
      weights.dtype() == DType::kFloat32 ? weights.clone() : converted(weights, DType::kFloat32);
  const auto rows = static_cast<std::int64_t>(scale.size());
  const std::int64_t columns = rows == 0 ? 0 : weights.count() / rows;
  float* data = result.data<float>();
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) data[r * columns + c] *= scale[r];
  }
  return result;
}

// Of a convolution whose weights are being trained, and are no constant: what follows it alone.
bool fuse_trained_convolution(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const Type& x = graph.type(node.inputs[0]);
  const Type& w = graph.type(node.inputs[1]);
  if (x.dtype != DType::kFloat32 || !x.is_static() || !w.is_static() || w.rank() < 3 ||
      w.rank() > 5 || element_count(*w.static_dims()) == 0 ||
      has_slow_window(node, *w.static_dims())) {
    return false;
  }
  Fused fused{{node.inputs[0], node.inputs[1], node.input(2)}, {}, node.outputs[0]};
  while (take_next(graph, fused, /*may_broadcast=*/false)) {
  }
  if (fused.post_ops.empty()) return false;
  replace_with_fused(graph, "Conv", fused, Attributes(node.attributes));
  return true;
}

bool fuse_convolution(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const ValueId x = node.inputs[0];
  const ValueId w = node.inputs[1];
  const Tensor* weights = graph.constant(w);
  if (weights == nullptr) return fuse_trained_convolution(graph, id);
  if (graph.type(x).dtype != DType::kFloat32 || !graph.type(x).has_rank() || weights->rank() < 3 ||
      weights->rank() > 5 || weights->count() == 0 || has_slow_window(node, weights->dims())) {
    return false;
  }
  const ValueId b = node.input(2);
  const bool constant_bias = !b.valid() || graph.constant(b) != nullptr;
  Fused fused{{x, w, b}, {}, node.outputs[0]};
  const ValueId start = fused.result;
  if (constant_bias) {
    const std::int64_t channels = weights->dims()[0];
    const Folding folding = fold_affine(graph, fused, channels, true);
    if (fused.result != start) {
      if (folding.scale) {
        fused.inputs[1] = graph.add_constant(graph.value(w).name + "_scaled",
                                             scaled_rows(*weights, *folding.scale));
      }
      fused.inputs[2] = graph.add_constant("", vector_tensor(folding.bias));
    }
  }
  while (take_next(graph, fused, /*may_broadcast=*/false)) {
  }
  Attributes attributes = node.attributes;
  replace_with_fused(graph, "Conv", fused, std::move(attributes));
  return true;
}

// --- multiplications ------------------------------------------------------------------------

std::vector<std::int64_t> transpose_perm(const Graph& graph, const Node& node) {
  std::vector<std::int64_t> perm = node.attr_ints("perm");
  if (perm.empty()) {
    perm.resize(graph.type(node.inputs[0]).rank());
    std::iota(perm.rbegin(), perm.rend(), 0);
  }
  return perm;
}

// Reads through a Transpose: the operand becomes what it transposes.
std::vector<std::int64_t> take_transpose(const Graph& graph, ValueId& operand) {
  const Node* transpose = producer(graph, operand, "Transpose");
  if (transpose == nullptr || !graph.type(transpose->inputs[0]).has_rank()) return {};
  operand = transpose->inputs[0];
  return transpose_perm(graph, *transpose);
}

// (A B)' is B' A': of two matrices without a bias, the transpose that follows costs nothing.
void take_final_transpose(const Graph& graph, Fused& fused, Attributes& attributes) {
  const auto use = sole_use(graph, fused.result);
  if (!use || fused.inputs[2].valid()) return;
  if (graph.type(fused.inputs[1]).dtype != DType::kFloat32) return;  // weights
  const Node& next = graph.node(use->node);
  const std::vector<std::int64_t> swap{1, 0};
  if (!next.domain.empty() || next.op != "Transpose" || graph.type(fused.result).rank() != 2 ||
      transpose_perm(graph, next) != swap || graph.type(fused.inputs[0]).rank() != 2 ||
      graph.type(fused.inputs[1]).rank() != 2) {
    return;
  }
  const bool a = attributes.contains("perm_a");
  const bool b = attributes.contains("perm_b");
  attributes.erase("perm_a");
  attributes.erase("perm_b");
  if (!b) attributes["perm_a"] = swap;
  if (!a) attributes["perm_b"] = swap;
  std::swap(fused.inputs[0], fused.inputs[1]);
  fused.result = next.outputs[0];
}

bool fuse_multiplication(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const bool gemm = node.op == "Gemm";
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].valid()) continue;
    const Type& type = graph.type(node.inputs[i]);
    const bool are_weights = i == 1 && graph.constant(node.inputs[1]) != nullptr &&
                             graph.type(node.inputs[0]).dtype == DType::kFloat32;
    if ((type.dtype != DType::kFloat32 && !are_weights) || !type.has_rank() || type.rank() > 6) {
      return false;
    }
    if (!gemm && type.rank() < 2) return false;
  }
  if (!graph.type(node.outputs[0]).has_rank()) return false;
  Attributes attributes;
  if (const auto factors = node.attributes.find(kFactorType); factors != node.attributes.end()) {
    attributes.insert(*factors);
  }
  Fused fused{{node.inputs[0], node.inputs[1], ValueId{}}, {}, node.outputs[0]};
  if (gemm) {
    if (need_float(node, "alpha") != 1) return false;
    const ValueId c = node.input(2);
    if (c.valid()) {
      const auto dims = graph.type(c).static_dims();
      const Dim& columns = graph.type(node.outputs[0]).shape->back();
      if (need_float(node, "beta") != 1 || !dims || dims->size() != 1 || !columns.is_known() ||
          (*dims)[0] != columns.value()) {
        return false;
      }
      fused.inputs[2] = c;
    }
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      // Transposed by the attribute, by the node before, or by both and therefore not at all.
      const std::vector<std::int64_t> swap{1, 0};
      const bool before = take_transpose(graph, fused.inputs[i]) == swap;
      const bool own = node.attr_int(i == 0 ? "transA" : "transB", 0) != 0;
      if (before != own) attributes[i == 0 ? "perm_a" : "perm_b"] = swap;
    }
  } else {
    std::vector<std::int64_t> perm = take_transpose(graph, fused.inputs[0]);
    if (!perm.empty()) attributes["perm_a"] = std::move(perm);
    perm = take_transpose(graph, fused.inputs[1]);
    if (!perm.empty()) attributes["perm_b"] = std::move(perm);
  }
  // A row added first is the bias.
  if (!fused.inputs[2].valid()) {
    if (const auto use = sole_use(graph, fused.result)) {
      const Node& add = graph.node(use->node);
      if (add.domain.empty() && add.op == "Add") {
        const ValueId other = other_input(add, fused.result);
        const Tensor* row = graph.constant(other);
        const Type& type = graph.type(fused.result);
        if (row != nullptr && row->dtype() == DType::kFloat32 && row->rank() == 1 &&
            row->count() > 1 && same_shape(type, graph.type(add.outputs[0]))) {
          fused.inputs[2] = other;
          fused.result = add.outputs[0];
        }
      }
    }
  }
  take_final_transpose(graph, fused, attributes);
  while (take_next(graph, fused, /*may_broadcast=*/true)) {
  }
  // The result is stored the way the transpose after it would.
  const bool plain = std::none_of(fused.post_ops.begin(), fused.post_ops.end(),
                                  [](const PostOp& op) { return op.is_binary(); });
  if (const auto use = sole_use(graph, fused.result); use && plain) {
    const Node& next = graph.node(use->node);
    if (next.domain.empty() && next.op == "Transpose") {
      std::vector<std::int64_t> perm = transpose_perm(graph, next);
      // Rows must stay whole.
      if (perm.back() == static_cast<std::int64_t>(perm.size()) - 1) {
        attributes["perm_y"] = std::move(perm);
        fused.result = next.outputs[0];
      }
    }
  }
  replace_with_fused(graph, "MatMul", fused, std::move(attributes));
  return true;
}

// --- elementwise ----------------------------------------------------------------------------

void fuse_chain(Graph& graph, NodeId id) {
  constexpr std::int64_t kLeastElements = 4096;
  const Node& node = graph.node(id);
  if (node.outputs.size() != 1) return;
  const Type& type = graph.type(node.outputs[0]);
  const auto dims = type.static_dims();
  if (type.dtype != DType::kFloat32 || !dims || dims->size() > 5 ||
      element_count(*dims) < kLeastElements) {
    return;
  }
  Fused fused{{}, {}, node.outputs[0]};
  std::size_t operand = 0;
  if (auto op = unary_post_op(graph, node, &operand)) {
    fused.inputs = {node.inputs[operand]};
    fused.post_ops = {std::move(*op)};
  } else if (node.op == "Add" || node.op == "Mul" || node.op == "Sub" || node.op == "Div") {
    for (const ValueId input : node.inputs) {
      if (!graph.type(input).is_static() || graph.type(input).dtype != DType::kFloat32) return;
    }
    ValueId a = node.inputs[0];
    ValueId b = node.inputs[1];
    if (!same_shape(graph.type(a), type)) {
      if (node.op != "Add" && node.op != "Mul") return;
      std::swap(a, b);
      if (!same_shape(graph.type(a), type)) return;
    }
    fused.inputs = {a, b};
    fused.post_ops = {{node.op, 0, 0, 1}};
  } else {
    return;
  }
  if (!same_shape(graph.type(fused.inputs[0]), type)) return;
  while (take_next(graph, fused, /*may_broadcast=*/true)) {
  }
  if (fused.post_ops.size() < 2) return;
  replace_with_fused(graph, "Elementwise", fused, {});
}

template <typename Visit>
void visit(Graph& graph, Visit&& visit_node) {
  for (const NodeId id : graph.topological_order()) {
    if (graph.alive(id) && graph.node(id).domain.empty()) visit_node(id);
  }
}

}  // namespace

void fuse_convolutions(Graph& graph) {
  visit(graph, [&](NodeId id) {
    if (graph.node(id).op == "Conv") fuse_convolution(graph, id);
  });
}

void fuse_multiplications(Graph& graph) {
  visit(graph, [&](NodeId id) {
    const std::string& op = graph.node(id).op;
    if (op == "MatMul" || op == "Gemm") fuse_multiplication(graph, id);
  });
}

void fuse_elementwise(Graph& graph) {
  visit(graph, [&](NodeId id) { fuse_chain(graph, id); });
}

}  // namespace xrt::native::dnn
