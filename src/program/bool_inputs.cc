// SPDX-License-Identifier: Apache-2.0
#include "program/bool_inputs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace xrt {
namespace {

bool is_plain(const std::uint8_t* bytes, std::size_t count) {
  std::uint8_t all = 0;
  for (std::size_t i = 0; i < count; ++i) all = static_cast<std::uint8_t>(all | bytes[i]);
  return all <= 1;
}

std::optional<Data> plain_sequence(const Data& data) {
  std::vector<Data> items;
  for (std::size_t i = 0; i < data.items().size(); ++i) {
    std::optional<Data> plain = with_plain_bools(data.items()[i]);
    if (!plain) continue;
    if (items.empty()) items = data.items();
    items[i] = *std::move(plain);
  }
  if (items.empty()) return std::nullopt;
  return Data::sequence(DType::kBool, std::move(items));
}

}  // namespace

std::optional<Data> with_plain_bools(const Data& data) {
  if (data.is_sequence()) return plain_sequence(data);
  if (!data.is_tensor()) return std::nullopt;
  const Tensor& tensor = data.tensor();
  if (tensor.dtype() != DType::kBool || !tensor.on_host()) return std::nullopt;
  const auto* bytes = static_cast<const std::uint8_t*>(tensor.raw());
  const std::size_t count = tensor.bytes();
  if (is_plain(bytes, count)) return std::nullopt;
  Tensor plain = Tensor::allocate(DType::kBool, tensor.dims());
  std::transform(bytes, bytes + count, static_cast<std::uint8_t*>(plain.raw()),
                 [](std::uint8_t byte) { return static_cast<std::uint8_t>(byte != 0); });
  return Data(std::move(plain));
}

}  // namespace xrt
