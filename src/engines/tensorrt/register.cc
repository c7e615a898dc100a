// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "engines/tensorrt/driver.h"
#include "engines/tensorrt/engine.h"
#include "xrt/error.h"

extern "C" __attribute__((visibility("default"))) void xrt_register_engine(
    xrt::EngineRegistry* registry) {
  std::shared_ptr<const xrt::tensorrt::Driver> driver;
  std::string no_gpu;
  try {
    driver = xrt::tensorrt::open_cuda_driver();
  } catch (const xrt::Error& error) {
    // Plans can be built without a GPU; what needs one says this.
    if (error.code() != xrt::ErrorCode::kNotFound) throw;
    no_gpu = error.what();
  }
  registry->add(std::make_shared<xrt::tensorrt::TensorRtEngine>(std::move(driver), no_gpu));
}
