// SPDX-License-Identifier: Apache-2.0
// Products of bytes on tensor cores, and what is computed of their results before they are written.
#include "engines/cuda/integers.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engines/cuda/code.h"
#include "engines/cuda/elements.h"
#include "engines/cuda/fused.h"
#include "engines/cuda/groups.h"
#include "engines/cuda/integer_source.h"
#include "engines/cuda/layouts.h"
#include "engines/cuda/planner.h"
#include "engines/cuda/warpgroup_source.h"

namespace xrt::cuda {
namespace {

// Tiles that are compiled and timed, of each kind of instruction; fewer of the older ones where
// there are newer ones.
constexpr std::size_t kMostTiles = 6, kMostOlderTiles = 3, kMostWarpgroupTiles = 5;
// Columns that sums come in: those of a thread, as the kernels have them.
constexpr int kTogether = 4;

// The bytes with `padded` channels; what lies in further ones meets zeros.
View padded_channels(Planner& planner, const View& x, std::int64_t padded) {
  const std::vector<std::size_t> order = channels_last(x.dims.size());
  if (x.dims[1] == padded) return brought_to(planner, x, order);
  Dims dims = x.dims;
  dims[1] = padded;
  View wide = x;
  wide.dims = dims;
  if (x.offset == 0 && lies_in_order(wide, order)) {
    return in_order(wide, order);  // it was made so (fused.cc)
  }
  View made = planner.temporary(x.dtype, dims, order);
  View own = made;
  own.dims[1] = x.dims[1];
  planner.copy("a layout for " + planner.what(), x, own);
  return made;
}

// Blocks of so many rows and columns as the channels of one, of `padded`; what lies in further ones
// meets zeros.
View blocks_as_channels(Planner& planner, const View& x, std::int64_t edge, std::int64_t padded) {
  const std::int64_t channels = x.dims[1];
  const Dims cut{x.dims[0], channels, x.dims[2] / edge, edge, x.dims[3] / edge, edge};
  View made = planner.temporary(x.dtype, {cut[0], padded, cut[2], cut[4]}, channels_last(4));
  View to = made;
  to.dims = cut;
  to.strides = {made.strides[0], 1, made.strides[2], edge * channels, made.strides[3], channels};
  planner.copy("a layout for " + planner.what(), *reshaped(x, cut), to);
  return made;
}

// What is read as vectors for so many neighbouring results: fields of a struct, and what fills
// them.
struct Reading {
  int together = kTogether;
  std::string fields = {}, code = {};
  void add(std::size_t leaf, std::string_view stored, int width, const std::string& at,
           bool may_be_staged) {
    const std::string type = fmt::format("Vec<{}, {}>", stored, width);
    fields += fmt::format("{} w{}[{}];\n", type, leaf, together / width);
    if (may_be_staged) {
      code += fmt::format(
          "if constexpr (P::staged) made.w{}[q] = *(const {}*)(staged + q * {});\nelse ", leaf,
          type, width);
    }
    code += fmt::format("made.w{0}[q] = *(const {1}*)(p{0} + ({2}));\n", leaf, type, at);
  }
};

// The operand of bytes that lies as the product's results do, sixteen at a time: the kernel may
// have it in shared memory when it is read.
std::optional<std::size_t> staged_leaf(const Fused& fused, std::int64_t columns) {
  constexpr std::int64_t kBytes = 16;
  for (std::size_t l = 0; l < fused.leaves.size(); ++l) {
    const View& leaf = fused.leaves[l];
    const std::vector<std::size_t> order = axes_by_stride(leaf);
    std::int64_t apart = 1;
    bool is_dense = true;
    for (std::size_t i = order.size(); i-- > 0;) {
      is_dense = is_dense && (leaf.dims[order[i]] == 1 || leaf.strides[order[i]] == apart);
      apart *= leaf.dims[order[i]];
    }
    const bool lies_alike = order == axes_by_stride(fused.results.front().view);
    if (bytes_of(leaf.dtype) == 1 && is_dense && lies_alike && leaf.dims[order.back()] == columns &&
        columns % kBytes == 0 && leaf.offset % kBytes == 0) {
      return l;
    }
  }
  return std::nullopt;
}

// columns(n): what `together` neighbouring columns need that is the same for all rows. read(row, n,
// staged): what else they read, of which `staged` may point to that leaf's. finish(row, n, sums,
// columns(n), read(row, n)): computes and writes their results.
std::string finish_code(const Fused& fused, const std::vector<View>& views, std::int64_t columns,
                        std::optional<std::size_t> staged, int together) {
  const Space space =
      make_space(fused.dims, strides_of(views), axes_by_stride(fused.results.front().view));
  int width = vector_width(space, views, together);
  while (width > 1 && columns % width != 0) width /= 2;
  const Space steps = in_steps(space, width);
  std::string needed = fused.code;
  for (const Fused::Result& result : fused.results) needed += result.value;
  const std::string loop = fmt::format(
      "#pragma unroll\nfor (int q = 0; q < {0}; ++q) {{\nif (n + q * {1} >= {2}) break;\n",
      together / width, width, columns);

  const bool by_column = space.dims.size() > 1 && space.dims.back() == columns;
  std::string column, step;
  if (by_column) {
    const Space rows{{space.dims.begin(), space.dims.end() - 1}, {}, space.wide};
    column = fmt::format("const unsigned c{} = (unsigned)n / {}u + q;\n", rows.dims.size(), width);
    step = coordinates(rows, "row") + column;
  } else {
    step = fmt::format("const {0} i = (({0})row * {1}u + n) / {2}u + q;\n", steps.index_type(),
                       columns, width) +
           coordinates(steps, "i");
  }
  Elements one(fused, space, width);
  Reading of_column{together}, of_row{together};
  std::string given;
  const std::vector<std::size_t> vectors = one.vectors(needed);
  for (const std::size_t leaf : vectors) {
    const bool once = by_column && one.is_repeated(leaf);
    (once ? of_column : of_row)
        .add(leaf, stored_type(fused.leaves[leaf].dtype), width, place(steps, leaf),
             !once && leaf == staged);
    given += fmt::format("const auto& w{0} = {1}.w{0}[q];\n", leaf, once ? "of" : "theirs");
  }
  one.give(vectors);
  std::string text = fmt::format(
      "struct Columns {{\n{}}};\nstruct Row {{\n{}}};\n"
      "auto columns = [&](int n) {{\nColumns made;\n{}{}{}}}\nreturn made;\n}};\n"
      "auto read = [&](int row, int n, const u8* staged) {{\nRow made;\n{}{}{}}}\nreturn "
      "made;\n}};\n"
      "auto finish = [&](int row, int n, const int* sums, const Columns& of, const Row& theirs) "
      "{{\n",
      of_column.fields, of_row.fields, loop, column, of_column.code, loop, step, of_row.code);
  text += loop + step + given;
  text += one.places(needed, steps) + one.loads(needed) + one.declare_results();
  text += fmt::format(
      "#pragma unroll\nfor (int j = 0; j < {0}; ++j) {{\nconst int sum_ = sums[q * {0} + j];\n",
      width);
  text += one.values(needed) + fused.code + one.set_results() + "}\n";
  text += one.write_results();
  return text + "}\n};\n";
}

// The number that a constant of the node's operands is; zero where the operand is left out.
template <typename T>
std::optional<T> number_of(const GraphView& graph, const NodeView& node, std::size_t input) {
  if (!node.input(input).valid()) return T{0};
  const TensorView constant = graph.constant(node.input(input));
  if (!constant.defined() || constant.count() != 1) return std::nullopt;
  return *constant.data<T>();
}

// The scale of a QuantizeLinear or DequantizeLinear of int8 without a zero point.
std::optional<float> scale_of(const GraphView& graph, const NodeView& node, ValueId bytes) {
  if (graph.type(bytes).dtype() != DType::kInt8) return std::nullopt;
  if (number_of<std::int8_t>(graph, node, 2) != std::int8_t{0}) return std::nullopt;
  return number_of<float>(graph, node, 1);
}

// What is computed of a convolution's sums, where it is what a library knows: a residual, Relu,
// int8 again. `x`, `w` and the strides stay to be filled in.
std::optional<IntegerConvolution> library_form(const Planner& planner, const Fused& fused,
                                               const NodeView& node, const Group& group) {
  const GraphView& graph = planner.graph();
  const std::vector<std::size_t> order = channels_last(fused.dims.size());
  const auto in_memory = [&](const View& view) -> std::optional<View> {
    if (view.dims != fused.dims || !lies_in_order(view, order)) return std::nullopt;
    return in_order(view, order);
  };
  const auto y = fused.results.size() == 1 ? in_memory(fused.results.front().view) : std::nullopt;
  if (!planner.options().has_cudnn || !y || y->dtype != DType::kInt8 ||
      node.attr_int("zero", 0) != 0) {
    return std::nullopt;
  }
  IntegerConvolution made;
  made.y = *y;
  made.scale = planner.view(node.input(kScaleInput));
  made.bias = planner.view(node.input(kBiasInput));
  const auto is_member = [&](NodeId id) {
    return std::find(group.nodes.begin(), group.nodes.end(), id) != group.nodes.end();
  };
  std::size_t read = 1;  // of the group's nodes
  for (ValueId value = node.output(0);;) {
    if (read == group.nodes.size()) return std::nullopt;  // it gives floats
    const NodeView next = graph.node(graph.uses(value).front().node);
    ++read;
    if (next.op() == "Relu" && !made.has_relu) {
      made.has_relu = true;
    } else if (next.op() == "Add" && !made.has_relu && !made.residual) {
      const ValueId other = next.input(next.input(0) == value ? 1 : 0);
      const NodeId producer = graph.producer(other);
      if (!producer.valid() || graph.node(producer).op() != "DequantizeLinear") return std::nullopt;
      const NodeView bytes = graph.node(producer);
      const auto scale = scale_of(graph, bytes, bytes.input(0));
      if (!scale || !planner.has(bytes.input(0))) return std::nullopt;
      made.residual = in_memory(planner.view(bytes.input(0)));
      made.residual_scale = *scale;
      if (!made.residual) return std::nullopt;
      read += is_member(producer) ? 1 : 0;
    } else if (next.op() == "QuantizeLinear") {
      const auto scale = scale_of(graph, next, next.output(0));
      if (!scale || read != group.nodes.size()) return std::nullopt;
      made.y_scale = 1 / *scale;
      return made;
    } else {
      return std::nullopt;
    }
    value = next.output(0);
  }
}

}  // namespace

void emit_over_integers(Planner& planner, const Fused& fused, const NodeView& node,
                        const Group& group) {
  View x = planner.view(node.input(0));
  const View w = planner.view(node.input(1));
  const std::int64_t padded = node.attr_int("padded", 0);
  const Dims& to = fused.dims;
  const bool has_plane = node.has("kernel_shape");
  std::int64_t rows = 0, columns = 0, terms = 0;
  std::string facts;
  const auto fact = [&](const char* name, std::int64_t value) {
    facts += fmt::format("{} = {}, ", name, value);
  };
  bool window = false;
  std::optional<IntegerConvolution> library;
  if (has_plane) {
    const std::int64_t edge = node.attr_int("blocks", 1);
    x = edge > 1 ? blocks_as_channels(planner, x, edge, padded)
                 : padded_channels(planner, x, padded);
    columns = to[1];
    rows = element_count(to) / columns;
    const std::vector<std::int64_t> kernel = node.attr_ints("kernel_shape"),
                                    strides = node.attr_ints("strides"),
                                    dilations = node.attr_ints("dilations"),
                                    pads = node.attr_ints("pads");
    terms = kernel[0] * kernel[1] * padded;
    const auto all_are = [](const std::vector<std::int64_t>& values, std::int64_t value) {
      return std::all_of(values.begin(), values.end(), [&](std::int64_t v) { return v == value; });
    };
    window = !all_are(kernel, 1) || !all_are(strides, 1) || !all_are(pads, 0);
    fact("ih", x.dims[2]), fact("iw", x.dims[3]), fact("c", padded);
    fact("oh", to[2]), fact("ow", to[3]);
    fact("kh", kernel[0]), fact("kw", kernel[1]), fact("sh", strides[0]), fact("sw", strides[1]);
    fact("dh", dilations[0]), fact("dw", dilations[1]), fact("ph", pads[0]), fact("pw", pads[1]);
    library = library_form(planner, fused, node, group);
    if (library) {
      const Dims dims{columns, padded, kernel[0], kernel[1]};
      library->w = in_order({w.buffer, w.dtype, dims, Dims(4, 1), w.offset}, channels_last(4));
      library->strides = strides, library->dilations = dilations;
      library->pads_begin = {pads[0], pads[1]}, library->pads_end = {pads[2], pads[3]};
    }
  } else {
    x = planner.dense(x);
    columns = to.back();
    rows = element_count(to) / columns;
    terms = x.dims.back();
    fact("c", terms);
  }
  // Sixteen bytes are read at a time where rows allow it: they must begin there, too.
  constexpr std::int64_t kBytes = 16;
  if (x.offset % kBytes != 0) {
    const View copied = planner.temporary(x.dtype, x.dims, axes_by_stride(x));
    planner.copy("a copy for " + planner.what(), x, copied);
    x = copied;
  }
  int unit = 16;
  while (padded % unit != 0) unit /= 2;
  fact("m", rows), fact("n", columns), fact("k", terms), fact("window", window ? 1 : 0);
  fact("x_signed", x.dtype == DType::kInt8 ? 1 : 0), fact("x_zero", node.attr_int("zero", 0));
  fact("unit", unit), fact("small", node.attr_int("small", 0));
  if (library) library->x = x;
  // Columns of `w` lie further apart than their terms where these are no multiple of sixteen.
  if (unit != kBytes || x.dtype != DType::kInt8) library.reset();

  planner.define_code(integer_source());
  std::vector<View> reads = fused.leaves;
  reads.push_back(x);
  reads.push_back(w);
  std::vector<Planner::KernelWay> ways;
  const std::optional<std::size_t> staged = staged_leaf(fused, columns);
  const auto add_way = [&](const auto& tile, int shared_bytes, int together, std::string_view sizes,
                           std::string_view function, std::string_view more) {
    const std::string finish = finish_code(fused, all_views(fused), columns, staged, together);
    const std::string body = fmt::format(
        "struct P {{ enum {{ {}bm = {}, bn = {}, bk = {}, stages = {}, {} }}; }};\n"
        "{}{}<P>((const u8*)p{}, (const u8*)p{}, {}columns, read, finish);\n",
        facts, tile.bm, tile.bn, tile.bk, tile.stages, sizes, finish, function, fused.leaves.size(),
        fused.leaves.size() + 1, more);
    const std::int64_t blocks =
        (rows + tile.bm - 1) / tile.bm * ((columns + tile.bn - 1) / tile.bn);
    ways.push_back({{static_cast<unsigned>(blocks), 1, 1, static_cast<unsigned>(tile.threads()),
                     static_cast<unsigned>(shared_bytes)},
                    body});
  };
  const bool by_warpgroups = unit == 16 && has_warpgroups(planner.options().capability);
  if (by_warpgroups) {
    planner.define_code(warpgroup_source());
    for (const WarpgroupTile& tile : warpgroup_tiles(rows, columns, terms)) {
      if (ways.size() == kMostWarpgroupTiles) break;
      if (tile.shared_bytes(staged.has_value()) > kMostSharedBytes) continue;
      planner.define_code(warpgroup_core(tile.bn, x.dtype == DType::kInt8));
      const std::string rest = staged ? fmt::format("(const u8*)p{}, ", *staged) : "nullptr, ";
      add_way(tile, tile.shared_bytes(staged.has_value()), tile.together(),
              fmt::format("groups = {}, staged = {}", tile.groups, staged ? 1 : 0),
              "warpgroup_sums", rest);
    }
  }
  const std::size_t most = ways.size() + (by_warpgroups ? kMostOlderTiles : kMostTiles);
  for (const IntegerTile& tile : integer_tiles(rows, columns, terms)) {
    if (ways.size() == most) break;
    add_way(tile, tile.shared_bytes(), kTogether,
            fmt::format("wm = {}, wn = {}, wk = {}, staged = 0", tile.wm, tile.wn, tile.wk),
            "integer_sums", "");
  }
  planner.kernel(fused.what, ways, std::move(reads), result_views(fused), std::move(library));
}

}  // namespace xrt::cuda
