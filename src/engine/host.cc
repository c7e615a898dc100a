// SPDX-License-Identifier: Apache-2.0
#include "engine/host.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/log.h"
#include "xrt/onnx.h"

namespace xrt {
namespace {

using border::string;
using border::text;

NodeId node_id(std::int32_t index) { return {index}; }
ValueId value_id(std::int32_t index) { return {index}; }

xrt_engine_status fail(xrt_engine_error* error, xrt_engine_status code, xrt_engine_text message) {
  reinterpret_cast<EngineError*>(error)->text = string(message);
  return code;
}

void log(std::int32_t level, xrt_engine_text message) {
  const std::string line = string(message);
  if (level <= 0) {
    log_debug(line);
  } else if (level == 1) {
    log_info(line);
  } else {
    log_warning(line);
  }
}

// --- graphs -------------------------------------------------------------------------------------

template <typename Ids>
std::size_t copy_ids(const Ids& ids, std::int32_t* to, std::size_t capacity) {
  for (std::size_t i = 0; i < std::min(capacity, ids.size()); ++i) to[i] = ids[i].index;
  return ids.size();
}

std::size_t graph_nodes(const xrt_engine_graph* handle, std::int32_t* ids, std::size_t capacity) {
  const Graph& graph = graph_of(handle);
  return capacity == 0 ? graph.node_count() : copy_ids(graph.topological_order(), ids, capacity);
}

std::size_t graph_constants(const xrt_engine_graph* handle, std::int32_t* ids,
                            std::size_t capacity) {
  return copy_ids(graph_of(handle).constants(), ids, capacity);
}

std::size_t value_uses(const xrt_engine_graph* handle, std::int32_t value, xrt_engine_use* to,
                       std::size_t capacity) {
  const std::vector<Use>& uses = graph_of(handle).uses(value_id(value));
  for (std::size_t i = 0; i < std::min(capacity, uses.size()); ++i) {
    to[i] = {uses[i].node.index, uses[i].index};
  }
  return uses.size();
}

// Ids are handed out as the numbers that they are.
static_assert(sizeof(ValueId) == sizeof(std::int32_t) && std::is_standard_layout_v<ValueId>);
const std::int32_t* numbers(const std::vector<ValueId>& ids) {
  return ids.empty() ? nullptr : &ids.front().index;
}

template <const std::vector<ValueId>& (Graph::*list)() const>
const std::int32_t* ports(const xrt_engine_graph* handle, std::size_t* count) {
  const std::vector<ValueId>& ids = (graph_of(handle).*list)();
  *count = ids.size();
  return numbers(ids);
}

void read_node(const xrt_engine_graph* handle, std::int32_t id, xrt_engine_node* to) {
  const Graph& graph = graph_of(handle);
  if (!graph.alive(node_id(id))) return;
  const Node& node = graph.node(node_id(id));
  to->name = text(node.name);
  to->domain = text(node.domain);
  to->op = text(node.op);
  to->inputs = numbers(node.inputs);
  to->input_count = node.inputs.size();
  to->outputs = numbers(node.outputs);
  to->output_count = node.outputs.size();
  to->attribute_count = node.attributes.size();
}

void read_value(const xrt_engine_graph* handle, std::int32_t id, xrt_engine_value* to) {
  const Graph& graph = graph_of(handle);
  if (!graph.alive(value_id(id))) return;
  const Value& value = graph.value(value_id(id));
  to->name = text(value.name);
  to->type = handle_of(value.type);
  to->constant = value.origin == Origin::kConstant ? handle_of(value.constant) : nullptr;
  to->origin = static_cast<std::int32_t>(value.origin);
  to->producer = value.producer.index;
  to->output_index = value.output_index;
}

// The alternatives of Attribute stand in the order of XRT_ENGINE_ATTRIBUTE_….
template <int kind, typename T>
constexpr bool kStandsAt = std::is_same_v<std::variant_alternative_t<kind, Attribute>, T>;
static_assert(kStandsAt<XRT_ENGINE_ATTRIBUTE_INT, std::int64_t>);
static_assert(kStandsAt<XRT_ENGINE_ATTRIBUTE_TENSOR, Tensor>);
static_assert(kStandsAt<XRT_ENGINE_ATTRIBUTE_TYPE, Type>);
static_assert(kStandsAt<XRT_ENGINE_ATTRIBUTE_INTS, std::vector<std::int64_t>>);
static_assert(kStandsAt<XRT_ENGINE_ATTRIBUTE_TYPES, std::vector<Type>>);

struct AttributeReader {
  xrt_engine_attribute* to;
  void operator()(std::int64_t i) const { to->i = i; }
  void operator()(float f) const { to->f = f; }
  void operator()(const std::string& s) const { to->text = text(s); }
  void operator()(const Tensor& tensor) const { to->tensor = handle_of(tensor); }
  void operator()(const std::shared_ptr<Graph>& graph) const { to->graph = handle_of(*graph); }
  void operator()(const Type& type) const { to->type = handle_of(type); }
  void operator()(const std::vector<std::int64_t>& list) const {
    to->ints = list.data();
    to->count = list.size();
  }
  void operator()(const std::vector<float>& list) const {
    to->floats = list.data();
    to->count = list.size();
  }
  template <typename T>
  void operator()(const std::vector<T>& list) const {
    if (!list.empty()) (*this)(list.front());
    to->count = list.size();
  }
};

void read(const std::string& name, const Attribute& attribute, xrt_engine_attribute* to) {
  to->name = text(name);
  to->kind = static_cast<std::int32_t>(attribute.index());
  to->count = 1;
  std::visit(AttributeReader{to}, attribute);
}

void read_attribute(const xrt_engine_graph* handle, std::int32_t node, std::size_t index,
                    xrt_engine_attribute* to) {
  const Attributes& attributes = graph_of(handle).node(node_id(node)).attributes;
  if (index >= attributes.size()) return;
  const auto& [name, value] = *std::next(attributes.begin(), static_cast<std::ptrdiff_t>(index));
  read(name, value, to);
}

std::int32_t find_attribute(const xrt_engine_graph* handle, std::int32_t node, xrt_engine_text name,
                            xrt_engine_attribute* to) {
  const Attributes& attributes = graph_of(handle).node(node_id(node)).attributes;
  const auto found = attributes.find(std::string_view(name.data, name.size));
  if (found == attributes.end()) return 0;
  read(found->first, found->second, to);
  return 1;
}

struct ItemReader {
  std::size_t item;
  AttributeReader reader;
  template <typename T>
  void operator()(const std::vector<T>& list) const {
    if (item < list.size()) reader(list[item]);
  }
  template <typename T>
  void operator()(const T& /*single*/) const {}
};

void read_attribute_item(const xrt_engine_graph* handle, std::int32_t node, xrt_engine_text name,
                         std::size_t item, xrt_engine_attribute* to) {
  const Attributes& attributes = graph_of(handle).node(node_id(node)).attributes;
  const auto found = attributes.find(std::string_view(name.data, name.size));
  if (found != attributes.end()) std::visit(ItemReader{item, {to}}, found->second);
}

// --- types and tensors --------------------------------------------------------------------------

void read_type(const xrt_engine_type* handle, xrt_engine_type_info* to) {
  if (handle == nullptr) return;
  const Type& type = type_of(handle);
  to->kind = static_cast<std::int32_t>(type.kind);
  to->dtype = static_cast<std::int32_t>(type.dtype);
  to->has_rank = type.has_rank() ? 1 : 0;
  to->rank = type.rank();
  to->element = type.element ? handle_of(*type.element) : nullptr;
}

std::int64_t type_dim(const xrt_engine_type* handle, std::size_t axis, xrt_engine_text* symbol) {
  const Type& type = type_of(handle);
  if (!type.shape || axis >= type.shape->size()) return -1;
  const Dim& dim = (*type.shape)[axis];
  if (symbol != nullptr) *symbol = text(dim.symbol());
  return dim.value();
}

void read_tensor(const xrt_engine_tensor* handle, xrt_engine_tensor_info* to) {
  const Tensor& tensor = tensor_of(handle);
  const bool is_text = tensor.dtype() == DType::kString;
  to->data = is_text ? nullptr : const_cast<void*>(tensor.raw());
  to->bytes = is_text ? 0 : tensor.bytes();
  to->count = tensor.count();
  to->dims = tensor.dims().data();
  to->rank = tensor.rank();
  to->dtype = static_cast<std::int32_t>(tensor.dtype());
  to->device_kind = static_cast<std::int32_t>(tensor.device().kind);
  to->device_ordinal = tensor.device().ordinal;
}

xrt_engine_text tensor_string(const xrt_engine_tensor* handle, std::size_t index) {
  const Tensor& tensor = tensor_of(handle);
  if (tensor.dtype() != DType::kString || index >= static_cast<std::size_t>(tensor.count())) {
    return {nullptr, 0};
  }
  return text(tensor.strings()[index]);
}

xrt_engine_tensor* retain_tensor(const xrt_engine_tensor* handle) {
  return reinterpret_cast<xrt_engine_tensor*>(new Tensor(tensor_of(handle)));
}

void release_tensor(xrt_engine_tensor* handle) { delete reinterpret_cast<Tensor*>(handle); }

// --- questions and orders -----------------------------------------------------------------------

void answer(xrt_engine_answers* handle, std::int32_t node, std::int32_t yes,
            xrt_engine_text reason) {
  auto& answers = *reinterpret_cast<std::vector<std::optional<Support>>*>(handle);
  const auto index = node < 0 ? answers.size() : static_cast<std::size_t>(node);
  if (index >= answers.size()) return;  // of no node of the graph
  answers[index] = yes != 0 ? Support::yes() : Support::no(string(reason));
}

xrt_engine_status function_onnx(const void* onnx, std::size_t inline_limit, xrt_engine_writer to) {
  const auto& make = *static_cast<const std::function<std::string(std::size_t)>*>(onnx);
  std::string bytes;
  xrt_engine_status status = 0;
  try {
    bytes = make(inline_limit);
  } catch (const Error& error) {
    status = static_cast<xrt_engine_status>(error.code()) + 1;
    bytes = error.what();
  } catch (const std::exception& error) {
    status = static_cast<xrt_engine_status>(ErrorCode::kInternal) + 1;
    bytes = error.what();
  }
  to.write(to.self, bytes.data(), bytes.size());
  return status;
}

std::int32_t progress(const void* handle, xrt_engine_text what, double part) {
  const auto& tell = *static_cast<const std::function<void(std::string_view, double)>*>(handle);
  if (!tell) return 0;
  try {
    tell({what.data, what.size}, part);
    return 0;
  } catch (const std::exception& error) {  // how the caller says that it has given up
    log_debug(std::string("a compilation is cancelled: ") + error.what());
    return 1;
  }
}

// --- runs ---------------------------------------------------------------------------------------

template <typename Port>
const xrt_engine_tensor* tensor_at(std::span<Port> ports, std::size_t index) {
  if (index >= ports.size() || !ports[index].is_tensor()) return nullptr;
  return handle_of(std::as_const(ports[index]).tensor());
}

void* allocate_output(xrt_engine_run* run, std::size_t index, std::int32_t dtype,
                      const std::int64_t* dims, std::size_t rank) {
  const std::span<Data> outputs = data_of(run).outputs;
  if (index >= outputs.size()) return nullptr;
  RunData& data = data_of(run);
  const InheritedScope scope(data.scope);
  try {
    outputs[index] = Tensor::allocate(static_cast<DType>(dtype), Dims(dims, dims + rank));
  } catch (const std::exception& error) {
    data.refused = error.what();
    log_debug(std::string("an output cannot be allocated: ") + error.what());
    return nullptr;
  }
  return outputs[index].tensor().raw();
}

void give_output(xrt_engine_run* run, std::size_t index, std::int32_t dtype,
                 const std::int64_t* dims, std::size_t rank, void* data, std::int32_t device_kind,
                 std::int32_t device_ordinal, void* owner, void (*release)(void* owner)) {
  const std::span<Data> outputs = data_of(run).outputs;
  const std::shared_ptr<const void> kept(owner, [release](const void* given) {
    if (release != nullptr) release(const_cast<void*>(given));
  });
  if (index >= outputs.size()) return;
  outputs[index] = Tensor::wrap(static_cast<DType>(dtype), Dims(dims, dims + rank), data, kept,
                                Device{static_cast<DeviceKind>(device_kind), device_ordinal});
}

void set_output_string(xrt_engine_run* run, std::size_t index, std::size_t element,
                       xrt_engine_text value) {
  const std::span<Data> outputs = data_of(run).outputs;
  if (index >= outputs.size() || !outputs[index].is_tensor()) return;
  Tensor& tensor = outputs[index].tensor();
  if (tensor.dtype() != DType::kString || element >= static_cast<std::size_t>(tensor.count())) {
    return;
  }
  tensor.strings()[element] = string(value);
}

xrt_engine_host make_host() {
  xrt_engine_host host = {};
  host.size = sizeof(host);
  host.major = XRT_ENGINE_VERSION_MAJOR;
  host.minor = XRT_ENGINE_VERSION_MINOR;
  host.fail = fail;
  host.log = log;
  host.graph_name = [](const xrt_engine_graph* graph) { return text(graph_of(graph).name()); };
  host.node_capacity = [](const xrt_engine_graph* g) { return graph_of(g).node_capacity(); };
  host.value_capacity = [](const xrt_engine_graph* g) { return graph_of(g).value_capacity(); };
  host.graph_nodes = graph_nodes;
  host.graph_constants = graph_constants;
  host.value_uses = value_uses;
  host.graph_inputs = ports<&Graph::inputs>;
  host.graph_outputs = ports<&Graph::outputs>;
  host.read_node = read_node;
  host.read_value = read_value;
  host.value_is_output = [](const xrt_engine_graph* graph, std::int32_t value) {
    return graph_of(graph).is_output(value_id(value)) ? 1 : 0;
  };
  host.read_attribute = read_attribute;
  host.find_attribute = find_attribute;
  host.read_attribute_item = read_attribute_item;
  host.read_type = read_type;
  host.type_dim = type_dim;
  host.read_tensor = read_tensor;
  host.tensor_string = tensor_string;
  host.retain_tensor = retain_tensor;
  host.release_tensor = release_tensor;
  host.answer = answer;
  host.function_onnx = function_onnx;
  host.progress = progress;
  host.input_count = [](const xrt_engine_run* run) { return data_of(run).inputs.size(); };
  host.output_count = [](const xrt_engine_run* run) { return data_of(run).outputs.size(); };
  host.input_kind = [](const xrt_engine_run* run, std::size_t i) {
    const std::span<const Data> inputs = data_of(run).inputs;
    return i < inputs.size() ? static_cast<std::int32_t>(inputs[i].kind()) : 0;
  };
  host.input = [](const xrt_engine_run* run, std::size_t i) {
    return tensor_at(data_of(run).inputs, i);
  };
  host.output = [](const xrt_engine_run* run, std::size_t i) {
    return tensor_at(data_of(run).outputs, i);
  };
  host.allocate_output = allocate_output;
  host.give_output = give_output;
  host.set_output_string = set_output_string;
  host.output_on_device = [](const xrt_engine_run* run, std::size_t i) {
    const std::span<const bool> marks = data_of(run).on_device;
    return i < marks.size() && marks[i] ? 1 : 0;
  };
  host.stream = [](const xrt_engine_run* run) { return data_of(run).stream; };
  host.cancelled = [](const xrt_engine_run* run) {
    const RunLimit* limit = data_of(run).limit;
    return limit != nullptr && limit->is_over() ? 1 : 0;
  };
  return host;
}

}  // namespace

const xrt_engine_host* engine_host() {
  static const xrt_engine_host host = make_host();
  return &host;
}

Function function_of(std::string name, const Graph& graph, std::vector<InputOutputAlias> aliases) {
  return {std::move(name), view_of(graph), std::move(aliases), [&graph](std::size_t inline_limit) {
            ExportOptions options;
            options.inline_limit = inline_limit;
            return export_onnx(graph, options);
          }};
}

}  // namespace xrt
