// SPDX-License-Identifier: Apache-2.0
#include "lir/places.h"

#include <algorithm>

#include "lir/layout.h"

namespace xrt::lite {
namespace {

using Strides = std::vector<std::int64_t>;

// Shorter lines cost a pointwise kernel more than a copy does.
constexpr std::int64_t kShortestLine = 32;

bool same_strides(const Strides& a, const Strides& b, const Dims& dims) {
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] != 1 && a[d] != b[d]) return false;
  }
  return true;
}

// N, H, W, C with a pitch from a pixel to the next.
bool is_image(const Strides& s, const Dims& dims) {
  if (dims.size() < 3 || (dims[1] != 1 && s[1] != 1)) return false;
  std::int64_t step = pixel_pitch(s, dims);
  for (std::size_t d = dims.size(); d-- > 0;) {
    if (d == 1) continue;
    if (dims[d] != 1 && s[d] != step) return false;
    step *= dims[d];
  }
  return true;
}

class Placer {
 public:
  Placer(const LGraph& graph, bool share) : graph_(graph) {
    const std::size_t count = graph.values.size();
    producer_.assign(count, nullptr);
    readers_.resize(count);
    is_output_.assign(count, false);
    parent_.assign(count, {});
    places_.values.resize(count);
    places_.done.resize(count);
    for (const LOp& op : graph.ops) {
      producer_[index(op.y)] = &op;
      for (const int v : reads(op)) readers_[index(v)].push_back(&op);
    }
    for (const int v : graph.outputs) is_output_[index(v)] = true;
    // The last first: what a value's own memory turns out to be is known before its inputs'.
    for (std::size_t i = graph.ops.size(); share && i-- > 0;) {
      if (const auto* copy = std::get_if<LCopy>(&graph.ops[i].kind)) visit(graph.ops[i], *copy);
    }
    for (std::size_t v = 0; v < count; ++v) places_.values[v] = resolve(static_cast<int>(v));
  }

  Places take() { return std::move(places_); }

 private:
  struct Parent {
    int value = -1;
    std::vector<std::int64_t> start;
  };

  static std::size_t index(int v) { return static_cast<std::size_t>(v); }
  const LValue& value(int v) const { return graph_.values[index(v)]; }

  Place resolve(int v) const {
    const Parent& parent = parent_[index(v)];
    if (parent.value >= 0) {
      Place p = resolve(parent.value);
      for (std::size_t d = 0; d < parent.start.size(); ++d) {
        p.offset += parent.start[d] * p.strides[d];
      }
      return p;
    }
    const LOp* op = producer_[index(v)];
    if (op != nullptr) {
      if (const auto* view = std::get_if<LView>(&op->kind)) {
        Place p = resolve(view->x);
        p.strides = strides_of(value(v));
        return p;
      }
    }
    return {v, 0, strides_of(value(v))};
  }

  // Whether an op may read value v with these strides.
  bool may_read(const LOp& op, int v, const Strides& s) const {
    const LValue& x = value(v);
    if (same_strides(s, strides_of(x), x.dims)) return true;
    if (std::holds_alternative<LConv>(op.kind) || std::holds_alternative<LPool>(op.kind)) {
      return is_image(s, x.dims);
    }
    if (std::holds_alternative<LEw>(op.kind)) {
      for (std::size_t d = 0; d < x.dims.size(); ++d) {
        if (s[d] == 1 && x.dims[d] >= kShortestLine) return value(op.y).dims.size() <= 4;
      }
      return false;
    }
    if (std::holds_alternative<LReduce>(op.kind)) return x.dims.size() <= 4;
    if (std::holds_alternative<LCopy>(op.kind)) {
      // A slice that lies in v moves with it.
      return parent_[index(op.y)].value != v || all_may_read(op.y, s);
    }
    return false;
  }
  bool all_may_read(int v, const Strides& s) const {
    return std::all_of(readers_[index(v)].begin(), readers_[index(v)].end(),
                       [&](const LOp* op) { return may_read(*op, v, s); });
  }
  bool may_write(const LOp& op, const Strides& s) const {
    const LValue& y = value(op.y);
    if (std::holds_alternative<LView>(op.kind)) return false;
    if (same_strides(s, strides_of(y), y.dims)) return true;
    if (std::holds_alternative<LConv>(op.kind) || std::holds_alternative<LPool>(op.kind)) {
      return is_image(s, y.dims);
    }
    const auto* copy = std::get_if<LCopy>(&op.kind);
    return copy != nullptr && !copy->fill;
  }

  static bool all_are(const std::vector<std::int64_t>& v, std::int64_t what) {
    return std::all_of(v.begin(), v.end(), [&](std::int64_t i) { return i == what; });
  }

  void visit(const LOp& op, const LCopy& copy) {
    if (copy.fill) return;
    const LValue& y = value(op.y);
    if (copy.pieces.size() == 1 && as_slice(op, copy.pieces[0])) {
      places_.done[index(op.y)] = {true};
      return;
    }
    const Place to = resolve(op.y);
    std::vector<bool> done(copy.pieces.size(), false);
    for (std::size_t i = 0; i < copy.pieces.size(); ++i) {
      const CopyPiece& piece = copy.pieces[i];
      const LValue& x = value(piece.x);
      const LOp* from = producer_[index(piece.x)];
      if (from == nullptr || is_output_[index(piece.x)] || parent_[index(piece.x)].value >= 0 ||
          piece.size != x.dims || !all_are(piece.x_start, 0) || !all_are(piece.x_step, 1) ||
          !same_memory(x.order, y.order, x.dims) || !may_write(*from, to.strides) ||
          !all_may_read(piece.x, to.strides)) {
        continue;
      }
      parent_[index(piece.x)] = {op.y, piece.y_start};
      done[i] = true;
    }
    places_.done[index(op.y)] = done;
  }

  bool as_slice(const LOp& op, const CopyPiece& piece) {
    const LValue &x = value(piece.x), &y = value(op.y);
    if (is_output_[index(op.y)] || parent_[index(op.y)].value >= 0 || x.is_constant() ||
        piece.size != y.dims || !all_are(piece.y_start, 0) || !all_are(piece.x_step, 1) ||
        !same_memory(x.order, y.order, x.dims)) {
      return false;
    }
    if (!all_may_read(op.y, resolve(piece.x).strides)) return false;
    parent_[index(op.y)] = {piece.x, piece.x_start};
    return true;
  }

  const LGraph& graph_;
  std::vector<const LOp*> producer_;
  std::vector<std::vector<const LOp*>> readers_;
  std::vector<bool> is_output_;
  std::vector<Parent> parent_;
  Places places_;
};

}  // namespace

std::int64_t pixel_pitch(const Strides& strides, const Dims& dims) {
  for (std::size_t d = dims.size(); d-- > 0;) {
    if (d != 1 && dims[d] != 1) return strides[d];
  }
  return dims[1];
}

Places find_places(const LGraph& graph, bool share) { return Placer(graph, share).take(); }

}  // namespace xrt::lite
