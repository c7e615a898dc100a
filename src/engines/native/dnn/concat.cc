// SPDX-License-Identifier: Apache-2.0
// Concat of tensors of float32 or bytes along an axis whose rows are short, as channels-last memory
// makes them.
#include <algorithm>
#include <cstring>

#include "engines/native/dnn/families.h"
#include "ir/attributes.h"

namespace xrt::native::dnn {
namespace {

// Copies `rows` rows of `width` elements, `stride` elements apart at the destination.
template <typename T>
void copy_rows(const T* from, T* to, std::int64_t rows, std::int64_t width, std::int64_t stride) {
  if (width == 1) {
    for (std::int64_t r = 0; r < rows; ++r) to[r * stride] = from[r];
    return;
  }
  if (width <= 16) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t i = 0; i < width; ++i) to[i] = from[i];
      from += width;
      to += stride;
    }
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    std::memcpy(to, from, static_cast<std::size_t>(width) * sizeof(T));
    from += width;
    to += stride;
  }
}

struct ConcatPlan {
  Dims dims;
  std::int64_t outer = 1;
  std::vector<std::int64_t> widths;
  std::int64_t stride = 0;
};

ConcatPlan plan_concat(const KernelCreateContext& context) {
  ConcatPlan plan;
  plan.dims = *context.output_type(0).static_dims();
  const std::int64_t axis = need_int(context.node(), "axis");
  for (std::int64_t i = 0; i < axis; ++i) plan.outer *= plan.dims[i];
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    const Dims dims = *context.input_type(i).static_dims();
    std::int64_t width = 1;
    for (std::size_t d = axis; d < dims.size(); ++d) width *= dims[d];
    plan.widths.push_back(width);
    plan.stride += width;
  }
  return plan;
}

Support supports_concat(const NodeView& node) {
  const auto y = node.output_type(0).static_dims();
  const DType dtype = node.output_dtype(0);
  if (!y || (dtype != DType::kFloat32 && dtype != DType::kUInt8 && dtype != DType::kInt8)) {
    return Support::no("only float32 and bytes of known shape are joined here");
  }
  const std::int64_t axis = need_int(node.node(), "axis");
  if (axis < 0) return Support::no("its axis is counted from the end");
  std::int64_t joined = 0;
  for (std::size_t i = 0; i < node.input_count(); ++i) {
    const auto dims = node.input_type(i).static_dims();
    if (!dims || dims->size() != y->size() || axis >= static_cast<std::int64_t>(y->size())) {
      return Support::no("the shape of an input is not known before the run");
    }
    for (std::size_t d = 0; d < dims->size(); ++d) {
      if (static_cast<std::int64_t>(d) != axis && (*dims)[d] != (*y)[d]) {
        return Support::no("the shapes do not fit");
      }
    }
    joined += (*dims)[axis];
  }
  if (joined != (*y)[axis]) return Support::no("the shapes do not fit");
  return Support::yes();
}

template <typename T>
void join(const ConcatPlan& plan, KernelContext& k, DType dtype) {
  T* y = static_cast<T*>(k.output(0, dtype, plan.dims).raw());
  const std::int64_t grain =
      std::max<std::int64_t>(1, 32768 / std::max<std::int64_t>(1, plan.stride));
  k.parallel_for(plan.outer, grain, [&](std::int64_t begin, std::int64_t end) {
    T* to = y + begin * plan.stride;
    for (std::size_t i = 0; i < plan.widths.size(); ++i) {
      const std::int64_t width = plan.widths[i];
      const T* from = static_cast<const T*>(k.input(i).raw()) + begin * width;
      copy_rows(from, to, end - begin, width, plan.stride);
      to += width;
    }
  });
}

}  // namespace

void register_concat(KernelRegistry& registry) {
  registry.add({.op = "Concat",
                .priority = kPriority,
                .supports = supports_concat,
                .create = [](const KernelCreateContext& context) {
                  return make_kernel([plan = plan_concat(context),
                                      dtype = context.output_dtype(0)](KernelContext& k) {
                    if (dtype == DType::kFloat32) {
                      join<float>(plan, k, dtype);
                    } else {
                      join<std::uint8_t>(plan, k, dtype);
                    }
                  });
                }});
}

}  // namespace xrt::native::dnn
