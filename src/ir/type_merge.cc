// SPDX-License-Identifier: Apache-2.0
#include "ir/type_merge.h"

#include <memory>

namespace xrt {
namespace {

bool merge_dim(const Dim& first, const Dim& second, Dim* out) {
  if (first.is_known() && second.is_known() && first.value() != second.value()) {
    return false;
  }
  if (second.is_known() || first == Dim()) {
    *out = second;
  } else if (first.is_known()) {
    *out = first;
  } else {
    *out = second.is_symbol() ? second : first;  // it may tie the value to an input
  }
  return true;
}

}  // namespace

std::optional<Type> merge_types(const Type& first, const Type& second) {
  const auto empty = [](const Type& t) {
    return t.is_tensor() && t.dtype == DType::kUndefined && !t.shape;
  };
  if (empty(first)) return second;
  if (empty(second)) return first;
  if (first.kind != second.kind) return std::nullopt;
  Type out = second;
  if (second.dtype == DType::kUndefined) out.dtype = first.dtype;
  if (first.dtype != DType::kUndefined && first.dtype != out.dtype) return std::nullopt;
  if (!second.shape) {
    out.shape = first.shape;
  } else if (first.shape) {
    if (first.shape->size() != second.shape->size()) return std::nullopt;
    for (std::size_t i = 0; i < out.shape->size(); ++i) {
      if (!merge_dim((*first.shape)[i], (*second.shape)[i], &(*out.shape)[i])) {
        return std::nullopt;
      }
    }
  }
  if (first.element && second.element) {
    const auto element = merge_types(*first.element, *second.element);
    if (!element) return std::nullopt;
    out.element = std::make_shared<const Type>(*element);
  } else if (first.element) {
    out.element = first.element;
  }
  return out;
}

bool agree_but_for_shapes(const Type& first, const Type& second) {
  if (first.kind != second.kind) return false;
  if (first.dtype != DType::kUndefined && second.dtype != DType::kUndefined &&
      first.dtype != second.dtype) {
    return false;
  }
  return !first.element || !second.element || agree_but_for_shapes(*first.element, *second.element);
}

}  // namespace xrt
