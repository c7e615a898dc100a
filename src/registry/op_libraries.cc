// SPDX-License-Identifier: Apache-2.0
// Libraries of users' ops: opened once, never closed.
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <new>
#include <sstream>

#include "base/file.h"
#include "base/fork_mutex.h"
#include "registry/engine_failure.h"
#include "registry/library_file.h"
#include "xrt/op.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;

// What one library hands over while its entry function runs.
class Registrar final : public OpRegistry {
 public:
  void add(const OpDefinition& definition, std::uint32_t abi) override {
    if (abi != kOpAbi) {
      throw Error(ErrorCode::kEngine, "it was built for op interface version " +
                                          std::to_string(abi) + ", this library has version " +
                                          std::to_string(kOpAbi) + "; rebuild it");
    }
    register_op(definition);
    names.push_back(definition.domain + "." + definition.name);
  }
  std::vector<std::string> names;
};

struct Loaded {
  ForkMutex mutex;
  std::map<fs::path, std::vector<std::string>> files;
};

Loaded& loaded() {
  static Loaded instance;
  return instance;
}

std::vector<std::string> open(const fs::path& file) {
  auto entry = reinterpret_cast<RegisterOpsFunction>(open_library(file, kRegisterOpsSymbol));
  Registrar registrar;
  try {
    entry(&registrar);
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (...) {
    throw Error(ErrorCode::kEngine,
                std::string(kRegisterOpsSymbol) + " threw: " + exception_text());
  }
  return registrar.names;
}

}  // namespace

std::vector<std::string> load_op_library(const fs::path& file) {
  std::error_code error;
  const fs::path path = fs::canonical(file, error);
  if (error) {
    throw Error(ErrorCode::kNotFound, "library of ops '" + file.string() + "': " + error.message());
  }
  const std::lock_guard lock(loaded().mutex);
  if (const auto it = loaded().files.find(path); it != loaded().files.end()) return it->second;
  try {
    return loaded().files[path] = open(path);
  } catch (const Error& cause) {
    loaded().files.erase(path);
    throw Error(cause.code(),
                "library of ops '" + path.string() + "' cannot be loaded: " + cause.what());
  }
}

void load_op_path() {
  const char* path = std::getenv("XRT_OP_PATH");
  if (path == nullptr) return;
  std::stringstream entries{std::string(path)};
  for (std::string entry; std::getline(entries, entry, ':');) {
    if (entry.empty()) continue;
    if (!fs::is_directory(entry)) {
      load_op_library(entry);
      continue;
    }
    for (const fs::path& file : folder_entries(entry)) {
      const std::string name = file.filename().string();
      if (name.starts_with("libxrt_op_") && name.ends_with(".so")) load_op_library(file);
    }
  }
}

}  // namespace xrt
