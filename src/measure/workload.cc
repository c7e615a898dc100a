// SPDX-License-Identifier: Apache-2.0
#include "measure/workload.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <utility>

#include "options/sizes.h"

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

// The type with the sizes of its ranges' `size` in place of their names.
Type sized(Type type, const std::vector<NamedRange>& ranges, std::int64_t NamedRange::*size) {
  if (!type.has_rank()) return type;
  for (Dim& dim : *type.shape) {
    const auto range = std::find_if(ranges.begin(), ranges.end(), [&](const NamedRange& r) {
      return dim.is_symbol() && r.name == dim.symbol();
    });
    if (range != ranges.end()) dim = Dim((*range).*size);
  }
  return type;
}

std::optional<std::vector<Data>> synthetic_inputs(const Graph& graph,
                                                  const std::vector<NamedRange>& ranges,
                                                  std::int64_t NamedRange::*size) {
  std::mt19937 generator(0);
  std::vector<Data> inputs;
  for (const ValueId v : graph.inputs()) {
    const auto fallback = graph.input_defaults().find(v);
    if (fallback != graph.input_defaults().end()) {
      inputs.emplace_back(fallback->second.clone());
      continue;
    }
    const Type type = sized(graph.type(v), ranges, size);
    if (!type.is_tensor() || !type.is_static() || type.dtype == DType::kUndefined) {
      return std::nullopt;
    }
    Tensor tensor = Tensor::allocate(type.dtype, *type.static_dims());
    fill(tensor, generator);
    inputs.emplace_back(std::move(tensor));
  }
  return inputs;
}

}  // namespace

std::optional<Workload> synthetic_workload(const Graph& graph, const ProgramOptions& options) {
  const std::vector<NamedRange> ranges = named_ranges(options);
  Workload workload;
  for (const auto size : {&NamedRange::usual, &NamedRange::least, &NamedRange::most}) {
    std::optional<std::vector<Data>> inputs = synthetic_inputs(graph, ranges, size);
    if (!inputs) return std::nullopt;
    const bool is_known =
        std::any_of(workload.runs.begin(), workload.runs.end(),
                    [&](const auto& run) { return have_equal_sizes(run, *inputs); });
    if (!is_known) workload.runs.push_back(std::move(*inputs));
  }
  return workload;
}

std::vector<Data> copies(std::span<const Data> inputs) {
  std::vector<Data> result;
  for (const Data& data : inputs) {
    result.push_back(data.is_tensor() ? Data(data.tensor().clone()) : data);
  }
  return result;
}

std::size_t bytes_of(std::span<const Data> inputs) {
  std::size_t bytes = 0;
  for (const Data& data : inputs) {
    if (data.is_tensor()) bytes += data.tensor().bytes();
  }
  return bytes;
}

bool have_equal_sizes(std::span<const Data> a, std::span<const Data> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Data& p, const Data& q) {
    if (p.is_tensor() != q.is_tensor()) return false;
    return !p.is_tensor() || p.tensor().dims() == q.tensor().dims();
  });
}

}  // namespace xrt
