// SPDX-License-Identifier: Apache-2.0
#include "oneflow.h"

#include <fmt/format.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>

#include "graph.h"
#include "values/convert.h"
#include "xrt/error.h"
#include "xrt/oneflow.h"

namespace nb = nanobind;

namespace xrt::python {
namespace {

nb::dict import_job(const std::string& text, const nb::object& constants, const std::string& phase,
                    std::size_t gradient_inputs) {
  OneflowJobOptions options;
  options.gradient_inputs = gradient_inputs;
  if (phase == "forward") {
    options.phase = OneflowPhase::kForward;
  } else if (phase == "backward") {
    options.phase = OneflowPhase::kBackward;
  } else if (phase != "whole") {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("phase '{}' is none of whole, forward, backward", phase));
  }
  if (!constants.is_none()) {
    const auto named = nb::cast<nb::dict>(constants);
    options.variable = [named](const std::string& name, const Type& type) {
      const nb::str key(name.c_str());
      if (!named.contains(key)) {
        throw Error(ErrorCode::kInvalidArgument, fmt::format("variable '{}' was not given", name));
      }
      return to_data(named[key], type, fmt::format("variable '{}'", name), Access::kRead).tensor();
    };
  }
  OneflowJob job = import_oneflow_job(text, options);
  nb::dict result;
  result["inputs"] = nb::cast(job.inputs);
  result["variables"] = nb::cast(job.variables);
  result["schedules"] = nb::cast(job.schedules);
  result["aliases"] = nb::cast(job.aliases);
  result["saved"] = nb::cast(job.saved);
  result["gradients"] = nb::cast(job.gradients);
  result["graph"] = graph_object(std::move(job.graph));
  return result;
}

}  // namespace

void bind_oneflow(nb::module_& module) {
  module.def(
      "import_oneflow_job", import_job, nb::arg("text"), nb::arg("constants") = nb::none(),
      nb::kw_only(), nb::arg("phase") = "whole", nb::arg("gradient_inputs") = 0,
      "A job of OneFlow as its own MLIR text, as a dict: graph (openxrt.Graph), inputs, "
      "variables (inputs that are variables; none where `constants` gives them by name), "
      "schedules (inputs that are learning rates), aliases (variable, its new value), saved and "
      "gradients (see OneflowJob in xrt/oneflow.h).");
  module.def("oneflow_ops", oneflow_ops, "The ops of OneFlow that have a handler.");
}

}  // namespace xrt::python
