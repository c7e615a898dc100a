// SPDX-License-Identifier: Apache-2.0
// The disk cache, for tools that look into it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "xrt/export.h"

namespace xrt {

struct CacheEntry {
  std::string key, engine, function;
  std::size_t bytes = 0;
  std::int64_t last_used_unix = 0;  // seconds
  bool valid = false;               // header and checksum hold
};
XRT_API std::vector<CacheEntry> list_cache(const std::filesystem::path& dir);
XRT_API std::size_t clear_cache(const std::filesystem::path& dir);  // entries removed
// $XRT_CACHE_DIR, else empty (no disk cache).
XRT_API std::filesystem::path default_cache_dir();
// Where a program without a cache folder keeps what engine "auto" measured: $XRT_CACHE_DIR where it
// is set, else openxrt/decisions in $XDG_CACHE_HOME or ~/.cache. Empty where the variable is set to
// nothing, or there is no home.
XRT_API std::filesystem::path default_decision_dir();

}  // namespace xrt
