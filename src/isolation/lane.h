// SPDX-License-Identifier: Apache-2.0
// The process's end of a lane: runs of one context of an executable in a worker, one after the
// other.
//
// Where the memory of a tensor lies in a segment already (a plan's arena), it is used in place;
// else it is copied into one of the lane's own. Large outputs that the caller gives no memory for
// are given away in the segment that the worker wrote them to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/handles.h"
#include "isolation/protocol.h"
#include "isolation/segment.h"
#include "isolation/worker_process.h"
#include "xrt/type.h"

namespace xrt {

class Lane {
 public:
  // `executable`: its number in the worker. `outputs`: the types of its outputs. `who`, for
  // messages, and `outputs` live as long as the lane.
  Lane(std::shared_ptr<WorkerProcess> worker, std::uint64_t executable, const std::string& who,
       const std::vector<Type>& outputs, std::size_t inputs);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  const std::shared_ptr<WorkerProcess>& worker() const { return worker_; }
  // Throws the error that the engine threw there; kEngine with the cause where the worker is lost,
  // kResource where it is ended because the limit of the run was over.
  void run(const RunData& data);

 private:
  // Where a tensor of the caller's lies during the run.
  struct Place {
    std::shared_ptr<Segment> segment;  // null: in the lane's own
    std::size_t offset = 0;
  };

  LaneHead* head() { return reinterpret_cast<LaneHead*>(control_->data()); }
  Place place_of(const void* data, std::size_t bytes, std::size_t& needed);
  // Shared with the worker, and in the run's bound on memory.
  std::shared_ptr<Segment> take(std::size_t bytes);
  void reserve(std::size_t bytes);
  void describe(LanePort& port, DType dtype, const Dims& dims, const Place& place);
  std::shared_ptr<Segment> buffer(std::size_t output, std::size_t bytes);
  void ring(std::uint32_t order, const RunLimit* limit);
  void wait(std::uint32_t turn, const RunLimit* limit);
  void fetch(const RunData& data, const std::vector<std::size_t>& made);

  const std::shared_ptr<WorkerProcess> worker_;
  const std::string& who_;
  const std::vector<Type>& outputs_;
  const std::size_t inputs_;
  std::shared_ptr<Segment> control_;
  std::shared_ptr<Segment> scratch_;
  std::vector<std::vector<std::shared_ptr<Segment>>> buffers_;  // per output
};

}  // namespace xrt
