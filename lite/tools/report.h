// SPDX-License-Identifier: Apache-2.0
// The plan of a compiled model as one HTML page: memory over steps, work and bytes per step, every
// op. The drawings are SVG within the page; nothing is loaded and no script runs.
#pragma once

#include <string>

#include "module.h"

namespace xrt::lite {

// `title` stands above; `file_bytes` is the size of what was written.
std::string report_html(const Module& module, const std::string& title, std::size_t file_bytes);

}  // namespace xrt::lite
