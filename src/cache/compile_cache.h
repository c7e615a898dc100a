// SPDX-License-Identifier: Apache-2.0
// What engines compiled, kept in memory for the process and on disk for the next one.
//
// An entry is found by the content of what it was compiled from. On disk every entry carries our
// header: format version, engine, its version, machine and a checksum over all of it; an engine
// never sees a byte before that was checked. A corrupt entry or a full disk means a warning and a
// compilation, never a failed run. Two processes that want the same entry compile it once.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "xrt/engine.h"

namespace xrt {

struct CompileResult {
  std::shared_ptr<const Executable> executable;  // never null
  ExecutableInfo info;
  bool from_cache = false;  // loaded from disk, or shared with another program in memory
};

// Compiles `function` with `engine`, or finds what was compiled before. `dir` empty: no disk.
CompileResult compile_cached(const Engine& engine, const Function& function,
                             const CompileOptions& options, const std::filesystem::path& dir);

// The same where compile_key() of these is known already. `anew`: nothing that was compiled before
// is used; the result is kept. `check_constants`, if given, is called before elements of the
// function's constants are read, and its exceptions pass through.
CompileResult compile_cached(const Engine& engine, const Function& function,
                             const CompileOptions& options, const std::filesystem::path& dir,
                             const std::string& key, bool anew,
                             const std::function<void()>& check_constants = {});

// Names the entry: a digest of the function and of all options that matter.
std::string compile_key(const Engine& engine, const Function& function,
                        const CompileOptions& options);

}  // namespace xrt
