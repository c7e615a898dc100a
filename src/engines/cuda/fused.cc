// SPDX-License-Identifier: Apache-2.0
#include "engines/cuda/fused.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "engines/cuda/chains.h"
#include "engines/cuda/channel_windows.h"
#include "engines/cuda/code.h"
#include "engines/cuda/elements.h"
#include "engines/cuda/groups.h"
#include "engines/cuda/integers.h"
#include "engines/cuda/layouts.h"
#include "engines/cuda/lowering.h"
#include "engines/cuda/planner.h"
#include "engines/cuda/windows.h"
#include "xrt/error.h"

namespace xrt::cuda {
namespace {

// Enough threads to fill a large device twice: below, each takes fewer elements.
constexpr std::int64_t kManyThreads = 132 * 512;

// Results that lie densely, of which no wide access of rows is possible, since the rows are of odd
// sizes: each thread writes neighbours in memory, and finds the coordinates of each.
bool emit_dense(Planner& planner, const Fused& fused, const Space& space) {
  std::vector<View> results = result_views(fused);
  int width = 8;
  for (const View& view : results) {
    if (!view.is_dense() || view.offset != 0 || view.strides != results.front().strides)
      return false;
    width = std::min(width, static_cast<int>(16 / bytes_of(view.dtype)));
  }
  const std::int64_t count = space.count();
  if (width < 4 || count / width < kManyThreads || space.dims.size() < 2) return false;
  const std::int64_t steps = (count + width - 1) / width;
  std::string needed = fused.code;
  for (const Fused::Result& result : fused.results) needed += result.value;
  std::string text =
      fmt::format("const {0} i = ({0})blockIdx.x * {1}u + threadIdx.x;\nif (i >= {2}u) return;\n",
                  space.index_type(), kThreads, steps);
  for (std::size_t r = 0; r < results.size(); ++r) {
    text += fmt::format("Vec<{}, {}> o{};\n", stored_type(results[r].dtype), width, r);
  }
  text += fmt::format(
      "#pragma unroll\nfor (int j = 0; j < {0}; ++j) {{\n"
      "const {1} at = i * {0}u + j < {2}u ? i * {0}u + j : {2}u - 1;\n",
      width, space.index_type(), count);
  text += coordinates(space, "at");
  for (std::size_t l = 0; l < fused.leaves.size(); ++l) {
    if (!Elements::uses(needed, l)) continue;
    const DType dtype = fused.leaves[l].dtype;
    text += fmt::format("const {} {} = {};\n", computed_type(dtype), Elements::leaf_name(l),
                        loaded(dtype, fmt::format("p{}[{}]", l, place(space, l))));
  }
  text += fused.code;
  for (std::size_t r = 0; r < results.size(); ++r) {
    text += fmt::format("o{}.v[j] = {};\n", r, stored(results[r].dtype, fused.results[r].value));
  }
  text += "}\n";
  for (std::size_t r = 0; r < results.size(); ++r) {
    text += fmt::format(
        "if (i * {0}u + {0}u <= {1}u) *(Vec<{2}, {0}>*)(q{3} + i * {0}u) = o{3};\n"
        "else for (int j = 0; i * {0}u + j < {1}u; ++j) q{3}[i * {0}u + j] = o{3}.v[j];\n",
        width, count, stored_type(results[r].dtype), r);
  }
  planner.kernel(fused.what,
                 {static_cast<unsigned>((steps + kThreads - 1) / kThreads), 1, 1, kThreads},
                 fused.leaves, std::move(results), text);
  return true;
}

}  // namespace

void emit_pointwise(Planner& planner, const Fused& fused) {
  const std::vector<View> views = all_views(fused);
  const Space space =
      make_space(fused.dims, strides_of(views), axes_by_stride(fused.results.front().view));
  int width = vector_width(space, views);
  if (width == 1 && emit_dense(planner, fused, space)) return;
  while (width > 1 && space.count() / width < kManyThreads) width /= 2;
  const Space steps = in_steps(space, width);
  const std::int64_t count = steps.count();
  std::string needed = fused.code;
  for (const Fused::Result& result : fused.results) needed += result.value;
  std::string text =
      fmt::format("const {0} i = ({0})blockIdx.x * {1}u + threadIdx.x;\nif (i >= {2}u) return;\n",
                  space.index_type(), kThreads, count);
  text += coordinates(steps, "i");
  const Elements one(fused, space, width);
  text += one.places(needed, steps) + one.loads(needed) + one.declare_results();
  text += fmt::format("#pragma unroll\nfor (int j = 0; j < {}; ++j) {{\n", width);
  text += one.values(needed) + fused.code + one.set_results() + "}\n";
  text += one.write_results();
  planner.kernel(fused.what,
                 {static_cast<unsigned>((count + kThreads - 1) / kThreads), 1, 1, kThreads},
                 fused.leaves, result_views(fused), text);
}

void emit_over_rows(Planner& planner, const Fused& fused, const OverRows& rows) {
  const std::vector<View> views = all_views(fused);
  const std::vector<Dims> strides = strides_of(views);
  const std::set<std::size_t> of_row(rows.axes.begin(), rows.axes.end());
  std::vector<std::size_t> outer;
  std::vector<std::size_t> inner;
  for (const std::size_t axis : axes_by_stride(fused.results.front().view)) {
    (of_row.contains(axis) ? inner : outer).push_back(axis);
  }
  const Space row_space = make_space(fused.dims, strides, outer);
  const Space column_space = make_space(fused.dims, strides, inner);
  const std::int64_t row_count = row_space.count();
  const std::int64_t columns = column_space.count();

  // Wide accesses need that rows begin where they may, too.
  int width = vector_width(column_space, views);
  for (std::size_t v = 0; v < views.size(); ++v) {
    if (column_space.strides[v].back() != 1) continue;
    for (const std::int64_t stride : row_space.strides[v]) {
      while (width > 1 && stride % width != 0) width /= 2;
    }
  }
  const Space steps = in_steps(column_space, width);
  const std::int64_t step_count = steps.count();
  // As few threads a row as hold it in so many registers; few rows get more.
  constexpr int kRegisters = 32;
  constexpr int kMostThreads = 1024;
  constexpr std::int64_t kFewRows = 2048;
  int threads = 1;
  while (threads < 32 && threads < step_count) threads *= 2;
  const auto chunks_of = [&](int t) { return static_cast<int>((step_count + t - 1) / t); };
  const int wanted = row_count < kFewRows ? 8 : kRegisters;
  while (threads < kMostThreads && chunks_of(threads) > 1 && chunks_of(threads) * width > wanted) {
    threads *= 2;
  }
  const int chunks = chunks_of(threads);
  const bool in_registers = chunks * width <= kRegisters;
  constexpr std::int64_t kBlocks = 132;
  std::int64_t together = std::max<std::int64_t>(1, 256 / threads);
  while (together > 1 && row_count / together < kBlocks) together /= 2;
  const int of_block = static_cast<int>(together);

  const Elements one(fused, column_space, width);

  std::string after = fused.code + rows.scale + " " + rows.bias;
  for (const Fused::Result& result : fused.results) after += " " + result.value;
  const std::string all = rows.before + after;

  std::string text = fmt::format(
      "const unsigned t = threadIdx.x % {0}u;\n"
      "const {2} row = ({2})blockIdx.x * {1}u + threadIdx.x / {0}u;\n"
      "const bool inside = row < {3}u;\n",
      threads, of_block, row_space.index_type(), row_count);
  text += coordinates(row_space, "(inside ? row : 0)", "r");
  for (std::size_t l = 0; l < fused.leaves.size(); ++l) {
    if (!Elements::uses(all, l)) continue;
    text += fmt::format("const auto* f{0} = p{0} + ({1});\n", l, place(row_space, l, "r"));
  }
  for (std::size_t r = 0; r < fused.results.size(); ++r) {
    text += fmt::format("auto* g{0} = q{0} + ({1});\n", r,
                        place(row_space, fused.leaves.size() + r, "r"));
  }
  if (in_registers) text += fmt::format("{} v[{}];\n", rows.type, chunks * width);

  // A loop over the thread's elements; `code` says which operands it reads.
  const auto loop = [&](const std::string& code, const std::string& body, const std::string& end) {
    std::string loop_text = fmt::format(
        "{4}for (int e = 0; e < {0}; ++e) {{\nconst {3} column = (unsigned)e * {1}u + t;\n"
        "if (column < {2}u) {{\n",
        chunks, threads, step_count, steps.index_type(), in_registers ? "#pragma unroll\n" : "");
    loop_text += coordinates(steps, "column");
    for (std::size_t l = 0; l < fused.leaves.size(); ++l) {
      if (!Elements::uses(code, l)) continue;
      loop_text += fmt::format("const auto* b{0} = f{0} + ({1});\n", l, place(steps, l));
    }
    loop_text += one.loads(code);
    if (!end.empty()) {
      for (std::size_t r = 0; r < fused.results.size(); ++r) {
        loop_text +=
            fmt::format("auto* d{0} = g{0} + ({1});\n", r, place(steps, fused.leaves.size() + r));
      }
      loop_text += one.declare_results();
    }
    loop_text += fmt::format("#pragma unroll\nfor (int j = 0; j < {}; ++j) {{\n", width);
    loop_text += one.values(code) + body + "}\n" + end + "}\n}\n";
    return loop_text;
  };
  // One with v_, the op's operand, in it.
  const auto pass = [&](const std::string& body) {
    if (in_registers) {
      return loop("", fmt::format("{0}& v_ = v[e * {1} + j];\n", rows.type, width) + body, "");
    }
    return loop(rows.before, "{\n" + rows.before + body + "}\n", "");
  };
  if (in_registers) {
    text += loop(rows.before,
                 "{\n" + rows.before + fmt::format("v[e * {} + j] = v_;\n", width) + "}\n", "");
  }
  const std::string& type = rows.type;
  const std::string reduce = fmt::format("{}, {}", threads, of_block);
  const std::string exp = type == "double" ? "exp" : "expf";
  const std::string log = type == "double" ? "log" : "logf";
  const std::string root = type == "double" ? "1.0 / sqrt" : "1.0f / sqrtf";
  std::string result;
  switch (rows.kind) {
    case OverRows::Kind::kSoftmax:
    case OverRows::Kind::kLogSoftmax:
      text += fmt::format("{} most = ({})__uint_as_float(0xff800000u);\n", type, type);
      text += pass("most = larger(most, v_);\n");
      text += fmt::format("most = together<Most, {}>(most);\n{} sum = 0;\n", reduce, type);
      if (rows.kind == OverRows::Kind::kSoftmax && in_registers) {
        text += pass(fmt::format("v_ = {}(v_ - most); sum += v_;\n", exp));
        result = "v_ * scale_";
      } else {
        text += pass(fmt::format("sum += {}(v_ - most);\n", exp));
        result = rows.kind == OverRows::Kind::kSoftmax ? exp + "(v_ - most) * scale_"
                                                       : "v_ - most - scale_";
      }
      text += fmt::format("sum = together<Sum, {}>(sum);\n", reduce);
      text += rows.kind == OverRows::Kind::kSoftmax
                  ? fmt::format("const {} scale_ = 1 / sum;\n", type)
                  : fmt::format("const {} scale_ = {}(sum);\n", type, log);
      break;
    case OverRows::Kind::kLayerNorm:
      text += fmt::format("{} sum = 0;\n", type) + pass("sum += v_;\n");
      text += fmt::format("const {0} mean = together<Sum, {1}>(sum) / {2};\nsum = 0;\n", type,
                          reduce, columns);
      text += pass("sum += (v_ - mean) * (v_ - mean);\n");
      text += fmt::format("const {0} scale_ = {1}(together<Sum, {2}>(sum) / {3} + {4});\n", type,
                          root, reduce, columns, rows.epsilon);
      result = "(v_ - mean) * scale_";
      break;
    case OverRows::Kind::kRmsNorm:
      text += fmt::format("{} sum = 0;\n", type) + pass("sum += v_ * v_;\n");
      text += fmt::format("const {0} scale_ = {1}(together<Sum, {2}>(sum) / {3} + {4});\n", type,
                          root, reduce, columns, rows.epsilon);
      result = "v_ * scale_";
      break;
  }
  if (!rows.scale.empty()) result = "(" + result + ") * " + rows.scale;
  if (!rows.bias.empty()) result += " + " + rows.bias;
  const std::string take =
      in_registers ? fmt::format("const {} v_ = v[e * {} + j];\n", type, width) : "";
  std::string body = "{\n" + take;
  if (!in_registers) {
    body += fmt::format("{} y_;\n{{\n{}y_ = {};\n}}\n", type, rows.before, result);
  } else {
    body += fmt::format("const {} y_ = {};\n", type, result);
  }
  body += fused.code + one.set_results() + "}\n";
  text += "if (inside) {\n" + loop(in_registers ? after : all, body, one.write_results()) + "}\n";
  planner.kernel(fused.what,
                 {static_cast<unsigned>((row_count + of_block - 1) / of_block), 1, 1,
                  static_cast<unsigned>(threads * of_block)},
                 fused.leaves, result_views(fused), text);
}

namespace {

OverRows::Kind kind_of(const NodeView& node) {
  if (node.op() == "Softmax") return OverRows::Kind::kSoftmax;
  if (node.op() == "LogSoftmax") return OverRows::Kind::kLogSoftmax;
  if (node.op() == "RMSNormalization") return OverRows::Kind::kRmsNorm;
  return OverRows::Kind::kLayerNorm;
}

std::vector<std::size_t> row_axes(const NodeView& node, std::size_t rank) {
  if (node.op() == "InstanceNormalization") {
    std::vector<std::size_t> axes;
    for (std::size_t i = 2; i < rank; ++i) axes.push_back(i);
    return axes;
  }
  const std::int64_t given = node.attr_int("axis", -1);
  const auto axis =
      static_cast<std::size_t>(given < 0 ? given + static_cast<std::int64_t>(rank) : given);
  if (node.op() == "Softmax" || node.op() == "LogSoftmax") return {axis};
  std::vector<std::size_t> axes;
  for (std::size_t i = axis; i < rank; ++i) axes.push_back(i);
  return axes;
}

// Writes the code of a group of nodes.
class Writer {
 public:
  Writer(Planner& planner, const Group& group)
      : planner_(planner), graph_(planner.graph()), group_(group) {
    for (const NodeId id : group.nodes) members_.insert(id);
    fused_.what = planner.what();
    fused_.dims = graph_.type(graph_.node(group.nodes.back()).output(0)).dims();
  }

  void run() {
    const LoweringRegistry& registry = LoweringRegistry::get();
    std::optional<NodeId> over_rows, integers;
    std::vector<ValueId> results;
    for (const NodeId id : group_.nodes) {
      const NodeView node = graph_.node(id);
      const Lowering* lowering = registry.find(node);
      if (node.qualified_op() == kIntegerOp) integers = id;
      if (lowering != nullptr && lowering->over_rows) over_rows = id;
      if (is_read_elsewhere(node.output(0))) results.push_back(node.output(0));
    }
    if (results.empty()) return;  // nobody reads them
    OverRows rows;
    if (over_rows) {
      const NodeView node = graph_.node(*over_rows);
      rows.kind = kind_of(node);
      rows.axes = row_axes(node, fused_.dims.size());
      const DType dtype = graph_.type(node.input(0)).dtype();
      rows.type = computed_type(dtype);
      rows.epsilon = literal(dtype, static_cast<double>(node.attr_float("epsilon", 1e-5F)));
      const std::string value = name_of(node, 0, {}, rows.before);
      rows.before += fmt::format("const {} v_ = {};\n", rows.type, value);
      names_.clear();
      names_[node.output(0)] = "(" + rounded(dtype, "y_") + ")";
      if (rows.kind == OverRows::Kind::kLayerNorm || rows.kind == OverRows::Kind::kRmsNorm) {
        std::optional<std::size_t> first;
        if (node.op() == "InstanceNormalization") first = 1;
        if (node.input(1).valid()) rows.scale = leaf(node.input(1), first);
        if (node.input(2).valid()) rows.bias = leaf(node.input(2), first);
      }
    }
    if (integers) {
      const NodeView node = graph_.node(*integers);
      const std::size_t axis = column_axis(node);
      const std::string scale = leaf(node.input(kScaleInput), axis),
                        bias = leaf(node.input(kBiasInput), axis);
      fused_.code +=
          fmt::format("const float y_ = number_of_sum<P>(sum_) * {} + {};\n", scale, bias);
      names_[node.output(0)] = "y_";
    }
    const bool is_depthwise = group_.kind == Group::Kind::kChannels;
    View weights;
    if (is_depthwise) weights = read_depthwise();
    for (const ValueId result : results) {
      const std::string value = name(result, fused_.code);
      fused_.results.push_back({{}, value});
    }
    std::vector<std::size_t> order;
    if (is_depthwise) {
      order = channels_last(fused_.dims.size());
    } else if (!integers) {
      order = result_order();
    } else if (graph_.node(*integers).has("kernel_shape")) {
      order = channels_last(fused_.dims.size());
    }
    const std::optional<std::int64_t> padded =
        results.size() == 1 ? padded_channels(results.front()) : std::nullopt;
    for (std::size_t r = 0; r < results.size(); ++r) {
      const DType dtype = graph_.type(results[r]).dtype();
      View& view = fused_.results[r].view;
      if (padded && !over_rows) {
        Dims dims = fused_.dims;
        dims[1] = *padded;
        view = planner_.temporary(dtype, dims, channels_last(dims.size()));
        view.dims = fused_.dims;
      } else {
        view = planner_.temporary(plain_type(dtype), fused_.dims, order);
      }
      planner_.define(results[r], fused_.results[r].view);
    }
    if (over_rows) {
      emit_over_rows(planner_, fused_, rows);
    } else if (is_depthwise) {
      const NodeView node = graph_.node(group_.nodes.front());
      emit_over_channels(planner_, fused_, *window_of(graph_, node), planner_.view(node.input(0)),
                         weights);
    } else if (integers) {
      emit_over_integers(planner_, fused_, graph_.node(*integers), group_);
    } else {
      emit_pointwise(planner_, fused_);
    }
    for (std::size_t r = 0; r < results.size(); ++r) {
      const DType dtype = graph_.type(results[r]).dtype();
      if (!is_packed(dtype)) continue;
      planner_.define(results[r], planner_.packed(fused_.results[r].view, dtype));
    }
  }

 private:
  // Names what the convolution and a normalisation behind it make of sum_. Returns its weights.
  View read_depthwise() {
    const NodeView node = graph_.node(group_.nodes.front());
    View weights = planner_.view(node.input(1));
    std::optional<View> bias;
    if (node.input(2).valid()) bias = planner_.view(node.input(2));
    ValueId result = node.output(0);
    if (const std::vector<NodeId> norm = norm_behind(graph_, node); !norm.empty()) {
      fold_norm(planner_, graph_.node(norm_of(graph_, norm)), weights, bias);
      result = graph_.node(norm.back()).output(0);
    }
    std::string value = "sum_";
    if (bias) {
      value += fmt::format(" + x{}_", fused_.leaves.size());
      fused_.leaves.push_back(broadcast(*bias, fused_.dims, 1));
    }
    const DType dtype = graph_.type(result).dtype();
    fused_.code += fmt::format("const float y_ = {};\n", rounded(dtype, value));
    names_[result] = "y_";
    return weights;
  }

  std::size_t column_axis(const NodeView& node) const {
    return node.has("kernel_shape") ? 1 : fused_.dims.size() - 1;
  }

  bool is_read_elsewhere(ValueId value) const {
    if (graph_.is_output(value)) return true;
    for (const Use& use : graph_.uses(value)) {
      if (!members_.contains(use.node)) return true;
    }
    return false;
  }

  // The variable of a value; computed in `code` where it is a member's and not there yet.
  std::string name(ValueId value, std::string& code) {
    if (const auto known = names_.find(value); known != names_.end()) return known->second;
    const NodeView node = graph_.node(graph_.producer(value));
    const NodeId quantising = quantised_before(node);
    const NodeView read = quantising.valid() ? graph_.node(quantising) : node;
    const NodeId relu = quantising.valid() ? NodeId{} : relu_before(node);
    const Lowering& lowering = *LoweringRegistry::get().find(read);
    Names operands;
    const std::size_t count = std::min(read.inputs().size(), lowering.operands);
    for (std::size_t i = 0; i < count; ++i) {
      std::optional<std::size_t> first;
      if (lowering.first_axis) first = lowering.first_axis(graph_, read, i);
      const bool skips = relu.valid() && i == 0;
      operands.push_back(name_of(skips ? graph_.node(relu) : read, i, first, code));
    }
    const std::string made = fmt::format("t{}_", next_++);
    const DType dtype = graph_.type(value).dtype();
    std::string expression;
    if (quantising.valid()) {
      expression =
          requantised_by_reciprocal(graph_, read, operands, *planner_.scalar(node.input(1)));
    } else if (is_by_reciprocal(node)) {
      expression = quantised_by_reciprocal(graph_, node, operands, relu.valid());
    } else {
      expression = lowering.expression(graph_, node, operands);
    }
    code += fmt::format("const {0} {1} = {2};\n", computed_type(dtype), made,
                        rounded(dtype, expression));
    names_[value] = made;
    return made;
  }

  bool is_by_reciprocal(const NodeView& node) const {
    return group_.kind == Group::Kind::kIntegers && node.op() == "QuantizeLinear" &&
           planner_.scalar(node.input(1));
  }

  // The Relu before a QuantizeLinear, which can do without: it has no numbers below zero.
  NodeId relu_before(const NodeView& node) const {
    if (!is_by_reciprocal(node)) return {};
    const NodeId id = graph_.producer(node.input(0));
    const bool is_relu = id.valid() && members_.contains(id) && graph_.node(id).op() == "Relu" &&
                         !is_read_elsewhere(node.input(0));
    return is_relu ? id : NodeId{};
  }

  // The member whose bytes a DequantizeLinear takes apart with the zero point that they got there;
  // none where it is not so.
  NodeId quantised_before(const NodeView& node) const {
    if (node.op() != "DequantizeLinear") return {};
    const NodeId id = graph_.producer(node.input(0));
    if (!id.valid() || !members_.contains(id)) return {};
    const NodeView quantising = graph_.node(id);
    const auto zero_of = [&](const NodeView& of) {
      return of.input(2).valid() ? planner_.scalar(of.input(2)) : std::optional<std::string>("0");
    };
    const DType dtype = graph_.type(node.input(0)).dtype();
    const bool is_byte = dtype == DType::kInt8 || dtype == DType::kUInt8;
    const bool same = zero_of(node) && zero_of(node) == zero_of(quantising);
    return is_byte && is_by_reciprocal(quantising) && planner_.scalar(node.input(1)) && same
               ? id
               : NodeId{};
  }

  std::string name_of(const NodeView& node, std::size_t input, std::optional<std::size_t> first,
                      std::string& code) {
    const ValueId value = node.input(input);
    if (!value.valid()) return "";
    if (const auto number = planner_.scalar(value)) return *number;
    const NodeId producer = graph_.producer(value);
    if (producer.valid() && members_.contains(producer)) return name(value, code);
    return leaf(value, first);
  }

  std::string leaf(ValueId value, std::optional<std::size_t> first) {
    if (const auto number = planner_.scalar(value)) return *number;
    const auto key = std::make_pair(value, first.value_or(fused_.dims.size()));
    const auto [known, is_new] = leaves_.try_emplace(key, fused_.leaves.size());
    if (is_new) fused_.leaves.push_back(broadcast(planner_.plain(value), fused_.dims, first));
    return fmt::format("x{}_", known->second);
  }

  // A value of half precision or less is rounded, although the kernel goes on in float.
  static std::string rounded(DType dtype, const std::string& value) {
    if (computed_type(dtype) == "float" && dtype != DType::kFloat32 && !is_packed(dtype)) {
      return loaded(dtype, stored(dtype, value));
    }
    return fmt::format("({})({})", computed_type(dtype), value);
  }

  // How many channels those who read bytes of a few want them to lie with; none where others read
  // them.
  std::optional<std::int64_t> padded_channels(ValueId value) const {
    std::optional<std::int64_t> padded;
    for (const Use& use : graph_.uses(value)) {
      const NodeView node = graph_.node(use.node);
      if (node.qualified_op() != kIntegerOp || !node.has("kernel_shape") || node.has("blocks")) {
        return std::nullopt;
      }
      padded = node.attr_int("padded", 0);
    }
    if (graph_.is_output(value) || padded == fused_.dims[1]) return std::nullopt;
    return padded;
  }

  // Results lie as the largest operand of the same shape does.
  std::vector<std::size_t> result_order() const {
    const View* best = nullptr;
    for (const View& view : fused_.leaves) {
      if (!view.is_dense() || view.count() != element_count(fused_.dims)) continue;
      if (best == nullptr || bytes_of(view.dtype) > bytes_of(best->dtype)) best = &view;
    }
    if (best == nullptr || best->is_row_major()) return {};
    return axes_by_stride(*best);
  }

  Planner& planner_;
  const GraphView& graph_;
  const Group& group_;
  std::set<NodeId> members_;
  Fused fused_;
  std::map<ValueId, std::string> names_;
  std::map<std::pair<ValueId, std::size_t>, std::size_t> leaves_;
  int next_ = 0;
};

}  // namespace

void emit_fused(Planner& planner, const Group& group) { Writer(planner, group).run(); }

}  // namespace xrt::cuda
