// SPDX-License-Identifier: Apache-2.0
// Fusion: pointwise ops into the kernel before them, and into each other.
#include <algorithm>
#include <optional>

#include "lir/ew_code.h"
#include "lir/lir.h"

namespace xrt::lite {
namespace {

class Fuser {
 public:
  explicit Fuser(LGraph& graph) : graph_(graph) {}

  void run() {
    remove_dead();
    count();
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      if (!graph_.ops[i].dead && std::holds_alternative<LEw>(graph_.ops[i].kind)) {
        into_sum(graph_.ops[i]);
      }
    }
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      if (graph_.ops[i].dead || !std::holds_alternative<LEw>(graph_.ops[i].kind)) continue;
      while (merge_producer(graph_.ops[i])) {
      }
    }
    remove_dead();
  }

 private:
  const LValue& value(int v) const { return graph_.values[static_cast<std::size_t>(v)]; }
  LOp* producer(int v) {
    const int p = producer_[static_cast<std::size_t>(v)];
    return p < 0 ? nullptr : &graph_.ops[static_cast<std::size_t>(p)];
  }
  bool single_use(int v) const { return uses_[static_cast<std::size_t>(v)] == 1; }

  void count() {
    uses_.assign(graph_.values.size(), 0);
    producer_.assign(graph_.values.size(), -1);
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      if (graph_.ops[i].dead) continue;
      for (const int v : reads(graph_.ops[i])) ++uses_[static_cast<std::size_t>(v)];
      producer_[static_cast<std::size_t>(graph_.ops[i].y)] = static_cast<int>(i);
    }
    for (const int v : graph_.outputs) uses_[static_cast<std::size_t>(v)] += 2;
  }

  void remove_dead() {
    std::vector<bool> needed(graph_.values.size(), false);
    for (const int v : graph_.outputs) needed[static_cast<std::size_t>(v)] = true;
    for (std::size_t i = graph_.ops.size(); i-- > 0;) {
      LOp& op = graph_.ops[i];
      if (!needed[static_cast<std::size_t>(op.y)]) op.dead = true;
      if (op.dead) continue;
      for (const int v : reads(op)) needed[static_cast<std::size_t>(v)] = true;
    }
    std::erase_if(graph_.ops, [](const LOp& op) { return op.dead; });
  }

  // The op takes over what `op` makes.
  void take_over(LOp& sum, LOp& op) {
    sum.y = op.y;
    producer_[static_cast<std::size_t>(op.y)] = static_cast<int>(&sum - graph_.ops.data());
    op.dead = true;
  }

  struct Sum {
    LOp* op = nullptr;
    Epilogue* epilogue = nullptr;
    Tensor* bias = nullptr;
    int* residual = nullptr;
    float* alpha = nullptr;        // products only
    std::size_t channel_axis = 0;  // of y
    bool quantized = false;
  };
  std::optional<Sum> sum_of(int v, const LOp& reader) {
    LOp* op = producer(v);
    if (op == nullptr || !single_use(v) || value(v).dims != value(reader.y).dims ||
        value(reader.y).dtype != DType::kFloat32) {
      return std::nullopt;
    }
    if (auto* c = std::get_if<LConv>(&op->kind)) {
      return Sum{op, &c->epilogue, &c->bias, &c->residual, nullptr, 1, c->q.on};
    }
    if (auto* g = std::get_if<LGemm>(&op->kind)) {
      return Sum{op,     &g->epilogue, &g->bias, &g->residual, &g->alpha, value(v).dims.size() - 1,
                 g->q.on};
    }
    return std::nullopt;
  }

  // Clip with constant bounds, and of what: max(x, lo), min(x, hi) or min(max(x, lo), hi).
  static std::optional<std::pair<int, Epilogue>> as_clip(const LEw& ew) {
    Epilogue e;
    e.clip = true;
    int at = static_cast<int>(ew.nodes.size()) - 1;
    const auto step = [&](xrt_ew_op op, float& bound) {
      const EwNode& n = ew.nodes[static_cast<std::size_t>(at)];
      if (n.kind != EwNode::Kind::kOp || n.op != op) return;
      if (ew.nodes[static_cast<std::size_t>(n.b)].kind != EwNode::Kind::kConst) return;
      bound = static_cast<float>(ew.nodes[static_cast<std::size_t>(n.b)].value);
      at = n.a;
    };
    step(XRT_EW_MIN, e.hi);
    step(XRT_EW_MAX, e.lo);
    const EwNode& n = ew.nodes[static_cast<std::size_t>(at)];
    if (n.kind != EwNode::Kind::kInput || ew.nodes.size() == 1) return std::nullopt;
    return std::pair{ew.inputs[static_cast<std::size_t>(n.input)], e};
  }

  // A constant with one element per channel, or one for all, as float32[channels].
  std::optional<Tensor> per_channel(int v, const Dims& y, std::size_t axis) const {
    const LValue& c = value(v);
    if (!c.is_constant() || c.dtype != DType::kFloat32 || c.dims.size() > y.size()) return {};
    const std::size_t shift = y.size() - c.dims.size();
    for (std::size_t d = 0; d < c.dims.size(); ++d) {
      if (c.dims[d] != 1 && d + shift != axis) return {};
    }
    if (c.count() != y[axis]) return {};
    return c.constant.reshaped({y[axis]});
  }

  void into_sum(LOp& op) {
    auto& ew = std::get<LEw>(op.kind);
    if (ew.integer) return;
    if (const auto clip = as_clip(ew)) {
      const auto sum = sum_of(clip->first, op);
      if (sum && !sum->epilogue->clip && !sum->quantized) {
        *sum->epilogue = clip->second;
        take_over(*sum->op, op);
      }
      return;
    }
    const EwNode& last = ew.nodes.back();
    if (ew.nodes.size() != 3 || last.kind != EwNode::Kind::kOp) return;
    const EwNode &a = ew.nodes[static_cast<std::size_t>(last.a)],
                 &b = ew.nodes[static_cast<std::size_t>(last.b)];
    const auto is_input = [](const EwNode& n) { return n.kind == EwNode::Kind::kInput; };
    if (last.op == XRT_EW_ADD && is_input(a) && is_input(b)) {
      const int va = ew.inputs[static_cast<std::size_t>(a.input)];
      const int vb = ew.inputs[static_cast<std::size_t>(b.input)];
      if (add_bias(op, va, vb) || add_bias(op, vb, va)) return;
      const int pa = producer_[static_cast<std::size_t>(va)];
      const int pb = producer_[static_cast<std::size_t>(vb)];
      if (pa > pb ? add_residual(op, va, vb) : add_residual(op, vb, va)) return;
      return;
    }
    const bool by_constant = b.kind == EwNode::Kind::kConst && is_input(a);
    if (by_constant && (last.op == XRT_EW_MUL || last.op == XRT_EW_DIV)) {
      const auto sum = sum_of(ew.inputs[static_cast<std::size_t>(a.input)], op);
      if (sum && sum->alpha != nullptr && !sum->quantized && !sum->epilogue->clip &&
          !sum->bias->defined() && *sum->residual < 0) {
        *sum->alpha = static_cast<float>(last.op == XRT_EW_MUL ? *sum->alpha * b.value
                                                               : *sum->alpha / b.value);
        take_over(*sum->op, op);
      }
    }
  }

  bool add_bias(LOp& op, int v, int constant) {
    const auto sum = sum_of(v, op);
    if (!sum || sum->epilogue->clip || sum->quantized) return false;
    const auto bias = per_channel(constant, value(op.y).dims, sum->channel_axis);
    if (!bias) return false;
    if (sum->bias->defined()) {
      Tensor total = sum->bias->clone();
      for (std::int64_t i = 0; i < total.count(); ++i) {
        total.data<float>()[i] += bias->data<float>()[i];
      }
      *sum->bias = total;
    } else {
      *sum->bias = *bias;
    }
    take_over(*sum->op, op);
    return true;
  }

  bool add_residual(LOp& op, int v, int other) {
    const auto sum = sum_of(v, op);
    if (!sum || sum->epilogue->clip || sum->quantized || *sum->residual >= 0) return false;
    const LValue& r = value(other);
    const int from = producer_[static_cast<std::size_t>(other)];
    if (r.is_constant() || r.dims != value(op.y).dims || r.dtype != DType::kFloat32 ||
        from >= producer_[static_cast<std::size_t>(v)]) {
      return false;
    }
    *sum->residual = other;
    take_over(*sum->op, op);
    return true;
  }

  // Puts the expression of one of the op's inputs in that input's place.
  bool merge_producer(LOp& op) {
    auto& ew = std::get<LEw>(op.kind);
    for (std::size_t k = 0; k < ew.inputs.size(); ++k) {
      const int v = ew.inputs[k];
      LOp* from = producer(v);
      if (from == nullptr || !single_use(v) || value(v).dims != value(op.y).dims) continue;
      const auto* inner = std::get_if<LEw>(&from->kind);
      if (inner == nullptr || inner->integer != ew.integer) continue;
      const DType d = value(v).dtype;
      if (ew.integer ? d != DType::kInt64 : d != DType::kFloat32) continue;
      LEw merged;
      merged.integer = ew.integer;
      merged.inputs = inner->inputs;
      merged.nodes = inner->nodes;
      const int result = static_cast<int>(merged.nodes.size()) - 1;
      std::vector<int> now(ew.nodes.size());
      for (std::size_t i = 0; i < ew.nodes.size(); ++i) {
        EwNode n = ew.nodes[i];
        if (n.kind == EwNode::Kind::kInput) {
          if (static_cast<std::size_t>(n.input) == k) {
            now[i] = result;
            continue;
          }
          const int outer = ew.inputs[static_cast<std::size_t>(n.input)];
          const auto known = std::find(merged.inputs.begin(), merged.inputs.end(), outer);
          n.input = static_cast<int>(known - merged.inputs.begin());
          if (known == merged.inputs.end()) merged.inputs.push_back(outer);
        }
        for (int* operand : {&n.a, &n.b, &n.c}) {
          if (*operand >= 0) *operand = now[static_cast<std::size_t>(*operand)];
        }
        merged.nodes.push_back(n);
        now[i] = static_cast<int>(merged.nodes.size()) - 1;
      }
      if (!assemble(merged)) continue;
      for (const int shared : reads(op)) --uses_[static_cast<std::size_t>(shared)];
      for (const int shared : reads(*from)) --uses_[static_cast<std::size_t>(shared)];
      from->dead = true;
      ew = std::move(merged);
      for (const int now_read : reads(op)) ++uses_[static_cast<std::size_t>(now_read)];
      return true;
    }
    return false;
  }

  LGraph& graph_;
  std::vector<int> uses_, producer_;
};

}  // namespace

void fuse(LGraph& graph) { Fuser(graph).run(); }

}  // namespace xrt::lite
