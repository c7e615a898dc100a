// SPDX-License-Identifier: Apache-2.0
// NVRTC, opened when a file for "cuda" is compiled. The prototypes are those of its public API.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "targets/cuda.h"
#include "xrt/error.h"

namespace xrt::lite {
namespace {

using Program = struct OpaqueProgram*;

struct Nvrtc {
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

// Libraries of the wheel nvidia-cuda-nvrtc in the active Python environment.
std::vector<std::string> in_python_environment() {
  std::vector<std::string> found;
  const char* prefix = std::getenv("VIRTUAL_ENV");
  if (prefix == nullptr) return found;
  std::error_code ignored;
  for (const auto& python :
       std::filesystem::directory_iterator(std::filesystem::path(prefix) / "lib", ignored)) {
    const auto vendor = python.path() / "site-packages" / "nvidia";
    for (const auto& package : std::filesystem::directory_iterator(vendor, ignored)) {
      for (const auto& file :
           std::filesystem::directory_iterator(package.path() / "lib", ignored)) {
        const std::string name = file.path().filename().string();
        if (name.starts_with("libnvrtc.so.")) found.push_back(file.path().string());
      }
    }
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

// NVRTC opens a second library by name, which it finds if that has been opened from its folder.
void open_builtins(const std::filesystem::path& library) {
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator(library.parent_path(), ignored)) {
    if (file.path().filename().string().starts_with("libnvrtc-builtins.so.")) {
      dlopen(file.path().c_str(), RTLD_NOW | RTLD_LOCAL);
    }
  }
}

void* open_library() {
  std::vector<std::string> names;
  if (const char* given = std::getenv("XRT_NVRTC"); given != nullptr && *given != '\0') {
    names = {given};
  } else {
    names = in_python_environment();
    for (const char* n : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}) names.push_back(n);
  }
  std::string tried;
  for (const std::string& n : names) {
    if (n.find('/') != std::string::npos) open_builtins(n);
    if (void* library = dlopen(n.c_str(), RTLD_NOW | RTLD_LOCAL); library != nullptr) {
      return library;
    }
    const char* why = dlerror();
    tried += fmt::format("\n  {}", why != nullptr ? why : n);
  }
  throw Error(ErrorCode::kNotFound,
              fmt::format("target 'cuda' compiles with NVRTC, which cannot be opened. Install the "
                          "Python package nvidia-cuda-nvrtc, or set XRT_NVRTC to libnvrtc.so. "
                          "Tried:{}",
                          tried));
}

template <typename F>
void resolve(void* library, const char* name, F& to) {
  void* symbol = dlsym(library, name);
  if (symbol == nullptr) {
    throw Error(ErrorCode::kNotFound, fmt::format("NVRTC: the library has no function '{}'", name));
  }
  to = reinterpret_cast<F>(symbol);
}

const Nvrtc& nvrtc() {
  static const Nvrtc api = [] {
    void* library = open_library();
    Nvrtc n = {};
    resolve(library, "nvrtcCreateProgram", n.create);
    resolve(library, "nvrtcDestroyProgram", n.destroy);
    resolve(library, "nvrtcCompileProgram", n.compile);
    resolve(library, "nvrtcGetProgramLogSize", n.log_size);
    resolve(library, "nvrtcGetProgramLog", n.log);
    resolve(library, "nvrtcGetCUBINSize", n.cubin_size);
    resolve(library, "nvrtcGetCUBIN", n.cubin);
    resolve(library, "nvrtcGetPTXSize", n.ptx_size);
    resolve(library, "nvrtcGetPTX", n.ptx);
    resolve(library, "nvrtcGetErrorString", n.error);
    return n;
  }();
  return api;
}

void check(int code, const char* what) {
  if (code == 0) return;
  throw Error(ErrorCode::kEngine, fmt::format("NVRTC: {}: {}", what, nvrtc().error(code)));
}

}  // namespace

std::vector<CudaImage> compile_cuda(const std::string& source,
                                    const std::vector<std::string>& architectures) {
  const Nvrtc& n = nvrtc();
  std::vector<CudaImage> images;
  for (const std::string& name : architectures) {
    CudaImage image;
    image.ptx = name.starts_with("ptx");
    const std::string digits = image.ptx ? name.substr(3) : name;
    if (digits.empty() || digits.size() > 3 ||
        !std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("XRT_CUDA_ARCHS: '{}' is no architecture; write 90, or ptx80", name));
    }
    image.arch = std::atoi(digits.c_str());
    Program program = nullptr;
    check(n.create(&program, source.c_str(), "model.cu", 0, nullptr, nullptr), "a program");
    const auto destroy = [&n](Program* p) { n.destroy(p); };
    const std::unique_ptr<Program, decltype(destroy)> owner(&program, destroy);
    const std::string arch =
        fmt::format("--gpu-architecture={}_{}", image.ptx ? "compute" : "sm", digits);
    const char* options[] = {arch.c_str(), "--std=c++17"};
    if (const int code = n.compile(program, 2, options); code != 0) {
      std::size_t bytes = 0;
      check(n.log_size(program, &bytes), "the log");
      std::string log(bytes, '\0');
      if (bytes > 0) check(n.log(program, log.data()), "the log");
      throw Error(ErrorCode::kEngine,
                  fmt::format("NVRTC: {}: {}\n{}", arch, n.error(code), log.substr(0, 4000)));
    }
    std::size_t bytes = 0;
    check(image.ptx ? n.ptx_size(program, &bytes) : n.cubin_size(program, &bytes), "its size");
    image.bytes.resize(bytes);
    check(image.ptx ? n.ptx(program, image.bytes.data()) : n.cubin(program, image.bytes.data()),
          "its code");
    images.push_back(std::move(image));
  }
  return images;
}

}  // namespace xrt::lite
