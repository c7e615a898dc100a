// SPDX-License-Identifier: Apache-2.0
// xrt::gradients and xrt::Trainer from C++; the rules themselves are tested against finite
// differences and PyTorch in tests/python.
#include "xrt/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "xrt/autodiff.h"
#include "xrt/error.h"

namespace xrt {
namespace {

Tensor floats(Dims dims, const std::vector<float>& values) {
  return Tensor::from<float>(DType::kFloat32, std::move(dims), values);
}

// y = x w, x [2,3], w [3,1].
Graph linear() {
  Graph graph("linear");
  const ValueId x = graph.add_input("x", Type::tensor(DType::kFloat32, Shape{2, 3}));
  const ValueId w = graph.add_constant("w", floats({3, 1}, {1, -1, 2}));
  graph.add_output(graph.add_op("MatMul", {x, w}, {}, "y"));
  return graph;
}

const std::vector<float> kRows{1, 2, 3, 4, 5, 6};

TEST(Gradients, OfAProductAreTheOtherFactor) {
  Graph graph("product");
  const ValueId a = graph.add_input("a", Type::tensor(DType::kFloat32, Shape{}));
  const ValueId b = graph.add_input("b", Type::tensor(DType::kFloat32, Shape{}));
  const ValueId y = graph.add_op("Mul", {a, b});
  const std::vector<ValueId> wrt{a, b};
  for (const ValueId g : gradients(graph, y, wrt)) graph.add_output(graph.add_op("Identity", {g}));
  ProgramOptions options;
  options.engines = {"native"};
  const auto outputs = Program::compile(std::move(graph), options)
                           ->run({{"a", Tensor::scalar(3.0F)}, {"b", Tensor::scalar(5.0F)}});
  EXPECT_EQ(*outputs[0].tensor().data<float>(), 5.0F);
  EXPECT_EQ(*outputs[1].tensor().data<float>(), 3.0F);
}

TEST(Gradients, KnowHowOpsAreDifferentiated) {
  EXPECT_EQ(gradient_kind("", "Conv"), GradientKind::kRule);
  EXPECT_EQ(gradient_kind("", "Round"), GradientKind::kZero);
  EXPECT_EQ(gradient_kind("", "LSTM"), GradientKind::kExpanded);
  EXPECT_EQ(gradient_kind("", "GroupNormalization"), GradientKind::kExpanded);
  EXPECT_EQ(gradient_kind("", "NonsenseOp"), GradientKind::kNone);
}

TEST(Trainer, MakesOneStepOfGradientDescent) {
  TrainerOptions options;
  options.loss.kind = "mse";
  options.optimizer.learning_rate = 0.1;
  const auto trainer = Trainer::create(linear(), options);
  const Tensor target = floats({2, 1}, {0, 0});
  const double loss = trainer->step({{"x", floats({2, 3}, kRows)}, {"target", target}});
  // y = (5, 11): the loss is (25 + 121) / 2, its gradient x' y.
  EXPECT_DOUBLE_EQ(loss, 73.0);
  const Tensor w = trainer->state().at("w");
  EXPECT_NEAR(w.data<float>()[0], 1 - 0.1F * (1 * 5 + 4 * 11), 1e-5);
  EXPECT_NEAR(w.data<float>()[1], -1 - 0.1F * (2 * 5 + 5 * 11), 1e-5);
  EXPECT_NEAR(w.data<float>()[2], 2 - 0.1F * (3 * 5 + 6 * 11), 1e-5);
  EXPECT_EQ(trainer->step_count(), 1);
}

TEST(Trainer, KeepsItsRateInTheScheduleAndInTheCheckpoint) {
  TrainerOptions options;
  options.loss.kind = "mse";
  const auto trainer = Trainer::create(linear(), options);
  trainer->set_schedule(step_schedule(0.01, 1, 0.5));
  const std::map<std::string, Data> batch{{"x", floats({2, 3}, kRows)},
                                          {"target", floats({2, 1}, {0, 0})}};
  trainer->step(batch);
  trainer->step(batch);
  EXPECT_DOUBLE_EQ(trainer->learning_rate(), 0.005);
  const std::string path = testing::TempDir() + "trainer_test.state";
  trainer->save(path);
  const auto other = Trainer::create(linear(), options);
  other->load(path);
  EXPECT_EQ(other->step_count(), 2);
  EXPECT_TRUE(other->state().at("w").identical(trainer->state().at("w")));
}

TEST(Trainer, RefusesWhatItCannotTrain) {
  TrainerOptions options;
  options.loss.kind = "rmse";
  EXPECT_THROW(Trainer::create(linear(), options), Error);
  Graph graph("unique");
  const ValueId w = graph.add_constant("w", floats({3}, {1, 2, 2}));
  graph.add_output(graph.add_op("Unique", {w}));
  options.loss.reduction = "sum";
  options.loss.kind = "mse";
  try {
    Trainer::create(std::move(graph), options)->step({{"target", floats({2}, {0, 0})}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("(Unique)"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace xrt
