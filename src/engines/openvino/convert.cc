// SPDX-License-Identifier: Apache-2.0
#include "engines/openvino/convert.h"

#include <algorithm>
#include <map>
#include <openvino/frontend/onnx/frontend.hpp>
#include <openvino/op/parameter.hpp>
#include <openvino/op/result.hpp>
#include <string>

#include "engines/openvino/decoder.h"
#include "engines/openvino/lowerings.h"
#include "engines/openvino/types.h"
#include "xrt/error.h"

namespace xrt::openvino {
namespace {

constexpr std::string_view kResultSuffix = "/sink_port_0";

std::shared_ptr<ov::frontend::onnx::FrontEnd> make_frontend() {
  auto frontend = std::make_shared<ov::frontend::onnx::FrontEnd>();
  for (const auto& extension : lowering_extensions()) frontend->add_extension(extension);
  return frontend;
}

}  // namespace

std::shared_ptr<ov::Model> convert(const Graph& graph) {
  auto decoder = std::make_shared<GraphDecoder>(graph);
  const auto frontend = make_frontend();
  const auto input_model =
      frontend->load(std::static_pointer_cast<ov::frontend::onnx::GraphIterator>(decoder));
  const std::shared_ptr<ov::Model> converted = frontend->convert(input_model);

  std::map<std::string, std::shared_ptr<ov::op::v0::Parameter>> parameters;
  for (const auto& parameter : converted->get_parameters()) {
    parameters[parameter->get_friendly_name()] = parameter;
  }
  ov::ParameterVector ordered;
  for (const ValueId id : graph.inputs()) {
    const auto found = parameters.find(decoder->value_name(id));
    std::shared_ptr<ov::op::v0::Parameter> parameter;
    if (found != parameters.end()) {
      parameter = found->second;
      parameters.erase(found);
    } else {
      // The frontend makes a constant of an input of shape [0].
      const Type& type = graph.type(id);
      parameter = std::make_shared<ov::op::v0::Parameter>(to_element_type(type.dtype),
                                                          to_partial_shape(type));
      parameter->set_friendly_name(decoder->value_name(id));
    }
    ordered.push_back(parameter);
  }
  if (!parameters.empty()) {
    throw Error(ErrorCode::kEngine, "openvino: the ONNX frontend left '" +
                                        parameters.begin()->first + "' without a value");
  }

  std::map<std::string, ov::Output<ov::Node>, std::less<>> results;
  for (const auto& result : converted->get_results()) {
    std::string name = result->get_friendly_name();
    if (name.ends_with(kResultSuffix)) name.resize(name.size() - kResultSuffix.size());
    results[name] = result->input_value(0);
  }
  ov::ResultVector outputs;
  for (const ValueId id : computed_outputs(graph)) {
    const auto found = results.find(decoder->value_name(id));
    if (found == results.end()) {
      throw Error(ErrorCode::kEngine, "openvino: the ONNX frontend did not compute output '" +
                                          graph.value(id).name + "'");
    }
    outputs.push_back(std::make_shared<ov::op::v0::Result>(found->second));
  }
  return std::make_shared<ov::Model>(outputs, converted->get_sinks(), ordered, graph.name());
}

std::vector<ValueId> computed_outputs(const Graph& graph) {
  std::vector<ValueId> out;
  for (const ValueId id : graph.outputs()) {
    if (graph.value(id).origin != Origin::kNode) continue;
    if (std::find(out.begin(), out.end(), id) == out.end()) out.push_back(id);
  }
  return out;
}

}  // namespace xrt::openvino
