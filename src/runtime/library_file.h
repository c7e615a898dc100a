// SPDX-License-Identifier: Apache-2.0
// Shared libraries that others bring, opened: engines and ops.
#pragma once

#include <filesystem>

namespace xrt {

// dlopen()'s handle, never to be closed: vendor libraries keep threads and thread-local state.
// Looked at first is what the dynamic loader takes on trust and dies of or waits for: that it is a
// regular file that can be read, an ELF file of this processor, and whole. Throws kEngine with the
// cause.
void* open_library(const std::filesystem::path& file);

}  // namespace xrt
