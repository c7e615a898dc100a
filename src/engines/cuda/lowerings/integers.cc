// SPDX-License-Identifier: Apache-2.0
// Products of bytes on tensor cores, and what is computed of their results before they are written.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engines/cuda/code.h"
#include "engines/cuda/elements.h"
#include "engines/cuda/fused.h"
#include "engines/cuda/integer_source.h"
#include "engines/cuda/layouts.h"
#include "engines/cuda/planner.h"
#include "engines/cuda/warpgroup_source.h"

namespace xrt::cuda {
namespace {

// Tiles that are compiled and timed, of each kind of instruction; fewer of the older ones where
// there are newer ones.
constexpr std::size_t kMostTiles = 6, kMostOlderTiles = 3, kMostWarpgroupTiles = 5;
// Columns that the sums come in.
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

// What is read as vectors for four neighbouring results: fields of a struct, and what fills them.
struct Reading {
  std::string fields, code;
  void add(std::size_t leaf, std::string_view stored, int width, const std::string& at) {
    const std::string type = fmt::format("Vec<{}, {}>", stored, width);
    fields += fmt::format("{} w{}[{}];\n", type, leaf, kTogether / width);
    code += fmt::format("made.w{0}[q] = *(const {1}*)(p{0} + ({2}));\n", leaf, type, at);
  }
};

// columns(n): what four neighbouring columns need that is the same for all rows. read(row, n): what
// else they read. finish(row, n, sums, columns(n), read(row, n)): computes and writes their
// results.
std::string finish_code(const Fused& fused, const std::vector<View>& views, std::int64_t columns) {
  const Space space =
      make_space(fused.dims, strides_of(views), axes_by_stride(fused.results.front().view));
  int width = std::min(kTogether, vector_width(space, views));
  while (width > 1 && columns % width != 0) width /= 2;
  const Space steps = in_steps(space, width);
  std::string needed = fused.code;
  for (const Fused::Result& result : fused.results) needed += result.value;
  const std::string loop = fmt::format(
      "#pragma unroll\nfor (int q = 0; q < {0}; ++q) {{\nif (n + q * {1} >= {2}) break;\n",
      kTogether / width, width, columns);

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
  Reading of_column, of_row;
  std::string given;
  const std::vector<std::size_t> vectors = one.vectors(needed);
  for (const std::size_t leaf : vectors) {
    const bool once = by_column && one.is_repeated(leaf);
    (once ? of_column : of_row)
        .add(leaf, stored_type(fused.leaves[leaf].dtype), width, place(steps, leaf));
    given += fmt::format("const auto& w{0} = {1}.w{0}[q];\n", leaf, once ? "of" : "theirs");
  }
  one.give(vectors);
  std::string text = fmt::format(
      "struct Columns {{\n{}}};\nstruct Row {{\n{}}};\n"
      "auto columns = [&](int n) {{\nColumns made;\n{}{}{}}}\nreturn made;\n}};\n"
      "auto read = [&](int row, int n) {{\nRow made;\n{}{}{}}}\nreturn made;\n}};\n"
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

}  // namespace

void emit_over_integers(Planner& planner, const Fused& fused, const NodeView& node) {
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
  if (has_plane) {
    x = padded_channels(planner, x, padded);
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
  fact("unit", unit);

  planner.define_code(integer_source());
  std::vector<View> reads = fused.leaves;
  reads.push_back(x);
  reads.push_back(w);
  std::vector<Planner::KernelWay> ways;
  const std::string finish = finish_code(fused, all_views(fused), columns);
  const auto add_way = [&](const auto& tile, std::string_view sizes, std::string_view function) {
    const std::string body = fmt::format(
        "struct P {{ enum {{ {}bm = {}, bn = {}, bk = {}, stages = {}, {} }}; }};\n"
        "{}{}<P>((const u8*)p{}, (const u8*)p{}, columns, read, finish);\n",
        facts, tile.bm, tile.bn, tile.bk, tile.stages, sizes, finish, function, fused.leaves.size(),
        fused.leaves.size() + 1);
    const std::int64_t blocks =
        (rows + tile.bm - 1) / tile.bm * ((columns + tile.bn - 1) / tile.bn);
    ways.push_back({{static_cast<unsigned>(blocks), 1, 1, static_cast<unsigned>(tile.threads()),
                     static_cast<unsigned>(tile.shared_bytes())},
                    body});
  };
  const bool by_warpgroups = unit == 16 && has_warpgroups(planner.options().capability);
  if (by_warpgroups) {
    planner.define_code(warpgroup_source());
    for (const WarpgroupTile& tile : warpgroup_tiles(rows, columns, terms)) {
      if (ways.size() == kMostWarpgroupTiles) break;
      planner.define_code(warpgroup_core(tile.bn, x.dtype == DType::kInt8));
      add_way(tile, fmt::format("groups = {}", tile.groups), "warpgroup_sums");
    }
  }
  const std::size_t most = ways.size() + (by_warpgroups ? kMostOlderTiles : kMostTiles);
  for (const IntegerTile& tile : integer_tiles(rows, columns, terms)) {
    if (ways.size() == most) break;
    add_way(tile, fmt::format("wm = {}, wn = {}, wk = {}", tile.wm, tile.wn, tile.wk),
            "integer_sums");
  }
  planner.kernel(fused.what, ways, std::move(reads), result_views(fused));
}

}  // namespace xrt::cuda
