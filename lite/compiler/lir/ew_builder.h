// SPDX-License-Identifier: Apache-2.0
// Writes pointwise expressions.
#pragma once

#include <utility>

#include "lir/lir.h"

namespace xrt::lite {

class EwBuilder {
 public:
  EwBuilder(LGraph& graph, bool integer) : graph_(graph) { ew_.integer = integer; }

  // A value; a constant of one element becomes part of the code.
  int in(int value) {
    const LValue& v = graph_.values[static_cast<std::size_t>(value)];
    if (v.is_constant() && v.constant.count() == 1) {
      if (v.dtype == DType::kFloat32) return k(v.constant.data<float>()[0]);
      if (is_integer(v.dtype) || v.dtype == DType::kBool) {
        const std::int64_t n = v.constant.to_int64()[0];
        if (n >= INT32_MIN && n <= INT32_MAX) return k(static_cast<double>(n));
      }
    }
    for (std::size_t i = 0; i < ew_.nodes.size(); ++i) {
      const EwNode& n = ew_.nodes[i];
      if (n.kind == EwNode::Kind::kInput &&
          ew_.inputs[static_cast<std::size_t>(n.input)] == value) {
        return static_cast<int>(i);
      }
    }
    ew_.inputs.push_back(value);
    EwNode node;
    node.kind = EwNode::Kind::kInput;
    node.input = static_cast<int>(ew_.inputs.size()) - 1;
    return push(node);
  }
  int k(double value) {
    EwNode node;
    node.kind = EwNode::Kind::kConst;
    node.value = value;
    return push(node);
  }
  int op(xrt_ew_op code, int a, int b = -1, int c = -1) {
    EwNode node;
    node.op = code, node.a = a, node.b = b, node.c = c;
    return push(node);
  }
  LEw take() { return std::move(ew_); }

 private:
  int push(const EwNode& node) {
    ew_.nodes.push_back(node);
    return static_cast<int>(ew_.nodes.size()) - 1;
  }
  LGraph& graph_;
  LEw ew_;
};

}  // namespace xrt::lite
