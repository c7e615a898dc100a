// SPDX-License-Identifier: Apache-2.0
#include "ops/shape_inference.h"

#include <fmt/format.h>
#include <onnx/defs/data_type_utils.h>
#include <onnx/defs/schema.h>
#include <onnx/defs/shape_inference.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/at_fork.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "ir/type_merge.h"
#include "onnx/proto.h"
#include "onnx/writer.h"
#include "ops/canonical.h"
#include "ops/choices.h"
#include "ops/inference_guards.h"
#include "ops/ml_inference.h"
#include "ops/node_inference.h"
#include "ops/op_registry.h"
#include "ops/schema.h"
#include "xrt/error.h"

namespace xrt {
namespace {

// Constants up to this size are shown to the inference functions: shapes, axes, scales, pads.
constexpr std::size_t kMaxVisibleBytes = 64 * 1024;
// Values followed element by element are no longer than any sensible shape.
constexpr std::int64_t kMaxFollowedLength = 1024;

bool is_shape_dtype(DType dtype) { return dtype == DType::kInt64 || dtype == DType::kInt32; }

struct InferenceRules {
  bool reset = false;            // types of node outputs are forgotten first
  bool fold = false;             // known values become constants
  bool shapes_give_way = false;  // declared ones that contradict
};

// The inference of one graph; sub-graphs have one of their own each.
class Inference {
 public:
  Inference(Graph& graph, InferenceRules rules, Inference* outer)
      : graph_(graph),
        rules_(rules),
        outer_(outer),
        types_(graph.value_capacity()),
        data_(graph.value_capacity()),
        values_(graph.value_capacity()) {}

  void run();
  // One node, which may have been added since.
  void run_added(NodeId id);

  Graph& graph() { return graph_; }
  const InferenceRules& rules() const { return rules_; }
  bool folded() const { return folded_; }  // a value of this graph or a sub-graph became constant
  void set_folded() { folded_ = true; }

  // The message of a value's type, null where nothing is known of it.
  const onnx::TypeProto* type_proto(ValueId id);
  // The elements of a constant, or of an integer value that is known in full; null otherwise.
  const onnx::TensorProto* data_proto(ValueId id);
  // The elements of a shape-like value, as far as they are known; null otherwise.
  const onnx::TensorShapeProto* known_elements(ValueId id);
  // The same for data propagation, where a value of known length is a list of unknown entries.
  const onnx::TensorShapeProto* elements_or_unknown(ValueId id);
  void set_known_elements(ValueId id, onnx::TensorShapeProto&& elements);
  void set_type(ValueId id, Type type);

 private:
  void start_captures();
  void forget_outputs(const Node& node, const onnx::OpSchema* schema);
  void run_node(NodeId id);
  void infer_by_body(NodeId id, onnx::InferenceContext* context);
  void propagate(NodeId id, const onnx::OpSchema& schema);
  void propagate_division(const Node& node);
  // Whether the library's rule for elements may see the node.
  bool may_propagate(const Node& node);
  // Whether every element of the inputs from `first` on is known.
  bool operands_known(const Node& node, std::size_t first);
  void fold_values();
  void merge_output(const Node& node, ValueId id, const onnx::TypeProto& inferred);

  template <typename T>
  static T* find(std::vector<std::unique_ptr<T>>& table, ValueId id) {
    return table[static_cast<std::size_t>(id.index)].get();
  }

  Graph& graph_;
  InferenceRules rules_;
  bool folded_ = false;
  Inference* outer_;
  // Side tables by value; entries are made when first asked for.
  std::vector<std::unique_ptr<onnx::TypeProto>> types_;
  std::vector<std::unique_ptr<onnx::TensorProto>> data_;
  std::vector<std::unique_ptr<onnx::TensorShapeProto>> values_;
};

// The number of the turn and the condition are first.
constexpr std::size_t kFirstCarried = 2;

// Forgets the sizes of a value that are others in `seen`; `unsure`: those that are not known there,
// too. False where there are none.
bool loosen(Graph& graph, ValueId id, const Type& seen, bool unsure) {
  const Type declared = graph.type(id);
  if (!declared.is_tensor() || !declared.has_rank() || !seen.is_tensor()) return false;
  if (!seen.has_rank() && !unsure) return false;
  Type known = declared;
  if (!seen.has_rank() || seen.rank() != declared.rank()) {
    known = Type::tensor(declared.dtype);
  } else {
    for (std::size_t a = 0; a < known.rank(); ++a) {
      Dim& own = (*known.shape)[a];
      const Dim& other = (*seen.shape)[a];
      if (own.is_known() && own != other && (unsure || other.is_known())) own = Dim();
    }
  }
  if (known == declared) return false;
  graph.set_type(id, known);
  return true;
}

// A sub-graph as the inference function of its node sees it.
class SubgraphInferencer : public onnx::GraphInferencer {
 public:
  SubgraphInferencer(Inference& outer, NodeId node, std::string attribute)
      : outer_(outer), node_(node), attribute_(std::move(attribute)) {}

  std::vector<const onnx::TypeProto*> doInferencing(
      const std::vector<const onnx::TypeProto*>& input_types,
      const std::vector<const onnx::TensorProto*>& /*input_data*/) override {
    outputs_.clear();
    const Node& node = outer_.graph().node(node_);
    const bool may_be_skipped = node.domain.empty() && node.op == "If";
    outer_.graph().edit_subgraph(node_, attribute_, [&](Graph& body) {
      if (may_be_skipped) {
        infer_branch(body, input_types);
        return;
      }
      infer(body, input_types, outer_.rules());
      if (!node.domain.empty() || node.op != "Loop") return;
      InferenceRules again = outer_.rules();
      again.reset = true;
      for (int turn = 0; loosen_carried(body); ++turn) {
        if (turn == kMostLoosenings) forget_carried(body);
        infer(body, input_types, again);
      }
    });
    std::vector<const onnx::TypeProto*> result;
    for (const auto& type : outputs_) result.push_back(&type);
    return result;
  }

 private:
  // A branch of an If is there for other inputs than these, maybe (a model that takes audio of two
  // rates has one for each): what cannot be inferred in it is no error unless the branch is taken.
  // Then it keeps the types it had.
  void infer_branch(Graph& body, const std::vector<const onnx::TypeProto*>& input_types) {
    Graph before(body);
    try {
      infer(body, input_types, outer_.rules());
      return;
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kInvalidModel) throw;
      for (const ValueId v : before.outputs()) {
        if (before.type(v).is_tensor() && before.type(v).dtype == DType::kUndefined) throw;
      }
    }
    body = std::move(before);
    outputs_.assign(body.outputs().size(), {});
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      type_to_proto(body.type(body.outputs()[i]), &outputs_[i]);
    }
  }

  // A value that a Loop carries may be declared with sizes that its start, or what the body makes
  // of it, does not have: those are not known. False where there are none.
  bool loosen_carried(Graph& body) const {
    bool changed = xrt::loosen_carried(body, /*unsure=*/false);
    const Node& node = outer_.graph().node(node_);
    for (std::size_t i = kFirstCarried; i < body.inputs().size(); ++i) {
      if (!node.input(i).valid()) continue;
      changed =
          loosen(body, body.inputs()[i], outer_.graph().type(node.input(i)), false) || changed;
    }
    return changed;
  }

  void infer(Graph& body, const std::vector<const onnx::TypeProto*>& input_types,
             const InferenceRules& rules) {
    const std::string what = fmt::format("sub-graph '{}'", attribute_);
    if (input_types.size() != body.inputs().size()) {
      throw Error(ErrorCode::kInvalidModel,
                  fmt::format("{} takes {} inputs, the node provides {}", what,
                              body.inputs().size(), input_types.size()));
    }
    for (std::size_t i = 0; i < input_types.size(); ++i) {
      if (input_types[i] == nullptr) continue;
      const ValueId id = body.inputs()[i];
      const Type given = type_from_proto(*input_types[i], what);
      auto merged = merge_types(body.type(id), given);
      // A condition may be a scalar on one side and one element on the other.
      if (!merged && given.is_tensor() && given.dtype == DType::kBool) {
        merged = merge_types(body.type(id), Type::tensor(given.dtype));
      }
      if (!merged && !rules.reset) {
        const Type& declared = body.type(id);
        const std::string text =
            fmt::format("{}: input '{}' is declared {}, the node provides {}", what,
                        body.value(id).name, to_string(declared), to_string(given));
        if (!rules.shapes_give_way || !agree_but_for_shapes(declared, given)) {
          throw Error(ErrorCode::kInvalidModel, text);
        }
        log_warning(text + ", which holds");
      }
      body.set_type(id, merged ? *merged : given);
    }
    Inference inner(body, rules, &outer_);
    inner.run();
    if (inner.folded()) outer_.set_folded();
    outputs_.resize(body.outputs().size());
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      if (const auto* type = inner.type_proto(body.outputs()[i])) outputs_[i] = *type;
    }
  }

  Inference& outer_;
  NodeId node_;
  std::string attribute_;
  std::vector<onnx::TypeProto> outputs_;
};

// Attributes as messages, made when first asked for.
class AttributeTable {
 public:
  explicit AttributeTable(const Node& node) : node_(node) {}

  const onnx::AttributeProto* get(const std::string& name) const {
    const auto other = canonical_.find(name);
    if (other != canonical_.end()) {
      return other->second ? message(name, *other->second) : nullptr;
    }
    const auto it = node_.attributes.find(name);
    if (it != node_.attributes.end()) return message(name, it->second);
    return schema_ == nullptr || is_said_otherwise(name) ? nullptr : default_of(name);
  }

  // From here on attributes are those of the node in its canonical form (ops/canonical.h): what the
  // library infers is then what it infers of that form, too. Its rules have defaults of their own
  // (STFT's `onesided`) and another idea of ConvTranspose's padding.
  void show_canonical(const Graph& graph, const onnx::OpSchema& schema) {
    schema_ = &schema;
    if (!node_.has("auto_pad") || node_.has("pads")) return;  // with both, the rule refuses it
    auto window = canonical_window(graph, node_);
    if (!window) return;
    for (auto& [name, values] : window->set) canonical_[name] = std::move(values);
    for (const std::string& name : window->removed) canonical_[name] = std::nullopt;
  }

 private:
  const onnx::AttributeProto* message(const std::string& name, const Attribute& value) const {
    auto& proto = protos_[name];
    if (!proto) {
      proto = std::make_unique<onnx::AttributeProto>();
      const auto write_graph = [](const Graph& body, onnx::GraphProto* out) {
        graph_to_proto(body, {}, out);
      };
      attribute_to_proto(name, value, {}, write_graph, proto.get());
    }
    return proto.get();
  }

  const onnx::AttributeProto* default_of(const std::string& name) const {
    const auto it = schema_->attributes().find(name);
    if (it == schema_->attributes().end()) return nullptr;
    const onnx::AttributeProto& value = it->second.default_value;
    return value.type() == onnx::AttributeProto::UNDEFINED ? nullptr : &value;
  }

  const Node& node_;
  const onnx::OpSchema* schema_ = nullptr;
  // Other values than the node's; none for an attribute that the canonical form lacks.
  std::map<std::string, std::optional<Attribute>, std::less<>> canonical_;
  mutable std::map<std::string, std::unique_ptr<onnx::AttributeProto>> protos_;
};

// Our node, as ONNX's inference functions want to see it.
class NodeContext : public onnx::InferenceContext {
 public:
  NodeContext(Inference& inference, NodeId id)
      : inference_(inference),
        id_(id),
        node_(inference.graph().node(id)),
        attributes_(node_),
        outputs_(node_.outputs.size()) {}

  const onnx::AttributeProto* getAttribute(const std::string& name) const override {
    return attributes_.get(name);
  }
  std::size_t getNumInputs() const override { return node_.inputs.size(); }
  const onnx::TypeProto* getInputType(std::size_t i) const override {
    if (!node_.input(i).valid()) return nullptr;
    const onnx::TypeProto* type = inference_.type_proto(node_.input(i));
    // The rules of Slice and Pad take axes or steps without a shape for such as are left out.
    const bool is_list =
        node_.domain.empty() && i >= 3 && (node_.op == "Slice" || node_.op == "Pad");
    if (!is_list || type == nullptr || type->tensor_type().has_shape()) return type;
    auto& list = changed_types_[i];
    list = *type;
    list.mutable_tensor_type()->mutable_shape()->add_dim();
    return &list;
  }
  bool hasInput(std::size_t i) const override { return node_.input(i).valid(); }
  const onnx::TensorProto* getInputData(std::size_t i) const override {
    if (!node_.input(i).valid()) return nullptr;
    const onnx::TensorProto* data = inference_.data_proto(node_.input(i));
    if (data == nullptr || !node_.domain.empty()) return data;
    // Range is given lists of one element by ONNX's own function bodies (AffineGrid); its rule
    // refuses them only where it knows their value.
    if (node_.op == "Range" && data->dims_size() == 1 && data->dims(0) == 1) {
      auto& scalar = changed_data_[i];
      scalar = *data;
      scalar.clear_dims();
      return &scalar;
    }
    // The rule of Pad reads axes as int64, whatever their type.
    if (node_.op == "Pad" && i == 3 && data->data_type() == onnx::TensorProto::INT32) {
      const std::vector<std::int64_t> axes =
          tensor_from_proto(*data, {}, "the axes of a Pad").to_int64();
      auto& wide = changed_data_[i];
      wide.Clear();
      wide.set_data_type(onnx::TensorProto::INT64);
      for (const auto size : data->dims()) wide.add_dims(size);
      for (const std::int64_t axis : axes) wide.add_int64_data(axis);
      return &wide;
    }
    return data;
  }
  const onnx::TensorShapeProto* getSymbolicInput(std::size_t i) const override {
    return node_.input(i).valid() ? inference_.known_elements(node_.input(i)) : nullptr;
  }
  const onnx::SparseTensorProto* getInputSparseData(std::size_t) const override { return nullptr; }
  std::size_t getNumOutputs() const override { return outputs_.size(); }
  onnx::TypeProto* getOutputType(std::size_t i) override {
    if (i >= outputs_.size()) {
      throw Error(ErrorCode::kInvalidModel, fmt::format("it has no output {}", i));
    }
    return &outputs_[i];
  }
  bool hasOutput(std::size_t i) override { return node_.output(i).valid(); }
  onnx::GraphInferencer* getGraphAttributeInferencer(const std::string& name) override {
    if (node_.attr_graph(name) == nullptr) {
      throw Error(ErrorCode::kInvalidModel, "its sub-graph '" + name + "' is missing");
    }
    auto& inferencer = subgraphs_[name];
    if (!inferencer) inferencer = std::make_unique<SubgraphInferencer>(inference_, id_, name);
    return inferencer.get();
  }
  std::string getDisplayName() const override { return {}; }
  void show_canonical(const onnx::OpSchema& schema) {
    attributes_.show_canonical(inference_.graph(), schema);
  }

 private:
  Inference& inference_;
  NodeId id_;
  const Node& node_;
  AttributeTable attributes_;
  std::vector<onnx::TypeProto> outputs_;
  std::map<std::string, std::unique_ptr<SubgraphInferencer>> subgraphs_;
  mutable std::map<std::size_t, onnx::TensorProto> changed_data_;
  mutable std::map<std::size_t, onnx::TypeProto> changed_types_;
};

class PropagationContext : public onnx::DataPropagationContext {
 public:
  PropagationContext(Inference& inference, NodeId id)
      : inference_(inference), node_(inference.graph().node(id)), attributes_(node_) {}

  const onnx::AttributeProto* getAttribute(const std::string& name) const override {
    return attributes_.get(name);
  }
  std::size_t getNumInputs() const override { return node_.inputs.size(); }
  const onnx::TypeProto* getInputType(std::size_t i) const override {
    return node_.input(i).valid() ? inference_.type_proto(node_.input(i)) : nullptr;
  }
  std::size_t getNumOutputs() const override { return node_.outputs.size(); }
  const onnx::TypeProto* getOutputType(std::size_t i) const override {
    return node_.output(i).valid() ? inference_.type_proto(node_.output(i)) : nullptr;
  }
  const onnx::TensorShapeProto* getInputData(std::size_t i) override {
    return node_.input(i).valid() ? inference_.elements_or_unknown(node_.input(i)) : nullptr;
  }
  void addOutputData(std::size_t i, onnx::TensorShapeProto&& elements) override {
    if (node_.output(i).valid()) {
      inference_.set_known_elements(node_.output(i), std::move(elements));
    }
  }

 private:
  Inference& inference_;
  const Node& node_;
  AttributeTable attributes_;
};

// Whether a value of the type is this number, which the library's rules reckon with in int64.
bool holds(DType dtype, std::int64_t number) {
  const auto is_below = [&](int bits) {
    return number >= -(std::int64_t{1} << bits) && number < (std::int64_t{1} << bits);
  };
  switch (dtype) {
    case DType::kInt64:
      return true;
    case DType::kInt32:
      return is_below(31);
    case DType::kInt16:
      return is_below(15);
    case DType::kInt8:
      return is_below(7);
    case DType::kUInt64:
      return number >= 0;
    case DType::kUInt32:
      return number >= 0 && is_below(32);
    case DType::kUInt16:
      return number >= 0 && is_below(16);
    case DType::kUInt8:
      return number >= 0 && is_below(8);
    case DType::kFloat64:
      return is_below(53);
    case DType::kFloat32:
      return is_below(24);
    case DType::kFloat16:
      return is_below(11);
    case DType::kBFloat16:
      return is_below(8);
    default:
      return number == 0 || number == 1;
  }
}

bool has_rule(const Node& node, const onnx::OpSchema* schema) {
  return schema != nullptr &&
         (schema->has_type_and_shape_inference_function() || schema->HasFunction() ||
          schema->HasContextDependentFunction() || has_ml_rule(node));
}

void Inference::run() {
  start_captures();
  const std::vector<NodeId> order = graph_.topological_order();
  if (rules_.reset) {
    for (const NodeId id : order)
      forget_outputs(graph_.node(id), schema_of(graph_, graph_.node(id)));
  }
  constexpr std::size_t kNodesPerLook = 64;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i % kNodesPerLook == 0) throw_if_interrupted();
    run_node(order[i]);
  }
  if (rules_.fold) fold_values();
}

void Inference::run_added(NodeId id) {
  types_.resize(graph_.value_capacity());
  data_.resize(graph_.value_capacity());
  values_.resize(graph_.value_capacity());
  run_node(id);
}

void Inference::fold_values() {
  for (const NodeId id : graph_.nodes()) {
    const std::vector<ValueId> outputs = graph_.node(id).outputs;
    for (const ValueId v : outputs) {
      if (!v.valid() || find(values_, v) == nullptr || graph_.is_output(v)) continue;
      const onnx::TensorProto* data = data_proto(v);
      if (data == nullptr) continue;
      Tensor tensor = tensor_from_proto(*data, {}, "a known value");
      const Type type = Type::tensor(tensor.dtype(), tensor.dims());
      if (!merge_types(graph_.type(v), type)) continue;
      set_type(v, type);
      graph_.set_constant(v, std::move(tensor));
      folded_ = true;
    }
    const std::vector<ValueId>& left = graph_.node(id).outputs;
    const bool none = std::none_of(left.begin(), left.end(), [](ValueId v) { return v.valid(); });
    if (none && !outputs.empty()) graph_.remove_node(id);
  }
}

void Inference::start_captures() {
  if (outer_ == nullptr) return;
  for (const Capture& capture : graph_.captures()) {
    set_type(capture.inner, outer_->graph_.type(capture.outer));
    if (const auto* elements = outer_->known_elements(capture.outer)) {
      set_known_elements(capture.inner, onnx::TensorShapeProto(*elements));
    }
    if (const auto* data = outer_->data_proto(capture.outer)) {
      data_[static_cast<std::size_t>(capture.inner.index)] =
          std::make_unique<onnx::TensorProto>(*data);
    }
  }
}

void Inference::forget_outputs(const Node& node, const onnx::OpSchema* schema) {
  if (!has_rule(node, schema)) return;
  for (const ValueId id : node.outputs) {
    if (id.valid()) graph_.set_type(id, Type{});
  }
}

const onnx::TypeProto* Inference::type_proto(ValueId id) {
  auto& entry = types_[static_cast<std::size_t>(id.index)];
  if (!entry) {
    entry = std::make_unique<onnx::TypeProto>();
    type_to_proto(graph_.type(id), entry.get());
  }
  return entry->value_case() == onnx::TypeProto::VALUE_NOT_SET ? nullptr : entry.get();
}

void Inference::set_type(ValueId id, Type type) {
  types_[static_cast<std::size_t>(id.index)].reset();
  graph_.set_type(id, std::move(type));
}

const onnx::TensorProto* Inference::data_proto(ValueId id) {
  if (const auto* found = find(data_, id)) return found;
  auto& entry = data_[static_cast<std::size_t>(id.index)];
  if (const Tensor* tensor = graph_.constant(id)) {
    if (tensor->bytes() > kMaxVisibleBytes) return nullptr;
    entry = std::make_unique<onnx::TensorProto>();
    tensor_to_proto(*tensor, entry.get());
    return entry.get();
  }
  const auto* elements = find(values_, id);
  const Type& type = graph_.type(id);
  if (elements == nullptr || !is_shape_dtype(type.dtype) || type.rank() > 1 || !type.has_rank()) {
    return nullptr;
  }
  std::vector<std::int64_t> known;
  for (const auto& dim : elements->dim()) {
    if (!dim.has_dim_value()) return nullptr;
    known.push_back(dim.dim_value());
  }
  if (type.rank() == 0 && known.size() != 1) return nullptr;
  entry = std::make_unique<onnx::TensorProto>();
  entry->set_data_type(static_cast<int>(type.dtype));
  if (type.rank() == 1) entry->add_dims(static_cast<std::int64_t>(known.size()));
  for (const std::int64_t v : known) {
    if (type.dtype == DType::kInt64) {
      entry->add_int64_data(v);
    } else {
      entry->add_int32_data(static_cast<std::int32_t>(v));
    }
  }
  return entry.get();
}

const onnx::TensorShapeProto* Inference::known_elements(ValueId id) {
  if (const auto* found = find(values_, id)) return found;
  const Tensor* tensor = graph_.constant(id);
  if (tensor == nullptr || !is_shape_dtype(tensor->dtype()) || tensor->rank() > 1 ||
      tensor->count() > kMaxFollowedLength) {
    return nullptr;
  }
  auto& entry = values_[static_cast<std::size_t>(id.index)];
  entry = std::make_unique<onnx::TensorShapeProto>();
  for (const std::int64_t v : tensor->to_int64()) entry->add_dim()->set_dim_value(v);
  return entry.get();
}

const onnx::TensorShapeProto* Inference::elements_or_unknown(ValueId id) {
  if (const auto* found = known_elements(id)) return found;
  const Type& type = graph_.type(id);
  if (!is_shape_dtype(type.dtype) || type.rank() != 1 || !(*type.shape)[0].is_known()) {
    return nullptr;
  }
  const std::int64_t length = (*type.shape)[0].value();
  if (length > kMaxFollowedLength) return nullptr;
  auto& entry = values_[static_cast<std::size_t>(id.index)];
  entry = std::make_unique<onnx::TensorShapeProto>();
  for (std::int64_t i = 0; i < length; ++i) entry->add_dim();
  return entry.get();
}

void Inference::set_known_elements(ValueId id, onnx::TensorShapeProto&& elements) {
  // A list of entries says nothing about a value of more axes.
  if (elements.dim_size() > kMaxFollowedLength || graph_.type(id).rank() > 1) return;
  const DType dtype = graph_.type(id).dtype;
  const auto is_held = [&](const auto& element) {
    return !element.has_dim_value() || holds(dtype, element.dim_value());
  };
  if (!std::all_of(elements.dim().begin(), elements.dim().end(), is_held)) return;
  values_[static_cast<std::size_t>(id.index)] =
      std::make_unique<onnx::TensorShapeProto>(std::move(elements));
}

void Inference::merge_output(const Node& node, ValueId id, const onnx::TypeProto& inferred) {
  const Type type = type_from_proto(inferred, "output '" + graph_.value(id).name + "'");
  auto merged = merge_types(graph_.type(id), type);
  if (!merged) {
    const std::string text = fmt::format(
        "node '{}' ({}): output '{}' is declared {}, but its inputs make it {}", node.name,
        node.qualified_op(), graph_.value(id).name, to_string(graph_.type(id)), to_string(type));
    // Exporters declare shapes that hold for other inputs, or rank 0 where they know nothing.
    if (!rules_.shapes_give_way || !agree_but_for_shapes(graph_.type(id), type)) {
      throw Error(ErrorCode::kInvalidModel, text);
    }
    log_warning(text + ", which holds");
    merged = type;
  }
  if (merged->is_tensor() && merged->is_static() && merged->dtype != DType::kUndefined) {
    try {
      byte_count(merged->dtype, *merged->static_dims());
    } catch (const Error& error) {
      throw Error(ErrorCode::kInvalidModel,
                  fmt::format("node '{}' ({}): output '{}' is too large: {}", node.name,
                              node.qualified_op(), graph_.value(id).name, error.what()));
    }
  }
  set_type(id, *merged);
}

// An op without a rule of its own, but with a body that depends on its inputs' types.
void Inference::infer_by_body(NodeId id, onnx::InferenceContext* context) {
  const Graph body = function_body(graph_, id);
  std::size_t next = 0;  // the body leaves out absent outputs
  const std::vector<ValueId>& outputs = graph_.node(id).outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].valid()) {
      type_to_proto(body.type(body.outputs()[next++]), context->getOutputType(i));
    }
  }
}

void Inference::run_node(NodeId id) {
  const Node& node = graph_.node(id);
  const onnx::OpSchema* schema = schema_of(graph_, node);
  if (schema == nullptr) return;
  // Without the types of all inputs (one comes from an op that nothing is known of) no rule holds.
  for (const ValueId input : node.inputs) {
    if (input.valid() && type_proto(input) == nullptr) return;
  }
  const auto fail = [&](const std::string& message) {
    throw Error(ErrorCode::kInvalidModel,
                fmt::format("node '{}' ({}): {}", node.name, node.qualified_op(), message));
  };
  // Rules of the ONNX library read what must be there without looking: graphs that are no files of
  // ONNX were checked by nobody.
  const auto most = static_cast<std::size_t>(schema->max_input());
  if (node.inputs.size() > most) {
    fail(fmt::format("{} operands were given, {} are the most", node.inputs.size(), most));
  }
  for (std::size_t i = 0; i < schema->inputs().size(); ++i) {
    if (schema->inputs()[i].GetOption() == onnx::OpSchema::Single && !node.input(i).valid()) {
      fail(fmt::format("operand {} ('{}') is missing", i, schema->inputs()[i].GetName()));
    }
  }
  NodeContext context(*this, id);
  try {
    guard_inference(graph_, node);
    check_choices(node);
    context.show_canonical(*schema);
    // ONNX's inference through a body does not know the defaults of attributes, which the
    // standard's own bodies do without.
    if (!schema->has_type_and_shape_inference_function() &&
        (!schema->HasFunction() || registered_op(graph_, node) != nullptr) &&
        has_function_body(graph_, id)) {
      infer_by_body(id, &context);
    } else if (schema->has_type_and_shape_inference_function()) {
      schema->GetTypeAndShapeInferenceFunction()(context);
    } else if (const onnx::FunctionProto* function =
                   schema->GetFunction(static_cast<int>(kOnnxOpset))) {
      const NoForkScope types;
      onnx::shape_inference::InferShapeForFunctionNode(*function,
                                                       onnx::OpSchemaRegistry::Instance(), context);
    }
    if (has_ml_rule(node)) infer_ml(node, context);
    mend_inferred(graph_, node, context);
    const NoForkScope types;  // of which the library has a table, with a lock
    schema->CheckInputOutputType(context);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kInvalidModel) throw;
    fail(e.what());
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    fail(e.what());
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].valid()) merge_output(node, node.outputs[i], *context.getOutputType(i));
  }
  try {
    propagate(id, *schema);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    fail(e.what());
  }
}

// The op's own rule, and those that the ONNX library lacks and shapes often go through.
void Inference::propagate(NodeId id, const onnx::OpSchema& schema) {
  const Node& node = graph_.node(id);
  if (!may_propagate(node)) return;
  if (schema.has_data_propagation_function()) {
    PropagationContext propagation(*this, id);
    try {
      schema.GetDataPropagationFunction()(propagation);
    } catch (const onnx::InferenceError&) {
      // Sums and products that wrap round are numbers all the same.
      if (node.op != "Add" && node.op != "Sub" && node.op != "Mul") throw;
    }
    return;
  }
  if (!node.domain.empty() || !node.input(0).valid() || !node.output(0).valid()) return;
  if (!is_shape_dtype(graph_.type(node.outputs[0]).dtype)) return;
  if (node.op == "Div" || node.op == "Mod") propagate_division(node);
  if (node.op == "Identity" || node.op == "Reshape") {
    const auto* elements = known_elements(node.inputs[0]);
    if (elements != nullptr && graph_.type(node.outputs[0]).has_rank()) {
      set_known_elements(node.outputs[0], onnx::TensorShapeProto(*elements));
    }
  }
}

bool Inference::may_propagate(const Node& node) {
  if (!node.domain.empty()) return true;
  if (node.op == "Slice") {
    // The library's rule takes a bound or an axis that it does not know for 0, and goes from one
    // element to the next in int32.
    if (!operands_known(node, 1)) return false;
    constexpr std::int64_t kMostStep = std::int64_t{1} << 30;
    const auto* steps = node.input(4).valid() ? known_elements(node.inputs[4]) : nullptr;
    return steps == nullptr ||
           std::all_of(steps->dim().begin(), steps->dim().end(), [](const auto& step) {
             return step.dim_value() <= kMostStep && step.dim_value() >= -kMostStep;
           });
  }
  if (node.op == "Concat") {
    std::int64_t length = 0;  // which it makes a list of, however long
    for (const ValueId v : node.inputs) {
      const auto* elements = v.valid() ? elements_or_unknown(v) : nullptr;
      if (elements != nullptr) length += elements->dim_size();
      if (length > kMaxFollowedLength) return false;
    }
  }
  return true;
}

bool Inference::operands_known(const Node& node, std::size_t first) {
  for (std::size_t i = first; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].valid()) continue;
    const auto* elements = known_elements(node.inputs[i]);
    if (elements == nullptr) return false;
    for (const auto& element : elements->dim()) {
      if (!element.has_dim_value()) return false;
    }
  }
  return true;
}

void Inference::propagate_division(const Node& node) {
  const bool remainder = node.op == "Mod";
  const auto* a = known_elements(node.inputs[0]);
  const auto* b = node.input(1).valid() ? known_elements(node.inputs[1]) : nullptr;
  if (a == nullptr || b == nullptr || a->dim_size() == 0 || b->dim_size() == 0) return;
  const int count = std::max(a->dim_size(), b->dim_size());
  if ((a->dim_size() != count && a->dim_size() != 1) ||
      (b->dim_size() != count && b->dim_size() != 1)) {
    return;
  }
  onnx::TensorShapeProto results;
  for (int i = 0; i < count; ++i) {
    const auto& x = a->dim(a->dim_size() == 1 ? 0 : i);
    const auto& y = b->dim(b->dim_size() == 1 ? 0 : i);
    auto* out = results.add_dim();
    // Negative numbers are left out: sizes have none, and rounding is a question for them.
    if (x.has_dim_value() && y.has_dim_value() && x.dim_value() >= 0 && y.dim_value() > 0) {
      out->set_dim_value(remainder ? x.dim_value() % y.dim_value() : x.dim_value() / y.dim_value());
    }
  }
  set_known_elements(node.outputs[0], std::move(results));
}

}  // namespace

bool loosen_carried(Graph& body, bool unsure) {
  if (body.outputs().size() + 1 < body.inputs().size()) return false;
  bool changed = false;
  for (std::size_t i = kFirstCarried; i < body.inputs().size(); ++i) {
    changed = loosen(body, body.inputs()[i], body.type(body.outputs()[i - 1]), unsure) || changed;
  }
  return changed;
}

void forget_carried(Graph& body) {
  for (std::size_t i = kFirstCarried; i < body.inputs().size(); ++i) {
    const Type& type = body.type(body.inputs()[i]);
    if (type.is_tensor()) body.set_type(body.inputs()[i], Type::tensor(type.dtype));
  }
}

void infer_shapes(Graph& graph, bool reset) { Inference(graph, {.reset = reset}, nullptr).run(); }

void infer_shapes_of_file(Graph& graph) {
  Inference(graph, {.shapes_give_way = true}, nullptr).run();
}

bool fold_known_values(Graph& graph) {
  Inference inference(graph, {.fold = true}, nullptr);
  inference.run();
  return inference.folded();
}

void NodeInference::run(Graph& graph, NodeId node) {
  Known& known = known_[&graph];
  if (!known.infer || node.index <= known.last.index) {
    auto inference = std::make_shared<Inference>(graph, InferenceRules{}, nullptr);
    known.infer = [inference](NodeId added) { inference->run_added(added); };
  }
  known.last = node;
  try {
    known.infer(node);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kInvalidModel) throw;
  }
}

}  // namespace xrt
