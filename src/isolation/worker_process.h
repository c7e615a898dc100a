// SPDX-License-Identifier: Apache-2.0
// A worker as the process that started it sees it: a child that runs one engine.
//
// What the child does, whatever it is (a signal, an exit, nonsense on the socket), ends in
// is_lost() and a cause in words; every call and every run that waits then throws kEngine with that
// cause. A lost worker is not revived: its owner starts another one.
//
// Thread-safety: the functions may be called by any thread. In a child that fork() made the worker
// counts as lost, and is left alone.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ir/flat.h"
#include "isolation/channel.h"
#include "isolation/protocol.h"
#include "isolation/segment.h"
#include "xrt/tensor.h"

namespace xrt {

using Progress = std::function<void(std::string_view what, double part)>;

class WorkerProcess : public std::enable_shared_from_this<WorkerProcess> {
 public:
  // Starts `command` with the number of a socket, `engine` and this process's id behind it, and
  // waits until the engine is loaded. Throws kEngine, or the error that loading it is there.
  static std::shared_ptr<WorkerProcess> start(const std::vector<std::string>& command,
                                              const std::string& engine);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // What it said about its engine.
  const Tensor& description() const { return description_; }

  // An order, and its answer. Throws the error that the engine threw there.
  Tensor call(Message kind, FlatWriter& content, const Progress& progress = {});
  // An order without an answer, of one number.
  void post(Message kind, std::uint64_t number);

  // Makes a segment known to the worker; at once where it is. False where that can no longer be.
  bool map(const std::shared_ptr<Segment>& segment);
  void unmap(std::uint64_t segment);

  // Tensors of the graph that are worth it lie in segments of their own, which are sent once: the
  // blocks for FlatWriter, and the numbers of their segments.
  struct Blocks {
    std::vector<DataBlock> blocks;
    std::vector<std::uint64_t> segments;
  };
  Blocks share_constants(const std::vector<Tensor>& constants);

  bool is_lost() const;
  // Throws kEngine with the cause where it is lost.
  void throw_if_lost() const;
  // Ends it; `why` is the cause that everybody else is told.
  void end(const std::string& why);

  // Lanes to wake when the worker is lost.
  void add_lane(LaneHead* lane);
  void remove_lane(LaneHead* lane);

 private:
  struct Call {
    bool done = false;
    MessageHead head;
    Tensor content;
    std::vector<std::pair<std::string, double>> progress;
  };
  // A tensor that the worker has.
  struct Shared {
    std::weak_ptr<const void> owner;
    std::size_t bytes = 0, offset = 0;
    std::uint64_t segment = 0;
  };

  WorkerProcess(pid_t process, Descriptor socket);
  void wait_until_ready(const std::string& engine);
  void receive();
  void take(Received message);
  void lose(const std::string& cause);
  std::string reap();
  // Both with segments_mutex_.
  void drop_constants();
  void send_segment(const Segment& segment);
  Tensor call(Message kind, std::span<const std::string_view> content, int file,
              const Progress& progress);

  const pid_t owner_;
  const pid_t process_;
  Channel channel_;
  Tensor description_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, Call> calls_;
  std::uint64_t last_call_ = 0;
  std::set<LaneHead*> lanes_;
  std::string cause_;
  bool is_reaped_ = false;
  std::atomic<bool> lost_{false};

  std::mutex segments_mutex_;  // held while one is made known: who comes second waits
  std::set<std::uint64_t> segments_;
  std::map<const void*, Shared> constants_;

  std::unique_ptr<std::thread> receiver_;
};

}  // namespace xrt
