// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "frontends/oneflow/mlir.h"
#include "frontends/oneflow/mlir_lexer.h"
#include "xrt/error.h"

namespace xrt::oneflow {
namespace {

constexpr int kMaxNesting = 64;
// A splat is written out; it is used for segment sizes and small shapes only.
constexpr std::int64_t kMaxSplat = 65536;
constexpr std::int64_t kMaxResults = 65536;

// OneFlow writes its bool as si8.

std::optional<DType> element_type(std::string_view name) {
  static const std::pair<std::string_view, DType> kTypes[] = {
      {"f32", DType::kFloat32},   {"f64", DType::kFloat64}, {"f16", DType::kFloat16},
      {"bf16", DType::kBFloat16}, {"i1", DType::kBool},     {"i8", DType::kInt8},
      {"si8", DType::kBool},      {"ui8", DType::kUInt8},   {"i16", DType::kInt16},
      {"si16", DType::kInt16},    {"ui16", DType::kUInt16}, {"i32", DType::kInt32},
      {"si32", DType::kInt32},    {"ui32", DType::kUInt32}, {"i64", DType::kInt64},
      {"si64", DType::kInt64},    {"ui64", DType::kUInt64}, {"index", DType::kInt64},
  };
  for (const auto& [text, dtype] : kTypes) {
    if (text == name) return dtype;
  }
  return std::nullopt;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text) {}

  Job parse() {
    while (!lexer_.at_end()) top_level(0);
    if (!found_) lexer_.fail("the text holds no oneflow.job");
    return std::move(job_);
  }

 private:
  // Bounds recursion.
  struct Level {
    explicit Level(Parser& parser) : depth(parser.depth_) {
      if (++depth > kMaxNesting) parser.lexer_.fail("this is nested too deep");
    }
    ~Level() { --depth; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    int& depth;
  };

  // --- modules and jobs -----------------------------------------------------------------------

  void top_level(int modules) {
    if (lexer_.at("#") || lexer_.at("!")) return alias();
    if (lexer_.accept_word("module") || lexer_.accept_word("builtin.module")) {
      if (lexer_.accept("@")) lexer_.suffix_id("the module's name");
      if (lexer_.accept_word("attributes")) skip_dictionary();
      lexer_.expect("{");
      if (modules > 4) lexer_.fail("modules are nested too deep");
      while (!lexer_.accept("}")) {
        if (lexer_.at_end()) lexer_.fail("the module has no end: '}' is wanted");
        top_level(modules + 1);
      }
      return location();
    }
    if (lexer_.peek_word() == "oneflow.job") {
      begin_job();
      lexer_.accept_word("oneflow.job");
      return custom_job();
    }
    if (lexer_.at("\"")) {
      const std::string name = lexer_.string();
      if (name == "oneflow.job") {
        begin_job();
        return generic_job();
      }
      if (name == "builtin.module") return generic_module(modules);
      lexer_.fail(fmt::format("'{}' stands where a oneflow.job is wanted", name));
    }
    lexer_.fail("a module or a oneflow.job is wanted");
  }

  void alias() {
    lexer_.expect(lexer_.at("#") ? "#" : "!");
    lexer_.suffix_id("the alias's name");
    lexer_.expect("=");
    if (lexer_.at("!") || lexer_.at("(")) {
      type();
    } else {
      attribute();
    }
  }

  void begin_job() {
    if (found_) lexer_.fail("there is a second oneflow.job; a model has one");
    found_ = true;
  }

  void generic_module(int modules) {
    if (modules > 4) lexer_.fail("modules are nested too deep");
    lexer_.expect("(");
    lexer_.expect(")");
    if (lexer_.accept("<")) lexer_.fail("properties of a module are not known");
    lexer_.expect("(");
    lexer_.expect("{");
    if (lexer_.accept("^")) {
      lexer_.suffix_id("the block's name");
      lexer_.expect(":");
    }
    while (!lexer_.accept("}")) {
      if (lexer_.at_end()) lexer_.fail("the module has no end: '}' is wanted");
      top_level(modules + 1);
    }
    lexer_.expect(")");
    if (lexer_.at("{")) skip_dictionary();
    lexer_.expect(":");
    type();
    location();
  }

  void custom_job() {
    for (const char* visibility : {"public", "private", "nested"}) lexer_.accept_word(visibility);
    lexer_.expect("@");
    job_.name = lexer_.suffix_id("the job's name");
    lexer_.expect("(");
    arguments(")");
    const Place place = lexer_.place();
    std::vector<Type> declared;
    if (lexer_.accept("->")) declared = type_list_or_type();
    if (lexer_.accept_word("attributes")) skip_dictionary();
    lexer_.expect("{");
    body();
    check_returned(place, declared);
    location();
  }

  void generic_job() {
    lexer_.expect("(");
    lexer_.expect(")");
    std::map<std::string, Attribute, std::less<>> attributes;
    if (lexer_.accept("<")) {
      attributes = dictionary();
      lexer_.expect(">");
    }
    lexer_.expect("(");
    lexer_.expect("{");
    if (lexer_.accept("^")) {
      lexer_.suffix_id("the block's name");
      if (lexer_.accept("(")) arguments(")");
      lexer_.expect(":");
    }
    body();
    lexer_.expect(")");
    if (lexer_.at("{")) {
      for (auto& entry : dictionary()) attributes.insert(std::move(entry));
    }
    if (const auto name = attributes.find("sym_name"); name != attributes.end()) {
      if (const auto* text = std::get_if<std::string>(&name->second.value)) job_.name = *text;
    }
    lexer_.expect(":");
    type();
    location();
  }

  // "%a: type, …" up to and with `end`.
  void arguments(std::string_view end) {
    if (lexer_.accept(end)) return;
    do {
      lexer_.expect("%");
      const Place place = lexer_.place();
      const std::string name = lexer_.suffix_id("the argument's name");
      lexer_.expect(":");
      Type declared = type();
      if (lexer_.at("{")) skip_dictionary();
      location();
      job_.arguments.push_back(define(place, name, 1).front());
      job_.values[static_cast<std::size_t>(job_.arguments.back())] = std::move(declared);
    } while (lexer_.accept(","));
    lexer_.expect(end);
  }

  // Operations up to and with "}".
  void body() {
    while (!lexer_.accept("}")) {
      if (lexer_.at_end()) lexer_.fail("the job has no end: '}' is wanted");
      if (returned_) lexer_.fail("an operation follows oneflow.return");
      operation();
    }
    if (!returned_) lexer_.fail("the job does not end with oneflow.return");
  }

  // --- operations -----------------------------------------------------------------------------

  struct Pack {
    Place place;
    std::string name;
    std::int64_t count = 1;
  };

  void operation() {
    std::vector<Pack> packs;
    if (lexer_.at("%")) {
      do {
        lexer_.expect("%");
        Pack pack;
        pack.place = lexer_.place();
        pack.name = lexer_.suffix_id("a value's name");
        if (lexer_.accept(":")) pack.count = lexer_.integer();
        if (pack.count < 1 || pack.count > kMaxResults) {
          MlirLexer::fail_at(
              pack.place, fmt::format("'%{}' cannot stand for {} values", pack.name, pack.count));
        }
        packs.push_back(std::move(pack));
      } while (lexer_.accept(","));
      lexer_.expect("=");
    }
    Operation op;
    op.place = lexer_.place();
    if (!lexer_.at("\"")) {
      if (packs.empty() && (lexer_.accept_word("oneflow.return") || lexer_.accept_word("return"))) {
        return return_values();
      }
      lexer_.fail("an operation in generic form is wanted: \"dialect.op\"(…)");
    }
    op.name = lexer_.string();
    lexer_.expect("(");
    op.operands = uses(")");
    if (lexer_.at("["))
      lexer_.fail(fmt::format("'{}' has successors: control flow is not read", op.name));
    if (lexer_.accept("<")) {
      op.attributes = dictionary();
      lexer_.expect(">");
    }
    if (lexer_.at("("))
      lexer_.fail(fmt::format("'{}' has a region: regions are not read", op.name));
    if (lexer_.at("{")) {
      for (auto& [key, value] : dictionary()) {
        if (!op.attributes.emplace(key, std::move(value)).second) {
          MlirLexer::fail_at(op.place,
                             fmt::format("'{}': attribute '{}' is given twice", op.name, key));
        }
      }
    }
    lexer_.expect(":");
    lexer_.expect("(");
    std::vector<Type> operand_types;
    if (!lexer_.accept(")")) {
      do {
        operand_types.push_back(type());
      } while (lexer_.accept(","));
      lexer_.expect(")");
    }
    check_uses(op, operand_types);
    lexer_.expect("->");
    std::vector<Type> result_types = type_list_or_type();
    location();
    if (op.name == "oneflow.return") {
      job_.returned = std::move(op.operands);
      returned_ = true;
      return;
    }
    define_results(op, packs, std::move(result_types));
    job_.operations.push_back(std::move(op));
  }

  void define_results(Operation& op, const std::vector<Pack>& packs, std::vector<Type> types) {
    std::int64_t named = 0;
    for (const Pack& pack : packs) named += pack.count;
    // A generic operation may leave its results without names.
    if (!packs.empty() && named != static_cast<std::int64_t>(types.size())) {
      MlirLexer::fail_at(op.place, fmt::format("'{}': {} results are named, {} types are given",
                                               op.name, named, types.size()));
    }
    if (packs.empty()) {
      for (Type& t : types) {
        op.results.push_back(static_cast<std::int32_t>(job_.values.size()));
        job_.values.push_back(std::move(t));
      }
      return;
    }
    for (const Pack& pack : packs) {
      const auto ids = define(pack.place, pack.name, pack.count);
      op.results.insert(op.results.end(), ids.begin(), ids.end());
    }
    for (std::size_t i = 0; i < types.size(); ++i) {
      job_.values[static_cast<std::size_t>(op.results[i])] = std::move(types[i]);
    }
  }

  void return_values() {
    const Place place = lexer_.place();
    Operation op;
    op.place = place;
    op.name = "oneflow.return";
    std::vector<Type> types;
    if (lexer_.at("%")) {
      do {
        op.operands.push_back(use());
      } while (lexer_.accept(","));
      lexer_.expect(":");
      do {
        types.push_back(type());
      } while (lexer_.accept(","));
    }
    check_uses(op, types);
    location();
    job_.returned = std::move(op.operands);
    returned_ = true;
  }

  std::vector<std::int32_t> define(const Place& place, const std::string& name,
                                   std::int64_t count) {
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < count; ++i) {
      ids.push_back(static_cast<std::int32_t>(job_.values.size()));
      job_.values.emplace_back();
    }
    if (!names_.emplace(name, ids).second) {
      MlirLexer::fail_at(place, fmt::format("'%{}' is defined twice", name));
    }
    return ids;
  }

  std::int32_t use() {
    const Place place = lexer_.place();
    lexer_.expect("%");
    const std::string name = lexer_.suffix_id("a value's name");
    std::int64_t index = 0;
    if (lexer_.accept("#")) index = lexer_.integer();
    const auto found = names_.find(name);
    if (found == names_.end()) {
      MlirLexer::fail_at(place, fmt::format("'%{}' is used before it is defined", name));
    }
    if (index < 0 || index >= static_cast<std::int64_t>(found->second.size())) {
      MlirLexer::fail_at(place, fmt::format("'%{}' stands for {} values; there is no #{}", name,
                                            found->second.size(), index));
    }
    return found->second[static_cast<std::size_t>(index)];
  }

  std::vector<std::int32_t> uses(std::string_view end) {
    std::vector<std::int32_t> ids;
    if (lexer_.accept(end)) return ids;
    do {
      ids.push_back(use());
    } while (lexer_.accept(","));
    lexer_.expect(end);
    return ids;
  }

  void check_uses(const Operation& op, const std::vector<Type>& types) const {
    if (types.size() != op.operands.size()) {
      MlirLexer::fail_at(op.place, fmt::format("'{}': {} operands, but {} types", op.name,
                                               op.operands.size(), types.size()));
    }
    for (std::size_t i = 0; i < types.size(); ++i) {
      const Type& defined = job_.values[static_cast<std::size_t>(op.operands[i])];
      if (types[i] == defined) continue;
      MlirLexer::fail_at(op.place,
                         fmt::format("'{}': operand {} is said to be {}, but is {}", op.name, i,
                                     xrt::to_string(types[i]), xrt::to_string(defined)));
    }
  }

  void check_returned(const Place& place, const std::vector<Type>& declared) const {
    if (declared.size() != job_.returned.size()) {
      MlirLexer::fail_at(place, fmt::format("the job is said to give {} results, but returns {}",
                                            declared.size(), job_.returned.size()));
    }
    for (std::size_t i = 0; i < declared.size(); ++i) {
      const Type& returned = job_.values[static_cast<std::size_t>(job_.returned[i])];
      if (declared[i] == returned) continue;
      MlirLexer::fail_at(place, fmt::format("result {} of the job is said to be {}, but is {}", i,
                                            xrt::to_string(declared[i]), xrt::to_string(returned)));
    }
  }

  // --- types ----------------------------------------------------------------------------------

  // A scalar is a tensor of rank 0, a vector one of its shape; what is no tensor has no dtype.
  Type type() {
    const Level level(*this);
    if (lexer_.accept("!")) {
      lexer_.suffix_id("a type's name");
      if (lexer_.at("<")) lexer_.balanced();
      return {};
    }
    if (lexer_.accept("(")) {  // a function's
      if (!lexer_.accept(")")) {
        do {
          type();
        } while (lexer_.accept(","));
        lexer_.expect(")");
      }
      lexer_.expect("->");
      type_list_or_type();
      return {};
    }
    const std::string name = lexer_.word("a type");
    if (name == "tensor" || name == "vector" || name == "memref") return shaped();
    if (name == "none") return {};
    if (name == "tuple" || name == "complex") {
      if (lexer_.at("<")) lexer_.balanced();
      return {};
    }
    const auto dtype = element_type(name);
    if (!dtype) lexer_.fail(fmt::format("'{}' is not a type that is known here", name));
    return Type::tensor(*dtype, Shape{});
  }

  // <2x?xf32> or <*xf32>, with or without an encoding.
  Type shaped() {
    lexer_.expect("<");
    std::vector<std::int64_t> sizes;
    const bool ranked = lexer_.shape_prefix(sizes);
    const Type element = type();
    if (lexer_.accept(",")) attribute();
    lexer_.expect(">");
    if (element.dtype == DType::kUndefined || !element.shape || !element.shape->empty()) {
      lexer_.fail("a tensor of such elements is not known here");
    }
    if (!ranked) return Type::tensor(element.dtype);
    Shape shape;
    for (const std::int64_t size : sizes) shape.push_back(size < 0 ? Dim() : Dim(size));
    return Type::tensor(element.dtype, std::move(shape));
  }

  std::vector<Type> type_list_or_type() {
    std::vector<Type> types;
    if (!lexer_.accept("(")) {
      types.push_back(type());
      return types;
    }
    if (lexer_.accept(")")) return types;
    do {
      types.push_back(type());
    } while (lexer_.accept(","));
    lexer_.expect(")");
    return types;
  }

  void location() {
    if (lexer_.peek_word() != "loc") return;
    lexer_.accept_word("loc");
    if (!lexer_.at("(")) lexer_.fail("'(' is wanted after loc");
    lexer_.balanced();
  }

  // --- attributes -----------------------------------------------------------------------------

  std::map<std::string, Attribute, std::less<>> dictionary() {
    const Level level(*this);
    lexer_.expect("{");
    std::map<std::string, Attribute, std::less<>> entries;
    if (lexer_.accept("}")) return entries;
    do {
      const Place place = lexer_.place();
      std::string key = lexer_.at("\"") ? lexer_.string() : lexer_.word("an attribute's name");
      Attribute value;
      if (lexer_.accept("=")) value = attribute();
      if (!entries.emplace(key, std::move(value)).second) {
        MlirLexer::fail_at(place, fmt::format("attribute '{}' is given twice", key));
      }
    } while (lexer_.accept(","));
    lexer_.expect("}");
    return entries;
  }

  void skip_dictionary() { dictionary(); }

  Attribute attribute() {
    const Level level(*this);
    if (lexer_.at("\"")) {
      std::string text = lexer_.string();
      if (lexer_.accept(":")) type();
      return {std::move(text)};
    }
    if (lexer_.accept("[")) return {list("]")};
    if (lexer_.at("{")) {
      dictionary();
      return {OpaqueText{"{…}"}};
    }
    if (lexer_.at_number()) return number();
    if (lexer_.accept("#")) {
      std::string text = "#" + lexer_.suffix_id("an attribute's name");
      if (lexer_.at("<")) text += lexer_.balanced();
      return {OpaqueText{std::move(text)}};
    }
    if (lexer_.accept("@")) {
      std::string text = "@" + lexer_.suffix_id("a symbol's name");
      while (lexer_.accept("::")) {
        lexer_.expect("@");
        text += "::@" + lexer_.suffix_id("a symbol's name");
      }
      return {OpaqueText{std::move(text)}};
    }
    if (lexer_.accept_word("true")) return {true};
    if (lexer_.accept_word("false")) return {false};
    if (lexer_.accept_word("unit")) return {};
    if (lexer_.accept_word("dense")) return dense();
    if (lexer_.accept_word("array")) return array();
    for (const char* opaque : {"affine_map", "affine_set", "dense_resource", "opaque", "sparse"}) {
      if (!lexer_.accept_word(opaque)) continue;
      if (!lexer_.at("<")) lexer_.fail(fmt::format("'<' is wanted after {}", opaque));
      std::string text = opaque + lexer_.balanced();
      if (lexer_.accept(":")) type();
      return {OpaqueText{std::move(text)}};
    }
    return {OpaqueText{xrt::to_string(type())}};
  }

  AttributeList list(std::string_view end) {
    AttributeList items;
    if (lexer_.accept(end)) return items;
    do {
      items.push_back(attribute());
    } while (lexer_.accept(","));
    lexer_.expect(end);
    return items;
  }

  // 3 : si64, 1.5 : f32, or bits for what has no digits: 0x7F800000 : f32.
  Attribute number() {
    const std::string digits = lexer_.number();
    DType dtype = DType::kUndefined;
    if (lexer_.accept(":")) dtype = type().dtype;
    return number_of(digits, dtype);
  }

  Attribute number_of(const std::string& digits, DType dtype) const {
    if (digits.starts_with("0x") && is_floating(dtype)) {
      const auto bits = static_cast<std::uint64_t>(lexer_.to_integer(digits));
      if (dtype == DType::kFloat64) return {std::bit_cast<double>(bits)};
      if (dtype == DType::kFloat32) {
        return {static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)))};
      }
      lexer_.fail("bits of such a number are not read");
    }
    if (is_floating(dtype) || digits.find_first_of(".eE") != std::string::npos) {
      if (!digits.starts_with("0x")) return {lexer_.to_double(digits)};
    }
    return {lexer_.to_integer(digits)};
  }

  void dense_elements(std::vector<std::string>& elements) {
    const Level level(*this);
    if (lexer_.accept("[")) {
      if (lexer_.accept("]")) return;
      do {
        dense_elements(elements);
      } while (lexer_.accept(","));
      lexer_.expect("]");
    } else if (lexer_.accept_word("true")) {
      elements.emplace_back("1");
    } else if (lexer_.accept_word("false")) {
      elements.emplace_back("0");
    } else {
      elements.push_back(lexer_.number());
    }
  }

  Attribute dense() {
    if (!lexer_.at("<")) lexer_.fail("'<' is wanted after dense");
    const Place place = lexer_.place();
    lexer_.expect("<");
    if (lexer_.at("\"")) {  // all elements as one hexadecimal string
      std::string text = lexer_.string();
      lexer_.expect(">");
      lexer_.expect(":");
      type();
      return {OpaqueText{std::move(text)}};
    }
    std::vector<std::string> elements;
    const bool splat = !lexer_.at("[");
    if (!lexer_.at(">")) dense_elements(elements);
    lexer_.expect(">");
    lexer_.expect(":");
    const Type of = type();
    const auto dims = of.static_dims();
    if (!dims) MlirLexer::fail_at(place, "dense elements need a type of known shape");
    std::int64_t count = 0;
    try {
      count = element_count(*dims);
    } catch (const Error& error) {
      MlirLexer::fail_at(place, error.what());
    }
    AttributeList items;
    for (const std::string& element : elements) items.push_back(number_of(element, of.dtype));
    if (splat && items.size() == 1) {
      if (count > kMaxSplat) {
        MlirLexer::fail_at(place, fmt::format("{} equal elements are too many", count));
      }
      items.resize(static_cast<std::size_t>(count), Attribute(items.front()));
    }
    if (static_cast<std::int64_t>(items.size()) != count) {
      MlirLexer::fail_at(place, fmt::format("{} elements are given, {} has {}", items.size(),
                                            xrt::to_string(of), count));
    }
    return {std::move(items)};
  }

  // array<i32: 1, 2>
  Attribute array() {
    lexer_.expect("<");
    const Type of = type();
    AttributeList items;
    if (lexer_.accept(":")) {
      do {
        if (lexer_.accept_word("true")) {
          items.push_back({true});
        } else if (lexer_.accept_word("false")) {
          items.push_back({false});
        } else {
          items.push_back(number_of(lexer_.number(), of.dtype));
        }
      } while (lexer_.accept(","));
    }
    lexer_.expect(">");
    return {std::move(items)};
  }

  MlirLexer lexer_;
  Job job_;
  std::unordered_map<std::string, std::vector<std::int32_t>> names_;
  int depth_ = 0;
  bool found_ = false, returned_ = false;
};

}  // namespace

Job parse_job(std::string_view text) { return Parser(text).parse(); }

}  // namespace xrt::oneflow
