// SPDX-License-Identifier: Apache-2.0
// Values that lie within another value's memory, so that no op copies them there or out of it.
#pragma once

#include <cstdint>
#include <vector>

#include "lir/lir.h"

namespace xrt::lite {

struct Place {
  int base = -1;                      // the value whose memory it is, itself where it has its own
  std::int64_t offset = 0;            // elements
  std::vector<std::int64_t> strides;  // elements, per logical dimension
};

struct Places {
  std::vector<Place> values;
  // Copies that have nothing left to do: by the value they make, by piece. Empty: none of them.
  std::vector<std::vector<bool>> done;
};

// With `share`, the inputs of a concatenation lie in its output where the kernels that make and
// read them go by strides, and a slice lies in what it is taken from. Without, all have their own
// memory. Views always lie where what they show does.
Places find_places(const LGraph& graph, bool share);

// Elements from a pixel of an image N, H, W, C to the next, of a value with dimensions N, C, … .
std::int64_t pixel_pitch(const std::vector<std::int64_t>& strides, const Dims& dims);

}  // namespace xrt::lite
