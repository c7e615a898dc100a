// SPDX-License-Identifier: Apache-2.0
#include "measure/compare_engines.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "exec/executor.h"
#include "exec/native_evaluator.h"
#include "ir/extract.h"
#include "measure/difference.h"
#include "ops/shape_inference.h"
#include "passes/pass_manager.h"
#include "placement/decision.h"
#include "placement/survey.h"

namespace xrt {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

class Comparison {
 public:
  Comparison(const Graph& graph, std::span<const Data> inputs, const CompareOptions& options)
      : options_(options), graph_(graph), inputs_(inputs.begin(), inputs.end()) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const auto fallback = graph_.input_defaults().find(graph_.inputs()[i]);
      if (inputs_[i].is_none() && fallback != graph_.input_defaults().end()) {
        inputs_[i] = fallback->second;
      }
      if (!inputs_[i].is_tensor() || !graph_.type(graph_.inputs()[i]).is_tensor()) continue;
      const Tensor& tensor = std::as_const(inputs_[i]).tensor();
      graph_.set_type(graph_.inputs()[i], Type::tensor(tensor.dtype(), tensor.dims()));
    }
    infer_shapes(graph_, /*reset=*/true);
    PassOptions passes;
    passes.evaluate = native_evaluator();
    run_passes(graph_, passes);
    order_ = graph_.topological_order();
  }

  EngineDifference run() {
    EngineDifference result;
    say("running the whole model on both");
    const std::vector<Data> first = run_on(options_.first, graph_, inputs_);
    const std::vector<Data> second = run_on(options_.second, graph_, inputs_);
    for (std::size_t i = 0; i < first.size(); ++i) {
      result.outputs_error = std::max(result.outputs_error, error(second[i], first[i]));
    }
    if (result.outputs_error <= options_.tolerance && !options_.every_node) return result;
    say("computing every value on both");
    compute_values();
    if (find_node(result)) return result;
    if (result.outputs_error > options_.tolerance) find_stretch(result);
    return result;
  }

 private:
  struct Outcome {
    Extract part;
    std::vector<Data> inputs, first, second;
    std::optional<std::size_t> output;  // the first that differs
    double error = 0;
  };

  void say(const std::string& what) const {
    if (options_.progress) options_.progress(what);
  }

  std::vector<Data> run_on(const std::vector<std::string>& engines, const Graph& graph,
                           std::span<const Data> inputs) const {
    ProgramOptions own = options_.program;
    own.engines = engines;
    own.aliases.clear();
    own.dump_dir.clear();
    own.check_results = false;  // what was found wrong is what is looked for
    Survey survey(graph, own);
    const std::shared_ptr<Executor> plan = Executor::build(survey, named(own));
    std::vector<Data> outputs(graph.outputs().size());
    Profiler profiler;
    plan->run(inputs, outputs, profiler);
    return outputs;
  }

  static double error(const Data& actual, const Data& expected) {
    if (actual.kind() != expected.kind()) return kInfinite;
    if (actual.is_none()) return 0;
    if (actual.is_sequence()) {
      if (actual.items().size() != expected.items().size()) return kInfinite;
      double worst = 0;
      for (std::size_t i = 0; i < actual.items().size(); ++i) {
        worst = std::max(worst, error(actual.items()[i], expected.items()[i]));
      }
      return worst;
    }
    const Tensor& a = actual.tensor();
    const Tensor& e = expected.tensor();
    if (a.dtype() == e.dtype() && is_floating(e.dtype())) {
      // Another shape, or NaN on one side only, is not within any bound.
      const Difference d = compare(a, e, 0, std::numeric_limits<double>::max());
      return d.within ? d.max_of_range : kInfinite;
    }
    return compare(a, e, 0, 0).within ? 0 : kInfinite;
  }

  // All that the first engines compute, and where the second ones end up elsewhere.
  void compute_values() {
    Graph open = graph_;
    std::vector<ValueId> shown;
    for (const NodeId id : order_) {
      for (const ValueId v : graph_.node(id).outputs) {
        if (!v.valid()) continue;
        open.add_output(v);
        shown.push_back(v);
      }
    }
    const std::size_t before = graph_.outputs().size();
    const std::vector<Data> first = run_on(options_.first, open, inputs_);
    const std::vector<Data> second = run_on(options_.second, open, inputs_);
    for (std::size_t i = 0; i < inputs_.size(); ++i) values_[graph_.inputs()[i]] = inputs_[i];
    for (std::size_t i = 0; i < shown.size(); ++i) {
      values_[shown[i]] = first[before + i];
      const double off = error(second[before + i], first[before + i]);
      if (off > options_.tolerance) suspects_.push_back(graph_.value(shown[i]).producer);
    }
    suspects_.erase(std::unique(suspects_.begin(), suspects_.end()), suspects_.end());
  }

  // Runs nodes on both, from what the first engines computed before them.
  Outcome try_nodes(const std::vector<NodeId>& nodes) const {
    Outcome outcome;
    outcome.part = extract(graph_, nodes, "piece");
    if (outcome.part.outputs.empty()) return outcome;  // nobody reads what it computes
    for (const ValueId v : outcome.part.inputs) outcome.inputs.push_back(values_.at(v));
    outcome.first = run_on(options_.first, outcome.part.graph, outcome.inputs);
    outcome.second = run_on(options_.second, outcome.part.graph, outcome.inputs);
    for (std::size_t i = 0; i < outcome.first.size() && !outcome.output; ++i) {
      outcome.error = error(outcome.second[i], outcome.first[i]);
      if (outcome.error > options_.tolerance) outcome.output = i;
    }
    return outcome;
  }

  std::vector<NodeId> stretch(std::size_t begin, std::size_t end) const {
    return {order_.begin() + static_cast<std::ptrdiff_t>(begin),
            order_.begin() + static_cast<std::ptrdiff_t>(end)};
  }

  bool find_node(EngineDifference& result) const {
    // A suspect may only pass on what went wrong before it; alone it shows.
    const std::vector<NodeId>& nodes = options_.every_node ? order_ : suspects_;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      say("node " + std::to_string(i + 1) + " of " + std::to_string(nodes.size()));
      const std::vector<NodeId> one = {nodes[i]};
      Outcome outcome = try_nodes(one);
      if (!outcome.output) continue;
      report(one, std::move(outcome), result);
      return true;
    }
    return false;
  }

  // The shortest prefix that differs, then the shortest stretch that ends there: two binary
  // searches, for what differs is rarely put right by further nodes.
  void find_stretch(EngineDifference& result) const {
    std::size_t low = 0;
    std::size_t end = order_.size();
    while (end - low > 1) {
      const std::size_t middle = low + (end - low) / 2;
      say("the first " + std::to_string(middle) + " nodes");
      (try_nodes(stretch(0, middle)).output ? end : low) = middle;
    }
    std::size_t begin = 0;
    std::size_t high = end;
    while (high - begin > 1) {
      const std::size_t middle = begin + (high - begin) / 2;
      say("nodes " + std::to_string(middle + 1) + " to " + std::to_string(end));
      (try_nodes(stretch(middle, end)).output ? begin : high) = middle;
    }
    std::vector<NodeId> nodes = stretch(begin, end);
    Outcome outcome = try_nodes(nodes);
    if (!outcome.output) {
      // The whole differs, and no stretch of it does.
      nodes = order_;
      outcome = try_nodes(nodes);
    }
    if (!outcome.output) return;
    // What does not lead to the value that differs can go, if it still differs then.
    std::vector<NodeId> needed = leading_to(outcome.part.outputs[*outcome.output], nodes);
    if (needed.size() < nodes.size()) {
      Outcome less = try_nodes(needed);
      if (less.output) {
        nodes = std::move(needed);
        outcome = std::move(less);
      }
    }
    report(nodes, std::move(outcome), result);
  }

  std::vector<NodeId> leading_to(ValueId value, const std::vector<NodeId>& nodes) const {
    std::vector<bool> wanted(graph_.value_capacity(), false);
    wanted[static_cast<std::size_t>(value.index)] = true;
    std::vector<NodeId> needed;
    for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
      const auto& outputs = graph_.node(*it).outputs;
      const bool leads = std::any_of(outputs.begin(), outputs.end(), [&](ValueId v) {
        return v.valid() && wanted[static_cast<std::size_t>(v.index)];
      });
      if (!leads) continue;
      needed.push_back(*it);
      for (const ValueId v : graph_.dependencies(*it)) {
        wanted[static_cast<std::size_t>(v.index)] = true;
      }
    }
    std::reverse(needed.begin(), needed.end());
    return needed;
  }

  void report(const std::vector<NodeId>& nodes, Outcome outcome, EngineDifference& result) const {
    const std::size_t o = *outcome.output;
    result.differs = true;
    for (const NodeId id : nodes) result.nodes.push_back(graph_.node(id).name);
    result.value = graph_.value(outcome.part.outputs[o]).name;
    result.error = outcome.error;
    if (outcome.first[o].is_tensor() && outcome.second[o].is_tensor()) {
      const Tensor& expected = std::as_const(outcome.first[o]).tensor();
      const double bound = is_floating(expected.dtype()) ? options_.tolerance : 0;
      result.text = describe(std::as_const(outcome.second[o]).tensor(), expected, bound);
    } else {
      result.text = "one is a tensor, the other one is not";
    }
    result.piece = std::move(outcome.part.graph);
    result.inputs = std::move(outcome.inputs);
    result.first = std::move(outcome.first);
    result.second = std::move(outcome.second);
  }

  // The elements beyond `bound` times the range.
  static std::string describe(const Tensor& actual, const Tensor& expected, double bound) {
    const Difference all = compare(actual, expected, 0, 0);
    const double range = all.max_of_range > 0 ? all.max_absolute / all.max_of_range : 0;
    return compare(actual, expected, 0, bound * range).text;
  }

  const CompareOptions& options_;
  Graph graph_;
  std::vector<Data> inputs_;
  std::vector<NodeId> order_;
  std::map<ValueId, Data> values_;
  std::vector<NodeId> suspects_;  // in topological order
};

}  // namespace

EngineDifference compare_engines(const Graph& graph, std::span<const Data> inputs,
                                 const CompareOptions& options) {
  if (options.first.empty() || options.second.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "two engines are compared; one is not named");
  }
  if (!(options.tolerance >= 0)) {
    throw Error(ErrorCode::kInvalidArgument,
                "tolerance is " + std::to_string(options.tolerance) +
                    "; a share of a value's range from 0 on is wanted");
  }
  if (inputs.size() != graph.inputs().size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "the graph takes " + std::to_string(graph.inputs().size()) + " inputs, " +
                    std::to_string(inputs.size()) + " were given");
  }
  CompareOptions resolved = options;
  resolved.program = resolve_options(options.program);
  return Comparison(graph, inputs, resolved).run();
}

}  // namespace xrt
