// SPDX-License-Identifier: Apache-2.0
#include "cache/file_digest.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "cache/cache_entry.h"
#include "device/threads.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEntryKind = "file";
constexpr const char* kUnsettled = "unsettled";  // no state equals it
constexpr std::size_t kDigestDigits = 32;

std::string state_text(const struct stat& info) {
  std::string text;
  for (const auto n :
       {static_cast<std::int64_t>(info.st_dev), static_cast<std::int64_t>(info.st_ino),
        static_cast<std::int64_t>(info.st_size), static_cast<std::int64_t>(info.st_mtim.tv_sec),
        static_cast<std::int64_t>(info.st_mtim.tv_nsec),
        static_cast<std::int64_t>(info.st_ctim.tv_sec),
        static_cast<std::int64_t>(info.st_ctim.tv_nsec)}) {
    text += (text.empty() ? "" : " ") + std::to_string(n);
  }
  return text;
}

// Whether a change from now on is bound to leave other times.
bool is_settled(const struct stat& info, std::chrono::seconds age) {
  const std::int64_t changed = std::max(info.st_mtim.tv_sec, info.st_ctim.tv_sec);
  return changed + age.count() < std::time(nullptr);
}

// An entry holds the digest, then the state.
struct Known {
  std::string digest, state;
};

std::optional<Known> known(const fs::path& dir, const std::string& key, const EntryHeader& header) {
  const std::optional<Tensor> payload = read_entry(entry_path(dir, key), header);
  if (!payload || payload->bytes() <= kDigestDigits) return std::nullopt;
  const std::string_view text(static_cast<const char*>(payload->raw()), payload->bytes());
  return Known{std::string(text.substr(0, kDigestDigits)), std::string(text.substr(kDigestDigits))};
}

}  // namespace

std::string file_state(const fs::path& file) {
  struct stat info {};
  return ::stat(file.c_str(), &info) == 0 ? state_text(info) : std::string();
}

std::string FileDigests::of(const fs::path& file) const {
  std::error_code error;
  const fs::path absolute = fs::absolute(file, error).lexically_normal();
  const std::string& name = absolute.native();
  const std::string key = "file-" + hash_bytes(name.data(), name.size()).hex();
  const EntryHeader header = entry_header(kEntryKind, "", file.filename().string());
  struct stat info {};
  const bool has_state = ::stat(file.c_str(), &info) == 0;
  const std::string state = has_state ? state_text(info) : std::string();
  const std::optional<Known> before = known(dir_, key, header);
  if (before && before->state == state) return before->digest;
  const auto mapped = MappedFile::open(file);
  std::string digest = hash_large(mapped->data(), mapped->size(), thread_budget()).hex();
  if (before && before->digest != digest) {
    log_info("'" + name + "' has changed since it was loaded the last time");
  }
  const bool certain = has_state && is_settled(info, settled_) && file_state(file) == state;
  const std::string kept = certain ? state : kUnsettled;
  const bool is_news = !before || before->digest != digest || before->state != kept;
  // A folder that is only read from serves what it has, and that is no trouble.
  if (is_news && ::access(dir_.c_str(), W_OK) == 0) {
    write_behind(dir_, [dir = dir_, key, header, text = digest + kept] {
      const std::string_view piece = text;
      write_entry(dir, key, header, std::span(&piece, 1));
    });
  }
  return digest;
}

}  // namespace xrt
