// SPDX-License-Identifier: Apache-2.0
// The prototypes are those of NVRTC's public API.
#include "device/cuda/nvrtc.h"

#include <cstddef>
#include <memory>

#include "device/cuda/libraries.h"
#include "xrt/error.h"

namespace xrt::cuda {
namespace {

using Program = struct OpaqueProgram*;

struct Nvrtc {
  int (*version)(int*, int*);
  int (*create)(Program*, const char* source, const char* name, int headers, const char* const*,
                const char* const*);
  int (*destroy)(Program*);
  int (*compile)(Program, int options, const char* const*);
  int (*log_size)(Program, std::size_t*);
  int (*log)(Program, char*);
  int (*cubin_size)(Program, std::size_t*);
  int (*cubin)(Program, char*);
  int (*ptx_size)(Program, std::size_t*);
  int (*ptx)(Program, char*);
  const char* (*error)(int);
};

const Nvrtc& nvrtc() {
  static const Nvrtc api = [] {
    constexpr std::string_view kTitle = "NVRTC";
    // It opens a second library by name, which it finds if that is open.
    void* library = open_library({.title = kTitle,
                                  .package = "nvidia-cuda-nvrtc",
                                  .variable = "XRT_NVRTC",
                                  .files = {"libnvrtc.so.13", "libnvrtc.so.12"},
                                  .helpers = {"libnvrtc-builtins.so."}});
    Nvrtc n = {};
    resolve(library, kTitle, "nvrtcVersion", n.version);
    resolve(library, kTitle, "nvrtcCreateProgram", n.create);
    resolve(library, kTitle, "nvrtcDestroyProgram", n.destroy);
    resolve(library, kTitle, "nvrtcCompileProgram", n.compile);
    resolve(library, kTitle, "nvrtcGetProgramLogSize", n.log_size);
    resolve(library, kTitle, "nvrtcGetProgramLog", n.log);
    resolve(library, kTitle, "nvrtcGetCUBINSize", n.cubin_size);
    resolve(library, kTitle, "nvrtcGetCUBIN", n.cubin);
    resolve(library, kTitle, "nvrtcGetPTXSize", n.ptx_size);
    resolve(library, kTitle, "nvrtcGetPTX", n.ptx);
    resolve(library, kTitle, "nvrtcGetErrorString", n.error);
    return n;
  }();
  return api;
}

void check(int code, const char* what) {
  if (code == 0) return;
  throw Error(ErrorCode::kEngine, std::string("NVRTC: ") + what + ": " + nvrtc().error(code));
}

}  // namespace

std::string nvrtc_version() {
  int major = 0, minor = 0;
  check(nvrtc().version(&major, &minor), "its version");
  return std::to_string(major) + "." + std::to_string(minor);
}

std::string compile(const std::string& source, int capability, bool ptx) {
  const Nvrtc& n = nvrtc();
  Program program = nullptr;
  check(n.create(&program, source.c_str(), "model.cu", 0, nullptr, nullptr), "a program");
  const auto destroy = [&n](Program* p) { n.destroy(p); };
  const std::unique_ptr<Program, decltype(destroy)> owner(&program, destroy);
  // Code for exactly these devices may use what only they have.
  constexpr int kHopper = 90;
  const std::string architecture = std::string("--gpu-architecture=") + (ptx ? "compute_" : "sm_") +
                                   std::to_string(capability) +
                                   (capability == kHopper && !ptx ? "a" : "");
  const char* options[] = {architecture.c_str(), "--std=c++17"};
  if (const int code = n.compile(program, 2, options); code != 0) {
    constexpr std::size_t kMostOfLog = 4000;
    std::size_t bytes = 0;
    check(n.log_size(program, &bytes), "the log");
    std::string log(bytes, '\0');
    if (bytes > 0) check(n.log(program, log.data()), "the log");
    throw Error(ErrorCode::kEngine,
                "NVRTC: " + architecture + ": " + n.error(code) + "\n" + log.substr(0, kMostOfLog));
  }
  std::size_t bytes = 0;
  check(ptx ? n.ptx_size(program, &bytes) : n.cubin_size(program, &bytes), "its size");
  std::string code(bytes, '\0');
  check(ptx ? n.ptx(program, code.data()) : n.cubin(program, code.data()), "its code");
  return code;
}

}  // namespace xrt::cuda
