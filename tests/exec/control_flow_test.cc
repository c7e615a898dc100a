// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan whose bodies run on several engines. Expected values are computed by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/test_engines.h"
#include "xrt/program.h"

namespace xrt {
namespace {

using testing::picky;

Tensor floats(Dims dims, std::vector<float> values) {
  return Tensor::from<float>(DType::kFloat32, std::move(dims), std::span<const float>(values));
}

std::vector<float> values_of(const Data& data) {
  const Tensor& t = data.tensor();
  return {t.data<float>(), t.data<float>() + t.count()};
}

Tensor truth(bool value) {
  Tensor t = Tensor::allocate(DType::kBool, {});
  t.data<std::uint8_t>()[0] = value ? 1 : 0;
  return t;
}

const Type kFloats3 = Type::tensor(DType::kFloat32, Shape{3});
const Type kBool = Type::tensor(DType::kBool, Shape{});
const Type kInt = Type::tensor(DType::kInt64, Shape{});

NodeId add_node(Graph& g, const std::string& op, std::vector<ValueId> inputs,
                const std::vector<std::string>& outputs, const std::string& name,
                Attributes attributes = {}) {
  return g.add_node("", op, std::move(inputs), outputs, std::move(attributes), name);
}

ValueId one(Graph& g, const std::string& op, std::vector<ValueId> inputs, const std::string& name,
            Attributes attributes = {}) {
  return g.node(add_node(g, op, std::move(inputs), {name + "_out"}, name, std::move(attributes)))
      .outputs[0];
}

// state ← relu(state) + step, `n` times; the parts are exp-free so that sums are exact:
// y = x + n · step for positive x; parts[i] = |state before + step|.
Graph loop_graph(Type state = kFloats3) {
  Graph g("loop");
  const ValueId n = g.add_input("n", kInt);
  const ValueId x = g.add_input("x", state);
  const ValueId step = g.add_input("step", kFloats3);
  auto body = std::make_shared<Graph>("body");
  body->add_input("i", kInt);
  const ValueId go_on = body->add_input("go_on", kBool);
  const ValueId before = body->add_input("before", state);
  const ValueId inner_step = body->add_capture(step, "inner_step", kFloats3);
  const ValueId positive = one(*body, "Relu", {before}, "relu");
  const ValueId after = one(*body, "Add", {positive, inner_step}, "add");
  const ValueId part = one(*body, "Abs", {after}, "abs");
  body->add_output(one(*body, "Identity", {go_on}, "same"));
  body->add_output(after);
  body->add_output(part);
  const NodeId loop =
      add_node(g, "Loop", {n, ValueId{}, x}, {"y", "parts"}, "loop", {{"body", body}});
  g.add_output(g.node(loop).outputs[0]);
  g.add_output(g.node(loop).outputs[1]);
  return g;
}

void expect_loop(Program& program, std::int64_t n) {
  const std::vector<Data> out = program.run({{"n", Tensor::scalar(n)},
                                             {"x", floats({3}, {1, 2, 3})},
                                             {"step", floats({3}, {0.5F, 1, 2})}});
  const auto f = static_cast<float>(n);
  EXPECT_EQ(values_of(out.at(0)), (std::vector<float>{1 + 0.5F * f, 2 + f, 3 + 2 * f}));
  ASSERT_EQ(out.at(1).tensor().dims(), (Dims{n, 3}));
  const std::vector<float> parts = values_of(out.at(1));
  for (std::int64_t i = 0; i < n; ++i) {
    const auto k = static_cast<float>(i + 1);
    EXPECT_EQ(parts[static_cast<std::size_t>(3 * i)], 1 + 0.5F * k);
    EXPECT_EQ(parts[static_cast<std::size_t>(3 * i + 2)], 3 + 2 * k);
  }
}

const Explanation::NodeRow* row(const Explanation& e, const std::string& name) {
  const auto it =
      std::find_if(e.nodes.begin(), e.nodes.end(), [&](const auto& r) { return r.name == name; });
  return it == e.nodes.end() ? nullptr : &*it;
}

TEST(ControlFlow, ABodyRunsOnTwoEngines) {
  const auto engine = picky("cf_two", {"Relu", "Abs"});
  const auto program = Program::compile(loop_graph(), {.engines = {"cf_two", "native"}});
  EXPECT_EQ(engine->compiled, 2);  // before the first run
  for (const std::int64_t n : {5, 1, 0, 100}) expect_loop(*program, n);
  const Explanation e = program->explain();
  ASSERT_NE(row(e, "loop"), nullptr);
  EXPECT_EQ(row(e, "loop")->engine, "runtime");
  EXPECT_EQ(row(e, "loop")->refusals.at("cf_two"), "cf_two does not take Loop");
  EXPECT_NE(row(e, "loop")->refusals.at("native").find("bodies"), std::string::npos);
  ASSERT_NE(row(e, "loop/body/relu"), nullptr);
  EXPECT_EQ(row(e, "loop/body/relu")->engine, "cf_two");
  EXPECT_EQ(row(e, "loop/body/add")->engine, "native");
  EXPECT_EQ(row(e, "loop/body/add")->refusals.at("cf_two"), "cf_two does not take Add");
  // What the body captures bears the outer name.
  EXPECT_EQ(row(e, "loop/body/add")->inputs,
            (std::vector<std::string>{"loop/body/relu_out", "step"}));
  EXPECT_EQ(e.nodes_per_engine.at("runtime"), 1U);
  EXPECT_EQ(e.nodes_per_engine.at("cf_two"), 2U);
  const auto inner = std::find_if(e.launches.begin(), e.launches.end(), [](const auto& l) {
    return l.function.starts_with("loop/body/cf_two");
  });
  ASSERT_NE(inner, e.launches.end());
  EXPECT_EQ(inner->runs, 106);
  EXPECT_EQ(engine->compiled, 2);
}

TEST(ControlFlow, WhereNothingIsWonTheNodeStaysWhole) {
  picky("cf_no_part", {"Softmax"});
  const auto program = Program::compile(loop_graph(), {.engines = {"cf_no_part", "native"}});
  expect_loop(*program, 4);
  EXPECT_EQ(row(program->explain(), "loop")->engine, "native");
  EXPECT_EQ(row(program->explain(), "loop/body/relu"), nullptr);
}

TEST(ControlFlow, TheFirstEngineThatTakesItWholeHasIt) {
  picky("cf_part", {"Relu"});
  const auto program = Program::compile(loop_graph(), {.engines = {"native", "cf_part"}});
  expect_loop(*program, 4);
  EXPECT_EQ(row(program->explain(), "loop")->engine, "native");
}

TEST(ControlFlow, OverridesReachIntoBodies) {
  picky("cf_over", {"Relu", "Add", "Abs"});
  const auto inner = Program::compile(
      loop_graph(),
      {.engines = {"native", "cf_over"}, .node_engines = {{"loop/body/add", "cf_over"}}});
  expect_loop(*inner, 3);
  EXPECT_EQ(row(inner->explain(), "loop/body/add")->engine, "cf_over");
  EXPECT_EQ(row(inner->explain(), "loop/body/relu")->engine, "native");
  const auto outer = Program::compile(
      loop_graph(), {.engines = {"native"}, .node_engines = {{"loop", "runtime"}}});
  expect_loop(*outer, 3);
  EXPECT_EQ(row(outer->explain(), "loop")->engine, "runtime");
  const auto whole = Program::compile(
      loop_graph(), {.engines = {"cf_over", "native"}, .node_engines = {{"loop", "native"}}});
  expect_loop(*whole, 3);
  EXPECT_EQ(row(whole->explain(), "loop")->engine, "native");
  try {
    Program::compile(loop_graph(), {.engines = {"native", "cf_over"},
                                    .node_engines = {{"loop/body/nobody", "cf_over"}}});
  } catch (const Error& error) {
    FAIL() << "a node that a pass may have removed is a note, not an error: " << error.what();
  }
}

TEST(ControlFlow, StrictHoldsInBodies) {
  picky("cf_strict", {"Relu", "Add", "Abs", "Identity"});
  const auto program = Program::compile(loop_graph(), {.engines = {"cf_strict"}, .strict = true});
  expect_loop(*program, 3);
  EXPECT_EQ(program->explain().nodes_per_engine.count("native"), 0U);
  picky("cf_strict_less", {"Relu", "Add"});
  try {
    Program::compile(loop_graph(), {.engines = {"cf_strict_less"}, .strict = true});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("'abs' (Abs)"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("loop"), std::string::npos) << error.what();
  }
}

TEST(ControlFlow, InputsKeepTheirValuesAndOutputsAreOwnMemory) {
  const auto program = Program::compile(
      loop_graph(), {.engines = {"native"}, .node_engines = {{"loop", "runtime"}}});
  const Tensor x = floats({3}, {1, 2, 3});
  for (const std::int64_t n : {0, 1, 2, 3}) {
    const std::vector<Data> first =
        program->run({{"n", Tensor::scalar(n)}, {"x", x}, {"step", floats({3}, {1, 1, 1})}});
    EXPECT_NE(first[0].tensor().raw(), x.raw());
    const std::vector<float> kept = values_of(first[0]);
    program->run({{"n", Tensor::scalar(std::int64_t{7})},
                  {"x", floats({3}, {9, 9, 9})},
                  {"step", floats({3}, {5, 5, 5})}});
    EXPECT_EQ(values_of(first[0]), kept);
    EXPECT_EQ(values_of(x), (std::vector<float>{1, 2, 3}));
  }
}

// The state grows by one element per iteration: state ← concat(state, [1]).
Graph growing_graph() {
  Graph g("growing");
  const ValueId n = g.add_input("n", kInt);
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{1}));
  auto body = std::make_shared<Graph>("body");
  body->add_input("i", kInt);
  const ValueId go_on = body->add_input("go_on", kBool);
  const ValueId before = body->add_input("before", Type::tensor(DType::kFloat32, Shape{Dim()}));
  const ValueId unit = body->add_constant("unit", floats({1}, {1}));
  const ValueId positive = one(*body, "Relu", {before}, "relu");
  body->add_output(one(*body, "Identity", {go_on}, "same"));
  body->add_output(one(*body, "Concat", {positive, unit}, "concat", {{"axis", std::int64_t{0}}}));
  const NodeId loop = add_node(g, "Loop", {n, ValueId{}, x}, {"y"}, "loop", {{"body", body}});
  g.add_output(g.node(loop).outputs[0]);
  return g;
}

TEST(ControlFlow, ShapesThatChangeAreCompiledForOnlyAFewTimes) {
  const auto engine = picky("cf_grow", {"Relu"});  // needs static shapes
  const auto program = Program::compile(growing_graph(), {.engines = {"cf_grow", "native"}});
  for (const std::int64_t n : {3, 200}) {
    const std::vector<Data> out = program->run({{"n", Tensor::scalar(n)}, {"x", floats({1}, {1})}});
    EXPECT_EQ(values_of(out[0]), std::vector<float>(static_cast<std::size_t>(n) + 1, 1.0F));
  }
  EXPECT_LE(engine->compiled, 4);
  EXPECT_GE(engine->compiled, 3);
}

TEST(ControlFlow, BodiesKeepToTheNumberOfSpecializations) {
  const auto engine = picky("cf_grow_once", {"Relu"});
  const auto program = Program::compile(
      growing_graph(), {.engines = {"cf_grow_once", "native"}, .max_specializations = 1});
  for (const std::int64_t n : {3, 200}) {
    const std::vector<Data> out = program->run({{"n", Tensor::scalar(n)}, {"x", floats({1}, {1})}});
    EXPECT_EQ(values_of(out[0]), std::vector<float>(static_cast<std::size_t>(n) + 1, 1.0F));
  }
  EXPECT_EQ(engine->compiled, 1);
}

TEST(ControlFlow, StrictWithStaticShapesCompilesForEach) {
  const auto engine = picky("cf_grow_strict", {"Relu", "Concat", "Identity"});
  const auto program = Program::compile(
      growing_graph(), {.engines = {"cf_grow_strict"}, .strict = true, .max_specializations = 6});
  const std::vector<Data> out =
      program->run({{"n", Tensor::scalar(std::int64_t{9})}, {"x", floats({1}, {1})}});
  EXPECT_EQ(values_of(out[0]), std::vector<float>(10, 1.0F));
}

// if c: y = |x| + z  else: y = if d: relu(x) · z else x; z is captured by the inner If through the
// outer one.
Graph nested_ifs() {
  Graph g("ifs");
  const ValueId c = g.add_input("c", kBool);
  const ValueId d = g.add_input("d", kBool);
  const ValueId x = g.add_input("x", kFloats3);
  const ValueId z = g.add_input("z", kFloats3);
  auto then_branch = std::make_shared<Graph>("then");
  {
    const ValueId ix = then_branch->add_capture(x, "x_then", kFloats3);
    const ValueId iz = then_branch->add_capture(z, "z_then", kFloats3);
    const ValueId a = one(*then_branch, "Abs", {ix}, "abs");
    then_branch->add_output(one(*then_branch, "Add", {a, iz}, "add"));
  }
  auto else_branch = std::make_shared<Graph>("else");
  {
    const ValueId id = else_branch->add_capture(d, "d_else", kBool);
    const ValueId ix = else_branch->add_capture(x, "x_else", kFloats3);
    const ValueId iz = else_branch->add_capture(z, "z_else", kFloats3);
    auto inner_then = std::make_shared<Graph>("inner_then");
    const ValueId jx = inner_then->add_capture(ix, "x_inner", kFloats3);
    const ValueId jz = inner_then->add_capture(iz, "z_inner", kFloats3);
    const ValueId r = one(*inner_then, "Relu", {jx}, "relu");
    inner_then->add_output(one(*inner_then, "Mul", {r, jz}, "mul"));
    auto inner_else = std::make_shared<Graph>("inner_else");
    inner_else->add_output(inner_else->add_capture(ix, "x_same", kFloats3));
    const NodeId inner = add_node(*else_branch, "If", {id}, {"inner_out"}, "inner",
                                  {{"then_branch", inner_then}, {"else_branch", inner_else}});
    else_branch->add_output(else_branch->node(inner).outputs[0]);
  }
  const NodeId outer = add_node(g, "If", {c}, {"y"}, "outer",
                                {{"then_branch", then_branch}, {"else_branch", else_branch}});
  g.add_output(g.node(outer).outputs[0]);
  return g;
}

void expect_ifs(Program& program) {
  const Tensor x = floats({3}, {-1, 2, -3});
  const Tensor z = floats({3}, {10, 20, 30});
  const auto run = [&](bool c, bool d) {
    return values_of(program.run({{"c", truth(c)}, {"d", truth(d)}, {"x", x}, {"z", z}}).at(0));
  };
  EXPECT_EQ(run(true, true), (std::vector<float>{11, 22, 33}));
  EXPECT_EQ(run(false, true), (std::vector<float>{0, 40, 0}));
  EXPECT_EQ(run(false, false), (std::vector<float>{-1, 2, -3}));
}

TEST(ControlFlow, NestedBodiesAndCapturesOfCaptures) {
  picky("cf_nested", {"Relu", "Abs"});
  const auto program = Program::compile(nested_ifs(), {.engines = {"cf_nested", "native"}});
  for (int round = 0; round < 3; ++round) expect_ifs(*program);
  const Explanation e = program->explain();
  EXPECT_EQ(row(e, "outer")->engine, "runtime");
  EXPECT_EQ(row(e, "outer/then_branch/abs")->engine, "cf_nested");
  EXPECT_EQ(row(e, "outer/else_branch/inner")->engine, "runtime");
  const auto* relu = row(e, "outer/else_branch/inner/then_branch/relu");
  ASSERT_NE(relu, nullptr);
  EXPECT_EQ(relu->engine, "cf_nested");
  EXPECT_EQ(relu->inputs, (std::vector<std::string>{"x"}));
}

TEST(ControlFlow, OverridesReachIntoBodiesOfBodies) {
  picky("cf_deep", {"Mul"});
  const auto program = Program::compile(
      nested_ifs(), {.engines = {"native", "cf_deep"},
                     .node_engines = {{"outer/else_branch/inner/then_branch/mul", "cf_deep"}}});
  expect_ifs(*program);
  EXPECT_EQ(row(program->explain(), "outer/else_branch/inner/then_branch/mul")->engine, "cf_deep");
}

TEST(ControlFlow, TracesNameTheBodies) {
  picky("cf_trace", {"Relu"});
  const auto program = Program::compile(nested_ifs(), {.engines = {"cf_trace", "native"}});
  program->enable_profile(true);
  expect_ifs(*program);
  const std::vector<LaunchEvent> events = program->profile();
  const auto traced = [&](const std::string& name) {
    return std::any_of(events.begin(), events.end(),
                       [&](const LaunchEvent& e) { return e.function == name; });
  };
  EXPECT_TRUE(traced("runtime_0"));
  EXPECT_TRUE(traced("outer/else_branch/runtime_0"));
  EXPECT_TRUE(traced("outer/else_branch/inner/then_branch/cf_trace_0"));
}

TEST(ControlFlow, ManyThreadsRunOneProgram) {
  picky("cf_threads", {"Relu", "Concat"});
  const auto loop = Program::compile(loop_graph(), {.engines = {"cf_threads", "native"}});
  const auto growing = Program::compile(growing_graph(), {.engines = {"cf_threads", "native"}});
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (std::int64_t round = 0; round < 20; ++round) {
        expect_loop(*loop, (t + round) % 9);
        const std::int64_t n = (3 * t + round) % 11;
        const std::vector<Data> out =
            growing->run({{"n", Tensor::scalar(n)}, {"x", floats({1}, {1})}});
        EXPECT_EQ(values_of(out[0]), std::vector<float>(static_cast<std::size_t>(n) + 1, 1.0F));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ControlFlow, AliasesAroundALoop) {
  picky("cf_alias", {"Relu"});
  const auto program =
      Program::compile(loop_graph(), {.engines = {"cf_alias", "native"}, .aliases = {{"x", "y"}}});
  EXPECT_EQ(row(program->explain(), "loop")->engine, "runtime");
  Tensor x = floats({3}, {1, 2, 3});
  for (int round = 1; round <= 3; ++round) {
    program->run(
        {{"n", Tensor::scalar(std::int64_t{2})}, {"x", x}, {"step", floats({3}, {1, 1, 1})}});
    const auto r = static_cast<float>(2 * round);
    EXPECT_EQ(values_of(x), (std::vector<float>{1 + r, 2 + r, 3 + r}));
  }
}

// Scans x along `in_axis` backwards where `reverse`, sums up, and writes the sums along `out_axis`
// in the direction of the input.
Graph scan_graph(std::int64_t in_axis, bool reverse, std::int64_t out_axis) {
  Graph g("scan");
  const ValueId start = g.add_input("start", Type::tensor(DType::kFloat32, Shape{2}));
  const ValueId x =
      g.add_input("x", Type::tensor(DType::kFloat32, in_axis == 0 ? Shape{3, 2} : Shape{2, 3}));
  auto body = std::make_shared<Graph>("body");
  const ValueId sum = body->add_input("sum", Type::tensor(DType::kFloat32, Shape{2}));
  const ValueId part = body->add_input("part", Type::tensor(DType::kFloat32, Shape{2}));
  const ValueId now = one(*body, "Add", {sum, part}, "add");
  body->add_output(now);
  body->add_output(one(*body, "Relu", {now}, "relu"));
  const std::int64_t direction = reverse ? 1 : 0;
  const NodeId scan = add_node(g, "Scan", {start, x}, {"last", "sums"}, "scan",
                               {{"body", body},
                                {"num_scan_inputs", std::int64_t{1}},
                                {"scan_input_axes", std::vector<std::int64_t>{in_axis}},
                                {"scan_input_directions", std::vector<std::int64_t>{direction}},
                                {"scan_output_axes", std::vector<std::int64_t>{out_axis}},
                                {"scan_output_directions", std::vector<std::int64_t>{direction}}});
  g.add_output(g.node(scan).outputs[0]);
  g.add_output(g.node(scan).outputs[1]);
  return g;
}

TEST(ControlFlow, ScanOverAxesAndDirections) {
  picky("cf_scan", {"Relu"});
  const auto run = [](std::int64_t in_axis, bool reverse, std::int64_t out_axis) {
    const auto program = Program::compile(scan_graph(in_axis, reverse, out_axis),
                                          {.engines = {"cf_scan", "native"}});
    EXPECT_EQ(row(program->explain(), "scan")->engine, "runtime");
    const Tensor x = in_axis == 0 ? floats({3, 2}, {1, 10, 2, 20, 3, 30})
                                  : floats({2, 3}, {1, 2, 3, 10, 20, 30});
    const std::vector<Data> out = program->run({{"start", floats({2}, {0, 0})}, {"x", x}});
    EXPECT_EQ(values_of(out[0]), (std::vector<float>{6, 60}));
    return values_of(out[1]);
  };
  EXPECT_EQ(run(0, false, 0), (std::vector<float>{1, 10, 3, 30, 6, 60}));
  EXPECT_EQ(run(0, true, 0), (std::vector<float>{6, 60, 5, 50, 3, 30}));
  EXPECT_EQ(run(1, false, 0), (std::vector<float>{1, 10, 3, 30, 6, 60}));
  EXPECT_EQ(run(1, true, 1), (std::vector<float>{6, 5, 3, 60, 50, 30}));
  EXPECT_EQ(run(-1, false, -1), (std::vector<float>{1, 3, 6, 10, 30, 60}));
}

TEST(ControlFlow, AConditionEndsTheLoop) {
  // state ← state + 1 while the sum is below the limit; no trip count.
  Graph g("until");
  const ValueId start = g.add_input("start", kBool);
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{}));
  const ValueId limit = g.add_input("limit", Type::tensor(DType::kFloat32, Shape{}));
  auto body = std::make_shared<Graph>("body");
  body->add_input("i", kInt);
  body->add_input("go_on", kBool);
  const ValueId before = body->add_input("before", Type::tensor(DType::kFloat32, Shape{}));
  const ValueId end = body->add_capture(limit, "end", Type::tensor(DType::kFloat32, Shape{}));
  const ValueId unit = body->add_constant("unit", Tensor::scalar(1.0F));
  const ValueId after = one(*body, "Add", {before, unit}, "add");
  body->add_output(one(*body, "Less", {after, end}, "less"));
  body->add_output(after);
  const NodeId loop = add_node(g, "Loop", {ValueId{}, start, x}, {"y"}, "loop", {{"body", body}});
  g.add_output(g.node(loop).outputs[0]);
  picky("cf_until", {"Less"});
  const auto program = Program::compile(std::move(g), {.engines = {"cf_until", "native"}});
  EXPECT_EQ(row(program->explain(), "loop")->engine, "runtime");
  const auto run = [&](bool begin, float from, float to) {
    return values_of(program->run({{"start", truth(begin)},
                                   {"x", Tensor::scalar(from)},
                                   {"limit", Tensor::scalar(to)}})[0])[0];
  };
  EXPECT_EQ(run(true, 0, 5), 5);
  EXPECT_EQ(run(true, 7, 5), 8);  // the body runs before it is asked
  EXPECT_EQ(run(false, 7, 5), 7);
}

}  // namespace
}  // namespace xrt
