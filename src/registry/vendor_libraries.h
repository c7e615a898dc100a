// SPDX-License-Identifier: Apache-2.0
// Vendors' libraries that an engine's library is linked with, where its search path does not lead
// to them: in other folders of Python packages than OpenXRT's own.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace xrt {

// Names of the libraries that a library asks the loader for (DT_NEEDED), in order; empty where the
// file is no ELF library of this machine's kind.
std::vector<std::string> needed_libraries(const std::filesystem::path& file);

// Folders of Python packages that this process or its environment knows: XRT_PYTHON_PACKAGES, the
// one that this library lies in, those of VIRTUAL_ENV and CONDA_PREFIX.
std::vector<std::filesystem::path> package_folders();

// Opens those of the libraries which `file` needs that are not open yet and lie in one of `folders`
// (relative to a folder of Python packages), so that the loader finds them. Returns a text for each
// that is nowhere: what is wanted, and what of other versions was found. A library that lies there
// and cannot be opened is told of likewise.
std::vector<std::string> open_needed_libraries(const std::filesystem::path& file,
                                               const std::vector<std::string>& folders);

}  // namespace xrt
