// SPDX-License-Identifier: Apache-2.0
#include "engines/openvino/engine.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <openvino/op/constant.hpp>
#include <openvino/op/convolution.hpp>
#include <openvino/op/parameter.hpp>
#include <openvino/runtime/properties.hpp>
#include <string>

#include "base/scoped_variable.h"
#include "device/processor.h"
#include "engine/handles.h"
#include "engines/openvino/convert.h"
#include "engines/openvino/executable.h"
#include "engines/openvino/extensions.h"
#include "engines/openvino/library.h"
#include "engines/openvino/op_table.h"
#include "engines/openvino/rules.h"
#include "ops/op_facts.h"

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

ov::element::Type inference_precision(const Graph& graph, const CompileOptions& options) {
  if (options.precision == Precision::kBF16) return ov::element::bf16;
  if (options.precision == Precision::kF16) return ov::element::f16;
  return inference_precision(graph);
}

// What the plugin makes for a new size, it keeps for the next run with that size. Left alone it
// keeps 5,000 primitives per model, of 0.1 to 1 MiB each. A model of many convolutions and products
// needs one for each of them, or every run makes them all anew: this many serve four sets of sizes.
int kept_primitives(const Graph& graph) {
  constexpr std::size_t kLeast = 112, kSets = 4;
  std::size_t heavy = 0;
  for (const NodeId id : graph.nodes()) {
    if (op_facts(graph.node(id)).cost != CostClass::kElements) ++heavy;
  }
  return static_cast<int>(std::max(kLeast, kSets * heavy));
}

ov::AnyMap configuration(const Graph& graph, const CompileOptions& options) {
  ov::AnyMap config{
      ov::hint::performance_mode(ov::hint::PerformanceMode::LATENCY),
      ov::inference_num_threads(options.num_threads * options.streams),
      ov::hint::inference_precision(inference_precision(graph, options)),
      // Left alone, the plugin quantises activations before matrices with compressed weights.
      ov::hint::dynamic_quantization_group_size(0),
      {"CPU_RUNTIME_CACHE_CAPACITY", kept_primitives(graph)},
  };
  const std::vector<std::size_t> groups = elementwise_groups(graph);
  if (!groups.empty() && *std::max_element(groups.begin(), groups.end()) > kMostInOneKernel) {
    config["SNIPPETS_MODE"] = "DISABLE";
  }
  if (options.streams > 1) config.insert(ov::num_streams(options.streams));
  for (const auto& [key, value] : options.engine_options) config[key] = value;
  return config;
}

// The oneDNN inside the plugin has a cache of its own for the process, which holds what the models
// gave up: of 1,024 primitives unless the environment says otherwise when the first one is made.
// Layers that are alike share primitives by it, for which this many will do.
constexpr const char* kPrimitivesVariable = "ONEDNN_PRIMITIVE_CACHE_CAPACITY";
constexpr const char* kSharedPrimitives = "128";

void bound_primitives(ov::Core& core) {
  const char* given = std::getenv(kPrimitivesVariable);
  // Not for longer than it takes: PyTorch has a oneDNN, too.
  const ScopedVariable scope(kPrimitivesVariable, given == nullptr ? kSharedPrimitives : given);
  const auto x = std::make_shared<ov::op::v0::Parameter>(ov::element::f32, ov::Shape{1, 16, 4, 4});
  const auto w = ov::op::v0::Constant::create(ov::element::f32, {16, 16, 1, 1}, {1.0F});
  const auto y =
      std::make_shared<ov::op::v1::Convolution>(x, w, ov::Strides{1, 1}, ov::CoordinateDiff{0, 0},
                                                ov::CoordinateDiff{0, 0}, ov::Strides{1, 1});
  core.compile_model(std::make_shared<ov::Model>(ov::OutputVector{y}, ov::ParameterVector{x}),
                     "CPU", ov::inference_num_threads(1));
}

// Bounds let the plugin plan memory for the largest size, and choose code for the sizes that come.
void set_ranges(ov::Model& model, const Graph& graph, const CompileOptions& options) {
  std::map<ov::Output<ov::Node>, ov::PartialShape> bounded;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const Type& type = graph.type(graph.inputs()[i]);
    if (!type.has_rank()) continue;
    ov::PartialShape shape = model.input(i).get_partial_shape();
    for (std::size_t d = 0; d < type.rank(); ++d) {
      for (const SizeRange& range : options.ranges) {
        if (Dim(range.symbol) == (*type.shape)[d]) shape[d] = {range.least, range.most};
      }
    }
    if (shape != model.input(i).get_partial_shape()) bounded[model.input(i)] = shape;
  }
  if (!bounded.empty()) model.reshape(bounded);
}

void check_device(const std::string& device) {
  if (device != "cpu") {
    throw Error(ErrorCode::kUnsupported,
                "openvino: device '" + device + "' is not offered; it offers cpu");
  }
}

}  // namespace

OpenVinoEngine::OpenVinoEngine() {
  info_.name = "openvino";
  info_.version = library_version() + extensions_version();
  info_.location = library_location();
  // Its hint means what it says where the processor has such arithmetic; asked for float16 without,
  // the plugin computes in bfloat16.
  info_.devices = {{"cpu", {Precision::kF32}}};
  const Processor& cpu = processor();
  std::vector<Precision>& precisions = info_.devices[0].precisions;
  if (cpu.has("amx_bf16") || cpu.has("avx512_bf16")) precisions.push_back(Precision::kBF16);
  if (cpu.has("amx_fp16") || cpu.has("avx512_fp16")) precisions.push_back(Precision::kF16);
  info_.checks_options = true;  // the plugin knows its properties
  info_.shapes = Shapes::kAny;
  info_.self_contained = true;
  info_.core_version = core_version();
}

OpenVinoEngine::State& OpenVinoEngine::state() const {
  std::call_once(once_, [&] {
    translated("openvino: cannot start", [&] {
      state_.core = std::make_shared<ov::Core>();
      state_.core->set_property(ov::log::level(ov::log::Level::NO));
      for (const auto& library : extension_libraries()) {
        translated("openvino: extension '" + library.string() + "'",
                   [&] { state_.core->add_extension(library.string()); });
      }
      bound_primitives(*state_.core);
      state_.oracle = std::make_unique<SupportOracle>(state_.core);
    });
  });
  return state_;
}

Support OpenVinoEngine::supports(const SupportQuery& query) const {
  if (query.device != "cpu") return Support::no("openvino offers the device cpu only");
  return state().oracle->check(graph_of(query.graph), query.node);
}

std::vector<Support> OpenVinoEngine::supports_all(const SupportQuery& query) const {
  if (query.device != "cpu") {
    return std::vector<Support>(query.graph.node_capacity(),
                                Support::no("openvino offers the device cpu only"));
  }
  return state().oracle->check_all(graph_of(query.graph));
}

std::shared_ptr<const Executable> OpenVinoEngine::compile(const Function& function,
                                                          const CompileOptions& options) const {
  check_device(options.device);
  return translated("openvino: function '" + function.name + "'", [&] {
    const Graph& graph = graph_of(function.graph);
    const std::optional<Graph> expanded = state().oracle->expanded(graph);
    const std::shared_ptr<ov::Model> model = convert(expanded ? *expanded : graph);
    set_ranges(*model, graph, options);
    auto make = [core = state().core, model, settings = configuration(graph, options)] {
      return core->compile_model(model, "CPU", settings);
    };
    return std::make_shared<const OpenVinoExecutable>(std::move(make), function, options);
  });
}

std::shared_ptr<const Executable> OpenVinoEngine::load(const TensorView& view,
                                                       const Function& function,
                                                       const CompileOptions& options) const {
  check_device(options.device);
  const Tensor& blob = tensor_of(view);
  return translated("openvino: function '" + function.name + "'", [&] {
    auto make = [core = state().core, blob,  // outlives the model
                 settings = configuration(graph_of(function.graph), options)] {
      // OpenVINO takes mutable memory and only reads it.
      const ov::Tensor bytes(ov::element::u8, {blob.bytes()}, const_cast<void*>(blob.raw()));
      return core->import_model(bytes, "CPU", settings);
    };
    return std::make_shared<const OpenVinoExecutable>(std::move(make), function, options);
  });
}

std::vector<std::string> OpenVinoEngine::ops() const { return op_table(); }

}  // namespace xrt::openvino

XRT_ENGINE(xrt::openvino::OpenVinoEngine)
