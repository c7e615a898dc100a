// SPDX-License-Identifier: Apache-2.0
// Ops of ai.onnx.ml that change features one by one: encoders, Scaler, Normalizer, Imputer and so
// on.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <type_traits>

#include "base/work_scope.h"
#include "engines/native/context.h"
#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/common/strided.h"
#include "engines/native/kernels/common/text.h"
#include "engines/native/kernels/ml/ml_scores.h"
#include "engines/native/kernels/register.h"

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

// To find one label.
constexpr std::int64_t kSearchWork = 64;

// From texts to integers or back, by what the input holds. Without `integers` they are the places
// of the texts.
Created make_text_mapper(const std::vector<std::string>& texts, std::vector<std::int64_t> integers,
                         const std::string& default_text, std::int64_t default_integer) {
  if (integers.empty()) {
    integers.resize(texts.size());
    std::iota(integers.begin(), integers.end(), 0);
  }
  if (integers.size() != texts.size()) fail("there are not as many texts as integers");
  std::map<std::string, std::int64_t> by_text;
  std::map<std::int64_t, std::string> by_integer;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    by_text.emplace(texts[i], integers[i]);
    by_integer.emplace(integers[i], texts[i]);
  }
  return make_kernel([=](KernelContext& k) {
    const Tensor& x = k.input(0);
    const bool text = x.dtype() == DType::kString;
    Tensor& y = k.output(0, text ? DType::kInt64 : DType::kString, x.dims());
    TimeCheck time;
    for (std::int64_t i = 0; i < x.count(); ++i) {
      time.spend(kSearchWork);
      if (text) {
        const auto found = by_text.find(x.strings()[i]);
        y.data<std::int64_t>()[i] = found == by_text.end() ? default_integer : found->second;
      } else {
        const auto found = by_integer.find(x.data<std::int64_t>()[i]);
        assign_element(y.strings()[i], found == by_integer.end() ? default_text : found->second);
      }
    }
  });
}

// LabelEncoder of opset 1: texts and their places in a list, from either to the other.
Created create_class_encoder(const Node& node) {
  const std::vector<std::string> classes = node.attr_strings("classes_strings");
  return make_text_mapper(classes, {}, node.attr_string("default_string", "_Unused"),
                          node.attr_int("default_int64", -1));
}

Created create_label_encoder(const KernelCreateContext& create) {
  if (create.node().has("classes_strings")) return create_class_encoder(create.node());
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
    TimeCheck time;
    for (std::int64_t i = 0; i < x.count(); ++i) {
      time.spend(kSearchWork);
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

Created create_category_mapper(const KernelCreateContext& create) {
  const Node& node = create.node();
  return make_text_mapper(node.attr_strings("cats_strings"), node.attr_ints("cats_int64s"),
                          node.attr_string("default_string", "_Unused"),
                          node.attr_int("default_int64", -1));
}

// Rows divided by their norm; a row of zeros stays.
Created create_normalizer(const KernelCreateContext& create) {
  const std::string norm = create.node().attr_string("norm", "MAX");
  if (norm != "MAX" && norm != "L1" && norm != "L2") fail("norm '" + norm + "' is not known");
  return make_kernel([norm](KernelContext& k) {
    const Tensor& x = k.input(0);
    const std::int64_t width = column_count(x);
    Tensor& y = k.output(0, DType::kFloat32, x.dims());
    if (y.count() == 0) return;
    for_each_row(k, x, [&](std::int64_t row, const double* features) {
      double size = 0;
      for (std::int64_t i = 0; i < width; ++i) {
        const double value = std::fabs(features[i]);
        size =
            norm == "MAX" ? std::max(size, value) : size + (norm == "L1" ? value : value * value);
      }
      if (norm == "L2") size = std::sqrt(size);
      for (std::int64_t i = 0; i < width; ++i) {
        const double value = size == 0 ? features[i] : features[i] / size;
        y.data<float>()[row * width + i] = static_cast<float>(value);
      }
    });
  });
}

// One value, which may be NaN, is replaced by another, of each feature or of all.
template <typename T>
Created make_imputer(std::vector<T> values, T replaced) {
  return make_kernel([values = std::move(values), replaced](KernelContext& k) {
    const Tensor& x = k.input(0);
    const auto features =
        x.rank() == 0 ? std::size_t{1} : static_cast<std::size_t>(x.dims().back());
    if (values.size() != 1 && values.size() != features) fail("one entry per feature is needed");
    Tensor& y = k.output(0, x.dtype(), x.dims());
    copy_elements(x.dtype(), x.raw(), 0, y.raw(), 0, x.count());
    for (std::int64_t i = 0; i < x.count(); ++i) {
      const T& value = values[values.size() == 1 ? 0 : static_cast<std::size_t>(i) % features];
      if constexpr (std::is_same_v<T, double>) {
        double found = 0;
        load_double(x.dtype(), x.raw(), i, 1, &found);
        if (found == replaced || (std::isnan(found) && std::isnan(replaced))) {
          store_double(y.dtype(), &value, 1, y.raw(), i);
        }
      } else {
        std::int64_t found = 0;
        load_int64(x.dtype(), x.raw(), i, 1, &found);
        if (found == replaced) store_int64(y.dtype(), &value, 1, y.raw(), i);
      }
    }
  });
}

Created create_imputer(const KernelCreateContext& create) {
  const Node& node = create.node();
  if (is_floating(create.input_dtype(0))) {
    std::vector<double> values = to_doubles(node.attr_floats("imputed_value_floats"));
    if (values.empty()) fail("imputed_value_floats is missing");
    return make_imputer<double>(std::move(values), node.attr_float("replaced_value_float", 0.0F));
  }
  std::vector<std::int64_t> values = node.attr_ints("imputed_value_int64s");
  if (values.empty()) fail("imputed_value_int64s is missing");
  return make_imputer<std::int64_t>(std::move(values), node.attr_int("replaced_value_int64", 0));
}

Created create_one_hot_encoder(const KernelCreateContext& create) {
  const Node& node = create.node();
  const bool zeros = node.attr_int("zeros", 1) != 0;
  const bool text = node.has("cats_strings") && create.input_dtype(0) == DType::kString;
  std::map<std::string, std::int64_t> places;
  std::map<double, std::int64_t> numbers;
  std::int64_t count = 0;
  if (text) {
    for (const std::string& name : node.attr_strings("cats_strings")) places[name] = count++;
  } else {
    for (const std::int64_t number : node.attr_ints("cats_int64s")) {
      numbers[static_cast<double>(number)] = count++;
    }
  }
  if (count == 0) fail("there are no categories for the input's type");
  return make_kernel([=](KernelContext& k) {
    const Tensor& x = k.input(0);
    Dims dims = x.dims();
    dims.push_back(count);
    Tensor& y = k.output(0, DType::kFloat32, dims);
    std::fill_n(y.data<float>(), y.count(), 0.0F);
    for (std::int64_t i = 0; i < x.count(); ++i) {
      std::int64_t place = -1;
      if (text) {
        const auto found = places.find(x.strings()[i]);
        if (found != places.end()) place = found->second;
      } else {
        double value = 0;
        load_double(x.dtype(), x.raw(), i, 1, &value);
        // The standard has floats cast to integers.
        const auto found = std::isnan(value) ? numbers.end() : numbers.find(std::trunc(value));
        if (found != numbers.end()) place = found->second;
      }
      if (place >= 0) {
        y.data<float>()[i * count + place] = 1.0F;
      } else if (!zeros) {
        fail("element " + std::to_string(i) + " is of no category");
      }
    }
  });
}

// Inputs side by side, each cut or filled with zeros to the length that its attribute names. A list
// is a column.
Created create_feature_vectorizer(const KernelCreateContext& create) {
  const std::vector<std::int64_t> given = create.node().attr_ints("inputdimensions");
  return make_kernel([given](KernelContext& k) {
    std::vector<std::int64_t> widths = given;
    const std::int64_t rows = k.input(0).rank() == 0 ? 1 : k.input(0).dims()[0];
    std::int64_t total = 0;
    for (std::size_t i = 0; i < k.input_count(); ++i) {
      const Tensor& x = k.input(i);
      if (x.rank() < 1 || x.rank() > 2 || x.dims()[0] != rows) {
        fail("the inputs are not matrices of equally many rows");
      }
      if (given.empty()) widths.push_back(x.rank() == 1 ? 1 : x.dims()[1]);
      constexpr std::int64_t kMost = std::int64_t{1} << 40;  // more do not fit into memory
      if (i >= widths.size() || widths[i] < 0 || widths[i] > kMost)
        fail("inputdimensions has no entry for an input");
      total += widths[i];
    }
    Tensor& y = k.output(0, DType::kFloat32, {rows, total});
    if (y.count() == 0) return;
    std::fill_n(y.data<float>(), y.count(), 0.0F);
    std::int64_t start = 0;
    for (std::size_t i = 0; i < k.input_count(); ++i) {
      const Tensor& x = k.input(i);
      const std::int64_t width = x.rank() == 1 ? 1 : x.dims()[1];
      for (std::int64_t row = 0; row < rows; ++row) {
        load_float(x.dtype(), x.raw(), row * width, std::min(width, widths[i]),
                   y.data<float>() + row * total + start);
      }
      start += widths[i];
    }
  });
}

// A map from labels to scores for each row. It is a sequence of two tensors, keys and values (see
// xrt/type.h); all rows share the keys.
Created create_zip_map(const KernelCreateContext& create) {
  const Labels keys(create.node(), "classlabels");
  if (!keys.list.defined()) fail("classlabels_strings and classlabels_int64s are missing");
  return make_kernel([keys](KernelContext& k) {
    const Tensor& x = k.input(0);
    const std::int64_t labels = keys.list.count();
    if (x.rank() < 1 || x.rank() > 2 || x.dims().back() != labels) {
      fail("the input " + shape_text(x.dims()) + " has no score for each of " +
           std::to_string(labels) + " labels");
    }
    const std::int64_t rows = x.rank() == 1 ? 1 : x.dims()[0];
    constexpr std::int64_t kMapWork = 64;  // to make one
    TimeCheck time;
    std::vector<Data> maps;
    for (std::int64_t row = 0; row < rows; ++row) {
      const float* scores = x.data<float>() + row * labels;
      time.spend(kMapWork + labels);
      Tensor values = allocate_checked(DType::kFloat32, {labels});
      std::copy_n(scores, labels, values.data<float>());
      maps.push_back(Data::sequence(DType::kFloat32, {keys.list, std::move(values)}));
    }
    k.set_output(0, Data::sequence(DType::kFloat32, std::move(maps)));
  });
}

}  // namespace

void register_ml_kernels(KernelRegistry& registry) {
  const auto numbers = [](const NodeView& n) { return n.check_input(0, kNumericTypes); };
  const auto add = [&](const char* op, auto supports, auto create) {
    registry.add({.domain = "ai.onnx.ml", .op = op, .supports = supports, .create = create});
  };
  add(
      "ZipMap", [](const NodeView& n) { return n.check_input(0, DTypeSet{DType::kFloat32}); },
      create_zip_map);
  add(
      "LabelEncoder",
      [](const NodeView& n) { return n.check_input(0, kNumericTypes | kStringType); },
      create_label_encoder);
  add(
      "CategoryMapper",
      [](const NodeView& n) {
        return n.check_input(0, DTypeSet{DType::kInt64, DType::kString});
      },
      create_category_mapper);
  add(
      "OneHotEncoder",
      [](const NodeView& n) { return n.check_input(0, kNumericTypes | kStringType); },
      create_one_hot_encoder);
  add("Normalizer", numbers, create_normalizer);
  add("Imputer", numbers, create_imputer);
  add("FeatureVectorizer", numbers, create_feature_vectorizer);
  add("Binarizer", numbers, create_binarizer);
  add("Scaler", numbers, create_scaler);
  add(
      "ArrayFeatureExtractor",
      [](const NodeView& n) { return n.check_input(0, kNumericTypes | kStringType); },
      create_feature_extractor);
}

}  // namespace xrt::native
