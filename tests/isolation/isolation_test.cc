// SPDX-License-Identifier: Apache-2.0
// Engines in a process of their own: results, and what is left when they fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "engine/host.h"
#include "tests/isolation/faults.h"
#include "tests/isolation/landlock_of_kernel.h"
#include "xrt/program.h"
#include "xrt/registry.h"
#include "xrt/threads.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kSize = 256;

// The workers of this process: its children that run xrt_worker.
std::vector<pid_t> workers() {
  std::vector<pid_t> found;
  for (const auto& task : fs::directory_iterator("/proc/self/task")) {
    std::ifstream children(task.path() / "children");
    for (pid_t child = 0; children >> child;) {
      std::ifstream file("/proc/" + std::to_string(child) + "/comm");
      std::string name;
      if (file >> name && name == "xrt_worker") found.push_back(child);
    }
  }
  return found;
}

std::ptrdiff_t descriptors() {
  return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
}

Graph relu_graph(std::vector<Dim> dims = {Dim(kSize)}) {
  Graph graph("test");
  const ValueId x = graph.add_input("x", Type::tensor(DType::kFloat32, Shape(std::move(dims))));
  graph.add_output(graph.add_op("Relu", {x}, {}, "y"));
  graph.opsets()[""] = kOnnxOpset;
  return graph;
}

std::shared_ptr<Program> relu(ProgramOptions options = {}, std::vector<Dim> dims = {Dim(kSize)}) {
  if (options.engines == ProgramOptions().engines) options.engines = {"faulty"};
  options.isolation = {"process"};
  if (!options.cache_dir) options.cache_dir = "";
  return Program::compile(relu_graph(std::move(dims)), options);
}

Tensor input(int first, std::int64_t size = kSize) {
  Tensor x = Tensor::allocate(DType::kFloat32, {size});
  std::iota(x.data<float>(), x.data<float>() + size, -100.0F);
  x.data<float>()[0] = static_cast<float>(first);
  return x;
}

std::vector<float> run(Program& program, const Tensor& x, const RunOptions& options = {}) {
  std::vector<Data> outputs;
  const std::vector<Data> inputs{x};
  program.run(inputs, outputs, options);
  const Tensor& y = std::as_const(outputs.at(0)).tensor();
  return {y.data<float>(), y.data<float>() + y.count()};
}

std::vector<float> expected(const Tensor& x) {
  std::vector<float> y(x.data<float>(), x.data<float>() + x.count());
  for (float& v : y) v = std::max(v, 0.0F);
  return y;
}

std::string failure(ErrorCode code, const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

class Isolation : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("XRT_ENGINE_PATH", XRT_FAULTY_ENGINE, 1);
    ::setenv("XRT_WORKER_MEMORY", "1000000000", 1);
  }
  // That the program still computes.
  static void expect_works(Program& program) {
    const Tensor x = input(5);
    EXPECT_EQ(run(program, x), expected(x));
  }
  static std::string run_failure(Program& program, int fault) {
    return failure(ErrorCode::kEngine, [&] { run(program, input(fault)); });
  }
};

TEST_F(Isolation, ResultsAreThoseOfTheEngine) {
  const auto program = relu();
  for (int turn = 0; turn < 5; ++turn) {
    const Tensor x = input(turn);
    EXPECT_EQ(run(*program, x), expected(x));
  }
  EXPECT_EQ(workers().size(), 1U);
  EXPECT_THAT(program->explain().launches.at(0).engine, "faulty@process");
}

TEST_F(Isolation, ALibraryIsNotOpenedInThisProcess) {
  const auto program = relu();
  const std::string maps = read_file("/proc/self/maps");
  EXPECT_THAT(maps, ::testing::Not(HasSubstr("libxrt_engine_faulty")));
}

TEST_F(Isolation, ACrashIsAnErrorAndTheNextRunWorks) {
  const auto program = relu();
  EXPECT_THAT(
      run_failure(*program, faults::kAbort),
      AllOf(HasSubstr("engine 'faulty@process'"), HasSubstr("function '"), HasSubstr("SIGABRT")));
  expect_works(*program);
  EXPECT_THAT(run_failure(*program, faults::kSegv), HasSubstr("SIGSEGV"));
  expect_works(*program);
  EXPECT_THAT(run_failure(*program, faults::kExit), HasSubstr("exited with status 3"));
  expect_works(*program);
}

TEST_F(Isolation, AnErrorOfTheEngineLeavesTheWorker) {
  const auto program = relu();
  expect_works(*program);
  const std::vector<pid_t> before = workers();
  EXPECT_THAT(run_failure(*program, faults::kThrow), HasSubstr("it fell over"));
  EXPECT_THAT(run_failure(*program, faults::kShape), HasSubstr("the engine gave float32[7,7]"));
  expect_works(*program);
  EXPECT_EQ(workers(), before);
}

TEST_F(Isolation, AWorkerHasNoNetwork) {
  const auto program = relu();
  EXPECT_THAT(run_failure(*program, faults::kNetwork), HasSubstr("no network"));
}

TEST_F(Isolation, AWorkerHasNoMemoryOfThisProcess) {
  if (landlock_of_kernel() < 1) GTEST_SKIP() << "this kernel is without Landlock";
  const auto program = relu();
  EXPECT_THAT(run_failure(*program, faults::kMemory), HasSubstr("no memory of it"));
}

TEST_F(Isolation, AWorkerHasNoSignalsForThisProcess) {
  const auto program = relu();
  EXPECT_THAT(run_failure(*program, faults::kSignal), HasSubstr("no signal"));
}

TEST_F(Isolation, AWorkerHasNoDescriptorsOfThisProcess) {
  const auto program = relu();
  EXPECT_THAT(run_failure(*program, faults::kDescriptor), HasSubstr("no descriptor"));
}

TEST_F(Isolation, ALeakIsAnError) {
  const auto program = relu();
  EXPECT_THAT(run_failure(*program, faults::kLeak), HasSubstr("XRT_WORKER_MEMORY"));
  expect_works(*program);
}

// A run of the engine itself, with a limit.
class LimitedRun {
 public:
  explicit LimitedRun(Graph graph)
      : graph_(std::move(graph)),
        executable_(get_engine("faulty@process")->compile(function_of("relu", graph_), {})),
        context_(executable_->create_context()) {}
  std::vector<float> run(const Tensor& x, double seconds) {
    const std::vector<Data> inputs{x};
    std::vector<Data> outputs(1);
    const RunLimit limit(seconds);
    RunData data{inputs, outputs};
    data.limit = &limit;
    executable_->run(run_args(data, context_.get()));
    const Tensor& y = std::as_const(outputs.at(0)).tensor();
    return {y.data<float>(), y.data<float>() + y.count()};
  }

 private:
  const Graph graph_;
  std::shared_ptr<const Executable> executable_;
  std::unique_ptr<RunContext> context_;
};

TEST_F(Isolation, AHangEndsWithItsLimit) {
  LimitedRun relu(relu_graph());
  const Tensor x = input(1);
  EXPECT_EQ(relu.run(x, 10), expected(x));
  const std::string text =
      failure(ErrorCode::kResource, [&] { relu.run(input(faults::kHang), 0.2); });
  EXPECT_THAT(text, AllOf(HasSubstr("engine 'faulty@process', function 'relu'"),
                          HasSubstr("the limit of the run, 0.2")));
  EXPECT_EQ(relu.run(x, 10), expected(x));
}

TEST_F(Isolation, AnEngineThatIsToldToStopKeepsItsWorker) {
  LimitedRun relu(relu_graph());
  const Tensor x = input(1);
  EXPECT_EQ(relu.run(x, 10), expected(x));
  const std::vector<pid_t> before = workers();
  EXPECT_THAT(failure(ErrorCode::kEngine, [&] { relu.run(input(faults::kPatient), 0.1); }),
              HasSubstr("it was told to stop"));
  EXPECT_EQ(workers(), before);
  EXPECT_EQ(relu.run(x, 10), expected(x));
}

TEST_F(Isolation, ACrashWhileCompilingIsAnError) {
  ProgramOptions options;
  options.engine_options["faulty"]["compile"] = std::to_string(faults::kSegv);
  EXPECT_THAT(failure(ErrorCode::kEngine, [&] { relu(options); }),
              AllOf(HasSubstr("faulty"), HasSubstr("SIGSEGV"), HasSubstr("Relu")));
  options.fallback = true;
  const auto program = relu(options);
  expect_works(*program);
  EXPECT_EQ(program->explain().launches.at(0).engine, "native");
}

TEST_F(Isolation, ACrashWhileLoadingABlobIsAnError) {
  const TemporaryFolder folder("isolation");
  ProgramOptions options;
  options.cache_dir = folder.path();
  relu(options);
  options.engine_options["faulty"]["load"] = "0";
  expect_works(*relu(options));
}

TEST_F(Isolation, AnEngineThatCannotBeLoadedIsAnError) {
  if (const pid_t child = ::fork(); child == 0) {
    ::setenv("XRT_TEST_FAULT_AT_LOAD", std::to_string(faults::kAbort).c_str(), 1);
    try {
      relu();
    } catch (const Error& error) {
      const std::string text = error.what();
      ::_exit(text.find("SIGABRT") != std::string::npos ? 0 : 2);
    }
    ::_exit(3);
  } else {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
}

TEST_F(Isolation, UnknownNamesAreErrors) {
  ProgramOptions options;
  options.engines = {"native"};
  options.isolation = {"opnvino"};
  const std::string text =
      failure(ErrorCode::kInvalidArgument, [&] { Program::compile(relu_graph(), options); });
  EXPECT_THAT(text, HasSubstr("isolation: there is no engine 'opnvino'"));
}

TEST_F(Isolation, ShapesThatAreOnlyKnownAtTheRun) {
  const auto program = relu({}, {Dim("n")});
  for (const std::int64_t size : {3, 100'000, 1, 70'000, 200'000, 0}) {
    const Tensor x = size == 0 ? Tensor::allocate(DType::kFloat32, {0}) : input(1, size);
    EXPECT_EQ(run(*program, x), expected(x)) << size;
  }
}

// Large outputs are given away in shared memory: they stay what they were.
TEST_F(Isolation, OutputsOutliveFurtherRuns) {
  constexpr std::int64_t kLarge = 1 << 20;
  const auto program = relu({}, {Dim(kLarge)});
  std::vector<Data> kept;
  std::vector<Tensor> given;
  for (int turn = 0; turn < 10; ++turn) {
    given.push_back(input(turn + 1, kLarge));
    std::vector<Data> outputs;
    const std::vector<Data> inputs{given.back()};
    program->run(inputs, outputs);
    kept.push_back(outputs.at(0));
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const Tensor& y = std::as_const(kept[i]).tensor();
    const std::vector<float> values(y.data<float>(), y.data<float>() + y.count());
    EXPECT_EQ(values, expected(given[i]));
  }
}

TEST_F(Isolation, KillsInTheMiddleOfRunsByManyThreads) {
  const auto program = relu();
  std::atomic<bool> ends{false};
  std::atomic<int> good{0}, failed{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      while (!ends) {
        const Tensor x = input(t + 1);
        try {
          run(*program, x) == expected(x) ? ++good : ++wrong;
        } catch (const Error& error) {
          error.code() == ErrorCode::kEngine ? ++failed : ++wrong;
        }
      }
    });
  }
  for (int turn = 0; turn < 10; ++turn) {
    std::this_thread::sleep_for(100ms);
    for (const pid_t worker : workers()) ::kill(worker, SIGKILL);
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(good, 0);
  EXPECT_GT(failed, 0);
  expect_works(*program);
  EXPECT_EQ(workers().size(), 1U);
}

TEST_F(Isolation, AProgramGoesWhileItsWorkerHangs) {
  // A launch that hangs keeps its threads: room for two.
  set_thread_budget(2);
  ProgramOptions options;
  options.num_threads = 1;
  auto program = relu(options);
  expect_works(*program);
  std::thread hanging([kept = program] { EXPECT_THROW(run(*kept, input(faults::kHang)), Error); });
  std::this_thread::sleep_for(100ms);
  program.reset();
  const auto next = relu(options);
  expect_works(*next);
  for (const pid_t worker : workers()) ::kill(worker, SIGKILL);
  hanging.join();
  expect_works(*next);
}

TEST_F(Isolation, LoadsLeaveNothingBehind) {
  expect_works(*relu());
  const std::ptrdiff_t before = descriptors();
  for (int turn = 0; turn < 100; ++turn) expect_works(*relu());
  EXPECT_LE(descriptors(), before + 2);
  EXPECT_EQ(workers().size(), 1U);
}

TEST_F(Isolation, ACopyOfThisProcessStartsAWorkerOfItsOwn) {
  const auto program = relu();
  expect_works(*program);
  const pid_t child = ::fork();
  if (child == 0) {
    const Tensor x = input(5);
    bool works = false;
    try {
      works = run(*program, x) == expected(x);
    } catch (const Error& error) {
      std::fputs(error.what(), stderr);
    }
    ::_exit(works ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  expect_works(*program);
}

// A worker does not outlive the process that started it, however that one ends.
TEST_F(Isolation, AWorkerEndsWithItsProcess) {
  int pipe[2] = {};
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    relu();
    const pid_t worker = workers().at(0);
    if (::write(pipe[1], &worker, sizeof(worker)) < 0) ::_exit(1);
    ::kill(::getpid(), SIGKILL);
  }
  pid_t worker = 0;
  ASSERT_EQ(::read(pipe[0], &worker, sizeof(worker)), static_cast<ssize_t>(sizeof(worker)));
  ::waitpid(child, nullptr, 0);
  for (int turn = 0; turn < 100 && ::kill(worker, 0) == 0; ++turn) {
    const std::string state = [&] {
      std::ifstream file("/proc/" + std::to_string(worker) + "/stat");
      std::string id, name, letter;
      file >> id >> name >> letter;
      return letter;
    }();
    if (state.empty() || state == "Z") return;
    std::this_thread::sleep_for(50ms);
  }
  EXPECT_NE(::kill(worker, 0), 0) << "process " << worker << " is still there";
}

}  // namespace
}  // namespace xrt
