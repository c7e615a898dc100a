// SPDX-License-Identifier: Apache-2.0
#include "registry/engine_manifest.h"

#include <dlfcn.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "isolation/names.h"
#include "registry/engine_provider.h"
#include "registry/library_file.h"
#include "xrt/error.h"

namespace xrt {
namespace {

namespace fs = std::filesystem;

fs::path file_of(const std::string& engine) {
  fs::path folder = engine_library(engine).parent_path();
  if (folder.empty()) folder = own_folder() / "xrt" / "engines";
  return folder / ("libxrt_engine_" + engine + ".json");
}

EngineEstimates read_estimates(const nlohmann::json& from) {
  EngineEstimates to;
  const auto read = [&](const char* name, double& value) { value = from.value(name, value); };
  read("convolution", to.convolution);
  read("depthwise", to.depthwise);
  read("matrix", to.matrix);
  read("quantised", to.quantised);
  read("bytes", to.bytes);
  read("launch_us", to.launch_us);
  read("node_us", to.node_us);
  if (from.contains("quantised_without_vnni")) {
    to.quantised_without_vnni = from.at("quantised_without_vnni").get<double>();
  }
  return to;
}

}  // namespace

EngineManifest engine_manifest(const std::string& engine) {
  return read_engine_manifest(file_of(std::string(base_engine(engine))));
}

fs::path manifest_file(const fs::path& library) {
  fs::path file = library;
  return file.replace_extension(".json");
}

EngineManifest read_engine_manifest(const fs::path& file) {
  EngineManifest manifest;
  if (!fs::exists(file)) return manifest;
  try {
    const nlohmann::json json = nlohmann::json::parse(read_file(file));
    manifest.install = json.value("install", "");
    manifest.libraries = json.value("libraries", manifest.libraries);
    manifest.language = json.value("language", manifest.language);
    manifest.gains_from_fixed_sizes =
        json.value("gains_from_fixed_sizes", manifest.gains_from_fixed_sizes);
    manifest.needs_fixed_sizes = json.value("needs_fixed_sizes", manifest.needs_fixed_sizes);
    manifest.checks_values = json.value("checks_values", manifest.checks_values);
    manifest.crashes_on_values = json.value("crashes_on_values", manifest.crashes_on_values);
    manifest.allocates_when_compiled =
        json.value("allocates_when_compiled", manifest.allocates_when_compiled);
    manifest.expands_without_memory =
        json.value("expands_without_memory", manifest.expands_without_memory);
    manifest.fast_with_symmetric_int8 =
        json.value("fast_with_symmetric_int8", manifest.fast_with_symmetric_int8);
    if (json.contains("estimates")) manifest.estimates = read_estimates(json.at("estimates"));
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kInvalidModel, "'" + file.string() + "': " + error.what());
  }
  return manifest;
}

}  // namespace xrt
