// SPDX-License-Identifier: Apache-2.0
// Where Linux tells what this process's control groups allow it.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "xrt/export.h"

namespace xrt {

// Folders of the groups that this process is in, those of `controller` ("memory", "cpu"): a group's
// limits hold for all groups below it, so the least of what the folders say holds. Version 2's
// folders first, of each version from the process's own group up to the mount. A container shows
// its own group as the mount, whatever the group is called outside. `mount` and `groups` are other
// places in tests.
XRT_API std::vector<std::filesystem::path> control_group_folders(
    std::string_view controller, const std::filesystem::path& mount = "/sys/fs/cgroup",
    const std::filesystem::path& groups = "/proc/self/cgroup");

}  // namespace xrt
