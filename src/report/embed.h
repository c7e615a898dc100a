// SPDX-License-Identifier: Apache-2.0
// Data in a page's template.
#pragma once

#include <string>
#include <string_view>

namespace xrt::report {

// The template with `json` in the place of __XRT_DATA__, which stands in a script element that the
// data cannot end.
std::string with_data(std::string_view page, const std::string& json);

}  // namespace xrt::report
