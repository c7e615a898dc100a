// SPDX-License-Identifier: Apache-2.0
#include "report/machine.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "device/processor.h"
#include "registry/doctor.h"
#include "registry/engine_failure.h"
#include "xrt/cache.h"
#include "xrt/threads.h"
#include "xrt/version.h"

namespace xrt::report {
namespace {

using Json = nlohmann::ordered_json;

// Paths and names may hold any bytes.
std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// The instruction sets that engines choose by.
std::string features() {
  std::string found;
  for (const char* feature : {"avx2", "fma", "f16c", "avx512f", "avx512_vnni", "avx512_bf16",
                              "avx512_fp16", "amx_int8", "amx_bf16"}) {
    if (processor().has(feature)) found += (found.empty() ? "" : " ") + std::string(feature);
  }
  return found;
}

}  // namespace

std::vector<EngineRow> list_engines() {
  std::vector<EngineRow> rows;
  for (const std::string& name : engine_names()) {
    EngineRow row;
    row.name = name;
    try {
      const std::shared_ptr<const Engine> engine = get_engine(name);
      const EngineInfo& info = engine->info();
      row.version = info.version;
      for (const DeviceInfo& device : info.devices) row.devices.push_back(device.name);
      row.dynamic_shapes = info.shapes == Shapes::kAny;
      row.ops = engine->ops();
    } catch (...) {  // the cause is the row's content
      row.error = exception_text();
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string to_json(const std::vector<EngineRow>& engines, bool with_ops, int indent) {
  Json json = Json::array();
  for (const EngineRow& row : engines) {
    Json entry = {{"name", row.name},       {"available", row.error.empty()},
                  {"version", row.version}, {"error", row.error},
                  {"devices", row.devices}, {"dynamic_shapes", row.dynamic_shapes}};
    if (with_ops) entry["ops"] = row.ops;
    json.push_back(std::move(entry));
  }
  return dump(json, indent);
}

Machine probe_machine(const std::vector<std::string>& engines) {
  Machine machine;
  machine.processor = processor().model.empty() ? "unknown" : processor().model;
  machine.features = features();
  machine.threads = thread_budget();
  machine.cache_dir = default_cache_dir();
  machine.engines = engines.empty() ? probe_engines() : probe_engines(engines);
  return machine;
}

std::string to_json(const Machine& machine, int indent) {
  Json json = {{"version", version()},
               {"processor", machine.processor},
               {"features", machine.features},
               {"threads", machine.threads},
               {"cache_dir", machine.cache_dir.string()},
               {"engines", Json::array()}};
  for (const EngineReport& report : machine.engines) {
    json["engines"].push_back({{"name", report.name},
                               {"available", report.available},
                               {"builds", report.builds},
                               {"version", report.version},
                               {"location", report.location},
                               {"error", report.error},
                               {"install_hint", report.install_hint},
                               {"devices", report.devices},
                               {"op_count", report.op_count}});
  }
  return dump(json, indent);
}

std::string cache_json(const std::filesystem::path& dir, int indent) {
  Json json = {{"dir", dir.string()}, {"entries", Json::array()}};
  for (const CacheEntry& entry : list_cache(dir)) {
    json["entries"].push_back({{"key", entry.key},
                               {"engine", entry.engine},
                               {"function", entry.function},
                               {"bytes", entry.bytes},
                               {"last_used_unix", entry.last_used_unix},
                               {"valid", entry.valid}});
  }
  return dump(json, indent);
}

}  // namespace xrt::report
