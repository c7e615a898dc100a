// SPDX-License-Identifier: Apache-2.0
// Orders in memory. Images are kept N, H, W, C, which is what the kernels of every CPU target
// want; everything else takes the order its input has, as far as its kernel works by strides.
#include "lir/layout.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "xrt/error.h"

namespace xrt::lite {

Order identity_order(std::size_t rank) {
  Order order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

Order image_order(std::size_t rank) {
  Order order = identity_order(rank);
  std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return order;
}

bool same_memory(const Order& a, const Order& b, const Dims& dims) {
  const auto squeeze = [&](const Order& order) {
    Order result;
    for (const int d : order) {
      if (dims[static_cast<std::size_t>(d)] != 1) result.push_back(d);
    }
    return result;
  };
  return squeeze(a) == squeeze(b);
}

std::vector<std::int64_t> strides_of(const LValue& v) {
  std::vector<std::int64_t> strides(v.dims.size(), 0);
  std::int64_t step = 1;
  for (std::size_t i = v.order.size(); i-- > 0;) {
    const auto d = static_cast<std::size_t>(v.order[i]);
    strides[d] = step;
    step *= v.dims[d];
  }
  return strides;
}

namespace {

// The order of a reshaped value whose elements stay where they are, if there is one.
std::optional<Order> reshaped_order(const Dims& from, const Order& order, const Dims& to) {
  struct Group {
    std::vector<int> from, to;
  };
  std::vector<Group> groups;
  std::size_t i = 0, j = 0;
  const auto skip = [](const Dims& dims, std::size_t& at) {
    while (at < dims.size() && dims[at] == 1) ++at;
  };
  for (skip(from, i), skip(to, j); i < from.size() && j < to.size(); skip(from, i), skip(to, j)) {
    Group g;
    std::int64_t a = from[i], b = to[j];
    g.from.push_back(static_cast<int>(i++));
    g.to.push_back(static_cast<int>(j++));
    while (a != b) {
      if (a < b) {
        a *= from[i];
        g.from.push_back(static_cast<int>(i++));
      } else {
        b *= to[j];
        g.to.push_back(static_cast<int>(j++));
      }
    }
    groups.push_back(g);
  }
  Order result;
  for (std::size_t d = 0; d < to.size(); ++d) {
    if (to[d] == 1) result.push_back(static_cast<int>(d));
  }
  const auto in_from = [&](const std::vector<int>& dims) {
    std::vector<int> kept;
    for (const int d : dims) {
      if (from[static_cast<std::size_t>(d)] != 1) kept.push_back(d);
    }
    return kept;
  };
  const std::vector<int> physical = in_from(order);
  for (std::size_t at = 0; at < physical.size();) {
    const auto g = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
      return in_from(group.from).front() == physical[at];
    });
    if (g == groups.end()) return std::nullopt;
    for (const int d : in_from(g->from)) {
      if (at >= physical.size() || physical[at++] != d) return std::nullopt;
    }
    for (const int d : g->to) {
      if (to[static_cast<std::size_t>(d)] != 1) result.push_back(d);
    }
  }
  return result;
}

class Layout {
 public:
  explicit Layout(LGraph& graph) : graph_(graph) {}

  void run() {
    for (LValue& v : graph_.values) {
      if (v.is_constant() || v.input >= 0) v.order = identity_order(v.dims.size());
    }
    std::vector<LOp> old = std::move(graph_.ops);
    graph_.ops.clear();
    for (LOp& op : old) {
      std::visit([&](auto& k) { assign(op, k); }, op.kind);
      graph_.ops.push_back(std::move(op));
    }
    for (int& v : graph_.outputs) {
      LValue& out = value(v);
      if (out.order.empty()) out.order = identity_order(out.dims.size());
      v = in_order(v, identity_order(out.dims.size()));
    }
  }

 private:
  LValue& value(int v) { return graph_.values[static_cast<std::size_t>(v)]; }

  int in_order(int v, const Order& want) {
    if (same_memory(value(v).order, want, value(v).dims)) return v;
    int& known = converted_[{v, want}];
    if (known > 0) return known;
    const LValue x = value(v);
    const int y = graph_.add_value(x.name + "/reordered", x.dtype, x.dims);
    value(y).order = want;
    known = y;
    if (x.is_constant()) {
      value(y).constant = x.constant;
      return y;
    }
    LCopy copy;
    CopyPiece p;
    p.x = v;
    p.x_start.assign(x.dims.size(), 0);
    p.y_start = p.x_start;
    p.x_step.assign(x.dims.size(), 1);
    p.size = x.dims;
    copy.pieces.push_back(p);
    graph_.ops.push_back({x.name + "/reorder", std::move(copy), y, false});
    return y;
  }
  int plain(int v) { return in_order(v, identity_order(value(v).dims.size())); }
  bool is_output(int v) const {
    return std::find(graph_.outputs.begin(), graph_.outputs.end(), v) != graph_.outputs.end();
  }

  void assign(LOp& op, LConv& k) {
    const Order order = image_order(value(k.x).dims.size());
    k.x = in_order(k.x, order);
    if (k.residual >= 0) k.residual = in_order(k.residual, order);
    value(op.y).order = order;
  }
  void assign(LOp& op, LPool& k) {
    const Order order = image_order(value(k.x).dims.size());
    k.x = in_order(k.x, order);
    value(op.y).order = order;
  }
  void assign(LOp& op, LResize& k) {
    k.x = in_order(k.x, image_order(4));
    value(op.y).order = image_order(4);
  }
  void assign(LOp& op, LGemm& k) {
    const LValue& b = value(k.b);
    if (b.is_constant() && b.dims.size() == 2 && value(k.a).dims.size() > 2) k.a = plain(k.a);
    if (k.residual >= 0) k.residual = plain(k.residual);
    value(op.y).order = identity_order(value(op.y).dims.size());
  }
  void assign(LOp& op, LEw& k) {
    const Dims& dims = value(op.y).dims;
    Order order = identity_order(dims.size());
    for (const int v : k.inputs) {
      if (is_output(op.y) || value(v).is_constant() || value(v).dims != dims) continue;
      order = value(v).order;
      break;
    }
    value(op.y).order = order;
  }
  void assign(LOp& op, LView& k) {
    const Dims to = value(op.y).dims;
    if (k.kind == LView::Kind::kTranspose) {
      Order order;
      for (const int d : value(k.x).order) {
        order.push_back(
            static_cast<int>(std::find(k.perm.begin(), k.perm.end(), d) - k.perm.begin()));
      }
      value(op.y).order = order;
      return;
    }
    auto order = reshaped_order(value(k.x).dims, value(k.x).order, to);
    if (!order) {
      k.x = plain(k.x);
      order = identity_order(to.size());
    }
    value(op.y).order = *order;
  }
  void assign(LOp& op, LCopy& k) {
    Order order = identity_order(value(op.y).dims.size());
    std::int64_t most = -1;
    for (const CopyPiece& p : k.pieces) {
      if (value(p.x).is_constant() || is_output(op.y) || value(p.x).count() <= most) continue;
      order = value(p.x).order;
      most = value(p.x).count();
    }
    value(op.y).order = order;
  }
  // x's order without the dimensions that y lacks.
  Order without(const Order& order, const std::vector<int>& axes, bool keep) {
    if (keep) return order;
    Order result;
    for (const int d : order) {
      if (std::find(axes.begin(), axes.end(), d) != axes.end()) continue;
      const auto before = std::count_if(axes.begin(), axes.end(), [&](int a) { return a < d; });
      result.push_back(d - static_cast<int>(before));
    }
    return result;
  }
  void assign(LOp& op, LReduce& k) {
    const bool keep = value(op.y).dims.size() == value(k.x).dims.size();
    value(op.y).order = without(value(k.x).order, k.axes, keep);
  }
  void assign(LOp& op, LSoftmax& k) { value(op.y).order = value(k.x).order; }
  void assign(LOp& op, LArg& k) {
    const bool keep = value(op.y).dims.size() == value(k.x).dims.size();
    value(op.y).order = without(value(k.x).order, {k.axis}, keep);
  }
  void assign(LOp& op, LNorm& k) {
    const LValue& x = value(k.x);
    Order tail;
    for (const int d : x.order) {
      if (d >= k.axis && x.dims[static_cast<std::size_t>(d)] != 1) tail.push_back(d);
    }
    bool last = std::is_sorted(tail.begin(), tail.end());
    bool inside = false;
    for (const int d : x.order) {
      if (x.dims[static_cast<std::size_t>(d)] == 1) continue;
      if (d >= k.axis) inside = true;
      if (d < k.axis && inside) last = false;
    }
    if (!last) k.x = plain(k.x);
    value(op.y).order = value(k.x).order;
  }
  void assign(LOp& op, LGather& k) {
    k.x = plain(k.x);
    k.indices = plain(k.indices);
    value(op.y).order = identity_order(value(op.y).dims.size());
  }

  LGraph& graph_;
  std::map<std::pair<int, Order>, int> converted_;
};

}  // namespace

void assign_layout(LGraph& graph) { Layout(graph).run(); }

}  // namespace xrt::lite
