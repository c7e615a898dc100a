// SPDX-License-Identifier: Apache-2.0
#include "runtime/profile_cache.h"

#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/log.h"
#include "base/threads.h"
#include "ir/fingerprint.h"
#include "runtime/auto.h"
#include "runtime/cache_entry.h"

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
  bool empty() {
    const std::lock_guard lock(mutex_);
    return profiles_.empty();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Profile> profiles_;
};

// Empty where all engines are what they were.
std::string what_changed(const Profile& profile) {
  for (const auto& [name, version] : profile.versions) {
    try {
      const std::string now = get_engine(name)->version();
      if (now != version) return "engine '" + name + "' was " + version + " and is " + now;
    } catch (const Error& error) {
      return "engine '" + name + "' is gone: " + error.what();
    }
  }
  return {};
}

}  // namespace

std::string profile_key(const Graph& graph, const ProgramOptions& options) {
  Hasher hasher;
  const Digest content = fingerprint(graph);
  hasher.add_bytes(&content, sizeof(content));
  for (const std::string& name : options.engines) hasher.add(name);
  if (is_auto(options)) {
    for (const std::string& name : auto_candidates(options)) hasher.add(name);
  }
  hasher.add(static_cast<std::int64_t>(options.strict)).add(options.device);
  hasher.add(options.num_threads > 0 ? options.num_threads : thread_budget());
  hasher.add(options.cluster_minimum_nodes).add(options.cluster_maximum_nodes);
  for (const auto& [node, engine] : options.node_engines) hasher.add(node).add(engine);
  for (const auto& [input, output] : options.aliases) hasher.add(input).add(output);
  for (const auto& [engine, own] : options.engine_options) {
    hasher.add(engine);
    for (const auto& [key, value] : own) hasher.add(key).add(value);
  }
  hasher.add(options.precision).add_bytes(&options.tolerance, sizeof(options.tolerance));
  hasher.add_bytes(&options.auto_budget_s, sizeof(options.auto_budget_s));
  hasher.add(machine_identity());
  return "profile-" + hasher.digest().hex();
}

bool profiles_exist(const ProgramOptions& options) {
  (void)options;
  return !Memory::instance().empty();
}

std::optional<Decision> find_profile(const std::string& key, const ProgramOptions& options) {
  (void)options;
  std::optional<Profile> profile = Memory::instance().find(key);
  if (!profile) return std::nullopt;
  if (const std::string changed = what_changed(*profile); !changed.empty()) {
    log_info("auto: measurements are stale: " + changed);
    return std::nullopt;
  }
  profile->decision.placement = "measured earlier";
  return std::move(profile->decision);
}

void keep_profile(const std::string& key, const ProgramOptions& options, const Decision& decision) {
  (void)options;
  Profile profile{decision, {}};
  for (const std::string& name : decision.engines) {
    profile.versions[name] = get_engine(name)->version();
  }
  Memory::instance().keep(key, std::move(profile));
}

}  // namespace xrt
