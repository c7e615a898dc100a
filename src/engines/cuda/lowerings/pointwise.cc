// SPDX-License-Identifier: Apache-2.0
// Ops that compute each element of the result from one element of each operand.
#include <fmt/format.h>

#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "engines/cuda/code.h"
#include "engines/cuda/lowering.h"

namespace xrt::cuda {
namespace {

DType result_type(const GraphView& graph, const NodeView& node) {
  return graph.type(node.output(0)).dtype();
}
DType operand_type(const GraphView& graph, const NodeView& node) {
  return graph.type(node.input(0)).dtype();
}

// "expf", "exp": by what is computed in.
std::string function(const GraphView& graph, const NodeView& node, std::string_view name) {
  return operand_type(graph, node) == DType::kFloat64 ? std::string(name) : std::string(name) + "f";
}

// Names of CUDA's functions of one number.
void add_functions(LoweringRegistry& registry) {
  const std::pair<const char*, const char*> named[] = {
      {"Exp", "exp"},     {"Log", "log"},     {"Sqrt", "sqrt"},   {"Erf", "erf"},
      {"Tanh", "tanh"},   {"Floor", "floor"}, {"Ceil", "ceil"},   {"Round", "rint"},
      {"Sin", "sin"},     {"Cos", "cos"},     {"Tan", "tan"},     {"Asin", "asin"},
      {"Acos", "acos"},   {"Atan", "atan"},   {"Sinh", "sinh"},   {"Cosh", "cosh"},
      {"Asinh", "asinh"}, {"Acosh", "acosh"}, {"Atanh", "atanh"},
  };
  for (const auto& [op, name] : named) {
    const std::string called = name;
    registry.add(
        op, {.supports = needs_floats,
             .expression = [called](const GraphView& graph, const NodeView& node, const Names& x) {
               return fmt::format("{}({})", function(graph, node, called), x[0]);
             }});
  }
}

// Formulas of x, with the node's attributes as literals a and b.
struct Formula {
  const char* op;
  const char* text;  // {0} the operand, {1} and {2} the attributes, {3} the type
  const char* a = nullptr;
  float a_default = 0;
  const char* b = nullptr;
  float b_default = 0;
  bool floats = true;
};

constexpr Formula kFormulas[] = {
    {.op = "Relu", .text = "relu(({3}){0})", .floats = false},
    {.op = "Neg", .text = "-{0}", .floats = false},
    {.op = "Abs", .text = "{0} < 0 ? -{0} : {0} + ({3})0", .floats = false},
    {.op = "Sign", .text = "{0} > 0 ? ({3})1 : {0} < 0 ? ({3})-1 : {0} + ({3})0", .floats = false},
    {.op = "Reciprocal", .text = "1 / {0}"},
    {.op = "Sigmoid", .text = "sigmoid({0})"},
    {.op = "Softplus", .text = "softplus({0})"},
    {.op = "Softsign", .text = "{0} / (1 + ({0} < 0 ? -{0} : {0}))"},
    {.op = "HardSigmoid",
     .text = "larger(({3})0, smaller(({3})1, {1} * {0} + {2}))",
     .a = "alpha",
     .a_default = 0.2F,
     .b = "beta",
     .b_default = 0.5F},
    {.op = "HardSwish",
     .text = "{0} * larger(({3})0, smaller(({3})1, {0} * (({3})1 / ({3})6) + ({3})0.5))"},
    {.op = "LeakyRelu", .text = "{0} < 0 ? {1} * {0} : {0}", .a = "alpha", .a_default = 0.01F},
    {.op = "Elu", .text = "{0} < 0 ? {1} * ({3})expm1({0}) : {0}", .a = "alpha", .a_default = 1.0F},
    {.op = "Celu",
     .text = "larger(({3})0, {0}) + smaller(({3})0, {1} * ({3})expm1({0} / {1}))",
     .a = "alpha",
     .a_default = 1.0F},
    {.op = "Selu",
     .text = "{2} * ({0} > 0 ? {0} : {1} * ({3})expm1({0}))",
     .a = "alpha",
     .a_default = 1.67326319217681884765625F,
     .b = "gamma",
     .b_default = 1.05070102214813232421875F},
    {.op = "ThresholdedRelu", .text = "{0} > {1} ? {0} : ({3})0", .a = "alpha", .a_default = 1.0F},
    {.op = "Shrink",
     .text = "{0} < -{2} ? {0} + {1} : {0} > {2} ? {0} - {1} : ({3})0",
     .a = "bias",
     .a_default = 0.0F,
     .b = "lambd",
     .b_default = 0.5F},
    {.op = "Mish", .text = "{0} * ({3})tanh(softplus({0}))"},
    {.op = "Swish", .text = "{0} * sigmoid({1} * {0})", .a = "alpha", .a_default = 1.0F},
};

void add_formulas(LoweringRegistry& registry) {
  for (const Formula& formula : kFormulas) {
    Lowering lowering;
    if (formula.floats) lowering.supports = needs_floats;
    lowering.expression = [&formula](const GraphView& graph, const NodeView& node, const Names& x) {
      const DType dtype = operand_type(graph, node);
      std::string a;
      std::string b;
      if (formula.a != nullptr) {
        a = literal(dtype, double{node.attr_float(formula.a, formula.a_default)});
      }
      if (formula.b != nullptr) {
        b = literal(dtype, double{node.attr_float(formula.b, formula.b_default)});
      }
      return fmt::format(fmt::runtime(formula.text), x[0], a, b, computed_type(dtype));
    };
    registry.add(formula.op, std::move(lowering));
  }
}

// Of two operands of one type.
void add_binary(LoweringRegistry& registry) {
  const std::pair<const char*, const char*> infix[] = {
      {"Add", "{0} + {1}"},
      {"Sub", "{0} - {1}"},
      {"Mul", "{0} * {1}"},
      {"Equal", "{0} == {1}"},
      {"Greater", "{0} > {1}"},
      {"GreaterOrEqual", "{0} >= {1}"},
      {"Less", "{0} < {1}"},
      {"LessOrEqual", "{0} <= {1}"},
      {"And", "{0} && {1}"},
      {"Or", "{0} || {1}"},
      {"Xor", "{0} != {1}"},
      {"BitwiseAnd", "{0} & {1}"},
      {"BitwiseOr", "{0} | {1}"},
      {"BitwiseXor", "{0} ^ {1}"},
      {"PRelu", "{0} < 0 ? {0} * {1} : {0}"},
  };
  for (const auto& [op, text] : infix) {
    const std::string pattern = text;
    registry.add(op, {.expression = [pattern](const GraphView& /*graph*/, const NodeView& /*node*/,
                                              const Names& x) {
                   return fmt::format(fmt::runtime(pattern), x[0], x[1]);
                 }});
  }
  registry.add("Div",
               {.expression = [](const GraphView& graph, const NodeView& node, const Names& x) {
                 // A whole number over zero has no value; it must not end the program on a
                 // stand-in.
                 if (is_float(operand_type(graph, node))) return fmt::format("{} / {}", x[0], x[1]);
                 return fmt::format("{1} == 0 ? 0 : {0} / {1}", x[0], x[1]);
               }});
  registry.add("Mod",
               {.expression = [](const GraphView& graph, const NodeView& node, const Names& x) {
                 const DType dtype = operand_type(graph, node);
                 if (node.attr_int("fmod", 0) == 0)
                   return fmt::format("remainder_of({}, {})", x[0], x[1]);
                 if (is_float(dtype))
                   return fmt::format("{}({}, {})", function(graph, node, "fmod"), x[0], x[1]);
                 return fmt::format("{1} == 0 ? 0 : {0} % {1}", x[0], x[1]);
               }});
  registry.add("BitShift",
               {.expression = [](const GraphView& graph, const NodeView& node, const Names& x) {
                 const int width = bit_width(operand_type(graph, node));
                 if (node.attr_string("direction", "LEFT") == "LEFT") {
                   return fmt::format("(u64)(i64){1} >= {2}u ? 0 : {0} << {1}", x[0], x[1], width);
                 }
                 // What is shifted out to the right leaves zeros, or the sign of a number that has
                 // one.
                 return fmt::format("(u64)(i64){1} >= {2}u ? ({0} < 0 ? -1 : 0) : {0} >> {1}", x[0],
                                    x[1], width);
               }});
  registry.add("Pow",
               {.expression = [](const GraphView& graph, const NodeView& node, const Names& x) {
                 const DType base = operand_type(graph, node);
                 const DType exponent = graph.type(node.input(1)).dtype();
                 if (base == DType::kFloat64) return fmt::format("pow({}, (double){})", x[0], x[1]);
                 if (is_float(base)) return fmt::format("powf({}, (float){})", x[0], x[1]);
                 if (is_float(exponent))
                   return fmt::format("pow((double){}, (double){})", x[0], x[1]);
                 return fmt::format("power_of_integer({}, (i64){})", x[0], x[1]);
               }});
}

// Of any number of operands.
void add_variadic(LoweringRegistry& registry) {
  const auto nested = [](const char* pattern) {
    return [pattern](const GraphView& /*graph*/, const NodeView& /*node*/, const Names& x) {
      std::string text = x[0];
      for (std::size_t i = 1; i < x.size(); ++i) {
        text = fmt::format(fmt::runtime(pattern), text, x[i]);
      }
      return text;
    };
  };
  registry.add("Max", {.expression = nested("larger({}, {})")});
  registry.add("Min", {.expression = nested("smaller({}, {})")});
  registry.add("Sum", {.expression = nested("({} + {})")});
  registry.add("Mean", {.expression = [nested](const GraphView& graph, const NodeView& node,
                                               const Names& x) {
                 return fmt::format("({}) / {}", nested("({} + {})")(graph, node, x), x.size());
               }});
}

std::string cast(const GraphView& graph, const NodeView& node, const Names& x) {
  const DType to = result_type(graph, node);
  const DType from = operand_type(graph, node);
  if (to == DType::kBool) return x[0] + " != 0";
  if (is_narrow(to) || (from == DType::kFloat64 && is_half(to)))
    return narrowed(node, from, to, x[0]);
  const std::string value =
      from == DType::kFloat64 && to == DType::kFloat32 ? "(float)" + x[0] : x[0];
  // Numbers of few bits are what remains of larger ones.
  if (is_floating(from) && !is_float(to) && bit_width(to) < 64) return "(i64)" + x[0];
  return value;
}

void add_others(LoweringRegistry& registry) {
  registry.add("Cast", {.expression = cast, .narrow = true});
  registry.add("CastLike", {.expression = cast, .operands = 1, .narrow = true, .empty = true});
  registry.add("Not", {.expression = [](const GraphView& /*graph*/, const NodeView& /*node*/,
                                        const Names& x) { return "!" + x[0]; }});
  registry.add("BitwiseNot", {.expression = [](const GraphView& /*graph*/, const NodeView& /*node*/,
                                               const Names& x) { return "~" + x[0]; }});
  registry.add("IsNaN",
               {.expression = [](const GraphView& /*graph*/, const NodeView& /*node*/,
                                 const Names& x) { return fmt::format("{0} != {0}", x[0]); }});
  registry.add(
      "IsInf", {.expression = [](const GraphView& graph, const NodeView& node, const Names& x) {
        const DType dtype = operand_type(graph, node);
        const double infinity = std::numeric_limits<double>::infinity();
        return fmt::format("({0} && {1} == {2}) || ({3} && {1} == {4})",
                           node.attr_int("detect_positive", 1) != 0, x[0], literal(dtype, infinity),
                           node.attr_int("detect_negative", 1) != 0, literal(dtype, -infinity));
      }});
  registry.add("Where", {.expression = [](const GraphView& /*graph*/, const NodeView& /*node*/,
                                          const Names& x) {
                 return fmt::format("{} ? {} : {}", x[0], x[1], x[2]);
               }});
  registry.add("Clip", {.expression = [](const GraphView& /*graph*/, const NodeView& /*node*/,
                                         const Names& x) {
                 std::string text = x[0];
                 if (x.size() > 1 && !x[1].empty())
                   text = fmt::format("larger({}, {})", text, x[1]);
                 if (x.size() > 2 && !x[2].empty())
                   text = fmt::format("smaller({}, {})", text, x[2]);
                 return text;
               }});
  registry.add("Gelu",
               {.supports = needs_floats,
                .expression = [](const GraphView& graph, const NodeView& node, const Names& x) {
                  const DType dtype = operand_type(graph, node);
                  if (node.attr_string("approximate", "none") != "tanh") {
                    return fmt::format("{}({})", is_half(dtype) ? "half_gelu" : "gelu", x[0]);
                  }
                  return fmt::format("{0} * {1} * (1 + {2}({3} * ({0} + {4} * {0} * {0} * {0})))",
                                     x[0], literal(dtype, 0.5), function(graph, node, "tanh"),
                                     literal(dtype, 0.7978845608028654), literal(dtype, 0.044715));
                }});
  // Of inference: a scale and a shift per channel.
  registry.add("BatchNormalization",
               {.supports =
                    [](const GraphView& graph, const NodeView& node) {
                      if (graph.type(node.input(0)).rank() < 2) {
                        return Support::no("there are no channels");
                      }
                      return needs_floats(graph, node);
                    },
                .expression =
                    [](const GraphView& graph, const NodeView& node, const Names& x) {
                      const DType dtype = operand_type(graph, node);
                      return fmt::format("({0} - {3}) * ({1} / {5}({4} + {6})) + {2}", x[0], x[1],
                                         x[2], x[3], x[4], function(graph, node, "sqrt"),
                                         literal(dtype, double{node.attr_float("epsilon", 1e-5F)}));
                    },
                .first_axis = [](const GraphView& /*graph*/, const NodeView& /*node*/,
                                 std::size_t operand) -> std::optional<std::size_t> {
                  if (operand == 0) return std::nullopt;
                  return 1;
                }});
}

}  // namespace

std::string narrowed(const NodeView& node, DType from, DType to, const std::string& value) {
  const bool limits = node.attr_int("saturate", 1) != 0;
  const std::string number = (from == DType::kFloat64 ? "to_odd(" : "(float)(") + value + ")";
  const auto limited = [&](double most) {
    return limits ? fmt::format("limited({}, {})", number, literal(DType::kFloat32, most)) : number;
  };
  switch (to) {
    case DType::kFloat8E4M3FN:
      return limited(448);
    case DType::kFloat8E4M3FNUZ:
      return limited(240);
    case DType::kFloat8E5M2:
    case DType::kFloat8E5M2FNUZ:
      return limited(57344);
    case DType::kFloat4E2M1:
      return fmt::format("nearest_f4({})", number);
    case DType::kFloat8E8M0: {
      const std::string mode = node.attr_string("round_mode", "up");
      return fmt::format("nearest_power({}, {}, {}, {})", number, limits, mode == "up",
                         mode == "nearest");
    }
    default:
      break;
  }
  if (!is_integer(to)) return number;
  // Numbers of few bits are what remains of larger ones.
  const int width = bit_width(to);
  if (is_signed_integer(to)) {
    return fmt::format("(i64)((u64)(i64)({}) << {}) >> {}", value, 64 - width, 64 - width);
  }
  return fmt::format("(i64)({}) & {}", value, (1 << width) - 1);
}

void add_pointwise(LoweringRegistry& registry) {
  add_functions(registry);
  add_formulas(registry);
  add_binary(registry);
  add_variadic(registry);
  add_others(registry);
}

}  // namespace xrt::cuda
