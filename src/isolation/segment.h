// SPDX-License-Identifier: Apache-2.0
// Memory that a process and its workers share: an anonymous file of fixed size, mapped by both.
//
//   const std::shared_ptr<Segment> segment = Segment::make(bytes);
//   worker.map(*segment);                     // from now on the worker knows it by its number
//   Tensor t = segment->tensor(dtype, dims);  // keeps the segment alive
//
// Pages are taken when they are first written to. Who sees a segment can write to it: a worker that
// computes wrong can write wrong elements, but cannot take the memory away (the size is sealed).
//
// Thread-safety: the functions may be called by any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/fork_mutex.h"
#include "xrt/export.h"
#include "xrt/tensor.h"

namespace xrt {

struct MemoryAccount;
class WorkerProcess;

class XRT_API Segment : public std::enable_shared_from_this<Segment> {
 public:
  // Throws kResource where there is no memory or no descriptor for it.
  static std::shared_ptr<Segment> make(std::size_t bytes);
  // Likewise, and in the bound on the memory of this thread's run (base/work_scope.h).
  static std::shared_ptr<Segment> make_for_run(std::size_t bytes);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  std::byte* data() { return data_; }
  std::size_t bytes() const { return bytes_; }
  std::uint64_t number() const { return number_; }
  // -1: it was closed, and the segment can be shared with no further worker.
  int descriptor() const { return descriptor_; }
  // For one that one worker alone is to know.
  void close_descriptor();
  Tensor tensor(DType dtype, Dims dims, std::size_t offset = 0);

  // Puts it on the account of this thread's run, from which it goes when it is handed over or gone.
  // Throws kResource where there is no room.
  void charge();
  // It is the caller's.
  void hand_over();

  // Whose mapping ends with this segment.
  void add_reader(std::weak_ptr<WorkerProcess> worker);

 private:
  Segment(std::byte* data, std::size_t bytes, int descriptor);

  std::byte* data_;
  std::size_t bytes_;
  std::uint64_t number_;
  int descriptor_;
  std::shared_ptr<MemoryAccount> account_;  // null: it is on none
  ForkMutex mutex_;
  std::vector<std::weak_ptr<WorkerProcess>> readers_;
};

// The segment that memory made by shared_bytes() lies in, with the offset there; none for any other
// memory.
struct SegmentPlace {
  std::shared_ptr<Segment> segment;
  std::size_t offset = 0;
};
std::optional<SegmentPlace> find_segment(const void* data, std::size_t bytes);

// As Tensor::allocate() of bytes, in a segment that workers read and write in place.
XRT_API Tensor shared_bytes(std::size_t bytes);

}  // namespace xrt
