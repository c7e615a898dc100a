// SPDX-License-Identifier: Apache-2.0
#include "engines/cuda/channel_windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "engines/cuda/code.h"
#include "engines/cuda/elements.h"
#include "engines/cuda/layouts.h"
#include "engines/cuda/planner.h"

namespace xrt::cuda {
namespace {

// channel_windows<P, T, Index>(x, first, take, finish): T are elements of x; Index counts threads.
// For each element that a window covers, take(sums, values, column) gets the values of its
// channels, or take.outside() beside x, and the sums, which begin with `first`, of the result to
// which it is that column of the window, in the row that take.begin(row, piece) was told.
// finish(at, sums, row, column) gets each result's, which is number `at` of such pieces of
// channels, and where its window begins.
//
// P: n, c, ih, iw, oh, ow, kh, kw, sh, sw, dh, dw, ph, pw: of the window; channels: those of a
// thread; wide: its results beside each other; tiles: such of a row; slice: threads beside each
// other that take channels beside each other, of which `slices` make all.
constexpr std::string_view kSource = R"(
__device__ inline float number_of(float x) { return x; }
__device__ inline float number_of(f16 x) { return from_f16(x); }
__device__ inline float number_of(bf16 x) { return from_bf16(x); }
__device__ inline float least(float) { return __uint_as_float(0xff800000u); }
__device__ inline f16 least(f16) { return to_f16(__uint_as_float(0xff800000u)); }
__device__ inline bf16 least(bf16) { return to_bf16(__uint_as_float(0xff800000u)); }
template <class P, typename T, typename Index, class Take, class Finish>
__device__ inline void channel_windows(const T* x, float first, Take take,
                                       const Finish& finish) {
  enum { span = (P::wide - 1) * P::sw + (P::kw - 1) * P::dw + 1 };
  typedef Vec<T, P::channels> Piece;
  Piece outside;
#pragma unroll
  for (int j = 0; j < P::channels; ++j) outside.v[j] = take.outside();
  Index i = (Index)blockIdx.x * blockDim.x + threadIdx.x;
  const int in_slice = (int)(i % P::slice);
  i /= P::slice;
  const int tile = (int)(i % P::tiles);
  i /= P::tiles;
  const int row = (int)(i % P::oh);
  i /= P::oh;
  const int piece = (int)(i % P::slices) * P::slice + in_slice;
  i /= P::slices;
  if (i >= P::n) return;
  const int top = row * P::sh - P::ph, left = tile * P::wide * P::sw - P::pw;
  const T* const plane = x + (i64)i * ((i64)P::ih * P::iw * P::c) + piece * P::channels;
  float sums[P::wide][P::channels];
#pragma unroll
  for (int t = 0; t < P::wide; ++t)
#pragma unroll
    for (int j = 0; j < P::channels; ++j) sums[t][j] = first;
  for (int r = 0; r < P::kh; ++r) {
    const int y = top + r * P::dh;
    if (y < 0 || y >= P::ih) continue;
    take.begin(r, piece);
    // All elements of a row are under way together, and no branch is among the sums.
    Piece v[span];
#pragma unroll
    for (int s = 0; s < span; ++s) {
      const int at = left + s;
      v[s] = outside;
      if (at >= 0 && at < P::iw) v[s] = *(const Piece*)(plane + ((i64)y * P::iw + at) * P::c);
    }
#pragma unroll
    for (int s = 0; s < span; ++s)
#pragma unroll
      for (int t = 0; t < P::wide; ++t)
#pragma unroll
        for (int k = 0; k < P::kw; ++k)
          if (t * P::sw + k * P::dw == s) take(sums[t], v[s], k);
  }
#pragma unroll
  for (int t = 0; t < P::wide; ++t) {
    const int column = tile * P::wide + t;
    if (column >= P::ow) break;
    const Index at = (((Index)i * P::oh + row) * P::ow + column) * (P::c / P::channels) + piece;
    finish(at, sums[t], row * P::sh - P::ph, column * P::sw - P::pw);
  }
}
// What a depthwise convolution does with an element: `w` lies by row and column of the window.
template <class P, typename T> struct Multiply {
  const T* w;
  Vec<T, P::channels> factors[P::kw];
  __device__ static T outside() { return T(); }
  __device__ void begin(int row, int piece) {
#pragma unroll
    for (int k = 0; k < P::kw; ++k)
      factors[k] = *(const Vec<T, P::channels>*)(w + (i64)(row * P::kw + k) * P::c +
                                                 piece * P::channels);
  }
  __device__ void operator()(float* sums, const Vec<T, P::channels>& v, int k) const {
#pragma unroll
    for (int j = 0; j < P::channels; ++j)
      sums[j] += number_of(v.v[j]) * number_of(factors[k].v[j]);
  }
};
template <class P, typename T> struct TakeLargest {
  __device__ static T outside() { return least(T()); }
  __device__ void begin(int, int) {}
  __device__ void operator()(float* sums, const Vec<T, P::channels>& v, int) const {
#pragma unroll
    for (int j = 0; j < P::channels; ++j) sums[j] = larger(sums[j], number_of(v.v[j]));
  }
};
template <class P, typename T> struct AddUp {
  __device__ static T outside() { return T(); }
  __device__ void begin(int, int) {}
  __device__ void operator()(float* sums, const Vec<T, P::channels>& v, int) const {
#pragma unroll
    for (int j = 0; j < P::channels; ++j) sums[j] += number_of(v.v[j]);
  }
};
)";

// A line is a plane of one row.
struct Plane {
  std::int64_t n, c, ih, iw, oh, ow, kh, kw, sh, sw, dh, dw, ph, pw;
  std::int64_t bottom, right;  // padding

  Plane(const Window& window, const View& x, const Dims& result) {
    const bool is_line = x.dims.size() == 3;
    const auto of = [&](const std::vector<std::int64_t>& values, std::int64_t missing) {
      return std::pair(is_line ? missing : values[values.size() - 2], values.back());
    };
    n = x.dims[0], c = x.dims[1];
    std::tie(ih, iw) = of(x.dims, 1);
    std::tie(oh, ow) = of(result, 1);
    std::tie(kh, kw) = of(window.kernel, 1);
    std::tie(sh, sw) = of(window.strides, 1);
    std::tie(dh, dw) = of(window.dilations, 1);
    std::tie(ph, pw) = of(window.begin, 0);
    std::tie(bottom, right) = of(window.end, 0);
  }
};

// Elements of a row that a thread has at once: each has registers of its own, and code.
constexpr std::int64_t kWidestSpan = 32;
std::int64_t span_of(const Window& window, std::int64_t wide) {
  return (wide - 1) * window.strides.back() + (window.kernel.back() - 1) * window.dilations.back() +
         1;
}

// What a thread takes.
struct Share {
  std::int64_t channels, wide;
};

struct Piece {
  std::int64_t slice, slices, tiles, threads;

  Piece(const Plane& plane, const Share& share) {
    constexpr std::int64_t kMostBeside = 16;  // 256 bytes of half precision
    const std::int64_t pieces = plane.c / share.channels;
    slice = std::min(pieces, kMostBeside);
    while (pieces % slice != 0) --slice;
    slices = pieces / slice;
    tiles = (plane.ow + share.wide - 1) / share.wide;
    threads = plane.n * plane.oh * tiles * pieces;
  }
};

// Those first that are held for the fastest: as much as a thread can take, where that leaves enough
// threads.
std::vector<Share> shares_of(const Window& window, const Plane& plane, int channels) {
  constexpr std::int64_t kManyThreads = 132 * 256;
  constexpr std::size_t kMostShares = 3;
  const std::int64_t half = std::max(channels / 2, 1);
  const std::int64_t widest = plane.ow % 7 == 0 ? 7 : 8;
  std::vector<Share> all;
  for (const std::int64_t wide : {widest, std::int64_t{4}, std::int64_t{2}, std::int64_t{1}}) {
    if (wide >= 2 * plane.ow || span_of(window, wide) > kWidestSpan) continue;
    for (const std::int64_t c : {std::int64_t{channels}, half}) {
      const Share share{c, wide};
      const bool is_enough = Piece(plane, share).threads >= kManyThreads;
      if ((is_enough || wide == 1) && all.size() < kMostShares) all.push_back(share);
      if (half == channels) break;
    }
  }
  return all;
}

// Begins a kernel's body: the struct P, and `typedef`s of what the source is a template of.
std::string facts(const Plane& p, const Share& share, DType dtype) {
  const Piece piece(p, share);
  return fmt::format(
      "struct P {{ enum {{ n = {}, c = {}, ih = {}, iw = {}, oh = {}, ow = {}, kh = {}, kw = {}, "
      "sh = {}, sw = {}, dh = {}, dw = {}, ph = {}, pw = {}, channels = {}, wide = {}, tiles = {}, "
      "slice = {}, slices = {} }}; }};\ntypedef {} T;\ntypedef {} Index;\n",
      p.n, p.c, p.ih, p.iw, p.oh, p.ow, p.kh, p.kw, p.sh, p.sw, p.dh, p.dw, p.ph, p.pw,
      share.channels, share.wide, piece.tiles, piece.slice, piece.slices, stored_type(dtype),
      piece.threads * share.wide >= std::int64_t{1} << 31 ? "u64" : "unsigned");
}

Grid grid_of(const Plane& plane, const Share& share) {
  constexpr unsigned kOfBlock = 128;  // a thread has many registers
  const std::int64_t blocks = (Piece(plane, share).threads + kOfBlock - 1) / kOfBlock;
  return {static_cast<unsigned>(blocks), 1, 1, kOfBlock};
}

// As many of `channels` that lie together as a thread can read at once, and no more than `width`.
int channels_at_once(const View& view, std::int64_t channels, int width) {
  while (channels % width != 0 || view.offset % width != 0) width /= 2;
  return width;
}

}  // namespace

bool is_depthwise(const GraphView& graph, const NodeView& node) {
  if (node.qualified_op() != "Conv") return false;
  const TypeView x = graph.type(node.input(0)), w = graph.type(node.input(1));
  const std::optional<Window> window = window_of(graph, node);
  if (!window || span_of(*window, 1) > kWidestSpan) return false;
  return is_half(x.dtype()) && (x.rank() == 3 || x.rank() == 4) && x.dims()[1] > 1 &&
         node.attr_int("group", 1) == x.dims()[1] && w.dims()[0] == x.dims()[1];
}

void emit_over_channels(Planner& planner, const Fused& fused, const Window& window, const View& x,
                        const View& w) {
  const std::size_t rank = x.dims.size();
  const View from = brought_to(planner, x, channels_last(rank));
  std::vector<std::size_t> by_tap;
  for (std::size_t i = 2; i < rank; ++i) by_tap.push_back(i);
  by_tap.insert(by_tap.end(), {1, 0});
  const View factors = brought_to(planner, w, by_tap);
  const Plane plane(window, from, fused.dims);
  const std::vector<View> views = all_views(fused);
  const Space space = make_space(fused.dims, strides_of(views), channels_last(rank));
  planner.define_code(std::string(kSource));
  std::vector<View> reads = fused.leaves;
  reads.push_back(from);
  reads.push_back(factors);
  std::string needed = fused.code;
  for (const Fused::Result& result : fused.results) needed += result.value;
  std::vector<Planner::KernelWay> ways;
  int width = channels_at_once(from, plane.c, vector_width(space, views));
  width = channels_at_once(factors, plane.c, width);
  for (const Share& share : shares_of(window, plane, width)) {
    const int channels = static_cast<int>(share.channels);
    const Space steps = in_steps(space, channels);
    const Elements one(fused, space, channels);
    std::string text = facts(plane, share, from.dtype);
    text += "const auto finish = [&](Index at, const float* sums, int, int) {\n";
    text += coordinates(steps, "at");
    text += one.places(needed, steps) + one.loads(needed) + one.declare_results();
    text += fmt::format("#pragma unroll\nfor (int j = 0; j < {}; ++j) {{\n", channels);
    text += one.values(needed) + "const float sum_ = sums[j];\n" + fused.code + one.set_results();
    text += "}\n" + one.write_results() + "};\n";
    const std::size_t count = fused.leaves.size();
    text += fmt::format("channel_windows<P, T, Index>(p{}, 0.0f, Multiply<P, T>{{p{}}}, finish);\n",
                        count, count + 1);
    ways.push_back({grid_of(plane, share), text});
  }
  planner.kernel(fused.what, ways, std::move(reads), result_views(fused));
}

bool is_channel_pool(const NodeView& node, const Window& window, const View& x) {
  const std::size_t rank = x.dims.size();
  if (node.op() != "MaxPool" && node.op() != "AveragePool") return false;
  if (node.output(1).valid() || (rank != 3 && rank != 4) || x.dims[1] == 1) return false;
  if (!is_half(x.dtype) && x.dtype != DType::kFloat32) return false;
  if (span_of(window, 1) > kWidestSpan) return false;
  for (std::size_t i = 0; i < window.kernel.size(); ++i) {
    // A window that covers nothing but padding has no largest element.
    if (window.dilations[i] != 1 || window.begin[i] >= window.kernel[i]) return false;
  }
  return lies_in_order(x, channels_last(rank));
}

void emit_channel_pool(Planner& planner, const NodeView& node, const Window& window, const View& x,
                       const View& y) {
  const Plane plane(window, x, y.dims);
  const bool is_max = node.op() == "MaxPool";
  const bool with_pads = node.attr_int("count_include_pad", 0) != 0;
  planner.define_code(std::string(kSource));
  std::vector<Planner::KernelWay> ways;
  for (const Share& share : shares_of(
           window, plane, channels_at_once(x, plane.c, static_cast<int>(16 / bytes_of(x.dtype))))) {
    std::string text = facts(plane, share, x.dtype);
    text += "const auto finish = [&](Index at, const float* sums, int top, int left) {\n";
    if (!is_max) {
      // Rows beyond the padding, where sizes are rounded up, do not count.
      const auto counted = [&](const char* begin, std::int64_t size, std::int64_t kernel,
                               std::int64_t pad, std::int64_t end) {
        const std::int64_t most = with_pads ? size + end : size;
        return fmt::format("(({0} + {1} < {2} ? {0} + {1} : {2}) - ({0} > {3} ? {0} : {3}))", begin,
                           kernel, most, with_pads ? -pad : 0);
      };
      text += fmt::format("const float count = (float)({} * {});\n",
                          counted("top", plane.ih, plane.kh, plane.ph, plane.bottom),
                          counted("left", plane.iw, plane.kw, plane.pw, plane.right));
    }
    text += fmt::format(
        "Vec<T, {0}> o;\n#pragma unroll\nfor (int j = 0; j < {0}; ++j) o.v[j] = {1};\n"
        "*(Vec<T, {0}>*)(q0 + (i64)at * {0}) = o;\n}};\n",
        share.channels, stored(x.dtype, is_max ? "sums[j]" : "sums[j] / count"));
    text += fmt::format("channel_windows<P, T, Index>(p0, {}, {}<P, T>{{}}, finish);\n",
                        is_max ? "__uint_as_float(0xff800000u)" : "0.0f",
                        is_max ? "TakeLargest" : "AddUp");
    ways.push_back({grid_of(plane, share), text});
  }
  planner.kernel(planner.what(), ways, {x}, {y});
}

}  // namespace xrt::cuda
