// SPDX-License-Identifier: Apache-2.0
// Options of the C API.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "capi/border.h"

using xrt::capi::copy_text;
using xrt::capi::guarded;
using xrt::capi::need;

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
    xrt::set_option(target, name, value);
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
    std::vector<std::string> names;
    for (const xrt::OptionInfo& option : xrt::option_table()) {
      names.push_back(option.name);
      names.insert(names.end(), option.other_names.begin(), option.other_names.end());
    }
    std::sort(names.begin(), names.end());
    *json = copy_text(nlohmann::json(names).dump());
  });
}
