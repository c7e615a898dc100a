// SPDX-License-Identifier: Apache-2.0
// Files that a model names must lie inside the model's own folder.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/file.h"

namespace xrt {

// The folder with its links followed. kNotFound where it is missing.
std::filesystem::path canonical_folder(const std::filesystem::path& folder);

// Maps `folder / location`; `folder` is canonical. Throws, beginning with `what` ("tensor 'w': its
// external data"): kInvalidModel where the location is no relative path, leaves the folder ("..",
// or a link) or is no plain file; kNotFound where it is missing.
std::shared_ptr<const MappedFile> map_inside(const std::filesystem::path& folder,
                                             const std::string& location, const std::string& what);

}  // namespace xrt
