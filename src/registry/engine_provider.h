// SPDX-License-Identifier: Apache-2.0
// Engines that are made when they are first asked for, by other means than a library: how the
// Python package offers the engines that are written in Python.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "xrt/export.h"

namespace xrt {

class XRT_API EngineProvider {
 public:
  virtual ~EngineProvider();
  // Engines that load() knows, whether or not they can be loaded.
  virtual std::vector<std::string> names() const = 0;
  // Makes the engine and hands it to register_engine(). False: it knows no engine of that name.
  // Throws xrt::Error with the cause if the engine cannot be made. Called by any thread.
  virtual bool load(const std::string& name) const = 0;
  // The command that runs the engine in a worker (src/isolation/serve.h), without what is put
  // behind it. Empty: the engine was made in this process and cannot be made in another.
  virtual std::vector<std::string> worker_command(const std::string& name) const = 0;
};

// Libraries come first: a provider is asked for names that no library bears. Replaces the one
// before.
XRT_API void set_engine_provider(std::shared_ptr<const EngineProvider> provider);

// The file of the library that the engine was loaded from, or would be if it were asked for; empty
// for any other engine.
std::filesystem::path engine_library(const std::string& engine);

}  // namespace xrt
