// SPDX-License-Identifier: Apache-2.0
// ONNX models written field by field in protobuf's wire format, so that tests can write models of
// any opset, and broken ones, without ONNX's library. Field numbers are those of onnx.proto.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace xrt::wire {

class Message {
 public:
  Message& integer(int field, std::int64_t value) {
    raw_varint(static_cast<std::uint64_t>(field) << 3);
    raw_varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  Message& text(int field, std::string_view value) {
    raw_varint(static_cast<std::uint64_t>(field) << 3 | 2);
    raw_varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return text(field, value.bytes_); }
  Message& real(int field, float value) {
    raw_varint(static_cast<std::uint64_t>(field) << 3 | 5);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void raw_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

using Names = std::vector<std::string>;
using Ints = std::vector<std::int64_t>;

// TensorProto.DataType
inline constexpr int kFloat = 1, kInt8 = 3, kInt64 = 7, kString = 8, kBool = 9;

inline Message attribute(std::string_view name, std::int64_t value) {
  return Message().text(1, name).integer(3, value).integer(20, 2);
}
inline Message attribute(std::string_view name, float value) {
  return Message().text(1, name).real(2, value).integer(20, 1);
}
inline Message attribute(std::string_view name, const char* value) {
  return Message().text(1, name).text(4, value).integer(20, 3);
}
inline Message attribute(std::string_view name, const Ints& values) {
  Message m;
  m.text(1, name);
  for (const std::int64_t v : values) m.integer(8, v);
  return m.integer(20, 7);
}
inline Message attribute(std::string_view name, const std::vector<float>& values) {
  Message m;
  m.text(1, name);
  for (const float v : values) m.real(7, v);
  return m.integer(20, 6);
}
inline Message tensor_attribute(std::string_view name, const Message& tensor) {
  return Message().text(1, name).message(5, tensor).integer(20, 4);
}
inline Message graph_attribute(std::string_view name, const Message& graph) {
  return Message().text(1, name).message(6, graph).integer(20, 5);
}
// An attribute of a function's body that takes the value of the call's attribute `of`.
inline Message attribute_reference(std::string_view name, std::string_view of, int type) {
  return Message().text(1, name).text(21, of).integer(20, type);
}

inline Message node(std::string_view op, const Names& inputs, const Names& outputs,
                    const std::vector<Message>& attributes = {}, std::string_view name = "",
                    std::string_view domain = "") {
  Message m;
  for (const auto& i : inputs) m.text(1, i);
  for (const auto& o : outputs) m.text(2, o);
  if (!name.empty()) m.text(3, name);
  m.text(4, op);
  for (const auto& a : attributes) m.message(5, a);
  if (!domain.empty()) m.text(7, domain);
  return m;
}

inline Message tensor(std::string_view name, int dtype, const Ints& dims, std::string_view raw) {
  Message m;
  for (const std::int64_t d : dims) m.integer(1, d);
  return m.integer(2, dtype).text(8, name).text(9, raw);
}
template <typename T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}
inline Message floats(std::string_view name, const Ints& dims, const std::vector<float>& values) {
  return tensor(name, kFloat, dims, raw(values));
}
inline Message external(std::string_view name, int dtype, const Ints& dims,
                        const std::vector<std::pair<std::string, std::string>>& entries) {
  Message m;
  for (const std::int64_t d : dims) m.integer(1, d);
  m.integer(2, dtype).text(8, name).integer(14, 1);
  for (const auto& [key, value] : entries) m.message(13, Message().text(1, key).text(2, value));
  return m;
}

// A dimension: a number, or -1 for "N".
inline Message value(std::string_view name, int dtype, const Ints& dims) {
  Message shape;
  for (const std::int64_t d : dims) {
    shape.message(1, d < 0 ? Message().text(2, "N") : Message().integer(1, d));
  }
  const Message type = Message().integer(1, dtype).message(2, shape);
  return Message().text(1, name).message(2, Message().message(1, type));
}
inline Message untyped(std::string_view name) { return Message().text(1, name); }

struct GraphParts {
  std::vector<Message> nodes = {}, inputs = {}, outputs = {}, initializers = {}, value_infos = {};
};
inline Message graph(const GraphParts& parts) {
  Message m;
  for (const auto& n : parts.nodes) m.message(1, n);
  m.text(2, "g");
  for (const auto& i : parts.initializers) m.message(5, i);
  for (const auto& i : parts.inputs) m.message(11, i);
  for (const auto& o : parts.outputs) m.message(12, o);
  for (const auto& v : parts.value_infos) m.message(13, v);
  return m;
}

inline Message opset(std::string_view domain, std::int64_t version) {
  return Message().text(1, domain).integer(2, version);
}

inline Message function(std::string_view domain, std::string_view name, const Names& inputs,
                        const Names& outputs, const Names& attributes,
                        const std::vector<Message>& nodes, std::int64_t version) {
  Message m;
  m.text(1, name);
  for (const auto& i : inputs) m.text(4, i);
  for (const auto& o : outputs) m.text(5, o);
  for (const auto& a : attributes) m.text(6, a);
  for (const auto& n : nodes) m.message(7, n);
  m.message(9, opset("", version)).message(9, opset(domain, 1));
  return m.text(10, domain);
}

inline std::string model(std::int64_t version, const GraphParts& parts,
                         const std::vector<Message>& functions = {}, int ir_version = 8) {
  Message m;
  m.integer(1, ir_version).message(7, graph(parts)).message(8, opset("", version));
  m.message(8, opset("local", 1));
  for (const auto& f : functions) m.message(25, f);
  return m.bytes();
}

}  // namespace xrt::wire
