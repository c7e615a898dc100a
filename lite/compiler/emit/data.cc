// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "emit/emit.h"
#include "lir/ew_code.h"
#include "xrt/error.h"

namespace xrt::lite {
namespace {

// Nested loops with a stride per operand; dimensions that all operands walk through evenly become
// one.
struct Loops {
  Dims dims;
  std::vector<std::vector<std::int64_t>> strides;  // [operand][dimension]

  void add(std::int64_t size, const std::vector<std::int64_t>& step) {
    if (size == 1) return;
    bool joins = !dims.empty();
    for (std::size_t o = 0; o < step.size() && joins; ++o) {
      joins = strides[o].back() == step[o] * size;
    }
    if (joins) {
      dims.back() *= size;
      for (std::size_t o = 0; o < step.size(); ++o) strides[o].back() = step[o];
      return;
    }
    dims.push_back(size);
    strides.resize(step.size());
    for (std::size_t o = 0; o < step.size(); ++o) strides[o].push_back(step[o]);
  }
};

[[noreturn]] void too_many(const LOp& op) {
  throw Error(ErrorCode::kUnsupported,
              "op '" + op.name + "': more dimensions than the kernel has loops");
}

// Sizes before and after `axis` in memory.
std::pair<std::int64_t, std::int64_t> around(const LValue& v, int axis) {
  std::int64_t before = 1, after = 1;
  bool seen = false;
  for (const int d : v.order) {
    if (d == axis) {
      seen = true;
    } else {
      (seen ? after : before) *= v.dims[static_cast<std::size_t>(d)];
    }
  }
  return {before, after};
}

}  // namespace

void Emitter::emit(const LOp& op, const LEw& k) {
  const LValue& y = value(op.y);
  std::vector<std::vector<std::int64_t>> steps = {strides(op.y)};
  for (const int v : k.inputs) {
    const LValue& x = value(v);
    const auto& s = strides(v);
    std::vector<std::int64_t> step(y.dims.size(), 0);
    for (std::size_t d = 0; d < x.dims.size(); ++d) {
      if (x.dims[d] != 1) step[d + y.dims.size() - x.dims.size()] = s[d];
    }
    steps.push_back(step);
  }
  Loops loops;
  loops.strides.resize(steps.size());
  for (const int d : y.order) {
    std::vector<std::int64_t> step;
    step.reserve(steps.size());
    for (const auto& s : steps) step.push_back(s[static_cast<std::size_t>(d)]);
    loops.add(y.dims[static_cast<std::size_t>(d)], step);
  }
  if (loops.dims.size() > XRT_EW_MAX_RANK) too_many(op);
  const auto code = assemble(k);
  if (!code) throw Error(ErrorCode::kUnsupported, "op '" + op.name + "': expression too long");
  xrt_k_ew p = {};
  const std::size_t rank = loops.dims.size(), shift = XRT_EW_MAX_RANK - rank;
  p.rank = XRT_EW_MAX_RANK;
  std::fill_n(p.dims, XRT_EW_MAX_RANK, 1);
  for (std::size_t d = 0; d < rank; ++d) p.dims[d + shift] = word(loops.dims[d]);
  p.domain = k.integer ? 1 : 0;
  p.inputs = static_cast<std::int32_t>(k.inputs.size());
  p.code_words = static_cast<std::int32_t>(code->words.size());
  p.result = code->result;
  p.y_dtype = static_cast<std::int32_t>(y.dtype);
  std::vector<std::uint32_t> words(sizeof(p) / 4);
  std::memcpy(words.data(), &p, sizeof(p));
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < k.inputs.size(); ++i) {
    xrt_ew_input in = {};
    in.dtype = static_cast<std::int32_t>(value(k.inputs[i]).dtype);
    for (std::size_t d = 0; d < rank; ++d) in.strides[d + shift] = word(loops.strides[i + 1][d]);
    const std::size_t at = words.size();
    words.resize(at + sizeof(in) / 4);
    std::memcpy(words.data() + at, &in, sizeof(in));
    operands.push_back(operand(k.inputs[i]));
  }
  words.insert(words.end(), code->words.begin(), code->words.end());
  operands.push_back(operand(op.y));
  push(op, XRT_K_EW, words.data(), words.size() * 4, std::move(operands),
       choose(op, XRT_K_EW, words.data()), static_cast<double>(y.count()));
}

void Emitter::emit(const LOp& op, const LCopy& k) {
  const LValue& y = value(op.y);
  const auto& ys = strides(op.y);
  const auto bytes = static_cast<std::int32_t>(bit_width(y.dtype) / 8);
  if (k.fill) {
    xrt_k_fill f = {};
    f.count = word(y.count());
    f.element_bytes = bytes;
    f.low = static_cast<std::uint32_t>(k.fill_bits);
    f.high = static_cast<std::uint32_t>(k.fill_bits >> 32);
    push(op, XRT_K_FILL, f, {operand(op.y)});
  }
  const std::vector<bool>& done = places_.done[static_cast<std::size_t>(op.y)];
  for (std::size_t i = 0; i < k.pieces.size(); ++i) {
    if (!done.empty() && done[i]) continue;
    const CopyPiece& piece = k.pieces[i];
    const auto& xs = strides(piece.x);
    Loops loops;
    loops.strides.resize(2);
    std::int64_t x_at = 0, y_at = 0;
    bool empty = false;
    for (const int o : y.order) {
      const auto d = static_cast<std::size_t>(o);
      x_at += piece.x_start[d] * xs[d];
      y_at += piece.y_start[d] * ys[d];
      empty = empty || piece.size[d] <= 0;
      loops.add(piece.size[d], {xs[d] * piece.x_step[d], ys[d]});
    }
    if (empty) continue;
    xrt_k_copy p = {};
    p.rank = static_cast<std::int32_t>(loops.dims.size());
    if (p.rank > XRT_LITE_MAX_RANK) too_many(op);
    for (std::size_t d = 0; d < loops.dims.size(); ++d) {
      p.dims[d] = word(loops.dims[d]);
      p.x_strides[d] = word(loops.strides[0][d]);
      p.y_strides[d] = word(loops.strides[1][d]);
    }
    p.x_offset = word(x_at), p.y_offset = word(y_at);
    p.element_bytes = bytes;
    push(op, XRT_K_COPY, p, {operand(piece.x), operand(op.y)});
  }
}

void Emitter::emit(const LOp& op, const LReduce& k) {
  const LValue& x = value(k.x);
  const auto& xs = strides(k.x);
  Loops kept, reduced;
  kept.strides.resize(2), reduced.strides.resize(1);
  std::int64_t step = value(op.y).count();
  for (const int o : x.order) {
    const auto d = static_cast<std::size_t>(o);
    if (std::find(k.axes.begin(), k.axes.end(), o) != k.axes.end()) {
      reduced.add(x.dims[d], {xs[d]});
    } else {
      step /= x.dims[d];
      kept.add(x.dims[d], {xs[d], step});
    }
  }
  if (kept.dims.size() > 4 || reduced.dims.size() > 4) too_many(op);
  xrt_k_reduce p = {};
  p.kind = k.kind;
  std::fill_n(p.kept, 4, 1);
  std::fill_n(p.reduced, 4, 1);
  for (std::size_t d = 0; d < kept.dims.size(); ++d) {
    const std::size_t to = d + 4 - kept.dims.size();
    p.kept[to] = word(kept.dims[d]);
    p.kept_strides[to] = word(kept.strides[0][d]);
  }
  for (std::size_t d = 0; d < reduced.dims.size(); ++d) {
    const std::size_t to = d + 4 - reduced.dims.size();
    p.reduced[to] = word(reduced.dims[d]);
    p.reduced_strides[to] = word(reduced.strides[0][d]);
  }
  push(op, XRT_K_REDUCE, p, {operand(k.x), operand(op.y)}, static_cast<double>(x.count()));
}

void Emitter::emit(const LOp& op, const LSoftmax& k) {
  const auto [outer, inner] = around(value(k.x), k.axis);
  const xrt_k_softmax p = {word(outer), word(value(k.x).dims[static_cast<std::size_t>(k.axis)]),
                           word(inner), k.log ? 1 : 0};
  push(op, XRT_K_SOFTMAX, p, {operand(k.x), operand(op.y)},
       static_cast<double>(value(k.x).count()));
}

void Emitter::emit(const LOp& op, const LNorm& k) {
  const std::int64_t size = k.scale.count();
  xrt_k_norm p = {};
  p.outer = word(value(k.x).count() / size), p.size = word(size);
  p.flags = k.bias.defined() ? XRT_HAS_BIAS : 0;
  p.epsilon = k.epsilon;
  std::vector<Operand> operands = {operand(k.x), constant(k.scale)};
  if (k.bias.defined()) operands.push_back(constant(k.bias));
  operands.push_back(operand(op.y));
  push(op, XRT_K_NORM, p, std::move(operands), static_cast<double>(value(k.x).count()));
}

void Emitter::emit(const LOp& op, const LGather& k) {
  const LValue &x = value(k.x), &indices = value(k.indices);
  const auto [outer, inner] = around(x, k.axis);
  const xrt_k_gather p = {word(outer),
                          word(x.dims[static_cast<std::size_t>(k.axis)]),
                          word(inner),
                          word(indices.count()),
                          bit_width(x.dtype) / 8,
                          static_cast<std::int32_t>(indices.dtype)};
  push(op, XRT_K_GATHER, p, {operand(k.x), operand(k.indices), operand(op.y)});
}

void Emitter::emit(const LOp& op, const LResize& k) {
  const LValue &x = value(k.x), &y = value(op.y);
  xrt_k_resize p = {};
  p.n = word(x.dims[0]), p.c = word(x.dims[1]);
  p.ih = word(x.dims[2]), p.iw = word(x.dims[3]), p.oh = word(y.dims[2]), p.ow = word(y.dims[3]);
  p.linear = k.linear ? 1 : 0, p.half_pixel = k.half_pixel ? 1 : 0;
  p.scale_h = k.scale_h, p.scale_w = k.scale_w;
  push(op, XRT_K_RESIZE, p, {operand(k.x), operand(op.y)}, static_cast<double>(y.count()));
}

void Emitter::emit(const LOp& op, const LArg& k) {
  const auto [outer, inner] = around(value(k.x), k.axis);
  const xrt_k_arg p = {word(outer), word(value(k.x).dims[static_cast<std::size_t>(k.axis)]),
                       word(inner), k.minimum ? 1 : 0};
  push(op, XRT_K_ARG, p, {operand(k.x), operand(op.y)}, static_cast<double>(value(k.x).count()));
}

}  // namespace xrt::lite
