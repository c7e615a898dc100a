// SPDX-License-Identifier: Apache-2.0
// Ops that give their input another shape, or say what its shape is.
#include <algorithm>
#include <cstring>

#include "engines/native/kernels/common/axes.h"
#include "engines/native/kernels/common/text.h"
#include "engines/native/kernels/register.h"
#include "ir/attributes.h"

namespace xrt::native {

namespace {

using CreateResult = std::unique_ptr<Kernel>;

CreateResult create_identity(const KernelCreateContext& create) {
  if (create.input_type(0).is_tensor()) {
    return make_kernel([](KernelContext& k) { k.output_view(0, 0, k.input(0).dims()); },
                       {.view_of = 0});
  }
  return make_kernel([](KernelContext& k) { k.set_output(0, k.taken_input(0)); },
                     {.allocates = false, .retains_inputs = true});
}

CreateResult create_reshape(const KernelCreateContext& create) {
  const bool allow_zero = need_int(create.node(), "allowzero") != 0;
  return make_kernel(
      [allow_zero](KernelContext& k) {
        const Tensor& x = k.input(0);
        Dims dims = k.input(1).to_int64();
        std::int64_t known = 1;
        std::size_t open = dims.size();
        for (std::size_t i = 0; i < dims.size(); ++i) {
          if (dims[i] == 0 && !allow_zero) {
            if (i >= x.rank()) fail("dimension 0 at " + std::to_string(i) + " has none to copy");
            dims[i] = x.dims()[i];
          }
          if (dims[i] == -1) {
            if (open != dims.size()) fail("two dimensions are -1");
            open = i;
          } else if (dims[i] < 0 || __builtin_mul_overflow(known, dims[i], &known)) {
            fail("the shape " + shape_text(dims) + " is not valid");
          }
        }
        if (open != dims.size()) {
          if (known == 0 || x.count() % known != 0) {
            fail("cannot reshape " + shape_text(x.dims()) + " to " + shape_text(dims));
          }
          dims[open] = x.count() / known;
        } else if (known != x.count()) {
          fail("cannot reshape " + shape_text(x.dims()) + " to " + shape_text(dims));
        }
        k.output_view(0, 0, dims);
      },
      {.view_of = 0});
}

CreateResult create_flatten(const KernelCreateContext& create) {
  const std::int64_t attribute = need_int(create.node(), "axis");
  return make_kernel(
      [attribute](KernelContext& k) {
        const Tensor& x = k.input(0);
        const auto rank = static_cast<std::int64_t>(x.rank());
        if (attribute < -rank || attribute > rank) {
          fail("axis " + std::to_string(attribute) + " is outside rank " + std::to_string(rank));
        }
        const auto axis = static_cast<std::size_t>(attribute < 0 ? attribute + rank : attribute);
        k.output_view(0, 0, {product(x.dims(), 0, axis), product(x.dims(), axis, x.rank())});
      },
      {.view_of = 0});
}

CreateResult create_squeeze(const KernelCreateContext&) {
  return make_kernel(
      [](KernelContext& k) {
        const Tensor& x = k.input(0);
        Dims dims;
        if (!k.has_input(1)) {
          std::copy_if(x.dims().begin(), x.dims().end(), std::back_inserter(dims),
                       [](std::int64_t d) { return d != 1; });
        } else {
          const auto axes = normalize_axes(ints_input(k, 1), x.rank());
          for (std::size_t i = 0; i < x.rank(); ++i) {
            if (std::find(axes.begin(), axes.end(), i) == axes.end()) {
              dims.push_back(x.dims()[i]);
            } else if (x.dims()[i] != 1) {
              fail("cannot squeeze axis " + std::to_string(i) + " of " + shape_text(x.dims()));
            }
          }
        }
        k.output_view(0, 0, dims);
      },
      {.view_of = 0});
}

CreateResult create_unsqueeze(const KernelCreateContext&) {
  return make_kernel(
      [](KernelContext& k) {
        const Tensor& x = k.input(0);
        const std::vector<std::int64_t> given = ints_input(k, 1);
        const auto axes = normalize_axes(given, x.rank() + given.size());
        Dims dims(x.rank() + axes.size(), -1);
        for (const std::size_t axis : axes) dims[axis] = 1;
        auto next = x.dims().begin();
        for (std::int64_t& d : dims) {
          if (d < 0) d = *next++;
        }
        k.output_view(0, 0, dims);
      },
      {.view_of = 0});
}

CreateResult create_shape(const KernelCreateContext& create) {
  const std::int64_t start = need_int(create.node(), "start");
  const std::int64_t end = create.node().attr_int("end", INT64_MAX);
  return make_kernel([start, end](KernelContext& k) {
    const Dims& dims = k.input(0).dims();
    const auto rank = static_cast<std::int64_t>(dims.size());
    const auto clamp = [rank](std::int64_t i) {
      return std::clamp<std::int64_t>(i < 0 ? i + rank : i, 0, rank);
    };
    const std::int64_t first = clamp(start);
    const std::int64_t count = std::max<std::int64_t>(clamp(end) - first, 0);
    Tensor& y = k.output(0, DType::kInt64, {count});
    std::copy_n(dims.begin() + first, count, y.data<std::int64_t>());
  });
}

CreateResult create_size(const KernelCreateContext&) {
  return make_kernel([](KernelContext& k) {
    const std::int64_t count = k.input(0).count();
    k.output(0, DType::kInt64, {}).data<std::int64_t>()[0] = count;
  });
}

CreateResult create_constant(const KernelCreateContext& create) {
  const Node& node = create.node();
  Tensor value;
  if (const Tensor* tensor = node.attr_tensor("value")) {
    value = *tensor;
  } else if (node.has("value_float")) {
    value = Tensor::scalar(node.attr_float("value_float", 0));
  } else if (node.has("value_int")) {
    value = Tensor::scalar(node.attr_int("value_int", 0));
  } else if (node.has("value_string")) {
    value = Tensor::from_strings({}, {node.attr_string("value_string", "")});
  } else if (node.has("value_floats")) {
    const std::vector<float> values = node.attr_floats("value_floats");
    value = Tensor::from<float>(DType::kFloat32, {static_cast<std::int64_t>(values.size())},
                                std::span<const float>(values));
  } else if (node.has("value_ints")) {
    value = Tensor::from_int64(node.attr_ints("value_ints"));
  } else if (node.has("value_strings")) {
    std::vector<std::string> values = node.attr_strings("value_strings");
    const auto count = static_cast<std::int64_t>(values.size());
    value = Tensor::from_strings({count}, std::move(values));
  } else {
    throw Error(ErrorCode::kUnsupported, "the constant has no dense value");
  }
  return make_kernel([value](KernelContext& k) { k.set_output(0, value.clone()); },
                     {.allocates = false});
}

CreateResult create_constant_of_shape(const KernelCreateContext& create) {
  const Tensor* attribute = create.node().attr_tensor("value");
  const Tensor value = attribute ? *attribute : Tensor::scalar(0.0F);
  if (value.count() != 1) fail("attribute 'value' must hold one element");
  return make_kernel([value](KernelContext& k) {
    const std::vector<std::int64_t> shape = ints_input(k, 0);
    if (std::any_of(shape.begin(), shape.end(), [](std::int64_t d) { return d < 0; })) {
      fail("the shape " + shape_text(shape) + " has a negative dimension");
    }
    Tensor& y = k.output(0, value.dtype(), shape);
    if (value.dtype() == DType::kString) {
      fill_elements(y.strings(), y.count(), value.strings()[0]);
      return;
    }
    const int bits = bit_width(value.dtype());
    auto* out = y.data<std::uint8_t>();
    if (bits < 8) {
      const unsigned element = value.data<std::uint8_t>()[0] & ((1U << bits) - 1);
      unsigned byte = 0;
      for (int shift = 0; shift < 8; shift += bits) byte |= element << shift;
      std::memset(out, static_cast<int>(byte), y.bytes());
      return;
    }
    const std::size_t size = static_cast<std::size_t>(bits) / 8;
    if (y.bytes() == 0) return;
    std::memcpy(out, value.raw(), size);
    for (std::size_t done = size; done < y.bytes();) {
      const std::size_t part = std::min(done, y.bytes() - done);
      std::memcpy(out + done, out, part);
      done += part;
    }
  });
}

}  // namespace

void register_shape_kernels(KernelRegistry& registry) {
  const auto tensor_only = [](const NodeView& n) { return n.check_input(0, kAllTypes); };
  registry.add({.op = "Identity", .create = create_identity});
  registry.add({.op = "Reshape", .supports = tensor_only, .create = create_reshape});
  registry.add({.op = "Flatten", .supports = tensor_only, .create = create_flatten});
  registry.add({.op = "Squeeze", .supports = tensor_only, .create = create_squeeze});
  registry.add({.op = "Unsqueeze", .supports = tensor_only, .create = create_unsqueeze});
  registry.add({.op = "Shape", .supports = tensor_only, .create = create_shape});
  registry.add({.op = "Size", .supports = tensor_only, .create = create_size});
  registry.add({.op = "Constant", .create = create_constant});
  registry.add({.op = "ConstantOfShape", .create = create_constant_of_shape});
}

}  // namespace xrt::native
