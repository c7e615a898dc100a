// SPDX-License-Identifier: Apache-2.0
// Between numbers of few bits, or integers of 32, and what they stand for: element by element, per
// tensor or per axis.
#include <fmt/format.h>

#include <limits>
#include <optional>
#include <string>

#include "engines/cuda/code.h"
#include "engines/cuda/integers.h"
#include "engines/cuda/lowering.h"

namespace xrt::cuda {
namespace {

bool is_quantised(DType dtype) {
  const bool is_short = is_integer(dtype) && bit_width(dtype) <= 16;
  return is_short || (is_narrow(dtype) && dtype != DType::kFloat8E8M0);
}

Support supports_blocks(const GraphView& graph, const NodeView& node, DType real, DType whole) {
  if (real != DType::kFloat32 && !is_half(real)) {
    return Support::no(fmt::format("there is no kernel of it for {}", to_string(real)));
  }
  if (!is_quantised(whole) && (whole != DType::kInt32 || node.op() == "QuantizeLinear")) {
    return Support::no(fmt::format("there is no kernel of it for {}", to_string(whole)));
  }
  const TypeView scale = graph.type(node.input(1));
  if (node.attr_int("block_size", 0) != 0 || scale.rank() > 1) {
    return Support::no("its scale is neither of the whole tensor nor of one axis");
  }
  return Support::yes();
}

Support supports_dequantize(const GraphView& graph, const NodeView& node) {
  return supports_blocks(graph, node, graph.type(node.output(0)).dtype(),
                         graph.type(node.input(0)).dtype());
}

Support supports_quantize(const GraphView& graph, const NodeView& node) {
  // Quotients of halves are rounded to halves before they are rounded to integers.
  const DType real = graph.type(node.input(0)).dtype();
  if (real != graph.type(node.input(1)).dtype() || real != DType::kFloat32) {
    return Support::no(fmt::format("there is no kernel of it for {}", to_string(real)));
  }
  return supports_blocks(graph, node, real, graph.type(node.output(0)).dtype());
}

bool has_zero(const Names& x) { return x.size() > 2 && !x[2].empty(); }

std::string dequantize(const GraphView& graph, const NodeView& node, const Names& x) {
  const DType from = graph.type(node.input(0)).dtype();
  if (is_integer(from) && bit_width(from) <= 8) {
    return fmt::format("difference({}, {}) * {}", x[0], has_zero(x) ? x[2] : "0", x[1]);
  }
  if (!has_zero(x)) return fmt::format("(float){} * {}", x[0], x[1]);
  if (is_floating(from)) return fmt::format("({} - {}) * {}", x[0], x[2], x[1]);
  const bool is_wide = from == DType::kInt32;
  return fmt::format("(float)(({0}){1} - ({0}){2}) * {3}", is_wide ? "i64" : "int", x[0], x[2],
                     x[1]);
}

// "quotient, low, high": what the number without its zero point is.
std::string within_range(DType to, const std::string& quotient, const std::string& zero,
                         bool not_negative = false) {
  const bool is_signed = is_signed_integer(to);
  const int bits = bit_width(to);
  const std::int64_t low = is_signed ? -(std::int64_t{1} << (bits - 1)) : 0;
  const std::int64_t high = (std::int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
  const std::string least = not_negative ? "0" : fmt::format("{} - (int){}", low, zero);
  return fmt::format("{}, {}, {} - (int){}", quotient, least, high, zero);
}

std::string quantised(const GraphView& graph, const NodeView& node, const Names& x,
                      const std::string& quotient, bool not_negative = false) {
  const DType to = graph.type(node.output(0)).dtype();
  if (is_floating(to)) {
    const std::string shift = has_zero(x) ? fmt::format(" + {}", x[2]) : "";
    return narrowed(node, DType::kFloat32, to, quotient + shift);
  }
  const std::string zero = has_zero(x) ? x[2] : "0";
  return fmt::format("nearest_integer({}) + (int){}",
                     within_range(to, quotient, zero, not_negative), zero);
}

std::string quantize(const GraphView& graph, const NodeView& node, const Names& x) {
  return quantised(graph, node, x, fmt::format("{} / {}", x[0], x[1]));
}

// Where a scale or a zero point per axis lies in the result.
std::optional<std::size_t> parameter_axis(const GraphView& graph, const NodeView& node,
                                          std::size_t operand) {
  if (operand == 0) return std::nullopt;
  const TypeView type = graph.type(node.input(operand));
  if (type.rank() == 0 || type.dims()[0] == 1) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(graph.type(node.input(0)).rank());
  const std::int64_t axis = node.attr_int("axis", 1);
  return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
}

}  // namespace

std::string quantised_by_reciprocal(const GraphView& graph, const NodeView& node, const Names& x,
                                    bool not_negative) {
  return quantised(graph, node, x, fmt::format("{} * (1.0f / {})", x[0], x[1]), not_negative);
}

std::string requantised_by_reciprocal(const GraphView& graph, const NodeView& node, const Names& x,
                                      const std::string& scale) {
  const std::string quotient = fmt::format("{} * (1.0f / {})", x[0], x[1]);
  const DType to = graph.type(node.output(0)).dtype();
  return fmt::format("nearest({}) * {}", within_range(to, quotient, has_zero(x) ? x[2] : "0"),
                     scale);
}

void add_quantized(LoweringRegistry& registry) {
  // These are written out before anything is planned (integers.h).
  registry.add("QLinearConv", {.supports = supports_quantised});
  registry.add("QLinearMatMul", {.supports = supports_quantised});
  registry.add("DequantizeLinear", {.supports = supports_dequantize,
                                    .expression = dequantize,
                                    .operands = 3,
                                    .narrow = true,
                                    .first_axis = parameter_axis});
  registry.add("QuantizeLinear", {.supports = supports_quantize,
                                  .expression = quantize,
                                  .operands = 3,
                                  .narrow = true,
                                  .first_axis = parameter_axis});
}

}  // namespace xrt::cuda
