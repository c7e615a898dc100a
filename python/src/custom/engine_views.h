// SPDX-License-Identifier: Apache-2.0
// What an engine written in Python sees of graphs: nodes, whole graphs and functions.
//
// A NodeView holds plain Python objects and may be kept; what it can make of its node
// (signature(), to_onnx()), and everything that a GraphView makes, works only while the engine's
// supports() or compile() runs: afterwards the graph may be gone, and the view says so.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "xrt/engine.h"
#include "xrt/graph.h"
#include "xrt/program.h"

namespace xrt::python {

// The graph behind views, while it may be looked at. Shared by all views of one call.
struct Source {
  const Graph* graph = nullptr;  // null once the call has returned
  const Graph& get() const;      // throws kInvalidArgument where it is null
};

struct NodeView {
  std::shared_ptr<Source> source;
  NodeId id;
  std::string name, domain, op, device;
  bool training = false;
  std::vector<std::string> inputs, outputs;  // names of values, "" where one is left out
  std::vector<std::optional<Type>> input_types, output_types;  // none where one is left out
  std::vector<std::int32_t> mutable_inputs;
  nanobind::dict attributes, constants;

  std::string signature(bool shapes) const;
  nanobind::bytes to_onnx(bool shapes) const;
};

struct GraphView {
  std::shared_ptr<Source> source;
  std::string name, device;
  bool training = false;
  std::vector<Port> inputs, outputs;

  nanobind::list nodes() const;
  std::map<std::string, std::int64_t> opsets() const;
  // The nodes listed (default: all) as a model. See the Python documentation for the rest.
  nanobind::bytes to_onnx(const std::optional<std::vector<NodeView>>& nodes,
                          std::optional<std::size_t> inline_limit, const std::string& large) const;
  // Constants of more than `larger_than` bytes by name, without copies, read-only.
  nanobind::dict constants(std::size_t larger_than) const;
};

// What compile() and load() are given.
struct FunctionView : GraphView {
  int num_threads = 1;
  int streams = 1;
  std::int64_t max_batch_size = 0;
  std::size_t max_workspace_bytes = 0;
  std::string records_dir;
  std::vector<std::pair<std::int32_t, std::int32_t>> aliases;
  nanobind::dict options;
  nanobind::dict ranges;
  const CompileOptions* compile_options = nullptr;  // null once the call has returned

  void progress(const std::string& what, double part) const;
};

// `phase`, `device` and the mutable inputs are those of the query.
NodeView view_of(const std::shared_ptr<Source>& source, const SupportQuery& query);
GraphView view_of(const std::shared_ptr<Source>& source, const std::string& device, Phase phase);
std::vector<Port> ports_of(const Graph& graph, const std::vector<ValueId>& values);
nanobind::object text_object(const std::string& text);
// int, float, str, array, Type or a list of such; sub-graphs as text.
nanobind::object python_attribute(const Attribute& attribute);

void bind_engine_views(nanobind::module_& module);

}  // namespace xrt::python
