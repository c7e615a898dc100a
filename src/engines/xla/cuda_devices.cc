// SPDX-License-Identifier: Apache-2.0
#include "engines/xla/cuda_devices.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "base/log.h"

namespace xrt::xla {

int cuda_device_count() {
  // CUDA driver API: int cuInit(unsigned), int cuDeviceGetCount(int*); 0 is success. The library
  // stays open: the plugin uses it too.
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (driver == nullptr) return 0;
  const auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(::dlsym(driver, "cuDeviceGetCount"));
  if (init == nullptr || count == nullptr) return 0;
  int found = 0;
  int status = init(0);
  if (status == 0) status = count(&found);
  if (status != 0) {
    log_debug(fmt::format("XLA: NVIDIA's driver offers no GPU: error {}", status));
    return 0;
  }
  return found;
}

}  // namespace xrt::xla
