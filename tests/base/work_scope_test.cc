// SPDX-License-Identifier: Apache-2.0
#include "base/work_scope.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/interrupt.h"
#include "base/message.h"
#include "xrt/error.h"

namespace xrt {
namespace {

// Beyond what is counted of small tensors.
constexpr std::int64_t kUnit = 128 << 10;
constexpr auto kString = static_cast<std::int64_t>(sizeof(std::string));

std::size_t heap_bytes() {
  const auto heap = ::mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

ErrorCode code_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::kInternal;
}

TEST(WorkScope, TensorsAreOnTheAccountWhileTheyLive) {
  const auto account = std::make_shared<MemoryAccount>();
  Tensor outlives;
  {
    const WorkScope scope(account, 4 * kUnit);
    Tensor first = Tensor::allocate(DType::kUInt8, {kUnit});
    EXPECT_EQ(account->bytes, kUnit);
    outlives = Tensor::allocate(DType::kFloat32, {2 * kUnit / 4});
    EXPECT_EQ(account->bytes, 3 * kUnit);
    EXPECT_EQ(code_of([] { Tensor::allocate(DType::kUInt8, {2 * kUnit}); }), ErrorCode::kResource);
    EXPECT_EQ(account->bytes, 3 * kUnit);
    first = Tensor();
    EXPECT_EQ(account->bytes, 2 * kUnit);
    const Tensor strings = Tensor::allocate(DType::kString, {kUnit / kString});
    EXPECT_EQ(account->bytes, 3 * kUnit);
  }
  const Tensor unbounded = Tensor::allocate(DType::kUInt8, {64 * kUnit});
  EXPECT_EQ(account->bytes, 2 * kUnit);
  outlives = Tensor();
  EXPECT_EQ(account->bytes, 0);
}

TEST(WorkScope, AccountsAroundAreAddedUp) {
  const WorkScope outer(std::make_shared<MemoryAccount>(), 4 * kUnit);
  const Tensor held = Tensor::allocate(DType::kUInt8, {2 * kUnit});
  const auto account = std::make_shared<MemoryAccount>();
  const WorkScope inner(account, 64 * kUnit);
  EXPECT_EQ(WorkScope::outer_account()->bytes, 2 * kUnit);
  EXPECT_EQ(code_of([] { Tensor::allocate(DType::kUInt8, {3 * kUnit}); }), ErrorCode::kResource);
  const Tensor fits = Tensor::allocate(DType::kUInt8, {kUnit});
  hand_over(Data(fits), account.get(), WorkScope::outer_account());
  EXPECT_EQ(account->bytes, 0);
  EXPECT_EQ(WorkScope::outer_account()->bytes, 3 * kUnit);
}

TEST(WorkScope, SmallTensorsAreCountedWithWhatTheyTakeBeside) {
  constexpr std::int64_t kCount = 1000;
  const auto account = std::make_shared<MemoryAccount>();
  const WorkScope scope(account, 64 * kUnit);
  const std::size_t before = heap_bytes();
  if (before == 0) GTEST_SKIP() << "this heap counts nothing";
  std::vector<Tensor> tensors;
  for (int i = 0; i < kCount; ++i) tensors.push_back(Tensor::allocate(DType::kFloat32, {4}));
  const auto taken = static_cast<std::int64_t>(heap_bytes() - before);
  EXPECT_GT(account->bytes, taken * 9 / 10);
  EXPECT_LT(account->bytes, taken * 3 / 2);
  tensors.clear();
  EXPECT_EQ(account->bytes, 0);
}

TEST(WorkScope, ListsOfSequencesAreCounted) {
  constexpr std::int64_t kCount = 1000;
  const Tensor one = Tensor::allocate(DType::kFloat32, {4});
  const auto account = std::make_shared<MemoryAccount>();
  const auto around = std::make_shared<MemoryAccount>();
  {
    const WorkScope outer(around, 64 * kUnit);
    const WorkScope scope(account, 64 * kUnit);
    const std::size_t before = heap_bytes();
    Data sequence = Data::sequence(DType::kFloat32, std::vector<Data>(kCount, Data(one)));
    const auto taken = static_cast<std::int64_t>(heap_bytes() - before);
    EXPECT_GT(account->bytes, taken * 9 / 10);
    // A sanitizer's heap counts nothing.
    EXPECT_LT(account->bytes, before == 0 ? 64 * kUnit : taken * 3 / 2);
    const std::int64_t charged = account->bytes;
    hand_over(sequence, account.get(), around);
    EXPECT_EQ(account->bytes, 0);
    EXPECT_EQ(around->bytes, charged);
    const Data same = sequence;
    EXPECT_EQ(code_of([&] {
                std::vector<Data> items(std::size_t{1} << 17U, Data(one));
                Data::sequence(DType::kFloat32, std::move(items));
              }),
              ErrorCode::kResource);
  }
  EXPECT_EQ(around->bytes, 0);
}

TEST(Data, TakenItemsAreCopiedWhereTheyAreShared) {
  const Tensor one = Tensor::scalar(1.0F);
  Data sequence = Data::sequence(DType::kFloat32, {Data(one), Data(one)});
  const Data same = sequence;
  std::vector<Data> items = sequence.take_items();
  EXPECT_TRUE(sequence.is_none());
  EXPECT_EQ(items.size(), 2U);
  items.clear();
  ASSERT_EQ(same.items().size(), 2U);
  EXPECT_EQ(same.items()[1].tensor().raw(), one.raw());
  Data last = same;
  EXPECT_EQ(code_of([&] { Data(one).take_items(); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(last.take_items().size(), 2U);
}

TEST(WorkScope, TimeIsOverForThreadsThatHelp) {
  const RunLimit limit(0.001);
  const WorkScope scope(&limit, "the run");
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(code_of(throw_if_interrupted), ErrorCode::kResource);
  std::thread([here = WorkScope::current()] {
    EXPECT_NO_THROW(throw_if_interrupted());
    const InheritedScope inherited(here);
    EXPECT_EQ(code_of(throw_if_interrupted), ErrorCode::kResource);
  }).join();
}

TEST(WorkScope, CancelledRunsSaySo) {
  RunLimit limit(0);
  const WorkScope scope(&limit, "the run");
  EXPECT_NO_THROW(throw_if_interrupted());
  limit.cancel();
  EXPECT_EQ(code_of(throw_if_interrupted), ErrorCode::kResource);
}

TEST(Message, LongOnesKeepBothEnds) {
  EXPECT_EQ(shortened("short"), "short");
  const std::string text = "begin" + std::string(100'000, 'x') + "end";
  const std::string told = shortened(text);
  EXPECT_LT(told.size(), 350U);
  EXPECT_TRUE(told.starts_with("begin"));
  EXPECT_TRUE(told.ends_with("end"));
  EXPECT_NE(told.find("bytes"), std::string::npos);
}

TEST(Message, NoWordIsLongerThanAQuotation) {
  EXPECT_EQ(told("node 'a' (Add):\n  two  blanks "), "node 'a' (Add):\n  two  blanks ");
  const std::string name(3000, 'x');
  const std::string text = told("node '" + name + "' (" + name + "): wrong");
  EXPECT_LT(text.size(), 750U);
  EXPECT_TRUE(text.starts_with("node 'xxx"));
  EXPECT_TRUE(text.ends_with("x): wrong"));
  std::string list;
  for (int i = 0; i < 10'000; ++i) list += "word ";
  EXPECT_LT(told(list).size(), kMostTold + 50);
}

}  // namespace
}  // namespace xrt
