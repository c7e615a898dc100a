// SPDX-License-Identifier: Apache-2.0
#include "isolation/serve.h"

#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/byte_variable.h"
#include "base/log.h"
#include "base/memory.h"
#include "engine/host.h"
#include "isolation/channel.h"
#include "isolation/description.h"
#include "isolation/failure.h"
#include "isolation/lane_server.h"
#include "xrt/error.h"

namespace xrt {
namespace {

constexpr int kLookAtParentMs = 1000;
constexpr auto kLookAtMemory = std::chrono::milliseconds(20);

// Memory of this process's own: what it shares is the other side's to bound.
std::size_t own_memory() {
  std::ifstream file("/proc/self/statm");
  std::size_t size = 0, resident = 0, shared = 0;
  file >> size >> resident >> shared;
  return (resident - std::min(resident, shared)) *
         static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::size_t most_memory() {
  const std::optional<std::uint64_t> given = byte_variable("XRT_WORKER_MEMORY");
  return given && *given > 0 ? *given : available_memory() / 4 * 3;
}

class Server {
 public:
  Server(Descriptor socket, std::string name,
         std::function<std::shared_ptr<const Engine>(const std::string& name)> load)
      : channel_(std::move(socket)), name_(std::move(name)), load_(std::move(load)) {}
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[noreturn]] void serve(pid_t parent) {
    try {
      std::thread([this] { watch(); }).detach();
      std::thread([this] { load(); }).detach();
    } catch (const std::system_error& error) {
      refuse(no_thread(error));
      ::_exit(0);
    }
    for (;;) {
      pollfd ready = {channel_.descriptor(), POLLIN, 0};
      const int count = ::poll(&ready, 1, kLookAtParentMs);
      // The socket may be held open by a child that the parent forked.
      if (::getppid() != parent) ::_exit(0);
      if (count <= 0) continue;
      std::optional<Received> message = channel_.receive();
      if (!message) ::_exit(0);
      take(*std::move(message));
    }
  }

 private:
  using Content = Tensor;

  // Ends this process where it takes too much, and tells runs of limits that are over.
  [[noreturn]] void watch() {
    const std::size_t most = most_memory();
    for (;;) {
      std::this_thread::sleep_for(kLookAtMemory);
      if (own_memory() > most) ::_exit(kExitMemory);
      const std::lock_guard lock(mutex_);
      for (LaneServer* lane : lanes_) lane->look_at_limit();
    }
  }

  static Error no_thread(const std::system_error& error) {
    return Error(ErrorCode::kResource,
                 std::string("there is no thread left in its worker: ") + error.what());
  }

  // There will be no engine.
  void refuse(const Error& error) {
    FlatWriter answer;
    answer.number(static_cast<std::int64_t>(error.code()) + 1).text(error.what());
    send_ready(answer);
  }

  void load() {
    FlatWriter answer;
    try {
      auto engine = load_(name_);
      answer.number(0);
      write_description(answer, engine->info());
      const std::lock_guard lock(mutex_);
      engine_ = std::move(engine);
    } catch (const Error& error) {
      answer.number(static_cast<std::int64_t>(error.code()) + 1).text(error.what());
    } catch (const std::exception& error) {
      answer.number(static_cast<std::int64_t>(ErrorCode::kEngine) + 1).text(error.what());
    }
    send_ready(answer);
  }

  // It stays once it is there.
  const Engine& engine() {
    const std::lock_guard lock(mutex_);
    if (!engine_) throw Error(ErrorCode::kInternal, "an order came before the engine was loaded");
    return *engine_;
  }

  void send_ready(FlatWriter& answer) {
    MessageHead head;
    head.kind = static_cast<std::uint32_t>(Message::kReady);
    channel_.send(head, answer.finish());
  }

  // What is over at once is done here, in order; for all else a thread is made.
  void take(Received message) {
    const std::uint64_t call = message.head.call;
    const auto kind = static_cast<Message>(message.head.kind);
    switch (kind) {
      case Message::kMap:
        answer(call, [&](FlatWriter&) { map(message); });
        return;
      case Message::kUnmap: {
        const std::lock_guard lock(mutex_);
        segments_.erase(call);
        return;
      }
      case Message::kCancel: {
        const std::lock_guard lock(mutex_);
        cancelled_.insert(call);
        return;
      }
      case Message::kDestroy:
        try {
          in_thread([this, call] { destroy(call); });
        } catch (const std::system_error&) {
          destroy(call);  // others wait meanwhile
        }
        return;
      default:
        answer_in_thread(call, [this, kind, call, content = std::move(message.content)] {
          if (kind == Message::kOpenLane) {
            open_lane(call, content);
          } else {
            answer(call, [&](FlatWriter& to) { carry_out(kind, call, content, to); });
          }
        });
    }
  }

  void destroy(std::uint64_t number) {
    std::shared_ptr<const Executable> gone;  // ends behind the lock
    const std::lock_guard lock(mutex_);
    const auto found = executables_.find(number);
    if (found == executables_.end()) return;
    gone = std::move(found->second);
    executables_.erase(found);
  }

  template <typename Work>
  void in_thread(Work work) {
    std::thread(std::move(work)).detach();
  }

  // The same of an order that waits for an answer.
  template <typename Work>
  void answer_in_thread(std::uint64_t call, Work work) {
    try {
      in_thread(std::move(work));
    } catch (const std::system_error& error) {
      answer(call, [&](FlatWriter&) { throw no_thread(error); });
    }
  }

  template <typename Work>
  void answer(std::uint64_t call, Work work) {
    FlatWriter content;
    MessageHead head;
    head.call = call;
    head.kind = static_cast<std::uint32_t>(Message::kReply);
    const auto [code, cause] = failure_of([&] { work(content); });
    head.code = code;
    if (head.code == 0) {
      channel_.send(head, content.finish());
    } else {
      const std::string_view text = cause;
      channel_.send(head, std::span(&text, 1));
    }
    const std::lock_guard lock(mutex_);
    cancelled_.erase(call);
  }

  void map(const Received& message) {
    FlatReader order(message.content);
    const auto number = static_cast<std::uint64_t>(order.number());
    const auto bytes = static_cast<std::size_t>(order.number());
    void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, message.file.get(), 0);
    if (data == MAP_FAILED) throw Error(ErrorCode::kResource, "its worker cannot map memory");
    const std::shared_ptr<const void> owner(
        data, [bytes](const void* p) { ::munmap(const_cast<void*>(p), bytes); });
    const std::lock_guard lock(mutex_);
    segments_[number] =
        Tensor::wrap(DType::kUInt8, {static_cast<std::int64_t>(bytes)}, data, owner);
  }

  Tensor segment(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    const auto found = segments_.find(number);
    if (found == segments_.end()) throw Error(ErrorCode::kEngine, "a segment is not there");
    return found->second;
  }

  void carry_out(Message kind, std::uint64_t call, const Content& content, FlatWriter& to) {
    FlatReader order(content);
    switch (kind) {
      case Message::kOps: {
        const std::vector<std::string> ops = engine().ops();
        to.number(static_cast<std::int64_t>(ops.size()));
        for (const std::string& op : ops) to.text(op);
        return;
      }
      case Message::kSupports:
        return supports(order, to);
      case Message::kCompile:
      case Message::kLoad:
        return compile(kind, call, order, to);
      case Message::kSerialize: {
        const auto bytes = executable(static_cast<std::uint64_t>(order.number()))->serialize();
        to.number(bytes ? 1 : 0);
        if (!bytes) return;
        // The writer points to what it was given until it is sent.
        Tensor kept = Tensor::allocate(DType::kUInt8, {static_cast<std::int64_t>(bytes->size())});
        bytes->copy(kept.data<char>(), bytes->size());
        to.tensor(kept);
        return;
      }
      default:
        throw Error(ErrorCode::kInternal, "its worker was given an order of no kind");
    }
  }

  Graph read_graph(FlatReader& from) {
    std::vector<Tensor> blocks;
    for (std::size_t n = from.count(); n-- > 0;) {
      blocks.push_back(segment(static_cast<std::uint64_t>(from.number())));
    }
    from.lend(std::move(blocks));
    return from.graph();
  }

  void supports(FlatReader& order, FlatWriter& to) {
    const Graph graph = read_graph(order);
    const std::int64_t position = order.number();
    SupportQuery query{view_of(graph), {}};
    query.device = order.text();
    query.phase = order.number() == 0 ? Phase::kInference : Phase::kTraining;
    for (std::size_t n = order.count(); n-- > 0;) {
      query.mutable_inputs.push_back(static_cast<std::int32_t>(order.number()));
    }
    const auto tell = [&](const Support& answer) {
      to.number(answer ? 1 : 0).text(answer.reason());
    };
    // Nodes were written in the order that the other side counts them in, and bear these ids.
    if (position >= 0) {
      query.node = NodeId{static_cast<std::int32_t>(position)};
      return tell(engine().supports(query));
    }
    const std::vector<Support> answers = engine().supports_all(query);
    for (const NodeId id : graph.nodes()) tell(answers.at(static_cast<std::size_t>(id.index)));
  }

  void compile(Message kind, std::uint64_t call, FlatReader& order, FlatWriter& to) {
    const Graph graph = read_graph(order);
    const std::string name = order.text();
    CompileOptions options = read_options(order);
    options.progress = [this, call](std::string_view what, double part) { tell(call, what, part); };
    const Function function = function_of(name, graph);
    std::shared_ptr<const Executable> made;
    if (kind == Message::kLoad) {
      const Tensor blob = order.tensor();
      made = engine().load(view_of(blob), function, options);
    } else {
      made = engine().compile(function, options);
    }
    if (made == nullptr) throw Error(ErrorCode::kEngine, "it gave no executable");
    ExecutableInfo info = made->info();
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      number = ++last_executable_;
      executables_[number] = std::move(made);
    }
    to.number(static_cast<std::int64_t>(number));
    write_executable(to, info);
  }

  void tell(std::uint64_t call, std::string_view what, double part) {
    {
      const std::lock_guard lock(mutex_);
      if (cancelled_.contains(call)) throw Error(ErrorCode::kEngine, "the caller has given up");
    }
    FlatWriter content;
    content.text(what).real(static_cast<float>(part));
    MessageHead head;
    head.call = call;
    head.kind = static_cast<std::uint32_t>(Message::kProgress);
    channel_.send(head, content.finish());
  }

  std::shared_ptr<const Executable> executable(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    const auto found = executables_.find(number);
    if (found == executables_.end()) throw Error(ErrorCode::kEngine, "an executable is not there");
    return found->second;
  }

  // The thread stays with the lane.
  void open_lane(std::uint64_t call, const Content& content) {
    std::unique_ptr<LaneServer> lane;
    answer(call, [&](FlatWriter&) {
      FlatReader order(content);
      const Tensor control = segment(static_cast<std::uint64_t>(order.number()));
      lane = std::make_unique<LaneServer>(control,
                                          executable(static_cast<std::uint64_t>(order.number())),
                                          [this](std::uint64_t number) { return segment(number); });
      const std::lock_guard lock(mutex_);
      lanes_.insert(lane.get());
    });
    if (lane == nullptr) return;
    lane->serve();
    {
      const std::lock_guard lock(mutex_);
      lanes_.erase(lane.get());
    }
  }

  Channel channel_;
  const std::string name_;
  const std::function<std::shared_ptr<const Engine>(const std::string& name)> load_;
  std::shared_ptr<const Engine> engine_;  // set once, before kReady is sent

  std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<const Executable>> executables_;
  std::uint64_t last_executable_ = 0;
  std::map<std::uint64_t, Tensor> segments_;
  std::set<LaneServer*> lanes_;
  std::set<std::uint64_t> cancelled_;
};

int number_of(const std::string& word) {
  int number = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc{} || end != word.data() + word.size() || number < 0) {
    std::fputs("this program is started by OpenXRT alone\n", stderr);
    ::_exit(2);
  }
  return number;
}

}  // namespace

void serve_engine(
    int socket, const std::string& engine, int parent,
    const std::function<std::shared_ptr<const Engine>(const std::string& name)>& load) {
  // It lives as long as the process: its threads use it to the end.
  static auto* const server = new Server(Descriptor(socket), engine, load);
  server->serve(parent);
}

void serve_engine(
    const std::string& socket, const std::string& engine, const std::string& parent,
    const std::function<std::shared_ptr<const Engine>(const std::string& name)>& load) {
  serve_engine(number_of(socket), engine, number_of(parent), load);
}

}  // namespace xrt
