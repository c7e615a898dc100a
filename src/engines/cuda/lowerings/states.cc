// SPDX-License-Identifier: Apache-2.0
// Ops along the positions of a sequence: LinearAttention, CausalConvWithState, RotaryEmbedding and
// TensorScatter.
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "engines/cuda/code.h"
#include "engines/cuda/lowering.h"
#include "engines/cuda/lowerings/places.h"

namespace xrt::cuda {
namespace states {
namespace {

// Operands of a kernel, of which some are left out.
class Operands {
 public:
  Operands(Planner& planner, const NodeView& node) {
    for (const ValueId value : node.inputs()) {
      names_.push_back(value.valid() ? fmt::format("p{}", views_.size()) : "");
      all_.push_back(value.valid() ? planner.view(value) : View{});
      if (value.valid()) views_.push_back(all_.back());
    }
  }
  bool has(std::size_t input) const { return input < names_.size() && !names_[input].empty(); }
  std::string element(std::size_t input, const Coordinates& c) const {
    return loaded(all_[input].dtype, fmt::format("{}[{}]", names_[input], at(all_[input], c)));
  }
  const View& view(std::size_t input) const { return all_[input]; }
  const std::vector<View>& views() const { return views_; }

 private:
  std::vector<std::string> names_;
  std::vector<View> all_, views_;
};

// Of a state [batch, heads, widths of keys, widths of values]: its columns know nothing of each
// other, and each is one thread's.
void linear_attention(Planner& planner, const NodeView& node) {
  enum Input : std::size_t { kQuery, kKey, kValue, kPast, kDecay, kBeta };
  const GraphView& graph = planner.graph();
  const Operands x(planner, node);
  const Dims query = x.view(kQuery).dims;
  const std::int64_t q_heads = node.attr_int("q_num_heads", 1),
                     heads = node.attr_int("kv_num_heads", 1), group = q_heads / heads,
                     length = query[1], keys = query[2] / q_heads,
                     values = x.view(kValue).dims[2] / heads;
  const bool is_double = x.view(kQuery).dtype == DType::kFloat64;
  const std::string type = is_double ? "double" : "float";
  const std::string rule = node.attr_string("update_rule", "gated_delta");
  const bool decays = rule == "gated" || rule == "gated_delta";
  const bool corrects = rule == "delta" || rule == "gated_delta";
  float scale = node.attr_float("scale", 0);
  if (scale == 0) scale = static_cast<float>(1 / std::sqrt(static_cast<double>(keys)));
  const View state = planner.temporary(is_double ? DType::kFloat64 : DType::kFloat32,
                                       {query[0], heads, keys, values});
  const View y = planner.temporary_for(node.output(0));
  View columns = state;
  columns.dims[2] = 1;
  planner.elementwise(planner.what(), x.views(), {columns, y}, [&](const Coordinates& c) {
    const std::string &batch = c[0], &head = c[1], &column = c[3];
    const auto within = [](const std::string& of, std::int64_t width, const std::string& place) {
      return fmt::format("({}) * {} + {}", of, width, place);
    };
    const std::string key = x.element(kKey, {batch, "t", within(head, keys, "d")});
    const std::string there = fmt::format("q0[at + d * {}ll]", values);
    const std::string rows = fmt::format("for (i64 d = 0; d < {}; ++d) ", keys);
    std::string text =
        fmt::format("{}{} = {};\n", rows, there,
                    x.has(kPast) ? x.element(kPast, {batch, head, "d", column}) : "0");
    text += fmt::format("for (i64 t = 0; t < {}; ++t) {{\n{} v = {};\n", length, type,
                        x.element(kValue, {batch, "t", within(head, values, column)}));
    if (decays) {
      const bool by_key = x.view(kDecay).dims[2] != heads;
      text += fmt::format("{}{} *= exp({});\n", rows, there,
                          x.element(kDecay, {batch, "t", by_key ? within(head, keys, "d") : head}));
    }
    if (corrects) {
      const bool by_head = x.view(kBeta).dims[2] != 1;
      text += fmt::format("{0} known = 0;\n{1}known += {2} * {3};\nv = {4} * (v - known);\n", type,
                          rows, there, key, x.element(kBeta, {batch, "t", by_head ? head : "0"}));
    }
    text += fmt::format("{} sums[{}] = {{}};\n{}{{\nconst {} s = {} + {} * v;\n{} = s;\n", type,
                        group, rows, type, there, key, there);
    const std::string q_head = fmt::format("({} * {} + g)", head, group);
    text += fmt::format("for (int g = 0; g < {}; ++g) sums[g] += s * {};\n}}\n", group,
                        x.element(kQuery, {batch, "t", within(q_head, keys, "d")}));
    const std::string result =
        fmt::format("q1[{}]", at(y, {batch, "t", within(q_head, values, column)}));
    return text + fmt::format(
                      "for (int g = 0; g < {}; ++g) {} = {};\n}}\n", group, result,
                      stored(y.dtype, fmt::format("({}){} * sums[g]", type, float_literal(scale))));
  });
  planner.define(node.output(0), y);
  if (!node.output(1).valid()) return;
  View present = state;
  if (graph.type(node.output(1)).dtype() != state.dtype) {
    present = planner.temporary_for(node.output(1));
    planner.copy(planner.what(), state, present);
  }
  planner.define(node.output(1), present);
}

// Each channel by itself, over its own elements and those before.
void causal_convolution(Planner& planner, const NodeView& node) {
  enum Input : std::size_t { kX, kWeight, kBias, kPast };
  const Operands x(planner, node);
  const std::int64_t kernel = x.view(kWeight).dims[2], length = x.view(kX).dims[2];
  const DType dtype = x.view(kX).dtype;
  const std::string type = dtype == DType::kFloat64 ? "double" : "float";
  // Of position l, which may lie before the first one.
  const auto element = [&](const Coordinates& c) {
    const std::string before =
        x.has(kPast) ? x.element(kPast, {c[0], c[1], fmt::format("l + {}", kernel - 1)}) : "0";
    return fmt::format("(l < 0 ? {} : {})", before, x.element(kX, {c[0], c[1], "l"}));
  };
  const std::string activation = node.attr_string("activation", "none");
  const View y = planner.temporary_for(node.output(0));
  planner.elementwise(planner.what(), x.views(), y, [&](const Coordinates& c) {
    const std::string bias = x.has(kBias) ? x.element(kBias, {c[1]}) : "0";
    std::string text = fmt::format(
        "{} sum = {};\nfor (i64 k = 0; k < {}; ++k) {{\nconst i64 l = {} + k - {};\nsum += {} * "
        "{};\n}}\n",
        type, bias, kernel, c[2], kernel - 1, element(c), x.element(kWeight, {c[1], "0", "k"}));
    if (activation != "none") text += "sum *= sigmoid(sum);\n";
    return text + fmt::format("q0[at] = {};\n", stored(dtype, "sum"));
  });
  planner.define(node.output(0), y);
  if (!node.output(1).valid()) return;
  const View present = planner.temporary_for(node.output(1));
  planner.elementwise(planner.what(), x.views(), present, [&](const Coordinates& c) {
    return fmt::format("const i64 l = {} + {};\nq0[at] = {};\n", c[2], length - kernel + 1,
                       stored(dtype, element(c)));
  });
  planner.define(node.output(1), present);
}

Support supports_rotary(const GraphView& graph, const NodeView& node) {
  const TypeView x = graph.type(node.input(0));
  if (!is_float(x.dtype())) {
    return Support::no("there is no kernel of it for " + std::string(to_string(x.dtype())));
  }
  if (x.rank() == 4 || node.attr_int("num_heads", 0) > 0) return Support::yes();
  return Support::no("its heads are not counted");
}

// Pairs of elements are turned by an angle of their position. Of [batch, heads, positions, width],
// or [batch, positions, heads · width].
void rotary_embedding(Planner& planner, const NodeView& node) {
  enum Input : std::size_t { kX, kCos, kSin, kPlaces };
  const Operands x(planner, node);
  const View& from = x.view(kX);
  const bool is_flat = from.dims.size() == 3;
  const std::int64_t width = is_flat ? from.dims[2] / node.attr_int("num_heads", 1) : from.dims[3];
  const std::int64_t given = node.attr_int("rotary_embedding_dim", 0),
                     turned = given == 0 ? width : given;
  const bool alternates = node.attr_int("interleaved", 0) != 0;
  const std::string type = from.dtype == DType::kFloat64 ? "double" : "float";
  const View y = planner.temporary_for(node.output(0));
  planner.elementwise(planner.what(), x.views(), y, [&](const Coordinates& c) {
    const std::string &batch = c[0], &position = is_flat ? c[1] : c[2];
    std::string text = fmt::format("const i64 d = {} % {}, half = {};\nconst {} own = {};\n",
                                   c.back(), width, turned / 2, type, x.element(kX, c));
    Coordinates pair = c, angle{batch, position, "turn"};
    pair.back() = fmt::format("{} + step", c.back());
    if (x.has(kPlaces))
      angle = {fmt::format("(i64){}", x.element(kPlaces, {batch, position})), "turn"};
    text += alternates
                ? "const bool second = d & 1;\nconst i64 turn = d / 2, step = second ? -1 : 1;\n"
                : "const bool second = d >= half;\nconst i64 turn = d % half, step = second ? "
                  "-half : half;\n";
    return text + fmt::format(
                      "{0} turned = own;\nif (d < 2 * half) turned = {1} * own + (second ? {2} : "
                      "-{2}) * {3};\nq0[at] = {4};\n",
                      type, x.element(kCos, angle), x.element(kSin, angle), x.element(kX, pair),
                      stored(from.dtype, "turned"));
  });
  planner.define(node.output(0), y);
}

// Some positions of a cache are written anew, from a place of each batch on.
void tensor_scatter(Planner& planner, const NodeView& node) {
  enum Input : std::size_t { kPast, kUpdate, kPlaces };
  const Operands x(planner, node);
  const View& past = x.view(kPast);
  const std::size_t axis = axis_of(node, past.dims.size(), -2);
  const bool wraps = node.attr_string("mode", "linear") == "circular";
  const View y = planner.temporary_for(node.output(0));
  planner.elementwise(planner.what(), x.views(), y, [&](const Coordinates& c) {
    std::string text = fmt::format("i64 e = {} - {};\n", c[axis],
                                   x.has(kPlaces) ? "(i64)" + x.element(kPlaces, {c[0]}) : "0");
    if (wraps) text += fmt::format("e = (e % {0} + {0}) % {0};\n", past.dims[axis]);
    Coordinates source = c;
    source[axis] = "e";
    const std::string value = fmt::format("e >= 0 && e < {} ? {} : {}", x.view(kUpdate).dims[axis],
                                          x.element(kUpdate, source), x.element(kPast, c));
    return text + fmt::format("q0[at] = {};\n", stored(y.dtype, value));
  });
  planner.define(node.output(0), y);
}

}  // namespace
}  // namespace states

void add_states(LoweringRegistry& registry) {
  registry.add("LinearAttention", {.supports = needs_floats, .emit = states::linear_attention});
  registry.add("CausalConvWithState",
               {.supports = needs_floats, .emit = states::causal_convolution});
  registry.add("RotaryEmbedding",
               {.supports = states::supports_rotary, .emit = states::rotary_embedding});
  registry.add("TensorScatter", {.emit = states::tensor_scatter});
}

}  // namespace xrt::cuda
