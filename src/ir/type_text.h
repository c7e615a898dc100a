// SPDX-License-Identifier: Apache-2.0
// The text of a type, for messages and for the text form of graphs.
#pragma once

#include <string>

#include "xrt/type.h"

namespace xrt {

// "float32[1,N,?]", "seq(int64[*])", "map(string, float32[])". `symbol` writes the name of a
// symbolic dimension.
std::string type_text(const Type& type, std::string (*symbol)(const std::string& name));

}  // namespace xrt
