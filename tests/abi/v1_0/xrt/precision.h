// SPDX-License-Identifier: Apache-2.0
// What an engine computes float32 values in.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "xrt/export.h"

namespace xrt {

// The arithmetic of products and activations; norms, reductions and results stay float32.
enum class Precision : std::uint8_t {
  kF32,   // IEEE single precision
  kTF32,  // float32 whose factors keep 10 bits of mantissa (NVIDIA's TensorFloat-32)
  kBF16,  // bfloat16
  kF16,   // IEEE half precision
};

// "f32", "tf32", "bf16" or "f16".
XRT_API std::string_view to_string(Precision precision);
// The precision of that name; nullopt for any other word, "auto" included.
XRT_API std::optional<Precision> parse_precision(std::string_view name);

}  // namespace xrt
