// SPDX-License-Identifier: Apache-2.0
// Opens the native engine as the runtime does, and runs graphs on it alone.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ops/shape_inference.h"
#include "xrt/engine.h"

namespace xrt::testing_native {

class Registry : public EngineRegistry {
 public:
  void add(std::shared_ptr<const Engine> added, std::uint32_t abi) override {
    ASSERT_EQ(abi, kEngineAbi);
    engine = std::move(added);
  }
  std::shared_ptr<const Engine> engine;
};

inline const Engine& engine() {
  static const std::shared_ptr<const Engine> loaded = [] {
    const auto program = std::filesystem::read_symlink("/proc/self/exe");
    const auto path =
        program.parent_path().parent_path() / "lib/xrt/engines/libxrt_engine_native.so";
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    Registry registry;
    reinterpret_cast<RegisterEngineFunction>(dlsym(library, kRegisterEngineSymbol))(&registry);
    return registry.engine;
  }();
  return *loaded;
}

inline std::shared_ptr<const Executable> compile(Graph& graph,
                                                 std::vector<InputOutputAlias> aliases = {}) {
  infer_shapes(graph);
  CompileOptions options;
  options.num_threads = 2;
  return engine().compile(Function{"f", graph, std::move(aliases), {}}, options);
}

inline std::vector<Data> run(const Executable& executable, const std::vector<Data>& inputs,
                             std::size_t outputs, RunContext* context = nullptr) {
  std::vector<Data> results(outputs);
  executable.run(context, inputs, results, {});
  return results;
}

// Compiles and runs a graph with one output.
inline Tensor evaluate(Graph& graph, const std::vector<Data>& inputs) {
  return run(*compile(graph), inputs, 1)[0].tensor();
}

template <typename T>
Tensor tensor(DType dtype, Dims dims, const std::vector<T>& values) {
  return Tensor::from<T>(dtype, std::move(dims), std::span<const T>(values));
}
inline Tensor floats(Dims dims, const std::vector<float>& values) {
  return tensor(DType::kFloat32, std::move(dims), values);
}
inline Tensor int64s(Dims dims, const std::vector<std::int64_t>& values) {
  return tensor(DType::kInt64, std::move(dims), values);
}

template <typename T = float>
std::vector<T> elements(const Tensor& t) {
  return {t.data<T>(), t.data<T>() + t.count()};
}

}  // namespace xrt::testing_native
