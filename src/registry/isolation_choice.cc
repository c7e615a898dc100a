// SPDX-License-Identifier: Apache-2.0
#include "registry/isolation_choice.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/nearest.h"
#include "isolation/names.h"
#include "registry/engine_names.h"
#include "xrt/error.h"
#include "xrt/registry.h"

namespace xrt {
namespace {

constexpr const char* kAllWord = "process";  // all engines but the fallback

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::string placed_engine(const ProgramOptions& options, const std::string& engine) {
  if (engine == "auto" || engine == kRuntimeEngine || is_isolated(engine)) return engine;
  const bool all = contains(options.isolation, kAllWord) && engine != kFallbackEngine;
  return all || contains(options.isolation, engine) ? isolated_engine(engine) : engine;
}

ProgramOptions with_isolation(ProgramOptions options) {
  if (options.isolation.empty()) return options;
  const std::vector<std::string> known = engine_names();
  for (const std::string& name : options.isolation) {
    if (name == kAllWord || contains(known, std::string(base_engine(name)))) continue;
    throw Error(ErrorCode::kInvalidArgument,
                "isolation: there is no engine '" + name + "'" + suggestion(name, known));
  }
  for (std::string& name : options.engines) name = placed_engine(options, name);
  for (auto& [node, name] : options.node_engines) name = placed_engine(options, name);
  OptionsByEngine own;
  for (auto& [name, values] : options.engine_options) {
    // What is given under the full name goes before what is given under the short one.
    own[placed_engine(options, name)].merge(OptionMap(values));
    if (is_isolated(name)) own[name] = values;
  }
  options.engine_options = std::move(own);
  return options;
}

}  // namespace xrt
