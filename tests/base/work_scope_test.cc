// SPDX-License-Identifier: Apache-2.0
#include "base/work_scope.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/interrupt.h"
#include "base/message.h"
#include "xrt/error.h"

namespace xrt {
namespace {

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
    const WorkScope scope(account, 4096);
    Tensor first = Tensor::allocate(DType::kUInt8, {1024});
    EXPECT_EQ(account->bytes, 1024);
    outlives = Tensor::allocate(DType::kFloat32, {512});
    EXPECT_EQ(account->bytes, 3072);
    EXPECT_EQ(code_of([] { Tensor::allocate(DType::kUInt8, {2048}); }), ErrorCode::kResource);
    EXPECT_EQ(account->bytes, 3072);
    first = Tensor();
    EXPECT_EQ(account->bytes, 2048);
    const Tensor strings = Tensor::allocate(DType::kString, {2});
    EXPECT_EQ(account->bytes, 2048 + 2 * static_cast<std::int64_t>(sizeof(std::string)));
  }
  const Tensor unbounded = Tensor::allocate(DType::kUInt8, {1 << 20});
  EXPECT_EQ(account->bytes, 2048);
  outlives = Tensor();
  EXPECT_EQ(account->bytes, 0);
}

TEST(WorkScope, AccountsAroundAreAddedUp) {
  const WorkScope outer(std::make_shared<MemoryAccount>(), 4096);
  const Tensor held = Tensor::allocate(DType::kUInt8, {2048});
  const auto account = std::make_shared<MemoryAccount>();
  const WorkScope inner(account, 1 << 20);
  EXPECT_EQ(WorkScope::outer_account()->bytes, 2048);
  EXPECT_EQ(code_of([] { Tensor::allocate(DType::kUInt8, {3072}); }), ErrorCode::kResource);
  const Tensor fits = Tensor::allocate(DType::kUInt8, {1024});
  hand_over(Data(fits), account.get(), WorkScope::outer_account());
  EXPECT_EQ(account->bytes, 0);
  EXPECT_EQ(WorkScope::outer_account()->bytes, 3072);
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
