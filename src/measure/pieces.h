// SPDX-License-Identifier: Apache-2.0
// A graph cut at its narrow places, its pieces timed on engines, and the best way to share them.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "measure/chain_search.h"
#include "partition/cut_points.h"
#include "placement/decision.h"
#include "placement/survey.h"

namespace xrt {

class Pieces {
 public:
  // One way to run a whole graph, with what that takes; the first one computes the values that the
  // pieces are timed on.
  struct Way {
    std::string engine;
    double whole_us = 0;
  };

  // Cuts; at most `most` pieces. All arguments outlive this object.
  Pieces(Survey& survey, std::span<const Data> inputs, std::vector<Way> ways, std::string precision,
         std::size_t most);

  std::size_t count() const { return bounds_.size() - 1; }
  // Times every piece alone on every engine. False if it was stopped, or a piece failed on the
  // first engine.
  bool measure(const std::function<bool()>& stop);
  // The best plan, or the best one over at least two engines. Functions of several pieces that it
  // needs are timed until it rests on measured ones, or `stop` answers true.
  ChainPlan best(bool several, const std::function<bool()>& stop);

  Decision decision(const ChainPlan& plan) const;
  // "native, openvino from 'conv5', native from 'fc'".
  std::string describe(const ChainPlan& plan) const;

 private:
  using Range = std::tuple<std::size_t, std::size_t, std::size_t>;  // first, last, way

  std::vector<NodeId> nodes(std::size_t first, std::size_t last) const;
  double function_us(std::size_t first, std::size_t last, std::size_t way) const;
  double transfer_us(std::size_t piece, std::size_t way) const;
  // Fills measured_ for these ways on one range, in turns.
  void time(std::size_t first, std::size_t last, const std::vector<std::size_t>& ways,
            bool keep_outputs, const std::function<bool()>& stop);

  Survey& survey_;
  std::vector<Way> ways_;
  std::string precision_;
  std::vector<NodeId> order_;
  std::vector<Cut> cuts_;
  std::vector<std::size_t> bounds_;  // positions in order_: piece i is [bounds_[i], bounds_[i+1])
  std::map<ValueId, Data> values_;   // graph inputs, and what crosses cuts
  std::map<Range, double> measured_;
  // By first piece and way: what the first run after another engine's takes longer.
  std::map<std::pair<std::size_t, std::size_t>, double> change_us_;
  std::vector<double> saved_us_;  // by way: what joining two neighbouring pieces saves, on average
};

}  // namespace xrt
