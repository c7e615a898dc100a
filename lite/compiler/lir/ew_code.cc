// SPDX-License-Identifier: Apache-2.0
#include "lir/ew_code.h"

#include <bit>

namespace xrt::lite {

namespace {

// Every input as one entry, however often it occurs.
LEw share_inputs(const LEw& ew) {
  LEw result = ew;
  std::vector<int> first(ew.inputs.size(), -1), now(ew.nodes.size());
  for (std::size_t i = 0; i < ew.nodes.size(); ++i) {
    EwNode& n = result.nodes[i];
    for (int* operand : {&n.a, &n.b, &n.c}) {
      if (*operand >= 0) *operand = now[static_cast<std::size_t>(*operand)];
    }
    now[i] = static_cast<int>(i);
    if (n.kind != EwNode::Kind::kInput) continue;
    int& seen = first[static_cast<std::size_t>(n.input)];
    if (seen < 0) seen = static_cast<int>(i);
    now[i] = seen;
  }
  return result;
}

}  // namespace

std::optional<EwCode> assemble(const LEw& given) {
  const LEw ew = share_inputs(given);
  const std::size_t count = ew.nodes.size();
  std::vector<std::size_t> last(count, 0);
  std::vector<bool> needed(count, false);
  needed[count - 1] = true;
  for (std::size_t i = count; i-- > 0;) {
    if (!needed[i]) continue;
    for (const int operand : {ew.nodes[i].a, ew.nodes[i].b, ew.nodes[i].c}) {
      if (operand >= 0) needed[static_cast<std::size_t>(operand)] = true;
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (!needed[i]) continue;
    for (const int operand : {ew.nodes[i].a, ew.nodes[i].b, ew.nodes[i].c}) {
      if (operand >= 0) last[static_cast<std::size_t>(operand)] = i;
    }
  }
  last[count - 1] = count;

  EwCode code;
  std::vector<int> owner(XRT_EW_REGISTERS, -1), place(count, -1);
  const auto take = [&](std::size_t node) {
    for (int r = 0; r < XRT_EW_REGISTERS; ++r) {
      if (owner[static_cast<std::size_t>(r)] < 0) {
        owner[static_cast<std::size_t>(r)] = static_cast<int>(node);
        return place[node] = r;
      }
    }
    return -1;
  };
  const auto emit = [&](xrt_ew_op op, int d, int a, int b) {
    code.words.push_back(static_cast<std::uint32_t>(op) | static_cast<std::uint32_t>(d) << 8 |
                         static_cast<std::uint32_t>(a) << 16 | static_cast<std::uint32_t>(b) << 24);
  };
  // Inputs lie in the first registers.
  if (ew.inputs.size() > XRT_EW_MAX_INPUTS) return std::nullopt;
  for (std::size_t k = 0; k < ew.inputs.size(); ++k) owner[k] = static_cast<int>(count);
  for (std::size_t i = 0; i < count; ++i) {
    const EwNode& n = ew.nodes[i];
    if (n.kind != EwNode::Kind::kInput) continue;
    const auto r = static_cast<std::size_t>(n.input);
    if (place[i] >= 0 || (!needed[i] && owner[r] != static_cast<int>(count))) continue;
    place[i] = n.input;
    owner[r] = needed[i] ? static_cast<int>(i) : -1;
  }
  // A constant is made where it is first read.
  const auto ready = [&](int operand) {
    const auto o = static_cast<std::size_t>(operand);
    if (place[o] >= 0) return place[o];
    const int r = take(o);
    if (r < 0) return -1;
    emit(XRT_EW_CONST, r, 0, 0);
    code.words.push_back(
        ew.integer ? static_cast<std::uint32_t>(static_cast<std::int32_t>(ew.nodes[o].value))
                   : std::bit_cast<std::uint32_t>(static_cast<float>(ew.nodes[o].value)));
    return r;
  };
  for (std::size_t i = 0; i < count; ++i) {
    const EwNode& n = ew.nodes[i];
    if (!needed[i] || n.kind != EwNode::Kind::kOp) continue;
    const int c = n.c >= 0 ? ready(n.c) : 0;
    const int a = ready(n.a), b = n.b >= 0 ? ready(n.b) : a;
    if (a < 0 || b < 0 || c < 0) return std::nullopt;
    const auto release = [&](int operand) {
      if (operand >= 0 && last[static_cast<std::size_t>(operand)] == i) {
        const auto r = static_cast<std::size_t>(place[static_cast<std::size_t>(operand)]);
        if (owner[r] == operand) owner[r] = -1;
      }
    };
    if (n.c >= 0) {
      // SELECT overwrites its condition: a copy of it, max(c, c), is made in the result's place.
      const int d = take(i);
      if (d < 0) return std::nullopt;
      emit(XRT_EW_MAX, d, c, c);
      emit(XRT_EW_SELECT, d, a, b);
      release(n.a), release(n.b), release(n.c);
      continue;
    }
    release(n.a), release(n.b);
    const int d = take(i);
    if (d < 0) return std::nullopt;
    emit(n.op, d, a, b);
  }
  if (place[count - 1] < 0 && ready(static_cast<int>(count) - 1) < 0) return std::nullopt;
  if (code.words.size() > 256) return std::nullopt;
  code.result = place[count - 1];
  return code;
}

}  // namespace xrt::lite
