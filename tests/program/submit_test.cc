// SPDX-License-Identifier: Apache-2.0
// Submitted runs: their order, how many take place at once, the bounded queue, and what happens
// when they are taken back or the program goes.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "device/threads.h"
#include "tests/support/test_engines.h"
#include "xrt/program.h"

namespace xrt {
namespace {

using namespace std::chrono_literals;

// Takes Relu. Its runs wait while the door is closed; it notes in which order they began and how
// many there were at once.
class DoorEngine : public testing::PickyEngine {
 public:
  explicit DoorEngine(std::string name) : PickyEngine(std::move(name), {"Relu"}) {}

  void close() { set_open(false); }
  void open() { set_open(true); }
  int most_at_once() const {
    return with_lock([&] { return most_; });
  }
  std::vector<float> order() const {
    return with_lock([&] { return order_; });
  }
  // Until so many runs have begun.
  void wait_for_runs(std::size_t count) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return order_.size() >= count; });
  }
  CompileOptions asked() const {
    return with_lock([&] { return asked_; });
  }

  std::shared_ptr<const Executable> compile(const Function& function,
                                            const CompileOptions& options) const override {
    with_lock([&] { asked_ = options; });
    return std::make_shared<Door>(*this, get_engine("native")->compile(function, options));
  }

 private:
  class Door : public Executable {
   public:
    Door(const DoorEngine& engine, std::shared_ptr<const Executable> inner)
        : engine_(engine), inner_(std::move(inner)) {}
    ExecutableInfo info() const override { return {.threads = engine_.asked().num_threads}; }
    std::unique_ptr<RunContext> create_context() const override { return inner_->create_context(); }
    void run(const RunArgs& args) const override {
      const float first = *args.input(0).data<const float>();
      {
        std::unique_lock lock(engine_.mutex_);
        engine_.order_.push_back(first);
        engine_.most_ = std::max(engine_.most_, ++engine_.now_);
        engine_.changed_.notify_all();
        engine_.changed_.wait(lock, [&] { return engine_.is_open_; });
      }
      if (first == 13) throw Error(ErrorCode::kEngine, "thirteen");
      inner_->run(args);
      engine_.with_lock([&] { --engine_.now_; });
    }

   private:
    const DoorEngine& engine_;
    std::shared_ptr<const Executable> inner_;
  };

  template <typename F>
  std::invoke_result_t<F> with_lock(F&& f) const {
    const std::lock_guard lock(mutex_);
    return f();
  }
  void set_open(bool open) {
    with_lock([&] { is_open_ = open; });
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool is_open_ = true;
  mutable std::vector<float> order_;
  mutable int now_ = 0, most_ = 0;
  mutable CompileOptions asked_;
};

std::shared_ptr<DoorEngine> door(const std::string& name) {
  auto engine = std::make_shared<DoorEngine>(name);
  register_engine(engine);
  return engine;
}

Graph relu() {
  Graph g("relu");
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{3}));
  g.add_output(g.add_op("Relu", {x}, {}, "y"));
  return g;
}

std::shared_ptr<Program> compiled(const std::string& engine, int streams, int queue = 64,
                                  int threads = 0) {
  return Program::compile(relu(), {.engines = {engine},
                                   .strict = true,
                                   .num_threads = threads,
                                   .streams = streams,
                                   .max_queue = queue,
                                   .cache_dir = "",
                                   .check_results = false});
}

Tensor three(float a) {
  const float values[] = {a, -a, a + 1};
  return Tensor::from<float>(DType::kFloat32, {3}, std::span<const float>(values));
}

void expect_relu(const std::vector<Data>& outputs, float a) {
  ASSERT_EQ(outputs.size(), 1U);
  const float* y = std::as_const(outputs[0]).tensor().data<float>();
  EXPECT_EQ(y[0], std::max(a, 0.0F));
  EXPECT_EQ(y[1], std::max(-a, 0.0F));
  EXPECT_EQ(y[2], std::max(a + 1, 0.0F));
}

class Submit : public ::testing::Test {
 protected:
  void SetUp() override {
    before_ = thread_budget();
    set_thread_budget(4);
  }
  void TearDown() override { set_thread_budget(before_); }

 private:
  int before_ = 1;
};

TEST_F(Submit, GivesWhatARunGives) {
  const auto program = compiled("native", 2);
  std::vector<Request> requests;
  for (int i = -20; i < 20; ++i) {
    requests.push_back(program->submit({three(static_cast<float>(i))}));
  }
  for (int i = -20; i < 20; ++i) {
    const Request& request = requests[static_cast<std::size_t>(i + 20)];
    expect_relu(request.get(), static_cast<float>(i));
    EXPECT_TRUE(request.done());
    EXPECT_FALSE(request.running());
    EXPECT_FALSE(request.cancel());
    EXPECT_GT(request.run_time().count(), 0);
  }
}

TEST_F(Submit, BeginsInOrderAndAsManyAtOnceAsThereAreStreams) {
  const auto engine = door("submit_order");
  engine->close();
  const auto program = compiled("submit_order", 3);
  EXPECT_EQ(program->streams(), 3);
  std::vector<Request> requests;
  for (int i = 0; i < 12; ++i) requests.push_back(program->submit({three(static_cast<float>(i))}));
  engine->wait_for_runs(3);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(engine->order().size(), 3U);
  engine->open();
  for (const Request& request : requests) request.wait();
  EXPECT_EQ(engine->most_at_once(), 3);
  EXPECT_EQ(engine->order().size(), 12U);

  // Of one stream the engine sees the order. Of several, a thread may be held up on its way there.
  const auto single = door("submit_order_of_one");
  const auto one = compiled("submit_order_of_one", 1);
  requests.clear();
  for (int i = 0; i < 6; ++i) requests.push_back(one->submit({three(static_cast<float>(i))}));
  for (const Request& request : requests) request.wait();
  EXPECT_EQ(single->order(), (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

TEST_F(Submit, DividesTheThreads) {
  const auto engine = door("submit_threads");
  EXPECT_EQ(compiled("submit_threads", 2)->streams(), 2);
  EXPECT_EQ(engine->asked().num_threads, 2);
  EXPECT_EQ(engine->asked().streams, 2);
  EXPECT_EQ(compiled("submit_threads", 3)->streams(), 3);
  EXPECT_EQ(engine->asked().num_threads, 1);
  EXPECT_EQ(engine->asked().streams, 3);
  // More streams than threads: they take turns.
  EXPECT_EQ(compiled("submit_threads", 9)->streams(), 9);
  EXPECT_EQ(engine->asked().num_threads, 1);
  EXPECT_EQ(engine->asked().streams, 4);
  // Nothing is divided: as many at once as there is room for.
  EXPECT_EQ(compiled("submit_threads", 0)->streams(), 1);
  EXPECT_EQ(engine->asked().num_threads, 4);
  EXPECT_EQ(compiled("submit_threads", 0, 64, 1)->streams(), 4);
  EXPECT_EQ(engine->asked().num_threads, 1);
  EXPECT_EQ(engine->asked().streams, 1);
}

TEST_F(Submit, AFullQueueMakesTheCallerWait) {
  const auto engine = door("submit_full");
  engine->close();
  const auto program = compiled("submit_full", 1, 2);
  std::vector<Request> requests;
  requests.push_back(program->submit({three(0)}));
  engine->wait_for_runs(1);
  for (int i = 1; i < 3; ++i) requests.push_back(program->submit({three(static_cast<float>(i))}));
  try {
    program->submit({three(3)}, {.wait_for_room = false});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResource);
    EXPECT_STREQ(error.what(), "2 requests wait for their turn already (max_queue)");
  }
  std::atomic<bool> accepted{false};
  std::thread caller([&] {
    requests.push_back(program->submit({three(3)}));
    accepted = true;
  });
  std::this_thread::sleep_for(100ms);
  EXPECT_FALSE(accepted);
  engine->open();
  caller.join();
  for (std::size_t i = 0; i < 4; ++i) expect_relu(requests[i].get(), static_cast<float>(i));
}

TEST_F(Submit, ACancelledRequestMakesRoomAndNeverRuns) {
  const auto engine = door("submit_cancel");
  engine->close();
  const auto program = compiled("submit_cancel", 1, 1);
  const Request runs = program->submit({three(1)});
  engine->wait_for_runs(1);
  int told = 0;
  const Request waits = program->submit({three(2)});
  waits.on_done([&](const Request& done) { told += done.cancelled() ? 1 : 100; });
  EXPECT_TRUE(runs.running());
  EXPECT_FALSE(runs.cancel());
  EXPECT_FALSE(waits.wait_for(1ms));
  EXPECT_TRUE(waits.cancel());
  EXPECT_TRUE(waits.cancel());
  EXPECT_TRUE(waits.done());
  EXPECT_EQ(told, 1);
  EXPECT_THROW(waits.get(), Error);
  const Request last = program->submit({three(3)}, {.wait_for_room = false});
  engine->open();
  expect_relu(runs.get(), 1);
  expect_relu(last.get(), 3);
  EXPECT_EQ(engine->order(), (std::vector<float>{1, 3}));
}

TEST_F(Submit, ErrorsBelongToTheirRequests) {
  const auto engine = door("submit_errors");
  const auto program = compiled("submit_errors", 2);
  EXPECT_THROW(program->submit({}), Error);
  EXPECT_THROW(program->submit({three(1)}, {}, std::vector<Data>(2)), Error);
  const Request wrong =
      program->submit({Tensor::from<float>(DType::kFloat32, {1}, std::span<const float>({1.0F}))});
  const Request right = program->submit({three(5)});
  const Request late = program->submit({three(5)}, {.timeout_s = -1});
  try {
    static_cast<void>(wrong.get());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("input 'x'"), std::string::npos) << error.what();
  }
  EXPECT_THROW(wrong.get(), Error);
  EXPECT_THROW(late.get(), Error);
  expect_relu(right.get(), 5);
}

TEST_F(Submit, WritesIntoMemoryThatIsGiven) {
  const auto program = compiled("native", 2);
  Tensor y = Tensor::allocate(DType::kFloat32, {3});
  const std::vector<Data> outputs = program->submit({three(2)}, {}, {y}).get();
  EXPECT_EQ(std::as_const(outputs[0]).tensor().raw(), std::as_const(y).raw());
  expect_relu({y}, 2);
}

TEST_F(Submit, ACallbackMaySubmitMoreThanThereIsRoomFor) {
  const auto program = compiled("native", 1, 1);
  std::mutex mutex;
  std::vector<Request> more;
  const Request first = program->submit({three(1)}, {}, {}, [&](const Request&) {
    const std::lock_guard lock(mutex);
    for (int i = 0; i < 5; ++i) more.push_back(program->submit({three(static_cast<float>(i))}));
  });
  first.wait();
  for (;;) {
    {
      const std::lock_guard lock(mutex);
      if (more.size() == 5) break;
    }
    std::this_thread::yield();
  }
  for (int i = 0; i < 5; ++i) {
    expect_relu(more[static_cast<std::size_t>(i)].get(), static_cast<float>(i));
  }
}

TEST_F(Submit, AProgramThatGoesWaitsForItsRequests) {
  std::vector<Request> requests;
  std::atomic<int> told{0};
  {
    const auto program = compiled("native", 2);
    for (int i = 0; i < 30; ++i) {
      requests.push_back(
          program->submit({three(static_cast<float>(i))}, {}, {}, [&](const Request&) { ++told; }));
    }
  }
  EXPECT_EQ(told, 30);
  for (int i = 0; i < 30; ++i) {
    EXPECT_TRUE(requests[static_cast<std::size_t>(i)].done());
    expect_relu(requests[static_cast<std::size_t>(i)].get(), static_cast<float>(i));
  }
}

TEST_F(Submit, ACallbackMayLetTheProgramGo) {
  for (const int streams : {1, 3}) {
    auto program = compiled("native", streams);
    std::vector<Request> requests;
    std::atomic<bool> may_go{false}, gone{false};
    requests.push_back(program->submit({three(0)}, {}, {}, [&](const Request&) {
      while (!may_go) std::this_thread::yield();
      program.reset();
      gone = true;
    }));
    for (int i = 1; i < 8; ++i) {
      requests.push_back(program->submit({three(static_cast<float>(i))}));
    }
    may_go = true;
    while (!gone) std::this_thread::yield();
    for (int i = 0; i < 8; ++i) {
      EXPECT_TRUE(requests[static_cast<std::size_t>(i)].done());
      expect_relu(requests[static_cast<std::size_t>(i)].get(), static_cast<float>(i));
    }
  }
}

TEST_F(Submit, ManyThreadsSubmitAndTakeBack) {
  const auto program = compiled("native", 4, 8);
  std::vector<std::thread> threads;
  std::atomic<int> right{0}, taken_back{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        const auto value = static_cast<float>(t * 100 + i);
        const Request request = program->submit({three(value)});
        if (i % 3 == 0 && request.cancel()) {
          ++taken_back;
          continue;
        }
        const std::vector<Data> outputs = request.get();
        right += std::as_const(outputs[0]).tensor().data<float>()[2] == value + 1 ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right + taken_back, 800);
}

// Runs of one thread each are side by side on each engine, and all are right.
TEST_F(Submit, StreamsOfEachEngine) {
  constexpr std::int64_t kSize = 64;
  Graph g("product");
  const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Shape{kSize, kSize}));
  Tensor w = Tensor::allocate(DType::kFloat32, {kSize, kSize});
  for (std::int64_t i = 0; i < w.count(); ++i) w.data<float>()[i] = static_cast<float>(i % 3 - 1);
  g.add_output(g.add_op("Relu", {g.add_op("MatMul", {x, g.add_constant("w", w)})}, {}, "y"));
  for (const char* engine : {"native", "openvino", "xla", "template"}) {
    if (!testing::is_there(engine)) continue;
    for (const int streams : {1, 2, 3, 6}) {
      const auto program =
          Program::compile(Graph(g), {.engines = {engine}, .streams = streams, .cache_dir = ""});
      std::vector<Request> requests;
      for (int n = 0; n < 16; ++n) {
        Tensor values = Tensor::allocate(DType::kFloat32, {kSize, kSize});
        for (std::int64_t i = 0; i < values.count(); ++i) {
          values.data<float>()[i] = static_cast<float>((i + n) % 5);
        }
        requests.push_back(program->submit({values}));
      }
      for (int n = 0; n < 16; ++n) {
        const std::vector<Data> outputs = requests[static_cast<std::size_t>(n)].get();
        const float* y = std::as_const(outputs[0]).tensor().data<float>();
        for (const std::int64_t at : {std::int64_t{0}, kSize + 7, kSize * kSize - 1}) {
          float sum = 0;
          for (std::int64_t k = 0; k < kSize; ++k) {
            sum += static_cast<float>((at / kSize * kSize + k + n) % 5) *
                   static_cast<float>((k * kSize + at % kSize) % 3 - 1);
          }
          EXPECT_EQ(y[at], std::max(sum, 0.0F)) << engine << ", " << streams << " streams";
        }
      }
    }
  }
}

#ifndef XRT_SANITIZED
// A child has none of the threads of its parent.
TEST_F(Submit, AChildHasAQueueOfItsOwn) {
  const auto engine = door("submit_fork");
  engine->close();
  const auto program = compiled("submit_fork", 1, 64, 1);
  const Request parents = program->submit({three(1)});
  engine->wait_for_runs(1);
  const pid_t child = ::fork();
  if (child == 0) {
    engine->open();
    int code = 0;
    try {
      parents.wait();
      code = 1;
    } catch (const Error& error) {
      code = error.code() == ErrorCode::kEngine ? 0 : 2;
    }
    const auto own = program->submit({three(2)}).get();
    if (std::as_const(own[0]).tensor().data<float>()[0] != 2) code += 4;
    ::_exit(code);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  engine->open();
  expect_relu(parents.get(), 1);
}
#endif

}  // namespace
}  // namespace xrt
