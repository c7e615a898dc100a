// SPDX-License-Identifier: Apache-2.0
#include "engines/openvino/convert.h"

#include <algorithm>
#include <limits>
#include <openvino/frontend/onnx/frontend.hpp>
#include <openvino/op/constant.hpp>
#include <openvino/op/convert.hpp>
#include <openvino/op/parameter.hpp>
#include <openvino/op/result.hpp>
#include <openvino/op/util/framework_node.hpp>
#include <optional>

#include "engines/openvino/barriers.h"
#include "engines/openvino/decoder.h"
#include "engines/openvino/extensions.h"
#include "engines/openvino/lowerings.h"
#include "engines/openvino/types.h"
#include "xrt/error.h"

namespace xrt::openvino {
namespace {

// The result of a value. One that is a parameter of the model gets a node of its own: the CPU
// plugin would let the output's memory stand in for the input's.
std::shared_ptr<ov::op::v0::Result> make_result(ov::Output<ov::Node> source) {
  if (ov::is_type<ov::op::v0::Parameter>(source.get_node())) {
    source = std::make_shared<ov::op::v0::Convert>(source, source.get_element_type());
  }
  return std::make_shared<ov::op::v0::Result>(source);
}

// The frontend names the result of a value so.
constexpr std::string_view kResultSuffix = "/sink_port_0";

// Constants from this size on are not given to the frontend, which copies them, but put into the
// model after conversion. Translators look at the values of small ones only (axes, shapes).
constexpr std::size_t kSharedConstantBytes = 4096;

using Results = std::map<std::string, ov::Output<ov::Node>, std::less<>>;

// Extensions cost a registration per conversion, so the frontend is made once.
const ov::frontend::onnx::FrontEnd& frontend() {
  static const std::shared_ptr<ov::frontend::onnx::FrontEnd> made = [] {
    auto frontend = std::make_shared<ov::frontend::onnx::FrontEnd>();
    for (const auto& extension : lowering_extensions()) frontend->add_extension(extension);
    for (const auto& library : extension_libraries()) {
      static_cast<ov::frontend::FrontEnd&>(*frontend).add_extension(library.string());
    }
    return frontend;
  }();
  return *made;
}

ov::frontend::InputModel::Ptr load(const std::shared_ptr<GraphDecoder>& decoder) {
  return frontend().load(std::static_pointer_cast<ov::frontend::onnx::GraphIterator>(decoder));
}

// A node over the tensor's memory, which lives as long as the node.
std::shared_ptr<ov::op::v0::Constant> shared_constant(const Tensor& tensor) {
  auto owner = std::make_shared<Tensor>(tensor);
  return std::make_shared<ov::op::v0::Constant>(to_element_type(tensor.dtype()),
                                                to_shape(tensor.dims()), owner->raw(), owner);
}

Results results_by_name(const ov::Model& model) {
  Results results;
  for (const auto& result : model.get_results()) {
    std::string name = result->get_friendly_name();
    if (name.ends_with(kResultSuffix)) name.resize(name.size() - kResultSuffix.size());
    results[name] = result->input_value(0);
  }
  return results;
}

// Parameters in the order of the graph's inputs; lifted constants are put back.
ov::ParameterVector ordered_parameters(const ov::Model& model, const Graph& graph,
                                       const GraphDecoder& decoder) {
  // The frontend keeps the order, but not the names: a translator that passes its input on gives
  // the parameter a name of its own. It makes constants of inputs of shape [0].
  const ov::ParameterVector& found = model.get_parameters();
  std::size_t next = 0;
  const auto take = [&](ValueId id) {
    const Type& type = graph.type(id);
    const ov::PartialShape shape = to_partial_shape(type);
    std::shared_ptr<ov::op::v0::Parameter> parameter;
    if (shape == ov::PartialShape{0}) {
      parameter = std::make_shared<ov::op::v0::Parameter>(to_element_type(type.dtype), shape);
    } else if (next < found.size()) {
      parameter = found[next++];
    }
    if (!parameter || parameter->get_element_type() != to_element_type(type.dtype) ||
        parameter->get_partial_shape() != shape) {
      throw Error(ErrorCode::kEngine,
                  "openvino: the ONNX frontend lost input '" + graph.value(id).name + "'");
    }
    return parameter;
  };
  ov::ParameterVector ordered;
  for (const ValueId id : graph.inputs()) {
    ordered.push_back(take(id));
    ordered.back()->set_friendly_name(decoder.value_name(id));
  }
  for (const ValueId id : decoder.lifted()) {
    const auto parameter = take(id);
    const auto constant = shared_constant(graph.value(id).constant);
    constant->set_friendly_name(decoder.value_name(id));
    parameter->output(0).replace(constant->output(0));
  }
  if (next != found.size()) {
    throw Error(ErrorCode::kEngine, "openvino: the ONNX frontend left '" +
                                        found[next]->get_friendly_name() + "' without a value");
  }
  return ordered;
}

}  // namespace

std::shared_ptr<ov::Model> convert(const Graph& given) {
  const std::optional<Graph> changed = with_barriers(given);
  const Graph& graph = changed ? *changed : given;
  auto decoder = std::make_shared<GraphDecoder>(graph, kSharedConstantBytes);
  const std::shared_ptr<ov::Model> converted = frontend().convert(load(decoder));
  const ov::ParameterVector parameters = ordered_parameters(*converted, graph, *decoder);
  // After the constants are back: a lifted constant may itself be an output of an op that the
  // frontend dropped.
  const Results results = results_by_name(*converted);
  ov::ResultVector outputs;
  for (const ValueId id : computed_outputs(graph)) {
    const auto found = results.find(decoder->value_name(id));
    if (found == results.end()) {
      throw Error(ErrorCode::kEngine, "openvino: the ONNX frontend did not compute output '" +
                                          graph.value(id).name + "'");
    }
    outputs.push_back(make_result(found->second));
  }
  auto model =
      std::make_shared<ov::Model>(outputs, converted->get_sinks(), parameters, graph.name());
  if (!decoder->lifted().empty()) model->validate_nodes_and_infer_types();
  return model;
}

std::shared_ptr<ov::Model> convert_leniently(const Graph& graph,
                                             std::map<std::string, std::string>& failed) {
  auto decoder = std::make_shared<GraphDecoder>(graph, std::numeric_limits<std::size_t>::max());
  const std::shared_ptr<ov::Model> converted = frontend().convert_partially(load(decoder));
  const ov::ParameterVector parameters = ordered_parameters(*converted, graph, *decoder);
  const Results results = results_by_name(*converted);
  ov::ResultVector outputs;
  for (const ValueId id : computed_outputs(graph)) {
    const std::string& name = graph.value(id).name;
    const auto found = results.find(decoder->value_name(id));
    if (found == results.end()) {
      failed[name] = "the ONNX frontend did not compute it";
      continue;
    }
    // A node that stands for one that could not be converted carries the message.
    const auto placeholder =
        std::dynamic_pointer_cast<ov::op::util::FrameworkNode>(found->second.get_node_shared_ptr());
    if (placeholder) {
      std::string message;
      for (const auto& [key, value] : placeholder->get_attrs()) {
        if (value.size() > message.size()) message = value;
      }
      failed[name] = message.empty() ? kNoTranslator : message;
      continue;
    }
    const auto result = make_result(found->second);
    result->set_friendly_name(name);
    outputs.push_back(result);
  }
  return std::make_shared<ov::Model>(outputs, parameters, graph.name());
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
