// SPDX-License-Identifier: Apache-2.0
// Functions that an engine computed wrong on this machine: remembered in the process, and in a
// folder of the disk cache until the engine has another version.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "xrt/export.h"

namespace xrt {

// Why the function of compile_key() `key` is not to be run by `engine`; nothing where it may be.
// `dir`: the disk cache, or empty.
XRT_API std::optional<std::string> find_distrust(const std::string& key, const std::string& engine,
                                                 const std::filesystem::path& dir);
// `function`: its name, for listings. A folder that cannot be written to is a warning in the log.
XRT_API void keep_distrust(const std::string& key, const std::string& engine,
                           const std::string& function, const std::string& why,
                           const std::filesystem::path& dir);
// Drops what the process remembers; what is on disk stays.
XRT_API void forget_distrust();

}  // namespace xrt
