// SPDX-License-Identifier: Apache-2.0
// Ops of users: each becomes a schema of the ONNX library, so that import, inference, expansion and
// export treat it as one of the standard's.
#include "ops/op_registry.h"

#include <fmt/format.h>
#include <onnx/defs/parser.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <shared_mutex>
#include <utility>

#include "base/at_fork.h"
#include "base/fork_mutex.h"
#include "base/hash.h"
#include "onnx/proto.h"
#include "xrt/error.h"

namespace xrt {
namespace {

// Of one op: by the opset version from which on it holds.
using Versions = std::map<std::int64_t, std::unique_ptr<RegisteredOp>>;

struct Table {
  SharedForkMutex mutex;
  std::map<std::pair<std::string, std::string>, Versions> ops;
};

Table& table() {
  static Table instance;
  return instance;
}

bool is_identifier(std::string_view text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) != 0) return false;
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

bool is_reserved(const std::string& domain) {
  return domain.empty() || domain == "xrt" || domain == "ai.onnx" || domain.starts_with("ai.onnx.");
}

std::string qualified(const OpDefinition& op) { return op.domain + "." + op.name; }

[[noreturn]] void refuse(const OpDefinition& op, const std::string& problem) {
  throw Error(ErrorCode::kInvalidArgument, fmt::format("op '{}': {}", qualified(op), problem));
}

void check_parameters(const OpDefinition& op, const std::vector<OpParameter>& parameters,
                      std::set<std::string>& names) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const OpParameter& p = parameters[i];
    if (!is_identifier(p.name)) refuse(op, fmt::format("'{}' is no identifier", p.name));
    if (!names.insert(p.name).second)
      refuse(op, fmt::format("the name '{}' is there twice", p.name));
    if (p.variadic && i + 1 < parameters.size()) {
      refuse(op, fmt::format("'{}' is variadic, but not the last one", p.name));
    }
  }
}

bool can_be_attribute(const Attribute& value) {
  return std::holds_alternative<std::int64_t>(value) || std::holds_alternative<float>(value) ||
         std::holds_alternative<std::string>(value) || std::holds_alternative<Tensor>(value) ||
         std::holds_alternative<std::vector<std::int64_t>>(value) ||
         std::holds_alternative<std::vector<float>>(value) ||
         std::holds_alternative<std::vector<std::string>>(value);
}

void check(const OpDefinition& op) {
  if (is_reserved(op.domain)) {
    refuse(op, fmt::format("the domain '{}' is reserved: choose one of your own", op.domain));
  }
  if (!is_identifier(op.name)) refuse(op, "its name is no identifier");
  if (op.opset_version < 1 || op.opset_version > std::numeric_limits<int>::max() / 2) {
    refuse(op, fmt::format("{} is no opset version", op.opset_version));
  }
  if (op.outputs.empty()) refuse(op, "it has no outputs");
  if (!op.create && op.body.empty()) refuse(op, "it has neither a kernel nor a body");
  std::set<std::string> names;
  check_parameters(op, op.inputs, names);
  check_parameters(op, op.outputs, names);
  std::set<std::string> attributes;
  for (const OpAttribute& a : op.attributes) {
    if (!is_identifier(a.name)) refuse(op, fmt::format("'{}' is no identifier", a.name));
    if (!attributes.insert(a.name).second) {
      refuse(op, fmt::format("the attribute '{}' is there twice", a.name));
    }
    if (!can_be_attribute(a.value)) {
      refuse(op, fmt::format("the attribute '{}' is of a kind that ops cannot have", a.name));
    }
  }
}

std::string gradient_name(const OpParameter& p) { return "d_" + p.name; }

// Statements to nodes, with the opset of every domain that they use. `what` they are, for errors.
onnx::FunctionProto parse_statements(const OpDefinition& op, const std::string& what,
                                     const std::string& statements,
                                     const std::vector<std::string>& inputs) {
  const auto is_variadic = [](const OpParameter& p) { return p.variadic; };
  if (std::any_of(op.inputs.begin(), op.inputs.end(), is_variadic) ||
      std::any_of(op.outputs.begin(), op.outputs.end(), is_variadic)) {
    refuse(op, "an op with a variadic parameter cannot have a " + what);
  }
  onnx::FunctionProto function;
  const std::size_t first = statements.find_first_not_of(" \t\r\n");
  const bool braced = first != std::string::npos && statements[first] == '{';
  const std::string text = braced ? statements : "{" + statements + "}";
  onnx::OnnxParser parser(text.c_str());
  const auto status = parser.Parse(*function.mutable_node());
  if (!status.IsOK()) refuse(op, "its " + what + " cannot be read: " + status.ErrorMessage());
  if (!parser.EndOfInput()) {
    refuse(op, "its " + what + " cannot be read: text follows the last statement");
  }
  if (function.node_size() == 0) refuse(op, "its " + what + " has no statements");
  function.set_domain(op.domain);
  function.set_name(op.name);
  std::set<std::string> made;
  for (const std::string& name : inputs) {
    function.add_input(name);
    if (!made.insert(name).second) refuse(op, fmt::format("its {} has two '{}'", what, name));
  }
  std::set<std::string> domains;
  for (const auto& node : function.node()) {
    domains.insert(std::string(normal_domain(node.domain())));
    for (const auto& name : node.input()) {
      if (!name.empty() && !made.contains(name)) {
        refuse(op, fmt::format("its {} reads '{}', which nothing before it makes", what, name));
      }
    }
    made.insert(node.output().begin(), node.output().end());
  }
  for (const OpAttribute& a : op.attributes) function.add_attribute(a.name);
  const auto& known = onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map();
  for (const std::string& domain : domains) {
    auto* import = function.add_opset_import();
    import->set_domain(domain);
    const auto range = known.find(domain);
    std::int64_t version = range == known.end() ? 1 : range->second.second;
    if (domain.empty()) version = kOnnxOpset;
    if (domain == op.domain) version = op.opset_version;
    import->set_version(version);
  }
  return function;
}

bool makes(const onnx::FunctionProto& function, const std::string& name) {
  return std::any_of(function.node().begin(), function.node().end(), [&](const auto& node) {
    return std::find(node.output().begin(), node.output().end(), name) != node.output().end();
  });
}

onnx::FunctionProto parse_body(const OpDefinition& op, const std::string& statements) {
  std::vector<std::string> inputs;
  for (const OpParameter& p : op.inputs) inputs.push_back(p.name);
  onnx::FunctionProto function = parse_statements(op, "body", statements, inputs);
  for (const OpParameter& p : op.outputs) {
    if (!makes(function, p.name)) refuse(op, fmt::format("its body does not make '{}'", p.name));
    function.add_output(p.name);
  }
  return function;
}

// From inputs, outputs and gradients of outputs to the gradients of those inputs that have one.
void set_gradient(RegisteredOp& entry) {
  const OpDefinition& op = entry.definition;
  std::vector<std::string> inputs;
  for (const OpParameter& p : op.inputs) inputs.push_back(p.name);
  for (const OpParameter& p : op.outputs) inputs.push_back(p.name);
  for (const OpParameter& p : op.outputs) inputs.push_back(gradient_name(p));
  onnx::FunctionProto function = parse_statements(op, "gradient", op.gradient, inputs);
  for (const OpParameter& p : op.inputs) {
    entry.differentiable.push_back(makes(function, gradient_name(p)));
    if (entry.differentiable.back()) function.add_output(gradient_name(p));
  }
  if (function.output_size() == 0) {
    refuse(op, fmt::format("its gradient makes none of its inputs' ('{}' …)",
                           op.inputs.empty() ? "d_x" : gradient_name(op.inputs[0])));
  }
  entry.gradient = function.SerializeAsString();
}

std::string type_string(DType dtype) {
  onnx::TypeProto proto;
  type_to_proto(Type::tensor(dtype), &proto);
  const NoForkScope scope;  // the library's table of types has a lock
  return *onnx::Utils::DataTypeUtils::ToType(proto);
}

// A formal parameter, with a type variable of its own.
template <typename Add>
void add_parameter(onnx::OpSchema& schema, const OpParameter& p, const std::string& variable,
                   Add&& add) {
  auto option = onnx::OpSchema::Single;
  if (p.optional) option = onnx::OpSchema::Optional;
  if (p.variadic) option = onnx::OpSchema::Variadic;
  std::vector<std::string> types;
  for (const DType dtype : p.dtypes) types.push_back(type_string(dtype));
  if (types.empty()) types = onnx::OpSchema::all_tensor_types_ir13();
  schema.TypeConstraint(variable, std::move(types), "");
  add(variable, option);
}

Attributes complete_attributes(const OpDefinition& op, onnx::InferenceContext& context) {
  Attributes attributes;
  for (const OpAttribute& a : op.attributes) {
    const onnx::AttributeProto* given = context.getAttribute(a.name);
    attributes[a.name] =
        given == nullptr ? a.value : attribute_from_proto(*given, {}, "attribute '" + a.name + "'");
  }
  return attributes;
}

// The shape function as the ONNX library calls it.
void infer(const OpDefinition& op, onnx::InferenceContext& context) {
  const Attributes attributes = complete_attributes(op, context);
  OpCall call{attributes};
  std::vector<Tensor> values(context.getNumInputs());
  for (std::size_t i = 0; i < context.getNumInputs(); ++i) {
    const onnx::TypeProto* type = context.getInputType(i);
    const std::string what = fmt::format("input {}", i);
    call.input_types.push_back(type == nullptr ? Type() : type_from_proto(*type, what));
    const onnx::TensorProto* value = context.getInputData(i);
    if (value != nullptr) values[i] = tensor_from_proto(*value, {}, what);
    call.constants.push_back(value == nullptr ? nullptr : &values[i]);
  }
  std::vector<Type> types;
  if (op.infer) {
    try {
      types = op.infer(call);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {  // whatever it is, the caller adds the node to it
      throw Error(ErrorCode::kInvalidModel, error.what());
    }
  } else {
    const Type first = call.input_types.empty() ? Type() : call.input_types[0];
    types.assign(context.getNumOutputs(), first);
  }
  const bool variadic = !op.outputs.empty() && op.outputs.back().variadic;
  const std::size_t most = variadic || !op.infer ? types.size() : op.outputs.size();
  if (types.size() < context.getNumOutputs() || types.size() > most) {
    throw Error(ErrorCode::kInvalidModel,
                fmt::format("the op's shape function gave {} types, the node has {} outputs",
                            types.size(), context.getNumOutputs()));
  }
  for (std::size_t i = 0; i < context.getNumOutputs(); ++i) {
    type_to_proto(types[i], context.getOutputType(i));
  }
}

onnx::OpSchema schema_for(const OpDefinition& op, const RegisteredOp& entry) {
  onnx::OpSchema schema;
  schema.SetName(op.name).SetDomain(op.domain).SinceVersion(static_cast<int>(op.opset_version));
  schema.SetLocation("op of a user", 0);
  int position = 0;
  for (const OpParameter& p : op.inputs) {
    add_parameter(schema, p, "T_" + p.name, [&](const std::string& variable, auto option) {
      schema.Input(position++, p.name, "", variable, option, /*is_homogeneous=*/false);
    });
  }
  position = 0;
  for (const OpParameter& p : op.outputs) {
    add_parameter(schema, p, "T_" + p.name, [&](const std::string& variable, auto option) {
      schema.Output(position++, p.name, "", variable, option, /*is_homogeneous=*/false);
    });
  }
  for (const OpAttribute& a : op.attributes) {
    onnx::AttributeProto value;
    attribute_to_proto(a.name, a.value, {}, {}, &value);
    if (a.required) {
      schema.Attr(onnx::OpSchema::Attribute(a.name, "", value.type(), true));
    } else {
      schema.Attr(onnx::OpSchema::Attribute(a.name, "", std::move(value)));
    }
  }
  schema.SetNodeDeterminism(op.deterministic ? onnx::OpSchema::NodeDeterminism::Deterministic
                                             : onnx::OpSchema::NodeDeterminism::NonDeterministic);
  // An op without a shape function is inferred through its body, if it has one.
  if (op.infer || op.body.empty()) {
    schema.TypeAndShapeInferenceFunction(
        [definition = &entry.definition](onnx::InferenceContext& context) {
          infer(*definition, context);
        });
  }
  if (!op.body.empty()) {
    const onnx::FunctionProto function = parse_body(op, op.body);
    schema.FunctionBody({function.node().begin(), function.node().end()},
                        {function.opset_import().begin(), function.opset_import().end()});
  }
  return schema;
}

void widen_domain(const std::string& domain, std::int64_t version) {
  auto& ranges = onnx::OpSchemaRegistry::DomainToVersionRange::Instance();
  const auto found = ranges.Map().find(domain);
  const int wanted = static_cast<int>(version);
  if (found == ranges.Map().end()) {
    ranges.AddDomainToVersion(domain, 1, wanted);
  } else if (found->second.second < wanted) {
    ranges.UpdateDomainToVersion(domain, found->second.first, wanted);
  }
}

std::string key_of(const OpDefinition& op) {
  Hasher hasher;
  hasher.add(op.opset_version).add(op.revision).add(op.body).add(op.gradient);
  hasher.add(static_cast<std::int64_t>(op.deterministic));
  for (const OpAttribute& a : op.attributes) {
    onnx::AttributeProto value;  // what nodes have that leave it out
    attribute_to_proto(a.name, a.value, {}, {}, &value);
    hasher.add(a.name).add(value.SerializeAsString());
  }
  for (const auto& [engine, statements] : op.lowerings) hasher.add(engine).add(statements);
  for (const auto& [engine, maker] : op.code) hasher.add(engine);
  return hasher.digest().hex();
}

const RegisteredOp* find_locked(std::string_view domain, std::string_view name,
                                std::int64_t opset_version) {
  const auto found = table().ops.find(std::pair(std::string(domain), std::string(name)));
  if (found == table().ops.end()) return nullptr;
  const Versions& versions = found->second;
  auto after = opset_version == 0 ? versions.end() : versions.upper_bound(opset_version);
  return after == versions.begin() ? nullptr : std::prev(after)->second.get();
}

}  // namespace

OpRun::~OpRun() = default;
OpRegistry::~OpRegistry() = default;

void register_op(OpDefinition definition) {
  check(definition);
  auto entry = std::make_unique<RegisteredOp>();
  entry->definition = std::move(definition);
  const OpDefinition& op = entry->definition;
  for (const auto& [engine, statements] : op.lowerings) {
    entry->lowerings[engine] = parse_body(op, statements).SerializeAsString();
  }
  if (!op.gradient.empty()) set_gradient(*entry);
  entry->key = key_of(op);
  const std::unique_lock lock(table().mutex);
  Versions& versions = table().ops[{op.domain, op.name}];
  if (versions.contains(op.opset_version)) {
    refuse(op, fmt::format("opset version {} of it is registered already", op.opset_version));
  }
  widen_domain(op.domain, op.opset_version);
  try {
    onnx::RegisterSchema(schema_for(op, *entry), 0, /*fail_duplicate_schema=*/true,
                         /*fail_with_exception=*/true);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    refuse(op, error.what());
  }
  versions.emplace(op.opset_version, std::move(entry));
}

void register_lowering(std::string_view domain, std::string_view name, std::string_view engine,
                       std::string_view statements) {
  const std::unique_lock lock(table().mutex);
  const auto found = table().ops.find(std::pair(std::string(domain), std::string(name)));
  if (found == table().ops.end() || found->second.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("there is no op '{}.{}' to lower", domain, name));
  }
  RegisteredOp& entry = *found->second.rbegin()->second;
  if (entry.definition.lowerings.contains(std::string(engine))) {
    refuse(entry.definition, fmt::format("it has a lowering for '{}' already", engine));
  }
  const std::string text(statements);
  entry.lowerings[std::string(engine)] = parse_body(entry.definition, text).SerializeAsString();
  entry.definition.lowerings[std::string(engine)] = text;
  entry.key = key_of(entry.definition);
}

bool has_gradient(std::string_view domain, std::string_view name) {
  const std::shared_lock lock(table().mutex);
  const RegisteredOp* found = find_locked(domain, name, 0);
  return found != nullptr && !found->definition.gradient.empty();
}

const RegisteredOp* registered_op(const Graph& graph, const Node& node) {
  if (is_reserved(node.domain)) return nullptr;
  const auto import = graph.opsets().find(node.domain);
  const std::shared_lock lock(table().mutex);
  return find_locked(node.domain, node.op, import == graph.opsets().end() ? 0 : import->second);
}

std::optional<std::string> engine_code(const Graph& graph, const Node& node,
                                       const std::string& engine) {
  const RegisteredOp* op = registered_op(graph, node);
  if (op == nullptr) return std::nullopt;
  const auto maker = op->definition.code.find(engine);
  if (maker == op->definition.code.end()) return std::nullopt;
  const Attributes attributes = complete_attributes(op->definition, node);
  OpCall call{attributes};
  for (const ValueId input : node.inputs) {
    call.input_types.push_back(input.valid() ? graph.type(input) : Type());
    call.constants.push_back(input.valid() ? graph.constant(input) : nullptr);
  }
  try {
    return maker->second(call);
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kEngine, fmt::format("op '{}': its code for '{}' cannot be made: {}",
                                                qualified(op->definition), engine, error.what()));
  }
}

DomainMeaning meaning_of(std::string_view domain) {
  const std::shared_lock lock(table().mutex);
  DomainMeaning meaning;
  Hasher hasher;
  bool any = false;
  for (const auto& [name, versions] : table().ops) {
    if (name.first != domain) continue;
    for (const auto& [opset, op] : versions) {
      any = true;
      hasher.add(name.second).add(op->key);
      if (op->definition.revision.empty()) meaning.unversioned = qualified(op->definition);
    }
  }
  if (any) meaning.digest = hasher.digest().hex();
  return meaning;
}

Attributes complete_attributes(const OpDefinition& op, const Node& node) {
  Attributes attributes = node.attributes;
  for (const OpAttribute& a : op.attributes) attributes.try_emplace(a.name, a.value);
  return attributes;
}

std::vector<std::string> registered_ops() {
  const std::shared_lock lock(table().mutex);
  std::vector<std::string> names;
  for (const auto& [key, versions] : table().ops) {
    if (!versions.empty()) names.push_back(key.first + "." + key.second);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace xrt
