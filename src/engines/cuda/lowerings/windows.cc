// SPDX-License-Identifier: Apache-2.0
// Convolutions and pools. Convolutions of half precision lie channels last, as tensor cores want
// them, and are cuDNN's where it is there.
#include "engines/cuda/windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "engines/cuda/chains.h"
#include "engines/cuda/channel_windows.h"
#include "engines/cuda/code.h"
#include "engines/cuda/fused.h"
#include "engines/cuda/layouts.h"
#include "engines/cuda/lowering.h"

namespace xrt::cuda {

std::optional<Window> window_of(const GraphView& graph, const NodeView& node) {
  const std::size_t n = graph.type(node.input(0)).rank() - 2;
  Window window;
  window.kernel = node.attr_ints("kernel_shape");
  window.strides = node.attr_ints("strides", std::vector<std::int64_t>(n, 1));
  window.dilations = node.attr_ints("dilations", std::vector<std::int64_t>(n, 1));
  const std::vector<std::int64_t> pads = node.attr_ints("pads", std::vector<std::int64_t>(2 * n));
  if (node.attr_string("auto_pad", "NOTSET") != "NOTSET" || window.kernel.size() != n ||
      pads.size() != 2 * n) {
    return std::nullopt;
  }
  const auto half = pads.begin() + static_cast<std::ptrdiff_t>(n);
  window.begin.assign(pads.begin(), half);
  window.end.assign(half, pads.end());
  return window;
}

Support supports_windows(const GraphView& graph, const NodeView& node) {
  const TypeView type = graph.type(node.input(0));
  if (!is_float(type.dtype())) {
    return Support::no(fmt::format("there is no kernel of it for {}", to_string(type.dtype())));
  }
  if (type.rank() < 3 || type.rank() > 5) return Support::no("it has one to three spatial axes");
  return window_of(graph, node) ? Support::yes() : Support::no("its padding is not written out");
}

std::vector<std::size_t> image_order(DType dtype, std::size_t rank) {
  if (dtype != DType::kFloat32) return channels_last(rank);
  std::vector<std::size_t> order(rank);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

namespace {

// One thread per element of the result.
void convolve(Planner& planner, const NodeView& node) {
  const GraphView& graph = planner.graph();
  const Window window = *window_of(graph, node);
  const View x = planner.view(node.input(0));
  const View w = planner.view(node.input(1));
  View y = planner.temporary_for(node.output(0));
  std::vector<View> reads{x, w};
  if (node.input(2).valid()) reads.push_back(planner.view(node.input(2)));
  const std::int64_t groups = node.attr_int("group", 1);
  const std::size_t n = window.kernel.size();
  const std::string type = x.dtype == DType::kFloat64 ? "double" : "float";
  planner.elementwise(planner.what(), reads, y, [&](const std::vector<std::string>& c) {
    std::string text = fmt::format("{} sum = 0;\n", type);
    text += fmt::format("const i64 group = {} / {}ll;\n", c[1], w.dims[0] / groups);
    text += fmt::format("for (i64 d = 0; d < {}ll; ++d) {{\n", w.dims[1]);
    std::string from = fmt::format("{} * {}ll + (group * {}ll + d) * {}ll", c[0], x.strides[0],
                                   w.dims[1], x.strides[1]);
    std::string factor = fmt::format("{} * {}ll + d * {}ll", c[1], w.strides[0], w.strides[1]);
    for (std::size_t i = 0; i < n; ++i) {
      text += fmt::format(
          "for (i64 k{0} = 0; k{0} < {1}ll; ++k{0}) {{\n"
          "const i64 s{0} = {2} * {3}ll - {4}ll + k{0} * {5}ll;\n"
          "if (s{0} < 0 || s{0} >= {6}ll) continue;\n",
          i, window.kernel[i], c[i + 2], window.strides[i], window.begin[i], window.dilations[i],
          x.dims[i + 2]);
      from += fmt::format(" + s{} * {}ll", i, x.strides[i + 2]);
      factor += fmt::format(" + k{} * {}ll", i, w.strides[i + 2]);
    }
    text += fmt::format("sum += ({0}){1} * ({0}){2};\n", type, loaded(x.dtype, "p0[" + from + "]"),
                        loaded(w.dtype, "p1[" + factor + "]"));
    text += std::string(n + 1, '}') + "\n";
    if (reads.size() > 2) {
      text += fmt::format("sum += {};\n",
                          loaded(x.dtype, fmt::format("p2[{} * {}ll]", c[1], reads[2].strides[0])));
    }
    return text + fmt::format("q0[at] = {};\n", stored(y.dtype, "sum"));
  });
  planner.define(node.output(0), y);
}

Support supports_pool(const GraphView& graph, const NodeView& node) {
  const TypeView type = graph.type(node.input(0));
  if (type.rank() < 3) return Support::no("it has no plane");
  if (node.op() != "MaxPool" && !is_float(type.dtype())) {
    return Support::no(fmt::format("there is no kernel of it for {}", to_string(type.dtype())));
  }
  return window_of(graph, node) ? Support::yes() : Support::no("its padding is not written out");
}

void pool(Planner& planner, const NodeView& node) {
  const GraphView& graph = planner.graph();
  const Window window = *window_of(graph, node);
  const View x = planner.view(node.input(0));
  if (is_channel_pool(node, window, x)) {
    const Dims dims = graph.type(node.output(0)).dims();
    const View y = planner.temporary(x.dtype, dims, channels_last(dims.size()));
    emit_channel_pool(planner, node, window, x, y);
    planner.define(node.output(0), y);
    return;
  }
  View y = planner.temporary_for(node.output(0));
  if (x.is_dense()) y = planner.temporary(x.dtype, y.dims, axes_by_stride(x));
  const bool is_max = node.op() == "MaxPool";
  const bool is_norm = node.op() == "LpPool";  // the p-th root of a sum of p-th powers
  const std::int64_t power = node.attr_int("p", 2);
  const bool with_pads = node.attr_int("count_include_pad", 0) != 0;
  const std::size_t n = window.kernel.size();
  const std::string_view type = computed_type(x.dtype);
  std::vector<View> results{y};
  if (node.output(1).valid()) {
    results.push_back(planner.temporary(DType::kInt64, y.dims, axes_by_stride(y)));
    planner.define(node.output(1), results.back());
  }
  // The number of an element, as its tensor lies row-major or with a plane's axes the other way.
  Dims place_strides = row_major_strides(x.dims);
  if (node.attr_int("storage_order", 0) != 0) {
    std::int64_t stride = 1;
    for (std::size_t i = 2; i < n + 2; ++i) {
      place_strides[i] = stride;
      stride *= x.dims[i];
    }
  }
  planner.elementwise(planner.what(), {x}, results, [&](const std::vector<std::string>& c) {
    std::string text = is_max ? fmt::format("{} best = 0;\nbool any = false;\n", type)
                              : fmt::format("{} sum = 0;\ni64 count = 0;\n", type);
    if (results.size() > 1) text += "i64 where = 0;\n";
    std::string where =
        fmt::format("{} * {}ll + {} * {}ll", c[0], place_strides[0], c[1], place_strides[1]);
    std::string from = fmt::format("{} * {}ll + {} * {}ll", c[0], x.strides[0], c[1], x.strides[1]);
    for (std::size_t i = 0; i < n; ++i) {
      text += fmt::format(
          "for (i64 k{0} = 0; k{0} < {1}ll; ++k{0}) {{\n"
          "const i64 s{0} = {2} * {3}ll - {4}ll + k{0} * {5}ll;\n",
          i, window.kernel[i], c[i + 2], window.strides[i], window.begin[i], window.dilations[i]);
      from += fmt::format(" + s{} * {}ll", i, x.strides[i + 2]);
      where += fmt::format(" + s{} * {}ll", i, place_strides[i + 2]);
      if (is_max || !with_pads) {
        text += fmt::format("if (s{0} < 0 || s{0} >= {1}ll) continue;\n", i, x.dims[i + 2]);
      } else {  // rows beyond the padding, where sizes are rounded up, do not count
        text += fmt::format("if (s{0} >= {1}ll) continue;\n", i, x.dims[i + 2] + window.end[i]);
      }
    }
    const std::string value = loaded(x.dtype, "p0[" + from + "]");
    if (is_max) {
      text += fmt::format("const {} v = {};\n", type, value);
      // The first of the largest, or of those that are no numbers.
      if (results.size() > 1) {
        text +=
            fmt::format("if (!any || v > best || (v != v && best == best)) where = {};\n", where);
      }
      text += "best = any ? larger(best, v) : v;\nany = true;\n";
    } else {
      std::string inside = "true";
      for (std::size_t i = 0; with_pads && i < n; ++i) {
        inside += fmt::format(" && s{0} >= 0 && s{0} < {1}ll", i, x.dims[i + 2]);
      }
      const std::string term =
          is_norm ? fmt::format("({0})pow(fabs((double){1}), {2}.0)", type, value, power) : value;
      text += fmt::format("++count;\nif ({}) sum += {};\n", inside, term);
    }
    text += std::string(n, '}') + "\n";
    std::string result = is_max ? "best" : "sum / count";
    if (is_norm) result = fmt::format("({})pow((double)sum, 1.0 / {}.0)", type, power);
    if (results.size() > 1) text += "q1[at] = where;\n";
    return text + fmt::format("q0[at] = {};\n", stored(x.dtype, result));
  });
  planner.define(node.output(0), y);
}

}  // namespace

void fold_norm(Planner& planner, const NodeView& norm, View& w, std::optional<View>& bias) {
  const float epsilon = norm.attr_float("epsilon", 1e-5F);
  const auto along_first = [&](std::size_t input, const Dims& dims) {
    return broadcast(planner.view(norm.input(input)), dims, 0);
  };
  Fused weights;
  weights.what = "the weights of " + planner.what();
  weights.dims = w.dims;
  weights.leaves = {w, along_first(1, w.dims), along_first(4, w.dims)};
  View scaled = w;
  scaled.buffer = planner.temporary(w.dtype, w.dims).buffer;
  scaled.offset = 0;
  weights.results = {
      {scaled, fmt::format("x0_ * (x1_ / sqrtf(x2_ + {}))", float_literal(epsilon))}};
  emit_pointwise(planner, weights);
  w = scaled;
  const Dims channels{w.dims[0]};
  Fused shift;
  shift.what = "the bias of " + planner.what();
  shift.dims = channels;
  for (const std::size_t input : {1, 2, 3, 4}) shift.leaves.push_back(along_first(input, channels));
  shift.results = {{planner.temporary(w.dtype, channels),
                    fmt::format("x1_ - x2_ * (x0_ / sqrtf(x3_ + {}))", float_literal(epsilon))}};
  emit_pointwise(planner, shift);
  bias = shift.results.front().view;
}

void emit_convolution(Planner& planner, const Group& group) {
  const GraphView& graph = planner.graph();
  const NodeView node = graph.node(group.nodes.front());
  const ValueId result = graph.node(group.nodes.back()).output(0);
  const Chain chain = read_chain(graph, group.nodes);
  const Window window = *window_of(graph, node);
  const TypeView type = graph.type(result);
  const std::vector<std::size_t> order = image_order(type.dtype(), type.rank());
  ConvolutionStep step;
  step.x = brought_to(planner, planner.view(node.input(0)), order);
  step.w = brought_to(planner, planner.view(node.input(1)), order);
  step.y = planner.temporary(type.dtype(), type.dims(), order);
  const bool adds_bias = chain.bias && planner.options().unfused.contains(std::string(node.name()));
  if (chain.bias && !adds_bias) step.bias = planner.dense(*chain.bias);
  if (chain.norm) fold_norm(planner, graph.node(*chain.norm), step.w, step.bias);
  if (chain.residual) step.residual = brought_to(planner, planner.view(*chain.residual), order);
  step.strides = window.strides;
  step.dilations = window.dilations;
  step.pads_begin = window.begin;
  step.pads_end = window.end;
  step.activation = chain.activation;
  Step made;
  made.what = planner.what();
  made.reads = {step.x.buffer, step.w.buffer};
  if (step.bias) made.reads.push_back(step.bias->buffer);
  if (step.residual) made.reads.push_back(step.residual->buffer);
  made.writes = {step.y.buffer};
  const View y = step.y;
  made.work = std::move(step);
  made.first = std::string(node.name());
  planner.step(std::move(made));
  planner.define(result, y);
  if (!adds_bias) return;
  Fused sum;
  sum.what = planner.what();
  sum.dims = y.dims;
  sum.leaves = {y, broadcast(planner.view(*chain.bias), y.dims, 1)};
  sum.results = {{planner.temporary(y.dtype, y.dims, order), "x0_ + x1_"}};
  emit_pointwise(planner, sum);
  planner.define(result, sum.results.front().view);
}

void add_windows(LoweringRegistry& registry) {
  registry.add("Conv", {.supports = supports_windows, .emit = convolve});
  registry.add("MaxPool", {.supports = supports_pool, .emit = pool});
  registry.add("LpPool", {.supports = supports_pool, .emit = pool});
  registry.add("AveragePool", {.supports = supports_pool, .emit = pool});
}

}  // namespace xrt::cuda
