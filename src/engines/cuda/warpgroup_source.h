// SPDX-License-Identifier: Apache-2.0
// CUDA C++ of sums of products of bytes by warpgroups: the matrix instructions of Hopper (compute
// capability 9.0), which read both factors from shared memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace xrt::cuda {

// warpgroup_sums<P>(x, w, rest, columns, read, finish), behind integer_source(): what
// integer_sums() computes, where sixteen bytes of x can be copied at a time. P has `groups`,
// warpgroups of a block, instead of wm, wn and wk; bm is a multiple of 64 · groups, bk is 64 or
// 128. `staged`: read() gets the address of four bytes of `rest`, a byte for each result, of which
// n is a multiple of 16.
std::string warpgroup_source();
// The instruction for `columns` of a tile, behind the above.
std::string warpgroup_core(int columns, bool x_signed);

struct WarpgroupTile {
  int bm, bn, groups, bk, stages;
  int threads() const { return groups * 128; }
  int together() const { return bn < 64 ? bn / 4 : 16; }  // columns that finish() gets
  int shared_bytes(bool staged = false) const;
};

// Of a block's shared memory.
inline constexpr int kMostSharedBytes = 227 * 1024;
// Whether a device has the instructions.
inline bool has_warpgroups(int capability) { return capability == 90; }

// Tiles of a product, those first that are held for the fastest.
std::vector<WarpgroupTile> warpgroup_tiles(std::int64_t m, std::int64_t n, std::int64_t k);

}  // namespace xrt::cuda
