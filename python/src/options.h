// SPDX-License-Identifier: Apache-2.0
// Options of a program from Python's values, by the table of options.
#pragma once

#include <nanobind/nanobind.h>

#include "xrt/options.h"

namespace xrt::python {

// Sets each option that `values` names (str → value), in its order. None is "not given" for paths
// and maps; a list may be a str, "a,b". Throws kInvalidArgument, in set_option()'s words, for an
// unknown name and for a value of the wrong kind or out of range.
void set_options(ProgramOptions& options, const nanobind::dict& values);

}  // namespace xrt::python
