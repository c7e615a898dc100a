// SPDX-License-Identifier: Apache-2.0
// Partitions of thousands of random DAGs, checked by brute force.
#include "partition/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <set>

#include "partition/cost.h"
#include "partition/fold.h"
#include "tests/support/growth.h"
#include "xrt/error.h"

namespace xrt {
namespace {

struct Case {
  Graph graph;
  std::vector<EngineAnswers> answers;
};

// `nodes` nodes of up to three inputs each; engine e takes a node with probability shares[e], the
// last engine takes all.
Case random_case(std::mt19937& rng, int nodes, const std::vector<double>& shares) {
  Case c;
  std::vector<ValueId> values = {c.graph.add_input("x", Type::tensor(DType::kFloat32, Dims{2}))};
  std::uniform_real_distribution<double> chance(0, 1);
  for (std::size_t e = 0; e < shares.size(); ++e) {
    c.answers.push_back({"engine" + std::to_string(e), {}});
  }
  for (int i = 0; i < nodes; ++i) {
    std::vector<ValueId> inputs;
    const int count = 1 + static_cast<int>(rng() % 3);
    for (int k = 0; k < count; ++k) {
      // Mostly recent values: long chains with side branches, as networks have.
      const std::size_t reach =
          chance(rng) < 0.7 ? std::min<std::size_t>(values.size(), 5) : values.size();
      inputs.push_back(values[values.size() - 1 - rng() % reach]);
    }
    const ValueId out = c.graph.add_op("Sum", inputs);
    c.graph.set_type(out, Type::tensor(DType::kFloat32, Dims{2}));
    values.push_back(out);
    for (std::size_t e = 0; e < shares.size(); ++e) {
      const bool takes = e + 1 == shares.size() || chance(rng) < shares[e];
      c.answers[e].nodes.push_back(takes ? Support::yes() : Support::no("by lot"));
    }
  }
  c.graph.add_output(values.back());
  return c;
}

// reach[a][b]: there is a path from node a to node b.
std::vector<std::vector<bool>> reachability(const Graph& graph) {
  const std::size_t n = graph.node_capacity();
  std::vector<std::vector<bool>> reach(n, std::vector<bool>(n, false));
  const std::vector<NodeId> order = graph.topological_order();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const auto a = static_cast<std::size_t>(it->index);
    for (const ValueId v : graph.node(*it).outputs) {
      for (const Use& use : graph.uses(v)) {
        const auto b = static_cast<std::size_t>(use.node.index);
        reach[a][b] = true;
        for (std::size_t k = 0; k < n; ++k) reach[a][k] = reach[a][k] || reach[b][k];
      }
    }
  }
  return reach;
}

// Every node in one cluster of an engine that takes it, every cluster convex, launch order sound.
void check(const Case& c, const Partition& p) {
  const auto reach = reachability(c.graph);
  std::set<std::int32_t> seen;
  for (std::size_t k = 0; k < p.clusters.size(); ++k) {
    std::vector<bool> inside(c.graph.node_capacity(), false);
    for (const NodeId id : p.clusters[k].nodes) {
      const auto i = static_cast<std::size_t>(id.index);
      ASSERT_TRUE(seen.insert(id.index).second) << "node in two clusters";
      ASSERT_TRUE(c.answers[p.clusters[k].engine].nodes[i]) << "engine refuses its node";
      ASSERT_EQ(p.cluster_of[i], static_cast<std::int32_t>(k));
      inside[i] = true;
    }
    for (std::size_t outside = 0; outside < inside.size(); ++outside) {
      if (inside[outside]) continue;
      bool from_cluster = false;
      bool to_cluster = false;
      for (const NodeId id : p.clusters[k].nodes) {
        const auto i = static_cast<std::size_t>(id.index);
        from_cluster = from_cluster || reach[i][outside];
        to_cluster = to_cluster || reach[outside][i];
      }
      ASSERT_FALSE(from_cluster && to_cluster) << "cluster " << k << " is not convex";
    }
  }
  ASSERT_EQ(seen.size(), c.graph.node_count());
  for (const NodeId id : c.graph.nodes()) {
    for (const ValueId v : c.graph.dependencies(id)) {
      const Value& value = c.graph.value(v);
      if (value.origin != Origin::kNode) continue;
      ASSERT_LE(p.cluster_of[static_cast<std::size_t>(value.producer.index)],
                p.cluster_of[static_cast<std::size_t>(id.index)])
          << "a cluster is launched before what it reads";
    }
  }
}

// Whoever writes the next value of a variable runs after all that read the old one.
TEST(Partition, WritersOfVariablesComeLast) {
  std::mt19937 rng(11);
  int late = 0;
  for (int round = 0; round < 500; ++round) {
    Case c = random_case(rng, 4 + static_cast<int>(rng() % 40), {0.5, 0.6, 1});
    std::vector<ValueId> sinks;
    for (const NodeId id : c.graph.nodes()) {
      const ValueId v = c.graph.node(id).outputs[0];
      if (c.graph.uses(v).empty()) sinks.push_back(v);
    }
    PartitionOptions options;
    for (const ValueId sink : sinks) {
      const ValueId variable =
          c.graph.add_input("variable", Type::tensor(DType::kFloat32, Dims{2}));
      for (const NodeId id : c.graph.nodes()) {
        if (rng() % 4 == 0) c.graph.set_input(id, 0, variable);
      }
      if (!c.graph.is_output(sink)) c.graph.add_output(sink);
      options.updates.emplace_back(variable, sink);
    }
    const Partition free = partition(c.graph, c.answers, {});
    const Partition p = partition(c.graph, c.answers, options);
    check(c, p);
    const auto cluster = [&](const Partition& of, NodeId id) {
      return of.cluster_of[static_cast<std::size_t>(id.index)];
    };
    for (const UpdateWait& wait : update_waits(c.graph, options.updates)) {
      ASSERT_LE(cluster(p, wait.reader), cluster(p, wait.writer));
      if (cluster(free, wait.reader) > cluster(free, wait.writer)) ++late;
    }
  }
  EXPECT_GT(late, 100) << "without waiting the old values of few variables would be lost";
}

TEST(Partition, RandomGraphsGiveConvexClusters) {
  std::mt19937 rng(7);
  for (int round = 0; round < 3000; ++round) {
    const std::vector<double> shares =
        round % 3 == 0 ? std::vector<double>{0.6, 1} : std::vector<double>{0.5, 0.5, 1};
    const Case c = random_case(rng, 5 + static_cast<int>(rng() % 40), shares);
    PartitionOptions options;
    options.minimum_nodes = round % 4 == 1 ? 3 : 1;
    options.maximum_nodes = round % 5 == 2 ? 4 : -1;
    const Partition p = partition(c.graph, c.answers, options);
    ASSERT_NO_FATAL_FAILURE(check(c, p)) << "round " << round;
    for (const Cluster& cluster : p.clusters) {
      if (options.maximum_nodes != -1) {
        ASSERT_LE(static_cast<std::int64_t>(cluster.nodes.size()), options.maximum_nodes);
      }
    }
  }
}

TEST(Partition, FoldedGraphsKeepEveryEdge) {
  std::mt19937 rng(11);
  for (int round = 0; round < 300; ++round) {
    const Case c = random_case(rng, 30, {0.5, 0.5, 1});
    const Partition p = partition(c.graph, c.answers, {});
    const Graph folded = fold(c.graph, p, {"a", "b", "c"});
    ASSERT_EQ(folded.node_count(), p.clusters.size());
    ASSERT_EQ(folded.topological_order().size(), p.clusters.size());  // throws on a cycle
    std::size_t inner = 0;
    for (const NodeId id : folded.nodes()) {
      const Node& launch = folded.node(id);
      const auto body = launch.attr_graph("function");
      inner += body->node_count();
      ASSERT_EQ(launch.inputs.size(), body->inputs().size());
      ASSERT_EQ(launch.outputs.size(), body->outputs().size());
      for (std::size_t i = 0; i < launch.inputs.size(); ++i) {
        ASSERT_EQ(folded.value(launch.inputs[i]).name, body->value(body->inputs()[i]).name);
      }
      for (std::size_t i = 0; i < launch.outputs.size(); ++i) {
        ASSERT_EQ(folded.value(launch.outputs[i]).name, body->value(body->outputs()[i]).name);
      }
    }
    ASSERT_EQ(inner, c.graph.node_count());
  }
}

TEST(Partition, IsTheSameOverShuffledHeaps) {
  std::vector<std::vector<std::int32_t>> results;
  std::vector<std::unique_ptr<char[]>> junk;
  for (int round = 0; round < 5; ++round) {
    std::mt19937 rng(13);
    std::mt19937 heap(static_cast<unsigned>(round));
    for (int i = 0; i < 1000; ++i) junk.push_back(std::make_unique<char[]>(1 + heap() % 400));
    std::shuffle(junk.begin(), junk.end(), heap);
    junk.resize(junk.size() / 2);
    const Case c = random_case(rng, 200, {0.4, 0.5, 1});
    results.push_back(partition(c.graph, c.answers, {}).cluster_of);
  }
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

// a0 → b → a2, and a2 reads a0 as well: one cluster of both would have to wait for itself.
TEST(Partition, APathThroughTheOutsideIsNotClosed) {
  Case c;
  const ValueId x = c.graph.add_input("x", Type::tensor(DType::kFloat32, Dims{2}));
  const ValueId a0 = c.graph.add_op("Relu", {x});
  const ValueId b = c.graph.add_op("Abs", {a0});
  c.graph.add_output(c.graph.add_op("Add", {a0, b}));
  const Support no = Support::no("not mine");
  c.answers = {{"a", {Support::yes(), no, Support::yes()}},
               {"b", {Support::yes(), Support::yes(), Support::yes()}}};
  const Partition p = partition(c.graph, c.answers, {});
  EXPECT_EQ(p.clusters.size(), 3U);
  check(c, p);
}

// b0 → a5 and a1 → … → a4 → a5: the side input does not split the chain.
TEST(Partition, ASideInputDoesNotSplitAChain) {
  Case c;
  const ValueId x = c.graph.add_input("x", Type::tensor(DType::kFloat32, Dims{2}));
  const ValueId side = c.graph.add_op("Abs", {x});
  ValueId a = x;
  for (int i = 0; i < 4; ++i) a = c.graph.add_op("Relu", {a});
  c.graph.add_output(c.graph.add_op("Add", {a, side}));
  std::vector<Support> first(6, Support::yes());
  first[0] = Support::no("not mine");
  c.answers = {{"a", first}, {"b", std::vector<Support>(6, Support::yes())}};
  const Partition p = partition(c.graph, c.answers, {});
  EXPECT_EQ(p.clusters.size(), 2U);
  check(c, p);
}

TEST(Partition, SmallClustersGoToTheNextEngine) {
  Case c;
  ValueId v = c.graph.add_input("x", Type::tensor(DType::kFloat32, Dims{2}));
  for (int i = 0; i < 5; ++i) v = c.graph.add_op("Relu", {v});
  c.graph.add_output(v);
  const Support no = Support::no("not mine");
  c.answers = {{"a", {no, Support::yes(), no, no, no}},
               {"b", std::vector<Support>(5, Support::yes())}};
  EXPECT_EQ(partition(c.graph, c.answers, {}).clusters.size(), 3U);
  PartitionOptions two;
  two.minimum_nodes = 2;
  const Partition p = partition(c.graph, c.answers, two);
  ASSERT_EQ(p.clusters.size(), 1U);
  EXPECT_EQ(p.clusters[0].engine, 1U);
  PartitionOptions unlimited;
  unlimited.minimum_nodes = -1;
  EXPECT_EQ(partition(c.graph, c.answers, unlimited).clusters.size(), 3U);
}

TEST(Partition, QuantisedGroupsStayWhole) {
  Case c;
  const ValueId x = c.graph.add_input("x", Type::tensor(DType::kUInt8, Dims{2}));
  const ValueId scale = c.graph.add_constant("scale", Tensor::scalar(0.5F));
  const ValueId dq = c.graph.add_op("DequantizeLinear", {x, scale});
  const ValueId relu = c.graph.add_op("Relu", {dq});
  c.graph.add_output(c.graph.add_op("QuantizeLinear", {relu, scale}));
  const Support no = Support::no("not mine");
  // The first engine takes only the Q and DQ: alone they are of no use there.
  c.answers = {{"a", {Support::yes(), no, Support::yes()}},
               {"b", std::vector<Support>(3, Support::yes())}};
  const Partition p = partition(c.graph, c.answers, {});
  ASSERT_EQ(p.clusters.size(), 1U);
  EXPECT_EQ(p.clusters[0].engine, 1U);
}

TEST(Partition, OverridesAreObeyedOrRefused) {
  std::mt19937 rng(3);
  Case c = random_case(rng, 6, {1.1, 1});
  const std::string name = c.graph.node(NodeId{2}).name;
  PartitionOptions options;
  options.node_engines[name] = "engine1";
  const Partition p = partition(c.graph, c.answers, options);
  EXPECT_EQ(p.clusters[static_cast<std::size_t>(p.cluster_of[2])].engine, 1U);
  options.node_engines = {{"nobody", "engine1"}};
  EXPECT_THROW(partition(c.graph, c.answers, options), Error);
  options.node_engines = {{name, "nothing"}};
  EXPECT_THROW(partition(c.graph, c.answers, options), Error);
  c.answers[0].nodes[2] = Support::no("it is odd");
  options.node_engines = {{name, "engine0"}};
  EXPECT_THROW(partition(c.graph, c.answers, options), Error);
}

TEST(Partition, AnUnsupportedNodeIsNamedWithEveryReason) {
  std::mt19937 rng(3);
  Case c = random_case(rng, 3, {1.1, 1});
  c.answers[0].nodes[1] = Support::no("reason one");
  c.answers[1].nodes[1] = Support::no("reason two");
  try {
    partition(c.graph, c.answers, {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    const std::string text = error.what();
    EXPECT_NE(text.find(c.graph.node(NodeId{1}).name), std::string::npos) << text;
    EXPECT_NE(text.find("reason one"), std::string::npos) << text;
    EXPECT_NE(text.find("reason two"), std::string::npos) << text;
  }
}

TEST(Partition, WrongLimitsAreErrors) {
  std::mt19937 rng(3);
  const Case c = random_case(rng, 3, {1.1, 1});
  for (const std::int64_t wrong : {std::int64_t{0}, std::int64_t{-2}}) {
    PartitionOptions options;
    options.minimum_nodes = wrong;
    EXPECT_THROW(partition(c.graph, c.answers, options), Error);
    options.minimum_nodes = 1;
    options.maximum_nodes = wrong;
    EXPECT_THROW(partition(c.graph, c.answers, options), Error);
  }
}

TEST(Partition, WorkGrowsInProportionToTheGraph) {
  const auto seconds = [](int nodes) {
    std::mt19937 rng(5);
    const Case c = random_case(rng, nodes, {0.5, 0.5, 1});
    return processor_seconds(
        [&c] { EXPECT_GT(partition(c.graph, c.answers, {}).clusters.size(), 1U); });
  };
  EXPECT_LT(seconds(10000), kTenTimesTheSize * seconds(1000));
}

// indices = Cast(p), y = Gather(x, indices), z = Gather(x, p): what is computed is seen on its way.
TEST(Borders, AnEngineThatDoesNotLookGetsWhatItComputesInTwoParts) {
  Graph graph;
  const ValueId x = graph.add_input("x", Type::tensor(DType::kFloat32, Dims{4, 3}));
  const ValueId p = graph.add_input("p", Type::tensor(DType::kFloat32, Dims{2}));
  const ValueId integers = graph.add_op("Cast", {p}, {{"to", std::int64_t{7}}});
  graph.set_type(integers, Type::tensor(DType::kInt64, Dims{2}));
  const ValueId y = graph.add_op("Gather", {x, integers}, {{"axis", std::int64_t{0}}});
  graph.set_type(y, Type::tensor(DType::kFloat32, Dims{2, 3}));
  const ValueId z = graph.add_op("Relu", {x});
  graph.set_type(z, Type::tensor(DType::kFloat32, Dims{4, 3}));
  graph.add_output(y);
  graph.add_output(z);
  PartitionOptions options;
  options.borders = computed_operands(graph);
  ASSERT_EQ(options.borders.size(), 1U);
  std::vector<EngineAnswers> answers{{"one", std::vector<Support>(3, Support::yes()), false}};
  EXPECT_EQ(partition(graph, answers, options).clusters.size(), 1U);
  answers[0].keeps_borders = true;
  const Partition cut = partition(graph, answers, options);
  EXPECT_EQ(cut.clusters.size(), 2U);
  const auto cluster = [&](NodeId id) {
    return cut.cluster_of[static_cast<std::size_t>(id.index)];
  };
  EXPECT_LT(cluster(options.borders[0].maker), cluster(options.borders[0].reader));
}

// Declared sizes may be such that their product is no number of bytes.
TEST(Cost, BytesOfAValueAreBounded) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 62;
  Graph graph;
  const ValueId x = graph.add_input("x", Type::tensor(DType::kFloat32, Dims(20, kLarge)));
  EXPECT_EQ(value_bytes(graph, x), std::size_t{1} << 56);
  EXPECT_EQ(value_bytes(graph, graph.add_input("y", Type::tensor(DType::kFloat32, Dims{3, 4}))),
            48U);
}

}  // namespace
}  // namespace xrt
