// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>
#include <optional>
#include <string>

#include "engines/native/compressed/kernels.h"
#include "engines/native/compressed/weights.h"
#include "engines/native/dnn/post_ops.h"
#include "ir/attributes.h"
#include "ir/pattern.h"
#include "ir/rewrite.h"

namespace xrt::native {
namespace {

class CompressedFusion {
 public:
  explicit CompressedFusion(Graph& graph) : graph_(graph) {}

  std::vector<std::string> run() {
    for (const NodeId id : graph_.topological_order()) {
      if (!graph_.alive(id)) continue;
      const Node& node = graph_.node(id);
      if (is_op(node, "MatMul") || is_op(node, "Gemm")) fuse_product(id);
      if (is_op(node, "Gather")) fuse_rows(id);
    }
    std::vector<std::string> remarks;
    for (const auto& [bits, count] : products_) {
      remarks.push_back(fmt::format("products that read weights of {} bits: {}", bits, count));
    }
    if (tables_ > 0) {
      remarks.push_back(fmt::format("tables of few bits that rows are taken from: {}", tables_));
    }
    return remarks;
  }

 private:
  // The weights, which may be behind a Transpose.
  std::optional<CompressedMatrix> weights_of(const Node& node) const {
    const ValueId w = node.input(1);
    if (node.op == "Gemm") {
      return compressed_matrix(graph_, w, need_int(node, "transB") != 0 ? 1 : 0);
    }
    if (const Node* turn = producer(graph_, w, "Transpose")) {
      if (turn->attr_ints("perm") != std::vector<std::int64_t>{1, 0}) return std::nullopt;
      return compressed_matrix(graph_, turn->input(0), 1);
    }
    return compressed_matrix(graph_, w, 0);
  }

  // One number of A's type for each column.
  bool is_bias(ValueId v, std::int64_t columns, DType dtype) const {
    const Tensor* t = v.valid() ? graph_.constant(v) : nullptr;
    return t != nullptr && t->dtype() == dtype && t->count() == columns && t->rank() > 0 &&
           t->dims().back() == columns;
  }

  // The factor of the other product in `add`, the sums of x's blocks times constants: what
  // DequantizeLinear, whose zero points are whole numbers, cannot say.
  ValueId offsets_of(const Node& add, ValueId product, ValueId x, const CompressedMatrix& w) const {
    if (!is_op(add, "Add") || !sole_use(graph_, other_input(add, product))) return {};
    const Node* shift = producer(graph_, other_input(add, product), "MatMul");
    const Node* sum = shift == nullptr ? nullptr : producer(graph_, shift->input(0), "ReduceSum");
    const Node* split = sum == nullptr ? nullptr : producer(graph_, sum->input(0), "Reshape");
    if (split == nullptr || split->input(0) != x || need_int(*sum, "keepdims") != 0) return {};
    const Tensor* axes = sum->input(1).valid() ? graph_.constant(sum->input(1)) : nullptr;
    const Tensor* offset = graph_.constant(shift->input(1));
    const Type& whole = graph_.type(x);
    const Type& blocks = graph_.type(split->output(0));
    if (axes == nullptr || offset == nullptr || offset->dtype() != DType::kFloat32 ||
        !whole.has_rank() || !blocks.has_rank() || blocks.rank() != whole.rank() + 1) {
      return {};
    }
    const std::vector<std::int64_t> summed = axes->to_int64();
    const auto last = static_cast<std::int64_t>(blocks.rank()) - 1;
    if (summed.size() != 1 || (summed[0] != -1 && summed[0] != last)) return {};
    const Dims& numbers = graph_.constant(w.q)->dims();
    const std::int64_t depth = numbers[w.axis];
    if (w.block < 1 || depth % w.block != 0 || blocks.shape->back() != Dim(w.block) ||
        offset->dims() != Dims{depth / w.block, numbers[1 - w.axis]}) {
      return {};
    }
    // All axes but the last stay as they are: then that one is what was split.
    for (std::size_t d = 0; d + 1 < whole.rank(); ++d) {
      const Dim& dim = (*whole.shape)[d];
      if (dim != (*blocks.shape)[d] || !(dim.is_known() || dim.is_symbol())) return {};
    }
    return shift->input(1);
  }

  void fuse_product(NodeId id) {
    const Node node = graph_.node(id);
    const auto w = weights_of(node);
    const Type& a = graph_.type(node.input(0));
    if (!w || a.dtype != graph_.constant(w->scale)->dtype() || !a.has_rank() || a.rank() == 0) {
      return;
    }
    const std::int64_t columns = graph_.constant(w->q)->dims()[1 - w->axis];
    ValueId result = node.output(0);
    ValueId bias;
    ValueId offset;
    if (node.op == "MatMul") {
      if (const auto use = sole_use(graph_, result)) {
        offset = offsets_of(graph_.node(use->node), result, node.input(0), *w);
        if (offset.valid()) result = graph_.node(use->node).output(0);
      }
    }
    if (node.op == "Gemm") {
      if (need_int(node, "transA") != 0 || need_float(node, "alpha") != 1.0F ||
          (node.input(2).valid() &&
           (need_float(node, "beta") != 1.0F || !is_bias(node.input(2), columns, a.dtype)))) {
        return;
      }
      bias = node.input(2);
    } else if (const auto use = sole_use(graph_, result)) {
      const Node& add = graph_.node(use->node);
      // A bias of a higher rank than the product would change the result's.
      if (is_op(add, "Add") && is_bias(other_input(add, result), columns, a.dtype) &&
          graph_.constant(other_input(add, result))->rank() <= a.rank()) {
        bias = other_input(add, result);
        result = add.output(0);
      }
    }
    const NodeId made = graph_.add_node(dnn::kDomain, "BlockMatMul",
                                        {node.input(0), w->q, w->scale, w->zero, bias, offset},
                                        {""}, attributes(*w), node.name);
    finish(made, result);
    ++products_[bit_width(graph_.constant(w->q)->dtype())];
  }

  void fuse_rows(NodeId id) {
    const Node node = graph_.node(id);
    const auto w = compressed_matrix(graph_, node.input(0), 1);
    if (!w || need_int(node, "axis") != 0) return;
    const NodeId made =
        graph_.add_node(dnn::kDomain, "BlockGather", {node.input(1), w->q, w->scale, w->zero}, {""},
                        attributes(*w), node.name);
    finish(made, node.output(0));
    ++tables_;
  }

  static Attributes attributes(const CompressedMatrix& w) {
    return {{"axis", static_cast<std::int64_t>(w.axis)}, {"block", w.block}};
  }

  void finish(NodeId made, ValueId old) {
    const ValueId y = graph_.node(made).output(0);
    graph_.set_type(y, Type(graph_.type(old)));
    replace_value(graph_, old, y);
    remove_unused(graph_, old);
  }

  Graph& graph_;
  std::map<int, int> products_;  // by bits
  int tables_ = 0;
};

}  // namespace

std::vector<std::string> fuse_compressed(Graph& graph) { return CompressedFusion(graph).run(); }

}  // namespace xrt::native
