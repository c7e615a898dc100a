// SPDX-License-Identifier: Apache-2.0
#include "cache/distrust.h"

#include <map>
#include <mutex>
#include <string_view>
#include <system_error>

#include "base/fork_mutex.h"
#include "cache/cache_entry.h"
#include "xrt/error.h"

namespace xrt {
namespace {

class Distrust {
 public:
  static Distrust& process() {
    static Distrust distrust;
    return distrust;
  }
  std::optional<std::string> find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto it = reasons_.find(key);
    return it == reasons_.end() ? std::nullopt : std::optional(it->second);
  }
  void keep(const std::string& key, const std::string& why) {
    const std::lock_guard lock(mutex_);
    reasons_[key] = why;
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    reasons_.clear();
  }

 private:
  ForkMutex mutex_;
  std::map<std::string, std::string> reasons_;
};

std::string entry_key(const std::string& key) { return "wrong-" + key; }

EntryHeader distrust_header(const std::string& engine, const std::string& function) {
  return entry_header(engine, engine_identity(engine), function);
}

}  // namespace

std::optional<std::string> find_distrust(const std::string& key, const std::string& engine,
                                         const std::filesystem::path& dir) {
  if (std::optional<std::string> why = Distrust::process().find(key)) return why;
  if (dir.empty()) return std::nullopt;
  try {
    const std::filesystem::path path = entry_path(dir, entry_key(key));
    std::error_code missing;
    if (!std::filesystem::exists(path, missing)) return std::nullopt;
    prepare_folder(dir);
    const std::optional<Tensor> payload = read_entry(path, distrust_header(engine, ""));
    if (!payload) return std::nullopt;
    std::string why(reinterpret_cast<const char*>(payload->data<std::uint8_t>()), payload->bytes());
    Distrust::process().keep(key, why);
    return why;
  } catch (const Error& error) {
    log_trouble(dir, error.what());
    return std::nullopt;
  }
}

void keep_distrust(const std::string& key, const std::string& engine, const std::string& function,
                   const std::string& why, const std::filesystem::path& dir) {
  Distrust::process().keep(key, why);
  // Nothing tells when the code of an engine changes that was made in this process.
  if (dir.empty() || engine_stamp(engine).empty()) return;
  try {
    prepare_folder(dir);
    const std::string_view blocks[] = {why};
    write_entry(dir, entry_key(key), distrust_header(engine, function), blocks);
  } catch (const Error& error) {
    log_trouble(dir, std::string(error.what()) + ": what was found about engine '" + engine +
                         "' is not kept");
  }
}

void forget_distrust() { Distrust::process().clear(); }

}  // namespace xrt
