// SPDX-License-Identifier: Apache-2.0
#include "engines/tensorrt/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string_view>

#include "base/log.h"
#include "xrt/error.h"

namespace xrt::tensorrt {

namespace {

// What this thread caused. The library's own threads have never asked for an error.
struct ThreadErrors {
  bool asks = false;
  std::string first;
};
thread_local ThreadErrors thread_errors;

template <typename T>
std::unique_ptr<T> made(void* object, const char* what) {
  if (object == nullptr) {
    const std::string why = logger().take_error();
    throw Error(ErrorCode::kEngine,
                fmt::format("{} made no {}: {}", library_version(), what,
                            why.empty() ? "it gave no reason; is there an NVIDIA GPU?" : why));
  }
  return std::unique_ptr<T>(static_cast<T*>(object));
}

}  // namespace

void Logger::log(Severity severity, const char* message) noexcept {
  try {
    const std::string_view text(message);
    switch (severity) {
      case Severity::kINTERNAL_ERROR:
      case Severity::kERROR: {
        if (thread_errors.asks) {
          if (thread_errors.first.empty()) thread_errors.first = text;
        } else {
          const std::lock_guard lock(mutex_);
          if (error_.empty()) error_ = text;
        }
        log_debug(fmt::format("TensorRT: {}", text));
        return;
      }
      case Severity::kWARNING:
        log_info(fmt::format("TensorRT: {}", text));
        return;
      default:
        if (log_debug_enabled()) log_debug(fmt::format("TensorRT: {}", text));
        return;
    }
  } catch (const std::exception&) {
    // The library calls this across its own frames: an exception must not leave. What failed is
    // printing a message.
  }
}

std::string Logger::take_error() {
  thread_errors.asks = true;
  std::string error;
  error.swap(thread_errors.first);
  const std::lock_guard lock(mutex_);
  if (error.empty()) error = error_;
  error_.clear();
  return error;
}

Logger& logger() {
  static auto* const instance = new Logger;  // never destroyed: see the declaration
  return *instance;
}

bool is_rtx() { return getInferLibMajorVersion() < 10; }

std::string library_version() {
  return fmt::format("{} {}.{}.{}.{}", is_rtx() ? "TensorRT-RTX" : "TensorRT",
                     getInferLibMajorVersion(), getInferLibMinorVersion(),
                     getInferLibPatchVersion(), getInferLibBuildVersion());
}

std::string library_location() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&getInferLibVersion), &info) == 0) return {};
  return info.dli_fname;
}

std::string refuse_pair(int header_major, int header_minor, int library_major, int library_minor) {
  // The tables of one major version only grow at their ends, so a library at least as new as the
  // headers fits. TensorRT-RTX broke with that once, between 1.4 and 1.5.
  const bool rtx_break = header_major == 1 && header_minor < 5 && library_minor >= 5;
  if (header_major == library_major && library_minor >= header_minor && !rtx_break) return {};
  return fmt::format(
      "OpenXRT was built with headers of version {}.{} and loads a library of version {}.{}; build "
      "with the headers of that library (-DTENSORRT_ROOT=…)",
      header_major, header_minor, library_major, library_minor);
}

std::unique_ptr<nvinfer1::IBuilder> make_builder() {
  logger().take_error();  // errors of this thread are kept for it from now on
  return made<nvinfer1::IBuilder>(createInferBuilder_INTERNAL(&logger(), getInferLibVersion()),
                                  "builder");
}

std::unique_ptr<nvinfer1::IRuntime> make_runtime() {
  logger().take_error();
  return made<nvinfer1::IRuntime>(createInferRuntime_INTERNAL(&logger(), getInferLibVersion()),
                                  "runtime");
}

std::unique_ptr<nvinfer1::INetworkDefinition> make_network(nvinfer1::IBuilder& builder) {
  const auto flag =
      1U << static_cast<std::uint32_t>(nvinfer1::NetworkDefinitionCreationFlag::kSTRONGLY_TYPED);
  return made<nvinfer1::INetworkDefinition>(builder.createNetworkV2(flag), "network");
}

}  // namespace xrt::tensorrt
