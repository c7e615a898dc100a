// SPDX-License-Identifier: Apache-2.0
// The placement of a program as one HTML page that needs no network: the graph drawn with its
// clusters coloured by engine, why each engine refused each node, and what every launch costs.
#pragma once

#include <string>
#include <vector>

#include "xrt/program.h"

namespace xrt::report {

// `title` is a plain text, usually the model's file name. Any bytes are accepted in names: what is
// not UTF-8 is shown as U+FFFD. The same arguments give the same page.
XRT_API std::string html(const Explanation& explanation, const std::vector<Port>& inputs,
                         const std::vector<Port>& outputs, const std::string& title);

}  // namespace xrt::report
