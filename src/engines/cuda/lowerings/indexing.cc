// SPDX-License-Identifier: Apache-2.0
// Ops that compute where an element of the result comes from.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engines/cuda/code.h"
#include "engines/cuda/lowering.h"
#include "engines/cuda/lowerings/places.h"

namespace xrt::cuda {
namespace {

// "i64 k = …;": an index of the operand, counted from the end where it is negative, and kept within
// bounds: those out of range are errors that the runtime finds where it sees them.
std::string index_from(const std::string& element, std::int64_t size) {
  return fmt::format(
      "i64 k = (i64){0};\nk = k < 0 ? k + {1}ll : k;\nk = k < 0 ? 0 : k >= {1}ll ? "
      "{1}ll - 1 : k;\n",
      element, size);
}

void gather(Planner& planner, const NodeView& node) {
  const View from = planner.view(node.input(0));
  const View indices = planner.view(node.input(1));
  const std::size_t axis = axis_of(node, from.dims.size());
  const View to = planner.temporary_for(node.output(0));
  planner.elementwise(planner.what(), {from, indices}, to, [&](const Coordinates& c) {
    const auto first = c.begin() + static_cast<std::ptrdiff_t>(axis);
    const auto last = first + static_cast<std::ptrdiff_t>(indices.dims.size());
    Coordinates source(c.begin(), first);
    source.emplace_back("k");
    source.insert(source.end(), last, c.end());
    return index_from(fmt::format("p1[{}]", at(indices, Coordinates(first, last))),
                      from.dims[axis]) +
           fmt::format("q0[at] = p0[{}];\n", at(from, source));
  });
  planner.define(node.output(0), to);
}

void gather_elements(Planner& planner, const NodeView& node) {
  const View from = planner.view(node.input(0));
  const View indices = planner.view(node.input(1));
  const std::size_t axis = axis_of(node, from.dims.size());
  const View to = planner.temporary_for(node.output(0));
  planner.elementwise(planner.what(), {from, indices}, to, [&](const Coordinates& c) {
    Coordinates source = c;
    source[axis] = "k";
    return index_from(fmt::format("p1[{}]", at(indices, c)), from.dims[axis]) +
           fmt::format("q0[at] = p0[{}];\n", at(from, source));
  });
  planner.define(node.output(0), to);
}

Support supports_pad(const GraphView& graph, const NodeView& node) {
  if (Support answer = needs_constant(graph, node, 1, "pads"); !answer) return answer;
  if (Support answer = needs_constant(graph, node, 3, "axes"); !answer) return answer;
  const ValueId value = node.input(2);
  if (value.valid() && !graph.constant(value).defined()) {
    return Support::no("what it pads with is no constant");
  }
  const std::string mode = node.attr_string("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap") {
    return Support::no("there is no kernel of its mode '" + mode + "'");
  }
  const std::vector<std::int64_t> pads = numbers(graph, node, 1);
  if (mode == "wrap" && std::any_of(pads.begin(), pads.end(), [](auto pad) { return pad < 0; })) {
    return Support::no("it repeats what is left of an axis that it cuts");
  }
  return Support::yes();
}

void pad(Planner& planner, const NodeView& node) {
  const GraphView& graph = planner.graph();
  const View from = planner.view(node.input(0));
  const auto rank = static_cast<std::int64_t>(from.dims.size());
  const std::vector<std::int64_t> pads = numbers(graph, node, 1);
  std::vector<std::int64_t> axes = numbers(graph, node, 3);
  Dims begin(from.dims.size(), 0);
  for (std::size_t i = 0; i < pads.size() / 2; ++i) {
    std::int64_t axis = axes.empty() ? static_cast<std::int64_t>(i) : axes[i];
    if (axis < 0) axis += rank;
    begin[static_cast<std::size_t>(axis)] = pads[i];
  }
  const std::string mode = node.attr_string("mode", "constant");
  const std::string value = node.input(2).valid() ? literal(graph.constant(node.input(2)))
                                                  : literal(from.dtype, std::int64_t{0});
  const View to = planner.temporary_for(node.output(0));
  planner.elementwise(planner.what(), {from}, to, [&](const Coordinates& c) {
    std::string text = "bool inside = true;\n";
    Coordinates source;
    for (std::size_t i = 0; i < c.size(); ++i) {
      const std::int64_t size = from.dims[i];
      std::string k = fmt::format("k{}", i);
      text += fmt::format("i64 {} = {} - {}ll;\n", k, c[i], begin[i]);
      if (mode == "constant") {
        text += fmt::format("inside = inside && {0} >= 0 && {0} < {1}ll;\n", k, size);
      } else if (mode == "edge" || size == 1) {
        text += fmt::format("{0} = {0} < 0 ? 0 : {0} >= {1}ll ? {1}ll - 1 : {0};\n", k, size);
      } else if (mode == "wrap") {
        text += fmt::format("{0} = (({0} % {1}ll) + {1}ll) % {1}ll;\n", k, size);
      } else {
        const std::int64_t period = 2 * (size - 1);
        text += fmt::format(
            "{0} = (({0} % {1}ll) + {1}ll) % {1}ll;\n{0} = {0} >= {2}ll ? {1}ll - {0} : {0};\n", k,
            period, size);
      }
      source.push_back(std::move(k));
    }
    return text + fmt::format("q0[at] = inside ? p0[inside ? {} : 0] : {};\n", at(from, source),
                              stored(from.dtype, value));
  });
  planner.define(node.output(0), to);
}

Support needs_whole_indices(const GraphView& graph, const NodeView& node) {
  const DType dtype = graph.type(node.input(1)).dtype();
  if (dtype == DType::kInt64 || dtype == DType::kInt32) return Support::yes();
  return Support::no(fmt::format("its indices are {}", to_string(dtype)));
}

// Trilu: what is above or below a diagonal becomes zero.
void trilu(Planner& planner, const NodeView& node) {
  const View from = planner.view(node.input(0));
  const View to = planner.temporary_for(node.output(0));
  std::vector<View> reads{from};
  std::string k = "0";
  if (node.input(1).valid()) {
    reads.push_back(planner.view(node.input(1)));
    k = "(i64)p1[0]";
  }
  const bool upper = node.attr_int("upper", 1) != 0;
  planner.elementwise(planner.what(), reads, to, [&](const Coordinates& c) {
    const std::string distance = fmt::format("{} - {}", c[c.size() - 1], c[c.size() - 2]);
    const std::string zero = stored(from.dtype, literal(from.dtype, std::int64_t{0}));
    return fmt::format("q0[at] = {} {} {} ? p0[{}] : {};\n", distance, upper ? ">=" : "<=", k,
                       at(from, c), zero);
  });
  planner.define(node.output(0), to);
}

constexpr std::int64_t kMostOfLine = 4096;

Support supports_top_k(const GraphView& graph, const NodeView& node) {
  const TypeView x = graph.type(node.input(0));
  if (x.dtype() == DType::kBool) return Support::no("there is no kernel of it for bool");
  const std::int64_t size = x.dims()[axis_of(node, x.rank(), -1)];
  if (size <= kMostOfLine) return Support::yes();
  return Support::no(fmt::format("its axis is longer than {}", kMostOfLine));
}

// Each element counts those that come before it, and so knows its place.
void top_k(Planner& planner, const NodeView& node) {
  const View from = planner.dense(node.input(0));
  const std::size_t axis = axis_of(node, from.dims.size(), -1);
  const View values = planner.temporary_for(node.output(0));
  const View places = planner.temporary(DType::kInt64, values.dims);
  // What is no number is larger than all others.
  std::string before = "v < x", same = "v == x";
  const bool largest = node.attr_int("largest", 1) != 0;
  if (largest) before = "v > x";
  if (is_float(from.dtype)) {
    before += largest ? " || (v != v && x == x)" : " || (v == v && x != x)";
    same += " || (v != v && x != x)";
  }
  View all = from;  // whose elements have a thread each
  all.buffer = values.buffer;
  planner.elementwise(planner.what(), {from}, {all, values, places}, [&](const Coordinates& c) {
    Coordinates first = c, place = c;
    first[axis] = "0", place[axis] = "rank";
    const std::string_view type = computed_type(from.dtype);
    return fmt::format(
        "const auto* line = p0 + ({0});\nconst i64 own = {1};\nconst {2} x = {3};\ni64 rank = 0;\n"
        "for (i64 e = 0; e < {4}; ++e) {{\nconst {2} v = {5};\n"
        "rank += {6} || (({7}) && e < own) ? 1 : 0;\n}}\n"
        "if (rank < {8}) q1[{9}] = line[own * {10}ll], q2[{9}] = own;\n",
        at(from, first), c[axis], type,
        loaded(from.dtype, fmt::format("line[own * {}ll]", from.strides[axis])), from.dims[axis],
        loaded(from.dtype, fmt::format("line[e * {}ll]", from.strides[axis])), before, same,
        values.dims[axis], at(values, place), from.strides[axis]);
  });
  planner.define(node.output(0), values);
  if (node.output(1).valid()) planner.define(node.output(1), places);
}

void one_hot(Planner& planner, const NodeView& node) {
  const View indices = planner.view(node.input(0)), values = planner.view(node.input(2));
  const View to = planner.temporary_for(node.output(0));
  const std::size_t axis = axis_of(node, to.dims.size(), -1);
  planner.elementwise(planner.what(), {indices, values}, to, [&](const Coordinates& c) {
    Coordinates of_index = c;
    of_index.erase(of_index.begin() + static_cast<std::ptrdiff_t>(axis));
    return fmt::format("i64 k = (i64){};\nif (k < 0) k += {};\nq0[at] = p1[k == {} ? {}ll : 0];\n",
                       loaded(indices.dtype, fmt::format("p0[{}]", at(indices, of_index))),
                       to.dims[axis], c[axis], values.strides[0]);
  });
  planner.define(node.output(0), to);
}

}  // namespace

void add_indexing(LoweringRegistry& registry) {
  registry.add("Gather", {.supports = needs_whole_indices, .emit = gather});
  registry.add("GatherElements", {.supports = needs_whole_indices, .emit = gather_elements});
  registry.add("Pad", {.supports = supports_pad, .emit = pad});
  registry.add("Trilu", {.emit = trilu});
  registry.add("TopK", {.supports = supports_top_k, .emit = top_k});
  registry.add("OneHot", {.emit = one_hot});
}

}  // namespace xrt::cuda
