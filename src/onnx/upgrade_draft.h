// SPDX-License-Identifier: Apache-2.0
// What the rewritings of old nodes share: taking attributes, adding inputs, naming what is added.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "onnx/reader.h"
#include "xrt/error.h"
#include "xrt/graph.h"

namespace xrt::upgrade {

using Ints = std::vector<std::int64_t>;

// A change of an op's meaning: nodes of opsets older than `opset` are rewritten by `apply`, which
// may add nodes and constants before the draft.
struct Change {
  std::string_view op;
  std::int64_t opset;
  void (*apply)(Graph&, NodeDraft&);
  // About operands of types that the later op does not take: `apply` needs to know their types, and
  // the meaning of other nodes is the same.
  bool narrows = false;
};

// Opsets 1 to 6 to opset 7, in order of opset (onnx_upgrade_to_7.cc).
std::span<const Change> changes_to_7();

[[noreturn]] inline void unsupported(const std::string& message) {
  throw Error(ErrorCode::kUnsupported, message);
}

// Takes an attribute out of the draft; `fallback` where it is absent. Throws kInvalidModel where it
// is of another kind.
template <typename T>
T take(NodeDraft& draft, std::string_view name, T fallback = {}) {
  const auto it = draft.attributes.find(name);
  if (it == draft.attributes.end()) return fallback;
  auto* value = std::get_if<T>(&it->second);
  if (value == nullptr) {
    throw Error(ErrorCode::kInvalidModel, fmt::format("attribute '{}' has the wrong kind", name));
  }
  T out = std::move(*value);
  draft.attributes.erase(it);
  return out;
}

// Name of something that is added for the draft.
inline std::string name_for(const NodeDraft& draft, std::string_view part) {
  const std::string& base = !draft.name.empty()                                   ? draft.name
                            : !draft.outputs.empty() && !draft.outputs[0].empty() ? draft.outputs[0]
                                                                                  : draft.op;
  return base + "/" + std::string(part);
}

// An int64 list as a constant.
inline ValueId constant(Graph& graph, const NodeDraft& draft, std::string_view part,
                        const Ints& values) {
  return graph.add_constant(name_for(draft, part), Tensor::from_int64(values));
}

inline void set_input(NodeDraft& draft, std::size_t index, ValueId value) {
  if (draft.inputs.size() <= index) draft.inputs.resize(index + 1);
  draft.inputs[index] = value;
}

// An attribute that became an input; absent stays absent.
inline void attribute_to_input(Graph& graph, NodeDraft& draft, std::string_view name,
                               std::size_t index) {
  if (!draft.attributes.contains(name)) return;
  set_input(draft, index, constant(graph, draft, name, take<Ints>(draft, name)));
}

}  // namespace xrt::upgrade
