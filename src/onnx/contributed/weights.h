// SPDX-License-Identifier: Apache-2.0
// Weights of a few bits a number, scaled in blocks.
#pragma once

#include "onnx/contributed/rewriting.h"

namespace xrt::contributed {

// Bits of a number: of these, 2, 4 and 8 are defined.
inline constexpr Within kBits{2, 8};

// A matrix (rows, columns); each row is cut into blocks.
struct BlockWeights {
  std::int64_t rows = 0, columns = 0, block = 0, bits = 4;
  ValueId packed;  // bytes of 8 / bits numbers, low bits first; each row fills whole blocks
  ValueId scales;  // one for each block of each row
  ValueId zeros;   // packed as the numbers, each row in whole bytes; or floats; or invalid: the
                   // middle, 2^(bits - 1)
};

// The numbers as (columns, rows), which a product has on its right, of the type of the scales.
// Constants are laid out so here: nothing is turned in a run. Throws kInvalidModel where blocks or
// bits are none that are defined, or sizes are too large.
ValueId block_dequantised(Rewriting& r, const BlockWeights& weights);

// Bytes of 8 / bits numbers each, low bits first, as a byte a number: the last axis grows. Throws
// kInvalidModel where the bits are none that are defined.
ValueId unpacked_bits(Rewriting& r, ValueId v, std::int64_t bits);

}  // namespace xrt::contributed
