// SPDX-License-Identifier: Apache-2.0
// Binding, staging, growing and keeping of plans, with stand-ins for driver and library.
#include "engines/tensorrt/executable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "stand_in.h"
#include "tests/support/engine_calls.h"
#include "xrt/error.h"

namespace xrt::tensorrt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Tensor floats(Dims dims, const std::vector<float>& values) {
  return Tensor::from<float>(DType::kFloat32, std::move(dims), values);
}

std::vector<float> values_of(const Data& data) {
  const Tensor& t = data.tensor();
  return {t.data<float>(), t.data<float>() + t.count()};
}

class ExecutableTest : public testing::Test {
 protected:
  ExecutableTest() {
    const ValueId x = graph_.add_input("x", Type::tensor(DType::kFloat32, Shape{Dim("N"), 2}));
    const ValueId y = graph_.add_op("Add", {x, x}, {}, "y");
    graph_.set_type(y, Type::tensor(DType::kFloat32, Shape{Dim("N"), 2}));
    graph_.add_output(y);
  }

  std::shared_ptr<const TrtExecutable> make(Ranges ranges, int device = 0) {
    auto plan = complete(ranges) ? planner_->build(ranges) : nullptr;
    return std::make_shared<TrtExecutable>(graph_, "twice", driver_, device, planner_,
                                           std::move(ranges), std::move(plan));
  }

  static std::vector<Data> run(const TrtExecutable& executable, RunContext* context,
                               const Tensor& x) {
    std::vector<Data> outputs(1);
    run_once(executable, context, std::vector<Data>{x}, outputs);
    return outputs;
  }

  Graph graph_;
  std::shared_ptr<StandInDriver> driver_ = std::make_shared<StandInDriver>();
  std::shared_ptr<StandInPlanner> planner_ = std::make_shared<StandInPlanner>(driver_);
};

const Ranges kUpToFour = {{{1, 4, 4}, {2, 2, 2}}};

TEST_F(ExecutableTest, StagesPageableMemoryBothWays) {
  const auto executable = make(kUpToFour);
  const auto context = executable->create_context();
  Tensor out = Tensor::allocate(DType::kFloat32, {1, 2});
  std::vector<Data> outputs{out};
  run_once(*executable, context.get(), std::vector<Data>{floats({1, 2}, {1, 2})}, outputs);
  EXPECT_EQ(outputs[0].tensor().raw(), out.raw());
  EXPECT_THAT(values_of(outputs[0]), ElementsAre(2, 4));
  EXPECT_EQ(driver_->live_blocks(), 4U);  // device and page-locked memory, in and out
  EXPECT_EQ(driver_->synchronized(), 1);
  EXPECT_EQ(executable->info().workspace_bytes, 1000U);
}

TEST_F(ExecutableTest, GivesMemoryAwayWhereTheCallerHasNone) {
  const auto executable = make(kUpToFour);
  const auto context = executable->create_context();
  const auto first = run(*executable, context.get(), floats({1, 2}, {1, 2}));
  const auto second = run(*executable, context.get(), floats({1, 2}, {3, 4}));
  EXPECT_THAT(values_of(first[0]), ElementsAre(2, 4));
  EXPECT_THAT(values_of(second[0]), ElementsAre(6, 8));
}

TEST_F(ExecutableTest, BindsDeviceMemoryAsItIs) {
  const auto executable = make(kUpToFour);
  const auto context = executable->create_context();
  const auto on_device = [&](const std::vector<float>& values) {
    void* memory = driver_->allocate(values.size() * sizeof(float));
    std::memcpy(memory, values.data(), values.size() * sizeof(float));
    return Tensor::wrap(DType::kFloat32, {1, 2}, memory, nullptr);
  };
  const Tensor in = on_device({5, 6});
  Tensor out = on_device({0, 0});
  const std::size_t before = driver_->live_blocks();
  std::vector<Data> outputs{out};
  run_once(*executable, context.get(), std::vector<Data>{in}, outputs);
  EXPECT_EQ(driver_->live_blocks(), before);  // neither staging nor device buffers
  EXPECT_THAT(values_of(outputs[0]), ElementsAre(10, 12));
  driver_->release(const_cast<void*>(in.raw()));
  driver_->release(out.raw());
}

TEST_F(ExecutableTest, WithTheCallersStreamAndDeviceMemoryItDoesNotWait) {
  const auto executable = make(kUpToFour);
  const auto context = executable->create_context();
  void* memory = driver_->allocate(16);
  std::memset(memory, 0, 16);
  auto* values = static_cast<float*>(memory);
  values[0] = 7;
  RunData options;
  options.stream = reinterpret_cast<void*>(std::uintptr_t{99});
  std::vector<Data> outputs{Tensor::wrap(DType::kFloat32, {1, 2}, values + 2, nullptr)};
  const std::vector<Data> inputs{Tensor::wrap(DType::kFloat32, {1, 2}, values, nullptr)};
  run_once(*executable, context.get(), inputs, outputs, options);
  EXPECT_EQ(driver_->synchronized(), 0);
  EXPECT_EQ(values[2], 0);
  driver_->synchronize(options.stream);
  EXPECT_EQ(values[2], 14);
  driver_->release(memory);
}

TEST_F(ExecutableTest, ABatchAboveTheMaximumBuildsAgainAndSaysSoOnce) {
  const auto executable = make(kUpToFour);
  const auto context = executable->create_context();
  testing::internal::CaptureStderr();
  run(*executable, context.get(), floats({6, 2}, std::vector<float>(12, 1)));
  run(*executable, context.get(), floats({6, 2}, std::vector<float>(12, 1)));
  run(*executable, context.get(), floats({1, 2}, {1, 1}));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(planner_->built, ElementsAre("1:4:4,2", "1:6:6,2"));
  EXPECT_THAT(log, HasSubstr("function 'twice': input 'x': axis 0 is 6, the engine was built for 1 "
                             "to 4; it is built again for 1:6:6,2"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1);
}

TEST_F(ExecutableTest, TheFirstRunDecidesWhatIsLeftOpen) {
  const auto executable = make({{{}, {2, 2, 2}}});
  EXPECT_EQ(executable->plan(), nullptr);
  EXPECT_FALSE(executable->serialize().has_value());
  const auto context = executable->create_context();
  testing::internal::CaptureStderr();
  run(*executable, context.get(), floats({3, 2}, std::vector<float>(6, 1)));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_THAT(planner_->built, ElementsAre("1:3:3,2"));
  EXPECT_TRUE(executable->serialize().has_value());
}

TEST_F(ExecutableTest, ShapesThatTheDataDecide) {
  planner_ = std::make_shared<StandInPlanner>(driver_, /*dynamic=*/true);
  Graph graph;
  const ValueId x = graph.add_input("x", Type::tensor(DType::kFloat32, Dims{4}));
  const ValueId y = graph.add_op("Compress", {x, x}, {}, "y");
  graph.set_type(y, Type::tensor(DType::kFloat32, Shape{Dim()}));
  graph.add_output(y);
  const Ranges ranges = {{{4, 4, 4}}};
  const TrtExecutable executable(graph, "positive", driver_, 0, planner_, ranges,
                                 planner_->build(ranges));
  const auto context = executable.create_context();
  EXPECT_THAT(values_of(run(executable, context.get(), floats({4}, {1, -1, 2, -2}))[0]),
              ElementsAre(1, 2));
  EXPECT_THAT(values_of(run(executable, context.get(), floats({4}, {1, 3, 2, -2}))[0]),
              ElementsAre(1, 3, 2));
}

TEST_F(ExecutableTest, ContextsGiveBackWhatTheyTook) {
  const auto executable = make(kUpToFour, 1);
  {
    const auto one = executable->create_context();
    const auto two = executable->create_context();
    run(*executable, one.get(), floats({1, 2}, {1, 2}));
    run(*executable, two.get(), floats({4, 2}, std::vector<float>(8, 1)));
    EXPECT_GT(driver_->live_blocks(), 0U);
  }
  EXPECT_EQ(driver_->live_blocks(), 0U);
  EXPECT_EQ(driver_->streams(), 2);
  EXPECT_EQ(driver_->destroyed_streams(), 2);
  EXPECT_THAT(driver_->used(), ElementsAre(1));
}

TEST_F(ExecutableTest, RefusesOtherTypesShapesAndContexts) {
  const auto executable = make(kUpToFour);
  const auto context = executable->create_context();
  const auto message = [&](const Tensor& x, RunContext* with) -> std::string {
    try {
      run(*executable, with, x);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message(Tensor::allocate(DType::kFloat64, {1, 2}), context.get()),
              HasSubstr("input 'x' is float64"));
  EXPECT_THAT(message(floats({1, 3}, {1, 2, 3}), context.get()), HasSubstr("[1,3]"));
  EXPECT_THAT(message(floats({1, 2}, {1, 2}), nullptr), HasSubstr("create_context"));
}

TEST_F(ExecutableTest, ABlobComesBackWithItsRanges) {
  const auto executable = make(kUpToFour);
  const std::string bytes = executable->serialize().value();
  const Tensor blob = Tensor::from<char>(DType::kUInt8, {static_cast<std::int64_t>(bytes.size())},
                                         std::span<const char>(bytes));
  const auto [ranges, plan] = TrtExecutable::unpack(blob, "twice");
  EXPECT_EQ(ranges, kUpToFour);
  EXPECT_EQ(plan.bytes(), sizeof(std::int64_t));
  for (const std::string& broken :
       {std::string("nonsense"), bytes.substr(0, 10), std::string("xrt-tensorrt-1\n1:x:4\nplan")}) {
    const Tensor bad = Tensor::from<char>(DType::kUInt8, {static_cast<std::int64_t>(broken.size())},
                                          std::span<const char>(broken));
    try {
      TrtExecutable::unpack(bad, "twice");
      ADD_FAILURE() << broken;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidModel) << error.what();
    }
  }
}

TEST_F(ExecutableTest, WithoutAGpuItIsKeptAndNotRun) {
  const TrtExecutable executable(graph_, "twice", nullptr, 0, planner_, kUpToFour,
                                 planner_->build(kUpToFour), "no NVIDIA driver");
  EXPECT_TRUE(executable.serialize().has_value());
  try {
    executable.create_context();
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kEngine);
    EXPECT_THAT(error.what(), HasSubstr("a plan of TensorRT runs on a GPU: no NVIDIA driver"));
  }
}

TEST(Ranges, AreReadFromTheOption) {
  Graph graph;
  graph.add_input("x", Type::tensor(DType::kFloat32, Shape{Dim("N"), 3, Dim("H")}));
  graph.add_input("y", Type::tensor(DType::kFloat32, Shape{Dim("M")}));
  CompileOptions options;
  options.engine_options["shapes"] = "N=1:8:32,H=224";
  Ranges ranges = initial_ranges(graph, options);
  EXPECT_FALSE(complete(ranges));  // nothing says M
  close(ranges);
  EXPECT_EQ(to_text(ranges), "1:8:32,3,224;1:64:64");
  EXPECT_EQ(from_text("1:8:32,3,224;1:64:64"), ranges);
  options.max_batch_size = 16;  // of first dimensions that the option does not name
  EXPECT_EQ(to_text(initial_ranges(graph, options)), "1:8:32,3,224;1:16:16");
  for (const char* wrong : {"N", "N=", "N=8:1:32", "N=1:2", "N=-1"}) {
    options.engine_options["shapes"] = wrong;
    EXPECT_THROW(initial_ranges(graph, options), Error) << wrong;
  }
}

TEST(Ranges, GrowToHoldWhatCame) {
  const Ranges ranges = {{{2, 4, 8}, {3, 3, 3}}};
  EXPECT_TRUE(fits(ranges, {{8, 3}}));
  EXPECT_FALSE(fits(ranges, {{9, 3}}));
  EXPECT_FALSE(fits(ranges, {{1, 3}}));
  EXPECT_EQ(to_text(grown(ranges, {{9, 3}})), "2:9:9,3");
  EXPECT_EQ(to_text(grown(ranges, {{1, 3}})), "1:4:8,3");
  EXPECT_EQ(misfit(ranges, {{9, 3}}, {"x"}),
            "input 'x': axis 0 is 9, the engine was built for 2 to 8");
}

}  // namespace
}  // namespace xrt::tensorrt
