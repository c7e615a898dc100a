// SPDX-License-Identifier: Apache-2.0
// Types, tensors and plain attributes to and from ONNX's protobuf messages.
//
// Internal to the files that speak protobuf (src/ir/onnx_*.cc, shape_inference.cc, schema.cc and
// src/frontends/onnx): no other file includes this header.
//
// What is read is checked: a dimension product that overflows, a data field of the wrong length or
// an unknown element type is kInvalidModel naming `what` (e.g. "initializer 'w'").
#pragma once

#include <onnx/onnx_pb.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "xrt/graph.h"
#include "xrt/tensor.h"
#include "xrt/type.h"

namespace xrt {

// The messages and schemas of this library's copy of ONNX have a package and a namespace of their
// own (tools/build_onnx.sh): libprotobuf keeps one table of all messages of a process, and ends the
// process where another library or the program itself registers the same ones.
namespace onnx = ::ONNX_NAMESPACE;

// Nested types (sequences of optionals of …) and nested graphs go no deeper than this.
inline constexpr int kMaxTypeNesting = 16;
inline constexpr int kMaxGraphNesting = 32;
// The rank above which a shape is refused.
inline constexpr int kMaxRank = 64;

DType dtype_from_proto(int data_type, const std::string& what);

Type type_from_proto(const onnx::TypeProto& proto, const std::string& what);
void type_to_proto(const Type& type, onnx::TypeProto* proto);

// Where the elements of tensors live.
struct TensorSource {
  // Keeps the parsed message alive: elements in raw_data are used in place where `owner` is set and
  // their alignment permits, otherwise they are copied.
  std::shared_ptr<const void> owner;
  // Resolves a tensor with data_location EXTERNAL; absent: such a tensor is an error.
  std::function<Tensor(const onnx::TensorProto&, DType, const Dims&, const std::string& what)>
      external;
};

Tensor tensor_from_proto(const onnx::TensorProto& proto, const TensorSource& source,
                         const std::string& what);
// A dense tensor: zeros where the sparse one has no value. Refuses sizes far beyond the message's.
Tensor tensor_from_proto(const onnx::SparseTensorProto& proto, const TensorSource& source,
                         const std::string& what);
// dtype, dims and elements inline, without a name.
void tensor_to_proto(const Tensor& tensor, onnx::TensorProto* proto);

// Every attribute but graphs. `tensor_writer` is called for each tensor; default tensor_to_proto.
using TensorWriter = std::function<void(const Tensor&, onnx::TensorProto*)>;
using GraphWriter = std::function<void(const Graph&, onnx::GraphProto*)>;
void attribute_to_proto(std::string_view name, const Attribute& attribute,
                        const TensorWriter& tensor_writer, const GraphWriter& graph_writer,
                        onnx::AttributeProto* proto);
// An attribute without graphs; nothing (valueless) is never returned: an unknown or missing kind
// throws.
Attribute attribute_from_proto(const onnx::AttributeProto& proto, const TensorSource& source,
                               const std::string& what);

// "" for both spellings of the standard domain.
inline std::string_view normal_domain(std::string_view domain) {
  return domain == "ai.onnx" ? std::string_view() : domain;
}

}  // namespace xrt
