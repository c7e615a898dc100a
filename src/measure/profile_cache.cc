// SPDX-License-Identifier: Apache-2.0
#include "measure/profile_cache.h"

#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/fork_mutex.h"
#include "base/hash.h"
#include "base/log.h"
#include "cache/cache_entry.h"
#include "ops/fingerprint.h"
#include "placement/estimates.h"
#include "xrt/cache.h"

namespace xrt {
namespace {

// A decision and the versions that its engines had when it was made.
struct Profile {
  Decision decision;
  std::map<std::string, std::string> versions;
};

class Memory {
 public:
  static Memory& instance() {
    static Memory memory;
    return memory;
  }
  std::optional<Profile> find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto it = profiles_.find(key);
    return it == profiles_.end() ? std::nullopt : std::optional(it->second);
  }
  void keep(const std::string& key, Profile profile) {
    const std::lock_guard lock(mutex_);
    profiles_[key] = std::move(profile);
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    profiles_.clear();
  }
  bool empty() {
    const std::lock_guard lock(mutex_);
    return profiles_.empty();
  }

 private:
  ForkMutex mutex_;
  std::map<std::string, Profile> profiles_;
};

constexpr const char* kEntryKind = "profile";
constexpr const char* kKeyPrefix = "profile-";

// The user's folder is for decisions alone; one takes about 2 kB.
constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;
constexpr std::uint64_t kNoBound = std::numeric_limits<std::uint64_t>::max();

EntryHeader header_of(const std::string& key) { return entry_header(kEntryKind, "", key); }

void write(const std::filesystem::path& dir, const std::string& key, const Profile& profile) {
  const nlohmann::json json = {{"decision", to_json(profile.decision)},
                               {"versions", profile.versions}};
  const std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const std::string_view blocks[] = {text};
  const bool is_named = dir != default_decision_dir() || dir == default_cache_dir();
  try {
    prepare_folder(dir);
    constexpr std::size_t kFrontPieces = 1;
    write_entry(dir, key, header_of(key), blocks, kFrontPieces, is_named ? kNoBound : kMostBytes);
  } catch (const Error& error) {
    const std::string what = std::string(error.what()) + ": what was measured is not kept";
    // A home that cannot be written to is no trouble: nobody asked for this folder.
    is_named ? log_trouble(dir, what) : log_info("auto: " + what);
  }
}

std::optional<Profile> read(const std::filesystem::path& dir, const std::string& key) {
  try {
    std::error_code missing;
    if (!std::filesystem::exists(entry_path(dir, key), missing)) return std::nullopt;
    prepare_folder(dir);
    const std::optional<Tensor> payload = read_entry(entry_path(dir, key), header_of(key));
    if (!payload) return std::nullopt;
    const nlohmann::json json = nlohmann::json::parse(std::string_view(
        reinterpret_cast<const char*>(payload->data<std::uint8_t>()), payload->bytes()));
    std::optional<Decision> decision = decision_from_json(json.at("decision").get<std::string>());
    if (!decision) return std::nullopt;
    return Profile{std::move(*decision),
                   json.at("versions").get<std::map<std::string, std::string>>()};
  } catch (const Error& error) {
    log_warning(std::string("profile cache: ") + error.what() + ": measuring again");
  } catch (const nlohmann::json::exception&) {
    log_warning("profile cache: entry '" + key + "' makes no sense: measuring again");
  }
  return std::nullopt;
}

// Empty where all engines are what they were.
std::string what_changed(const Profile& profile) {
  for (const auto& [name, version] : profile.versions) {
    try {
      const std::string now = engine_identity(name);
      if (now != version) return "engine '" + name + "' was " + version + " and is " + now;
    } catch (const Error& error) {
      return "engine '" + name + "' is gone: " + error.what();
    }
  }
  return {};
}

}  // namespace

std::filesystem::path profile_folder(const ProgramOptions& options) {
  return options.cache_dir ? *options.cache_dir : default_decision_dir();
}

std::string profile_key(const Graph& graph, const ProgramOptions& options) {
  Hasher hasher;
  const Digest content = fingerprint(graph);
  hasher.add_bytes(&content, sizeof(content));
  if (is_auto(options)) {
    for (const std::string& name : auto_candidates(options)) hasher.add(name);
  }
  hasher.add(option_key(options));
  hasher.add(machine_identity());
  return kKeyPrefix + hasher.digest().hex();
}

void forget_profiles() { Memory::instance().clear(); }

bool profiles_exist(const ProgramOptions& options) {
  if (!Memory::instance().empty()) return true;
  const std::filesystem::path dir = profile_folder(options);
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(dir, missing)) {
    if (entry.path().filename().native().starts_with(kKeyPrefix)) return true;
  }
  return false;
}

std::optional<Decision> find_profile(const std::string& key, const ProgramOptions& options) {
  std::optional<Profile> profile = Memory::instance().find(key);
  const std::filesystem::path dir = profile_folder(options);
  if (!profile && !dir.empty()) profile = read(dir, key);
  if (!profile) return std::nullopt;
  if (const std::string changed = what_changed(*profile); !changed.empty()) {
    log_info("auto: measurements are stale: " + changed);
    return std::nullopt;
  }
  profile->decision.placement = kMeasuredEarlier;
  return std::move(profile->decision);
}

void keep_profile(const std::string& key, const ProgramOptions& options, const Decision& decision) {
  Profile profile{decision, {}};
  bool on_disk = true;
  for (const std::string& name : decision.engines) {
    profile.versions[name] = engine_identity(name);
    on_disk = on_disk && !engine_stamp(name).empty();
  }
  const std::filesystem::path dir = profile_folder(options);
  if (on_disk && !dir.empty()) write(dir, key, profile);
  Memory::instance().keep(key, std::move(profile));
}

}  // namespace xrt
