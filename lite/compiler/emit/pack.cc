// SPDX-License-Identifier: Apache-2.0
#include "emit/pack.h"

#include <cstring>

#include "kernel_math.h"

namespace xrt::lite {

std::string to_half(const std::string& floats) {
  std::string result(floats.size() / 2, '\0');
  for (std::size_t i = 0; i < floats.size() / 4; ++i) {
    float v;
    std::memcpy(&v, floats.data() + i * 4, 4);
    const std::uint16_t h = xrt_float_to_half(v);
    std::memcpy(result.data() + i * 2, &h, 2);
  }
  return result;
}

std::string pack_factor(
    const Tensor& weights, std::int64_t groups, std::int64_t n, std::int64_t k, Packing pack,
    bool half, const std::function<std::int64_t(std::int64_t, std::int64_t, std::int64_t)>& at) {
  const auto size = static_cast<std::size_t>(bit_width(weights.dtype()) / 8);
  const std::int64_t blocks_n = (n + pack.n - 1) / pack.n, blocks_k = (k + pack.k - 1) / pack.k;
  std::string result(
      static_cast<std::size_t>(groups * blocks_n * blocks_k * pack.n * pack.k) * size, '\0');
  const auto* from = weights.data<char>();
  for (std::int64_t g = 0; g < groups; ++g) {
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < k; ++j) {
        const std::int64_t to =
            (((g * blocks_n + i / pack.n) * blocks_k + j / pack.k) * pack.n + i % pack.n) * pack.k +
            j % pack.k;
        std::memcpy(result.data() + static_cast<std::size_t>(to) * size,
                    from + static_cast<std::size_t>(at(g, i, j)) * size, size);
      }
    }
  }
  return half ? to_half(result) : result;
}

std::string reordered(const Tensor& tensor, const Order& order) {
  const auto size = static_cast<std::size_t>(bit_width(tensor.dtype()) / 8);
  std::string result(tensor.bytes(), '\0');
  const std::size_t rank = tensor.rank();
  Dims strides = tensor.dims(), index = tensor.dims();
  std::int64_t step = 1;
  for (std::size_t d = rank; d-- > 0;) {
    strides[d] = step;
    step *= tensor.dims()[d];
    index[d] = 0;
  }
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < rank; ++d) at += index[d] * strides[d];
    std::memcpy(result.data() + static_cast<std::size_t>(i) * size,
                tensor.data<char>() + static_cast<std::size_t>(at) * size, size);
    for (std::size_t o = rank; o-- > 0;) {
      const auto d = static_cast<std::size_t>(order[o]);
      if (++index[d] < tensor.dims()[d]) break;
      index[d] = 0;
    }
  }
  return result;
}

}  // namespace xrt::lite
