// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "xrt/graph.h"

namespace xrt::python {

// The graph that a Python object of type openxrt.Graph holds; null for any other object.
const Graph* as_graph(nanobind::handle object);

// A new openxrt.Graph.
nanobind::object graph_object(Graph graph);

// openxrt.Graph: graphs built node by node, as frontends written in Python do.
void bind_graph(nanobind::module_& module);

}  // namespace xrt::python
