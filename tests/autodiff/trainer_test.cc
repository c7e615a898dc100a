// SPDX-License-Identifier: Apache-2.0
// xrt::gradients and xrt::Trainer from C++; the rules themselves are tested against finite
// differences and PyTorch in test_rules.py.
#include "xrt/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
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

TEST(Trainer, SkipsStepsWhoseGradientsAreNotFinite) {
  TrainerOptions options;
  options.loss.kind = "mse";
  options.optimizer = {.name = "adam", .learning_rate = 0.1};
  options.loss_scale = {.kind = "dynamic", .initial = 1024, .growth_interval = 2};
  const auto trainer = Trainer::create(linear(), options);
  options.loss_scale = {};
  const auto plain = Trainer::create(linear(), options);
  EXPECT_EQ(plain->loss_scale(), 1);
  const Tensor target = floats({2, 1}, {0, 0});
  const std::map<std::string, Data> good{{"x", floats({2, 3}, kRows)}, {"target", target}};
  std::vector<float> rows = kRows;
  rows[4] = std::numeric_limits<float>::quiet_NaN();
  const std::map<std::string, Data> bad{{"x", floats({2, 3}, rows)}, {"target", target}};
  const Tensor before = trainer->state().at("w").clone();
  EXPECT_TRUE(std::isnan(trainer->step(bad)));
  EXPECT_TRUE(trainer->state().at("w").identical(before));
  EXPECT_EQ(trainer->loss_scale(), 512);
  EXPECT_EQ(trainer->skipped_steps(), 1);
  for (int i = 0; i < 2; ++i) {
    EXPECT_DOUBLE_EQ(trainer->step(good), plain->step(good));
    // Powers of two change no digit, and Adam counts two updates.
    for (const auto& [name, value] : plain->state()) {
      EXPECT_TRUE(trainer->state().at(name).identical(value)) << name;
    }
  }
  EXPECT_EQ(trainer->loss_scale(), 1024);
  EXPECT_EQ(trainer->step_count(), 3);
  const std::string path = testing::TempDir() + "loss_scale.state";
  trainer->save(path);
  options.loss_scale = {.kind = "dynamic", .initial = 8};
  const auto other = Trainer::create(linear(), options);
  other->load(path);
  EXPECT_EQ(other->loss_scale(), 1024);
  EXPECT_EQ(other->skipped_steps(), 1);
}

// y = relu(x v) w with layers of `n` features.
Graph two_layers(std::int64_t n) {
  Graph graph("two_layers");
  const ValueId x = graph.add_input("x", Type::tensor(DType::kFloat32, Shape{4, n}));
  std::vector<float> values(static_cast<std::size_t>(n * n));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 0.01F * static_cast<float>(static_cast<int>(i * 7919 % 201) - 100);
  }
  const ValueId v = graph.add_constant("v", floats({n, n}, values));
  const ValueId w = graph.add_constant("w", floats({n, n}, values));
  const ValueId hidden = graph.add_op("Relu", {graph.add_op("MatMul", {x, v})});
  graph.add_output(graph.add_op("MatMul", {hidden, w}, {}, "y"));
  return graph;
}

// Every optimizer: weights and states stay where they are, and the function that updates them needs
// memory for gradients, not for new values.
TEST(Trainer, UpdatesInPlace) {
  constexpr std::int64_t n = 192;
  constexpr std::size_t weight = n * n * sizeof(float);
  const std::map<std::string, Data> batch{{"x", floats({4, n}, std::vector<float>(4 * n, 0.1F))},
                                          {"target", floats({4, n}, std::vector<float>(4 * n))}};
  for (const char* name : {"sgd", "adagrad", "rmsprop", "adam", "adamw"}) {
    SCOPED_TRACE(name);
    TrainerOptions options;
    options.loss.kind = "mse";
    options.optimizer.name = name;
    options.optimizer.momentum = 0.9;
    options.optimizer.learning_rate = 1e-3;
    const auto trainer = Trainer::create(two_layers(n), options);
    // The same with new values computed beside the old ones.
    options.detect_anomaly = true;
    const auto beside = Trainer::create(two_layers(n), options);
    std::map<std::string, const void*> places;
    for (const auto& [key, tensor] : trainer->state()) places[key] = tensor.raw();
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(trainer->step(batch), beside->step(batch));
      for (const auto& [key, tensor] : trainer->state()) {
        EXPECT_EQ(tensor.raw(), places.at(key)) << key;
        EXPECT_TRUE(tensor.identical(beside->state().at(key))) << key;
      }
    }
    const Explanation explanation = trainer->explain();
    ASSERT_EQ(explanation.launches.size(), 1U);
    EXPECT_LT(explanation.launches[0].workspace_bytes + explanation.arena_bytes, 2.3 * weight);
  }
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
