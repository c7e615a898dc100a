// SPDX-License-Identifier: Apache-2.0
// From ops to kernels: sums of products on tensor cores (cuda_mma.cc).
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "targets/cuda_writer.h"
#include "xrt/error.h"

namespace xrt::lite {
namespace cuda {
namespace {

// What a block computes and how; cuda_mma.cc says what the numbers are.
struct Tile {
  int bm, bn, wm, wn, wk, bk, stages;
  int threads() const { return wm * wn * wk * 32; }
  int shared_bytes() const {
    return std::max(stages * (bm + bn) * (bk + 16), wk * bm * (bn + 8) * 4);
  }
};
// All within 48 KiB of shared memory.
constexpr Tile kTiles[] = {{128, 64, 4, 2, 1, 64, 3}, {64, 64, 2, 2, 2, 64, 4},
                           {64, 32, 2, 1, 4, 128, 3}, {32, 64, 1, 2, 4, 128, 3},
                           {32, 32, 1, 1, 4, 128, 5}, {16, 32, 1, 1, 4, 128, 6},
                           {16, 16, 1, 1, 8, 256, 4}};

// Clocks, roughly, of a GPU with 132 processors: what a processor moves and multiplies, and how
// long a block waits for its pieces one after the other.
double clocks(const Tile& t, std::int64_t outer, std::int64_t m, std::int64_t n, std::int64_t bytes,
              bool direct) {
  constexpr double kProcessors = 132;
  const double blocks = static_cast<double>(outer * ceil_div(m, t.bm) * ceil_div(n, t.bn));
  const double steps = static_cast<double>(ceil_div(bytes, t.bk));
  const int warps = t.threads() / 32, mt = t.bm / t.wm / 16, nt = t.bn / t.wn / 8;
  const double pieces = static_cast<double>(t.bm) * t.bk / 16 / t.threads() * (direct ? 1 : 3) +
                        static_cast<double>(t.bn) * t.bk / 16 / t.threads();
  const double issued = pieces * 25 + t.bk / 32.0 / t.wk * (4 * mt + 2 * nt + 2 * mt * nt) + 20;
  const double step =
      std::max(issued * warps / 4, static_cast<double>(t.bm + t.bn) * t.bk / 48 * (direct ? 1 : 2));
  const double end = 400 + static_cast<double>(t.bm) * t.bn * (4 + t.wk) / 100;
  const double wait = std::max(600.0 / (t.stages - 1), issued);
  const auto fitting = 227 * 1024 / (t.shared_bytes() + 1024);  // whole blocks
  const double together =
      std::max(1.0, std::min({static_cast<double>(fitting), 65536.0 / (t.threads() * 96),
                              std::ceil(blocks / kProcessors)}));
  const double rounds = std::ceil(blocks / (kProcessors * together));
  return rounds * std::max(1200 + steps * wait + end, together * (steps * step + end));
}

const Tile& choose(std::int64_t outer, std::int64_t m, std::int64_t n, std::int64_t bytes,
                   bool direct) {
  const auto cost = [&](const Tile& t) { return clocks(t, outer, m, n, bytes, direct); };
  return *std::min_element(std::begin(kTiles), std::end(kTiles),
                           [&](const Tile& a, const Tile& b) { return cost(a) < cost(b); });
}

}  // namespace

bool on_tensor_cores(int weight_dtype, int pack_k) {
  return (weight_dtype == XRT_LITE_I8 && pack_k == 16) ||
         (weight_dtype == XRT_LITE_F16 && pack_k == 8) ||
         (weight_dtype == XRT_LITE_F32 && pack_k == 4);
}

void Writer::sums_mma(Fields& f, const char* left, int weight_dtype, std::int64_t outer,
                      std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t together) {
  const int kind = weight_dtype == XRT_LITE_I8 ? 0 : weight_dtype == XRT_LITE_F16 ? 1 : 2;
  const int element = kind == 0 ? 1 : kind == 1 ? 2 : 4;
  // Elements of the left side that lie together, and how many of them go at a time.
  int unit = 16 / element;
  while (unit > 1 && together % unit != 0) unit /= 2;
  const bool direct = kind == 2 || (kind == 0 && unit >= 4);
  if (kind == 0 && !direct) unit = 1;
  if (kind == 1 && unit < 4) unit = 1;
  const Tile& t = choose(outer, m, n, k * element, direct);
  f.type("Source", kind == 0 ? "u8" : "float");
  f.number("kind", kind), f.number("element", element), f.number("unit", unit);
  f.number("direct", direct);
  f.number("m", m), f.number("ng", n), f.number("k", k), f.number("outer", outer);
  f.number("bm", t.bm), f.number("bn", t.bn), f.number("bk", t.bk), f.number("stages", t.stages);
  f.number("wm", t.wm), f.number("wn", t.wn), f.number("wk", t.wk);
  launch(f, fmt::format("sums_mma<{{P}}, {}<{{P}}>>", left), ceil_div(m, t.bm), ceil_div(n, t.bn),
         outer, t.threads(), true);
}

}  // namespace cuda

Packing cuda_packing(int weight_dtype, std::int64_t n) {
  switch (weight_dtype) {
    case XRT_LITE_I8:
      return {8, 16};
    case XRT_LITE_F16:
      return {8, 8};
    default:
      break;
  }
  const char* set = std::getenv("XRT_CUDA_TF32");
  if (set != nullptr && std::strcmp(set, "1") == 0) return {8, 4};
  if (set != nullptr && *set != '\0' && std::strcmp(set, "0") != 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("XRT_CUDA_TF32: '{}'; write 1 (factors and activations of products are "
                            "rounded to TF32) or 0",
                            set));
  }
  return {n > 32 ? 64 : 32, 1};
}

}  // namespace xrt::lite
