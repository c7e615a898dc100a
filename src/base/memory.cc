// SPDX-License-Identifier: Apache-2.0
#include "base/memory.h"

#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "base/control_group.h"

namespace xrt {
namespace {

// The number after `name` in a file of lines "name number …".
std::optional<std::size_t> field(const std::filesystem::path& path, const std::string& name) {
  std::ifstream file(path);
  std::string key;
  std::size_t value = 0;
  std::string rest;
  while (file >> key >> value && std::getline(file, rest)) {
    if (key == name) return value;
  }
  return std::nullopt;
}

std::optional<std::size_t> number(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::size_t value = 0;
  if (file >> value) return value;
  return std::nullopt;  // not there, or "max"
}

// Files that were read count as used, but make room.
std::size_t left(std::optional<std::size_t> limit, std::optional<std::size_t> used,
                 std::optional<std::size_t> reclaimable) {
  if (!limit || !used) return SIZE_MAX;
  const std::size_t held = *used - std::min(*used, reclaimable.value_or(0));
  return *limit - std::min(*limit, held);
}

}  // namespace

std::size_t available_memory() { return available_memory(control_group_folders("memory")); }

std::size_t machine_memory() { return machine_memory(control_group_folders("memory")); }

std::size_t available_memory(std::span<const std::filesystem::path> groups) {
  std::size_t bytes = SIZE_MAX;
  if (const auto kilobytes = field("/proc/meminfo", "MemAvailable:")) bytes = *kilobytes * 1024;
  for (const std::filesystem::path& group : groups) {
    // Version 2 of control groups, then version 1.
    const std::filesystem::path stat = group / "memory.stat";
    bytes = std::min(
        {bytes,
         left(number(group / "memory.max"), number(group / "memory.current"),
              field(stat, "inactive_file")),
         left(number(group / "memory.limit_in_bytes"), number(group / "memory.usage_in_bytes"),
              field(stat, "total_inactive_file"))});
  }
  return bytes;
}

std::size_t machine_memory(std::span<const std::filesystem::path> groups) {
  std::size_t bytes = SIZE_MAX;
  if (const auto kilobytes = field("/proc/meminfo", "MemTotal:")) bytes = *kilobytes * 1024;
  for (const std::filesystem::path& group : groups) {
    bytes = std::min({bytes, number(group / "memory.max").value_or(SIZE_MAX),
                      number(group / "memory.limit_in_bytes").value_or(SIZE_MAX)});
  }
  return bytes;
}

void release_free_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace xrt
