// SPDX-License-Identifier: Apache-2.0
// Shared libraries that others bring, opened: engines and ops.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace xrt {

// The address of what the library exports as `symbol`. It is never closed: vendor libraries keep
// threads and thread-local state. Looked at first is what the dynamic loader takes on trust and
// dies of or waits for: that it is a regular file that can be read, an ELF file of this processor,
// and whole. One without the symbol is not opened, because its initialisers would run: those of a
// second copy of a library that this process has, this one included, may end it. What it needs is
// looked for in `vendor_folders` too (registry/vendor_libraries.h). Throws kEngine with the cause;
// where that is a vendor's library, with what was found, what is wanted, and `install`, which mends
// it.
void* open_library(const std::filesystem::path& file, const char* symbol,
                   const std::vector<std::string>& vendor_folders = {},
                   const std::string& install = {});

// The folder that libxrt lies in; empty where the system does not tell.
std::filesystem::path own_folder();

}  // namespace xrt
