// SPDX-License-Identifier: Apache-2.0
#include "ops/host_fold.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace xrt {

namespace {

constexpr std::int64_t kMaxElements = 4096;

// A small integer (or bool) array.
struct Ints {
  DType dtype = DType::kInt64;
  Dims dims;
  std::vector<std::int64_t> values;
};

bool foldable_dtype(DType dtype) {
  return dtype == DType::kBool || (is_integer(dtype) && !is_packed(dtype));
}

std::optional<Ints> read(const Tensor* tensor) {
  if (tensor == nullptr || !foldable_dtype(tensor->dtype()) || tensor->count() > kMaxElements) {
    return std::nullopt;
  }
  return Ints{tensor->dtype(), tensor->dims(), tensor->to_int64()};
}

Tensor write(const Ints& ints) {
  Tensor out = Tensor::allocate(ints.dtype, ints.dims);
  for (std::size_t i = 0; i < ints.values.size(); ++i) {
    switch (bit_width(ints.dtype)) {
      case 8:
        out.data<std::int8_t>()[i] = static_cast<std::int8_t>(ints.values[i]);
        break;
      case 16:
        out.data<std::int16_t>()[i] = static_cast<std::int16_t>(ints.values[i]);
        break;
      case 32:
        out.data<std::int32_t>()[i] = static_cast<std::int32_t>(ints.values[i]);
        break;
      default:
        out.data<std::int64_t>()[i] = ints.values[i];
        break;
    }
  }
  return out;
}

std::optional<Dims> broadcast_dims(const Dims& a, const Dims& b) {
  Dims out(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto from = [&](const Dims& d) {
      return i + d.size() < out.size() ? 1 : d[i + d.size() - out.size()];
    };
    const std::int64_t x = from(a);
    const std::int64_t y = from(b);
    if (x != y && x != 1 && y != 1) return std::nullopt;
    out[i] = x == 1 ? y : x;
  }
  return out;
}

// The element of `x` that a broadcast result reads at flat position `index`.
std::int64_t element(const Ints& x, const Dims& dims, std::int64_t index) {
  std::int64_t offset = 0;
  std::int64_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    const std::int64_t at = index % dims[i];
    index /= dims[i];
    if (i + x.dims.size() < dims.size()) continue;
    const std::int64_t size = x.dims[i + x.dims.size() - dims.size()];
    if (size != 1) offset += at * stride;
    stride *= size;
  }
  return x.values[static_cast<std::size_t>(offset)];
}

// Integers wrap around.
std::uint64_t unsigned_of(std::int64_t value) { return static_cast<std::uint64_t>(value); }
std::int64_t wrapped(std::uint64_t value) { return static_cast<std::int64_t>(value); }

using Combine = std::function<std::int64_t(std::int64_t, std::int64_t)>;

struct BinaryOp {
  Combine combine;
  bool to_bool = false;
};

const BinaryOp* find_binary(const std::string& op) {
  static const std::map<std::string, BinaryOp, std::less<>> ops = {
      {"Add", {[](auto a, auto b) { return wrapped(unsigned_of(a) + unsigned_of(b)); }}},
      {"Sub", {[](auto a, auto b) { return wrapped(unsigned_of(a) - unsigned_of(b)); }}},
      {"Mul", {[](auto a, auto b) { return wrapped(unsigned_of(a) * unsigned_of(b)); }}},
      // The quotient of the smallest number by -1 does not fit, and stops a processor.
      {"Div", {[](auto a, auto b) { return b == -1 ? wrapped(-unsigned_of(a)) : a / b; }}},
      {"Mod", {[](auto a, auto b) {
         if (b == -1) return std::int64_t{0};
         return a % b + ((a % b != 0 && (a % b < 0) != (b < 0)) ? b : 0);
       }}},
      {"Min", {[](auto a, auto b) { return std::min(a, b); }}},
      {"Max", {[](auto a, auto b) { return std::max(a, b); }}},
      {"Equal", {[](auto a, auto b) { return std::int64_t{a == b}; }, true}},
      {"Greater", {[](auto a, auto b) { return std::int64_t{a > b}; }, true}},
      {"GreaterOrEqual", {[](auto a, auto b) { return std::int64_t{a >= b}; }, true}},
      {"Less", {[](auto a, auto b) { return std::int64_t{a < b}; }, true}},
      {"LessOrEqual", {[](auto a, auto b) { return std::int64_t{a <= b}; }, true}},
      {"And", {[](auto a, auto b) { return std::int64_t{a != 0 && b != 0}; }, true}},
      {"Or", {[](auto a, auto b) { return std::int64_t{a != 0 || b != 0}; }, true}},
  };
  const auto found = ops.find(op);
  return found == ops.end() ? nullptr : &found->second;
}

std::optional<Ints> fold_binary(const Node& node, const std::vector<Ints>& in) {
  const BinaryOp* op = find_binary(node.op);
  if (op == nullptr || in.size() != 2) return std::nullopt;
  if (node.op == "Mod" && node.attr_int("fmod", 0) != 0) return std::nullopt;
  if ((node.op == "Div" || node.op == "Mod") &&
      std::count(in[1].values.begin(), in[1].values.end(), 0) > 0) {
    return std::nullopt;
  }
  const std::optional<Dims> dims = broadcast_dims(in[0].dims, in[1].dims);
  if (!dims) return std::nullopt;
  Ints out{op->to_bool ? DType::kBool : in[0].dtype, *dims, {}};
  for (std::int64_t i = 0; i < element_count(*dims); ++i) {
    out.values.push_back(op->combine(element(in[0], *dims, i), element(in[1], *dims, i)));
  }
  return out;
}

std::optional<Ints> fold_rank1(const Node& node, const std::vector<Ints>& in) {
  if (node.op == "Concat") {
    Ints out{in[0].dtype, {0}, {}};
    for (const Ints& part : in) {
      if (part.dims.size() != 1) return std::nullopt;
      out.values.insert(out.values.end(), part.values.begin(), part.values.end());
    }
    out.dims[0] = static_cast<std::int64_t>(out.values.size());
    return out;
  }
  if (node.op == "Gather" && in.size() == 2 && in[0].dims.size() == 1) {
    Ints out{in[0].dtype, in[1].dims, {}};
    for (std::int64_t index : in[1].values) {
      if (index < 0) index += in[0].dims[0];
      if (index < 0 || index >= in[0].dims[0]) return std::nullopt;
      out.values.push_back(in[0].values[static_cast<std::size_t>(index)]);
    }
    return out;
  }
  if (node.op == "Slice" && in.size() >= 3 && in[0].dims.size() == 1 && in[1].values.size() == 1 &&
      in[2].values.size() == 1) {
    const std::int64_t size = in[0].dims[0];
    const std::int64_t step = in.size() > 4 ? in[4].values.at(0) : 1;
    if (step < 1) return std::nullopt;
    const auto clamp = [size](std::int64_t at) {
      return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
    };
    Ints out{in[0].dtype, {0}, {}};
    for (std::int64_t i = clamp(in[1].values[0]); i < clamp(in[2].values[0]); i += step) {
      out.values.push_back(in[0].values[static_cast<std::size_t>(i)]);
    }
    out.dims[0] = static_cast<std::int64_t>(out.values.size());
    return out;
  }
  return std::nullopt;
}

std::optional<Ints> fold_layout(const Node& node, const std::vector<Ints>& in) {
  Ints out = in[0];
  if (node.op == "Identity") return out;
  if (node.op == "Reshape" && in.size() == 2) {
    out.dims = in[1].values;
    std::int64_t known = 1;
    std::int64_t* unknown = nullptr;
    for (std::size_t i = 0; i < out.dims.size(); ++i) {
      if (out.dims[i] == 0 && i < in[0].dims.size()) out.dims[i] = in[0].dims[i];
      if (out.dims[i] < -1 || out.dims[i] > kMaxElements) return std::nullopt;
      if (out.dims[i] == -1) {
        unknown = &out.dims[i];
      } else {
        known = std::min(known * out.dims[i], 2 * kMaxElements);
      }
    }
    if (unknown != nullptr) {
      *unknown = known == 0 ? 0 : static_cast<std::int64_t>(in[0].values.size()) / known;
    }
    return element_count(out.dims) == static_cast<std::int64_t>(out.values.size())
               ? std::optional(out)
               : std::nullopt;
  }
  if ((node.op == "Unsqueeze" || node.op == "Squeeze") && in.size() == 2) {
    const bool insert = node.op == "Unsqueeze";
    const auto count = static_cast<std::int64_t>(in[1].values.size());
    const auto rank = static_cast<std::int64_t>(in[0].dims.size()) + (insert ? count : 0);
    Dims axes = in[1].values;
    for (std::int64_t& axis : axes) axis += axis < 0 ? rank : 0;
    std::sort(axes.begin(), axes.end());
    out.dims.clear();
    std::size_t next = 0;
    for (std::int64_t i = 0; i < rank; ++i) {
      const bool listed = std::binary_search(axes.begin(), axes.end(), i);
      if (insert) {
        out.dims.push_back(listed ? 1 : in[0].dims.at(next++));
      } else if (!listed) {
        out.dims.push_back(in[0].dims[static_cast<std::size_t>(i)]);
      }
    }
    return out;
  }
  if (node.op == "Squeeze" && in.size() == 1) {
    std::erase(out.dims, 1);
    return out;
  }
  if (node.op == "Neg" || node.op == "Abs" || node.op == "Not") {
    if (in[0].dtype == DType::kUInt64) return std::nullopt;
    for (std::int64_t& value : out.values) {
      if (node.op == "Not") {
        value = value == 0;
      } else if (node.op == "Neg" || value < 0) {
        value = wrapped(-unsigned_of(value));
      }
    }
    return out;
  }
  return std::nullopt;
}

std::optional<Ints> fold_ints(const Node& node, const std::vector<Ints>& in) {
  if (auto out = fold_binary(node, in)) return out;
  if (auto out = fold_rank1(node, in)) return out;
  if (auto out = fold_layout(node, in)) return out;
  if (node.op == "Cast") {
    const auto to = static_cast<DType>(node.attr_int("to", 0));
    if (!foldable_dtype(to)) return std::nullopt;
    Ints out = in[0];
    out.dtype = to;
    if (to == DType::kBool) {
      for (std::int64_t& value : out.values) value = value != 0;
    }
    return out;
  }
  if (node.op == "CastLike" && in.size() == 2) {
    Ints out = in[0];
    out.dtype = in[1].dtype;
    return out.dtype == DType::kBool ? std::nullopt : std::optional(out);
  }
  if (node.op == "Where" && in.size() == 3) {
    auto dims = broadcast_dims(in[0].dims, in[1].dims);
    if (dims) dims = broadcast_dims(*dims, in[2].dims);
    if (!dims) return std::nullopt;
    Ints out{in[1].dtype, *dims, {}};
    for (std::int64_t i = 0; i < element_count(*dims); ++i) {
      out.values.push_back(element(element(in[0], *dims, i) != 0 ? in[1] : in[2], *dims, i));
    }
    return out;
  }
  if (node.op == "ConstantOfShape") {
    const Tensor* value = node.attr_tensor("value");
    std::optional<Ints> element = read(value);
    if (!element || element->values.size() != 1) return std::nullopt;
    std::int64_t count = 1;
    for (const std::int64_t dim : in[0].values) {
      if (dim < 0 || dim > kMaxElements) return std::nullopt;
      count *= dim;
      if (count > kMaxElements) return std::nullopt;
    }
    return Ints{element->dtype, in[0].values,
                std::vector<std::int64_t>(static_cast<std::size_t>(count), element->values[0])};
  }
  if (node.op == "Expand" && in.size() == 2) {
    std::int64_t count = 1;
    for (const std::int64_t dim : in[1].values) {
      if (dim < 0 || dim > kMaxElements) return std::nullopt;
      count = std::min(count * dim, 2 * kMaxElements);
    }
    const std::optional<Dims> dims = broadcast_dims(in[0].dims, in[1].values);
    if (!dims || count > kMaxElements || element_count(*dims) > kMaxElements) return std::nullopt;
    Ints out{in[0].dtype, *dims, {}};
    for (std::int64_t i = 0; i < element_count(*dims); ++i) {
      out.values.push_back(element(in[0], *dims, i));
    }
    return out;
  }
  if (node.op == "Range" && in.size() == 3 && in[2].values[0] != 0) {
    Ints out{in[0].dtype, {0}, {}};
    const std::int64_t step = in[2].values[0];
    for (std::int64_t v = in[0].values[0]; step > 0 ? v < in[1].values[0] : v > in[1].values[0];) {
      if (static_cast<std::int64_t>(out.values.size()) >= kMaxElements) return std::nullopt;
      out.values.push_back(v);
      if (__builtin_add_overflow(v, step, &v)) break;  // beyond the limit
    }
    out.dims[0] = static_cast<std::int64_t>(out.values.size());
    return out;
  }
  if ((node.op == "ReduceProd" || node.op == "ReduceSum") && in[0].dims.size() == 1 &&
      !(in.size() == 1 && node.attr_int("noop_with_empty_axes", 0) != 0)) {
    std::int64_t total = node.op == "ReduceProd" ? 1 : 0;
    for (const std::int64_t v : in[0].values) {
      total = node.op == "ReduceProd" ? wrapped(unsigned_of(total) * unsigned_of(v))
                                      : wrapped(unsigned_of(total) + unsigned_of(v));
    }
    return Ints{in[0].dtype, node.attr_int("keepdims", 1) != 0 ? Dims{1} : Dims{}, {total}};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Tensor> fold_on_host(const Node& node, const std::vector<const Tensor*>& inputs,
                                   const std::vector<std::optional<Dims>>& input_dims) {
  if (!node.domain.empty() || node.outputs.size() != 1) return std::nullopt;
  if (node.op == "Constant") {
    if (const Tensor* value = node.attr_tensor("value")) return *value;
    if (node.has("value_int")) return Tensor::scalar(node.attr_int("value_int", 0));
    if (node.has("value_ints")) return Tensor::from_int64(node.attr_ints("value_ints"));
    if (node.has("value_float")) return Tensor::scalar(node.attr_float("value_float", 0));
    if (node.has("value_floats")) {
      const std::vector<float> values = node.attr_floats("value_floats");
      return Tensor::from<float>(DType::kFloat32, {static_cast<std::int64_t>(values.size())},
                                 values);
    }
    return std::nullopt;
  }
  if ((node.op == "Shape" || node.op == "Size") && input_dims.size() == 1 && input_dims[0]) {
    const Dims& dims = *input_dims[0];
    if (node.op == "Size") return Tensor::scalar(element_count(dims));
    const auto rank = static_cast<std::int64_t>(dims.size());
    const auto clamp = [rank](std::int64_t at) {
      return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
    };
    const std::int64_t start = clamp(node.attr_int("start", 0));
    const std::int64_t end = clamp(node.attr_int("end", rank));
    Dims part;
    for (std::int64_t i = start; i < end; ++i) part.push_back(dims[static_cast<std::size_t>(i)]);
    return Tensor::from_int64(part);
  }
  if (inputs.empty()) return std::nullopt;
  if (node.op == "Cast" && inputs[0] != nullptr && inputs[0]->dtype() == DType::kFloat32 &&
      inputs[0]->count() <= kMaxElements &&
      foldable_dtype(static_cast<DType>(node.attr_int("to", 0)))) {
    Ints out{static_cast<DType>(node.attr_int("to", 0)), inputs[0]->dims(), {}};
    for (std::int64_t i = 0; i < inputs[0]->count(); ++i) {
      const float value = inputs[0]->data<float>()[i];
      if (!(std::abs(value) < 0x1p62F)) return std::nullopt;
      out.values.push_back(out.dtype == DType::kBool ? std::int64_t{value != 0}
                                                     : static_cast<std::int64_t>(value));
    }
    return write(out);
  }
  std::vector<Ints> ints;
  for (const Tensor* input : inputs) {
    std::optional<Ints> value = read(input);
    if (!value) return std::nullopt;
    ints.push_back(std::move(*value));
  }
  const std::optional<Ints> out = fold_ints(node, ints);
  return out ? std::optional(write(*out)) : std::nullopt;
}

}  // namespace xrt
