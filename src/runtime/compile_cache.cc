// SPDX-License-Identifier: Apache-2.0
#include "runtime/compile_cache.h"

#include <map>
#include <mutex>
#include <utility>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "ir/fingerprint.h"
#include "runtime/cache_entry.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;

EntryHeader header_for(const Engine& engine, const Function& function) {
  std::string identity =
      is_from_library(engine.name()) ? engine_identity(engine.name()) : engine.version();
  return entry_header(engine.name(), std::move(identity), function.name);
}

std::shared_ptr<const Executable> load_entry(const fs::path& path, const Engine& engine,
                                             const Function& function,
                                             const CompileOptions& options) {
  const std::optional<Tensor> payload = read_entry(path, header_for(engine, function));
  if (!payload) return nullptr;
  try {
    return engine.load(*payload, function, options);
  } catch (const Error& error) {
    log_warning("cache entry '" + path.string() + "': engine '" + engine.name() +
                "' does not take it: " + error.what() + ": compiling again");
    return nullptr;
  }
}

// An executable as an entry, written behind the caller's back. The lock is held until it is there:
// who waits for it then finds the entry.
void keep(const std::shared_ptr<const Executable>& executable, const EntryHeader& header,
          const fs::path& dir, const std::string& key, std::shared_ptr<FileLock> lock) {
  write_behind([executable, header, dir, key, lock = std::move(lock)] {
    const auto payload = executable->serialize();
    if (!payload) return;
    const std::string_view piece = *payload;
    write_entry(dir, key, header, std::span(&piece, 1));
  });
}

CompileResult compile_on_disk(const Engine& engine, const Function& function,
                              const CompileOptions& options, const fs::path& dir,
                              const std::string& key) {
  std::shared_ptr<FileLock> lock;
  try {
    prepare_folder(dir);
    const fs::path path = entry_path(dir, key);
    // Entries are whole or not there, so reading needs no lock, and works in a read-only folder.
    std::error_code none;
    const fs::file_time_type seen = fs::last_write_time(path, none);
    if (auto executable = load_entry(path, engine, function, options)) return {executable, true};
    // Held while compiling: who finds another process at work on this entry waits and then loads.
    lock = std::make_shared<FileLock>(dir / (key + ".lock"));
    if (fs::last_write_time(path, none) != seen) {
      if (auto executable = load_entry(path, engine, function, options)) return {executable, true};
    }
  } catch (const Error& error) {
    log_warning("compile cache: " + std::string(error.what()) + ": compiling without it");
  }
  auto executable = engine.compile(function, options);
  if (lock != nullptr) keep(executable, header_for(engine, function), dir, key, std::move(lock));
  return {executable, false};
}

// One executable per key while anybody uses it; concurrent misses of one key compile once.
class MemoryCache {
 public:
  struct Entry {
    std::mutex mutex;
    std::weak_ptr<const Executable> executable;
  };
  std::shared_ptr<Entry> entry(const std::string& key) {
    const std::lock_guard lock(mutex_);
    std::erase_if(entries_, [](const auto& item) {
      return item.second.use_count() == 1 && item.second->executable.expired();
    });
    auto& slot = entries_[key];
    if (slot == nullptr) slot = std::make_shared<Entry>();
    return slot;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>> entries_;
};

}  // namespace

std::string compile_key(const Engine& engine, const Function& function,
                        const CompileOptions& options) {
  Hasher hasher;
  const Digest graph = fingerprint(function.graph);
  hasher.add(engine.name()).add_bytes(&graph, sizeof(graph));
  hasher.add(static_cast<std::int64_t>(function.aliases.size()));
  for (const InputOutputAlias& a : function.aliases) hasher.add(a.input).add(a.output);
  hasher.add(options.device).add(options.num_threads);
  hasher.add(static_cast<std::int64_t>(options.phase));
  hasher.add(options.max_batch_size).add(static_cast<std::int64_t>(options.max_workspace_bytes));
  for (const auto& [name, value] : options.engine_options) hasher.add(name).add(value);
  return engine.name() + "-" + hasher.digest().hex();
}

CompileResult compile_cached(const Engine& engine, const Function& function,
                             const CompileOptions& options, const fs::path& dir,
                             const std::string& key) {
  static MemoryCache memory;
  const auto entry = memory.entry(key);
  const std::lock_guard lock(entry->mutex);
  if (auto executable = entry->executable.lock()) return {executable, true};
  CompileResult result = dir.empty() ? CompileResult{engine.compile(function, options), false}
                                     : compile_on_disk(engine, function, options, dir, key);
  entry->executable = result.executable;
  return result;
}

CompileResult compile_cached(const Engine& engine, const Function& function,
                             const CompileOptions& options, const fs::path& dir) {
  return compile_cached(engine, function, options, dir, compile_key(engine, function, options));
}

}  // namespace xrt
