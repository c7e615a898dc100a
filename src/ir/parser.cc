// SPDX-License-Identifier: Apache-2.0
#include "ir/parser.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/lexer.h"
#include "ir/text.h"
#include "xrt/error.h"

namespace xrt {
namespace {

constexpr int kMaxNesting = 32;  // of graphs, and of types

class Parser {
 public:
  explicit Parser(std::string_view text) : lex_(text) {}

  Graph file() {
    Graph g = graph(nullptr, 0);
    if (!lex_.at_end()) lex_.fail("text after the graph");
    return g;
  }

 private:
  Graph graph(const Graph* outer, int depth);
  void inputs(Graph& g);
  void statement(Graph& g, const Graph* outer, int depth);
  void capture(Graph& g, const Graph* outer);
  void constant(Graph& g);
  void node(Graph& g, int depth);
  Attributes attributes(const Graph& g, int depth);
  Attribute attribute(const Graph& g, int depth);
  Attribute attribute_of_kind(const std::string& kind, const Graph& g, int depth);

  Type type(int depth = 0);
  Shape shape();
  Tensor tensor();
  Tensor elements(const Type& type);
  template <typename T>
  Tensor numbers(const Type& type, const Dims& dims);
  Tensor encoded(const Type& type, const Dims& dims, const std::string& encoding);

  std::string value_name() {
    lex_.expect("%");
    return lex_.name();
  }
  ValueId find(const Graph& g, const std::string& name) {
    const auto v = g.find_value(name);
    if (!v) lex_.fail(fmt::format("no value '{}' is defined before it", name));
    return *v;
  }
  void expect_fresh(const Graph& g, const std::string& name) {
    if (name.empty() || g.find_value(name)) {
      lex_.fail(fmt::format("the value name '{}' is empty or taken", name));
    }
  }
  void guard(int depth) {
    if (depth > kMaxNesting) lex_.fail("nested too deeply");
  }
  float float_number();

  template <typename Item>
  auto list(Item item) {
    std::vector<decltype(item())> items;
    lex_.expect("[");
    if (lex_.accept("]")) return items;
    do {
      items.push_back(item());
    } while (lex_.accept(","));
    lex_.expect("]");
    return items;
  }

  Lexer lex_;
};

Graph Parser::graph(const Graph* outer, int depth) {
  guard(depth);
  lex_.expect_word("graph");
  Graph g(lex_.name());
  inputs(g);
  lex_.expect("->");
  lex_.expect("(");
  std::vector<std::string> outputs;
  if (!lex_.accept(")")) {
    do {
      outputs.push_back(value_name());
    } while (lex_.accept(","));
    lex_.expect(")");
  }
  lex_.expect("{");
  while (!lex_.accept("}")) statement(g, outer, depth);
  for (const std::string& name : outputs) g.add_output(find(g, name));
  return g;
}

void Parser::inputs(Graph& g) {
  lex_.expect("(");
  if (lex_.accept(")")) return;
  do {
    const std::string name = value_name();
    expect_fresh(g, name);
    lex_.expect(":");
    const ValueId id = g.add_input(name, type());
    if (lex_.accept("=")) {
      lex_.expect_word("tensor");
      g.input_defaults()[id] = tensor();
    }
  } while (lex_.accept(","));
  lex_.expect(")");
}

void Parser::statement(Graph& g, const Graph* outer, int depth) {
  if (lex_.accept_word("opset")) {
    const std::string domain = lex_.string();
    lex_.expect("=");
    g.opsets()[domain] = lex_.integer();
  } else if (lex_.accept_word("metadata")) {
    const std::string key = lex_.string();
    lex_.expect("=");
    g.metadata()[key] = lex_.string();
  } else if (lex_.accept_word("capture")) {
    capture(g, outer);
  } else if (lex_.accept_word("constant")) {
    constant(g);
  } else {
    node(g, depth);
  }
}

void Parser::capture(Graph& g, const Graph* outer) {
  if (outer == nullptr) lex_.fail("a capture outside of a sub-graph");
  const std::string name = value_name();
  expect_fresh(g, name);
  lex_.expect(":");
  Type t = type();
  lex_.expect("=");
  const ValueId from = find(*outer, value_name());
  for (const Capture& c : g.captures()) {
    if (c.outer == from) lex_.fail("a value is captured twice");
  }
  g.add_capture(from, name, std::move(t));
}

void Parser::constant(Graph& g) {
  const std::string name = value_name();
  expect_fresh(g, name);
  lex_.expect(":");
  const Type t = type();
  lex_.expect("=");
  g.add_constant(name, elements(t));
}

void Parser::node(Graph& g, int depth) {
  std::vector<std::string> names;
  std::vector<Type> types;
  if (!lex_.accept("=")) {
    do {
      types.emplace_back();
      names.emplace_back();
      if (lex_.accept_word("_")) continue;
      names.back() = value_name();
      expect_fresh(g, names.back());
      if (lex_.accept(":")) types.back() = type();
    } while (lex_.accept(","));
    lex_.expect("=");
  }
  std::string domain;
  std::string op = lex_.name();
  if (lex_.accept("::")) {
    domain = std::move(op);
    op = lex_.name();
  }
  std::vector<ValueId> inputs;
  lex_.expect("(");
  if (!lex_.accept(")")) {
    do {
      inputs.push_back(lex_.accept_word("_") ? ValueId{} : find(g, value_name()));
    } while (lex_.accept(","));
    lex_.expect(")");
  }
  Attributes given;
  if (lex_.accept("{")) given = attributes(g, depth);
  std::string name;
  if (lex_.accept("@")) {
    name = lex_.name();
    if (g.find_node(name)) lex_.fail(fmt::format("the node name '{}' is taken", name));
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (std::size_t k = i + 1; k < names.size(); ++k) {
      if (!names[i].empty() && names[i] == names[k]) lex_.fail("two outputs of one name");
    }
  }
  const NodeId id = g.add_node(domain, op, std::move(inputs), names, std::move(given), name,
                               /*omit_empty=*/true);
  for (std::size_t i = 0; i < types.size(); ++i) {
    const ValueId v = g.node(id).outputs[i];
    if (v.valid()) g.set_type(v, std::move(types[i]));
  }
}

Attributes Parser::attributes(const Graph& g, int depth) {
  Attributes result;
  do {
    const std::string name = lex_.name();
    lex_.expect("=");
    if (!result.emplace(name, attribute(g, depth)).second) {
      lex_.fail(fmt::format("attribute '{}' is given twice", name));
    }
  } while (lex_.accept(","));
  lex_.expect("}");
  return result;
}

Attribute Parser::attribute(const Graph& g, int depth) {
  if (lex_.at_string()) return lex_.string();
  if (lex_.at_word("graph")) return std::make_shared<Graph>(graph(&g, depth + 1));
  if (lex_.at_word("bits")) {
    const float value = float_number();
    lex_.expect("f");
    return value;
  }
  if (lex_.at_number()) {
    const std::string number = lex_.number();
    if (lex_.accept("f")) return lex_.to_float<float>(number);
    return lex_.to_integer<std::int64_t>(number);
  }
  return attribute_of_kind(lex_.name(), g, depth);
}

Attribute Parser::attribute_of_kind(const std::string& kind, const Graph& g, int depth) {
  if (kind == "tensor") return tensor();
  if (kind == "type") return type();
  if (kind == "ints") return list([&] { return lex_.integer(); });
  if (kind == "floats") return list([&] { return float_number(); });
  if (kind == "strings") return list([&] { return lex_.string(); });
  if (kind == "tensors") return list([&] { return tensor(); });
  if (kind == "types") return list([&] { return type(); });
  if (kind == "graphs") {
    return list([&] { return std::make_shared<Graph>(graph(&g, depth + 1)); });
  }
  lex_.fail(fmt::format("unknown kind of attribute '{}'", kind));
}

float Parser::float_number() {
  if (!lex_.accept_word("bits")) return lex_.to_float<float>(lex_.number());
  lex_.expect("(");
  const std::string digits = lex_.raw_until(')');
  std::uint32_t bits = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
  if (error != std::errc() || end != digits.data() + digits.size()) lex_.fail("malformed bits()");
  return std::bit_cast<float>(bits);
}

Type Parser::type(int depth) {
  guard(depth);
  const std::string word = lex_.name();
  Type t;
  if (word == "seq" || word == "optional" || word == "map") {
    lex_.expect("(");
    if (word == "map") {
      const auto key = parse_dtype(lex_.name());
      if (!key) lex_.fail("unknown element type of a map's key");
      t.kind = Type::Kind::kMap;
      t.dtype = *key;
      lex_.expect(",");
    } else {
      t.kind = word == "seq" ? Type::Kind::kSequence : Type::Kind::kOptional;
    }
    if (!lex_.accept("?")) t.element = std::make_shared<const Type>(type(depth + 1));
    lex_.expect(")");
    return t;
  }
  std::string dtype = word;
  if (word == "sparse") {
    t.kind = Type::Kind::kSparseTensor;
    dtype = lex_.name();
  }
  const auto parsed = dtype == "undefined" ? DType::kUndefined : parse_dtype(dtype);
  if (!parsed) lex_.fail(fmt::format("unknown element type '{}'", dtype));
  t.dtype = *parsed;
  lex_.expect("[");
  if (lex_.accept("*")) {
    lex_.expect("]");
  } else {
    t.shape = shape();
  }
  return t;
}

Shape Parser::shape() {
  Shape shape;
  if (lex_.accept("]")) return shape;
  do {
    if (lex_.accept("?")) {
      shape.emplace_back();
    } else if (lex_.at_number()) {
      const std::int64_t value = lex_.integer();
      if (value < 0) lex_.fail("a negative dimension");
      shape.emplace_back(value);
    } else {
      shape.emplace_back(lex_.name());
    }
  } while (lex_.accept(","));
  lex_.expect("]");
  return shape;
}

Tensor Parser::tensor() {
  const Type t = type();
  return elements(t);
}

Tensor Parser::elements(const Type& t) {
  const auto dims = t.static_dims();
  if (!t.is_tensor() || !dims || t.dtype == DType::kUndefined) {
    lex_.fail("elements need a tensor type whose dimensions are numbers");
  }
  if (!lex_.at("{")) return encoded(t, *dims, lex_.name());
  switch (t.dtype) {
    case DType::kFloat32:
      return numbers<float>(t, *dims);
    case DType::kFloat64:
      return numbers<double>(t, *dims);
    case DType::kInt64:
      return numbers<std::int64_t>(t, *dims);
    case DType::kInt32:
      return numbers<std::int32_t>(t, *dims);
    case DType::kString: {
      std::vector<std::string> strings;
      lex_.expect("{");
      if (!lex_.accept("}")) {
        do {
          strings.push_back(lex_.string());
        } while (lex_.accept(","));
        lex_.expect("}");
      }
      return lex_.checked([&] { return Tensor::from_strings(*dims, std::move(strings)); });
    }
    default:
      lex_.fail(fmt::format("elements of {} are written as hex or base64", to_string(t.dtype)));
  }
}

template <typename T>
Tensor Parser::numbers(const Type& t, const Dims& dims) {
  std::vector<T> values;
  lex_.expect("{");
  if (!lex_.accept("}")) {
    do {
      const std::string number = lex_.number();
      if constexpr (std::is_floating_point_v<T>) {
        values.push_back(lex_.to_float<T>(number));
      } else {
        values.push_back(lex_.to_integer<T>(number));
      }
    } while (lex_.accept(","));
    lex_.expect("}");
  }
  return lex_.checked([&] {
    if (element_count(dims) != static_cast<std::int64_t>(values.size())) {
      lex_.fail(fmt::format("{} elements for the shape {}", values.size(), to_string(dims)));
    }
    return Tensor::from<T>(t.dtype, dims, std::span<const T>(values));
  });
}

Tensor Parser::encoded(const Type& t, const Dims& dims, const std::string& encoding) {
  const std::string content = lex_.string();
  if (encoding == "digest") {
    lex_.fail("the elements were printed as a digest only: print the graph with exact()");
  }
  if (t.dtype == DType::kString) lex_.fail("strings are written in braces");
  std::optional<std::string> bytes;
  if (encoding == "hex") bytes = text::from_hex(content);
  if (encoding == "base64") bytes = text::from_base64(content);
  if (!bytes) lex_.fail(fmt::format("malformed {}\"…\"", encoding));
  return lex_.checked([&] {
    if (byte_count(t.dtype, dims) != bytes->size()) {
      lex_.fail(fmt::format("{} bytes for {}", bytes->size(), to_string(t)));
    }
    Tensor tensor = Tensor::allocate(t.dtype, dims);
    if (!bytes->empty()) std::memcpy(tensor.raw(), bytes->data(), bytes->size());
    return tensor;
  });
}

}  // namespace

Graph parse_graph(std::string_view text) { return Parser(text).file(); }

}  // namespace xrt
