// SPDX-License-Identifier: Apache-2.0
// What of the command is written in Python: the modules of the package openxrt.
//
// The Python that runs them is the one that XRT_PYTHON names (the command that pip installs sets it
// to its own), else python3. The package is found beside this library: in an installed package
// (openxrt/lib/libxrt_command.so) or in a build folder (lib/libxrt_command.so).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace xrt::cli {

// The folder `openxrt` of the Python package that belongs to this command. Throws xrt::Error
// kNotFound, with what to do, where the command was installed without it; `what` is what needs it.
std::filesystem::path package_folder(const std::string& what);

// The Python interpreter: a path, or a name to be looked for.
std::string python_program();

// Replaces this process by `python -m MODULE ARGUMENTS`. Throws xrt::Error kNotFound where the
// package or Python is missing; does not return otherwise.
[[noreturn]] void become_python_module(const std::string& module,
                                       const std::vector<std::string>& arguments);

}  // namespace xrt::cli
