// SPDX-License-Identifier: Apache-2.0
// How the commands show what a model computed.
#pragma once

#include <string>

#include "xrt/tensor.h"

namespace xrt::cli {

// Prints name, type, shape and the first elements of `data` to stdout, indented by `indent` spaces,
// and the `top` largest elements with their indices in the flat tensor. Items of a sequence follow
// it.
void print_data(const std::string& name, const Data& data, int top, int indent = 0);

}  // namespace xrt::cli
