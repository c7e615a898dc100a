// SPDX-License-Identifier: Apache-2.0
#include "measure/pieces.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <utility>

#include "base/log.h"
#include "measure/timing.h"
#include "partition/cost.h"
#include "partition/fold.h"

namespace xrt {
namespace {

constexpr double kTooLong = std::numeric_limits<double>::infinity();
constexpr double kEnoughSeconds = 0.03;  // per range, for all engines together
// At a narrow place so many values cross at most: transformers carry their mask along.
constexpr std::size_t kCrossing = 3;
constexpr int kFewRuns = 3;
constexpr int kManyRuns = 30;
// What a change of engines must gain, of the whole time.
constexpr double kDoubt = 0.01;

}  // namespace

Pieces::Pieces(Survey& survey, std::span<const Data> inputs, std::vector<Way> ways,
               std::string precision, std::size_t most)
    : survey_(survey),
      ways_(std::move(ways)),
      precision_(std::move(precision)),
      order_(survey.graph().topological_order()) {
  const Graph& graph = survey.graph();
  std::vector<double> weights;
  weights.reserve(order_.size());
  for (const NodeId id : order_) weights.push_back(weight(node_work(graph, id)));
  cuts_ = choose_cuts(narrow_cuts(graph, order_, kCrossing), weights, most);
  bounds_ = {0};
  for (const Cut& cut : cuts_) bounds_.push_back(cut.position);
  bounds_.push_back(order_.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) values_[graph.inputs()[i]] = inputs[i];
  for (std::size_t w = 0; w < ways_.size(); ++w) measured_[{0, count(), w}] = ways_[w].whole_us;
}

std::vector<NodeId> Pieces::nodes(std::size_t first, std::size_t last) const {
  return {order_.begin() + static_cast<std::ptrdiff_t>(bounds_[first]),
          order_.begin() + static_cast<std::ptrdiff_t>(bounds_[last])};
}

void Pieces::time(std::size_t first, std::size_t last, const std::vector<std::size_t>& ways,
                  bool keep_outputs, const std::function<bool()>& stop) {
  const Extract part = extract(survey_.graph(), nodes(first, last), "piece");
  ProgramOptions options = survey_.options();
  options.aliases.clear();  // they speak of the whole graph
  options.dump_dir.clear();
  options.cache_dir = "";
  Survey survey(part.graph, options);
  std::vector<Data> inputs;
  for (const ValueId v : part.inputs) inputs.push_back(values_.at(v));
  std::vector<std::unique_ptr<TimedPlan>> plans;
  std::vector<TimedPlan*> timed;
  for (const std::size_t way : ways) {
    plans.push_back(nullptr);
    try {
      Decision decision;
      decision.engines = {ways_[way].engine};
      decision.precision = precision_;
      auto plan = std::make_unique<TimedPlan>(Executor::build(survey, decision), part.graph,
                                              options, inputs);
      plan->run(TimedPlan::Keep::kNot);
      plans.back() = std::move(plan);
      timed.push_back(plans.back().get());
    } catch (const Error& error) {
      log_info("auto: pieces " + std::to_string(first) + " to " + std::to_string(last) + " on '" +
               ways_[way].engine + "': " + error.what());
    }
  }
  time_in_turns(timed, kFewRuns, kManyRuns, kEnoughSeconds, stop);
  for (std::size_t i = 0; i < ways.size(); ++i) {
    measured_[{first, last, ways[i]}] = plans[i] == nullptr ? kTooLong : plans[i]->us();
    if (plans[i] == nullptr || timed.size() < 2) continue;
    change_us_[{first, ways[i]}] = std::max(0.0, plans[i]->first_us() - plans[i]->us());
  }
  if (!keep_outputs || plans[0] == nullptr) return;
  for (std::size_t i = 0; i < part.outputs.size(); ++i) {
    values_[part.outputs[i]] = plans[0]->outputs()[i];
  }
}

bool Pieces::measure(const std::function<bool()>& stop) {
  std::vector<std::size_t> all(ways_.size());
  for (std::size_t w = 0; w < all.size(); ++w) all[w] = w;
  for (std::size_t i = 0; i < count(); ++i) {
    if (stop()) return false;
    time(i, i + 1, all, /*keep_outputs=*/true, stop);
    if (measured_.at({i, i + 1, 0}) == kTooLong) return false;
  }
  saved_us_.assign(ways_.size(), 0);
  for (std::size_t w = 0; w < ways_.size() && count() > 1; ++w) {
    double sum = 0;
    for (std::size_t i = 0; i < count(); ++i) sum += measured_.at({i, i + 1, w});
    if (sum == kTooLong) continue;
    saved_us_[w] = (sum - ways_[w].whole_us) / static_cast<double>(count() - 1);
  }
  return true;
}

double Pieces::function_us(std::size_t first, std::size_t last, std::size_t way) const {
  if (const auto it = measured_.find({first, last, way}); it != measured_.end()) return it->second;
  double sum = 0;
  for (std::size_t i = first; i < last; ++i) sum += measured_.at({i, i + 1, way});
  return std::max(0.0, sum - saved_us_[way] * static_cast<double>(last - first - 1));
}

// Functions are timed from and to host memory, so what an engine needs to take and give values is
// in their times. A change costs what the first run after another engine's takes longer: its
// threads are to be woken, its weights and inputs come from memory. And of many plans that differ
// by less than times can be told apart, the one of fewest launches is wanted, not the one whose
// times erred most.
double Pieces::transfer_us(std::size_t piece, std::size_t way) const {
  const auto found = change_us_.find({piece, way});
  const double change = found == change_us_.end() ? 0 : found->second;
  return change + kDoubt * ways_.front().whole_us;
}

ChainPlan Pieces::best(bool several, const std::function<bool()>& stop) {
  ChainCosts costs;
  costs.pieces = count();
  costs.engines = ways_.size();
  costs.function_us = [&](std::size_t first, std::size_t last, std::size_t way) {
    if (several && first == 0 && last == count()) return kTooLong;
    return function_us(first, last, way);
  };
  costs.transfer_us = [&](std::size_t piece, std::size_t, std::size_t to) {
    return transfer_us(piece, to);
  };
  for (;;) {
    const ChainPlan plan = best_chain(costs);
    bool all_measured = true;
    for (const ChainPart& part : plan.parts) {
      if (measured_.contains({part.first, part.last, part.engine})) continue;
      if (stop()) return plan;
      time(part.first, part.last, {part.engine}, /*keep_outputs=*/false, stop);
      all_measured = false;
    }
    if (all_measured) return plan;
  }
}

Decision Pieces::decision(const ChainPlan& plan) const {
  Decision decision;
  decision.precision = precision_;
  decision.node_engines.resize(order_.size());
  for (const ChainPart& part : plan.parts) {
    const std::string& engine = ways_[part.engine].engine;
    if (std::find(decision.engines.begin(), decision.engines.end(), engine) ==
        decision.engines.end()) {
      decision.engines.push_back(engine);
    }
    for (std::size_t i = bounds_[part.first]; i < bounds_[part.last]; ++i) {
      decision.node_engines[i] = engine;
    }
  }
  return decision;
}

std::string Pieces::describe(const ChainPlan& plan) const {
  std::string text;
  for (const ChainPart& part : plan.parts) {
    text += (text.empty() ? "" : ", ") + ways_[part.engine].engine;
    if (part.first > 0) {
      text += " from '" + survey_.graph().node(order_[bounds_[part.first]]).name + "'";
    }
  }
  return text;
}

}  // namespace xrt
