// SPDX-License-Identifier: Apache-2.0
#include "xrt/version.h"

#include <gtest/gtest.h>

#include <string>

namespace xrt {
namespace {

TEST(Version, RunTimeTextMatchesCompileTimeNumbers) {
  EXPECT_EQ(version(), std::to_string(XRT_VERSION_MAJOR) + "." + std::to_string(XRT_VERSION_MINOR) +
                           "." + std::to_string(XRT_VERSION_PATCH));
}

}  // namespace
}  // namespace xrt
