// SPDX-License-Identifier: Apache-2.0
#include "isolation/isolated_executable.h"

#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fork_mutex.h"
#include "base/per_process.h"
#include "engine/handles.h"
#include "isolation/description.h"
#include "isolation/lane.h"
#include "isolation/names.h"
#include "xrt/error.h"

namespace xrt {
namespace {

// What the worker holds for an executable; it drops it with this object.
struct Remote {
  std::shared_ptr<WorkerProcess> worker;
  std::uint64_t number = 0;
  ExecutableDescription description;

  Remote(std::shared_ptr<WorkerProcess> of, const Tensor& answer) : worker(std::move(of)) {
    FlatReader reader(answer);
    number = static_cast<std::uint64_t>(reader.number());
    description = read_executable(reader);
  }
  ~Remote() { worker->post(Message::kDestroy, number); }
  Remote(const Remote&) = delete;
  Remote& operator=(const Remote&) = delete;
};

class IsolatedContext final : public RunContext {
 public:
  std::shared_ptr<Remote> remote;  // of the lane, which goes first
  std::optional<Lane> lane;
};

class IsolatedExecutable final : public Executable {
 public:
  IsolatedExecutable(std::shared_ptr<WorkerPool> pool, const Function& function,
                     const CompileOptions& options, Tensor blob)
      : pool_(std::move(pool)),
        name_(function.name),
        who_("engine '" + pool_->engine() + "', function '" + name_ + "'"),
        graph_(graph_of(function.graph)),
        options_(options),
        blob_(std::move(blob)) {
    for (const ValueId v : graph_.outputs()) outputs_.push_back(graph_.type(v));
    remote_ = make(options.progress);
    options_.progress = {};  // the caller's, who is gone when it is compiled again
  }

  ExecutableInfo info() const override {
    const std::shared_ptr<Remote> remote = this->remote();
    ExecutableInfo info = remote->description.info;
    info.pool = pool_->thread_pool(remote->description.pool);
    return info;
  }

  std::unique_ptr<RunContext> create_context() const override {
    return std::make_unique<IsolatedContext>();
  }

  void run(const RunArgs& args) const override {
    auto& context = *static_cast<IsolatedContext*>(args.context());
    const std::shared_ptr<Remote> remote = this->remote();
    if (context.remote != remote) {
      context.lane.reset();
      context.remote = remote;
      context.lane.emplace(remote->worker, remote->number, who_, outputs_, graph_.inputs().size());
    }
    context.lane->run(data_of(args));
  }

  std::optional<std::string> serialize() const override {
    const std::shared_ptr<Remote> remote = this->remote();
    FlatWriter question;
    question.number(static_cast<std::int64_t>(remote->number));
    FlatReader answer(remote->worker->call(Message::kSerialize, question));
    if (answer.number() == 0) return std::nullopt;
    const Tensor bytes = answer.tensor();
    return std::string(bytes.data<char>(), bytes.bytes());
  }

 private:
  // In a worker that is not lost, a moment ago.
  std::shared_ptr<Remote> remote() const {
    if (auto remote = latest(); !remote->worker->is_lost()) return remote;
    const std::lock_guard turn(turn_.get());  // who comes second wants the same one
    if (auto remote = latest(); !remote->worker->is_lost()) return remote;
    std::shared_ptr<Remote> made = make({});
    std::shared_ptr<Remote> old = made;  // ends without the lock
    const std::lock_guard lock(mutex_);
    remote_.swap(old);
    return made;
  }

  std::shared_ptr<Remote> latest() const {
    const std::lock_guard lock(mutex_);
    return remote_;
  }

  std::shared_ptr<Remote> make(const Progress& progress) const {
    const std::shared_ptr<WorkerProcess> worker = pool_->worker();
    const bool loads = blob_.defined();
    SentGraph sent(*worker, graph_, blob_, loads && pool_->self_contained());
    sent.write();
    FlatWriter& order = sent.writer();
    order.text(name_);
    write_options(order, options_);
    if (loads) order.tensor(blob_);
    const Tensor answer = worker->call(loads ? Message::kLoad : Message::kCompile, order, progress);
    return std::make_shared<Remote>(worker, answer);
  }

  const std::shared_ptr<WorkerPool> pool_;
  const std::string name_, who_;
  const Graph graph_;
  std::vector<Type> outputs_;
  CompileOptions options_;
  const Tensor blob_;
  mutable MemberPerProcess<std::mutex> turn_;  // of who loads
  mutable ForkMutex mutex_;
  mutable std::shared_ptr<Remote> remote_;
};

}  // namespace

std::shared_ptr<const Executable> make_isolated_executable(std::shared_ptr<WorkerPool> pool,
                                                           const Function& function,
                                                           const CompileOptions& options,
                                                           Tensor blob) {
  return std::make_shared<IsolatedExecutable>(std::move(pool), function, options, std::move(blob));
}

}  // namespace xrt
