// SPDX-License-Identifier: Apache-2.0
// Probes engines by really running one op on each.
#include "registry/doctor.h"

#include <array>
#include <exception>
#include <map>

#include "engine/host.h"
#include "registry/engine_failure.h"
#include "registry/engine_manifest.h"

namespace xrt {
namespace {

// y = max(x, 0) on {-1, 2} and back; with `elsewhere`, compiled with these options and not run.
void try_relu(const Engine& engine, const std::map<std::string, std::string>& elsewhere = {}) {
  Graph graph("probe");
  const ValueId x = graph.add_input("x", Type::tensor(DType::kFloat32, Dims{2}));
  const ValueId y = graph.add_op("Relu", {x}, {}, "y");
  graph.set_type(y, Type::tensor(DType::kFloat32, Dims{2}));
  graph.add_output(y);
  const NodeId node = graph.value(y).producer;
  const std::vector<DeviceInfo>& devices = engine.info().devices;
  const std::string device = devices.empty() ? "cpu" : devices.front().name;
  if (const Support answer = engine.supports({view_of(graph), node, device}); !answer) {
    throw Error(ErrorCode::kUnsupported, "it refuses Relu: " + answer.reason());
  }
  CompileOptions options;
  options.device = device;
  options.engine_options = elsewhere;
  const auto executable = engine.compile(function_of("probe", graph), options);
  if (executable == nullptr) throw Error(ErrorCode::kEngine, "compile() returned no executable");
  if (!elsewhere.empty()) return;
  const auto context = executable->create_context();
  const std::array<float, 2> values = {-1.0F, 2.0F};
  const std::array<Data, 1> inputs = {
      Tensor::from<float>(DType::kFloat32, {2}, std::span<const float>(values))};
  std::array<Data, 1> outputs = {Tensor::allocate(DType::kFloat32, {2})};
  RunData data{inputs, outputs};
  executable->run(run_args(data, context.get()));
  const float* result = outputs[0].tensor().data<float>();
  if (result[0] != 0.0F || result[1] != 2.0F) {
    throw Error(ErrorCode::kEngine, "Relu of {-1, 2} came out as {" + std::to_string(result[0]) +
                                        ", " + std::to_string(result[1]) + "}");
  }
}

std::string hint(const std::string& engine) {
  const std::string install = engine_manifest(engine).install;
  if (!install.empty()) return install;
  return "see the documentation of the engine; its library is found through XRT_ENGINE_PATH";
}

EngineReport probe(const std::string& name) {
  EngineReport report;
  report.name = name;
  report.install_hint = hint(name);
  try {
    const auto engine = get_engine(name);
    const EngineInfo& info = engine->info();
    report.version = info.version;
    report.location = info.location;
    for (const DeviceInfo& device : info.devices) report.devices.push_back(device.name);
    report.op_count = engine->ops().size();
    try {
      try_relu(*engine);
      report.available = true;
    } catch (...) {
      report.error = exception_text();
      const auto& options = info.offline_options;
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

std::vector<EngineReport> probe_engines(const std::vector<std::string>& names) {
  std::vector<EngineReport> reports;
  reports.reserve(names.size());
  for (const std::string& name : names) reports.push_back(probe(name));
  return reports;
}

std::vector<EngineReport> probe_engines() { return probe_engines(engine_names()); }

}  // namespace xrt
