// SPDX-License-Identifier: Apache-2.0
// Probes engines by really running one op on each.
#include <array>
#include <exception>
#include <map>

#include "onnx/exporter.h"
#include "registry/engine_failure.h"
#include "xrt/registry.h"

namespace xrt {
namespace {

std::string install_hint(const std::string& engine) {
  if (engine == "native") return "pip install onednn-cpu-tbb==2023.2.0 (and TBB: Debian libtbb12)";
  if (engine == "openvino") return "pip install openvino==2026.4.1";
  if (engine == "xla") return "pip install xla-cpu-pjrt==0.0.1, or set XRT_PJRT_PLUGIN";
  if (engine == "tvm") {
    return "pip install apache-tvm==0.27.0.post1 apache-tvm-ffi==0.1.14.post1, and a C++ compiler";
  }
  if (engine == "onnxruntime") return "pip install onnxruntime==1.31.1";
  if (engine == "tensorrt") {
    return "it runs on an NVIDIA GPU with a driver; docs/reference/engines.md says how to build "
           "plans "
           "without";
  }
  return "see the documentation of the engine; its library is found through XRT_ENGINE_PATH";
}

// Options with which an engine compiles for a device of another machine; empty: it cannot.
std::map<std::string, std::string> elsewhere_options(const std::string& engine) {
  if (engine == "tensorrt") return {{"compute_capabilities", "89"}};
  return {};
}

// y = max(x, 0) on {-1, 2} and back; with `elsewhere`, compiled with these options and not run.
void try_relu(const Engine& engine, const std::map<std::string, std::string>& elsewhere = {}) {
  Graph graph("probe");
  const ValueId x = graph.add_input("x", Type::tensor(DType::kFloat32, Dims{2}));
  const ValueId y = graph.add_op("Relu", {x}, {}, "y");
  graph.set_type(y, Type::tensor(DType::kFloat32, Dims{2}));
  graph.add_output(y);
  const NodeId node = graph.value(y).producer;
  const std::string device = engine.devices().empty() ? "cpu" : engine.devices().front();
  if (const Support answer = engine.supports({graph, node, device}); !answer) {
    throw Error(ErrorCode::kUnsupported, "it refuses Relu: " + answer.reason());
  }
  const Function function{"probe", graph, {}, [&](std::size_t inline_limit) {
                            ExportOptions options;
                            options.inline_limit = inline_limit;
                            return export_onnx(graph, options);
                          }};
  CompileOptions options;
  options.device = device;
  options.engine_options = elsewhere;
  const auto executable = engine.compile(function, options);
  if (!elsewhere.empty()) return;
  const auto context = executable->create_context();
  const std::array<float, 2> values = {-1.0F, 2.0F};
  const std::array<Data, 1> inputs = {
      Tensor::from<float>(DType::kFloat32, {2}, std::span<const float>(values))};
  std::array<Data, 1> outputs = {Tensor::allocate(DType::kFloat32, {2})};
  executable->run(context.get(), inputs, outputs, {});
  const float* result = outputs[0].tensor().data<float>();
  if (result[0] != 0.0F || result[1] != 2.0F) {
    throw Error(ErrorCode::kEngine, "Relu of {-1, 2} came out as {" + std::to_string(result[0]) +
                                        ", " + std::to_string(result[1]) + "}");
  }
}

EngineReport probe(const std::string& name) {
  EngineReport report;
  report.name = name;
  report.install_hint = install_hint(name);
  try {
    const auto engine = get_engine(name);
    report.version = engine->version();
    report.location = engine->location();
    report.devices = engine->devices();
    report.op_count = engine->ops().size();
    try {
      try_relu(*engine);
      report.available = true;
    } catch (...) {
      report.error = exception_text();
      const auto options = elsewhere_options(name);
      if (options.empty()) return report;
      try_relu(*engine, options);
      report.builds = true;
    }
  } catch (...) {  // what a report is for: the cause is its content
    if (report.error.empty()) report.error = exception_text();
  }
  return report;
}

}  // namespace

std::vector<EngineReport> probe_engines() {
  std::vector<EngineReport> reports;
  for (const std::string& name : engine_names()) reports.push_back(probe(name));
  return reports;
}

}  // namespace xrt
