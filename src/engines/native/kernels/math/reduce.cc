// SPDX-License-Identifier: Apache-2.0
// Reduce*, ArgMax, ArgMin, CumSum, CumProd.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engines/native/context.h"
#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/common/strided.h"
#include "engines/native/kernels/register.h"
#include "engines/native/kernels/vector/vector_ops.h"
#include "ir/attributes.h"

namespace xrt::native {

namespace {

using Created = std::unique_ptr<Kernel>;

enum class Reduction : std::uint8_t {
  kSum,
  kMean,
  kMax,
  kMin,
  kProd,
  kL1,
  kL2,
  kLogSum,
  kLogSumExp,
  kSumSquare,
};

// How a reduction's axes divide the input: rows of `kept` axes, each over `reduced` elements.
struct Split {
  Dims output;            // with the reduced axes as 1 or dropped
  StridedView view;       // kept axes first, then reduced
  std::int64_t kept = 1;  // rows
  std::int64_t reduced = 1;
};

Split split_axes(const Dims& dims, const std::vector<std::size_t>& axes, bool keep) {
  Split split;
  const Dims strides = dense_strides(dims);
  std::vector<bool> reduced(dims.size());
  for (const std::size_t axis : axes) reduced[axis] = true;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (reduced[i]) {
      if (keep) split.output.push_back(1);
      split.reduced *= dims[i];
      continue;
    }
    split.output.push_back(dims[i]);
    split.kept *= dims[i];
    split.view.dims.push_back(dims[i]);
    split.view.strides.push_back(strides[i]);
  }
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (!reduced[i]) continue;
    split.view.dims.push_back(dims[i]);
    split.view.strides.push_back(strides[i]);
  }
  return split;
}

template <typename T>
T identity(Reduction op) {
  using Limits = std::numeric_limits<T>;
  switch (op) {
    case Reduction::kMax:
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case Reduction::kMin:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
    case Reduction::kProd:
      return T{1};
    default:
      return T{0};
  }
}

// Sums of integers wrap; floats are summed in double.
template <typename T>
T reduce_row(Reduction op, const T* x, std::int64_t n) {
  constexpr bool kFloat = std::is_floating_point_v<T>;
  using Sum = std::conditional_t<kFloat, double, std::uint64_t>;
  Sum sum = 0;
  switch (op) {
    case Reduction::kMax:
    case Reduction::kMin: {
      T best = identity<T>(op);
      for (std::int64_t i = 0; i < n; ++i) {
        if (best != best) break;
        if (x[i] != x[i] || (op == Reduction::kMax ? x[i] > best : x[i] < best)) best = x[i];
      }
      return best;
    }
    case Reduction::kProd: {
      Sum product = 1;
      for (std::int64_t i = 0; i < n; ++i) product *= static_cast<Sum>(x[i]);
      return static_cast<T>(product);
    }
    case Reduction::kL1:
      for (std::int64_t i = 0; i < n; ++i) {
        const Sum value = static_cast<Sum>(x[i]);
        sum += x[i] < T{0} ? Sum{0} - value : value;
      }
      return static_cast<T>(sum);
    case Reduction::kL2:
    case Reduction::kSumSquare:
      for (std::int64_t i = 0; i < n; ++i) sum += static_cast<Sum>(x[i]) * static_cast<Sum>(x[i]);
      return static_cast<T>(op == Reduction::kL2 ? std::sqrt(static_cast<double>(sum))
                                                 : static_cast<double>(0) + sum);
    case Reduction::kLogSumExp: {
      double highest = -std::numeric_limits<double>::infinity();
      for (std::int64_t i = 0; i < n; ++i) highest = std::max(highest, static_cast<double>(x[i]));
      if (std::isinf(highest)) return static_cast<T>(highest);
      double total = 0;
      for (std::int64_t i = 0; i < n; ++i) total += std::exp(static_cast<double>(x[i]) - highest);
      return static_cast<T>(std::log(total) + highest);
    }
    default:
      for (std::int64_t i = 0; i < n; ++i) sum += static_cast<Sum>(x[i]);
  }
  if (op == Reduction::kMean) {
    if constexpr (kFloat)
      return static_cast<T>(sum / static_cast<double>(n));
    else
      return n == 0 ? T{0} : static_cast<T>(static_cast<std::int64_t>(sum) / n);
  }
  if (op == Reduction::kLogSum) return static_cast<T>(std::log(static_cast<double>(sum)));
  return static_cast<T>(sum);
}

float reduce_fast(Reduction op, const float* x, std::int64_t n, const VectorOps& ops) {
  switch (op) {
    case Reduction::kSum:
      return ops.sum(x, n);
    case Reduction::kMean:
      return ops.sum(x, n) / static_cast<float>(n);
    case Reduction::kMax:
      return ops.maximum(x, n);
    case Reduction::kMin:
      return ops.minimum(x, n);
    case Reduction::kSumSquare:
      return ops.sum_squares(x, n);
    case Reduction::kL2:
      return std::sqrt(ops.sum_squares(x, n));
    default:
      return reduce_row(op, x, n);
  }
}

template <typename T>
void reduce_rows(const KernelContext& k, Reduction op, const T* x, std::int64_t rows,
                 std::int64_t n, T* y) {
  const std::int64_t grain = std::max<std::int64_t>(16384 / std::max<std::int64_t>(n, 1), 1);
  k.parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      if constexpr (std::is_same_v<T, float>) {
        y[row] = reduce_fast(op, x + row * n, n, vector_ops());
      } else {
        y[row] = reduce_row(op, x + row * n, n);
      }
    }
  });
}

// One block of reduced axes with axes inside it: whole rows are combined, which needs no gathering.
// False where the axes, the type or the op are others.
bool reduce_block(const KernelContext& k, Reduction op, const Tensor& x,
                  std::vector<std::size_t> axes, Tensor& y) {
  const bool sum = op == Reduction::kSum || op == Reduction::kMean;
  if (x.dtype() != DType::kFloat32 || axes.empty() || x.count() == 0 ||
      (!sum && op != Reduction::kMax && op != Reduction::kMin)) {
    return false;
  }
  std::sort(axes.begin(), axes.end());
  for (std::size_t a = axes.front(); a <= axes.back(); ++a) {
    const bool reduced = std::find(axes.begin(), axes.end(), a) != axes.end();
    if (!reduced && x.dims()[a] != 1) return false;
  }
  const std::int64_t outer = product(x.dims(), 0, axes.front());
  const std::int64_t n = product(x.dims(), axes.front(), axes.back() + 1);
  const std::int64_t inner = product(x.dims(), axes.back() + 1, x.rank());
  if (inner < 8) return false;
  const VectorOps& ops = vector_ops();
  const VectorOps::Binary combine = sum ? ops.add : op == Reduction::kMax ? ops.max : ops.min;
  // Parts of rows that stay in the cache while all n are combined.
  constexpr std::int64_t kPart = 2048;
  const std::int64_t parts = (inner + kPart - 1) / kPart;
  const std::int64_t grain = std::max<std::int64_t>(32768 / (n * std::min(inner, kPart)), 1);
  k.parallel_for(outer * parts, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t o = item / parts;
      const std::int64_t first = item % parts * kPart;
      const std::int64_t count = std::min(kPart, inner - first);
      const float* from = x.data<float>() + o * n * inner + first;
      float* to = y.data<float>() + o * inner + first;
      std::copy_n(from, count, to);
      for (std::int64_t i = 1; i < n; ++i) combine(to, 1, from + i * inner, 1, to, count);
      if (op == Reduction::kMean) {
        ops.scale_shift(to, to, count, 1.0F / static_cast<float>(n), 0.0F);
      }
    }
  });
  return true;
}

std::vector<std::size_t> reduce_axes(const KernelContext& k, std::size_t rank, bool noop) {
  std::vector<std::int64_t> axes;
  if (k.has_input(1)) axes = ints_input(k, 1);
  if (axes.empty() && !noop) {
    for (std::size_t i = 0; i < rank; ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  return normalize_axes(axes, rank);
}

void run_reduce(KernelContext& k, Reduction op, bool keep, bool noop) {
  const Tensor& x = k.input(0);
  const std::vector<std::size_t> axes = reduce_axes(k, x.rank(), noop);
  const Split split = split_axes(x.dims(), axes, keep);
  Tensor& y = k.output(0, x.dtype(), split.output);
  if (y.count() == 0 || reduce_block(k, op, x, axes, y)) return;
  const bool boolean = x.dtype() == DType::kBool;
  const DType compute = boolean ? DType::kUInt8 : compute_dtype(x.dtype());
  const Tensor wide =
      boolean ? Tensor::wrap(DType::kUInt8, x.dims(), const_cast<void*>(x.raw()), x.owner())
              : converted(x, compute);
  // Where the reduced axes are innermost the rows lie densely; else they are gathered first.
  Dims ordered = dense_strides(split.view.dims);
  bool dense = true;
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    dense = dense && (split.view.dims[i] == 1 || ordered[i] == split.view.strides[i]);
  }
  Tensor rows = wide;
  if (!dense && wide.count() > 0) {
    rows = allocate_checked(compute, {wide.count()});
    copy_view(k, wide.raw(), split.view, compute, rows.raw());
  }
  Tensor result = compute == y.dtype() ? y : allocate_checked(compute, y.dims());
  dispatch_number(compute, [&]<typename T>() {
    if (boolean && op == Reduction::kMin && split.reduced == 0) {
      std::fill_n(result.data<T>(), result.count(), T{1});
      return;
    }
    reduce_rows(k, op, rows.data<T>(), split.kept, split.reduced, result.data<T>());
  });
  if (boolean) {
    for (std::int64_t i = 0; i < y.count(); ++i) {
      y.data<std::uint8_t>()[i] = result.data<std::uint8_t>()[i] != 0;
    }
  } else if (compute != y.dtype()) {
    store_float(y.dtype(), result.data<float>(), y.count(), y.raw(), 0);
  }
}

void add_reduce(KernelRegistry& registry, const char* name, Reduction op, DTypeSet types) {
  registry.add({.op = name,
                .supports = [types](const NodeView& n) { return n.check_input(0, types); },
                .create =
                    [op](const KernelCreateContext& create) {
                      const bool keep = need_int(create.node(), "keepdims") != 0;
                      const bool noop = need_int(create.node(), "noop_with_empty_axes") != 0;
                      return make_kernel([=](KernelContext& k) { run_reduce(k, op, keep, noop); });
                    }});
}

Created make_arg(const KernelCreateContext& create, bool maximum) {
  const std::int64_t given_axis = need_int(create.node(), "axis");
  const bool keep = need_int(create.node(), "keepdims") != 0;
  const bool last = need_int(create.node(), "select_last_index") != 0;
  return make_kernel([=](KernelContext& k) {
    const Tensor& x = k.input(0);
    const std::size_t axis = normalize_axis(given_axis, x.rank());
    Dims dims = x.dims();
    const std::int64_t size = dims[axis];
    if (keep)
      dims[axis] = 1;
    else
      dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
    Tensor& y = k.output(0, DType::kInt64, dims);
    if (y.count() == 0) return;
    if (size == 0) fail("an empty axis has no largest or smallest element");
    const std::int64_t inner = product(x.dims(), axis + 1, x.rank());
    const DType compute = compute_dtype(x.dtype());
    const Tensor wide = converted(x, compute);
    auto* out = y.data<std::int64_t>();
    dispatch_number(compute, [&]<typename T>() {
      const T* in = wide.data<T>();
      k.parallel_for(y.count(), std::max<std::int64_t>(8192 / size, 1),
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t e = begin; e < end; ++e) {
                         const T* p = in + e / inner * size * inner + e % inner;
                         T best = p[0];
                         std::int64_t where = 0;
                         for (std::int64_t i = 1; i < size; ++i) {
                           const T v = p[i * inner];
                           bool better = maximum ? v > best : v < best;
                           bool same = v == best;
                           if constexpr (std::is_floating_point_v<T>) {
                             // A NaN is the largest and the smallest, as in NumPy and PyTorch.
                             better |= std::isnan(v) && !std::isnan(best);
                             same |= std::isnan(v) && std::isnan(best);
                           }
                           if (better || (last && same)) {
                             best = v;
                             where = i;
                           }
                         }
                         out[e] = where;
                       }
                     });
    });
  });
}

Created make_cumulative(const KernelCreateContext& create, bool multiply) {
  const bool exclusive = need_int(create.node(), "exclusive") != 0;
  const bool reverse = need_int(create.node(), "reverse") != 0;
  return make_kernel([=](KernelContext& k) {
    const Tensor& x = k.input(0);
    const std::vector<std::int64_t> given = ints_input(k, 1);
    if (given.size() != 1) fail("the axis is not a scalar");
    const std::size_t axis = normalize_axis(given[0], x.rank());
    Tensor& y = k.output(0, x.dtype(), x.dims());
    const DType compute = compute_dtype(x.dtype());
    const Tensor wide = converted(x, compute);
    Tensor result = compute == x.dtype() ? y : allocate_checked(compute, x.dims());
    const std::int64_t size = x.dims()[axis];
    const std::int64_t inner = product(x.dims(), axis + 1, x.rank());
    const std::int64_t outer = product(x.dims(), 0, axis);
    dispatch_number(compute, [&]<typename T>() {
      using Sum = std::conditional_t<std::is_floating_point_v<T>, T, std::uint64_t>;
      for (std::int64_t row = 0; row < outer * inner; ++row) {
        const std::int64_t base = row / inner * size * inner + row % inner;
        const T* in = wide.data<T>() + base;
        T* out = result.data<T>() + base;
        Sum sum = multiply ? 1 : 0;
        for (std::int64_t i = 0; i < size; ++i) {
          const std::int64_t at = (reverse ? size - 1 - i : i) * inner;
          const Sum value = static_cast<Sum>(in[at]);
          if (exclusive) out[at] = static_cast<T>(sum);
          sum = multiply ? sum * value : sum + value;
          if (!exclusive) out[at] = static_cast<T>(sum);
        }
      }
    });
    if (compute != x.dtype()) {
      store_float(x.dtype(), result.data<float>(), y.count(), y.raw(), 0);
    }
  });
}

}  // namespace

void register_reduce_kernels(KernelRegistry& registry) {
  add_reduce(registry, "ReduceSum", Reduction::kSum, kNumericTypes);
  add_reduce(registry, "ReduceMean", Reduction::kMean, kNumericTypes);
  add_reduce(registry, "ReduceMax", Reduction::kMax, kNumericTypes | kBoolType);
  add_reduce(registry, "ReduceMin", Reduction::kMin, kNumericTypes | kBoolType);
  add_reduce(registry, "ReduceProd", Reduction::kProd, kNumericTypes);
  add_reduce(registry, "ReduceL1", Reduction::kL1, kNumericTypes);
  add_reduce(registry, "ReduceL2", Reduction::kL2, kNumericTypes);
  add_reduce(registry, "ReduceLogSum", Reduction::kLogSum, kNumericTypes);
  add_reduce(registry, "ReduceLogSumExp", Reduction::kLogSumExp, kNumericTypes);
  add_reduce(registry, "ReduceSumSquare", Reduction::kSumSquare, kNumericTypes);
  const auto numbers = [](const NodeView& n) { return n.check_input(0, kNumericTypes); };
  registry.add({.op = "ArgMax", .supports = numbers, .create = [](const KernelCreateContext& c) {
                  return make_arg(c, true);
                }});
  registry.add({.op = "ArgMin", .supports = numbers, .create = [](const KernelCreateContext& c) {
                  return make_arg(c, false);
                }});
  registry.add({.op = "CumSum", .supports = numbers, .create = [](const KernelCreateContext& c) {
                  return make_cumulative(c, false);
                }});
  registry.add({.op = "CumProd", .supports = numbers, .create = [](const KernelCreateContext& c) {
                  return make_cumulative(c, true);
                }});
}

}  // namespace xrt::native
