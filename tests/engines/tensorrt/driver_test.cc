// SPDX-License-Identifier: Apache-2.0
// The driver's functions by name, against a library that stands in for libcuda.so.1.
#include "engines/tensorrt/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "xrt/error.h"

namespace xrt::tensorrt {
namespace {

using testing::HasSubstr;

class DriverTest : public testing::Test {
 protected:
  void TearDown() override { ::unsetenv("XRT_STAND_IN_CUDA"); }

  // The message of opening the library while it fails like that.
  static std::string failure(const char* library, const char* how) {
    ::setenv("XRT_STAND_IN_CUDA", how, 1);
    try {
      open_cuda_driver(library);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kNotFound);
      return error.what();
    }
    return "opened";
  }
};

TEST_F(DriverTest, SpeaksOfTheDevice) {
  const auto driver = open_cuda_driver(XRT_STAND_IN_CUDA);
  EXPECT_EQ(driver->device_count(), 1);
  EXPECT_EQ(driver->device_name(0), "Stand-In GPU");
  EXPECT_EQ(driver->compute_capability(0), 89);
  EXPECT_EQ(driver->version(), "13.1");
}

TEST_F(DriverTest, CopiesThroughItsMemory) {
  const auto driver = open_cuda_driver(XRT_STAND_IN_CUDA);
  driver->use(0);
  void* stream = driver->make_stream();
  void* device = driver->allocate(16);
  void* host = driver->allocate_host(16);
  const int ours[4] = {1, 2, 3, 4};
  EXPECT_EQ(driver->kind_of(device), Memory::kDevice);
  EXPECT_EQ(driver->kind_of(static_cast<char*>(device) + 12), Memory::kDevice);
  EXPECT_EQ(driver->kind_of(host), Memory::kPageLocked);
  EXPECT_EQ(driver->kind_of(ours), Memory::kPageable);
  driver->copy_to_device(device, ours, 16, stream);
  driver->copy_to_host(host, device, 16, stream);
  driver->synchronize(stream);
  EXPECT_EQ(static_cast<const int*>(host)[3], 4);
  driver->release(device);
  driver->release_host(host);
  driver->destroy_stream(stream);
}

TEST_F(DriverTest, SaysWhatIsMissing) {
  EXPECT_THAT(failure("libno_such_cuda.so.1", ""), HasSubstr("no NVIDIA driver: libno_such_cuda"));
  EXPECT_THAT(failure(XRT_STAND_IN_CUDA, "init"), HasSubstr("CUDA_ERROR_NO_DEVICE"));
  EXPECT_THAT(failure(XRT_STAND_IN_CUDA, "device"), HasSubstr("the driver lists none"));
  EXPECT_THAT(failure("libm.so.6", ""), HasSubstr("the NVIDIA driver has no cuInit"));
}

TEST_F(DriverTest, MemoryThatIsNotThereIsAnErrorOfItsOwn) {
  const auto driver = open_cuda_driver(XRT_STAND_IN_CUDA);
  ::setenv("XRT_STAND_IN_CUDA", "memory", 1);
  try {
    driver->allocate(1000);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResource);
    EXPECT_THAT(error.what(), HasSubstr("1000 bytes: CUDA_ERROR_OUT_OF_MEMORY"));
  }
}

}  // namespace
}  // namespace xrt::tensorrt
