// SPDX-License-Identifier: Apache-2.0
// Ops whose results lie between elements of the operand: Resize and GridSample.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "engines/cuda/code.h"
#include "engines/cuda/lowering.h"
#include "engines/cuda/lowerings/places.h"

namespace xrt::cuda {
namespace sampling {
namespace {

constexpr const char* kWeights = R"(
template <typename T> __device__ inline T linear_weight(T x) {
  x = x < 0 ? -x : x;
  return x < 1 ? 1 - x : (T)0;
}
template <typename T> __device__ inline T cubic_weight(T x, T a) {
  x = x < 0 ? -x : x;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : (T)0;
}
// To and fro between two ends.
template <typename T> __device__ inline T reflected(T x, T low, T high) {
  const T range = high - low;
  if (range <= 0) return low;
  T beyond = x < low ? low - x : x > high ? x - high : (T)-1;
  if (beyond < 0) return x;
  const T turns = floor(beyond / range), rest = beyond - turns * range;
  const bool at_first = (turns - 2 * floor(turns / 2) == 0) == (x < low);
  return at_first ? low + rest : high - rest;
}
)";

// The elements of one axis that a result is made of, number by number.
struct Taps {
  std::size_t axis;
  std::string first, count;
  std::string find;    // statements that make a place n of number e
  std::string weight;  // of number e
};

// Statements that end with the weighted sum of the elements in `sum`.
std::string weighted_sum(const std::vector<Taps>& axes, const std::string& type,
                         const std::string& element) {
  std::string text = fmt::format("{} sum = 0;\n", type), product = element;
  for (const Taps& taps : axes) {
    text += fmt::format(
        "for (int k{0} = 0; k{0} < {1}; ++k{0}) {{\nconst int e{0} = {2} + k{0};\nint n{0} = "
        "e{0};\n"
        "{3}const {4} w{0} = {5};\n",
        taps.axis, taps.count, taps.first, taps.find, type, taps.weight);
    product += fmt::format(" * w{}", taps.axis);
  }
  return text + "sum += " + product + ";\n" + std::string(axes.size(), '}') + "\n";
}

std::string within_ends(std::size_t axis, std::int64_t size) {
  return fmt::format("n{0} = n{0} < 0 ? 0 : n{0} > {1} ? {1} : n{0};\n", axis, size - 1);
}

// --- Resize ---

enum Input : std::size_t { kX, kRoi, kScales, kSizes };

bool has(const GraphView& graph, const NodeView& node, std::size_t input) {
  const ValueId value = node.input(input);
  return value.valid() && element_count(graph.type(value).dims()) > 0;
}

Support supports_resize(const GraphView& graph, const NodeView& node) {
  const DType dtype = graph.type(node.input(kX)).dtype();
  const std::string mode = node.attr_string("mode", "nearest");
  if (mode != "nearest" && !is_float(dtype)) return Support::no("it interpolates whole numbers");
  const std::string where = node.attr_string("coordinate_transformation_mode", "half_pixel");
  constexpr std::array kKnown = {"half_pixel",           "asymmetric",
                                 "align_corners",        "pytorch_half_pixel",
                                 "half_pixel_symmetric", "tf_crop_and_resize"};
  if (std::find(kKnown.begin(), kKnown.end(), where) == kKnown.end()) {
    return Support::no("there is no kernel of its coordinates '" + where + "'");
  }
  const bool crops = where == "tf_crop_and_resize";
  if (crops &&
      (!has(graph, node, kRoi) || graph.type(node.input(kRoi)).dtype() == DType::kFloat64)) {
    return Support::no("its region is left out or of float64");
  }
  if (has(graph, node, kScales) && graph.type(node.input(kScales)).dtype() != DType::kFloat32) {
    return Support::no("its scales are not float32");
  }
  return Support::yes();
}

// The code of one Resize.
class Resize {
 public:
  Resize(Planner& planner, const NodeView& node)
      : planner_(planner),
        graph_(planner.graph()),
        node_(node),
        from_(planner.view(node.input(kX))),
        mode_(node.attr_string("mode", "nearest")),
        where_(node.attr_string("coordinate_transformation_mode", "half_pixel")),
        filters_(node.attr_int("antialias", 0) != 0 && mode_ != "nearest") {
    const auto rank = static_cast<std::int64_t>(from_.dims.size());
    for (const std::int64_t axis : node.attr_ints("axes")) {
      axes_.push_back(static_cast<std::size_t>(axis < 0 ? axis + rank : axis));
    }
    if (!axes_.empty()) return;
    axes_.resize(from_.dims.size());
    std::iota(axes_.begin(), axes_.end(), std::size_t{0});
  }

  void run() {
    View to = planner_.temporary_for(node_.output(0));
    if (from_.is_dense()) to = planner_.temporary(from_.dtype, to.dims, axes_by_stride(from_));
    reads_ = {from_};
    const std::string scales = scales_code(to);
    type_ = from_.dtype == DType::kFloat64 ? "double" : "float";
    planner_.define_code(kWeights);
    const auto body = [&](const Coordinates& c) { return scales + element(c, to); };
    // The operands are known when the code has been made.
    const std::string made = body(Coordinates(from_.dims.size(), "0"));
    planner_.elementwise(planner_.what(), reads_, to, body);
    planner_.define(node_.output(0), to);
  }

 private:
  // What a number of an operand is: a literal, or where the kernel finds it.
  std::string number(std::size_t input, std::size_t i) {
    const ValueId value = node_.input(input);
    if (const TensorView constant = graph_.constant(value); constant.defined()) {
      if (constant.dtype() == DType::kFloat32) return float_literal(constant.data<float>()[i]);
      if (constant.dtype() == DType::kInt64) {
        return float_literal(static_cast<float>(constant.data<std::int64_t>()[i]));
      }
    }
    const View view = planner_.view(value);
    const auto [place, is_new] = operands_.try_emplace(input, reads_.size());
    if (is_new) reads_.push_back(view);
    return "(float)" +
           loaded(view.dtype, fmt::format("p{}[{}ll]", place->second,
                                          static_cast<std::int64_t>(i) * view.strides[0]));
  }

  // "const float r2 = …;": how much larger each axis becomes.
  std::string scales_code(const View& to) {
    std::string text;
    std::string common;  // of all axes, where their ratio is kept
    const std::string policy = node_.attr_string("keep_aspect_ratio_policy", "stretch");
    const bool has_sizes = has(graph_, node_, kSizes);
    for (std::size_t i = 0; has_sizes && policy != "stretch" && i < axes_.size(); ++i) {
      const std::string ratio = fmt::format("{} / {}.0f", number(kSizes, i), from_.dims[axes_[i]]);
      common = common.empty()
                   ? ratio
                   : fmt::format("{}({}, {})", policy == "not_larger" ? "fminf" : "fmaxf", common,
                                 ratio);
    }
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const std::size_t axis = axes_[i];
      std::string scale = common;
      if (!has_sizes) {
        scale = number(kScales, i);
      } else if (common.empty()) {
        scale = float_literal(static_cast<float>(static_cast<double>(to.dims[axis]) /
                                                 static_cast<double>(from_.dims[axis])));
      }
      if (from_.dims[axis] == to.dims[axis] && scale == float_literal(1) &&
          where_ != "tf_crop_and_resize") {
        continue;  // it stays as it is
      }
      resized_.push_back(i);
      text += fmt::format("const float r{} = {};\n", axis, scale);
    }
    return text;
  }

  // "const float s2 = …;": where along an axis an element of the result lies in the operand.
  std::string place(std::size_t i, const std::string& c, std::int64_t to) {
    const std::size_t axis = axes_[i];
    const std::int64_t from = from_.dims[axis];
    const std::string index = fmt::format("(float)({})", c);
    // The result's width is not rounded where scales give it.
    const std::string width = has(graph_, node_, kSizes) ? fmt::format("{}.0f", to)
                                                         : fmt::format("(r{} * {}.0f)", axis, from);
    const std::string along = fmt::format("{} / ({} - 1)", index, width);
    std::string value;
    if (where_ == "align_corners") {
      value = fmt::format("{0} == 1 ? 0.0f : {1} * {2}.0f", width, along, from - 1);
    } else if (where_ == "asymmetric") {
      value = fmt::format("{} / r{}", index, axis);
    } else if (where_ == "tf_crop_and_resize") {
      const std::string first = number(kRoi, i), last = number(kRoi, i + axes_.size());
      value = fmt::format("({0} + ({1} - {0}) * ({2} == 1 ? 0.5f : {3})) * {4}.0f", first, last,
                          width, along, from - 1);
    } else if (where_ == "pytorch_half_pixel" && to <= 1) {
      value = "0";
    } else {
      value = fmt::format("({} + 0.5f) / r{} - 0.5f", index, axis);
      // The middles of both stay together where sizes have been rounded.
      if (where_ == "half_pixel_symmetric") {
        value += fmt::format(" + {0}.0f / 2 * (1 - {1}.0f / (r{2} * {0}.0f))", from, to, axis);
      }
    }
    return fmt::format("const float s{} = {};\n", axis, value);
  }

  std::string nearest(std::size_t axis) const {
    const std::string mode = node_.attr_string("nearest_mode", "round_prefer_floor");
    if (mode == "floor") return fmt::format("floorf(s{})", axis);
    if (mode == "ceil") return fmt::format("ceilf(s{})", axis);
    if (mode == "round_prefer_ceil") return fmt::format("floorf(s{} + 0.5f)", axis);
    return fmt::format("ceilf(s{} - 0.5f)", axis);
  }

  // Statements before the loops over the elements, and those.
  Taps taps(std::size_t axis, std::string& text) const {
    const bool is_cubic = mode_ == "cubic";
    const int reach = is_cubic ? 2 : 1;
    Taps made{axis,
              fmt::format("first{}", axis),
              fmt::format("{}", 2 * reach),
              within_ends(axis, from_.dims[axis]),
              {}};
    std::string distance = fmt::format("({})(s{} - (float)e{})", type_, axis, axis);
    if (filters_) {  // over as many elements as one of the result stands for
      text += fmt::format(
          "const float f{0} = fminf(r{0}, 1.0f);\n"
          "const int first{0} = (int)floorf(s{0} - {1} / f{0}) + 1;\n"
          "const int taps{0} = (int)ceilf(s{0} + {1} / f{0}) - first{0};\n",
          axis, reach);
      made.count = fmt::format("taps{}", axis);
      distance += fmt::format(" * f{}", axis);
    } else {
      text += fmt::format("const int first{0} = (int)floorf(s{0}) - {1};\n", axis, reach - 1);
    }
    const std::string a =
        literal(DType::kFloat32, double{node_.attr_float("cubic_coeff_a", -0.75F)});
    made.weight = is_cubic ? fmt::format("cubic_weight({}, ({}){})", distance, type_, a)
                           : fmt::format("linear_weight({})", distance);
    const bool excludes = node_.attr_int("exclude_outside", 0) != 0;
    if (excludes) {
      made.weight =
          fmt::format("(e{0} < 0 || e{0} >= {1} ? 0 : {2})", axis, from_.dims[axis], made.weight);
    }
    if (excludes || filters_) {
      text += fmt::format(
          "{0} total{1} = 0;\nfor (int k = 0; k < {2}; ++k) {{ const int e{1} = first{1} + k; "
          "total{1} += {3}; }}\nif (total{1} == 0) total{1} = 1;\n",
          type_, axis, made.count, made.weight);
      made.weight += fmt::format(" / total{}", axis);
    }
    return made;
  }

  std::string element(const Coordinates& c, const View& to) {
    std::string text, beyond = "false";
    Coordinates source = c;
    std::vector<Taps> between;
    for (const std::size_t i : resized_) {
      const std::size_t axis = axes_[i];
      text += place(i, c[axis], to.dims[axis]);
      beyond += fmt::format(" || s{0} < 0 || s{0} > {1}.0f", axis, from_.dims[axis] - 1);
      source[axis] = fmt::format("n{}", axis);
      if (mode_ == "nearest") {
        text += fmt::format("int n{} = (int){};\n", axis, nearest(axis)) +
                within_ends(axis, from_.dims[axis]);
      } else {
        between.push_back(taps(axis, text));
      }
    }
    const std::string there = fmt::format("p0[{}]", at(from_, source));
    std::string value = there;
    if (mode_ != "nearest") {
      text +=
          weighted_sum(between, type_, fmt::format("({}){}", type_, loaded(from_.dtype, there)));
      value = stored(from_.dtype, "sum");
    }
    if (where_ == "tf_crop_and_resize") {
      value = fmt::format(
          "{} ? {} : {}", beyond,
          stored(from_.dtype,
                 literal(from_.dtype, double{node_.attr_float("extrapolation_value", 0)})),
          value);
    }
    return text + fmt::format("q0[at] = {};\n", value);
  }

  Planner& planner_;
  const GraphView& graph_;
  const NodeView node_;
  const View from_;
  const std::string mode_, where_;
  const bool filters_;
  std::string type_;
  std::vector<std::size_t> axes_;     // those that are named, or all
  std::vector<std::size_t> resized_;  // of axes_
  std::vector<View> reads_;
  std::map<std::size_t, std::size_t> operands_;  // input → place in reads_
};

// --- GridSample ---

Support supports_grid_sample(const GraphView& graph, const NodeView& node) {
  if (graph.type(node.input(0)).rank() < 3) return Support::no("it has no plane");
  return needs_floats(graph, node);
}

void grid_sample(Planner& planner, const NodeView& node) {
  const View x = planner.view(node.input(0)), grid = planner.view(node.input(1));
  const View to = planner.temporary_for(node.output(0));
  const std::string mode = node.attr_string("mode", "linear");
  const std::string padding = node.attr_string("padding_mode", "zeros");
  const bool aligns = node.attr_int("align_corners", 0) != 0;
  const bool is_nearest = mode == "nearest", is_cubic = mode == "cubic" || mode == "bicubic";
  const bool is_double = x.dtype == DType::kFloat64 || grid.dtype == DType::kFloat64;
  const std::string type = is_double ? "double" : "float";
  planner.define_code(kWeights);
  planner.elementwise(planner.what(), {x, grid}, to, [&](const Coordinates& c) {
    const std::size_t count = x.dims.size() - 2;
    std::string text;
    std::vector<Taps> between;
    Coordinates source{c[0], c[1]}, point{c[0]};
    point.insert(point.end(), c.begin() + 2, c.end());
    point.emplace_back();
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t size = x.dims[i + 2];
      point.back() = fmt::format("{}", count - 1 - i);  // the last axis comes first
      const std::string given = fmt::format(
          "(({}){} + 1)", type, loaded(grid.dtype, fmt::format("p1[{}]", at(grid, point))));
      const std::string low = aligns ? "0" : "-0.5";
      const std::string high = fmt::format("{}", size - 1) + (aligns ? "" : ".5");
      text += fmt::format("{} s{} = ", type, i);
      text += aligns ? fmt::format("{} / 2 * {};\n", given, size - 1)
                     : fmt::format("({} * {} - 1) / 2;\n", given, size);
      if (is_nearest) text += fmt::format("s{0} = rint(s{0});\n", i);
      if (padding == "border") {
        text += fmt::format(
            "if (s{0} < {1} || s{0} > {2}) s{0} = s{0} < 0 ? 0 : s{0} > {3} ? {3} : s{0};\n", i,
            low, high, size - 1);
      } else if (padding == "reflection") {
        text += fmt::format("s{0} = reflected<{1}>(s{0}, {2}, {3});\n", i, type, low, high);
      }
      Taps taps{i, fmt::format("(int)floor(s{})", i), "2", {}, {}};
      taps.weight = fmt::format("linear_weight(s{0} - e{0})", i);
      if (is_nearest) taps.count = "1", taps.weight = "1";
      if (is_cubic) {
        taps.first += " - 1", taps.count = "4";
        taps.weight = fmt::format("cubic_weight<{1}>(s{0} - e{0}, -0.75)", i, type);
      }
      if (padding == "zeros") {
        taps.find = fmt::format("if (n{0} < 0 || n{0} >= {1}) continue;\n", i, size);
      } else if (padding == "reflection") {
        taps.find =
            fmt::format("n{0} = (int)reflected<{1}>(n{0}, {2}, {3});\n", i, type, low, high);
      }
      taps.find += within_ends(i, size);
      between.push_back(std::move(taps));
      source.push_back(fmt::format("n{}", i));
    }
    return text +
           weighted_sum(
               between, type,
               fmt::format("({}){}", type, loaded(x.dtype, fmt::format("p0[{}]", at(x, source))))) +
           fmt::format("q0[at] = {};\n", stored(x.dtype, is_double ? "sum" : "(float)sum"));
  });
  planner.define(node.output(0), to);
}

}  // namespace
}  // namespace sampling

void add_sampling(LoweringRegistry& registry) {
  registry.add("Resize",
               {.supports = sampling::supports_resize,
                .emit = [](Planner& planner,
                           const NodeView& node) { sampling::Resize(planner, node).run(); },
                .empty = true});
  registry.add("GridSample",
               {.supports = sampling::supports_grid_sample, .emit = sampling::grid_sample});
}

}  // namespace xrt::cuda
