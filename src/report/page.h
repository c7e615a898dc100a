// SPDX-License-Identifier: Apache-2.0
// page.html and noise.html, embedded at build time (see CMakeLists.txt).
#pragma once

#include <string_view>

namespace xrt::report {

extern const std::string_view kPageTemplate;
extern const std::string_view kNoiseTemplate;

}  // namespace xrt::report
