// SPDX-License-Identifier: Apache-2.0
// Sums, means, products and extrema over axes, and where extrema lie.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "engines/cuda/code.h"
#include "engines/cuda/elements.h"
#include "engines/cuda/lowering.h"

namespace xrt::cuda {
namespace {

struct Reduction {
  const char* op;
  const char* each;     // of an element {0}
  const char* combine;  // "Sum", "Product", "Most", "Least"
  const char* end;      // of the whole {0} and the count {1}
  bool floats = false;
};

constexpr Reduction kReductions[] = {
    {"ReduceSum", "{0}", "Sum", "{0}"},
    {"ReduceMean", "{0}", "Sum", "{0} / {1}", true},
    {"ReduceMax", "{0}", "Most", "{0}"},
    {"ReduceMin", "{0}", "Least", "{0}"},
    {"ReduceProd", "{0}", "Product", "{0}"},
    {"ReduceL1", "({0} < 0 ? -{0} : {0})", "Sum", "{0}"},
    {"ReduceL2", "{0} * {0}", "Sum", "sqrt({0})", true},
    {"ReduceSumSquare", "{0} * {0}", "Sum", "{0}"},
    {"ReduceLogSum", "{0}", "Sum", "log({0})", true},
    {"ReduceLogSumExp", "exp({0} - most)", "Sum", "log({0}) + most", true},
    {"GlobalAveragePool", "{0}", "Sum", "{0} / {1}", true},
    {"GlobalMaxPool", "{0}", "Most", "{0}", true},
};

const Reduction* reduction_of(std::string_view op) {
  const auto* found = std::find_if(std::begin(kReductions), std::end(kReductions),
                                   [&](const Reduction& r) { return op == r.op; });
  return found == std::end(kReductions) ? nullptr : found;
}

// Sums of half precision are made in float, of whole numbers in 64 bits.
std::string sum_type(DType dtype) {
  if (dtype == DType::kFloat64) return "double";
  if (is_float(dtype)) return "float";
  return dtype == DType::kUInt64 ? "u64" : "i64";
}

// Of no elements: extrema are the outermost numbers of the type.
std::string first_value(const char* combine, DType dtype) {
  const std::string_view name = combine;
  if (name == "Sum") return "0";
  if (name == "Product") return "1";
  const bool most = name == "Most";
  if (is_float(dtype))
    return most ? "__uint_as_float(0xff800000u)" : "__uint_as_float(0x7f800000u)";
  if (dtype == DType::kBool) return most ? "0" : "1";
  const int bits = bit_width(dtype);
  if (!is_signed_integer(dtype)) return most ? "0" : fmt::format("(~(u64)0 >> {})", 64 - bits);
  return most ? fmt::format("(i64)(~(u64)0 << {})", bits - 1)
              : fmt::format("(i64)(~(u64)0 >> {})", 65 - bits);
}

std::vector<std::size_t> reduced_axes(const GraphView& graph, const NodeView& node) {
  const std::size_t rank = graph.type(node.input(0)).rank();
  std::vector<std::size_t> axes;
  if (node.op() == "GlobalAveragePool" || node.op() == "GlobalMaxPool") {
    for (std::size_t i = 2; i < rank; ++i) axes.push_back(i);
    return axes;
  }
  if (is_constant(graph, node, 1)) {
    for (const std::int64_t axis : numbers(graph, node, 1)) {
      axes.push_back(
          static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis));
    }
  }
  if (axes.empty() && node.attr_int("noop_with_empty_axes", 0) == 0) {
    for (std::size_t i = 0; i < rank; ++i) axes.push_back(i);
  }
  return axes;
}

struct Split {
  Space outer, inner;  // of results, with the places of operand and result, and of what is reduced
  bool inner_is_near = false;
};

// `kept`: the result with single axes where the operand is reduced.
Split split_axes(const View& from, const View& kept, const std::vector<std::size_t>& reduced) {
  std::vector<std::size_t> outer;
  std::vector<std::size_t> inner;
  const std::vector<std::size_t> order = axes_by_stride(from);
  for (const std::size_t axis : order) {
    const bool is_reduced = std::find(reduced.begin(), reduced.end(), axis) != reduced.end();
    (is_reduced ? inner : outer).push_back(axis);
  }
  Split split;
  split.outer = make_space(from.dims, {from.strides, kept.strides}, outer);
  split.inner = make_space(from.dims, {from.strides}, inner);
  split.inner_is_near = split.inner.strides[0].back() != 0 &&
                        (split.outer.strides[0].back() == 0 ||
                         split.inner.strides[0].back() <= split.outer.strides[0].back());
  return split;
}

// Neighbouring elements that a thread reads at once, each of another result.
int width_of(const Split& split, const View& from) {
  if (split.outer.strides[0].back() != 1) return 1;
  int width = vector_width(split.outer, {from});
  for (const std::int64_t stride : split.inner.strides[0]) {
    while (stride % width != 0) width /= 2;
  }
  return width;
}

// The result, lying as the operand does, and the view of it with the operand's axes.
View result_for(Planner& planner, const View& from, DType dtype,
                const std::vector<std::size_t>& reduced) {
  Dims dims = from.dims;
  for (const std::size_t axis : reduced) dims[axis] = 1;
  return planner.temporary(dtype, dims,
                           from.is_dense() ? axes_by_stride(from) : std::vector<std::size_t>{});
}

// The result under the dimensions that the graph gives it.
void define_reduced(Planner& planner, const NodeView& node, const View& to,
                    const std::vector<std::size_t>& reduced) {
  View made = to;
  made.dims = planner.graph().type(node.output(0)).dims();
  if (made.dims.size() != to.dims.size()) {
    made.strides.clear();
    for (std::size_t i = 0; i < to.dims.size(); ++i) {
      if (std::find(reduced.begin(), reduced.end(), i) == reduced.end()) {
        made.strides.push_back(to.strides[i]);
      }
    }
  }
  planner.define(node.output(0), made);
}

// Where neighbouring elements are of neighbouring results: a thread reads those of several results
// at once, and the threads of a block share the elements of these between them. Where that is too
// few blocks, several make parts, which a second kernel puts together.
void reduce_far(Planner& planner, const Reduction& reduction, const View& from, const View& to,
                const Split& split) {
  constexpr std::int64_t kBeside = 32, kBlocks = 132 * 4, kFewest = 8;
  const std::int64_t results = split.outer.count(), count = split.inner.count();
  const int width = width_of(split, from);
  const std::int64_t pieces = results / width;
  std::int64_t beside = 1;
  while (beside < kBeside && beside * 2 <= pieces) beside *= 2;
  const auto deep_of = [](std::int64_t threads) { return kThreads / threads; };
  // Of few results more threads share each, down to pieces that memory moves as one.
  const std::int64_t least =
      std::max<std::int64_t>(1, 64 / (width * static_cast<std::int64_t>(bytes_of(from.dtype))));
  while (beside > least && deep_of(beside) < count && pieces / beside < kBlocks / 4) beside /= 2;
  const std::int64_t deep = deep_of(beside), groups = (pieces + beside - 1) / beside;
  const std::int64_t parts = std::clamp<std::int64_t>(
      kBlocks / groups, 1, std::max<std::int64_t>(1, count / (kFewest * deep)));
  const std::int64_t part = (count + parts - 1) / parts;
  const std::string type = sum_type(from.dtype);
  // Of a kernel whose threads have read `width_now` results' elements each.
  const auto begin = [&](std::int64_t pieces_now, int width_now) {
    return fmt::format(
        "const unsigned s = threadIdx.x % {0}u, t = threadIdx.x / {0}u;\n"
        "const i64 piece = (i64)blockIdx.x * {0} + s;\nconst bool inside = piece < {1};\n"
        "{2} sum[{3}];\n#pragma unroll\nfor (int j = 0; j < {3}; ++j) sum[j] = {4};\n",
        beside, pieces_now, type, width_now, first_value(reduction.combine, from.dtype));
  };
  const auto gather = [&](int width_now) {
    return fmt::format(
        "__shared__ {0} parts[{1} * {2}];\n#pragma unroll\n"
        "for (int j = 0; j < {2}; ++j) parts[j * {1} + threadIdx.x] = sum[j];\n"
        "for (int half = {3} / 2; half > 0; half /= 2) {{\n__syncthreads();\n"
        "if (t < half)\n#pragma unroll\nfor (int j = 0; j < {2}; ++j)\n"
        "parts[j * {1} + threadIdx.x] = {4}::of(parts[j * {1} + threadIdx.x], "
        "parts[j * {1} + threadIdx.x + half * {5}]);\n}}\n"
        "if (t != 0 || !inside) return;\n"
        "#pragma unroll\nfor (int j = 0; j < {2}; ++j) sum[j] = parts[j * {1} + s];\n",
        type, kThreads, width_now, deep, reduction.combine, beside);
  };
  const auto finish = [&](int width_now) {
    return fmt::format(
               "#pragma unroll\nfor (int j = 0; j < {0}; ++j) {{\n"
               "const i64 result = piece * {0} + j;\n",
               width_now) +
           coordinates(split.outer, "result", "r") +
           fmt::format("q0[{}] = {};\n}}\n", place(split.outer, 1, "r"),
                       stored(to.dtype, fmt::format(fmt::runtime(reduction.end), "sum[j]", count)));
  };
  std::string text = begin(pieces, width);
  text += coordinates(in_steps(split.outer, width), "(inside ? piece : 0)", "r");
  text += fmt::format(
      "const auto* from = p0 + ({0});\nconst i64 first = (i64)blockIdx.y * {1}, limit = first + "
      "{1};\nconst i64 end = limit < {2} ? limit : {2};\n"
      "#pragma unroll 4\nfor (i64 e = first + t; inside && e < end; e += {3}) {{\n",
      place(in_steps(split.outer, width), 0, "r"), part, count, deep);
  text += coordinates(split.inner, "e");
  text += fmt::format(
      "typedef Vec<{0}, {1}> Piece;\nconst Piece v = *(const Piece*)(from + ({2}));\n"
      "#pragma unroll\nfor (int j = 0; j < {1}; ++j) {{\n"
      "const {3} x = ({3}){4};\nsum[j] = {5}::of(sum[j], ({3})({6}));\n}}\n}}\n",
      stored_type(from.dtype), width, place(split.inner, 0), type, loaded(from.dtype, "v.v[j]"),
      reduction.combine, fmt::format(fmt::runtime(reduction.each), "x"));
  text += gather(width);
  if (parts == 1) {
    planner.kernel(planner.what(), {static_cast<unsigned>(groups), 1, 1, kThreads}, {from}, {to},
                   text + finish(width));
    return;
  }
  DType dtype = DType::kInt64;
  if (type == "float") dtype = DType::kFloat32;
  if (type == "double") dtype = DType::kFloat64;
  if (type == "u64") dtype = DType::kUInt64;
  const View between = planner.temporary(dtype, {parts, results});
  text += fmt::format(
      "#pragma unroll\nfor (int j = 0; j < {0}; ++j)\n"
      "q0[(i64)blockIdx.y * {1} + piece * {0} + j] = sum[j];\n",
      width, results);
  planner.kernel(planner.what(),
                 {static_cast<unsigned>(groups), static_cast<unsigned>(parts), 1, kThreads}, {from},
                 {between}, text);
  text = begin(results, 1);
  text += fmt::format(
      "for (i64 e = t; inside && e < {0}; e += {1}) "
      "sum[0] = {2}::of(sum[0], p0[e * {3} + piece]);\n",
      parts, deep, reduction.combine, results);
  planner.kernel(planner.what(),
                 {static_cast<unsigned>((results + beside - 1) / beside), 1, 1, kThreads},
                 {between}, {to}, text + gather(1) + finish(1));
}

// Whether which axes are reduced is only known at a run.
bool has_unknown_axes(const GraphView& graph, const NodeView& node) {
  const ValueId axes = node.input(1);
  return axes.valid() && !is_constant(graph, node, 1) && element_count(graph.type(axes).dims()) > 0;
}

// Of any axes, which the kernel may read; of no elements, too.
void reduce_along(Planner& planner, const NodeView& node) {
  const GraphView& graph = planner.graph();
  const Reduction& reduction = *reduction_of(node.op());
  const View from = planner.view(node.input(0));
  const View to = planner.temporary_for(node.output(0));
  const std::int64_t results = to.count(), count = from.count() / results;
  const std::string type = sum_type(from.dtype);
  std::vector<View> reads{from};
  std::string text;
  if (has_unknown_axes(graph, node)) {
    const View axes = planner.view(node.input(1));
    reads.push_back(axes);
    text = fmt::format(
        "unsigned reduced = 0;\nfor (int a = 0; a < {0}; ++a) {{\nconst i64 axis = p1[a * {1}ll];\n"
        "reduced |= 1u << (axis < 0 ? axis + {2} : axis);\n}}\n",
        axes.count(), axes.strides.empty() ? 0 : axes.strides[0], from.dims.size());
  } else {
    unsigned reduced = 0;
    for (const std::size_t axis : reduced_axes(graph, node)) reduced |= 1U << axis;
    text = fmt::format("const unsigned reduced = {}u;\n", reduced);
  }
  // Threads of a result, side by side.
  constexpr int kMost = 256;
  int threads = 1;
  while (threads < kMost && threads < count) threads *= 2;
  const int beside = kMost / threads;
  text += fmt::format(
      "const unsigned t = threadIdx.x % {0}u;\n"
      "const i64 result = (i64)blockIdx.x * {1} + threadIdx.x / {0}u;\n"
      "const bool inside = result < {2};\n"
      "i64 first = 0, rest = inside ? result : 0;\n",
      threads, beside, results);
  const auto place = [&](const char* chosen, const char* to_add) {
    std::string walk;
    for (std::size_t i = from.dims.size(); i-- > 0;) {
      walk +=
          fmt::format("if ({0}(reduced >> {1} & 1u)) {2} += rest % {3}ll * {4}ll, rest /= {3}ll;\n",
                      chosen, i, to_add, std::max<std::int64_t>(1, from.dims[i]), from.strides[i]);
    }
    return walk;
  };
  text += place("!", "first");
  const auto loop = [&](const std::string& body) {
    return fmt::format("for (i64 e = t; e < {}; e += {}) {{\ni64 at = first, rest = e;\n", count,
                       threads) +
           place("", "at") +
           fmt::format("const {0} x = ({0}){1};\n", type, loaded(from.dtype, "p0[at]")) + body +
           "}\n";
  };
  const auto gather = [&](const char* op, const char* value) {
    return fmt::format("{0} = together<{1}, {2}, {3}>({0});\n", value, op, threads, beside);
  };
  if (std::string_view(node.op()) == "ReduceLogSumExp") {
    text += fmt::format("{} most = __uint_as_float(0xff800000u);\n", type);
    text += loop("most = larger(most, x);\n") + gather("Most", "most");
    text += "if (most - most != 0) most = 0;\n";  // exp(-inf - -inf) is no number
  }
  text += fmt::format("{} sum = {};\n", type, first_value(reduction.combine, from.dtype));
  text += loop(fmt::format("sum = {}::of(sum, ({})({}));\n", reduction.combine, type,
                           fmt::format(fmt::runtime(reduction.each), "x")));
  text += gather(reduction.combine, "sum");
  text += fmt::format("if (inside && t == 0) q0[result] = {};\n",
                      stored(from.dtype, fmt::format(fmt::runtime(reduction.end), "sum", count)));
  planner.kernel(planner.what(),
                 {static_cast<unsigned>((results + beside - 1) / beside), 1, 1, kMost}, reads, {to},
                 text);
  planner.define(node.output(0), to);
}

void reduce(Planner& planner, const NodeView& node) {
  const GraphView& graph = planner.graph();
  const Reduction& reduction = *reduction_of(node.op());
  const View from = planner.view(node.input(0));
  if (has_unknown_axes(graph, node) || from.count() == 0) {
    reduce_along(planner, node);
    return;
  }
  const std::vector<std::size_t> reduced = reduced_axes(graph, node);
  const View to = result_for(planner, from, from.dtype, reduced);
  const Split split = split_axes(from, to, reduced);
  const std::int64_t results = split.outer.count();
  const std::int64_t count = split.inner.count();
  const std::string type = sum_type(from.dtype);
  const bool has_most = std::string_view(node.op()) == "ReduceLogSumExp";
  const std::int64_t many = width_of(split, from) > 1 ? 16 : 1024;
  if (!split.inner_is_near && !has_most && results >= 32 && count >= many) {
    reduce_far(planner, reduction, from, to, split);
    define_reduced(planner, node, to, reduced);
    return;
  }

  // Threads of a result, and results of a block. Where elements of one result lie together its
  // threads stand side by side, else those of neighbouring results do.
  int threads = 1;
  constexpr int kMost = 256;
  while (threads < kMost && threads < count && (threads < 32 || count / threads > 8) &&
         (results * threads < 132 * 2048 || threads < (split.inner_is_near ? 32 : 1))) {
    threads *= 2;
  }
  const int beside = kMost / threads;
  std::string text;
  if (split.inner_is_near) {
    text = fmt::format("const unsigned t = threadIdx.x % {}u, s = threadIdx.x / {}u;\n", threads,
                       threads);
  } else {
    text = fmt::format("const unsigned s = threadIdx.x % {}u, t = threadIdx.x / {}u;\n", beside,
                       beside);
  }
  text += fmt::format(
      "const {0} result = ({0})blockIdx.x * {1}u + s;\nconst bool inside = result < {2}u;\n",
      split.outer.index_type(), beside, results);
  text += coordinates(split.outer, "(inside ? result : 0)", "r");
  text += fmt::format("const auto* from = p0 + ({});\n", place(split.outer, 0, "r"));
  const auto loop = [&](const std::string& body) {
    return fmt::format("for ({} e = t; e < {}u; e += {}u) {{\n", split.inner.index_type(), count,
                       threads) +
           coordinates(split.inner, "e") +
           fmt::format("const {0} x = ({0}){1};\n", type,
                       loaded(from.dtype, fmt::format("from[{}]", place(split.inner, 0)))) +
           body + "}\n";
  };
  const auto gather = [&](const char* op, const std::string& value) -> std::string {
    if (threads == 1) return "";
    if (split.inner_is_near) {
      return fmt::format("{0} = together<{1}, {2}, {3}>({0});\n", value, op, threads, beside);
    }
    return fmt::format(
        "{{\n__shared__ {0} parts[{1}];\n__syncthreads();\nparts[threadIdx.x] = {2};\n"
        "__syncthreads();\nfor (int o = 1; o < {3}; ++o) if (t == 0) "
        "{2} = {4}::of({2}, parts[s + (unsigned)o * {5}u]);\n"
        "__syncthreads();\nif (t == 0) parts[s] = {2};\n__syncthreads();\n{2} = parts[s];\n}}\n",
        type, kMost, value, threads, op, beside);
  };
  if (has_most) {
    text += fmt::format("{} most = __uint_as_float(0xff800000u);\n", type);
    text += loop("most = larger(most, x);\n") + gather("Most", "most");
    text += fmt::format("if (most - most != 0) most = 0;\n");  // exp(-inf - -inf) is no number
  }
  text += fmt::format("{} sum = {};\n", type, first_value(reduction.combine, from.dtype));
  text += loop(fmt::format("sum = {}::of(sum, ({})({}));\n", reduction.combine, type,
                           fmt::format(fmt::runtime(reduction.each), "x")));
  text += gather(reduction.combine, "sum");
  text += fmt::format("if (inside && t == 0) q0[{}] = {};\n", place(split.outer, 1, "r"),
                      stored(from.dtype, fmt::format(fmt::runtime(reduction.end), "sum", count)));
  planner.kernel(planner.what(),
                 {static_cast<unsigned>((results + beside - 1) / beside), 1, 1, kMost}, {from},
                 {to}, text);
  define_reduced(planner, node, to, reduced);
}

Support supports_reduce(const GraphView& graph, const NodeView& node) {
  const DType dtype = graph.type(node.input(0)).dtype();
  const Reduction& reduction = *reduction_of(node.op());
  const std::string_view combine = reduction.combine;
  if (dtype == DType::kBool && combine != "Most" && combine != "Least") {
    return Support::no("there is no kernel of it for bool");
  }
  if (reduction.floats && !is_float(dtype)) {
    return Support::no(fmt::format("there is no kernel of it for {}", to_string(dtype)));
  }
  if (graph.type(node.input(0)).rank() > 32) return Support::no("it has more than 32 axes");
  return Support::yes();
}

void find_extremum(Planner& planner, const NodeView& node) {
  const View from = planner.view(node.input(0));
  const auto rank = static_cast<std::int64_t>(from.dims.size());
  const std::int64_t given = node.attr_int("axis", 0);
  const auto axis = static_cast<std::size_t>(given < 0 ? given + rank : given);
  Dims dims = from.dims;
  dims[axis] = 1;
  View to = planner.temporary(DType::kInt64, dims);
  const bool most = node.op() == "ArgMax";
  const bool last = node.attr_int("select_last_index", 0) != 0;
  planner.elementwise(planner.what(), {from}, to, [&](const std::vector<std::string>& c) {
    std::string at = "0";
    for (std::size_t i = 0; i < c.size(); ++i) {
      if (i != axis) at += fmt::format(" + {} * {}ll", c[i], from.strides[i]);
    }
    const std::string_view type = computed_type(from.dtype);
    return fmt::format(
        "const auto* from = p0 + ({0});\n{1} best = {2};\ni64 where = 0;\n"
        "for (i64 k = 1; k < {3}; ++k) {{\nconst {1} x = {4};\n"
        "if (x {5} best || (x != x && best == best)) best = x, where = k;\n}}\nq0[at] = where;\n",
        at, type, loaded(from.dtype, "from[0]"), from.dims[axis],
        loaded(from.dtype, fmt::format("from[k * {}ll]", from.strides[axis])),
        most ? (last ? ">=" : ">") : (last ? "<=" : "<"));
  });
  if (node.attr_int("keepdims", 1) == 0) {
    to.dims.erase(to.dims.begin() + static_cast<std::ptrdiff_t>(axis));
    to.strides.erase(to.strides.begin() + static_cast<std::ptrdiff_t>(axis));
  }
  planner.define(node.output(0), to);
}

}  // namespace

void add_reductions(LoweringRegistry& registry) {
  for (const Reduction& reduction : kReductions) {
    registry.add(reduction.op, {.supports = supports_reduce, .emit = reduce, .empty = true});
  }
  const auto has_axis = [](const GraphView& graph, const NodeView& node) {
    return graph.type(node.input(0)).rank() > 0 ? Support::yes()
                                                : Support::no("its operand has no axis");
  };
  for (const char* op : {"ArgMax", "ArgMin"}) {
    registry.add(op, {.supports = has_axis, .emit = find_extremum});
  }
}

}  // namespace xrt::cuda
