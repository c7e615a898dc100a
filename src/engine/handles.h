// SPDX-License-Identifier: Apache-2.0
// What stands behind the handles of xrt/engine_c.h: for the host, and for engines that are built
// with the core and work on its graphs and tensors themselves. Such an engine puts core_version()
// into its EngineInfo: it loads in that version alone.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/run_limit.h"
#include "base/work_scope.h"
#include "xrt/engine.h"
#include "xrt/graph.h"
#include "xrt/tensor.h"
#include "xrt/version.h"

namespace xrt {

// Of one run: what RunArgs reads.
struct RunData {
  std::span<const Data> inputs;
  // Each either holds a tensor of the right dtype and shape, which must be written in place, or is
  // none: then the executable sets it (a tensor it gives away, never memory that its context will
  // reuse). Where a dtype or shape is not known before the run, none is what it gets.
  std::span<Data> outputs;
  // Empty, or per output: an output that is none and marked here is to be a tensor in the memory of
  // ExecutableInfo::device.
  std::span<const bool> on_device = {};
  void* stream = nullptr;
  const RunLimit* limit = nullptr;  // when the caller gives up; null: never
  // Bounds what the host allocates, whichever thread asks for it.
  const WorkScope* scope = nullptr;
  std::string refused{};  // why the host had no memory for an output; empty: it had
};

inline std::string core_version() { return std::string(version()); }

inline const Graph& graph_of(const GraphView& view) {
  return *reinterpret_cast<const Graph*>(view.handle());
}
inline const Graph& graph_of(const xrt_engine_graph* handle) {
  return *reinterpret_cast<const Graph*>(handle);
}
inline const xrt_engine_graph* handle_of(const Graph& graph) {
  return reinterpret_cast<const xrt_engine_graph*>(&graph);
}

inline const Tensor& tensor_of(const TensorView& view) {
  return *reinterpret_cast<const Tensor*>(view.handle());
}
inline const Tensor& tensor_of(const xrt_engine_tensor* handle) {
  return *reinterpret_cast<const Tensor*>(handle);
}
inline const xrt_engine_tensor* handle_of(const Tensor& tensor) {
  return reinterpret_cast<const xrt_engine_tensor*>(&tensor);
}

inline const Type& type_of(const xrt_engine_type* handle) {
  return *reinterpret_cast<const Type*>(handle);
}
inline const xrt_engine_type* handle_of(const Type& type) {
  return reinterpret_cast<const xrt_engine_type*>(&type);
}

inline const RunData& data_of(const RunArgs& args) {
  return *reinterpret_cast<const RunData*>(args.handle());
}
inline RunData& data_of(xrt_engine_run* handle) { return *reinterpret_cast<RunData*>(handle); }
inline const RunData& data_of(const xrt_engine_run* handle) {
  return *reinterpret_cast<const RunData*>(handle);
}

}  // namespace xrt
