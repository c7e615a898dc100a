// SPDX-License-Identifier: Apache-2.0
#include "program/result_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/element.h"
#include "measure/difference.h"
#include "ops/op_facts.h"
#include "ops/schema.h"
#include "placement/precision.h"
#include "registry/engine_failure.h"
#include "registry/engine_names.h"
#include "xrt/program.h"
#include "xrt/registry.h"

namespace xrt {
namespace {

// Half the distance from 1 to the next number.
double unit_roundoff(Precision precision) {
  switch (precision) {
    case Precision::kF32:
      return std::ldexp(1.0, -24);
    case Precision::kTF32:
    case Precision::kF16:
      return std::ldexp(1.0, -11);
    case Precision::kBF16:
      return std::ldexp(1.0, -8);
  }
  return 1;
}

// The lowest of what the program asks for and of the types in the graph.
double roundoff_of(const Graph& graph, Precision precision) {
  double roundoff = unit_roundoff(precision);
  for (const NodeId id : graph.nodes()) {
    for (const ValueId v : graph.node(id).outputs) {
      if (!v.valid()) continue;
      const DType dtype = graph.type(v).dtype;
      if (dtype == DType::kFloat16) roundoff = std::max(roundoff, unit_roundoff(Precision::kF16));
      if (dtype == DType::kBFloat16) {
        roundoff = std::max(roundoff, unit_roundoff(Precision::kBF16));
      }
    }
  }
  return roundoff;
}

double tolerance_of(double roundoff, std::size_t nodes) {
  constexpr double kMargin = 4096;
  constexpr double kMost = 0.2;
  return std::min(kMost, kMargin * roundoff * std::sqrt(static_cast<double>(nodes)));
}

// Whether a rounding error may change a result by any amount: the function rounds to steps, or
// compares or sorts numbers that were computed.
bool jumps(const Graph& graph) {
  const std::vector<NodeId> nodes = graph.nodes();
  return std::any_of(nodes.begin(), nodes.end(), [&](const NodeId id) {
    const Node& node = graph.node(id);
    const OpFacts& facts = op_facts(node);
    if (facts.rounds) return true;
    for (const Graph* body : Graph::subgraphs(node)) {
      if (jumps(*body)) return true;
    }
    // A cast from one float to another rounds like any computation.
    const bool stays_float = node.op == "Cast" && is_floating(graph.type(node.outputs[0]).dtype);
    return facts.jumps && !stays_float &&
           std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId v) { return v.valid() && is_floating(graph.type(v).dtype); });
  });
}

bool is_random(const Graph& graph) {
  const std::vector<NodeId> nodes = graph.nodes();
  return std::any_of(nodes.begin(), nodes.end(), [&](const NodeId id) {
    const Node& node = graph.node(id);
    const std::vector<const Graph*> bodies = Graph::subgraphs(node);
    return !is_deterministic(node) ||
           std::any_of(bodies.begin(), bodies.end(), [](const Graph* g) { return is_random(*g); });
  });
}

bool computes_floats(const Graph& graph) {
  const std::vector<NodeId> nodes = graph.nodes();
  return std::any_of(nodes.begin(), nodes.end(), [&](const NodeId id) {
    const Node& node = graph.node(id);
    const auto floats = [&](const std::vector<ValueId>& values) {
      return std::any_of(values.begin(), values.end(),
                         [&](ValueId v) { return v.valid() && is_floating(graph.type(v).dtype); });
    };
    return floats(node.inputs) || floats(node.outputs);
  });
}

// The largest absolute value of finite floats.
double magnitude(const std::vector<Data>& values) {
  double largest = 0;
  for (const Data& data : values) {
    if (!data.is_tensor() || !is_floating(data.tensor().dtype())) continue;
    for (std::int64_t i = 0; i < data.tensor().count(); ++i) {
      const double x = std::abs(element_as_double(data.tensor(), i));
      if (std::isfinite(x)) largest = std::max(largest, x);
    }
  }
  return largest;
}

struct Distance {
  double largest = 0;   // over the range of `expected`
  double typical = 0;   // root of the mean square, likewise
  bool finite = true;   // false: infinite or NaN where `expected` is finite
  double absolute = 0;  // the largest
};

Distance distance_of(const Tensor& actual, const Tensor& expected) {
  Distance distance;
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  double squares = 0;
  for (std::int64_t i = 0; i < expected.count(); ++i) {
    const double e = element_as_double(expected, i);
    if (!std::isfinite(e)) continue;
    low = std::min(low, e);
    high = std::max(high, e);
    const double difference = std::abs(element_as_double(actual, i) - e);
    if (!std::isfinite(difference)) {
      distance.finite = false;
      continue;
    }
    distance.absolute = std::max(distance.absolute, difference);
    squares += difference * difference;
  }
  const double range = high > low ? high - low : std::max(std::abs(high), 1e-30);
  if (!std::isfinite(range)) return distance;
  distance.largest = distance.absolute / range;
  distance.typical = std::sqrt(squares / static_cast<double>(expected.count())) / range;
  return distance;
}

// Judges the outputs of one function.
class OutputJudge {
 public:
  OutputJudge(const RunRecord::Function& function, Precision precision)
      : function_(function),
        jumps_(jumps(*function.graph)),
        whole_numbers_(!computes_floats(*function.graph)) {
    const double roundoff = roundoff_of(*function.graph, precision);
    tolerance_ = tolerance_of(roundoff, function.graph->node_count());
    // What cancels out leaves rounding errors of the size of what was added up.
    constexpr double kNoise = 16;
    negligible_ = kNoise * roundoff * magnitude(function.inputs);
  }

  // Empty where output `i` is right.
  std::string fault(std::size_t i, const Data& expected, double& largest) const {
    const Data& actual = function_.outputs[i];
    if (!actual.is_tensor() || !expected.is_tensor()) return {};
    const Tensor& a = actual.tensor();
    const Tensor& e = expected.tensor();
    const std::string& name = function_.graph->value(function_.graph->outputs()[i]).name;
    if (a.dtype() != e.dtype() || a.dims() != e.dims()) {
      // Sizes that the data decides may differ where numbers are compared.
      if (jumps_) return {};
      return fmt::format("output '{}' is {}{} and that of '{}' {}{}", name, to_string(a.dtype()),
                         to_string(a.dims()), kFallbackEngine, to_string(e.dtype()),
                         to_string(e.dims()));
    }
    if (!is_floating(e.dtype())) {
      if (!whole_numbers_ || a.identical(e)) return {};
      return fmt::format("output '{}' differs from that of '{}': {}", name, kFallbackEngine,
                         compare(a, e, 0, 0).text);
    }
    const Distance distance = distance_of(a, e);
    if (!distance.finite) {
      return fmt::format("output '{}' has infinite or undefined elements where '{}' has none", name,
                         kFallbackEngine);
    }
    if (distance.absolute <= negligible_) return {};
    constexpr double kJumping = 0.1;
    const double error = jumps_ ? distance.typical : distance.largest;
    if (error <= (jumps_ ? std::max(kJumping, tolerance_) : tolerance_)) {
      largest = std::max(largest, error);
      return {};
    }
    return fmt::format("output '{}' differs from that of '{}' by {:.2g} of its range{}", name,
                       kFallbackEngine, error, jumps_ ? " (root mean square)" : "");
  }

 private:
  const RunRecord::Function& function_;
  bool jumps_, whole_numbers_;
  double tolerance_ = 0, negligible_ = 0;
};

std::vector<Data> on_fallback(const RunRecord::Function& function, const ProgramOptions& given) {
  ProgramOptions options;
  options.engines = {kFallbackEngine};
  options.num_threads = given.num_threads;
  options.cache_dir = "";
  options.check_results = false;
  const auto program = Program::compile(Graph(*function.graph), options);
  std::vector<Data> outputs;
  program->run(function.inputs, outputs);
  return outputs;
}

// What the function's engine was asked to compute in.
Precision precision_of(const RunRecord::Function& function, const ProgramOptions& options,
                       Precision precision) {
  if (!options.engine_options.contains(function.engine)) return precision;
  return wanted_precision(*get_engine(function.engine), options, precision);
}

}  // namespace

double result_tolerance(Precision precision, std::size_t nodes) {
  return tolerance_of(unit_roundoff(precision), nodes);
}

ResultCheck check_results(const RunRecord& record, Precision precision,
                          const ProgramOptions& options) {
  ResultCheck check;
  for (const RunRecord::Function& function : record.functions) {
    if (is_random(*function.graph)) {
      check.skipped.push_back(function.name + ": it is random");
      continue;
    }
    std::vector<Data> expected;
    try {
      expected = on_fallback(function, options);
    } catch (const Error& error) {
      check.skipped.push_back(function.name + ": " + error.what());
      continue;
    }
    const Precision wanted = precision_of(function, options, precision);
    const OutputJudge judge(function, wanted);
    std::string why;
    for (std::size_t i = 0; i < expected.size() && why.empty(); ++i) {
      why = judge.fault(i, expected[i], check.largest);
    }
    if (why.empty()) {
      ++check.right;
      continue;
    }
    HalfOverflows values = find_half_overflows(*function.graph, function.inputs, wanted, options);
    if (!values.rows.empty()) {
      check.overflows.push_back({function.name, std::move(values)});
    } else {
      check.wrong.push_back({function.name, function.engine, function.key, std::move(why)});
    }
  }
  return check;
}

}  // namespace xrt
