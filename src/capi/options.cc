// SPDX-License-Identifier: Apache-2.0
// Options of the C API.
#include <charconv>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capi/border.h"

using xrt::capi::copy_text;
using xrt::capi::guarded;
using xrt::capi::need;

namespace {

// What xrt::set_option() does not know.
bool set_here(xrt::ProgramOptions& options, std::string_view name, const std::string& value) {
  const auto fail = [&](const char* wanted) {
    throw xrt::Error(xrt::ErrorCode::kInvalidArgument,
                     "option '" + std::string(name) + "': '" + value + "' is not " + wanted);
  };
  if (name == "cache_dir") {
    options.cache_dir = value;
  } else if (name == "num_threads") {
    const char* end = value.data() + value.size();
    const auto [at, error] = std::from_chars(value.data(), end, options.num_threads);
    if (error != std::errc{} || at != end || options.num_threads < 0) fail("a number from 0 on");
  } else if (name == "engine") {
    std::vector<std::string> engines;
    std::istringstream names(value + ",");
    for (std::string engine; std::getline(names, engine, ',');) {
      if (engine.empty()) fail("a list of names");
      engines.push_back(engine);
    }
    options.engines = std::move(engines);
  } else {
    return false;
  }
  return true;
}

}  // namespace

xrt_code xrt_options_create(xrt_options** options, xrt_status** status) {
  return guarded(status, [&] {
    need(options, "options");
    *options = new xrt_options;
  });
}

void xrt_options_free(xrt_options* options) { delete options; }

xrt_code xrt_options_set(xrt_options* options, const char* name, const char* value,
                         xrt_status** status) {
  return guarded(status, [&] {
    xrt::ProgramOptions& target = need(options, "options")->options;
    need(name, "name");
    need(value, "value");
    if (!set_here(target, name, value)) xrt::set_option(target, name, value);
  });
}

xrt_code xrt_options_set_engine(xrt_options* options, const char* engine, const char* name,
                                const char* value, xrt_status** status) {
  return guarded(status, [&] {
    auto& target = need(options, "options")->options.engine_options;
    need(value, "value");
    need(name, "name");
    target[need(engine, "engine")][name] = value;
  });
}

xrt_code xrt_options_set_node(xrt_options* options, const char* node, const char* engine,
                              xrt_status** status) {
  return guarded(status, [&] {
    auto& target = need(options, "options")->options.node_engines;
    need(engine, "engine");
    target[need(node, "node")] = engine;
  });
}

xrt_code xrt_options_add_alias(xrt_options* options, const char* input, const char* output,
                               xrt_status** status) {
  return guarded(status, [&] {
    auto& target = need(options, "options")->options.aliases;
    target.emplace_back(need(input, "input"), need(output, "output"));
  });
}

xrt_code xrt_options_names_json(char** json, xrt_status** status) {
  return guarded(status, [&] {
    need(json, "json");
    *json = copy_text(nlohmann::json(xrt::option_names()).dump());
  });
}
