// SPDX-License-Identifier: Apache-2.0
// openxrt.Program, Port and LaunchEvent over xrt::Program.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "xrt/program.h"

namespace xrt::python {

// A Python openxrt.Explanation.
nanobind::object explanation_object(Explanation explanation, std::vector<Port> inputs,
                                    std::vector<Port> outputs);

// The program of an openxrt.Program; kInvalidArgument for another object.
Program& program_of(nanobind::handle object);

void bind_program(nanobind::module_& module);

}  // namespace xrt::python
