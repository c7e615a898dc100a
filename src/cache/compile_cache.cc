// SPDX-License-Identifier: Apache-2.0
#include "cache/compile_cache.h"

#include <sys/stat.h>

#include <map>
#include <mutex>
#include <utility>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/per_process.h"
#include "cache/cache_entry.h"
#include "engine/host.h"
#include "isolation/names.h"
#include "ops/fingerprint.h"
#include "ops/op_registry.h"
#include "registry/engine_failure.h"
#include "xrt/registry.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;

// Tells an entry from the one that replaced it; 0 where there is none.
ino_t inode_of(const fs::path& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

EntryHeader header_for(const Engine& engine, const Function& function) {
  // An engine that is not registered has no stamp: its version is all there is.
  std::string identity = engine.info().version;
  try {
    if (get_engine(engine.name()).get() == &engine) identity = engine_identity(engine.name());
  } catch (const Error& error) {
    log_debug("engine '" + engine.name() + "' is known by its version alone: " + error.what());
  }
  return entry_header(engine.name(), std::move(identity), function.name);
}

// What compile_cached() was asked for.
struct Request {
  const Engine& engine;
  const Function& function;
  const CompileOptions& options;
  const std::function<void()>& check_constants;

  void constants_are_read() const {
    if (check_constants) check_constants();
  }
};

std::shared_ptr<const Executable> load_entry(const fs::path& path, const Request& request) {
  const Engine& engine = request.engine;
  const std::optional<Tensor> payload = read_entry(path, header_for(engine, request.function));
  if (!payload) return nullptr;
  if (!engine.info().self_contained) request.constants_are_read();
  try {
    auto executable = engine.load(view_of(*payload), request.function, request.options);
    if (executable == nullptr) throw Error(ErrorCode::kEngine, "load() returned no executable");
    return executable;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (...) {  // whatever it is: there is a way without the entry
    log_warning("cache entry '" + path.string() + "': engine '" + engine.name() +
                "' does not take it: " + exception_text() + ": compiling again");
    return nullptr;
  }
}

// An executable as an entry, written behind the caller's back. The lock is held until it is there:
// who waits for it then finds the entry.
void keep(const std::shared_ptr<const Executable>& executable, const EntryHeader& header,
          const fs::path& dir, const std::string& key, std::shared_ptr<FileLock> lock) {
  write_behind(dir, [executable, header, dir, key, lock = std::move(lock)] {
    const auto payload = executable->serialize();
    if (!payload) return;
    const std::string_view piece = *payload;
    write_entry(dir, key, header, std::span(&piece, 1));
  });
}

// Finds the executable in the folder, or gives the lock under which it is to be compiled and kept;
// neither where the folder is of no use.
struct Found {
  std::shared_ptr<const Executable> executable;
  std::shared_ptr<FileLock> lock;
};

Found find_on_disk(const Request& request, const fs::path& dir, const std::string& key, bool anew) {
  std::shared_ptr<FileLock> lock;
  try {
    prepare_folder(dir);
    const fs::path path = entry_path(dir, key);
    // Entries are whole or not there, so reading needs no lock, and works in a read-only folder.
    const ino_t seen = inode_of(path);
    if (!anew) {
      if (auto executable = load_entry(path, request)) return {std::move(executable), nullptr};
    }
    // Held while compiling: who finds another process at work on this entry waits and then loads.
    lock = std::make_shared<FileLock>(dir / (key + ".lock"));
    if (!anew && inode_of(path) != seen) {
      if (auto executable = load_entry(path, request)) return {std::move(executable), nullptr};
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInvalidModel) throw;  // of the constants, not of the folder
    log_trouble(dir, std::string(error.what()) + ": compiling without the cache");
  }
  return {nullptr, std::move(lock)};
}

std::shared_ptr<const Executable> compile(const Request& request) {
  request.constants_are_read();
  auto executable = request.engine.compile(request.function, request.options);
  if (executable == nullptr) throw Error(ErrorCode::kEngine, "compile() returned no executable");
  return executable;
}

// The executable, and whether it comes from the folder.
std::pair<std::shared_ptr<const Executable>, bool> compile_on_disk(const Request& request,
                                                                   const fs::path& dir,
                                                                   const std::string& key,
                                                                   bool anew) {
  Found found = find_on_disk(request, dir, key, anew);
  if (found.executable) return {std::move(found.executable), true};
  auto executable = compile(request);
  if (found.lock != nullptr) {
    keep(executable, header_for(request.engine, request.function), dir, key, std::move(found.lock));
  }
  return {std::move(executable), false};
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
      if (item.second.use_count() > 1) return false;
      // Nobody holds it now; what the last one wrote is seen by who locks after him.
      const std::lock_guard last(item.second->mutex);
      return item.second->executable.expired();
    });
    auto& slot = entries_[key];
    if (slot == nullptr) slot = std::make_shared<Entry>();
    return slot;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>> entries_;
};

// What users' ops bring in the engine's own language: their versions need not tell it.
void add_code_of_ops(const Graph& graph, const std::string& engine, Hasher& hasher) {
  for (const NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    if (const auto code = engine_code(graph, node, engine)) hasher.add(*code);
    for (const Graph* body : Graph::subgraphs(node)) add_code_of_ops(*body, engine, hasher);
  }
}

}  // namespace

std::string compile_key(const Engine& engine, const Function& function,
                        const CompileOptions& options) {
  Hasher hasher;
  const Digest graph = fingerprint(graph_of(function.graph));
  hasher.add(engine.name()).add_bytes(&graph, sizeof(graph));
  hasher.add(static_cast<std::int64_t>(function.aliases.size()));
  for (const InputOutputAlias& a : function.aliases) hasher.add(a.input).add(a.output);
  hasher.add(options.device).add(options.num_threads).add(options.streams);
  hasher.add(static_cast<std::int64_t>(options.precision));
  hasher.add(static_cast<std::int64_t>(options.phase));
  hasher.add(options.max_batch_size).add(static_cast<std::int64_t>(options.max_workspace_bytes));
  for (const SizeRange& range : options.ranges) {
    hasher.add(range.symbol).add(range.least).add(range.usual).add(range.most);
  }
  for (const auto& [name, value] : options.engine_options) hasher.add(name).add(value);
  add_code_of_ops(graph_of(function.graph), std::string(base_engine(engine.name())), hasher);
  return engine.name() + "-" + hasher.digest().hex();
}

CompileResult compile_cached(const Engine& engine, const Function& function,
                             const CompileOptions& options, const fs::path& dir,
                             const std::string& key, bool anew,
                             const std::function<void()>& check_constants) {
  static PerProcess<MemoryCache> memory;
  const auto entry = memory.get().entry(key);
  const std::lock_guard lock(entry->mutex);
  const auto result_of = [](std::shared_ptr<const Executable> executable, bool from_cache) {
    ExecutableInfo info = executable->info();
    return CompileResult{std::move(executable), std::move(info), from_cache};
  };
  if (!anew) {
    if (auto executable = entry->executable.lock()) return result_of(std::move(executable), true);
  }
  const Request request{engine, function, options, check_constants};
  auto [executable, from_cache] =
      dir.empty() ? std::pair(compile(request), false) : compile_on_disk(request, dir, key, anew);
  entry->executable = executable;
  return result_of(std::move(executable), from_cache);
}

CompileResult compile_cached(const Engine& engine, const Function& function,
                             const CompileOptions& options, const fs::path& dir) {
  return compile_cached(engine, function, options, dir, compile_key(engine, function, options),
                        false);
}

}  // namespace xrt
