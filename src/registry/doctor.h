// SPDX-License-Identifier: Apache-2.0
// Probes of single engines; xrt/registry.h has that of all.
#pragma once

#include <string>
#include <vector>

#include "xrt/export.h"
#include "xrt/registry.h"

namespace xrt {

// These engines, each probed by running one op. A name that is not known has a report whose
// `error` says so.
XRT_API std::vector<EngineReport> probe_engines(const std::vector<std::string>& names);

}  // namespace xrt
