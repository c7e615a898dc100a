// SPDX-License-Identifier: Apache-2.0
// What the runtime adds to a launch: a program whose one function does nothing.
//
//   ./dev bench launch_overhead
#include <benchmark/benchmark.h>

#include <memory>
#include <utility>
#include <vector>

#include "xrt/program.h"

namespace {

using namespace xrt;  // NOLINT(google-build-using-namespace): a benchmark program

class NothingExecutable : public Executable {
 public:
  void run(const RunArgs& /*args*/) const override {}
};

class NothingEngine : public Engine {
 public:
  const EngineInfo& info() const override { return info_; }
  Support supports(const SupportQuery& /*query*/) const override { return Support::yes(); }
  std::shared_ptr<const Executable> compile(const Function& /*function*/,
                                            const CompileOptions& /*options*/) const override {
    return std::make_shared<NothingExecutable>();
  }

 private:
  EngineInfo info_ = {.name = "nothing", .version = "1"};
};

void launch(benchmark::State& state, const std::string& engine, std::int64_t size) {
  Graph graph("empty");
  const ValueId x = graph.add_input("x", Type::tensor(DType::kFloat32, Dims{size}));
  graph.add_output(graph.add_op("Relu", {x}, {}, "y"));
  const auto program = Program::compile(std::move(graph), {.engines = {engine}});
  const std::vector<Data> inputs = {Tensor::allocate(DType::kFloat32, {size})};
  std::vector<Data> outputs = {Tensor::allocate(DType::kFloat32, {size})};
  for (auto _ : state) {
    program->run(inputs, outputs);
    benchmark::DoNotOptimize(outputs);
  }
}

void empty_function(benchmark::State& state) { launch(state, "nothing", 1); }
void native_relu_of_one(benchmark::State& state) { launch(state, "native", 1); }
void native_relu_of_1024(benchmark::State& state) { launch(state, "native", 1024); }

BENCHMARK(empty_function);
BENCHMARK(native_relu_of_one);
BENCHMARK(native_relu_of_1024);

}  // namespace

int main(int argc, char** argv) {
  register_engine(std::make_shared<NothingEngine>());
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
