// SPDX-License-Identifier: Apache-2.0
#include "engines/openvino/engine.h"

#include <openvino/runtime/properties.hpp>

#include "engines/openvino/convert.h"
#include "engines/openvino/executable.h"
#include "engines/openvino/extensions.h"
#include "engines/openvino/library.h"
#include "engines/openvino/op_table.h"

namespace xrt::openvino {
namespace {

// bfloat16 where a graph has no other floating-point type, else float32. Left alone, the plugin
// computes float32 in bfloat16 on CPUs that have it.
ov::element::Type inference_precision(const Graph& graph) {
  bool any = false;
  for (std::size_t i = 0; i < graph.value_capacity(); ++i) {
    const ValueId id{static_cast<std::int32_t>(i)};
    if (!graph.alive(id) || !is_floating(graph.type(id).dtype)) continue;
    if (graph.type(id).dtype != DType::kBFloat16) return ov::element::f32;
    any = true;
  }
  return any ? ov::element::bf16 : ov::element::f32;
}

ov::AnyMap configuration(const Graph& graph, const CompileOptions& options) {
  ov::AnyMap config{
      ov::hint::performance_mode(ov::hint::PerformanceMode::LATENCY),
      ov::inference_num_threads(options.num_threads),
      ov::hint::inference_precision(inference_precision(graph)),
      // Left alone, the plugin quantises activations before matrices with compressed weights.
      ov::hint::dynamic_quantization_group_size(0),
  };
  for (const auto& [key, value] : options.engine_options) config[key] = value;
  return config;
}

void check_device(const std::string& device) {
  if (device != "cpu") {
    throw Error(ErrorCode::kUnsupported,
                "openvino: device '" + device + "' is not offered; it offers cpu");
  }
}

}  // namespace

std::string OpenVinoEngine::version() const { return library_version() + extensions_version(); }

std::string OpenVinoEngine::location() const { return library_location(); }

OpenVinoEngine::State& OpenVinoEngine::state() const {
  std::call_once(once_, [&] {
    translated("openvino: cannot start", [&] {
      state_.core = std::make_shared<ov::Core>();
      state_.core->set_property(ov::log::level(ov::log::Level::NO));
      for (const auto& library : extension_libraries()) {
        translated("openvino: extension '" + library.string() + "'",
                   [&] { state_.core->add_extension(library.string()); });
      }
      state_.oracle = std::make_unique<SupportOracle>(state_.core);
    });
  });
  return state_;
}

Support OpenVinoEngine::supports(const SupportQuery& query) const {
  if (query.device != "cpu") return Support::no("openvino offers the device cpu only");
  return state().oracle->check(query.graph, query.node);
}

std::vector<Support> OpenVinoEngine::supports_all(const Graph& graph, const std::string& device,
                                                  Phase) const {
  if (device != "cpu") {
    return std::vector<Support>(graph.node_capacity(),
                                Support::no("openvino offers the device cpu only"));
  }
  return state().oracle->check_all(graph);
}

std::shared_ptr<const Executable> OpenVinoEngine::compile(const Function& function,
                                                          const CompileOptions& options) const {
  check_device(options.device);
  return translated("openvino: function '" + function.name + "'", [&] {
    const std::optional<Graph> expanded = state().oracle->expanded(function.graph);
    const std::shared_ptr<ov::Model> model = convert(expanded ? *expanded : function.graph);
    return std::make_shared<const OpenVinoExecutable>(
        state().core->compile_model(model, "CPU", configuration(function.graph, options)), function,
        options.num_threads);
  });
}

std::shared_ptr<const Executable> OpenVinoEngine::load(const Tensor& blob, const Function& function,
                                                       const CompileOptions& options) const {
  check_device(options.device);
  return translated("openvino: function '" + function.name + "'", [&] {
    // OpenVINO takes mutable memory and only reads it.
    const ov::Tensor bytes(ov::element::u8, {blob.bytes()}, const_cast<void*>(blob.raw()));
    return std::make_shared<const OpenVinoExecutable>(
        state().core->import_model(bytes, "CPU", configuration(function.graph, options)), function,
        options.num_threads, blob);
  });
}

std::vector<std::string> OpenVinoEngine::ops() const { return op_table(); }

}  // namespace xrt::openvino

extern "C" __attribute__((visibility("default"))) void xrt_register_engine(
    xrt::EngineRegistry* registry) {
  registry->add(std::make_shared<xrt::openvino::OpenVinoEngine>());
}
