// SPDX-License-Identifier: Apache-2.0
#include "engines/cuda/cudnn/library.h"

#include <map>
#include <string_view>

#include "device/cuda/libraries.h"
#include "engines/cuda/computation.h"
#include "xrt/error.h"

namespace xrt::cuda {
namespace cudnn {

const Library& library() {
  static const auto api = [] {
    const LibraryName name{.title = "cuDNN",
                           .package = "nvidia-cudnn-cu13",
                           .variable = "XRT_CUDNN",
                           .files = {"libcudnn.so.9"},
                           .helpers = {}};
    return open_if_there<Library>(name, [](Library& l, const auto& find) {
      find("cudnnCreate", l.create);
      find("cudnnSetStream", l.set_stream);
      find("cudnnGetErrorString", l.error);
      find("cudnnGetVersion", l.version);
      find("cudnnBackendCreateDescriptor", l.make);
      find("cudnnBackendDestroyDescriptor", l.destroy);
      find("cudnnBackendFinalize", l.finalize);
      find("cudnnBackendSetAttribute", l.set);
      find("cudnnBackendGetAttribute", l.get);
      find("cudnnBackendExecute", l.execute);
    });
  }();
  return api;
}
void check(int status, const char* what, int first_unsupported) {
  if (status == 0) return;
  const bool unsupported = status >= first_unsupported && status < kInternal;
  throw Error(unsupported ? ErrorCode::kUnsupported : ErrorCode::kEngine,
              std::string("cuDNN: ") + what + " failed: " + library().error(status) + " (" +
                  std::to_string(status) + ")");
}

DeviceHandle& handle_of(int device) {
  static std::mutex mutex;
  static auto* const handles = new std::map<int, DeviceHandle>();
  const std::lock_guard lock(mutex);
  DeviceHandle& own = (*handles)[device];
  if (own.handle == nullptr) check(library().create(&own.handle), "cudnnCreate");
  return own;
}

Owned make(Descriptor kind) {
  void* made = nullptr;
  check(library().make(kind, &made), "cudnnBackendCreateDescriptor");
  return {made, [](void* descriptor) { library().destroy(descriptor); }};
}
void set_descriptor(const Owned& to, Name name, const Owned& value) {
  void* const raw = value.get();
  set(to, name, kDescriptor, raw);
}
void finalize(const Owned& descriptor) {
  // Which descriptions make sense depends on the version.
  check(library().finalize(descriptor.get()), "cudnnBackendFinalize", kBadDescription);
}

int data_type(DType dtype) {
  if (dtype == DType::kFloat64) return 1;
  if (dtype == DType::kFloat16) return 2;
  if (dtype == DType::kInt8) return 3;
  return dtype == DType::kBFloat16 ? 9 : 0;
}

}  // namespace cudnn

const std::string& cudnn_trouble() { return cudnn::library().trouble; }
std::string cudnn_version() { return std::to_string(cudnn::library().version()); }

}  // namespace xrt::cuda
