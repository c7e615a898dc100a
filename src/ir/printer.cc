// SPDX-License-Identifier: Apache-2.0
#include "ir/printer.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <string_view>

#include "base/hash.h"
#include "ir/text.h"
#include "ir/type_text.h"

namespace xrt {
namespace {

// Elements that are written as numbers.
constexpr std::int64_t kMaxNumbers = 32;

std::string float_text(float v) {
  if (!std::isfinite(v)) return fmt::format("bits({:08x})", std::bit_cast<std::uint32_t>(v));
  return fmt::format("{}", v);
}

class Printer {
 public:
  explicit Printer(const PrintOptions& options) : options_(options) {}

  // `outer`: the graph around a sub-graph, whose values its captures name.
  void graph(const Graph& g, const Graph* outer, int indent);
  std::string take() { return std::move(out_); }

 private:
  void line(int indent, std::string_view content) {
    out_.append(static_cast<std::size_t>(indent) * 2, ' ');
    out_ += content;
    out_ += '\n';
  }
  static std::string value(const Graph& g, ValueId v) {
    return v.valid() ? "%" + text::word(g.value(v).name) : "_";
  }
  static std::string typed(const Graph& g, ValueId v) {
    return v.valid() ? value(g, v) + ": " + print(g.type(v)) : "_";
  }
  std::string elements(const Tensor& t) const;
  std::string tensor(const Tensor& t) const {
    return fmt::format("{} {}", print(Type::tensor(t.dtype(), t.dims())), elements(t));
  }
  void node(const Graph& g, NodeId id, int indent);
  void attribute(const Graph& g, const Attribute& a, int indent);

  template <typename List, typename Item>
  void list(const char* kind, const List& items, Item item) {
    out_ += kind;
    out_ += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += ", ";
      item(items[i]);
    }
    out_ += ']';
  }

  const PrintOptions& options_;
  std::string out_;
};

template <typename T, typename Format>
std::string numbers(const Tensor& t, Format format) {
  std::string out = "{";
  for (std::int64_t i = 0; i < t.count(); ++i) {
    if (i > 0) out += ", ";
    out += format(t.data<T>()[i]);
  }
  return out + "}";
}

template <typename T>
bool all_finite(const Tensor& t) {
  for (std::int64_t i = 0; i < t.count(); ++i) {
    if (!std::isfinite(t.data<T>()[i])) return false;
  }
  return true;
}

std::string Printer::elements(const Tensor& t) const {
  if (t.dtype() == DType::kString) {
    std::string out = "{";
    for (std::int64_t i = 0; i < t.count(); ++i) {
      if (i > 0) out += ", ";
      out += text::quote(t.strings()[i]);
    }
    return out + "}";
  }
  if (t.bytes() > options_.digest_above) {
    return fmt::format("digest\"{}\"", hash_bytes(t.raw(), t.bytes()).hex());
  }
  if (t.count() <= kMaxNumbers) {
    if (t.dtype() == DType::kFloat32 && all_finite<float>(t)) {
      return numbers<float>(t, [](float v) { return fmt::format("{}", v); });
    }
    if (t.dtype() == DType::kFloat64 && all_finite<double>(t)) {
      return numbers<double>(t, [](double v) { return fmt::format("{}", v); });
    }
    if (t.dtype() == DType::kInt64) {
      return numbers<std::int64_t>(t, [](std::int64_t v) { return std::to_string(v); });
    }
    if (t.dtype() == DType::kInt32) {
      return numbers<std::int32_t>(t, [](std::int32_t v) { return std::to_string(v); });
    }
  }
  const std::string_view bytes(t.data<char>(), t.bytes());
  if (bytes.size() <= 64) return "hex\"" + text::to_hex(bytes) + "\"";
  return "base64\"" + text::to_base64(bytes) + "\"";
}

void Printer::attribute(const Graph& g, const Attribute& a, int indent) {
  const auto add = [this](const std::string& s) { out_ += s; };
  if (const auto* i = std::get_if<std::int64_t>(&a)) {
    add(std::to_string(*i));
  } else if (const auto* f = std::get_if<float>(&a)) {
    add(float_text(*f) + "f");
  } else if (const auto* s = std::get_if<std::string>(&a)) {
    add(text::quote(*s));
  } else if (const auto* t = std::get_if<Tensor>(&a)) {
    add("tensor " + tensor(*t));
  } else if (const auto* type = std::get_if<Type>(&a)) {
    add("type " + print(*type));
  } else if (const auto* body = std::get_if<std::shared_ptr<Graph>>(&a)) {
    graph(**body, &g, indent + 1);
  } else if (const auto* ints = std::get_if<std::vector<std::int64_t>>(&a)) {
    list("ints", *ints, [&](std::int64_t v) { add(std::to_string(v)); });
  } else if (const auto* floats = std::get_if<std::vector<float>>(&a)) {
    list("floats", *floats, [&](float v) { add(float_text(v)); });
  } else if (const auto* strings = std::get_if<std::vector<std::string>>(&a)) {
    list("strings", *strings, [&](const std::string& v) { add(text::quote(v)); });
  } else if (const auto* tensors = std::get_if<std::vector<Tensor>>(&a)) {
    list("tensors", *tensors, [&](const Tensor& v) { add(tensor(v)); });
  } else if (const auto* types = std::get_if<std::vector<Type>>(&a)) {
    list("types", *types, [&](const Type& v) { add(print(v)); });
  } else if (const auto* graphs = std::get_if<std::vector<std::shared_ptr<Graph>>>(&a)) {
    list("graphs", *graphs, [&](const std::shared_ptr<Graph>& v) { graph(*v, &g, indent + 1); });
  }
}

void Printer::node(const Graph& g, NodeId id, int indent) {
  const Node& n = g.node(id);
  out_.append(static_cast<std::size_t>(indent) * 2, ' ');
  for (std::size_t i = 0; i < n.outputs.size(); ++i) {
    out_ += (i > 0 ? ", " : "") + typed(g, n.outputs[i]);
  }
  out_ += n.outputs.empty() ? "= " : " = ";
  if (!n.domain.empty()) out_ += text::word(n.domain) + "::";
  out_ += text::word(n.op) + "(";
  for (std::size_t i = 0; i < n.inputs.size(); ++i) {
    out_ += (i > 0 ? ", " : "") + value(g, n.inputs[i]);
  }
  out_ += ")";
  if (!n.attributes.empty()) {
    out_ += " {";
    bool first = true;
    for (const auto& [name, a] : n.attributes) {
      if (!first) out_ += ", ";
      first = false;
      out_ += text::word(name) + " = ";
      attribute(g, a, indent);
    }
    out_ += "}";
  }
  out_ += " @" + text::word(n.name) + "\n";
}

void Printer::graph(const Graph& g, const Graph* outer, int indent) {
  out_ += "graph " + text::word(g.name()) + "(";
  for (std::size_t i = 0; i < g.inputs().size(); ++i) {
    const ValueId v = g.inputs()[i];
    out_ += (i > 0 ? ", " : "") + typed(g, v);
    const auto fallback = g.input_defaults().find(v);
    if (fallback != g.input_defaults().end()) out_ += " = tensor " + tensor(fallback->second);
  }
  out_ += ") -> (";
  for (std::size_t i = 0; i < g.outputs().size(); ++i) {
    out_ += (i > 0 ? ", " : "") + value(g, g.outputs()[i]);
  }
  out_ += ") {\n";
  for (const auto& [domain, version] : g.opsets()) {
    line(indent + 1, fmt::format("opset {} = {}", text::quote(domain), version));
  }
  for (const auto& [key, content] : g.metadata()) {
    line(indent + 1, fmt::format("metadata {} = {}", text::quote(key), text::quote(content)));
  }
  for (const Capture& c : g.captures()) {
    const std::string from =
        outer != nullptr ? value(*outer, c.outer) : "%" + std::to_string(c.outer.index);
    line(indent + 1, fmt::format("capture {} = {}", typed(g, c.inner), from));
  }
  for (const ValueId v : g.constants()) {
    line(indent + 1, fmt::format("constant {} = {}", typed(g, v), elements(*g.constant(v))));
  }
  for (const NodeId id : g.topological_order()) node(g, id, indent + 1);
  out_.append(static_cast<std::size_t>(indent) * 2, ' ');
  out_ += outer != nullptr ? "}" : "}\n";
}

}  // namespace

std::string print(const Graph& graph, const PrintOptions& options) {
  Printer printer(options);
  printer.graph(graph, nullptr, 0);
  return printer.take();
}

std::string print(const Type& type) {
  return type_text(type, [](const std::string& name) { return text::word(name); });
}

}  // namespace xrt
