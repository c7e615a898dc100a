// SPDX-License-Identifier: Apache-2.0
#include "xrt/type.h"

#include <algorithm>

#include "ir/type_text.h"

namespace xrt {

Type Type::tensor(DType dtype) {
  Type t;
  t.dtype = dtype;
  return t;
}

Type Type::tensor(DType dtype, Shape shape) {
  Type t = tensor(dtype);
  t.shape = std::move(shape);
  return t;
}

Type Type::tensor(DType dtype, const Dims& dims) {
  return tensor(dtype, Shape(dims.begin(), dims.end()));
}

Type Type::sequence(Type element) {
  Type t;
  t.kind = Kind::kSequence;
  t.element = std::make_shared<const Type>(std::move(element));
  return t;
}

Type Type::optional(Type element) {
  Type t = sequence(std::move(element));
  t.kind = Kind::kOptional;
  return t;
}

bool Type::is_static() const {
  return has_rank() &&
         std::all_of(shape->begin(), shape->end(), [](const Dim& d) { return d.is_known(); });
}

std::optional<Dims> Type::static_dims() const {
  if (!is_static()) return std::nullopt;
  Dims dims;
  dims.reserve(shape->size());
  for (const Dim& d : *shape) dims.push_back(d.value());
  return dims;
}

bool Type::operator==(const Type& other) const {
  if (kind != other.kind || dtype != other.dtype || shape != other.shape) return false;
  if ((element == nullptr) != (other.element == nullptr)) return false;
  return element == nullptr || *element == *other.element;
}

std::string type_text(const Type& type, std::string (*symbol)(const std::string& name)) {
  const auto element = [&] {
    return type.element ? type_text(*type.element, symbol) : std::string("?");
  };
  switch (type.kind) {
    case Type::Kind::kSequence:
      return "seq(" + element() + ")";
    case Type::Kind::kOptional:
      return "optional(" + element() + ")";
    case Type::Kind::kMap:
      return "map(" + std::string(to_string(type.dtype)) + ", " + element() + ")";
    case Type::Kind::kTensor:
    case Type::Kind::kSparseTensor:
      break;
  }
  std::string text = type.kind == Type::Kind::kSparseTensor ? "sparse " : "";
  text += to_string(type.dtype);
  if (!type.shape) return text + "[*]";
  text += '[';
  for (std::size_t i = 0; i < type.shape->size(); ++i) {
    if (i > 0) text += ',';
    const Dim& d = (*type.shape)[i];
    text += d.is_known() ? std::to_string(d.value()) : d.is_symbol() ? symbol(d.symbol()) : "?";
  }
  return text + "]";
}

std::string to_string(const Type& type) {
  return type_text(type, [](const std::string& name) { return name; });
}

}  // namespace xrt
