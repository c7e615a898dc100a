// SPDX-License-Identifier: Apache-2.0
// Opens the engine as the runtime does, and runs graphs on it alone.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/engine_calls.h"
#include "xrt/registry.h"

namespace xrt::testing_openvino {

inline const Engine& engine() {
  static const std::shared_ptr<const Engine> loaded = get_engine("openvino");
  return *loaded;
}

inline std::shared_ptr<const Executable> compile(const Graph& graph,
                                                 std::vector<InputOutputAlias> aliases = {},
                                                 int threads = 2) {
  CompileOptions options;
  options.num_threads = threads;
  return engine().compile(function_of("f", graph, std::move(aliases)), options);
}

inline std::vector<Data> run(const Executable& executable, std::vector<Data> inputs,
                             std::size_t outputs) {
  const auto context = executable.create_context();
  std::vector<Data> results(outputs);
  run_once(executable, context.get(), inputs, results);
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
