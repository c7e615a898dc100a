// SPDX-License-Identifier: Apache-2.0
// From kernels on memory back to a graph, for targets whose compiler takes models.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "module.h"
#include "xrt/graph.h"

namespace xrt::lite {

// A graph whose inputs and outputs are the storages' elements as vectors, in their order in memory.
// Every op must be one that raises (cannot_raise gives nothing); factors are packed by {1, 1}.
Graph raise(const Module& module, const ModuleFunction& function, const std::vector<int>& inputs,
            const std::vector<int>& outputs);
// Why a kernel with these parameters has no form in ONNX; nothing if it has one.
std::optional<std::string> cannot_raise(xrt_kernel_id kernel, const void* params);

}  // namespace xrt::lite
