// SPDX-License-Identifier: Apache-2.0
// A user's own layers: libraries of TensorRT plugins (IPluginV3), found by the op's name.
//
// XRT_TENSORRT_PLUGINS names the libraries. A node whose op has no lowering is made by the plugin
// creator of that name; the attributes "plugin_version" (default "1") and "plugin_namespace"
// (default "") choose among several, all others become the creator's fields.
#include <fmt/format.h>

#include <cstdlib>
#include <deque>
#include <mutex>
#include <sstream>
#include <string>
#include <variant>

#include "base/log.h"
#include "engines/tensorrt/lowering.h"
#include "xrt/error.h"

namespace xrt::tensorrt {

namespace nv = nvinfer1;

namespace {

nv::IPluginCreatorV3One* find_creator(const Node& node) {
  const std::string version = node.attr_string("plugin_version", "1");
  const std::string space = node.attr_string("plugin_namespace", "");
  nv::IPluginCreatorInterface* creator =
      getPluginRegistry()->getCreator(node.op.c_str(), version.c_str(), space.c_str());
  // Creators of the older interfaces cannot be told apart from it by type, but by their kind.
  if (creator == nullptr ||
      std::string_view(creator->getInterfaceInfo().kind) != "PLUGIN CREATOR_V3ONE") {
    return nullptr;
  }
  return static_cast<nv::IPluginCreatorV3One*>(creator);
}

// Fields point into what this keeps.
struct Fields {
  std::vector<nv::PluginField> list;
  std::deque<std::string> names;
  std::deque<std::vector<std::int32_t>> narrow;
};

void add_field(NodeContext& c, Fields& fields, const std::string& name, const Attribute& attribute,
               const nv::PluginFieldCollection* wanted) {
  nv::PluginFieldType declared = nv::PluginFieldType::kUNKNOWN;
  for (std::int32_t i = 0; wanted != nullptr && i < wanted->nbFields; ++i) {
    if (name == wanted->fields[i].name) declared = wanted->fields[i].type;
  }
  fields.names.push_back(name);
  const char* text = fields.names.back().c_str();
  const auto integers = [&](const std::int64_t* values, std::size_t count) {
    if (declared == nv::PluginFieldType::kINT64) {
      fields.list.emplace_back(text, values, declared, static_cast<std::int32_t>(count));
      return;
    }
    fields.narrow.emplace_back();
    for (std::size_t i = 0; i < count; ++i) {
      const auto value = static_cast<std::int32_t>(values[i]);
      c.need(value == values[i], fmt::format("attribute {} does not fit the plugin's int32", name));
      fields.narrow.back().push_back(value);
    }
    fields.list.emplace_back(text, fields.narrow.back().data(), nv::PluginFieldType::kINT32,
                             static_cast<std::int32_t>(count));
  };
  if (const auto* number = std::get_if<std::int64_t>(&attribute)) {
    integers(number, 1);
  } else if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(&attribute)) {
    integers(numbers->data(), numbers->size());
  } else if (const auto* real = std::get_if<float>(&attribute)) {
    fields.list.emplace_back(text, real, nv::PluginFieldType::kFLOAT32, 1);
  } else if (const auto* reals = std::get_if<std::vector<float>>(&attribute)) {
    fields.list.emplace_back(text, reals->data(), nv::PluginFieldType::kFLOAT32,
                             static_cast<std::int32_t>(reals->size()));
  } else if (const auto* string = std::get_if<std::string>(&attribute)) {
    fields.list.emplace_back(text, string->c_str(), nv::PluginFieldType::kCHAR,
                             static_cast<std::int32_t>(string->size()));
  } else {
    c.refuse(fmt::format("attribute {} is of a kind that a plugin does not take", name));
  }
}

// TensorRT-RTX has no plugins: its networks lack the function. A template, so that one source
// builds with the headers of both.
template <typename Network>
nv::ILayer* add_plugin(NodeContext& c, Network& network, std::vector<Value>& operands,
                       nv::IPluginV3& plugin) {
  if constexpr (requires { network.addPluginV3(nullptr, 0, nullptr, 0, plugin); }) {
    return c.net.made(
        network.addPluginV3(operands.data(), static_cast<std::int32_t>(operands.size()), nullptr, 0,
                            plugin),
        "the plugin");
  } else {
    c.refuse("TensorRT-RTX takes no plugins");
  }
}

}  // namespace

void load_plugins() {
  static const bool done = [] {
    const char* paths = std::getenv("XRT_TENSORRT_PLUGINS");
    if (paths == nullptr) return true;
    if (is_rtx()) {
      throw Error(ErrorCode::kUnsupported,
                  "XRT_TENSORRT_PLUGINS is set, but TensorRT-RTX takes no plugins; unset it");
    }
    std::stringstream list{std::string(paths)};
    for (std::string path; std::getline(list, path, ':');) {
      if (path.empty()) continue;
      if (getPluginRegistry()->loadLibrary(path.c_str()) == nullptr) {
        throw Error(ErrorCode::kNotFound,
                    fmt::format("TensorRT: XRT_TENSORRT_PLUGINS: '{}' could not be opened, or "
                                "exports no plugin creators",
                                path));
      }
    }
    return true;
  }();
  static_cast<void>(done);
}

bool is_plugin(const Node& node) { return find_creator(node) != nullptr; }

void lower_plugin(NodeContext& c) {
  nv::IPluginCreatorV3One* creator = find_creator(c.node);
  Fields fields;
  for (const auto& [name, attribute] : c.node.attributes) {
    if (name == "plugin_version" || name == "plugin_namespace") continue;
    add_field(c, fields, name, attribute, creator->getFieldNames());
  }
  const nv::PluginFieldCollection collection{static_cast<std::int32_t>(fields.list.size()),
                                             fields.list.data()};
  const std::unique_ptr<nv::IPluginV3> plugin(
      creator->createPlugin(c.node.name.c_str(), &collection, nv::TensorRTPhase::kBUILD));
  c.need(plugin != nullptr, "its plugin creator made no plugin");
  std::vector<Value> operands;
  for (std::size_t i = 0; i < c.input_count(); ++i) operands.push_back(c.in(i));
  // The network keeps a clone of the plugin.
  nv::ILayer* layer = add_plugin(c, c.net.network(), operands, *plugin);
  for (std::size_t k = 0; k < c.node.outputs.size(); ++k) {
    if (c.wants(k)) c.out(k, c.net.out(layer, static_cast<int>(k)));
  }
}

}  // namespace xrt::tensorrt
