// SPDX-License-Identifier: Apache-2.0
// Values to measure with where the user's are not known.
#include <array>
#include <cstring>
#include <random>

#include "measure/measure.h"

namespace xrt {
namespace {

// Elements of `bytes` bytes each, drawn from a few patterns.
template <std::size_t kCount>
void draw(Tensor& tensor, const std::array<std::uint64_t, kCount>& patterns, std::size_t bytes,
          std::mt19937& generator) {
  auto* to = tensor.data<std::uint8_t>();
  for (std::size_t i = 0; i + bytes <= tensor.bytes(); i += bytes) {
    std::memcpy(to + i, &patterns[generator() % kCount], bytes);  // little-endian
  }
}

void fill(Tensor& tensor, std::mt19937& generator) {
  const auto unit = [&] { return static_cast<double>(generator()) * 0x1p-31 - 1.0; };
  switch (tensor.dtype()) {
    case DType::kFloat32:
      for (std::int64_t i = 0; i < tensor.count(); ++i) {
        tensor.data<float>()[i] = static_cast<float>(unit());
      }
      return;
    case DType::kFloat64:
      for (std::int64_t i = 0; i < tensor.count(); ++i) tensor.data<double>()[i] = unit();
      return;
    case DType::kFloat16:  // -1, -0.5, 0, 0.5, 1
      return draw<5>(tensor, {0xBC00, 0xB800, 0, 0x3800, 0x3C00}, 2, generator);
    case DType::kBFloat16:
      return draw<5>(tensor, {0xBF80, 0xBF00, 0, 0x3F00, 0x3F80}, 2, generator);
    case DType::kUInt8:
      for (std::int64_t i = 0; i < tensor.count(); ++i) {
        tensor.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(generator());
      }
      return;
    case DType::kString:
      return;  // empty strings
    default:
      break;
  }
  if (bit_width(tensor.dtype()) < 8 || is_floating(tensor.dtype())) {
    std::memset(tensor.raw(), 0, tensor.bytes());
    return;
  }
  // Small indices and masks are valid in most models.
  draw<2>(tensor, {0, 1}, static_cast<std::size_t>(bit_width(tensor.dtype())) / 8, generator);
}

}  // namespace

std::optional<std::vector<Data>> synthetic_inputs(const Graph& graph) {
  std::mt19937 generator(0);
  std::vector<Data> inputs;
  for (const ValueId v : graph.inputs()) {
    const auto fallback = graph.input_defaults().find(v);
    if (fallback != graph.input_defaults().end()) {
      inputs.emplace_back(fallback->second.clone());
      continue;
    }
    const Type& type = graph.type(v);
    if (!type.is_tensor() || !type.is_static() || type.dtype == DType::kUndefined) {
      return std::nullopt;
    }
    Tensor tensor = Tensor::allocate(type.dtype, *type.static_dims());
    fill(tensor, generator);
    inputs.emplace_back(std::move(tensor));
  }
  return inputs;
}

}  // namespace xrt
