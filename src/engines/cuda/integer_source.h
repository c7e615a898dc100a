// SPDX-License-Identifier: Apache-2.0
// CUDA C++ of sums of products of bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace xrt::cuda {

// integer_sums<P>(x, w, columns, read, finish), behind tensor_core_source(). Rows are positions of
// the result (or rows of a matrix), columns its channels; the terms of a row are those bytes of `x`
// that its window covers, channels last, and zeros of `x` where the window lies outside. `w` lies
// by column, the terms of each filled up to a multiple of sixteen. finish(row, column, sums,
// columns(column), read(row, column)) gets four neighbouring columns of a row; what columns() gives
// is kept for several rows, of which read(row, column, nullptr) is called before the first is
// finished.
//
// P: m, n, k: rows, columns, terms; x_signed, x_zero; unit: bytes of x that are copied at a time;
// small: whether no sum reaches 2²², and number_of_sum<P>() is to make the number of what finish()
// gets;
// window: whether there is one, else a row's terms lie together; ih, iw, c, oh, ow, kh, kw, sh, sw,
// dh, dw, ph, pw: of the window; bm, bn: rows and columns of a block's tile; wm, wn, wk: its warps,
// of which wk share the terms; bk: bytes of terms of a stage, `stages` of which are in shared
// memory or under way to it.
std::string integer_source();

struct IntegerTile {
  int bm, bn, wm, wn, wk, bk, stages;
  int threads() const { return wm * wn * wk * 32; }
  int shared_bytes() const;
};

// Tiles of a product, those first that are held for the fastest.
std::vector<IntegerTile> integer_tiles(std::int64_t m, std::int64_t n, std::int64_t k);

}  // namespace xrt::cuda
