// SPDX-License-Identifier: Apache-2.0
#include "xrt/version.h"

#define XRT_TEXT(x) #x
#define XRT_DOTTED(a, b, c) XRT_TEXT(a) "." XRT_TEXT(b) "." XRT_TEXT(c)

namespace xrt {

std::string_view version() {
  return XRT_DOTTED(XRT_VERSION_MAJOR, XRT_VERSION_MINOR, XRT_VERSION_PATCH);
}

}  // namespace xrt
