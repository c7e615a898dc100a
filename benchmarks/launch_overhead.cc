// SPDX-License-Identifier: Apache-2.0
// What the runtime adds to a launch: a program whose one function does nothing.
//
//   ./dev bench launch_overhead
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "xrt/program.h"

namespace {

using namespace xrt;  // NOLINT(google-build-using-namespace): a benchmark program

class NothingExecutable : public Executable {
 public:
  void run(const RunArgs& args) const override {
    for (std::size_t i = 0; i < args.output_count(); ++i) {
      if (!args.output(i).defined()) args.allocate_output(i, DType::kFloat32, kRows);
    }
  }

 private:
  static constexpr std::array<std::int64_t, 1> kRows = {4};
};

class NothingEngine : public Engine {
 public:
  explicit NothingEngine(EngineInfo info) : info_(std::move(info)) {}
  const EngineInfo& info() const override { return info_; }
  Support supports(const SupportQuery& /*query*/) const override { return Support::yes(); }
  std::shared_ptr<const Executable> compile(const Function& /*function*/,
                                            const CompileOptions& /*options*/) const override {
    return std::make_shared<NothingExecutable>();
  }

 private:
  EngineInfo info_;
};

// Relu of one number, as little work as there is that can be right.
class OneReluEngine final : public NothingEngine {
 public:
  using NothingEngine::NothingEngine;
  std::shared_ptr<const Executable> compile(const Function& /*function*/,
                                            const CompileOptions& /*options*/) const override {
    return std::make_shared<OneRelu>();
  }

 private:
  class OneRelu : public Executable {
   public:
    void run(const RunArgs& args) const override {
      *args.output(0).data<float>() = std::max(*args.input(0).data<float>(), 0.0F);
    }
  };
};

// Time and memory of each run, as who serves strangers bounds them.
enum class Bounds { kDefault, kGiven };

void launch(benchmark::State& state, const std::string& engine, std::int64_t size,
            Bounds bounds = Bounds::kDefault) {
  Graph graph("empty");
  const ValueId x = graph.add_input("x", Type::tensor(DType::kFloat32, Dims{size}));
  graph.add_output(graph.add_op("Relu", {x}, {}, "y"));
  ProgramOptions options{.engines = {engine}, .check_results = false};
  if (bounds == Bounds::kGiven) {
    options.max_memory_bytes = std::size_t{256} << 20;
    options.deadline_s = 5;
  }
  const auto program = Program::compile(std::move(graph), options);
  const std::vector<Data> inputs = {Tensor::allocate(DType::kFloat32, {size})};
  std::vector<Data> outputs = {Tensor::allocate(DType::kFloat32, {size})};
  for (auto _ : state) {
    program->run(inputs, outputs);
    benchmark::DoNotOptimize(outputs);
  }
}

// Four rows of a table by indices: what the runtime's look at the indices costs is the difference
// between an engine that does not check them and one that says it does.
void gather(benchmark::State& state, const std::string& engine, const Shape& table) {
  Graph graph("gather");
  const ValueId data = graph.add_input("data", Type::tensor(DType::kFloat32, table));
  const ValueId ids = graph.add_input("ids", Type::tensor(DType::kInt64, Dims{4}));
  graph.add_output(graph.add_op("Gather", {data, ids}, {}, "y"));
  const auto program =
      Program::compile(std::move(graph), {.engines = {engine}, .check_results = false});
  const std::vector<Data> inputs = {Tensor::allocate(DType::kFloat32, {16}),
                                    Tensor::from_int64(std::vector<std::int64_t>{0, 5, 15, -16})};
  std::vector<Data> outputs = {Tensor::allocate(DType::kFloat32, {4})};
  for (auto _ : state) {
    program->run(inputs, outputs);
    benchmark::DoNotOptimize(outputs);
  }
}

// What the check of results adds to a run once it is over: it compares the first run, behind the
// second.
void after_check(benchmark::State& state, bool check) {
  Graph graph("one relu");
  const ValueId x = graph.add_input("x", Type::tensor(DType::kFloat32, Dims{1}));
  graph.add_output(graph.add_op("Relu", {x}, {}, "y"));
  const auto program =
      Program::compile(std::move(graph), {.engines = {"one_relu"}, .check_results = check});
  const std::vector<Data> inputs = {Tensor::scalar(-1.0F).reshaped({1})};
  std::vector<Data> outputs = {Tensor::allocate(DType::kFloat32, {1})};
  const auto is_over = [&] {
    const std::vector<std::string> notes = program->explain().notes;
    return std::any_of(notes.begin(), notes.end(), [](const std::string& note) {
      return note.starts_with("check_results: 1 function agrees");
    });
  };
  for (int run = 0; run < 2; ++run) program->run(inputs, outputs);
  while (check && !is_over()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (auto _ : state) {
    program->run(inputs, outputs);
    benchmark::DoNotOptimize(outputs);
  }
}

void results_unchecked(benchmark::State& state) { after_check(state, false); }
void results_were_checked(benchmark::State& state) { after_check(state, true); }

void empty_function(benchmark::State& state) { launch(state, "nothing", 1); }
void native_relu_of_one(benchmark::State& state) { launch(state, "native", 1); }
void native_relu_of_1024(benchmark::State& state) { launch(state, "native", 1024); }

void empty_function_bounded(benchmark::State& state) {
  launch(state, "nothing", 1, Bounds::kGiven);
}
void native_relu_of_one_bounded(benchmark::State& state) {
  launch(state, "native", 1, Bounds::kGiven);
}
void native_relu_of_1024_bounded(benchmark::State& state) {
  launch(state, "native", 1024, Bounds::kGiven);
}

void gather_unchecked(benchmark::State& state) { gather(state, "trusted", Shape{16}); }
void gather_checked(benchmark::State& state) { gather(state, "nothing", Shape{16}); }
void open_gather_unchecked(benchmark::State& state) { gather(state, "trusted", Shape{Dim("n")}); }
void open_gather_checked(benchmark::State& state) { gather(state, "nothing", Shape{Dim("n")}); }

BENCHMARK(empty_function);
BENCHMARK(native_relu_of_one);
BENCHMARK(native_relu_of_1024);
BENCHMARK(empty_function_bounded);
BENCHMARK(native_relu_of_one_bounded);
BENCHMARK(native_relu_of_1024_bounded);
BENCHMARK(results_unchecked);
BENCHMARK(results_were_checked);
BENCHMARK(gather_unchecked);
BENCHMARK(gather_checked);
BENCHMARK(open_gather_unchecked);
BENCHMARK(open_gather_checked);

}  // namespace

int main(int argc, char** argv) {
  // Both take any shape, so that sizes are known in a run only.
  register_engine(std::make_shared<NothingEngine>(
      EngineInfo{.name = "nothing", .version = "1", .shapes = Shapes::kAny}));
  register_engine(std::make_shared<OneReluEngine>(
      EngineInfo{.name = "one_relu", .version = "1", .shapes = Shapes::kAny}));
  register_engine(std::make_shared<NothingEngine>(EngineInfo{
      .name = "trusted", .version = "1", .shapes = Shapes::kAny, .checks_indices = true}));
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
