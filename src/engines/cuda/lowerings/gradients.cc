// SPDX-License-Identifier: Apache-2.0
// What convolutions and pools change with: cuDNN's where it is there, else a thread sums what meets
// one element. ConvTranspose is that of a convolution's operand.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "engines/cuda/code.h"
#include "engines/cuda/fused.h"
#include "engines/cuda/layouts.h"
#include "engines/cuda/lowering.h"
#include "engines/cuda/training.h"
#include "engines/cuda/windows.h"

namespace xrt::cuda {
namespace gradients {
namespace {

using Coordinates = std::vector<std::string>;

std::string sum_type(const View& view) {
  return view.dtype == DType::kFloat64 ? "double" : "float";
}

bool has_library(const Planner& planner, const NodeView& node, DType dtype) {
  return planner.options().has_cudnn && dtype != DType::kFloat64 &&
         !planner.options().generated.contains(std::string(node.name()));
}

void queue_convolution(Planner& planner, const NodeView& node, const Window& window,
                       ConvolutionStep step) {
  step.strides = window.strides;
  step.dilations = window.dilations;
  step.pads_begin = window.begin;
  step.pads_end = window.end;
  Step made;
  made.what = planner.what();
  made.first = std::string(node.name());
  for (const auto& [result, view] : {std::pair{ConvolutionStep::Result::kX, &step.x},
                                     {ConvolutionStep::Result::kW, &step.w},
                                     {ConvolutionStep::Result::kY, &step.y}}) {
    (result == step.result ? made.writes : made.reads).push_back(view->buffer);
  }
  made.work = std::move(step);
  planner.step(std::move(made));
}

// "i64 k0 = …" loops over a window; `before` each body says where its element lies.
std::string window_loops(const Window& window, const std::vector<std::string>& before) {
  std::string text;
  for (std::size_t i = 0; i < before.size(); ++i) {
    text += fmt::format("for (i64 k{0} = 0; k{0} < {1}ll; ++k{0}) {{\n{2}", i, window.kernel[i],
                        before[i]);
  }
  return text;
}

// y[n, c…] of x[n, m…] and w[m, c / group…]: x's element i meets y's at i · stride - pad + k ·
// dilation.
void transposed_convolution(Planner& planner, const NodeView& node) {
  const GraphView& graph = planner.graph();
  const Window window = *window_of(graph, node);
  const TypeView type = graph.type(node.output(0));
  const std::int64_t groups = node.attr_int("group", 1);
  const std::size_t n = window.kernel.size();
  View x = planner.view(node.input(0)), w = planner.view(node.input(1));
  const bool has_bias = node.input(2).valid();
  View y;
  if (has_library(planner, node, type.dtype())) {
    const std::vector<std::size_t> order = image_order(type.dtype(), type.rank());
    ConvolutionStep step;
    step.result = ConvolutionStep::Result::kX;
    step.x = y = planner.temporary(type.dtype(), type.dims(), order);
    step.w = brought_to(planner, w, order);
    step.y = brought_to(planner, x, order);
    queue_convolution(planner, node, window, std::move(step));
  } else {
    y = planner.temporary_for(node.output(0));
    const std::string sum = sum_type(x);
    planner.elementwise(planner.what(), {x, w}, y, [&](const Coordinates& c) {
      std::string text = fmt::format("{} sum = 0;\nconst i64 group = {} / {}ll, own = {} % {}ll;\n",
                                     sum, c[1], w.dims[1], c[1], w.dims[1]);
      text += fmt::format("for (i64 m = group * {0}ll; m < (group + 1) * {0}ll; ++m) {{\n",
                          x.dims[1] / groups);
      std::vector<std::string> before;
      std::string from = fmt::format("{} * {}ll + m * {}ll", c[0], x.strides[0], x.strides[1]);
      std::string factor = fmt::format("m * {}ll + own * {}ll", w.strides[0], w.strides[1]);
      for (std::size_t i = 0; i < n; ++i) {
        before.push_back(fmt::format(
            "const i64 d{0} = {1} + {2}ll - k{0} * {3}ll, s{0} = d{0} / {4}ll;\n"
            "if (d{0} < 0 || d{0} % {4}ll != 0 || s{0} >= {5}ll) continue;\n",
            i, c[i + 2], window.begin[i], window.dilations[i], window.strides[i], x.dims[i + 2]));
        from += fmt::format(" + s{} * {}ll", i, x.strides[i + 2]);
        factor += fmt::format(" + k{} * {}ll", i, w.strides[i + 2]);
      }
      text += window_loops(window, before);
      text += fmt::format("sum += ({0}){1} * ({0}){2};\n", sum, loaded(x.dtype, "p0[" + from + "]"),
                          loaded(w.dtype, "p1[" + factor + "]"));
      text += std::string(n + 1, '}') + "\n";
      return text + fmt::format("q0[at] = {};\n", stored(y.dtype, "sum"));
    });
  }
  if (has_bias) {
    Fused fused;
    fused.what = planner.what();
    fused.dims = y.dims;
    fused.leaves = {y, broadcast(planner.view(node.input(2)), y.dims, 1)};
    fused.results = {{planner.temporary(y.dtype, y.dims, axes_by_stride(y)), "x0_ + x1_"}};
    emit_pointwise(planner, fused);
    y = fused.results.front().view;
  }
  planner.define(node.output(0), y);
}

// dw[m, c / group…] of x[n, c…] and dy[n, m…].
void weight_gradient(Planner& planner, const NodeView& node) {
  const GraphView& graph = planner.graph();
  const Window window = *window_of(graph, node);
  const TypeView type = graph.type(node.output(0));
  const std::int64_t groups = node.attr_int("group", 1);
  const std::size_t n = window.kernel.size();
  const View x = planner.view(node.input(0)), dy = planner.view(node.input(1));
  if (has_library(planner, node, type.dtype())) {
    const std::vector<std::size_t> order = image_order(type.dtype(), type.rank());
    ConvolutionStep step;
    step.result = ConvolutionStep::Result::kW;
    step.x = brought_to(planner, x, order);
    step.w = planner.temporary(type.dtype(), type.dims(), order);
    step.y = brought_to(planner, dy, order);
    planner.define(node.output(0), step.w);
    queue_convolution(planner, node, window, std::move(step));
    return;
  }
  const View dw = planner.temporary_for(node.output(0));
  const std::string sum = sum_type(x);
  planner.elementwise(planner.what(), {x, dy}, dw, [&](const Coordinates& c) {
    std::string text = fmt::format("{} sum = 0;\nconst i64 channel = {} / {}ll * {}ll + {};\n", sum,
                                   c[0], dw.dims[0] / groups, dw.dims[1], c[1]);
    text += fmt::format("for (i64 b = 0; b < {}ll; ++b) {{\n", x.dims[0]);
    std::string from = fmt::format("b * {}ll + channel * {}ll", x.strides[0], x.strides[1]);
    std::string of = fmt::format("b * {}ll + {} * {}ll", dy.strides[0], c[0], dy.strides[1]);
    for (std::size_t i = 0; i < n; ++i) {
      text += fmt::format(
          "for (i64 o{0} = 0; o{0} < {1}ll; ++o{0}) {{\n"
          "const i64 s{0} = o{0} * {2}ll - {3}ll + {4} * {5}ll;\n"
          "if (s{0} < 0 || s{0} >= {6}ll) continue;\n",
          i, dy.dims[i + 2], window.strides[i], window.begin[i], c[i + 2], window.dilations[i],
          x.dims[i + 2]);
      from += fmt::format(" + s{} * {}ll", i, x.strides[i + 2]);
      of += fmt::format(" + o{} * {}ll", i, dy.strides[i + 2]);
    }
    text += fmt::format("sum += ({0}){1} * ({0}){2};\n", sum, loaded(x.dtype, "p0[" + from + "]"),
                        loaded(dy.dtype, "p1[" + of + "]"));
    text += std::string(n + 1, '}') + "\n";
    return text + fmt::format("q0[at] = {};\n", stored(dw.dtype, "sum"));
  });
  planner.define(node.output(0), dw);
}

// dx of x and dy: dy goes to the first of a window's largest elements.
void pool_gradient(Planner& planner, const NodeView& node) {
  const GraphView& graph = planner.graph();
  const Window window = *window_of(graph, node);
  const std::size_t n = window.kernel.size();
  const View x = planner.view(node.input(0)), dy = planner.view(node.input(1));
  const View dx = planner.temporary(x.dtype, x.dims,
                                    x.is_dense() ? axes_by_stride(x) : std::vector<std::size_t>{});
  const std::string sum = sum_type(x);
  planner.elementwise(planner.what(), {x, dy}, dx, [&](const Coordinates& c) {
    std::string text = fmt::format("{} sum = 0;\n", sum);
    std::string own = fmt::format("{} * {}ll + {} * {}ll", c[0], x.strides[0], c[1], x.strides[1]);
    std::string other = own;
    std::string of = fmt::format("{} * {}ll + {} * {}ll", c[0], dy.strides[0], c[1], dy.strides[1]);
    std::vector<std::string> before;
    for (std::size_t i = 0; i < n; ++i) {
      own += fmt::format(" + {} * {}ll", c[i + 2], x.strides[i + 2]);
      other += fmt::format(" + t{} * {}ll", i, x.strides[i + 2]);
      of += fmt::format(" + o{} * {}ll", i, dy.strides[i + 2]);
      before.push_back(fmt::format(
          "const i64 d{0} = {1} + {2}ll - k{0} * {3}ll, o{0} = d{0} / {4}ll;\n"
          "if (d{0} < 0 || d{0} % {4}ll != 0 || o{0} >= {5}ll) continue;\n",
          i, c[i + 2], window.begin[i], window.dilations[i], window.strides[i], dy.dims[i + 2]));
    }
    text += fmt::format("const {0} value = {1};\n", computed_type(x.dtype),
                        loaded(x.dtype, "p0[" + own + "]"));
    text += window_loops(window, before);
    // Whether it is the first of the largest ones: none before is as large, none behind larger.
    text += "bool is_first = true, before = true;\n";
    std::string is_here = "true";
    for (std::size_t i = 0; i < n; ++i) {
      text += fmt::format(
          "for (i64 j{0} = 0; j{0} < {1}ll; ++j{0}) {{\n"
          "const i64 t{0} = o{0} * {2}ll - {3}ll + j{0} * {4}ll;\n"
          "if (t{0} < 0 || t{0} >= {5}ll) continue;\n",
          i, window.kernel[i], window.strides[i], window.begin[i], window.dilations[i],
          x.dims[i + 2]);
      is_here += fmt::format(" && j{0} == k{0}", i);
    }
    text += fmt::format(
        "if ({0}) {{ before = false; continue; }}\nconst {1} v = {2};\n"
        "if (before ? v >= value : v > value) is_first = false;\n",
        is_here, computed_type(x.dtype), loaded(x.dtype, "p0[" + other + "]"));
    text += std::string(n, '}');
    text +=
        fmt::format("\nif (is_first) sum += ({}){};\n", sum, loaded(dy.dtype, "p1[" + of + "]"));
    text += std::string(n, '}') + "\n";
    return text + fmt::format("q0[at] = {};\n", stored(dx.dtype, "sum"));
  });
  planner.define(node.output(0), dx);
}

}  // namespace
}  // namespace gradients

void add_gradients(LoweringRegistry& registry) {
  registry.add("ConvTranspose",
               {.supports = supports_windows, .emit = gradients::transposed_convolution});
  registry.add("xrt.ConvWeightGradient",
               {.supports = supports_windows, .emit = gradients::weight_gradient});
  registry.add("xrt.MaxPoolGradient",
               {.supports = supports_windows, .emit = gradients::pool_gradient});
  registry.add("xrt.BatchNormalizationGradient",
               {.supports = [](const GraphView& graph, const NodeView& node) {
                 const TypeView type = graph.type(node.input(0));
                 if (type.rank() < 2 || !is_float(type.dtype())) {
                   return Support::no("it has no channels, or they are no floats");
                 }
                 return Support::yes();
               }});
  // These are written out before anything is planned (training.h).
  registry.add("NegativeLogLikelihoodLoss", {.supports = supports_loss});
  registry.add("SoftmaxCrossEntropyLoss", {.supports = supports_loss});
  registry.add("Dropout", {.supports = supports_dropout});
  // In recomputed parts: the value, once the other operand is there, as all before it is.
  registry.add("xrt.After", {.emit = [](Planner& planner, const NodeView& node) {
                 planner.define(node.output(0), planner.view(node.input(0)));
               }});
}

}  // namespace xrt::cuda
