// SPDX-License-Identifier: Apache-2.0
// Batches under way on one or several programs: each has as many as it runs at once, and one that
// waits.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "evaluation/batches.h"
#include "xrt/program.h"

namespace xrt {

class Flights {
 public:
  // `programs` outlive the object.
  explicit Flights(std::span<Program* const> programs);

  int streams() const { return streams_; }  // of all programs
  std::size_t most() const { return static_cast<std::size_t>(streams_) + programs_.size(); }
  bool is_full() const { return flights_.size() == most(); }
  bool empty() const { return flights_.empty(); }

  // On the program with the least to do for its streams. The batch lives until it has landed.
  void start(const Batch& batch);
  // Until all that have been started have run.
  void wait() const;

  struct Landed {
    const Batch* batch;
    std::vector<Data> outputs;
  };
  // The one that was started first; waits for it. Throws what its run threw.
  Landed land();

  // Seconds that the runs of all that have landed took.
  double flown_seconds() const { return flown_seconds_; }

 private:
  struct Lane {
    Program* program;
    std::size_t flights = 0;
  };
  struct Flight {
    const Batch* batch;
    std::size_t lane;
    Request request;
  };

  std::vector<Lane> programs_;
  int streams_ = 0;
  std::deque<Flight> flights_;
  double flown_seconds_ = 0;
};

// Runs the inputs once on each stream of the program, at once.
void run_at_once(Program& program, const std::vector<Data>& inputs);

}  // namespace xrt
