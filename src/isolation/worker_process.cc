// SPDX-License-Identifier: Apache-2.0
#include "isolation/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/interrupt.h"
#include "base/log.h"
#include "device/threads.h"
#include "isolation/futex.h"
#include "xrt/error.h"
#include "xrt/threads.h"

namespace xrt {
namespace {

using namespace std::chrono_literals;

// Loading a vendor's library takes seconds, importing one of Python more.
constexpr auto kStartTime = 120s;
constexpr auto kPollTime = 50ms;
// A worker that reads nothing for so long is stopped.
constexpr timeval kSendTime = {30, 0};
// Constants of fewer bytes travel with the graph.
constexpr std::size_t kLeastShared = 64 << 10;
// Where the worker finds its socket.
constexpr int kSocketInWorker = 3;

[[noreturn]] void fail(const std::string& cause) { throw Error(ErrorCode::kEngine, cause); }

std::string system_cause(int number) { return std::generic_category().message(number); }

std::string told_status(int status) {
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    const char* name = ::sigabbrev_np(number);
    const char* text = ::sigdescr_np(number);
    return "was ended by signal " + std::to_string(number) + " (SIG" +
           (name != nullptr ? name : "?") + (text != nullptr ? std::string(", ") + text : "") + ")";
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kExitMemory) {
    return "took more memory than XRT_WORKER_MEMORY allows, and was ended";
  }
  if (WIFEXITED(status)) return "exited with status " + std::to_string(WEXITSTATUS(status));
  return "ended";
}

// The child's environment: this one's, with the thread budget that holds now.
std::vector<std::string> environment_of_worker() {
  std::vector<std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with("XRT_NUM_THREADS=")) variables.emplace_back(*entry);
  }
  variables.push_back("XRT_NUM_THREADS=" + std::to_string(thread_budget()));
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  all.reserve(texts.size() + 1);
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

struct SpawnActions {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;

  explicit SpawnActions(int socket) : files(), attributes() {
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (::fcntl(STDERR_FILENO, F_GETFD) < 0) {
      ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    }
    // What a library prints is no output of this program.
    ::posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&files, socket, kSocketInWorker);
    ::posix_spawnattr_init(&attributes);
    // A group of its own: Ctrl-C is for this process to handle.
    ::posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    sigset_t none = {};
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    sigset_t all = {};
    ::sigfillset(&all);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
  }
  ~SpawnActions() {
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&attributes);
  }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
};

}  // namespace

WorkerProcess::WorkerProcess(pid_t process, Descriptor socket)
    : owner_(::getpid()), process_(process), channel_(std::move(socket)) {}

std::shared_ptr<WorkerProcess> WorkerProcess::start(const std::vector<std::string>& command,
                                                    const std::string& engine) {
  int pair[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    fail("its worker cannot be started: " + system_cause(errno));
  }
  Descriptor own(beyond_standard(pair[0]));
  Descriptor given(beyond_standard(pair[1]));
  if (own.get() < 0 || given.get() < 0) {
    fail("its worker cannot be started: " + system_cause(errno));
  }
  ::setsockopt(own.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendTime, sizeof(kSendTime));
  std::vector<std::string> words = command;
  words.insert(words.end(), {std::to_string(kSocketInWorker), engine, std::to_string(::getpid())});
  std::vector<std::string> variables = environment_of_worker();
  const SpawnActions actions(given.get());
  pid_t process = 0;
  const int failed =
      ::posix_spawnp(&process, words.front().c_str(), &actions.files, &actions.attributes,
                     pointers(words).data(), pointers(variables).data());
  if (failed != 0) {
    fail("its worker '" + words.front() + "' cannot be started: " + system_cause(failed));
  }
  given = Descriptor();  // else the worker's end would not close the socket
  std::shared_ptr<WorkerProcess> worker(new WorkerProcess(process, std::move(own)));
  try {
    worker->receiver_ = std::make_unique<std::thread>([self = worker.get()] { self->receive(); });
  } catch (const std::system_error& error) {
    worker->end("was ended");
    worker->reap();
    throw Error(ErrorCode::kResource,
                std::string("there is no thread to watch its worker with: ") + error.what());
  }
  worker->wait_until_ready(engine);
  return worker;
}

WorkerProcess::~WorkerProcess() {
  if (::getpid() != owner_) {
    // The thread is the parent's: it is not here to be waited for.
    [[maybe_unused]] auto* const gone = receiver_.release();
    return;
  }
  end("nobody needs it any more");
  if (receiver_ != nullptr) receiver_->join();
}

void WorkerProcess::wait_until_ready(const std::string& engine) {
  const auto end_of_time = std::chrono::steady_clock::now() + kStartTime;
  std::unique_lock lock(mutex_);
  while (!description_.defined() && !lost_) {
    changed_.wait_for(lock, kPollTime);
    if (std::chrono::steady_clock::now() < end_of_time) continue;
    lock.unlock();
    end("did not load engine '" + engine + "' within " + std::to_string(kStartTime.count()) + " s");
    lock.lock();
    break;
  }
  if (!description_.defined()) {
    lock.unlock();
    throw_if_lost();
    fail("its worker did not start");
  }
  FlatReader reader(description_);
  const std::int64_t code = reader.number();
  if (code == 0) return;
  const auto last = static_cast<std::int64_t>(ErrorCode::kInternal) + 1;
  throw Error(code >= 1 && code <= last ? static_cast<ErrorCode>(code - 1) : ErrorCode::kEngine,
              reader.text());
}

void WorkerProcess::receive() {
  while (std::optional<Received> message = channel_.receive()) take(std::move(*message));
  const std::string cause = reap();
  const std::lock_guard lock(mutex_);
  lose(cause);
}

void WorkerProcess::take(Received message) {
  const std::lock_guard lock(mutex_);
  switch (static_cast<Message>(message.head.kind)) {
    case Message::kReady:
      description_ = std::move(message.content);
      break;
    case Message::kReply:
    case Message::kProgress: {
      const auto found = calls_.find(message.head.call);
      if (found == calls_.end()) return;  // its caller has gone
      if (message.head.kind == static_cast<std::uint32_t>(Message::kReply)) {
        found->second.done = true;
        found->second.head = message.head;
        found->second.content = std::move(message.content);
      } else {
        try {
          FlatReader reader(message.content);
          std::string what = reader.text();
          found->second.progress.emplace_back(std::move(what), reader.real());
        } catch (const Error& error) {
          log_debug(std::string("a worker's progress makes no sense: ") + error.what());
        }
      }
      break;
    }
    default:
      log_debug("a worker sent a message of no kind");
  }
  changed_.notify_all();
}

// Ends what may still run, and says how it ended.
std::string WorkerProcess::reap() {
  // The socket closes a moment before the process is gone: its own cause goes first.
  constexpr int kPatience = 200;
  constexpr auto kTurn = 5ms;
  int status = 0;
  for (int turn = 0;; ++turn) {
    {
      const std::lock_guard lock(mutex_);
      const pid_t reaped = ::waitpid(process_, &status, WNOHANG);
      is_reaped_ = reaped != 0 && !(reaped < 0 && errno == EINTR);
      if (reaped == process_) return told_status(status);
      if (is_reaped_) return "ended (how, another part of this program was told)";
      if (turn == kPatience) ::kill(process_, SIGKILL);
    }
    std::this_thread::sleep_for(kTurn);
  }
}

// With mutex_.
void WorkerProcess::lose(const std::string& cause) {
  if (lost_) return;
  cause_ = cause;
  lost_ = true;
  changed_.notify_all();
  for (LaneHead* lane : lanes_) {
    // A value that no run waits for; whoever wakes asks whether the worker is lost.
    lane->done.fetch_sub(1);
    futex_wake(lane->done);
  }
}

bool WorkerProcess::is_lost() const { return lost_ || ::getpid() != owner_; }

void WorkerProcess::throw_if_lost() const {
  if (!is_lost()) return;
  if (::getpid() != owner_) fail("its worker is that of the process that this one was forked from");
  const std::lock_guard lock(mutex_);
  fail("its worker, process " + std::to_string(process_) + ", " + cause_);
}

void WorkerProcess::end(const std::string& why) {
  if (::getpid() != owner_) return;
  const std::lock_guard lock(mutex_);
  lose(why);
  if (is_reaped_) return;  // the number may be another process's
  ::kill(process_, SIGKILL);
  ::shutdown(channel_.descriptor(), SHUT_RDWR);
}

void WorkerProcess::add_lane(LaneHead* lane) {
  const std::lock_guard lock(mutex_);
  lanes_.insert(lane);
}

void WorkerProcess::remove_lane(LaneHead* lane) {
  if (::getpid() != owner_) return;
  const std::lock_guard lock(mutex_);
  lanes_.erase(lane);
}

void WorkerProcess::post(Message kind, std::uint64_t number) {
  if (is_lost()) return;
  MessageHead head;
  head.call = number;
  head.kind = static_cast<std::uint32_t>(kind);
  channel_.send(head, {});
}

Tensor WorkerProcess::call(Message kind, FlatWriter& content, const Progress& progress) {
  return call(kind, content.finish(), -1, progress);
}

Tensor WorkerProcess::call(Message kind, std::span<const std::string_view> content, int file,
                           const Progress& progress) {
  throw_if_lost();
  MessageHead head;
  head.kind = static_cast<std::uint32_t>(kind);
  {
    const std::lock_guard lock(mutex_);
    head.call = ++last_call_;
    calls_.try_emplace(head.call);
  }
  struct Forget {
    WorkerProcess& worker;
    std::uint64_t call;
    ~Forget() {
      const std::lock_guard lock(worker.mutex_);
      worker.calls_.erase(call);
    }
  } const forget{*this, head.call};
  if (!channel_.send(head, content, file)) end("does not read what it is sent");
  std::exception_ptr given_up;
  std::unique_lock lock(mutex_);
  Call& own = calls_.at(head.call);
  while (!own.done && !lost_) {
    changed_.wait_for(lock, kPollTime);
    const auto told = std::exchange(own.progress, {});
    lock.unlock();
    try {
      throw_if_interrupted();
    } catch (const Error&) {
      end("was ended because the user interrupted a call");
      throw;
    }
    for (const auto& [what, part] : told) {
      if (!progress || given_up) continue;
      try {
        progress(what, part);
      } catch (...) {
        given_up = std::current_exception();
        post(Message::kCancel, head.call);
      }
    }
    lock.lock();
  }
  if (given_up) std::rethrow_exception(given_up);
  if (!own.done) {
    lock.unlock();
    throw_if_lost();
  }
  if (own.head.code == 0) return std::move(own.content);
  const auto last = static_cast<std::uint32_t>(ErrorCode::kInternal) + 1;
  throw Error(
      own.head.code <= last ? static_cast<ErrorCode>(own.head.code - 1) : ErrorCode::kEngine,
      std::string(own.content.data<char>(), own.content.bytes()));
}

bool WorkerProcess::map(const std::shared_ptr<Segment>& segment) {
  const std::lock_guard lock(segments_mutex_);
  if (segments_.contains(segment->number())) return true;
  if (segment->descriptor() < 0) return false;
  send_segment(*segment);
  segment->add_reader(weak_from_this());
  return true;
}

void WorkerProcess::unmap(std::uint64_t segment) {
  if (::getpid() != owner_) return;
  {
    const std::lock_guard lock(segments_mutex_);
    if (segments_.erase(segment) == 0) return;
  }
  post(Message::kUnmap, segment);
}

WorkerProcess::Blocks WorkerProcess::share_constants(const std::vector<Tensor>& constants) {
  constexpr std::size_t kAlignment = 64;
  std::map<std::uint64_t, DataBlock> blocks;
  std::map<const void*, std::pair<const Tensor*, std::size_t>> fresh;  // with their offsets
  std::size_t bytes = 0;
  const std::lock_guard lock(segments_mutex_);
  drop_constants();
  for (const Tensor& constant : constants) {
    if (constant.bytes() < kLeastShared || constant.dtype() == DType::kString ||
        constant.owner() == nullptr || !constant.on_host()) {
      continue;
    }
    const auto found = constants_.find(constant.raw());
    if (found == constants_.end()) {
      if (fresh.try_emplace(constant.raw(), &constant, bytes).second) {
        bytes += (constant.bytes() + kAlignment - 1) / kAlignment * kAlignment;
      }
    } else if (found->second.bytes == constant.bytes()) {  // else it travels with the graph
      const Shared& known = found->second;
      blocks[known.segment].tensors[constant.raw()] = {known.bytes, known.offset};
    }
  }
  if (!fresh.empty()) {
    // The worker alone has this segment when the call is over.
    const std::shared_ptr<Segment> segment = Segment::make(bytes);
    for (const auto& [data, place] : fresh) {
      std::memcpy(segment->data() + place.second, data, place.first->bytes());
    }
    send_segment(*segment);
    for (const auto& [data, place] : fresh) {
      const auto& [constant, offset] = place;
      constants_[data] = {constant->owner(), constant->bytes(), offset, segment->number()};
      blocks[segment->number()].tensors[data] = {constant->bytes(), offset};
    }
  }
  Blocks result;
  for (auto& [number, block] : blocks) {
    result.segments.push_back(number);
    result.blocks.push_back(std::move(block));
  }
  return result;
}

// What nobody has here any more is dropped there: a segment when all its tensors are gone.
void WorkerProcess::drop_constants() {
  std::set<std::uint64_t> live, dead;
  for (auto it = constants_.begin(); it != constants_.end();) {
    const bool gone = it->second.owner.expired();
    (gone ? dead : live).insert(it->second.segment);
    it = gone ? constants_.erase(it) : std::next(it);
  }
  for (const std::uint64_t segment : dead) {
    if (live.contains(segment)) continue;
    segments_.erase(segment);
    post(Message::kUnmap, segment);
  }
}

void WorkerProcess::send_segment(const Segment& segment) {
  FlatWriter content;
  content.number(static_cast<std::int64_t>(segment.number()));
  content.number(static_cast<std::int64_t>(segment.bytes()));
  call(Message::kMap, content.finish(), segment.descriptor(), {});
  segments_.insert(segment.number());
}

}  // namespace xrt
