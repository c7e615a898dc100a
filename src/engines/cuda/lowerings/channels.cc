// SPDX-License-Identifier: Apache-2.0
// Sums over all axes but that of channels, where those lie last: neighbouring threads read
// neighbouring channels, and blocks share the rows between them.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "engines/cuda/code.h"
#include "engines/cuda/layouts.h"
#include "engines/cuda/lowering.h"
#include "engines/cuda/training.h"

namespace xrt::cuda {
namespace channels {
namespace {

// Of a device; two of them run at the same time on each processor, and take turns.
constexpr std::int64_t kBlocks = 132 * 2;
constexpr int kLanes = 32;

struct Shape {
  std::int64_t channels = 0, rows = 0;
  int width = 1;        // channels that a thread reads at a time
  std::int64_t pieces;  // of a row, of that width
  int beside = 1;       // threads of a row
  std::int64_t parts = 1, part_rows = 1;
  int deep() const { return static_cast<int>(kThreads) / beside; }
};

Shape shape_of(const View& x) {
  Shape shape;
  shape.channels = x.dims[1];
  shape.rows = x.count() / shape.channels;
  shape.width = static_cast<int>(16 / bytes_of(x.dtype));
  while (shape.channels % shape.width != 0) shape.width /= 2;
  shape.pieces = shape.channels / shape.width;
  while (shape.beside < kLanes && shape.beside * 2 <= shape.pieces) shape.beside *= 2;
  const std::int64_t groups = (shape.pieces + shape.beside - 1) / shape.beside;
  const std::int64_t most = std::max<std::int64_t>(1, shape.rows / (4 * shape.deep()));
  shape.parts = std::clamp<std::int64_t>(kBlocks / groups, 1, most);
  shape.part_rows = (shape.rows + shape.parts - 1) / shape.parts;
  return shape;
}

// What a kernel adds up of a channel: u and v of each element.
struct Terms {
  std::string pivot;  // what is taken from elements x
  std::string first;  // statements before the loop
  std::string loads, u, v;
};

std::string partial_sums(const Shape& s, DType dtype, const Terms& terms) {
  return fmt::format(
      "typedef Vec<{type}, {width}> Piece;\n"
      "const int tx = threadIdx.x % {beside}, ty = threadIdx.x / {beside};\n"
      "const int piece = (int)blockIdx.y * {beside} + tx;\n"
      "const i64 begin = (i64)blockIdx.x * {part_rows}, limit = begin + {part_rows};\n"
      "const i64 end = limit < {rows} ? limit : {rows};\n"
      "float u[{width}], v[{width}], pivot[{width}];\n"
      "for (int j = 0; j < {width}; ++j) u[j] = 0, v[j] = 0, pivot[j] = 0;\n"
      "if (piece < {pieces}) {{\n{first}"
      "for (int j = 0; j < {width}; ++j) pivot[j] = {pivot};\n"
      "#pragma unroll 4\n"
      "for (i64 r = begin + ty; r < end; r += {deep}) {{\n"
      "const i64 at = r * {channels} + piece * {width};\n"
      "const Piece a = *(const Piece*)(p0 + at);\n{loads}"
      "#pragma unroll\n"
      "for (int j = 0; j < {width}; ++j) {{\n"
      "const float d = {x} - pivot[j];\nu[j] += {u};\nv[j] += {v};\n}}\n}}\n}}\n"
      "__shared__ float parts[2 * {threads}];\n"
      "#pragma unroll\n"
      "for (int j = 0; j < {width}; ++j) {{\n"
      "__syncthreads();\n"
      "parts[threadIdx.x] = u[j], parts[{threads} + threadIdx.x] = v[j];\n"
      "for (int half = {deep} / 2; half > 0; half /= 2) {{\n"
      "__syncthreads();\n"
      "if (ty < half) {{\n"
      "parts[threadIdx.x] += parts[threadIdx.x + half * {beside}];\n"
      "parts[{threads} + threadIdx.x] += parts[{threads} + threadIdx.x + half * {beside}];\n"
      "}}\n}}\n"
      "if (ty == 0 && piece < {pieces}) {{\n"
      "float* const to = q0 + (i64)blockIdx.x * {channels2} + piece * {width} + j;\n"
      "to[0] = parts[threadIdx.x], to[{channels}] = parts[{threads} + threadIdx.x];\n}}\n}}\n",
      fmt::arg("type", stored_type(dtype)), fmt::arg("width", s.width),
      fmt::arg("beside", s.beside), fmt::arg("part_rows", s.part_rows), fmt::arg("rows", s.rows),
      fmt::arg("pieces", s.pieces), fmt::arg("first", terms.first), fmt::arg("pivot", terms.pivot),
      fmt::arg("deep", s.deep()), fmt::arg("channels", s.channels), fmt::arg("loads", terms.loads),
      fmt::arg("x", loaded(dtype, "a.v[j]")), fmt::arg("u", terms.u), fmt::arg("v", terms.v),
      fmt::arg("threads", kThreads), fmt::arg("channels2", 2 * s.channels));
}

// `end`: statements that write the results of a channel from u and v.
std::string whole_sums(const Shape& s, const std::string& end) {
  return fmt::format(
             "const int tx = threadIdx.x % {0}, ty = threadIdx.x / {0};\n"
             "const int channel = (int)blockIdx.x * {0} + tx;\n"
             "float u = 0, v = 0;\n"
             "for (int g = ty; channel < {1} && g < {2}; g += {3}) {{\n"
             "const float* const from = p0 + (i64)g * {4} + channel;\n"
             "u += from[0], v += from[{1}];\n}}\n"
             "__shared__ float parts[2 * {5}];\n"
             "parts[threadIdx.x] = u, parts[{5} + threadIdx.x] = v;\n"
             "__syncthreads();\n"
             "if (ty != 0 || channel >= {1}) return;\n"
             "for (int o = 1; o < {3}; ++o) u += parts[o * {0} + tx], v += parts[{5} + o * {0} + "
             "tx];\n",
             kLanes, s.channels, s.parts, kThreads / kLanes, 2 * s.channels, kThreads) +
         end;
}

void queue_sums(Planner& planner, const Shape& shape, const std::vector<View>& reads,
                const std::string& partial, std::vector<View> reads_of_end,
                const std::vector<View>& results, const std::string& end) {
  const View parts = planner.temporary(DType::kFloat32, {shape.parts, 2, shape.channels});
  const std::int64_t groups = (shape.pieces + shape.beside - 1) / shape.beside;
  planner.kernel(planner.what(),
                 {static_cast<unsigned>(shape.parts), static_cast<unsigned>(groups), 1, kThreads},
                 reads, {parts}, partial);
  reads_of_end.insert(reads_of_end.begin(), parts);
  planner.kernel(planner.what(),
                 {static_cast<unsigned>((shape.channels + kLanes - 1) / kLanes), 1, 1, kThreads},
                 std::move(reads_of_end), results, whole_sums(shape, end));
}

View channels_behind(Planner& planner, ValueId value) {
  const View view = planner.view(value);
  return brought_to(planner, view, channels_last(view.dims.size()));
}

}  // namespace
}  // namespace channels

// Both results are sums of what elements differ from the first row: numbers that are far from zero
// keep their digits.
void emit_channel_moments(Planner& planner, const NodeView& node) {
  const View x = channels::channels_behind(planner, node.input(0));
  const channels::Shape shape = channels::shape_of(x);
  channels::Terms terms;
  terms.first = fmt::format("const Piece first = *(const Piece*)(p0 + piece * {});\n", shape.width);
  terms.pivot = loaded(x.dtype, "first.v[j]");
  terms.u = "d", terms.v = "d * d";
  const View mean = planner.temporary_for(node.output(0));
  const View variance = planner.temporary_for(node.output(1));
  const std::string end = fmt::format(
      "const float off = u / {0}.0f, spread = v / {0}.0f - off * off;\n"
      "q0[channel] = {1} + off;\nq1[channel] = spread > 0 || spread != spread ? spread : 0;\n",
      shape.rows, loaded(x.dtype, "p1[channel]"));
  channels::queue_sums(planner, shape, {x}, channels::partial_sums(shape, x.dtype, terms), {x},
                       {mean, variance}, end);
  planner.define(node.output(0), mean);
  planner.define(node.output(1), variance);
}

void emit_channel_products(Planner& planner, const NodeView& node) {
  const View x = channels::channels_behind(planner, node.input(0));
  const View dy = channels::channels_behind(planner, node.input(1));
  const View mean = planner.dense(node.input(2));
  const channels::Shape shape = channels::shape_of(x);
  channels::Terms terms;
  terms.pivot = fmt::format("p2[piece * {} + j]", shape.width);
  terms.loads = "const Piece b = *(const Piece*)(p1 + at);\n";
  const std::string g = loaded(dy.dtype, "b.v[j]");
  terms.u = g, terms.v = g + " * d";
  const View sum = planner.temporary_for(node.output(0));
  const View product = planner.temporary_for(node.output(1));
  channels::queue_sums(planner, shape, {x, dy, mean}, channels::partial_sums(shape, x.dtype, terms),
                       {}, {sum, product}, "q0[channel] = u;\nq1[channel] = v;\n");
  planner.define(node.output(0), sum);
  planner.define(node.output(1), product);
}

}  // namespace xrt::cuda
