// SPDX-License-Identifier: Apache-2.0
// Opens the engine as the runtime does, and runs graphs on it alone.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "xrt/engine.h"

namespace xrt::testing_openvino {

class Registry : public EngineRegistry {
 public:
  void add(std::shared_ptr<const Engine> added, std::uint32_t abi) override {
    ASSERT_EQ(abi, kEngineAbi);
    engine = std::move(added);
  }
  std::shared_ptr<const Engine> engine;
};

inline std::filesystem::path engine_library(const std::string& name) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  return program.parent_path().parent_path() / ("lib/xrt/engines/libxrt_engine_" + name + ".so");
}

inline std::shared_ptr<const Engine> open_engine(const std::string& name) {
  void* library = dlopen(engine_library(name).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  const auto entry =
      reinterpret_cast<RegisterEngineFunction>(dlsym(library, kRegisterEngineSymbol));
  Registry registry;
  entry(&registry);
  return registry.engine;
}

inline const Engine& engine() {
  static const std::shared_ptr<const Engine> loaded = open_engine("openvino");
  return *loaded;
}

inline std::shared_ptr<const Executable> compile(const Graph& graph,
                                                 std::vector<InputOutputAlias> aliases = {}) {
  const Function function{"f", graph, std::move(aliases), {}};
  CompileOptions options;
  options.num_threads = 2;
  return engine().compile(function, options);
}

inline std::vector<Data> run(const Executable& executable, std::vector<Data> inputs,
                             std::size_t outputs) {
  const auto context = executable.create_context();
  std::vector<Data> results(outputs);
  executable.run(context.get(), inputs, results, {});
  return results;
}

inline Tensor floats(Dims dims, std::vector<float> values) {
  return Tensor::from<float>(DType::kFloat32, std::move(dims), values);
}

inline std::vector<float> values(const Data& data) {
  const Tensor& tensor = data.tensor();
  return {tensor.data<float>(), tensor.data<float>() + tensor.count()};
}

// Elements of an integer or bool tensor.
inline std::vector<std::int64_t> integers(const Data& data) { return data.tensor().to_int64(); }

template <typename T>
Tensor tensor_of(DType dtype, Dims dims, std::vector<T> values) {
  return Tensor::from<T>(dtype, std::move(dims), values);
}

}  // namespace xrt::testing_openvino
