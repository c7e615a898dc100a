// SPDX-License-Identifier: Apache-2.0
// Pointwise operations of lite that are ops of the ONNX standard, both ways: what a node becomes,
// and what a kernel is where a target's compiler takes models (raise.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "kernel.h"

namespace xrt::lite {

struct EwOp {
  enum class Form : std::uint8_t {
    kUnary,
    kBinary,
    kSwapped,  // a > b is b < a
    kFold,     // takes any number of inputs
  };
  std::string_view onnx;
  xrt_ew_op op;
  Form form;
  bool raises = false;  // means the same on float32; of several with one operation, the first
};

inline constexpr auto kEwOps = [] {
  using enum EwOp::Form;
  return std::to_array<EwOp>({
      {"Add", XRT_EW_ADD, kBinary, true},  {"Sub", XRT_EW_SUB, kBinary, true},
      {"Mul", XRT_EW_MUL, kBinary, true},  {"Div", XRT_EW_DIV, kBinary, true},
      {"Min", XRT_EW_MIN, kFold, true},    {"Max", XRT_EW_MAX, kFold, true},
      {"Pow", XRT_EW_POW, kBinary, true},  {"Neg", XRT_EW_NEG, kUnary, true},
      {"Abs", XRT_EW_ABS, kUnary, true},   {"Sqrt", XRT_EW_SQRT, kUnary, true},
      {"Exp", XRT_EW_EXP, kUnary, true},   {"Log", XRT_EW_LOG, kUnary, true},
      {"Tanh", XRT_EW_TANH, kUnary, true}, {"Sigmoid", XRT_EW_SIGMOID, kUnary, true},
      {"Erf", XRT_EW_ERF, kUnary, true},   {"Floor", XRT_EW_FLOOR, kUnary, true},
      {"Ceil", XRT_EW_CEIL, kUnary, true}, {"Round", XRT_EW_ROUND, kUnary, true},
      {"Sin", XRT_EW_SIN, kUnary, true},   {"Cos", XRT_EW_COS, kUnary, true},
      {"Sign", XRT_EW_SIGN, kUnary, true}, {"Sum", XRT_EW_ADD, kFold},
      {"Not", XRT_EW_NOT, kUnary},         {"Equal", XRT_EW_EQ, kBinary},
      {"Less", XRT_EW_LT, kBinary},        {"LessOrEqual", XRT_EW_LE, kBinary},
      {"Greater", XRT_EW_LT, kSwapped},    {"GreaterOrEqual", XRT_EW_LE, kSwapped},
      {"And", XRT_EW_AND, kBinary},        {"Or", XRT_EW_OR, kBinary},
  });
}();

// The row of an op of the standard; null for others.
inline const EwOp* ew_op_of(std::string_view onnx) {
  const auto* found =
      std::find_if(kEwOps.begin(), kEwOps.end(), [&](const EwOp& row) { return row.onnx == onnx; });
  return found == kEwOps.end() ? nullptr : found;
}

// The row whose op a kernel's operation raises to; null where there is none of the same meaning.
inline const EwOp* raised_ew_op(xrt_ew_op op) {
  const auto* found = std::find_if(kEwOps.begin(), kEwOps.end(),
                                   [&](const EwOp& row) { return row.op == op && row.raises; });
  return found == kEwOps.end() ? nullptr : found;
}

}  // namespace xrt::lite
