// SPDX-License-Identifier: Apache-2.0
// Ops that compute where an element of the result comes from.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "engines/cuda/code.h"
#include "engines/cuda/lowering.h"

namespace xrt::cuda {
namespace {

using Coordinates = std::vector<std::string>;

std::size_t axis_of(const NodeView& node, std::size_t rank) {
  const std::int64_t axis = node.attr_int("axis", 0);
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

std::string at(const View& view, const Coordinates& coordinates) {
  std::string text = "0";
  for (std::size_t i = 0; i < coordinates.size(); ++i) {
    text += fmt::format(" + ({}) * {}ll", coordinates[i], view.strides[i]);
  }
  return text;
}

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

// --- Resize
// ---------------------------------------------------------------------------------------

std::vector<float> floats(const GraphView& graph, ValueId value) {
  if (!value.valid()) return {};
  const TensorView constant = graph.constant(value);
  const auto* first = constant.data<float>();
  return {first, first + constant.count()};
}

Support supports_resize(const GraphView& graph, const NodeView& node) {
  const DType dtype = graph.type(node.input(0)).dtype();
  const std::string mode = node.attr_string("mode", "nearest");
  if (mode != "nearest" && mode != "linear") {
    return Support::no("there is no kernel of its mode '" + mode + "'");
  }
  if (mode == "linear" && !is_float(dtype)) return Support::no("it interpolates whole numbers");
  if (node.attr_int("antialias", 0) != 0) return Support::no("it filters against aliases");
  if (node.has("axes")) return Support::no("it names its axes");
  if (node.attr_string("keep_aspect_ratio_policy", "stretch") != "stretch") {
    return Support::no("it keeps the aspect ratio");
  }
  const std::string where = node.attr_string("coordinate_transformation_mode", "half_pixel");
  constexpr std::array kKnown = {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"};
  if (std::find(kKnown.begin(), kKnown.end(), where) == kKnown.end()) {
    return Support::no("there is no kernel of its coordinates '" + where + "'");
  }
  for (const std::size_t i : {2, 3}) {
    const ValueId value = node.input(i);
    if (value.valid() && !graph.constant(value).defined()) {
      return Support::no("its sizes are no constant");
    }
  }
  const ValueId scales = node.input(2);
  if (scales.valid() && graph.constant(scales).dtype() != DType::kFloat32) {
    return Support::no("its scales are not float32");
  }
  if (graph.type(node.input(0)).rank() > 5) return Support::no("it has more than five axes");
  return Support::yes();
}

// Where along an axis an element of the result lies in the operand: "float s3 = …;".
std::string source_of(const NodeView& node, const std::string& c, std::size_t axis, float scale,
                      std::int64_t from, std::int64_t to) {
  const std::string where = node.attr_string("coordinate_transformation_mode", "half_pixel");
  const std::string index = fmt::format("(float)({})", c);
  if (where == "align_corners") {
    const float step =
        to == 1 ? 0.0F
                : static_cast<float>(static_cast<double>(from - 1) / static_cast<double>(to - 1));
    return fmt::format("const float s{} = {} * {};\n", axis, index, float_literal(step));
  }
  if (where == "asymmetric") {
    return fmt::format("const float s{} = {} / {};\n", axis, index, float_literal(scale));
  }
  if (where == "pytorch_half_pixel" && to <= 1) return fmt::format("const float s{} = 0;\n", axis);
  return fmt::format("const float s{} = ({} + 0.5f) / {} - 0.5f;\n", axis, index,
                     float_literal(scale));
}

std::string nearest(const NodeView& node, std::size_t axis) {
  const std::string mode = node.attr_string("nearest_mode", "round_prefer_floor");
  if (mode == "floor") return fmt::format("floorf(s{})", axis);
  if (mode == "ceil") return fmt::format("ceilf(s{})", axis);
  if (mode == "round_prefer_ceil") return fmt::format("floorf(s{} + 0.5f)", axis);
  return fmt::format("ceilf(s{} - 0.5f)", axis);
}

void resize(Planner& planner, const NodeView& node) {
  const GraphView& graph = planner.graph();
  const View from = planner.view(node.input(0));
  View to = planner.temporary_for(node.output(0));
  if (from.is_dense()) to = planner.temporary(from.dtype, to.dims, axes_by_stride(from));
  std::vector<float> scales = floats(graph, node.input(2));
  if (scales.empty()) {
    for (std::size_t i = 0; i < from.dims.size(); ++i) {
      scales.push_back(
          static_cast<float>(static_cast<double>(to.dims[i]) / static_cast<double>(from.dims[i])));
    }
  }
  const bool linear = node.attr_string("mode", "nearest") == "linear";
  planner.elementwise(planner.what(), {from}, to, [&](const Coordinates& c) {
    std::string text;
    Coordinates source = c;
    std::vector<std::size_t> between;  // axes that are interpolated
    for (std::size_t i = 0; i < c.size(); ++i) {
      if (from.dims[i] == to.dims[i] && scales[i] == 1.0F) continue;
      text += source_of(node, c[i], i, scales[i], from.dims[i], to.dims[i]);
      const std::int64_t last = from.dims[i] - 1;
      if (!linear) {
        text += fmt::format(
            "i64 n{0} = (i64){1};\nn{0} = n{0} < 0 ? 0 : n{0} > {2}ll ? {2}ll : "
            "n{0};\n",
            i, nearest(node, i), last);
        source[i] = fmt::format("n{}", i);
        continue;
      }
      // Beyond the ends the outermost element goes on.
      text += fmt::format(
          "const float g{0} = floorf(s{0}), f{0} = s{0} - g{0};\n"
          "i64 a{0} = (i64)g{0}, b{0} = a{0} + 1;\n"
          "a{0} = a{0} < 0 ? 0 : a{0} > {1}ll ? {1}ll : a{0};\n"
          "b{0} = b{0} < 0 ? 0 : b{0} > {1}ll ? {1}ll : b{0};\n",
          i, last);
      between.push_back(i);
    }
    if (between.empty()) return text + fmt::format("q0[at] = p0[{}];\n", at(from, source));
    const bool is_double = from.dtype == DType::kFloat64;
    text += fmt::format("{} sum = 0;\n", is_double ? "double" : "float");
    for (std::size_t corner = 0; corner < std::size_t{1} << between.size(); ++corner) {
      std::string weight;
      for (std::size_t b = 0; b < between.size(); ++b) {
        const bool upper = (corner >> b & 1) != 0;
        source[between[b]] = fmt::format("{}{}", upper ? 'b' : 'a', between[b]);
        weight +=
            upper ? fmt::format(" * f{}", between[b]) : fmt::format(" * (1 - f{})", between[b]);
      }
      text += fmt::format("sum += {}{};\n",
                          loaded(from.dtype, fmt::format("p0[{}]", at(from, source))), weight);
    }
    return text + fmt::format("q0[at] = {};\n", stored(from.dtype, "sum"));
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

}  // namespace

void add_indexing(LoweringRegistry& registry) {
  registry.add("Gather", {.supports = needs_whole_indices, .emit = gather});
  registry.add("GatherElements", {.supports = needs_whole_indices, .emit = gather_elements});
  registry.add("Pad", {.supports = supports_pad, .emit = pad});
  registry.add("Resize", {.supports = supports_resize, .emit = resize});
  registry.add("Trilu", {.emit = trilu});
}

}  // namespace xrt::cuda
