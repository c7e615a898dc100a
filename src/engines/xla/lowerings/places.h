// SPDX-License-Identifier: Apache-2.0
// ONNX counts axes and sizes with signed numbers, vectors with unsigned ones.
#pragma once

#include <cstddef>
#include <cstdint>

namespace xrt::xla {

// The place of a number that is not negative.
inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace xrt::xla
