// SPDX-License-Identifier: Apache-2.0
// Products of matrices: cuBLASLt's where it is there and knows the type, else generated ones.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "engines/cuda/chains.h"
#include "engines/cuda/code.h"
#include "engines/cuda/lowering.h"

namespace xrt::cuda {
namespace {

// y[batch][m][n] of both factors, as views with all axes.
struct Product {
  View a, b;  // [batch…, m, k] and [batch…, k, n], batches broadcast
  Dims batch;
  std::int64_t m = 0, n = 0, k = 0;
  double factor = 1;  // of the result
};

// A float32 value that holds, times a number, what a value of half precision holds: products of it
// are those of the latter.
struct Widened {
  View view;
  double factor = 1;
};

std::optional<double> scalar_of(const GraphView& graph, ValueId value) {
  const TensorView constant = graph.constant(value);
  if (!constant.defined() || constant.count() != 1 || constant.dtype() != DType::kFloat32) {
    return std::nullopt;
  }
  return double{*constant.data<float>()};
}

std::optional<Widened> widened(const Planner& planner, ValueId value) {
  const GraphView& graph = planner.graph();
  const NodeId producer = graph.producer(value);
  if (!producer.valid() || graph.type(value).dtype() != DType::kFloat32) return std::nullopt;
  const NodeView node = graph.node(producer);
  const std::string op = node.qualified_op();
  if (op == "Cast") {
    const ValueId source = node.input(0);
    const DType dtype = graph.type(source).dtype();
    if (!is_half(dtype) || !planner.has(source)) return std::nullopt;
    return Widened{planner.view(source)};
  }
  if (op == "Mul" || op == "Div") {
    for (const std::size_t i : {0, 1}) {
      const auto factor = scalar_of(graph, node.input(1 - i));
      if (!factor || (op == "Div" && i == 1)) continue;
      std::optional<Widened> inner = widened(planner, node.input(i));
      if (inner && inner->view.dims == graph.type(value).dims()) {
        inner->factor *= op == "Mul" ? *factor : 1 / *factor;
        return inner;
      }
    }
    return std::nullopt;
  }
  const bool is_view = op == "Reshape" || op == "Squeeze" || op == "Unsqueeze" || op == "Identity";
  if (!is_view && op != "Transpose") return std::nullopt;
  std::optional<Widened> inner = widened(planner, node.input(0));
  if (!inner) return std::nullopt;
  if (op == "Transpose") {
    std::vector<std::size_t> permutation;
    for (const std::int64_t axis : node.attr_ints("perm")) {
      permutation.push_back(static_cast<std::size_t>(axis));
    }
    inner->view = transposed(inner->view, permutation);
    return inner;
  }
  const std::optional<View> view = reshaped(inner->view, graph.type(value).dims());
  if (!view) return std::nullopt;
  inner->view = *view;
  return inner;
}

Product product_of(Planner& planner, const NodeView& node, bool may_narrow = false) {
  Product p;
  const auto a = may_narrow ? widened(planner, node.input(0)) : std::nullopt;
  const auto b = may_narrow ? widened(planner, node.input(1)) : std::nullopt;
  if (a && b && a->view.dtype == b->view.dtype) {
    p.a = a->view;
    p.b = b->view;
    p.factor = a->factor * b->factor;
  } else {
    p.a = planner.view(node.input(0));
    p.b = planner.view(node.input(1));
  }
  if (node.op() == "Gemm") {
    if (node.attr_int("transA", 0) != 0) p.a = transposed(p.a, {1, 0});
    if (node.attr_int("transB", 0) != 0) p.b = transposed(p.b, {1, 0});
  }
  if (p.a.dims.size() == 1) {
    p.a.dims.insert(p.a.dims.begin(), 1);
    p.a.strides.insert(p.a.strides.begin(), 0);
  }
  if (p.b.dims.size() == 1) {
    p.b.dims.push_back(1);
    p.b.strides.push_back(0);
  }
  p.m = p.a.dims[p.a.dims.size() - 2];
  p.k = p.a.dims.back();
  p.n = p.b.dims.back();
  const std::size_t rank = std::max(p.a.dims.size(), p.b.dims.size()) - 2;
  p.batch.assign(rank, 1);
  for (const View* view : {&p.a, &p.b}) {
    const std::size_t own = view->dims.size() - 2;
    for (std::size_t i = 0; i < own; ++i) {
      std::int64_t& dim = p.batch[rank - own + i];
      dim = std::max(dim, view->dims[i]);
    }
  }
  for (View* view : {&p.a, &p.b}) {
    Dims dims = p.batch;
    dims.push_back(view->dims[view->dims.size() - 2]);
    dims.push_back(view->dims.back());
    *view = broadcast(*view, dims);
  }
  return p;
}

Support supports_product(const GraphView& graph, const NodeView& node) {
  const DType dtype = graph.type(node.output(0)).dtype();
  if (dtype == DType::kBool) return Support::no("there is no kernel of it for bool");
  return Support::yes();
}

// Tiles of 16 × 16 results, a thread each.
void multiply(Planner& planner, const NodeView& node) {
  const GraphView& graph = planner.graph();
  const Product p = product_of(planner, node);
  const TypeView type = graph.type(node.output(0));
  View y = planner.temporary(type.dtype(), type.dims());
  Dims dims = p.batch;
  dims.push_back(p.m);
  dims.push_back(p.n);
  View whole = y;
  whole.dims = dims;
  whole.strides = row_major_strides(dims);
  std::vector<View> reads{p.a, p.b};
  const bool has_c = node.op() == "Gemm" && node.input(2).valid();
  if (has_c) reads.push_back(broadcast(planner.view(node.input(2)), dims));
  std::vector<std::size_t> axes(p.batch.size());
  std::vector<Dims> strides;
  for (const View& view : {p.a, p.b, whole}) strides.push_back(view.strides);
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = i;
  const Space batches = make_space(dims, strides, axes);
  const std::size_t row = dims.size() - 2;
  const std::size_t column = dims.size() - 1;
  std::string sum = "float";
  if (type.dtype() == DType::kFloat64) sum = "double";
  if (!is_float(type.dtype())) sum = computed_type(type.dtype());
  constexpr int kTile = 16;
  std::string text = fmt::format(
      "const int tx = threadIdx.x % {0}, ty = threadIdx.x / {0};\n"
      "const i64 m = (i64)blockIdx.x / {1}ll * {0} + ty, n = (i64)blockIdx.x % {1}ll * {0} + tx;\n",
      kTile, (p.n + kTile - 1) / kTile);
  text += coordinates(batches, "blockIdx.y");
  text += fmt::format("const i64 a0 = {}, b0 = {}, y0 = {};\n", place(batches, 0),
                      place(batches, 1), place(batches, 2));
  text += fmt::format(
      "__shared__ {0} a_[{1}][{1} + 1];\n__shared__ {0} b_[{1}][{1} + 1];\n{0} sum = 0;\n"
      "for (i64 k = 0; k < {2}ll; k += {1}) {{\n"
      "a_[ty][tx] = m < {3}ll && k + tx < {2}ll ? ({0}){4} : ({0})0;\n"
      "b_[ty][tx] = n < {5}ll && k + ty < {2}ll ? ({0}){6} : ({0})0;\n"
      "__syncthreads();\n"
      "for (int i = 0; i < {1}; ++i) sum += a_[ty][i] * b_[i][tx];\n"
      "__syncthreads();\n}}\n",
      sum, kTile, p.k, p.m,
      loaded(p.a.dtype, fmt::format("p0[a0 + m * {}ll + (k + tx) * {}ll]", p.a.strides[row],
                                    p.a.strides[column])),
      p.n,
      loaded(p.b.dtype, fmt::format("p1[b0 + (k + ty) * {}ll + n * {}ll]", p.b.strides[row],
                                    p.b.strides[column])));
  text += fmt::format("if (m >= {}ll || n >= {}ll) return;\n", p.m, p.n);
  if (node.op() == "Gemm") {
    const auto factor = [&](const char* name) {
      return literal(type.dtype(), double{node.attr_float(name, 1.0F)});
    };
    text += fmt::format("sum = ({})(sum * {});\n", sum, factor("alpha"));
    if (has_c) {
      text += fmt::format(
          "sum += ({})({} * {});\n", sum, factor("beta"),
          loaded(type.dtype(), fmt::format("p2[m * {}ll + n * {}ll]", reads[2].strides[row],
                                           reads[2].strides[column])));
    }
  }
  text += fmt::format("q0[y0 + m * {}ll + n] = {};\n", p.n, stored(type.dtype(), "sum"));
  const std::int64_t tiles = (p.m + kTile - 1) / kTile * ((p.n + kTile - 1) / kTile);
  planner.kernel(
      planner.what(),
      {static_cast<unsigned>(tiles), static_cast<unsigned>(batches.count()), 1, kTile * kTile},
      reads, {y}, text);
  planner.define(node.output(0), y);
}

// A factor as a matrix by column, and how far apart those of neighbouring batches lie; nothing
// where its memory is no such thing. `view`: [batch…, rows, columns] of the graph's factor, which
// lies by row, so that by column it is its transpose.
std::optional<ProductStep::Matrix> matrix_of(const View& view) {
  const std::size_t rank = view.dims.size();
  const std::int64_t rows = view.dims[rank - 2];
  const std::int64_t columns = view.dims[rank - 1];
  const std::int64_t row =
      rows == 1 ? std::max<std::int64_t>(columns, view.strides[rank - 2]) : view.strides[rank - 2];
  const std::int64_t column = columns == 1 ? 1 : view.strides[rank - 1];
  ProductStep::Matrix matrix;
  matrix.view = view;
  if (column == 1 && row >= columns) {
    matrix.rows = columns, matrix.columns = rows, matrix.leading = row;
  } else if ((rows == 1 || view.strides[rank - 2] == 1) && view.strides[rank - 1] >= rows) {
    matrix.rows = rows, matrix.columns = columns, matrix.leading = view.strides[rank - 1];
    matrix.transposed = true;
  } else {
    return std::nullopt;
  }
  // All batch axes as one.
  std::int64_t expected = 0;
  bool is_first = true;
  for (std::size_t i = rank - 2; i-- > 0;) {
    if (view.dims[i] == 1) continue;
    if (is_first) {
      matrix.batch_stride = view.strides[i];
    } else if (view.strides[i] != expected) {
      return std::nullopt;
    }
    expected = view.strides[i] * view.dims[i];
    is_first = false;
  }
  return matrix;
}

ProductStep::Matrix matrix_or_copy(Planner& planner, View view) {
  constexpr std::int64_t kAlignment = 16;
  const auto bytes = static_cast<std::int64_t>(bytes_of(view.dtype));
  const auto matrix = matrix_of(view);
  if (matrix && view.offset * bytes % kAlignment == 0) return *matrix;
  // Batches that repeat stay so.
  Dims dims = view.dims;
  for (std::size_t i = 0; i + 2 < dims.size(); ++i) {
    if (view.strides[i] == 0) dims[i] = 1;
  }
  View once = view;
  once.dims = dims;
  const View copied = broadcast(planner.dense(once), view.dims);
  if (const auto made = matrix_of(copied)) return *made;
  return *matrix_of(planner.dense(view));
}

// Constants of half precision with a number of columns that is no multiple of 8, on whose rows the
// library cannot read and write 16 bytes at a time, lie by column with further columns behind them.
constexpr std::int64_t kColumns = 8;

bool is_to_be_widened(const Planner& planner, const Product& p) {
  const std::size_t rank = p.b.dims.size();
  const bool is_single = std::all_of(p.b.strides.begin(), p.b.strides.end() - 2,
                                     [](std::int64_t stride) { return stride == 0; });
  return is_half(p.b.dtype) && is_single && p.n > kColumns && p.n % kColumns != 0 &&
         p.k % kColumns == 0 && p.b.strides[rank - 1] == 1 && planner.is_constant(p.b);
}

// The right factor of so many columns; nobody reads what those behind its own give.
View widened_factor(Planner& planner, const Product& p, std::int64_t columns) {
  const std::size_t rank = p.b.dims.size();
  View matrix = p.b;
  matrix.dims = {p.k, p.n};
  matrix.strides = {p.b.strides[rank - 2], 1};
  View turned = planner.temporary(p.b.dtype, {p.k, columns}, {1, 0});
  View own = turned;
  own.dims[1] = p.n;
  planner.copy("a copy for " + planner.what(), matrix, own);
  Dims dims = p.b.dims;
  dims.back() = columns;
  return broadcast(turned, dims);
}

}  // namespace

void emit_product(Planner& planner, const Group& group) {
  const GraphView& graph = planner.graph();
  const NodeView node = graph.node(group.nodes.front());
  const ValueId result = graph.node(group.nodes.back()).output(0);
  const Chain chain = read_chain(graph, group.nodes);
  const TypeView type = graph.type(result);
  Product p = product_of(planner, node, /*may_narrow=*/type.dtype() == DType::kFloat32);
  View y = planner.temporary(type.dtype(), type.dims());
  View result_view = y;
  if (!chain.bias && !chain.residual && is_to_be_widened(planner, p)) {
    const std::int64_t columns = (p.n + kColumns - 1) / kColumns * kColumns;
    p.b = widened_factor(planner, p, columns);
    p.n = columns;
    Dims dims = type.dims();
    dims.back() = columns;
    y = planner.temporary(type.dtype(), dims);
    result_view = y;
    result_view.dims = type.dims();
  }

  ProductStep step;
  step.dtype = type.dtype();
  step.factors = p.a.dtype;
  step.m = p.n;
  step.k = p.k;
  step.a = matrix_or_copy(planner, p.b);
  step.b = matrix_or_copy(planner, p.a);
  step.n = p.m;
  step.batch = element_count(p.batch);
  // One product of all rows where the right factor is the same for all batches.
  if (step.batch > 1 && step.a.batch_stride == 0 && !step.b.transposed &&
      step.b.batch_stride == step.b.leading * p.m) {
    step.n *= step.batch;
    step.b.columns = step.n;
    step.batch = 1;
  }
  step.d = {.view = y,
            .rows = step.m,
            .columns = step.n,
            .leading = step.m,
            .batch_stride = step.m * step.n};
  step.c = step.d;
  if (node.op() == "Gemm") step.alpha = node.attr_float("alpha", 1.0F);
  step.alpha *= static_cast<float>(p.factor);
  const float beta = node.op() == "Gemm" ? node.attr_float("beta", 1.0F) : 1.0F;
  Step made;
  made.what = planner.what();
  made.first = std::string(node.name());
  made.reads = {step.a.view.buffer, step.b.view.buffer};
  if (chain.residual) {
    View added = planner.view(*chain.residual);
    added = planner.dense(broadcast(added, type.dims()));
    step.c.view = added;
    step.beta = node.op() == "Gemm" && node.input(2) == *chain.residual ? beta : 1.0F;
    made.reads.push_back(added.buffer);
  }
  if (chain.bias) {
    step.bias = planner.dense(*chain.bias);
    made.reads.push_back(step.bias->buffer);
  }
  step.activation = chain.activation;
  made.writes = {y.buffer};
  planner.define(result, result_view);
  made.work = std::move(step);
  planner.step(std::move(made));
}

void add_linear(LoweringRegistry& registry) {
  registry.add("MatMul", {.supports = supports_product, .emit = multiply});
  registry.add("Gemm", {.supports = supports_product, .emit = multiply});
}

}  // namespace xrt::cuda
