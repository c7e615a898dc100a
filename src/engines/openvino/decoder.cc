// SPDX-License-Identifier: Apache-2.0
#include "engines/openvino/decoder.h"

#include <cstdint>
#include <limits>
#include <utility>

#include "engines/openvino/lowerings.h"
#include "engines/openvino/types.h"
#include "xrt/error.h"

namespace xrt::openvino {
namespace {

namespace onnx = ov::frontend::onnx;

const std::string kNoName;
// Stands in for the data of constants without elements: the frontend takes null for "no constant".
const std::uint64_t kNoData = 0;

// A graph's input or output, or the tensor of an attribute.
class TensorDecoder : public onnx::DecoderBaseTensor {
 public:
  TensorDecoder(onnx::TensorMetaInfo info, int64_t input, int64_t output)
      : info_(std::move(info)), input_(input), output_(output) {}

  const onnx::TensorMetaInfo& get_tensor_info() const override { return info_; }
  int64_t get_input_idx() const override { return input_; }
  int64_t get_output_idx() const override { return output_; }
  ov::Any get_attribute(const std::string&) const override { return {}; }
  size_t get_input_size() const override { return 0; }
  void get_input_node(size_t, std::string&, std::string&, size_t&) const override {}
  const std::string& get_op_type() const override { return kNoName; }
  const std::string& get_op_name() const override { return kNoName; }

 private:
  onnx::TensorMetaInfo info_;
  int64_t input_, output_;
};

class NodeDecoder : public onnx::DecoderBaseOperation {
 public:
  NodeDecoder(const Node& node, const GraphDecoder& owner)
      : node_(node),
        owner_(owner),
        domain_(has_lowering(owner.graph(), node) ? kLoweringDomain : node.domain) {
    inputs_ = node.inputs.size();
    while (inputs_ > 0 && !node.inputs[inputs_ - 1].valid()) --inputs_;
    outputs_ = node.outputs.size();
    while (outputs_ > 0 && !node.outputs[outputs_ - 1].valid()) --outputs_;
  }

  size_t get_input_size() const override { return inputs_; }
  size_t get_output_size() const override { return outputs_; }
  const onnx::TensorMetaInfo& get_input_tensor_info(size_t i) const override {
    return owner_.info(node_.inputs.at(i));
  }
  const onnx::TensorMetaInfo& get_output_tensor_info(size_t i) const override {
    return owner_.info(node_.outputs.at(i));
  }
  const std::string& get_input_tensor_name(size_t i) const override {
    return *get_input_tensor_info(i).m_tensor_name;
  }
  const std::string& get_output_tensor_name(size_t i) const override {
    return *get_output_tensor_info(i).m_tensor_name;
  }
  ov::element::Type get_input_tensor_type(size_t i) const override {
    return get_input_tensor_info(i).m_element_type;
  }
  ov::element::Type get_output_tensor_type(size_t i) const override {
    return get_output_tensor_info(i).m_element_type;
  }
  uint64_t get_op_set() const override {
    return static_cast<uint64_t>(owner_.get_opset_version(domain_));
  }
  const std::string& get_domain() const override { return domain_; }
  const std::string& get_op_type() const override { return node_.op; }
  const std::string& get_op_name() const override { return node_.name; }
  const std::string& get_name() const override { return node_.name; }
  void get_input_node(size_t, std::string&, std::string&, size_t&) const override {}
  void experimental_get_internal_structures(const void** definition) const override {
    *definition = nullptr;
  }

  bool has_attribute(const std::string& name) const override { return node_.has(name); }

  ov::Any get_attribute(const std::string& name) const override {
    const auto found = node_.attributes.find(name);
    if (found == node_.attributes.end()) return {};
    return std::visit([&](const auto& value) { return convert(name, value); }, found->second);
  }

 private:
  static ov::Any convert(const std::string&, std::int64_t value) { return value; }
  static ov::Any convert(const std::string&, float value) { return value; }
  static ov::Any convert(const std::string&, const std::string& value) { return value; }
  static ov::Any convert(const std::string&, const std::vector<std::int64_t>& v) { return v; }
  static ov::Any convert(const std::string&, const std::vector<float>& v) { return v; }
  static ov::Any convert(const std::string&, const std::vector<std::string>& v) { return v; }
  static ov::Any convert(const std::string&, const Tensor& tensor) {
    onnx::DecoderBase::Ptr decoder =
        std::make_shared<TensorDecoder>(tensor_info(tensor, &kNoName), 0, 0);
    return decoder;
  }
  ov::Any convert(const std::string& name, const std::shared_ptr<Graph>& graph) const {
    onnx::GraphIterator::Ptr iterator = std::make_shared<GraphDecoder>(
        *graph, owner_, owner_.prefix() + node_.name + "." + name + "/");
    return iterator;
  }
  template <typename T>
  ov::Any convert(const std::string& name, const T&) const {
    throw Error(ErrorCode::kUnsupported, "openvino: node '" + node_.name + "' (" +
                                             node_.qualified_op() + "): attribute '" + name +
                                             "' is of a kind that OpenVINO does not read");
  }

  const Node& node_;
  const GraphDecoder& owner_;
  const std::string domain_;
  std::size_t inputs_ = 0, outputs_ = 0;
};

}  // namespace

onnx::TensorMetaInfo tensor_info(const Tensor& tensor, const std::string* name) {
  onnx::TensorMetaInfo info{};
  info.m_partial_shape = ov::PartialShape(to_shape(tensor.dims()));
  info.m_element_type = to_element_type(tensor.dtype());
  info.m_tensor_name = name;
  info.m_is_raw = true;
  if (tensor.dtype() == DType::kString) {
    info.m_tensor_data_any =
        std::vector<std::string>(tensor.strings(), tensor.strings() + tensor.count());
    info.m_tensor_data_size = static_cast<std::size_t>(tensor.count());
    return info;
  }
  info.m_tensor_data = tensor.bytes() > 0 ? static_cast<const uint8_t*>(tensor.raw())
                                          : reinterpret_cast<const uint8_t*>(&kNoData);
  info.m_tensor_data_size = tensor.bytes();
  return info;
}

GraphDecoder::GraphDecoder(const Graph& graph, std::size_t lifted_bytes) : graph_(graph) {
  build(nullptr, lifted_bytes);
}

GraphDecoder::GraphDecoder(const Graph& graph, const GraphDecoder& outer, std::string prefix)
    : graph_(graph), prefix_(std::move(prefix)) {
  build(&outer, std::numeric_limits<std::size_t>::max());
}

void GraphDecoder::build(const GraphDecoder* outer, std::size_t lifted_bytes) {
  absent_ = {};
  absent_.m_partial_shape = ov::PartialShape::dynamic();
  absent_.m_tensor_name = &kNoName;
  names_.resize(graph_.value_capacity());
  infos_.resize(graph_.value_capacity());
  for (std::size_t i = 0; i < graph_.value_capacity(); ++i) {
    const ValueId id{static_cast<std::int32_t>(i)};
    if (!graph_.alive(id)) continue;
    const Value& value = graph_.value(id);
    if (value.origin == Origin::kCapture) continue;
    names_[i] = std::make_unique<std::string>(prefix_ + value.name);
    if (value.origin == Origin::kConstant && value.constant.bytes() >= lifted_bytes &&
        value.constant.dtype() != DType::kString) {
      lifted_.push_back(id);
    } else if (value.origin == Origin::kConstant) {
      infos_[i] = tensor_info(value.constant, names_[i].get());
      continue;
    }
    infos_[i] = {};
    infos_[i].m_partial_shape = to_partial_shape(value.type);
    infos_[i].m_element_type = to_element_type(value.type.dtype);
    infos_[i].m_tensor_name = names_[i].get();
  }
  for (const Capture& capture : graph_.captures()) {
    infos_[static_cast<std::size_t>(capture.inner.index)] = outer->info(capture.outer);
  }
  int64_t position = 0;
  for (const ValueId id : graph_.inputs()) {
    decoders_.push_back(std::make_shared<TensorDecoder>(info(id), position++, -1));
  }
  for (const ValueId id : lifted_) {
    decoders_.push_back(std::make_shared<TensorDecoder>(info(id), position++, -1));
  }
  position = 0;
  for (const ValueId id : graph_.outputs()) {
    decoders_.push_back(std::make_shared<TensorDecoder>(info(id), -1, position++));
  }
  for (const NodeId id : graph_.topological_order()) {
    decoders_.push_back(std::make_shared<NodeDecoder>(graph_.node(id), *this));
  }
}

const onnx::TensorMetaInfo& GraphDecoder::info(ValueId id) const {
  return id.valid() ? infos_[static_cast<std::size_t>(id.index)] : absent_;
}

int64_t GraphDecoder::get_opset_version(const std::string& domain) const {
  if (domain.empty() || domain == "ai.onnx") return kOnnxOpset;
  const auto found = graph_.opsets().find(domain);
  return found == graph_.opsets().end() ? 1 : found->second;
}

}  // namespace xrt::openvino
