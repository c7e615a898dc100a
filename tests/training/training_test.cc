// SPDX-License-Identifier: Apache-2.0
// What training asks of engines: phases, inputs that are written over, weights that stay live.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "tests/support/test_engines.h"
#include "xrt/program.h"

namespace xrt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Takes everything natively, and notes what it was told.
class NotingEngine final : public Engine {
 public:
  NotingEngine(std::string name, bool in_place, bool writes_over)
      : info_{.name = std::move(name), .version = "1", .in_place = in_place},
        writes_over_(writes_over) {}

  const EngineInfo& info() const override { return info_; }
  Support supports(const SupportQuery& query) const override {
    const std::lock_guard lock(mutex);
    phases.push_back(query.phase);
    if (query.phase == Phase::kTraining && query.graph.node(query.node).op() == "Exp") {
      return Support::no("its lowering of Exp is not for training");
    }
    if (query.mutable_inputs.empty()) return Support::yes();
    mutable_inputs = query.mutable_inputs;
    return writes_over_ ? Support::yes() : Support::no("it writes over nothing");
  }
  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& options) const override {
    const std::lock_guard lock(mutex);
    phases.push_back(options.phase);
    for (const InputOutputAlias& a : function.aliases) aliases.emplace_back(a.input, a.output);
    return get_engine("native")->compile(function, options);
  }

  mutable std::mutex mutex;
  mutable std::vector<Phase> phases;
  mutable std::vector<std::int32_t> mutable_inputs;
  mutable std::vector<std::pair<int, int>> aliases;

 private:
  EngineInfo info_;
  bool writes_over_;
};

std::shared_ptr<NotingEngine> noting(const std::string& name, bool in_place, bool writes_over) {
  auto engine = std::make_shared<NotingEngine>(name, in_place, writes_over);
  register_engine(engine);
  return engine;
}

Type vector_type() { return Type::tensor(DType::kFloat32, Dims{4}); }

Tensor filled(float value) {
  Tensor tensor = Tensor::allocate(DType::kFloat32, {4});
  std::fill_n(tensor.data<float>(), 4, value);
  return tensor;
}

// w2 = Sub(w, g), e = Exp(w): w is read besides the update.
Graph update() {
  Graph graph("update");
  const ValueId w = graph.add_input("w", vector_type());
  const ValueId g = graph.add_input("g", vector_type());
  graph.add_output(graph.add_op("Sub", {w, g}, {}, "w2"));
  graph.add_output(graph.add_op("Exp", {w}, {}, "e"));
  graph.opsets()[""] = kOnnxOpset;
  return graph;
}

// Three steps on the engine; the weights live in the tensor `w` all the time.
std::shared_ptr<Program> train(const std::string& engine) {
  ProgramOptions options;
  options.engines = {engine};
  options.training = true;
  options.aliases = {{"w", "w2"}};
  auto program = Program::compile(update(), options);
  Tensor w = filled(3);
  const std::vector<Data> inputs{w, filled(1)};
  for (int step = 0; step < 3; ++step) {
    std::vector<Data> outputs;
    program->run(inputs, outputs);
    EXPECT_EQ(outputs[0].tensor().raw(), w.raw());
    EXPECT_FLOAT_EQ(w.data<float>()[3], 2.0F - static_cast<float>(step));
    // The old value, which shows that no engine has frozen the weights.
    EXPECT_FLOAT_EQ(outputs[1].tensor().data<float>()[3],
                    std::exp(3.0F - static_cast<float>(step)));
  }
  return program;
}

TEST(Training, EnginesAreToldThePhaseAndWhatIsWrittenOver) {
  const auto engine = noting("notes", /*in_place=*/true, /*writes_over=*/true);
  const auto program = train("notes");
  EXPECT_THAT(engine->phases, ::testing::Each(Phase::kTraining));
  EXPECT_THAT(engine->mutable_inputs, ElementsAre(0));
  // Exp, which its traits keep out of training, reads w after the update in the order of launches:
  // the update must not be in place if Exp runs later.
  const Explanation explanation = program->explain();
  for (const Explanation::NodeRow& row : explanation.nodes) {
    EXPECT_EQ(row.engine, row.op == "Exp" ? "native" : "notes");
    if (row.op == "Exp") {
      EXPECT_THAT(row.refusals.at("notes"), HasSubstr("not for training"));
    }
  }
}

TEST(Training, ANodeThatAnEngineDoesNotClaimWithMutableInputsGoesToTheNext) {
  const auto engine = noting("claims_none", /*in_place=*/true, /*writes_over=*/false);
  const Explanation explanation = train("claims_none")->explain();
  EXPECT_EQ(explanation.nodes_per_engine, (std::map<std::string, std::size_t>{{"native", 2}}));
  EXPECT_EQ(explanation.nodes[0].refusals.at("claims_none"), "it writes over nothing");
  EXPECT_THAT(engine->aliases, IsEmpty());
}

TEST(Training, AliasesReachEnginesThatWorkInPlaceAloneAndOnlyLastReaders) {
  const auto graph = [] {
    Graph graph("one");
    const ValueId w = graph.add_input("w", vector_type());
    graph.add_output(graph.add_op("Relu", {w}, {}, "r"));
    graph.add_output(graph.add_op("Neg", {w}, {}, "w2"));
    graph.opsets()[""] = kOnnxOpset;
    return graph;
  };
  const auto run = [&](const std::string& name, std::map<std::string, std::string> nodes) {
    ProgramOptions options;
    options.engines = {name, "native"};
    options.aliases = {{"w", "w2"}};
    options.node_engines = std::move(nodes);
    const auto program = Program::compile(graph(), options);
    Tensor w = filled(2);
    std::vector<Data> outputs;
    program->run(std::vector<Data>{w}, outputs);
    EXPECT_FLOAT_EQ(outputs[0].tensor().data<float>()[0], 2);
    EXPECT_FLOAT_EQ(w.data<float>()[0], -2);
    EXPECT_EQ(outputs[1].tensor().raw(), w.raw());
  };
  const auto in_place = noting("in_place", true, true);
  run("in_place", {});
  EXPECT_THAT(in_place->aliases, ElementsAre(std::pair(0, 1)));
  const auto aside = noting("aside", false, true);
  run("aside", {});
  EXPECT_THAT(aside->aliases, IsEmpty());
  // Another launch reads the old value. Whichever runs first, it must be there.
  const Graph names = graph();
  for (const NodeId id : names.nodes()) {
    in_place->aliases.clear();
    run("in_place", {{names.node(id).name, "native"}});
  }
}

TEST(Training, WithoutItNobodyIsAskedForIt) {
  const auto engine = noting("infers", true, true);
  ProgramOptions options;
  options.engines = {"infers"};
  const auto program = Program::compile(update(), options);
  EXPECT_THAT(engine->phases, ::testing::Each(Phase::kInference));
  EXPECT_EQ(program->explain().nodes_per_engine,
            (std::map<std::string, std::size_t>{{"infers", 2}}));
}

}  // namespace
}  // namespace xrt
