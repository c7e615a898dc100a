// SPDX-License-Identifier: Apache-2.0
// Ops of ai.onnx.ml: LabelEncoder, Binarizer, Scaler, ArrayFeatureExtractor.
#include <bit>
#include <cmath>
#include <map>

#include "engines/native/kernels/convert.h"
#include "engines/native/kernels/register.h"
#include "engines/native/kernels/strided.h"

namespace xrt::native {

namespace {

using Created = std::unique_ptr<Kernel>;

// Keys and values of LabelEncoder as tensors of rank 1.
struct Labels {
  Tensor list;
  explicit Labels(const Node& node, const std::string& prefix) {
    if (const Tensor* tensor = node.attr_tensor(prefix + "_tensor")) {
      list = tensor->reshaped({tensor->count()});
    } else if (node.has(prefix + "_strings")) {
      std::vector<std::string> values = node.attr_strings(prefix + "_strings");
      const auto count = static_cast<std::int64_t>(values.size());
      list = Tensor::from_strings({count}, std::move(values));
    } else if (node.has(prefix + "_int64s")) {
      list = Tensor::from_int64(node.attr_ints(prefix + "_int64s"));
    } else if (node.has(prefix + "_floats")) {
      const std::vector<float> values = node.attr_floats(prefix + "_floats");
      list = Tensor::from<float>(DType::kFloat32, {static_cast<std::int64_t>(values.size())},
                                 std::span<const float>(values));
    }
  }
};

// What equal labels have in common: their text, or the bits of their value; NaN equals NaN.
std::string label_key(const Tensor& t, std::int64_t i) {
  if (t.dtype() == DType::kString) return t.strings()[i];
  double value = 0;
  if (!is_floating(t.dtype())) {
    std::int64_t integer = 0;
    load_int64(t.dtype(), t.raw(), i, 1, &integer);
    return std::to_string(integer);
  }
  load_double(t.dtype(), t.raw(), i, 1, &value);
  if (std::isnan(value)) return "nan";
  return std::to_string(std::bit_cast<std::uint64_t>(value == 0 ? 0.0 : value));
}

Tensor default_label(const Node& node, DType dtype) {
  if (const Tensor* tensor = node.attr_tensor("default_tensor")) return *tensor;
  if (dtype == DType::kString) {
    return Tensor::from_strings({1}, {node.attr_string("default_string", "_Unused")});
  }
  if (dtype == DType::kInt64)
    return Tensor::from_int64(std::vector{node.attr_int("default_int64", -1)});
  return converted(Tensor::scalar(node.attr_float("default_float", -0.0F)), dtype);
}

Created create_label_encoder(const KernelCreateContext& create) {
  const Tensor keys = Labels(create.node(), "keys").list;
  const Tensor values = Labels(create.node(), "values").list;
  if (!keys.defined() || !values.defined() || keys.count() != values.count()) {
    fail("keys and values have different lengths");
  }
  const Tensor fallback = default_label(create.node(), values.dtype());
  if (fallback.dtype() != values.dtype() || fallback.count() != 1) fail("the default does not fit");
  std::map<std::string, std::int64_t> places;
  for (std::int64_t i = 0; i < keys.count(); ++i) places.emplace(label_key(keys, i), i);
  return make_kernel([=](KernelContext& k) {
    const Tensor& x = k.input(0);
    Tensor& y = k.output(0, values.dtype(), x.dims());
    for (std::int64_t i = 0; i < x.count(); ++i) {
      const auto found = places.find(label_key(x, i));
      const bool known = found != places.end();
      copy_elements(y.dtype(), known ? values.raw() : fallback.raw(), known ? found->second : 0,
                    y.raw(), i, 1);
    }
  });
}

Created create_binarizer(const KernelCreateContext& create) {
  const double threshold = create.node().attr_float("threshold", 0.0F);
  return make_kernel([threshold](KernelContext& k) {
    const Tensor& x = k.input(0);
    Tensor& y = k.output(0, x.dtype(), x.dims());
    for (std::int64_t i = 0; i < x.count(); ++i) {
      double value = 0;
      load_double(x.dtype(), x.raw(), i, 1, &value);
      value = value > threshold ? 1 : 0;
      store_double(y.dtype(), &value, 1, y.raw(), i);
    }
  });
}

Created create_scaler(const KernelCreateContext& create) {
  const std::vector<float> offset = create.node().attr_floats("offset");
  const std::vector<float> scale = create.node().attr_floats("scale");
  return make_kernel([offset, scale](KernelContext& k) {
    const Tensor& x = k.input(0);
    const auto features =
        x.rank() == 0 ? std::size_t{1} : static_cast<std::size_t>(x.dims().back());
    for (const auto* list : {&offset, &scale}) {
      if (list->size() != 1 && list->size() != features) fail("one entry per feature is needed");
    }
    Tensor& y = k.output(0, DType::kFloat32, x.dims());
    load_float(x.dtype(), x.raw(), 0, x.count(), y.data<float>());
    for (std::int64_t i = 0; i < y.count(); ++i) {
      const std::size_t f = static_cast<std::size_t>(i) % features;
      float& value = y.data<float>()[i];
      value = (value - offset[offset.size() == 1 ? 0 : f]) * scale[scale.size() == 1 ? 0 : f];
    }
  });
}

Created create_feature_extractor(const KernelCreateContext&) {
  return make_kernel([](KernelContext& k) {
    const Tensor& x = k.input(0);
    const std::vector<std::int64_t> indices = ints_input(k, 1);
    if (x.rank() < 1) fail("the input has no features");
    const std::int64_t features = x.dims().back();
    Dims dims = x.dims();
    dims.back() = static_cast<std::int64_t>(indices.size());
    if (x.rank() == 1) dims = {1, dims.back()};
    Tensor& y = k.output(0, x.dtype(), dims);
    for (const std::int64_t i : indices) {
      if (i < 0 || i >= features) fail("index " + std::to_string(i) + " is no feature");
    }
    const auto count = static_cast<std::int64_t>(indices.size());
    for (std::int64_t e = 0; e < y.count(); ++e) {
      copy_elements(x.dtype(), x.raw(), e / count * features + indices[e % count], y.raw(), e, 1);
    }
  });
}

}  // namespace

void register_ml_kernels(KernelRegistry& registry) {
  const auto numbers = [](const NodeView& n) { return n.check_input(0, kNumericTypes); };
  const auto add = [&](const char* op, auto supports, auto create) {
    registry.add({.domain = "ai.onnx.ml", .op = op, .supports = supports, .create = create});
  };
  add(
      "LabelEncoder",
      [](const NodeView& n) { return n.check_input(0, kNumericTypes | kStringType); },
      create_label_encoder);
  add("Binarizer", numbers, create_binarizer);
  add("Scaler", numbers, create_scaler);
  add(
      "ArrayFeatureExtractor",
      [](const NodeView& n) { return n.check_input(0, kNumericTypes | kStringType); },
      create_feature_extractor);
}

}  // namespace xrt::native
