// SPDX-License-Identifier: Apache-2.0
#include "engines/xla/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "device/cuda_driver.h"
#include "engine/handles.h"
#include "engines/xla/long_rows.h"
#include "ops/sizes/wide_window.h"
#include "xrt/error.h"

namespace xrt::xla {

namespace {

// A folder that functions are written into as they are handed to XLA.
constexpr const char* kDumpOption = "stablehlo_dir";
// Whether products of float32 on a GPU may use TensorFloat-32.
constexpr const char* kTf32Option = "tf32";
// Whether runs on CUDA tensors return before they have ended.
constexpr const char* kAsynchronousOption = "asynchronous";

// Why a value cannot exist in a module; nothing if it can.
std::optional<std::string> refuse_type(const Value& value) {
  if (!value.type.is_tensor()) {
    return fmt::format("'{}' is {}, not a tensor", value.name, to_string(value.type));
  }
  if (hlo_element_type(value.type.dtype).empty()) {
    return fmt::format("'{}' is of type {}", value.name, to_string(value.type));
  }
  if (!value.type.is_static()) {
    return fmt::format("'{}' has no static shape: {}", value.name, to_string(value.type));
  }
  return std::nullopt;
}

// Why the CPU is not to compute a node; nothing if it may.
std::optional<std::string> refuse_on_cpu(const Graph& graph, const Node& node) {
  if (!node.domain.empty()) return {};
  if (node.op == "AveragePool" || node.op == "MaxPool" || node.op == "LpPool") {
    if (!is_long_pool(node, graph.type(node.outputs[0]))) return {};
    return "XLA walks over whole windows, be they padding or not, without a limit";
  }
  if (node.op == "LRN" && is_long_norm(node)) {
    return "XLA walks over whole windows of channels";
  }
  if (node.op != "Conv" && node.op != "ConvTranspose") return {};
  const auto w = graph.type(node.input(1)).static_dims();
  if (!w || w->size() < 3) return {};
  const std::int64_t window = element_count(Dims(w->begin() + 2, w->end()));
  // Its product has the outputs as columns: of few of them it computes a tenth as much in a second.
  constexpr std::int64_t kFewOutputs = 16;
  const bool is_slow = window >= kWideWindow && node.op == "Conv" &&
                       (*w)[0] / std::max<std::int64_t>(need_int(node, "group"), 1) < kFewOutputs;
  if (!is_slow && !has_wide_window(node, *w)) return {};
  return fmt::format("XLA has no fast convolution by a window of {} elements over few channels",
                     window);
}

Bound entry_parameter(HloBuilder& b, DType dtype, const Dims& dims, std::int64_t aliased_output) {
  Hlo value = b.parameter(border_dtype(dtype), dims, aliased_output);
  if (is_packed(dtype)) {
    value = dtype == DType::kFloat4E2M1 ? b.bitcast(b.convert(value, DType::kUInt4), dtype)
                                        : b.convert(value, dtype);
  }
  Bound bound;
  bound.plain = value;
  return bound;
}

Hlo border_result(HloBuilder& b, const Hlo& value) {
  if (!is_packed(value.dtype)) return value;
  const Hlo bits = value.dtype == DType::kFloat4E2M1 ? b.bitcast(value, DType::kUInt4) : value;
  return b.convert(bits, border_dtype(value.dtype));
}

XlaFlags flags_of(const CompileOptions& options) {
  // A value that the graph rounds to 16 bits is rounded: XLA may otherwise skip a pair of casts.
  XlaFlags flags{{"xla_allow_excess_precision", "false"}};
  for (const auto& [key, value] : options.engine_options) {
    if (key == kDumpOption || key == kTf32Option || key == kAsynchronousOption) continue;
    if (!key.starts_with("xla_")) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("engine 'xla' has no option '{}'; its options are {}, {}, {} and XLA's "
                      "compiler flags, which begin with xla_",
                      key, kDumpOption, kTf32Option, kAsynchronousOption));
    }
    flags[key] = value;
  }
  return flags;
}

// NAME.mlir, and NAME.weight0.bin … with the elements of the parameters that follow the inputs.
void dump(const Module& module, const std::string& name, const CompileOptions& options) {
  const auto dir = options.engine_options.find(kDumpOption);
  if (dir == options.engine_options.end()) return;
  const std::filesystem::path folder(dir->second);
  std::filesystem::create_directories(folder);
  write_file_atomic(folder / (name + ".mlir"), module.text);
  for (std::size_t i = 0; i < module.weights.size(); ++i) {
    const Tensor bytes = module.weights[i].make();
    write_file_atomic(folder / fmt::format("{}.weight{}.bin", name, i),
                      std::string_view(static_cast<const char*>(bytes.raw()), bytes.bytes()));
  }
}

// An option that is "true" or "false".
bool is_set(const CompileOptions& options, const char* name, bool otherwise) {
  const auto found = options.engine_options.find(name);
  if (found == options.engine_options.end()) return otherwise;
  return found->second == "true" || found->second == "1";
}

Products products_of(const CompileOptions& options) {
  if (parse_device(options.device).platform == Platform::kCpu) return {};
  Products products;
  products.narrow = true;
  products.tf32 = is_set(options, kTf32Option, products.tf32);
  return products;
}

// XLA's own choice for convolutions on a GPU is channels last. Where float32 is not rounded for the
// units that want that, cuDNN is faster with channels first: ResNet-50 on an H200 takes 2.4 ms
// instead of 3.0, and 10.0 instead of 12.8 in batches of 32.
void choose_layout(XlaFlags& flags, const Module& module, const Products& products) {
  constexpr const char* kFirst = "xla_gpu_force_conv_nchw";
  const bool is_gpu = products.narrow;
  const bool has_halves = module.text.find("xbf16>") != std::string::npos ||
                          module.text.find("xf16>") != std::string::npos;
  if (!is_gpu || products.tf32 || has_halves || flags.contains("xla_gpu_force_conv_nhwc")) return;
  if (module.text.find("stablehlo.convolution") == std::string::npos) return;
  flags.emplace(kFirst, "true");
}

const PjrtClient& client_for(const CompileOptions& options) {
  const DeviceName device = parse_device(options.device);
  // All runs share the client's pool.
  const int threads = std::max(1, options.num_threads * options.streams);
  return PjrtApi::get(device.platform).client(threads, device.ordinal);
}

}  // namespace

Support can_lower(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  // What is the same for all sizes comes before what these ones are: a program that nothing can run
  // is then refused when it is loaded.
  const auto refuse = [&](const std::string& reason) {
    return Support::no(has_lowering(graph, id) ? reason : no_lowering(node));
  };
  for (const ValueId input : graph.dependencies(id)) {
    if (auto reason = refuse_type(graph.value(input))) return refuse("input " + *reason);
  }
  for (const ValueId output : node.outputs) {
    if (!output.valid()) continue;
    if (auto reason = refuse_type(graph.value(output))) return refuse("output " + *reason);
  }
  HloBuilder b(/*measure_only=*/true);
  GraphLowerer lowerer(b, graph, 0);
  for (const ValueId input : graph.dependencies(id)) {
    if (graph.constant(input) != nullptr || lowerer.bound(input)) continue;
    const Type& type = graph.type(input);
    lowerer.bind(input, entry_parameter(b, type.dtype, *type.static_dims(), -1));
  }
  try {
    lowerer.lower_node(id);
    for (const ValueId output : node.outputs) {
      if (!output.valid()) continue;
      if (!lowerer.bound(output)) {
        return Support::no(
            fmt::format("its output '{}' has no lowering", graph.value(output).name));
      }
      const Bound& made = lowerer.at(output);
      const Type& type = graph.type(output);
      if (made.dtype() != type.dtype || made.dims() != *type.static_dims()) {
        return Support::no(fmt::format("the lowering makes '{}' {}{}, the graph says {}",
                                       graph.value(output).name, to_string(made.dtype()),
                                       to_string(made.dims()), to_string(type)));
      }
    }
  } catch (const Refusal& refusal) {
    return Support::no(refusal.reason);
  }
  return Support::yes();
}

Module lower_function(const Function& function, Products products) {
  const Graph& graph = graph_of(function.graph);
  Module module;
  module.name = function.name;
  HloBuilder b(/*measure_only=*/false, products);
  GraphLowerer lowerer(b, graph, 0);
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const Value& value = graph.value(graph.inputs()[i]);
    if (auto reason = refuse_type(value)) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("XLA: function '{}': input {}", function.name, *reason));
    }
    std::int64_t aliased = -1;
    for (const InputOutputAlias& alias : function.aliases) {
      if (alias.input == static_cast<std::int32_t>(i)) aliased = alias.output;
    }
    const Dims dims = *value.type.static_dims();
    module.inputs.push_back({value.name, value.type.dtype, dims, aliased >= 0});
    lowerer.bind(graph.inputs()[i], entry_parameter(b, value.type.dtype, dims, aliased));
  }
  for (const NodeId id : graph.topological_order()) {
    try {
      lowerer.lower_node(id);
    } catch (const Refusal& refusal) {
      const Node& node = graph.node(id);
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("XLA: node '{}' ({}) cannot be lowered: {}", node.name,
                              node.qualified_op(), refusal.reason));
    }
  }
  Hlos results;
  for (const ValueId id : graph.outputs()) {
    const Hlo value = lowerer.plain(id);
    module.outputs.push_back({graph.value(id).name, value.dtype, value.dims});
    results.push_back(border_result(b, value));
  }
  module.text = b.finish(results);
  module.weights = b.weights();
  return module;
}

XlaEngine::XlaEngine() {
  info_.name = "xla";
  info_.options = {
      {kDumpOption, EngineOption::Kind::kText, "", "a folder for each function's StableHLO"},
      {kTf32Option, EngineOption::Kind::kBool, "true", "products of float32 in TF32, on a GPU"},
      {kAsynchronousOption, EngineOption::Kind::kBool, "true",
       "runs on a GPU follow the caller's stream instead of being waited for"},
  };
  info_.checks_options = true;  // xla_...: flags of XLA's compiler
  info_.in_place = true;        // by donated buffers
  info_.core_version = core_version();
  info_.devices.clear();
  const std::filesystem::path cuda = PjrtApi::find(Platform::kCuda);
  const int gpus = cuda.empty() ? 0 : CudaDriver::device_count();
  if (gpus == 0 || !PjrtApi::find(Platform::kCpu).empty()) {
    const PjrtApi& api = PjrtApi::get(Platform::kCpu);
    info_.devices.push_back({"cpu"});
    info_.version = api.version();
    info_.location = api.location().string();
  }
  if (gpus > 0) {
    // Opened when it is first asked for: it is large, and takes seconds.
    constexpr bool kAsynchronous = true;
    info_.devices.push_back({"cuda", {Precision::kF32}, kAsynchronous});
    for (int i = 0; i < gpus; ++i) {
      info_.devices.push_back({fmt::format("cuda:{}", i), {Precision::kF32}, kAsynchronous});
    }
    info_.version += fmt::format("{}CUDA plugin of {} bytes", info_.version.empty() ? "" : "; ",
                                 std::filesystem::file_size(cuda));
    info_.location += (info_.location.empty() ? "" : ", ") + cuda.string();
  }
}

Support XlaEngine::supports(const SupportQuery& query) const {
  const bool has_device =
      std::any_of(info_.devices.begin(), info_.devices.end(),
                  [&](const DeviceInfo& device) { return device.name == query.device; });
  if (!has_device) {
    return Support::no(fmt::format("no device '{}'", query.device));
  }
  const Graph& graph = graph_of(query.graph);
  if (query.device == "cpu") {
    if (auto reason = refuse_on_cpu(graph, graph.node(query.node))) return Support::no(*reason);
  }
  return can_lower(graph, query.node);
}

std::vector<Support> XlaEngine::supports_all(const SupportQuery& query) const {
  std::vector<Support> answers = Engine::supports_all(query);
  cut_long_rows(graph_of(query.graph), answers);
  return answers;
}

std::shared_ptr<const Executable> XlaEngine::compile(const Function& function,
                                                     const CompileOptions& options) const {
  const Products products = products_of(options);
  Module module = lower_function(function, products);
  if (log_debug_enabled()) {
    log_debug(fmt::format("XLA: function '{}':\n{}", function.name, module.text));
  }
  dump(module, function.name, options);
  const PjrtClient& client = client_for(options);
  XlaFlags flags = flags_of(options);
  choose_layout(flags, module, products);
  PjrtLoadedExecutable executable = client.compile(module.text, flags);
  return std::make_shared<XlaExecutable>(client, std::move(executable), std::move(module),
                                         is_set(options, kAsynchronousOption, true),
                                         options.streams);
}

std::shared_ptr<const Executable> XlaEngine::load(const TensorView& view, const Function& function,
                                                  const CompileOptions& options) const {
  Module module = lower_function(function, products_of(options));
  const PjrtClient& client = client_for(options);
  const std::string_view bytes(view.data<const char>(), view.bytes());
  PjrtLoadedExecutable executable =
      client.deserialize(XlaExecutable::payload(bytes, module, client));
  return std::make_shared<XlaExecutable>(client, std::move(executable), std::move(module),
                                         is_set(options, kAsynchronousOption, true),
                                         options.streams);
}

}  // namespace xrt::xla

XRT_ENGINE(xrt::xla::XlaEngine)
