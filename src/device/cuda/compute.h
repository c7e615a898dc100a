// SPDX-License-Identifier: Apache-2.0
// What computing on a CUDA device takes beside copies (device/cuda_driver.h): modules and their
// kernels, memory in the order of streams, events and recorded graphs. Each piece gives back what
// it holds.
//
// Thread-safety: a piece is used by one thread at a time but for MemoryPool and Module, which may
// be used by many.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "xrt/export.h"

namespace xrt::cuda {

struct DeviceFacts {
  int capability = 0;  // 90 for 9.0
  int processors = 0;  // multiprocessors
};
XRT_API DeviceFacts device_facts(int device);

// A stream of its own, which waits for no default stream.
class XRT_API Stream {
 public:
  explicit Stream(int device);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  void* get() const { return stream_; }
  void synchronize() const;

 private:
  int device_;
  void* stream_ = nullptr;
};

// A point in what is queued on a stream.
class XRT_API Event {
 public:
  explicit Event(int device, bool timed = false);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(void* stream);
  // What is queued on `stream` from now on begins when the recorded point is reached.
  void make_wait(void* stream) const;
  void synchronize() const;
  // Milliseconds between two points of timed events that have been reached.
  float since(const Event& earlier) const;

 private:
  int device_;
  void* event_ = nullptr;
};

// Memory of one device in the order of streams: it is taken and given back without waiting, and
// what was given back is taken again by whoever comes next.
class XRT_API MemoryPool {
 public:
  struct Statistics {
    std::size_t used = 0;      // bytes that somebody holds
    std::size_t most = 0;      // the most that were held at a time
    std::size_t reserved = 0;  // bytes that the pool has taken from the device
  };

  // The pool of a device. It lives as long as the process.
  static MemoryPool& of(int device);

  // For work that is queued on `stream` from now on. Whoever lets go of the memory sees to it that
  // nothing that is queued still uses it. Throws kResource, saying what it is for, where the device
  // has not enough or the bound is reached; then nothing has changed but that what nobody holds is
  // the device's again.
  std::shared_ptr<void> allocate(std::size_t bytes, void* stream, const std::string& what);
  // Likewise, for a result whose users queue on `stream`, too: it may be let go of while they are
  // queued, and is kept for the next result of that size on that stream, which comes behind them.
  std::shared_ptr<void> allocate_result(std::size_t bytes, void* stream, const std::string& what);
  // Whether `memory` is such a result of that stream (CUDA's handle; null is the legacy default
  // one), so that whoever has used it there need not wait to let go of it.
  static bool is_result_of(const void* memory, void* stream);
  // Memory that is let go of from now on is nobody else's before the event is reached.
  void follow(const Event& event) const { event.make_wait(stream_.get()); }
  // Bytes that may be held at a time; 0: as many as the device has.
  void set_bound(std::size_t bytes);
  Statistics statistics() const;
  // Gives the device back what nobody holds.
  void trim();

 private:
  explicit MemoryPool(int device);
  void* take(std::size_t bytes, void* stream, const std::string& what);
  void release(void* memory, std::size_t bytes) noexcept;
  void keep(void* memory, std::size_t bytes, void* stream,
            const std::shared_ptr<Event>& used) noexcept;
  void free_kept() noexcept;

  int device_;
  void* pool_ = nullptr;
  Stream stream_;  // memory is given back in its order
  mutable std::mutex mutex_;
  std::size_t bound_ = 0, used_ = 0, most_ = 0;
  // Results that were let go of, by stream and size; what used each of them is done at its event.
  struct Kept {
    void* memory;
    std::shared_ptr<Event> used;
  };
  std::map<std::pair<void*, std::size_t>, std::vector<Kept>> kept_;
  std::size_t kept_bytes_ = 0;
};

struct Grid {
  unsigned x = 1, y = 1, z = 1;
  unsigned threads = 1;  // of a block
  unsigned shared = 0;   // bytes of shared memory beside what the kernel declares
};

// Compiled code on a device.
class XRT_API Module {
 public:
  Module(int device, const std::string& image);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // `shared`: the most bytes that a launch of it adds to its shared memory.
  void* kernel(const std::string& name, unsigned shared = 0) const;
  // Queues a kernel of one parameter, `bytes` at `argument`. An error names the kernel and its
  // grid.
  void launch(void* kernel, const std::string& name, const Grid& grid, const void* argument,
              void* stream) const;

 private:
  int device_;
  void* module_ = nullptr;
};

// What was queued on a stream, to be queued again as a whole.
class XRT_API Graph {
 public:
  // Records what `queue` queues on the stream, which must be one of one's own.
  Graph(int device, void* stream, const std::function<void()>& queue);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch(void* stream) const;

 private:
  int device_;
  void* graph_ = nullptr;
};

// Queue copies; the host's side of one must stay as it is until the stream has got there.
XRT_API void copy_to_device(int device, void* to, const void* from, std::size_t bytes,
                            void* stream);
XRT_API void copy_to_host(int device, void* to, const void* from, std::size_t bytes, void* stream);
XRT_API void copy_on_device(int device, void* to, const void* from, std::size_t bytes,
                            void* stream);

}  // namespace xrt::cuda
