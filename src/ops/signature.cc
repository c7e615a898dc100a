// SPDX-License-Identifier: Apache-2.0
#include "ops/signature.h"

#include <onnx/defs/schema.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/at_fork.h"
#include "onnx/proto.h"
#include "ops/schema.h"

namespace xrt {
namespace {

// "seq(tensor(float))" as a type; nothing for maps and for what tensors here do not have.
std::optional<Type> type_of(const std::string& text) {
  if (text.find("map(") != std::string::npos) return std::nullopt;
  const NoForkScope scope;  // the library's table of types has a lock
  const onnx::DataType known = onnx::Utils::DataTypeUtils::ToType(text);
  const onnx::TypeProto& proto = onnx::Utils::DataTypeUtils::ToTypeProto(known);
  const std::string what = "the type " + text;
  const onnx::TypeProto* inner = &proto;
  while (!inner->has_tensor_type()) {
    if (inner->has_sequence_type()) {
      inner = &inner->sequence_type().elem_type();
    } else if (inner->has_optional_type()) {
      inner = &inner->optional_type().elem_type();
    } else {
      return std::nullopt;
    }
  }
  // Six-bit floats are in the standard and in no tensor of ours.
  if (text.find("float6") != std::string::npos) return std::nullopt;
  return type_from_proto(proto, what);
}

std::optional<Attribute> empty_attribute(onnx::AttributeProto::AttributeType type) {
  switch (type) {
    case onnx::AttributeProto::INT:
      return Attribute(std::int64_t{0});
    case onnx::AttributeProto::FLOAT:
      return Attribute(0.0F);
    case onnx::AttributeProto::STRING:
      return Attribute(std::string());
    case onnx::AttributeProto::TENSOR:
      return Attribute(Tensor::scalar(0.0F));
    case onnx::AttributeProto::INTS:
      return Attribute(std::vector<std::int64_t>());
    case onnx::AttributeProto::FLOATS:
      return Attribute(std::vector<float>());
    case onnx::AttributeProto::STRINGS:
      return Attribute(std::vector<std::string>());
    default:
      return std::nullopt;
  }
}

OpSignature signature_of(const onnx::OpSchema& schema) {
  OpSignature made;
  made.domain = schema.domain();
  made.name = schema.Name();
  made.min_outputs = schema.min_output();
  made.max_outputs = schema.max_output();
  for (const auto& formal : schema.inputs()) {
    OpSignature::Operand operand;
    operand.type_variable = formal.GetTypeStr();
    operand.optional = formal.GetOption() == onnx::OpSchema::Optional;
    operand.variadic = formal.GetOption() == onnx::OpSchema::Variadic;
    std::vector<std::string> texts;
    for (const onnx::DataType type : formal.GetTypes()) texts.push_back(*type);
    std::sort(texts.begin(), texts.end());
    for (const std::string& text : texts) {
      if (auto type = type_of(text)) operand.types.push_back(std::move(*type));
    }
    made.inputs.push_back(std::move(operand));
  }
  for (const auto& [name, formal] : schema.attributes()) {
    std::optional<Attribute> value = empty_attribute(formal.type);
    if (!value) {
      made.has_graphs = made.has_graphs || formal.type == onnx::AttributeProto::GRAPH;
      continue;
    }
    const bool has_default =
        formal.default_value.has_name() && formal.type != onnx::AttributeProto::TENSOR;
    if (has_default) value = attribute_from_proto(formal.default_value, {}, "its default");
    made.attributes.push_back({name, std::move(*value), formal.required});
  }
  return made;
}

}  // namespace

std::vector<OpSignature> op_signatures(std::string_view domain) {
  std::vector<OpSignature> made;
  for (const OpInfo& info : all_ops(domain)) {
    const auto* schema = onnx::OpSchemaRegistry::Schema(info.name, std::string(domain));
    if (schema != nullptr) made.push_back(signature_of(*schema));
  }
  return made;
}

}  // namespace xrt
