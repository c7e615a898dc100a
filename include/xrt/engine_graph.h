// SPDX-License-Identifier: Apache-2.0
// What an engine sees of a graph: views of its nodes, values, types, attributes and tensors. Each
// is a handle of the host and the host's table of functions (xrt/engine_c.h); a view is valid
// during the call that it came with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xrt/device.h"
#include "xrt/dtype.h"
#include "xrt/engine_c.h"
#include "xrt/error.h"
#include "xrt/ids.h"

// The classes of an engine's headers lie in a namespace that names this version of the header and
// the standard library, so that those of two libraries in one process are never taken for each
// other's.
#if defined(_LIBCPP_VERSION)
#define XRT_ENGINE_NAMESPACE engine_1_1_libcpp
#elif defined(_GLIBCXX_DEBUG)
#define XRT_ENGINE_NAMESPACE engine_1_1_gnu_debug
#elif defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#define XRT_ENGINE_NAMESPACE engine_1_1_gnu_old
#else
#define XRT_ENGINE_NAMESPACE engine_1_1_gnu
#endif

namespace xrt {
inline namespace XRT_ENGINE_NAMESPACE {

// A dense, row-major tensor of the host's: a constant, an input, or memory to be written.
class TensorView {
 public:
  TensorView() = default;  // defined() is false
  TensorView(const xrt_engine_host* host, const xrt_engine_tensor* handle)
      : host_(host), handle_(handle) {
    info_.size = sizeof(info_);
    if (handle != nullptr) host->read_tensor(handle, &info_);
  }
  bool defined() const { return handle_ != nullptr; }
  DType dtype() const { return static_cast<DType>(info_.dtype); }
  std::span<const std::int64_t> dims() const { return {info_.dims, info_.rank}; }
  std::size_t rank() const { return info_.rank; }
  std::int64_t count() const { return info_.count; }
  std::size_t bytes() const { return info_.bytes; }
  Device device() const {
    return {static_cast<DeviceKind>(info_.device_kind), info_.device_ordinal};
  }
  // An address on device(); null for strings. Inputs and constants are not to be written.
  void* raw() const { return info_.data; }
  template <typename T>
  T* data() const {
    return static_cast<T*>(info_.data);
  }
  // An element of a tensor of strings; valid as long as the tensor.
  std::string_view string(std::size_t i) const {
    const xrt_engine_text text = host_->tensor_string(handle_, i);
    return {text.data, text.size};
  }
  // Owns a handle to the same memory: what it gives may be kept.
  std::shared_ptr<const TensorView> share() const {
    xrt_engine_tensor* own = host_->retain_tensor(handle_);
    const xrt_engine_host* host = host_;
    return {new TensorView(host, own), [host, own](const TensorView* view) {
              delete view;
              host->release_tensor(own);
            }};
  }
  const xrt_engine_tensor* handle() const { return handle_; }

 private:
  const xrt_engine_host* host_ = nullptr;
  const xrt_engine_tensor* handle_ = nullptr;
  xrt_engine_tensor_info info_ = {};
};

class TypeView {
 public:
  enum class Kind : std::uint8_t { kTensor, kSequence, kOptional, kMap, kSparseTensor };
  static constexpr std::int64_t kUnknown = -1;

  TypeView(const xrt_engine_host* host, const xrt_engine_type* handle)
      : host_(host), handle_(handle) {
    info_.size = sizeof(info_);
    host->read_type(handle, &info_);
  }
  Kind kind() const { return static_cast<Kind>(info_.kind); }
  bool is_tensor() const { return kind() == Kind::kTensor; }
  DType dtype() const { return static_cast<DType>(info_.dtype); }  // of a tensor's elements
  bool has_rank() const { return info_.has_rank != 0; }
  std::size_t rank() const { return info_.rank; }
  // A dimension's number, or kUnknown; its symbol, which may be empty.
  std::int64_t dim(std::size_t axis) const { return host_->type_dim(handle_, axis, nullptr); }
  std::string_view symbol(std::size_t axis) const {
    xrt_engine_text text = {};
    host_->type_dim(handle_, axis, &text);
    return {text.data, text.size};
  }
  // Of a sequence, an optional or a map: the type of what it holds.
  TypeView element() const { return {host_, info_.element}; }
  // A tensor of which every dimension is a number.
  bool is_static() const {
    if (!is_tensor() || !has_rank()) return false;
    for (std::size_t axis = 0; axis < rank(); ++axis) {
      if (dim(axis) == kUnknown) return false;
    }
    return true;
  }
  // The dimensions, kUnknown where one is not a number.
  std::vector<std::int64_t> dims() const {
    std::vector<std::int64_t> all(rank());
    for (std::size_t axis = 0; axis < all.size(); ++axis) all[axis] = dim(axis);
    return all;
  }
  const xrt_engine_type* handle() const { return handle_; }

 private:
  const xrt_engine_host* host_;
  const xrt_engine_type* handle_;
  xrt_engine_type_info info_ = {};
};

// "float32[1,3,H,?]", "float32[*]" (unknown rank), "seq(float32[*])"
inline std::string to_string(const TypeView& type) {
  if (!type.is_tensor()) {
    static constexpr const char* kNames[] = {"", "seq", "optional", "map", "sparse"};
    const auto kind = static_cast<std::size_t>(type.kind());
    if (type.kind() == TypeView::Kind::kSparseTensor) return kNames[kind];
    return std::string(kNames[kind]) + "(" + to_string(type.element()) + ")";
  }
  std::string text(to_string(type.dtype()));
  if (!type.has_rank()) return text + "[*]";
  text += "[";
  for (std::size_t axis = 0; axis < type.rank(); ++axis) {
    if (axis > 0) text += ",";
    const std::int64_t dim = type.dim(axis);
    const std::string_view symbol = type.symbol(axis);
    if (dim != TypeView::kUnknown) {
      text += std::to_string(dim);
    } else {
      text += symbol.empty() ? std::string_view("?") : symbol;
    }
  }
  return text + "]";
}

class GraphView;

class NodeView {
 public:
  NodeView(const xrt_engine_host* host, const xrt_engine_graph* graph, NodeId id)
      : host_(host), graph_(graph), id_(id) {
    info_.size = sizeof(info_);
    host->read_node(graph, id.index, &info_);
  }
  NodeId id() const { return id_; }
  std::string_view name() const { return text(info_.name); }      // unique within the graph
  std::string_view domain() const { return text(info_.domain); }  // "" is the ONNX standard
  std::string_view op() const { return text(info_.op); }
  // "ai.onnx.ml.Scaler", or just "Relu" for the standard domain.
  std::string qualified_op() const {
    return domain().empty() ? std::string(op()) : std::string(domain()) + "." + std::string(op());
  }
  // An id that is not valid() is an optional input or output that is left out.
  std::vector<ValueId> inputs() const { return ids(info_.inputs, info_.input_count); }
  std::vector<ValueId> outputs() const { return ids(info_.outputs, info_.output_count); }
  // The i-th, or an invalid id if the node has fewer.
  ValueId input(std::size_t i) const { return {i < info_.input_count ? info_.inputs[i] : -1}; }
  ValueId output(std::size_t i) const { return {i < info_.output_count ? info_.outputs[i] : -1}; }

  bool has(std::string_view attribute) const { return find(attribute).has_value(); }
  // Typed access: `fallback` where the attribute is absent. A value of another type throws
  // kInvalidModel naming node and attribute.
  std::int64_t attr_int(std::string_view name, std::int64_t fallback) const {
    const auto found = find(name, XRT_ENGINE_ATTRIBUTE_INT);
    return found ? found->i : fallback;
  }
  float attr_float(std::string_view name, float fallback) const {
    const auto found = find(name, XRT_ENGINE_ATTRIBUTE_FLOAT);
    return found ? found->f : fallback;
  }
  std::string attr_string(std::string_view name, std::string_view fallback) const {
    const auto found = find(name, XRT_ENGINE_ATTRIBUTE_STRING);
    return std::string(found ? text(found->text) : fallback);
  }
  std::vector<std::int64_t> attr_ints(std::string_view name,
                                      std::vector<std::int64_t> fallback = {}) const {
    const auto found = find(name, XRT_ENGINE_ATTRIBUTE_INTS);
    if (!found) return fallback;
    return {found->ints, found->ints + found->count};
  }
  std::vector<float> attr_floats(std::string_view name, std::vector<float> fallback = {}) const {
    const auto found = find(name, XRT_ENGINE_ATTRIBUTE_FLOATS);
    if (!found) return fallback;
    return {found->floats, found->floats + found->count};
  }
  std::vector<std::string> attr_strings(std::string_view name) const {
    const auto found = find(name, XRT_ENGINE_ATTRIBUTE_STRINGS);
    std::vector<std::string> all;
    for (std::size_t i = 0; found && i < found->count; ++i) {
      xrt_engine_attribute item = {};
      item.size = sizeof(item);
      host_->read_attribute_item(graph_, id_.index, {name.data(), name.size()}, i, &item);
      all.emplace_back(text(item.text));
    }
    return all;
  }
  TensorView attr_tensor(std::string_view name) const {  // not defined() where it is absent
    const auto found = find(name, XRT_ENGINE_ATTRIBUTE_TENSOR);
    return found ? TensorView(host_, found->tensor) : TensorView();
  }
  std::optional<GraphView> attr_graph(std::string_view name) const;

 private:
  static std::string_view text(xrt_engine_text t) { return {t.data, t.size}; }
  static std::vector<ValueId> ids(const std::int32_t* first, std::size_t count) {
    std::vector<ValueId> all(count);
    for (std::size_t i = 0; i < count; ++i) all[i].index = first[i];
    return all;
  }
  std::optional<xrt_engine_attribute> find(std::string_view name, std::int32_t kind = -1) const {
    xrt_engine_attribute found = {};
    found.size = sizeof(found);
    if (host_->find_attribute(graph_, id_.index, {name.data(), name.size()}, &found) == 0)
      return {};
    if (kind != -1 && found.kind != kind) {
      throw Error(ErrorCode::kInvalidModel, "node '" + std::string(this->name()) +
                                                "': attribute '" + std::string(name) +
                                                "' is of another type");
    }
    return found;
  }

  const xrt_engine_host* host_;
  const xrt_engine_graph* graph_;
  NodeId id_;
  xrt_engine_node info_ = {};
};

class GraphView {
 public:
  GraphView(const xrt_engine_host* host, const xrt_engine_graph* handle)
      : host_(host), handle_(handle) {}

  std::string_view name() const {
    const xrt_engine_text text = host_->graph_name(handle_);
    return {text.data, text.size};
  }
  // In a topological order, the same on every run.
  std::vector<NodeId> nodes() const { return list<NodeId>(host_->graph_nodes); }
  std::vector<ValueId> constants() const { return list<ValueId>(host_->graph_constants); }
  // Entry and return parameters, in order.
  std::vector<ValueId> inputs() const { return ports(host_->graph_inputs); }
  std::vector<ValueId> outputs() const { return ports(host_->graph_outputs); }
  NodeView node(NodeId id) const { return {host_, handle_, id}; }
  TypeView type(ValueId id) const { return {host_, read(id).type}; }
  // Unique within the graph.
  std::string_view value_name(ValueId id) const {
    const xrt_engine_text text = read(id).name;
    return {text.data, text.size};
  }
  Origin origin(ValueId id) const { return static_cast<Origin>(read(id).origin); }
  NodeId producer(ValueId id) const { return {read(id).producer}; }
  // The constant that a value is; not defined() where it is none.
  TensorView constant(ValueId id) const {
    const xrt_engine_tensor* tensor = read(id).constant;
    return tensor == nullptr ? TensorView() : TensorView(host_, tensor);
  }
  // Who reads a value (graph outputs are no uses), in order.
  std::vector<Use> uses(ValueId id) const {
    std::vector<xrt_engine_use> raw(host_->value_uses(handle_, id.index, nullptr, 0));
    host_->value_uses(handle_, id.index, raw.data(), raw.size());
    std::vector<Use> all;
    all.reserve(raw.size());
    for (const xrt_engine_use& use : raw) all.push_back({{use.node}, use.index});
    return all;
  }
  bool is_output(ValueId id) const { return host_->value_is_output(handle_, id.index) != 0; }
  // One past the highest id ever given: sizes of side tables.
  std::size_t node_capacity() const { return host_->node_capacity(handle_); }
  std::size_t value_capacity() const { return host_->value_capacity(handle_); }

  const xrt_engine_host* host() const { return host_; }
  const xrt_engine_graph* handle() const { return handle_; }

 private:
  xrt_engine_value read(ValueId id) const {
    xrt_engine_value value = {};
    value.size = sizeof(value);
    host_->read_value(handle_, id.index, &value);
    return value;
  }
  template <typename Id>
  std::vector<Id> list(std::size_t (*get)(const xrt_engine_graph*, std::int32_t*,
                                          std::size_t)) const {
    std::vector<std::int32_t> raw(get(handle_, nullptr, 0));
    get(handle_, raw.data(), raw.size());
    std::vector<Id> all(raw.size());
    for (std::size_t i = 0; i < raw.size(); ++i) all[i].index = raw[i];
    return all;
  }
  std::vector<ValueId> ports(const std::int32_t* (*get)(const xrt_engine_graph*,
                                                        std::size_t*)) const {
    std::size_t count = 0;
    const std::int32_t* first = get(handle_, &count);
    std::vector<ValueId> all(count);
    for (std::size_t i = 0; i < count; ++i) all[i].index = first[i];
    return all;
  }

  const xrt_engine_host* host_;
  const xrt_engine_graph* handle_;
};

inline std::optional<GraphView> NodeView::attr_graph(std::string_view name) const {
  const auto found = find(name, XRT_ENGINE_ATTRIBUTE_GRAPH);
  if (!found) return std::nullopt;
  return GraphView(host_, found->graph);
}

}  // namespace XRT_ENGINE_NAMESPACE
}  // namespace xrt
