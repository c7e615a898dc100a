// SPDX-License-Identifier: Apache-2.0
#include "engines/openvino/convert.h"

#include <map>
#include <openvino/frontend/onnx/frontend.hpp>
#include <openvino/op/constant.hpp>
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

ov::Output<ov::Node> constant_node(const Tensor& tensor) {
  const ov::element::Type type = to_element_type(tensor.dtype());
  const ov::Shape shape = to_shape(tensor.dims());
  if (tensor.bytes() == 0) return std::make_shared<ov::op::v0::Constant>(type, shape);
  // The tensor travels with the node: it owns the memory.
  auto owner = std::make_shared<Tensor>(tensor);
  return std::make_shared<ov::op::v0::Constant>(type, shape, owner->raw(), owner);
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
  std::map<std::int32_t, ov::Output<ov::Node>> inputs;  // by value index
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
    inputs[id.index] = parameter;
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
  for (const ValueId id : graph.outputs()) {
    const Value& value = graph.value(id);
    ov::Output<ov::Node> source;
    if (value.origin == Origin::kInput) {
      source = inputs.at(id.index);
    } else if (value.origin == Origin::kConstant) {
      source = constant_node(value.constant);
    } else {
      const auto found = results.find(decoder->value_name(id));
      if (found == results.end()) {
        throw Error(ErrorCode::kEngine, "openvino: the ONNX frontend did not compute output '" +
                                            value.name + "'");
      }
      source = found->second;
    }
    outputs.push_back(std::make_shared<ov::op::v0::Result>(source));
  }
  return std::make_shared<ov::Model>(outputs, converted->get_sinks(), ordered, graph.name());
}

}  // namespace xrt::openvino
