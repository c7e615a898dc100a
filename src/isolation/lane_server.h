// SPDX-License-Identifier: Apache-2.0
// The worker's end of a lane.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "base/run_limit.h"
#include "isolation/protocol.h"
#include "xrt/engine.h"
#include "xrt/tensor.h"

namespace xrt {

class LaneServer {
 public:
  // The memory of a segment, as bytes; throws where there is none of that number.
  using FindSegment = std::function<Tensor(std::uint64_t number)>;

  // `control`: the lane's own segment.
  LaneServer(Tensor control, std::shared_ptr<const Executable> executable, FindSegment find);
  LaneServer(const LaneServer&) = delete;
  LaneServer& operator=(const LaneServer&) = delete;

  // Runs what is ordered until the lane ends.
  void serve();
  // Tells the run that its caller has given up, where he has. Called by another thread.
  void look_at_limit();

 private:
  LaneHead* head() { return reinterpret_cast<LaneHead*>(control_.data<std::byte>()); }
  void run();
  void fetch();
  Tensor tensor_at(const LanePort& port) const;

  Tensor control_;
  const std::shared_ptr<const Executable> executable_;
  const FindSegment find_;
  const std::size_t inputs_, outputs_;
  const std::unique_ptr<RunContext> context_;
  std::vector<Data> made_;  // outputs in memory of this process's own
  std::mutex mutex_;
  RunLimit* limit_ = nullptr;
};

}  // namespace xrt
