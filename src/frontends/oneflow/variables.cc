// SPDX-License-Identifier: Apache-2.0
#include "frontends/oneflow/variables.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/file.h"
#include "frontends/inside_folder.h"
#include "frontends/oneflow/mlir_lexer.h"
#include "xrt/error.h"

namespace xrt::oneflow {
namespace {

std::optional<DType> data_type(std::string_view name) {
  static const std::pair<std::string_view, DType> kTypes[] = {
      {"kChar", DType::kInt8},         {"kFloat", DType::kFloat32},   {"kDouble", DType::kFloat64},
      {"kInt8", DType::kInt8},         {"kInt32", DType::kInt32},     {"kInt64", DType::kInt64},
      {"kUInt8", DType::kUInt8},       {"kFloat16", DType::kFloat16}, {"kBool", DType::kBool},
      {"kUInt16", DType::kUInt16},     {"kUInt32", DType::kUInt32},   {"kUInt64", DType::kUInt64},
      {"kBFloat16", DType::kBFloat16}, {"kInt16", DType::kInt16},
  };
  for (const auto& [text, dtype] : kTypes) {
    if (text == name) return dtype;
  }
  return std::nullopt;
}

}  // namespace

Type parse_meta(std::string_view text) {
  MlirLexer lexer(text);
  std::optional<DType> dtype;
  std::optional<Shape> shape;
  while (!lexer.at_end()) {
    const Place place = lexer.place();
    const std::string field = lexer.word("a field");
    if (field == "shape") {
      lexer.accept(":");
      lexer.expect("{");
      shape.emplace();
      while (!lexer.accept("}")) {
        if (lexer.word("dim") != "dim") lexer.fail("a shape has the field dim alone");
        lexer.expect(":");
        const std::int64_t size = lexer.integer();
        if (size < 0) lexer.fail(fmt::format("a dimension cannot be {}", size));
        shape->emplace_back(size);
      }
    } else if (field == "data_type") {
      lexer.expect(":");
      const std::string name = lexer.word("an element type");
      dtype = data_type(name);
      if (!dtype) lexer.fail(fmt::format("elements of type {} are not known", name));
    } else {
      MlirLexer::fail_at(place, fmt::format("the field '{}' is not known", field));
    }
  }
  if (!dtype || !shape) lexer.fail("shape and data_type are wanted");
  return Type::tensor(*dtype, std::move(*shape));
}

VariableFiles::VariableFiles(const std::filesystem::path& folder)
    : folder_(canonical_folder(folder)) {}

Tensor VariableFiles::load(const std::string& name, const Type& type) {
  if (const auto end = name.find('\0'); end != std::string::npos) {
    // An error's text ends there as well.
    throw Error(
        ErrorCode::kInvalidModel,
        fmt::format("variable '{}…': its name holds a character of code 0", name.substr(0, end)));
  }
  const std::string what = fmt::format("variable '{}'", name);
  if (name == "." || name.find('/') != std::string::npos) {
    throw Error(ErrorCode::kInvalidModel, what + ": its name leaves the model's folder");
  }
  const auto meta = map_inside(folder_, name + "/meta", what + ": its file");
  Type stored;
  try {
    stored = parse_meta({reinterpret_cast<const char*>(meta->data()), meta->size()});
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}/meta: {}", what, name, error.what()));
  }
  if (stored != type) {
    throw Error(ErrorCode::kInvalidModel, fmt::format("{}: its file holds {}, the job wants {}",
                                                      what, to_string(stored), to_string(type)));
  }
  const Dims dims = *stored.static_dims();
  const std::size_t wanted = byte_count(stored.dtype, dims);
  const std::string location = name + "/out";
  auto file = map_inside(folder_, location, what + ": its file");
  if (file->size() != wanted) {
    throw Error(ErrorCode::kInvalidModel,
                fmt::format("{}: '{}' has {} bytes, {} needs {}", what, location, file->size(),
                            to_string(stored), wanted));
  }
  // Constants are never written, and the mapping is read-only.
  Tensor tensor = Tensor::wrap(stored.dtype, dims, const_cast<std::byte*>(file->data()), file);
  files_.push_back({location, std::move(file)});
  return tensor;
}

}  // namespace xrt::oneflow
