// SPDX-License-Identifier: Apache-2.0
#include "xrt/tensor.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "xrt/error.h"
#include "xrt/type.h"

namespace xrt {
namespace {

TEST(Tensor, SizesAreChecked) {
  EXPECT_EQ(byte_count(DType::kInt4, Dims{3}), 2U);
  EXPECT_EQ(byte_count(DType::kUInt2, Dims{5}), 2U);
  EXPECT_EQ(byte_count(DType::kComplex128, Dims{2, 2}), 64U);
  constexpr std::int64_t kBig = std::int64_t{1} << 40;
  EXPECT_THROW(element_count(Dims{kBig, kBig}), Error);
  EXPECT_EQ(element_count(Dims{kBig, kBig, 0}), 0);
  EXPECT_THROW(element_count(Dims{-1}), Error);
  EXPECT_THROW(byte_count(DType::kFloat64, Dims{std::numeric_limits<std::int64_t>::max()}), Error);
  EXPECT_THROW(Tensor::allocate(DType::kFloat32, {kBig, 1024}), Error);
  EXPECT_THROW(Tensor::allocate(DType::kUndefined, {1}), Error);
}

TEST(Tensor, LargeOnesMayHaveAnyNumberOfBytes) {
  constexpr std::int64_t kBytes = (std::int64_t{5} << 20) + 1;
  Tensor made = Tensor::allocate(DType::kUInt8, {kBytes});
  made.data<std::uint8_t>()[kBytes - 1] = 7;
  EXPECT_EQ(made.to_int64().back(), 7);
}

TEST(Tensor, PackedIntegersAreWidened) {
  Tensor t = Tensor::allocate(DType::kInt4, {3});
  t.data<std::uint8_t>()[0] = 0xF7;  // 7, then -1
  t.data<std::uint8_t>()[1] = 0x08;  // -8
  EXPECT_EQ(t.to_int64(), (std::vector<std::int64_t>{7, -1, -8}));
  EXPECT_THROW(Tensor::scalar(1.0F).to_int64(), Error);
}

TEST(Tensor, ReshapeSharesCloneDoesNot) {
  const Tensor t = Tensor::from_int64(std::vector<std::int64_t>{1, 2, 3, 4});
  EXPECT_EQ(t.reshaped({2, 2}).raw(), t.raw());
  EXPECT_THROW(t.reshaped({3}), Error);
  EXPECT_NE(t.clone().raw(), t.raw());
  EXPECT_TRUE(t.clone().identical(t));
  EXPECT_FALSE(t.reshaped({2, 2}).identical(t));
}

TEST(Device, IsReadFromItsName) {
  EXPECT_EQ(device_of("cpu"), Device{});
  EXPECT_EQ(device_of("cuda"), (Device{DeviceKind::kCuda, 0}));
  EXPECT_EQ(device_of("cuda:12"), (Device{DeviceKind::kCuda, 12}));
  EXPECT_EQ(to_string(*device_of("cuda:3")), "cuda:3");
  for (const char* name : {"", "cud", "cuda:", "cuda:-1", "cuda:x", "cuda:1 ", "cuda1", "tpu",
                           "cuda:99999999999999999999"}) {
    EXPECT_FALSE(device_of(name)) << name;
  }
}

TEST(Tensor, TellsWhereItLies) {
  float memory[2] = {1, 2};
  const Device gpu{DeviceKind::kCuda, 1};
  const Tensor t = Tensor::wrap(DType::kFloat32, {2}, memory, nullptr, gpu);
  EXPECT_FALSE(t.on_host());
  EXPECT_EQ(t.reshaped({1, 2}).device(), gpu);
  EXPECT_EQ(t.to(gpu).raw(), memory);
  const Tensor host = Tensor::scalar(1.0F);
  EXPECT_EQ(host.to({}).raw(), host.raw());
  // Neither can lie there: what copies bytes knows nothing of them.
  EXPECT_THROW(Tensor::wrap(DType::kInt4, {2}, memory, nullptr, gpu), Error);
  EXPECT_THROW(Tensor::wrap(DType::kString, {2}, memory, nullptr, gpu), Error);
}

TEST(Tensor, CopiesElementsOfEqualTensors) {
  const Tensor from = Tensor::from_int64(std::vector<std::int64_t>{1, 2, 3, 4});
  Tensor to = Tensor::allocate(DType::kInt64, {2, 2});
  copy_elements(from, to);
  EXPECT_EQ(to.to_int64(), from.to_int64());
  Tensor shorter = Tensor::allocate(DType::kInt64, {3});
  EXPECT_THROW(copy_elements(from, shorter), Error);
  Tensor other = Tensor::allocate(DType::kFloat64, {4});
  EXPECT_THROW(copy_elements(from, other), Error);
}

TEST(Type, PrintsDimensions) {
  EXPECT_EQ(to_string(Type::tensor(DType::kFloat32, Shape{1, Dim("H"), Dim()})), "float32[1,H,?]");
  EXPECT_EQ(to_string(Type::sequence(Type::tensor(DType::kInt64))), "seq(int64[*])");
  EXPECT_FALSE(Type::tensor(DType::kFloat32, Shape{Dim("H")}).is_static());
}

}  // namespace
}  // namespace xrt
