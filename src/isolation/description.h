// SPDX-License-Identifier: Apache-2.0
// What a worker says about its engine and what it compiled, in the flat form: written there, read
// here.
#pragma once

#include "ir/flat.h"
#include "xrt/engine.h"

namespace xrt {

// Devices, options, version and what else holds in a worker too; what does not is left out.
void write_description(FlatWriter& to, const EngineInfo& info);
EngineInfo read_description(FlatReader& from);

void write_executable(FlatWriter& to, const ExecutableInfo& info);
// `pool` is what the worker calls it: 0 where there is none.
struct ExecutableDescription {
  ExecutableInfo info;
  std::uint64_t pool = 0;
};
ExecutableDescription read_executable(FlatReader& from);

void write_options(FlatWriter& to, const CompileOptions& options);
CompileOptions read_options(FlatReader& from);

}  // namespace xrt
