// SPDX-License-Identifier: Apache-2.0
#include "ir/flat.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "ir/parser.h"
#include "ir/printer.h"
#include "xrt/error.h"

namespace xrt {
namespace {

Tensor finish(FlatWriter& writer) {
  std::string block;
  for (const std::string_view piece : writer.finish()) block += piece;
  Tensor bytes = Tensor::allocate(DType::kUInt8, {static_cast<std::int64_t>(block.size())});
  std::memcpy(bytes.raw(), block.data(), block.size());
  return bytes;
}

// dtype and shape alone are looked at.
Tensor of_size(std::int64_t bytes) {
  static std::uint8_t byte = 1;
  return Tensor::wrap(DType::kUInt8, {bytes}, &byte, nullptr);
}

Tensor read_hollow(std::int64_t bytes) {
  FlatWriter writer;
  writer.hollow_tensor(of_size(bytes));
  FlatReader reader(finish(writer));
  Tensor read = reader.tensor();
  reader.end();
  return read;
}

TEST(Flat, GraphsComeBackAsTheyWere) {
  const Graph g = parse_graph(R"(graph g(%x: float32[N, 3]) -> (%y) {
  opset "" = 14
  constant %w: float32[3] = {1, 2, 0.5}
  %y: float32[N, 3] = Add(%x, %w) @"sum"
})");
  FlatWriter writer;
  writer.graph(g);
  FlatReader reader(finish(writer));
  EXPECT_EQ(print(reader.graph(), PrintOptions::exact()), print(g, PrintOptions::exact()));
  EXPECT_NO_THROW(reader.end());
}

TEST(Flat, HollowTensorsAreZeros) {
  for (const std::int64_t bytes : {0, 1, 100'000}) {
    const Tensor read = read_hollow(bytes);
    ASSERT_EQ(read.bytes(), static_cast<std::size_t>(bytes));
    EXPECT_NE(read.raw(), nullptr);
    for (std::int64_t i = 0; i < bytes; i += 99) EXPECT_EQ(read.data<std::uint8_t>()[i], 0);
  }
}

TEST(Flat, HollowTensorsTakeNoMemory) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer leaves no room for a tebibyte";
#endif
  constexpr std::int64_t kTebibyte = std::int64_t{1} << 40;
  EXPECT_EQ(read_hollow(kTebibyte).data<std::uint8_t>()[kTebibyte - 1], 0);
}

TEST(Flat, AHollowTensorLargerThanTheAddressSpaceIsAnError) {
  try {
    read_hollow(std::int64_t{1} << 60);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResource);
    EXPECT_NE(std::string(error.what()).find("no address space"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace xrt
