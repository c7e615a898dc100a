// SPDX-License-Identifier: Apache-2.0
// Engines by name: libraries beside libxrt and on XRT_ENGINE_PATH, opened on first use, engines
// registered by this process, and those of a provider.
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <utility>

#include "base/file.h"
#include "base/fork_mutex.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/per_process.h"
#include "isolation/isolated_engine.h"
#include "isolation/names.h"
#include "registry/engine_failure.h"
#include "registry/engine_library.h"
#include "registry/engine_manifest.h"
#include "registry/engine_names.h"
#include "registry/engine_provider.h"
#include "registry/library_file.h"
#include "xrt/engine.h"
#include "xrt/registry.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "libxrt_engine_";
constexpr std::string_view kSuffix = ".so";

// "native" for ".../libxrt_engine_native.so", "" for any other file.
std::string engine_of(const fs::path& file) {
  const std::string name = file.filename().string();
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return {};
  return name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
}

// Throws kIo where the folder cannot be read: fewer engines than there are would be another plan.
void list_folder(const fs::path& folder, std::vector<fs::path>& files) {
  for (fs::path& file : folder_entries(folder)) {
    if (!engine_of(file).empty()) files.push_back(std::move(file));
  }
}

// The folders are read whenever somebody asks for engines; what is odd about them is said once.
void warn_once(const std::string& text) {
  static ForkMutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  if (said.insert(text).second) log_warning(text);
}

// A name belongs to the first file that bears it: built-in engines cannot be replaced.
void warn_of_hidden(const std::vector<fs::path>& files) {
  std::map<std::string, fs::path> first;
  for (const fs::path& file : files) {
    const fs::path& used = first.try_emplace(engine_of(file), file).first->second;
    std::error_code error;
    if (used == file || fs::equivalent(used, file, error)) continue;
    warn_once("XRT_ENGINE_PATH: '" + file.string() + "' is not used: engine '" + engine_of(file) +
              "' comes from '" + used.string() + "'");
  }
}

// Built-in libraries first, then what XRT_ENGINE_PATH (folders or files, separated by ':') adds.
std::vector<fs::path> library_files() {
  std::vector<fs::path> files;
  const fs::path built_in = own_folder() / "xrt" / "engines";
  if (fs::exists(built_in)) list_folder(built_in, files);
  if (const char* path = std::getenv("XRT_ENGINE_PATH")) {
    std::stringstream entries{std::string(path)};
    for (std::string entry; std::getline(entries, entry, ':');) {
      if (entry.empty()) continue;
      std::error_code error;
      if (fs::is_directory(entry, error)) {
        list_folder(entry, files);
      } else if (!engine_of(entry).empty()) {
        files.emplace_back(entry);
      } else {
        warn_once("XRT_ENGINE_PATH: '" + entry +
                  "' is neither a folder nor a file libxrt_engine_<name>.so");
      }
    }
    warn_of_hidden(files);
  }
  return files;
}

class Registry {
  using Engines = std::map<std::string, std::shared_ptr<const Engine>>;

 public:
  static Registry& instance() {
    static Registry registry;
    return registry;
  }
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;
  // Workers are ended, but for those of the parent of a child that fork() made.
  ~Registry() {
    if (::getpid() == process_) delete isolated_;
  }

  std::shared_ptr<const Engine> get(const std::string& name) {
    if (is_isolated(name)) return isolated(name);
    if (auto engine = from_library(name)) return engine;
    // Without the lock: making the engine registers it, and runs code that is not ours.
    const std::shared_ptr<const EngineProvider> provider = this->provider();
    if (provider != nullptr && provider->load(name)) {
      if (auto engine = from_library(name)) return engine;
      throw Error(ErrorCode::kEngine,
                  "engine '" + name + "': loading it registered no such engine");
    }
    if (provider == nullptr && engine_manifest(name).language == "python") {
      throw Error(ErrorCode::kNotFound,
                  "engine '" + name +
                      "' is written in Python, and this program runs without it: use the xrt that "
                      "`pip install openxrt` brings, or `python -m openxrt`");
    }
    const std::vector<std::string> others = names();
    std::string known;
    for (const std::string& other : others) known += (known.empty() ? "" : ", ") + other;
    std::string near = suggestion(name, others);
    if (near.find("did you mean") == std::string::npos) near.clear();
    throw Error(ErrorCode::kNotFound, "there is no engine '" + name + "'" + near +
                                          "; known: " + known +
                                          ". Engines of other folders are found through "
                                          "XRT_ENGINE_PATH");
  }

  std::vector<std::string> names() {
    std::vector<std::string> names;
    const auto add = [&](const std::string& name) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    };
    for (const fs::path& file : library_files()) add(engine_of(file));
    if (const auto provider = this->provider()) {
      for (const std::string& name : provider->names()) add(name);
    }
    const std::lock_guard lock(mutex_);
    for (const auto& [name, engine] : *engines_) add(name);
    return names;
  }

  fs::path library(const std::string& name) {
    const std::string engine(base_engine(name));
    const std::lock_guard lock(mutex_);
    if (const auto it = libraries_.find(engine); it != libraries_.end()) return it->second;
    if (engines_->contains(engine)) return {};
    for (fs::path& file : library_files()) {
      if (engine_of(file) == engine) return std::move(file);
    }
    return {};
  }

  void set_provider(std::shared_ptr<const EngineProvider> provider) {
    const std::lock_guard lock(mutex_);
    provider_ = std::move(provider);
  }

  void add(std::shared_ptr<const Engine> engine) {
    const std::lock_guard lock(mutex_);
    insert(std::move(engine), "this process");
  }

 private:
  Registry() = default;

  // One that runs in a worker: the engine's own library is not opened in this process.
  std::shared_ptr<const Engine> isolated(const std::string& name) {
    const std::string base(base_engine(name));
    // A program of its own that serves what is in a library, and else a command, which it starts.
    std::vector<std::string> command = {(own_folder() / "xrt" / "xrt_worker").string()};
    bool serves = !library(base).empty();
    if (const auto provider = this->provider(); !serves && provider != nullptr) {
      const std::vector<std::string> words = provider->worker_command(base);
      command.insert(command.end(), words.begin(), words.end());
      serves = !words.empty();
    }
    if (!serves) {
      // Where there is no such engine at all, the text says so.
      get(base);
      throw Error(ErrorCode::kUnsupported,
                  "engine '" + base +
                      "' was made in this process and cannot run in another: leave it out of "
                      "`isolation`, or give it a library or an entry point");
    }
    // Held while a worker starts: who comes second wants the same one.
    const std::lock_guard turn(isolated_turn_.get());
    {
      const std::lock_guard lock(mutex_);
      const auto known = isolated_->find(name);
      if (known != isolated_->end()) return known->second;
    }
    try {
      std::shared_ptr<const Engine> made = make_isolated_engine(name, std::move(command));
      const std::lock_guard lock(mutex_);
      return (*isolated_)[name] = std::move(made);
    } catch (const Error& error) {
      throw Error(error.code(), "engine '" + name + "' cannot be loaded: " + error.what());
    }
  }

  std::shared_ptr<const EngineProvider> provider() {
    const std::lock_guard lock(mutex_);
    return provider_;
  }

  // The engine if it is registered or a library bears its name; null otherwise.
  std::shared_ptr<const Engine> from_library(const std::string& name) {
    const std::lock_guard lock(mutex_);
    if (const auto it = engines_->find(name); it != engines_->end()) return it->second;
    if (const auto it = failures_.find(name); it != failures_.end()) throw it->second;
    for (const fs::path& file : library_files()) {
      if (engine_of(file) == name) return open(name, file);
    }
    return nullptr;
  }

  void insert(std::shared_ptr<const Engine> engine, const std::string& source) {
    const std::string& name = engine->name();
    if (name.empty() || name == "auto" || name == kRuntimeEngine) {
      throw Error(ErrorCode::kInvalidArgument,
                  "an engine of " + source + " bears the name '" + name + "', which is reserved");
    }
    // Names stand in lists, options and file names.
    const auto plain = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
    };
    if (!std::all_of(name.begin(), name.end(), plain)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "an engine of " + source + " bears the name '" + name +
                      "': names are made of letters, digits, '_', '-' and '.'");
    }
    if (!engines_->emplace(name, engine).second) {
      throw Error(ErrorCode::kInvalidArgument,
                  "a second engine '" + name + "' comes from " + source + "; names must be unique");
    }
  }

  std::shared_ptr<const Engine> open(const std::string& name, const fs::path& file) {
    try {
      const EngineManifest manifest = read_engine_manifest(manifest_file(file));
      const auto entry = reinterpret_cast<xrt_engine_entry_function>(
          open_library(file, XRT_ENGINE_ENTRY, manifest.libraries, manifest.install));
      std::shared_ptr<const Engine> engine = open_engine(entry);
      if (engine->name() != name) {
        throw Error(ErrorCode::kEngine, "its engine bears the name '" + engine->name() +
                                            "', which is not that of the file");
      }
      insert(engine, file.string());
      libraries_[name] = file;
      return engine;
    } catch (const Error& error) {
      failures_.emplace(name, Error(error.code(), "engine '" + name + "' cannot be loaded from '" +
                                                      file.string() + "': " + error.what()));
      throw Error(failures_.at(name));
    }
  }

  const pid_t process_ = ::getpid();
  ForkMutex mutex_;
  // Never deleted: what vendors' libraries need in order to let go of anything was loaded after
  // this object was made, and is gone before it.
  Engines* const engines_ = new Engines;
  std::map<std::string, Error> failures_;      // a failed load is reported again, not tried again
  std::map<std::string, fs::path> libraries_;  // of engines that come from one
  PerProcess<std::mutex> isolated_turn_;
  Engines* const isolated_ = new Engines;
  std::shared_ptr<const EngineProvider> provider_;
};

}  // namespace

EngineProvider::~EngineProvider() = default;

void set_engine_provider(std::shared_ptr<const EngineProvider> provider) {
  Registry::instance().set_provider(std::move(provider));
}

fs::path engine_library(const std::string& engine) { return Registry::instance().library(engine); }

std::shared_ptr<const Engine> get_engine(std::string_view name) {
  return Registry::instance().get(std::string(name));
}

std::string fallback_engine() { return kFallbackEngine; }

std::vector<std::string> engine_names() { return Registry::instance().names(); }

void register_engine(std::shared_ptr<const Engine> engine) {
  if (engine == nullptr) throw Error(ErrorCode::kInvalidArgument, "a null engine was registered");
  Registry::instance().add(std::move(engine));
}

}  // namespace xrt
