// SPDX-License-Identifier: Apache-2.0
#include "engines/native/kernels/vector/byte_tiles.h"

#include "engines/native/kernels/vector/instruction_sets.h"

namespace xrt::native {

#if defined(__x86_64__)
extern const ByteTiles kByteTilesAvx2;

const ByteTiles* byte_tiles() { return instruction_sets().avx2 ? &kByteTilesAvx2 : nullptr; }
#else
const ByteTiles* byte_tiles() { return nullptr; }
#endif

}  // namespace xrt::native
