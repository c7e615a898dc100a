// SPDX-License-Identifier: Apache-2.0
#include "engines/tvm/engine.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <tvm/ffi/function.h>
#include <tvm/runtime/base.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "engine/handles.h"
#include "engines/tvm/compiler_script.h"
#include "engines/tvm/cuda_runtime.h"
#include "engines/tvm/executable.h"
#include "engines/tvm/rules.h"
#include "engines/tvm/user_code.h"
#include "ops/sizes/size_rules.h"
#include "xrt/error.h"

namespace xrt::tvm_engine {
namespace {

// TVM's workers look for work this many times before they sleep: enough for the next operator of a
// run, too few to heat an idle machine. Read once, when TVM starts its first thread.
constexpr const char* kSpinCount = "2000";

// A protocol buffer cannot be larger, and the compiler reads the function as one.
constexpr std::size_t kLargestModel = std::numeric_limits<std::int32_t>::max();

constexpr std::size_t kLongestLabel = 16;  // "cuda sm_103a"

[[noreturn]] void fail_option(const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, "engine 'tvm': " + what);
}

int number(const std::string& key, const std::string& text, int low, int high) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < low || value > high) {
    fail_option(
        fmt::format("option '{}' is a number from {} to {}, not '{}'", key, low, high, text));
  }
  return value;
}

bool is_gpu(const CompileOptions& options) { return options.device.starts_with("cuda"); }

// The target of a GPU: TVM by itself would guess one of long ago where it cannot ask for the GPU.
std::string gpu_target(const Gpu& gpu) {
  return nlohmann::json{{"kind", "cuda"},
                        {"arch", gpu.architecture},
                        {"max_threads_per_block", gpu.threads_per_block},
                        {"thread_warp_size", gpu.warp_size},
                        {"max_shared_memory_per_block", gpu.shared_memory_per_block}}
      .dump();
}

// What stands before a library that holds machine code for a GPU: no other GPU can run it.
std::string gpu_label(const CompileOptions& options) {
  return is_gpu(options) ? "cuda " + gpu_of(options.device).architecture + "\n" : std::string();
}

CompileRequest request_for(const Function& function, const CompileOptions& options) {
  CompileRequest request;
  request.function = function.name;
  request.target = is_gpu(options) ? gpu_target(gpu_of(options.device)) : "llvm";
  request.threads = std::max(1, options.num_threads);
  request.progress = options.progress;
  constexpr int kMost = std::numeric_limits<int>::max();
  for (const auto& [key, value] : options.engine_options) {
    if (key == "tvm_target") {
      if (value.starts_with("{") && nlohmann::json::parse(value, nullptr, false).is_discarded()) {
        fail_option("option 'tvm_target' is no JSON object: " + value);
      }
      // The kind alone means this GPU.
      if (!is_gpu(options) || value != "cuda") request.target = value;
    } else if (key == "tvm_trials") {
      request.trials = number(key, value, 0, kMost);
    } else if (key == "tvm_time_budget") {
      request.time_budget_seconds = number(key, value, 1, kMost);
    } else if (key == "tvm_compile_timeout") {
      request.timeout_seconds = number(key, value, 1, kMost / 1000);
    } else if (key == "tvm_opt_level") {
      request.opt_level = number(key, value, 0, 3);
    } else {
      fail_option(fmt::format("there is no option '{}'", key));
    }
  }
  if (request.trials > 0) {
    if (options.records_dir.empty()) {
      fail_option("tuning keeps records in the compile cache: set cache_dir or XRT_CACHE_DIR");
    }
    request.records = options.records_dir;
  }
  return request;
}

}  // namespace

TvmEngine::TvmEngine() : compiler_(std::make_unique<Compiler>()) {
  ::setenv("TVM_THREAD_POOL_SPIN_COUNT", kSpinCount, /*overwrite=*/0);
  // TVM binds threads to processors, the caller's own too: what that one starts later, pools of
  // other engines and child processes, would be left with a single processor.
  ::setenv("TVM_BIND_THREADS", "0", /*overwrite=*/0);
  // What the compiler makes depends on these programs too: what older ones made is stale.
  const std::string programs = std::string(kCompilerScript) + std::string(kGpuScript) +
                               std::string(kSchedulesScript) + std::string(kTuningScript) +
                               std::string(kUserCodeScript);
  info_.name = "tvm";
  info_.version = fmt::format("{}, schedules {}", TVM_VERSION,
                              hash_bytes(programs.data(), programs.size()).hex().substr(0, 8));
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&::TVMFFIFunctionGetGlobal), &info) != 0) {
    info_.location = info.dli_fname;
  }
  // "cuda:0" where there is none, too: then supports() says what is missing.
  info_.devices = {{"cpu"}, {"cuda"}, {"cuda:0"}};
  for (std::size_t i = 1; i < cuda_runtime().gpus.size(); ++i) {
    info_.devices.push_back({fmt::format("cuda:{}", i)});
  }
  using Kind = EngineOption::Kind;
  info_.options = {
      {"tvm_target", Kind::kText, "",
       "a target kind or a JSON object; default: llvm for this CPU, cuda on a GPU"},
      {"tvm_trials", Kind::kInt, "0", "trials of MetaSchedule tuning for each function"},
      {"tvm_time_budget", Kind::kInt, "600", "seconds that the tuning of one function may take"},
      {"tvm_compile_timeout", Kind::kInt, "900",
       "seconds without progress until a compilation is given up"},
      {"tvm_opt_level", Kind::kInt, "3", "TVM's optimisation level, 0 to 3"},
  };
  info_.self_contained = true;
  info_.core_version = core_version();
}

Support TvmEngine::supports(const SupportQuery& query) const {
  if (query.device != "cpu" && !query.device.starts_with("cuda")) {
    return Support::no(fmt::format("no device '{}'", query.device));
  }
  if (query.device != "cpu" && !cuda_runtime().trouble.empty()) {
    return Support::no(cuda_runtime().trouble);
  }
  if (query.phase == Phase::kTraining) return Support::no("inference only");
  if (!query.mutable_inputs.empty()) return Support::no("it updates no variables");
  const Graph& graph = graph_of(query.graph);
  if (auto wrong = sizes_refusal(graph, graph.node(query.node))) return Support::no(*wrong);
  return can_compile(graph, query.node);
}

std::shared_ptr<const Executable> TvmEngine::compile(const Function& function,
                                                     const CompileOptions& options) const {
  CompileRequest request = request_for(function, options);
  request.code = user_code(graph_of(function.graph));
  request.model = function.to_onnx(kLargestModel);
  if (request.model.size() >= kLargestModel) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("tvm: function '{}' holds more than 2 GB", function.name));
  }
  return std::make_shared<const TvmExecutable>(gpu_label(options), compiler_->compile(request),
                                               function, options);
}

std::shared_ptr<const Executable> TvmEngine::load(const TensorView& blob, const Function& function,
                                                  const CompileOptions& options) const {
  const std::string_view bytes(blob.data<const char>(), blob.bytes());
  std::string label = gpu_label(options);
  if (!bytes.starts_with(label)) {
    throw Error(ErrorCode::kEngine,
                fmt::format("tvm: '{}' was compiled for '{}', this GPU is '{}'", function.name,
                            bytes.substr(0, std::min(bytes.find('\n'), kLongestLabel)),
                            label.substr(0, label.size() - 1)));
  }
  std::string library(bytes.substr(label.size()));
  return std::make_shared<const TvmExecutable>(std::move(label), std::move(library), function,
                                               options);
}

std::vector<std::string> TvmEngine::ops() const { return supported_ops(); }

}  // namespace xrt::tvm_engine

XRT_ENGINE(xrt::tvm_engine::TvmEngine)
