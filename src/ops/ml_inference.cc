// SPDX-License-Identifier: Apache-2.0
#include "ops/ml_inference.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string_view>
#include <vector>

namespace xrt {
namespace {

using onnx::InferenceContext;
using onnx::TensorShapeProto;

constexpr std::int64_t kMaxWidth = std::int64_t{1} << 40;

const TensorShapeProto* input_shape(const InferenceContext& c, std::size_t input) {
  if (input >= c.getNumInputs() || c.getInputType(input) == nullptr) return nullptr;
  const onnx::TypeProto& type = *c.getInputType(input);
  return type.has_tensor_type() && type.tensor_type().has_shape() ? &type.tensor_type().shape()
                                                                  : nullptr;
}

void set_dtype(InferenceContext& c, std::size_t output, std::int32_t dtype) {
  if (output < c.getNumOutputs() && c.getOutputType(output) != nullptr) {
    c.getOutputType(output)->mutable_tensor_type()->set_elem_type(dtype);
  }
}

void set_shape(InferenceContext& c, std::size_t output, const TensorShapeProto& shape) {
  if (output >= c.getNumOutputs() || c.getOutputType(output) == nullptr) return;
  auto* type = c.getOutputType(output)->mutable_tensor_type();
  if (!type->has_shape()) *type->mutable_shape() = shape;
}

// A matrix has rows; a list is one row. Nothing where the rank is another or not known.
std::optional<TensorShapeProto::Dimension> rows_of(const InferenceContext& c) {
  const TensorShapeProto* shape = input_shape(c, 0);
  if (shape == nullptr || shape->dim_size() < 1 || shape->dim_size() > 2) return std::nullopt;
  if (shape->dim_size() == 2) return shape->dim(0);
  TensorShapeProto::Dimension one;
  one.set_dim_value(1);
  return one;
}

void set_matrix(InferenceContext& c, std::size_t output, std::int64_t width) {
  const auto rows = rows_of(c);
  if (!rows || width < 1 || width > kMaxWidth) return;
  TensorShapeProto shape;
  *shape.add_dim() = *rows;
  shape.add_dim()->set_dim_value(width);
  set_shape(c, output, shape);
}

void infer_like_input(InferenceContext& c, bool keeps_dtype) {
  const onnx::TypeProto* x = c.getInputType(0);
  if (x == nullptr || !x->has_tensor_type()) return;
  set_dtype(c, 0, keeps_dtype ? x->tensor_type().elem_type() : onnx::TensorProto::FLOAT);
  if (const TensorShapeProto* shape = input_shape(c, 0)) set_shape(c, 0, *shape);
}

// Lists stand for one row or for one column, as engines read them: their rows stay open.
void infer_feature_vectorizer(const Node& node, InferenceContext& c) {
  set_dtype(c, 0, onnx::TensorProto::FLOAT);
  const std::vector<std::int64_t> widths = node.attr_ints("inputdimensions");
  if (widths.size() != c.getNumInputs()) return;
  for (const std::int64_t width : widths) {
    if (width < 0 || width > kMaxWidth / static_cast<std::int64_t>(widths.size())) return;
  }
  TensorShapeProto shape;
  const TensorShapeProto* first = input_shape(c, 0);
  auto* rows = shape.add_dim();
  if (first != nullptr && first->dim_size() == 2) *rows = first->dim(0);
  shape.add_dim()->set_dim_value(std::accumulate(widths.begin(), widths.end(), std::int64_t{0}));
  set_shape(c, 0, shape);
}

void infer_classifier(const Node& node, InferenceContext& c) {
  const std::size_t texts = node.attr_strings("classlabels_strings").size();
  const std::size_t classes = texts > 0 ? texts : node.attr_ints("classlabels_int64s").size();
  set_dtype(c, 0, texts > 0 ? onnx::TensorProto::STRING : onnx::TensorProto::INT64);
  set_dtype(c, 1, onnx::TensorProto::FLOAT);
  if (const auto rows = rows_of(c)) {
    TensorShapeProto shape;
    *shape.add_dim() = *rows;
    set_shape(c, 0, shape);
  }
  // A class alone has an opposite.
  set_matrix(c, 1, classes == 1 ? 2 : static_cast<std::int64_t>(classes));
}

}  // namespace

bool has_ml_rule(const Node& node) {
  constexpr auto kOps = std::to_array<std::string_view>(
      {"FeatureVectorizer", "Imputer", "LinearRegressor", "Normalizer", "SVMRegressor", "Scaler",
       "TreeEnsembleClassifier", "TreeEnsembleRegressor"});
  return node.domain == "ai.onnx.ml" && std::find(kOps.begin(), kOps.end(), node.op) != kOps.end();
}

void infer_ml(const Node& node, InferenceContext& c) {
  if (c.getNumInputs() == 0 || c.getNumOutputs() == 0) return;
  if (node.op == "Imputer") return infer_like_input(c, true);
  if (node.op == "Scaler" || node.op == "Normalizer") return infer_like_input(c, false);
  if (node.op == "FeatureVectorizer") return infer_feature_vectorizer(node, c);
  if (node.op == "TreeEnsembleClassifier") return infer_classifier(node, c);
  set_dtype(c, 0, onnx::TensorProto::FLOAT);
  if (node.op == "SVMRegressor") return set_matrix(c, 0, 1);
  set_matrix(c, 0, node.attr_int(node.op == "LinearRegressor" ? "targets" : "n_targets", 1));
}

}  // namespace xrt
