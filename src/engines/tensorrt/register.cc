// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "engines/tensorrt/driver.h"
#include "engines/tensorrt/engine.h"
#include "xrt/error.h"

namespace xrt::tensorrt {
namespace {

std::shared_ptr<const Engine> make_engine() {
  std::shared_ptr<const Driver> driver;
  std::string no_gpu;
  try {
    driver = open_cuda_driver();
  } catch (const Error& error) {
    // Plans can be built without a GPU; what needs one says this.
    if (error.code() != ErrorCode::kNotFound) throw;
    no_gpu = error.what();
  }
  return std::make_shared<TensorRtEngine>(std::move(driver), no_gpu);
}

}  // namespace
}  // namespace xrt::tensorrt

extern "C" __attribute__((visibility("default"))) xrt_engine_status xrt_engine_entry(
    const xrt_engine_host* host, xrt_engine_library* library, xrt_engine_error* error) {
  return xrt::border::enter(host, library, error, xrt::tensorrt::make_engine);
}
