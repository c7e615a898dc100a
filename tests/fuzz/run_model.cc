// SPDX-License-Identifier: Apache-2.0
// Any bytes given as an ONNX model either are refused or run on the native engine, within the
// bounds of the options. run_node.cc makes single nodes; here are whole files: bodies of branches
// and loops, functions, sequences, and ops of ONNX Runtime, which the import rewrites.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "wire_mutator.h"
#include "xrt/error.h"
#include "xrt/program.h"

namespace {

using xrt::DType;

constexpr std::int64_t kMostElements = 1 << 16;  // of an input: larger ones say nothing new

// What the inputs of a run are like.
struct Way {
  std::int64_t open_size = 2;
  enum : std::uint8_t { kOnes, kExtremes, kSmall } values = kOnes;
};
constexpr auto kWays = std::to_array<Way>(
    {{2, Way::kOnes}, {3, Way::kSmall}, {2, Way::kExtremes}, {0, Way::kOnes}, {1, Way::kSmall}});

double number(const Way& way, std::int64_t i) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr auto kExtremes = std::to_array<double>(
      {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity, 3e38, -3e38, 1e-45, -0.0});
  if (way.values == Way::kOnes) return 1;
  if (way.values == Way::kSmall) return static_cast<double>(i * 7 % 5) - 1;
  return kExtremes[static_cast<std::size_t>(i) % kExtremes.size()];
}

std::int64_t integer(const Way& way, std::int64_t i) {
  constexpr auto kExtremes = std::to_array<std::int64_t>(
      {INT64_MIN, INT64_MAX, -1, INT32_MAX, INT32_MIN, 0, std::int64_t{1} << 40});
  if (way.values != Way::kExtremes) return static_cast<std::int64_t>(number(way, i));
  return kExtremes[static_cast<std::size_t>(i) % kExtremes.size()];
}

xrt::Tensor tensor(DType dtype, const xrt::Dims& dims, const Way& way) {
  constexpr const char* kTexts[] = {"a", "", "\xff", "NaN", "1e400", "a b", "12"};
  xrt::Tensor made = xrt::Tensor::allocate(dtype, dims);
  if (dtype == DType::kString) {
    for (std::int64_t i = 0; i < made.count(); ++i) {
      made.strings()[i] = way.values == Way::kOnes ? "1" : kTexts[i % std::size(kTexts)];
    }
    return made;
  }
  auto* bytes = made.data<std::uint8_t>();
  const auto width = static_cast<std::size_t>(xrt::bit_width(dtype) / 8);
  const std::size_t step = std::max<std::size_t>(width, 1);
  std::int64_t i = 0;
  for (std::size_t at = 0; at + step <= made.bytes(); at += step, ++i) {
    std::array<std::uint8_t, 16> element{};
    const auto put = [&](auto value) { std::memcpy(element.data(), &value, sizeof(value)); };
    if (dtype == DType::kFloat32 || dtype == DType::kComplex64) {
      put(static_cast<float>(number(way, i)));
    } else if (dtype == DType::kFloat64 || dtype == DType::kComplex128) {
      put(number(way, i));
    } else if (dtype == DType::kBFloat16) {
      put(static_cast<std::uint16_t>(
          std::bit_cast<std::uint32_t>(static_cast<float>(number(way, i))) >> 16));
    } else if (dtype == DType::kBool) {
      put(static_cast<std::uint8_t>(integer(way, i) & 1));
    } else {
      put(integer(way, i));
    }
    std::memcpy(bytes + at, element.data(), step);
  }
  return made;
}

// None where the type cannot be fed, or would be large.
xrt::Data value(const xrt::Type& type, const Way& way) {
  switch (type.kind) {
    case xrt::Type::Kind::kTensor:
      break;
    case xrt::Type::Kind::kOptional:
      return way.values == Way::kExtremes || !type.element ? xrt::Data()
                                                           : value(*type.element, way);
    case xrt::Type::Kind::kSequence: {
      if (!type.element || !type.element->is_tensor()) return {};
      std::vector<xrt::Data> items;
      for (std::int64_t i = 0; i < way.open_size; ++i) items.push_back(value(*type.element, way));
      return xrt::Data::sequence(type.element->dtype, std::move(items));
    }
    default:
      return {};
  }
  if (type.dtype == DType::kUndefined) return {};
  xrt::Dims dims;
  std::int64_t count = 1;
  for (const xrt::Dim& dim : type.shape.value_or(xrt::Shape(2))) {
    const std::int64_t size = dim.is_known() ? dim.value() : way.open_size;
    if (size > kMostElements || count > kMostElements / std::max<std::int64_t>(size, 1)) return {};
    count *= std::max<std::int64_t>(size, 1);
    dims.push_back(size);
  }
  return tensor(type.dtype, dims, way);
}

void load_and_run(std::string_view bytes) {
  xrt::ProgramOptions options;
  options.engines = {"native"};
  options.num_threads = 1;
  options.max_nodes = 10'000;
  options.max_memory_bytes = std::size_t{1} << 28;
  options.deadline_s = 3;
  const auto program = xrt::Program::load_bytes(bytes, options);
  for (const Way& way : kWays) {
    std::vector<xrt::Data> inputs, outputs;
    for (const xrt::Port& port : program->inputs()) {
      const bool left_out = port.has_default && way.values == Way::kOnes;
      inputs.push_back(left_out ? xrt::Data() : value(port.type, way));
    }
    try {
      program->run(inputs, outputs);
    } catch (const xrt::Error& error) {  // other inputs may do
      if (error.code() == xrt::ErrorCode::kInternal) throw;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  setenv("XRT_CACHE_DIR", "", 1);
  setenv("XRT_LOG", "off", 1);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    load_and_run({reinterpret_cast<const char*>(data), size});
  } catch (const xrt::Error& error) {
    if (error.code() != xrt::ErrorCode::kInternal) return 0;
    std::fprintf(stderr, "%s\n", error.what());
    std::abort();
  }
  return 0;
}
