// SPDX-License-Identifier: Apache-2.0
// Opens the native engine as the runtime does, and runs graphs on it alone.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/host.h"
#include "ops/canonical.h"
#include "ops/shape_inference.h"
#include "xrt/registry.h"

namespace xrt::testing_native {

inline const Engine& engine() {
  static const std::shared_ptr<const Engine> loaded = get_engine("native");
  return *loaded;
}

inline std::shared_ptr<const Executable> compile(Graph& graph,
                                                 std::vector<InputOutputAlias> aliases = {},
                                                 int num_threads = 2) {
  infer_shapes(graph);
  canonicalize(graph);
  CompileOptions options;
  options.num_threads = num_threads;
  return engine().compile(function_of("f", graph, std::move(aliases)), options);
}

inline std::vector<Data> run(const Executable& executable, const std::vector<Data>& inputs,
                             std::size_t outputs, RunContext* context = nullptr) {
  std::vector<Data> results(outputs);
  RunData data{inputs, results};
  executable.run(run_args(data, context));
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
