// SPDX-License-Identifier: Apache-2.0
// An engine that lives in a shared library, behind the tables of xrt/engine_c.h.
#pragma once

#include <memory>

#include "xrt/engine.h"

namespace xrt {

// What the library's entry function hands over. Throws kEngine where it fails, speaks another
// version of the contract, or was built with another version of the core.
std::shared_ptr<const Engine> open_engine(xrt_engine_entry_function entry);

}  // namespace xrt
