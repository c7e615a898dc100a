// SPDX-License-Identifier: Apache-2.0
// Reduce*, ArgMax, ArgMin, CumSum, CumProd.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "engines/native/context.h"
#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/common/fold.h"
#include "engines/native/kernels/common/strided.h"
#include "engines/native/kernels/register.h"
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

// Neighbouring axes of the input that are all reduced or all kept, as one.
struct AxisGroup {
  std::int64_t size = 1;
  bool reduced = false;
};

// How a reduction's axes divide the input; axes of one element are left out.
struct Split {
  Dims output;  // with the reduced axes as 1 or dropped
  std::vector<AxisGroup> groups;
  std::int64_t reduced = 1;  // elements per result
};

Split split_axes(const Dims& dims, const std::vector<std::size_t>& axes, bool keep) {
  Split split;
  std::vector<bool> reduced(dims.size());
  for (const std::size_t axis : axes) reduced[axis] = true;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (!reduced[i]) split.output.push_back(dims[i]);
    if (reduced[i] && keep) split.output.push_back(1);
    if (reduced[i]) split.reduced *= dims[i];
    if (dims[i] == 1) continue;
    if (split.groups.empty() || split.groups.back().reduced != reduced[i]) {
      split.groups.push_back({1, reduced[i]});
    }
    split.groups.back().size *= dims[i];
  }
  return split;
}

// x[outer][n][inner], to be reduced over n.
struct Block {
  std::int64_t outer = 1, n = 1, inner = 1;
};

Block block_at(const std::vector<AxisGroup>& groups, std::size_t at) {
  Block block;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    (g < at ? block.outer : g == at ? block.n : block.inner) *= groups[g].size;
  }
  return block;
}

// Index of the largest group that is reduced; groups.size() where there is none.
std::size_t largest_reduced(const std::vector<AxisGroup>& groups) {
  std::size_t found = groups.size();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].reduced && (found == groups.size() || groups[g].size >= groups[found].size)) {
      found = g;
    }
  }
  return found;
}

// Takes a reduced group away; the kept ones beside it become one.
void remove_group(std::vector<AxisGroup>& groups, std::size_t at) {
  if (at > 0 && at + 1 < groups.size()) {
    groups[at - 1].size *= groups[at + 1].size;
    groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(at));
}

FoldKind fold_kind(Reduction op) {
  switch (op) {
    case Reduction::kMax:
      return FoldKind::kMax;
    case Reduction::kMin:
      return FoldKind::kMin;
    case Reduction::kProd:
      return FoldKind::kProd;
    case Reduction::kL1:
      return FoldKind::kAbs;
    case Reduction::kL2:
    case Reduction::kSumSquare:
      return FoldKind::kSquares;
    default:
      return FoldKind::kSum;
  }
}

// What `dtype` is reduced as. Sums of integers wrap; those of uint64 are of the same bits as
// int64's.
DType fold_dtype(FoldKind kind, DType dtype) {
  const bool extreme = kind == FoldKind::kMax || kind == FoldKind::kMin;
  if (is_floating(dtype)) return compute_dtype(dtype);
  if (dtype == DType::kInt32 || dtype == DType::kInt64 || dtype == DType::kUInt64) return dtype;
  if (extreme && dtype == DType::kBool) return DType::kUInt8;
  if (extreme && (dtype == DType::kInt8 || dtype == DType::kUInt8)) return dtype;
  return DType::kInt64;
}

FoldType fold_type(FoldKind kind, DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return FoldType::kFloat32;
    case DType::kFloat64:
      return FoldType::kFloat64;
    case DType::kInt32:
      return FoldType::kInt32;
    case DType::kInt8:
      return FoldType::kInt8;
    case DType::kUInt8:
      return FoldType::kUInt8;
    case DType::kUInt64:
      if (kind == FoldKind::kMax || kind == FoldKind::kMin) return FoldType::kUInt64;
      return FoldType::kInt64;
    default:
      return FoldType::kInt64;
  }
}

// The least value of an integer type, as the logarithm of 0.
std::int64_t least_integer(DType dtype) {
  const bool is_unsigned = dtype == DType::kUInt8 || dtype == DType::kUInt16 ||
                           dtype == DType::kUInt32 || dtype == DType::kUInt64;
  if (is_unsigned) return 0;
  return static_cast<std::int64_t>(~std::uint64_t{0} << (bit_width(dtype) - 1));
}

// From sums to results, in place.
template <typename T>
void finish_floats(Reduction op, std::int64_t n, T* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (op == Reduction::kMean) y[i] /= static_cast<T>(n);
    if (op == Reduction::kL2) y[i] = std::sqrt(y[i]);
    if (op == Reduction::kLogSum) y[i] = std::log(y[i]);
  }
}

void finish_integers(Reduction op, std::int64_t n, DType dtype, std::int64_t* y,
                     std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto sum = static_cast<double>(static_cast<std::uint64_t>(y[i]));
    if (op == Reduction::kMean) y[i] = n == 0 ? 0 : y[i] / n;
    if (op == Reduction::kL2) y[i] = static_cast<std::int64_t>(std::sqrt(sum));
    if (op == Reduction::kLogSum) {
      y[i] = y[i] == 0 ? least_integer(dtype) : static_cast<std::int64_t>(std::log(sum));
    }
  }
}

bool has_finish(Reduction op) {
  return op == Reduction::kMean || op == Reduction::kL2 || op == Reduction::kLogSum;
}

void store(const Tensor& result, Tensor& y) {
  if (result.raw() == y.raw()) return;
  if (result.dtype() == DType::kFloat32) {
    store_float(y.dtype(), result.data<float>(), y.count(), y.raw(), 0);
  } else if (result.dtype() == DType::kInt64) {
    store_int64(y.dtype(), result.data<std::int64_t>(), y.count(), y.raw(), 0);
  } else {
    for (std::int64_t i = 0; i < y.count(); ++i) {
      y.data<std::uint8_t>()[i] = result.data<std::uint8_t>()[i] != 0;
    }
  }
}

void reduce_log_sum_exp(KernelContext& k, const Tensor& x, const Split& split,
                        const std::vector<std::size_t>& axes, Tensor& y) {
  const bool wide = x.dtype() == DType::kFloat64 || !is_floating(x.dtype());
  Tensor rows = converted(x, wide ? DType::kFloat64 : DType::kFloat32);
  const auto reduced_groups = std::count_if(split.groups.begin(), split.groups.end(),
                                            [](AxisGroup g) { return g.reduced; });
  Block block = block_at(split.groups, largest_reduced(split.groups));
  if (reduced_groups > 1) {
    // Elements of one result after each other: what is reduced in one step only.
    StridedView view;
    const Dims strides = dense_strides(x.dims());
    for (const bool reduced : {false, true}) {
      for (std::size_t i = 0; i < x.rank(); ++i) {
        if ((std::find(axes.begin(), axes.end(), i) != axes.end()) != reduced) continue;
        view.dims.push_back(x.dims()[i]);
        view.strides.push_back(strides[i]);
      }
    }
    Tensor ordered = allocate_checked(rows.dtype(), {rows.count()});
    copy_view(k, rows.raw(), view, rows.dtype(), ordered.raw());
    rows = ordered;
    block = {y.count(), split.reduced, 1};
  }
  Tensor result = y.dtype() == rows.dtype() ? y : allocate_checked(rows.dtype(), y.dims());
  if (!wide) {
    if (reduced_groups == 0) block = {block.outer, 1, 1};
    exponentials_block(k, Exponentials::kLogSum, rows.data<float>(), block.outer, block.n,
                       block.inner, result.data<float>());
    return store(result, y);
  }
  const auto* in = rows.data<double>();
  auto* out = result.data<double>();
  k.parallel_for(y.count(), std::max<std::int64_t>(4096 / block.n, 1),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t e = begin; e < end; ++e) {
                     const double* p =
                         in + e / block.inner * block.n * block.inner + e % block.inner;
                     double highest = p[0];
                     for (std::int64_t i = 1; i < block.n; ++i) {
                       highest = std::max(highest, p[i * block.inner]);
                     }
                     double sum = 0;
                     for (std::int64_t i = 0; i < block.n; ++i) {
                       sum += std::exp(p[i * block.inner] - highest);
                     }
                     out[e] = std::isinf(highest) ? highest : std::log(sum) + highest;
                   }
                 });
  if (y.dtype() != DType::kFloat64) store_double(y.dtype(), out, y.count(), y.raw(), 0);
}

void fill_numbers(Tensor& y, double value) {
  constexpr std::int64_t kBlock = 512;
  double block[kBlock];
  std::fill_n(block, kBlock, value);
  for (std::int64_t i = 0; i < y.count(); i += kBlock) {
    store_double(y.dtype(), block, std::min(kBlock, y.count() - i), y.raw(), i, false);
  }
}

// Of no elements.
void reduce_nothing(Reduction op, Tensor& y) {
  using Limits = std::numeric_limits<double>;
  if (op == Reduction::kMax || op == Reduction::kMin || op == Reduction::kProd) {
    const bool most = op == Reduction::kMin;
    if (y.dtype() == DType::kBool) {
      std::fill_n(y.data<std::uint8_t>(), y.count(), most ? 1 : 0);
    } else if (op == Reduction::kProd || is_floating(y.dtype())) {
      const double value = op == Reduction::kProd ? 1
                           : most                 ? Limits::infinity()
                                                  : -Limits::infinity();
      fill_numbers(y, value);
    } else {
      dispatch_integer(y.dtype(), [&]<typename T>() {
        const T value = most ? std::numeric_limits<T>::max() : std::numeric_limits<T>::lowest();
        std::fill_n(y.data<T>(), y.count(), value);
      });
    }
    return;
  }
  if (!is_floating(y.dtype())) {
    const bool logarithm = op == Reduction::kLogSum || op == Reduction::kLogSumExp;
    const std::int64_t value = logarithm ? least_integer(y.dtype()) : 0;
    dispatch_integer(y.dtype(), [&]<typename T>() {
      std::fill_n(y.data<T>(), y.count(), static_cast<T>(value));
    });
    return;
  }
  double value = op == Reduction::kLogSumExp ? -Limits::infinity() : 0;
  finish_floats(op, 0, &value, 1);
  fill_numbers(y, value);
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
  Split split = split_axes(x.dims(), axes, keep);
  Tensor& y = k.output(0, x.dtype(), split.output);
  if (y.count() == 0) return;
  if (x.count() == 0) return reduce_nothing(op, y);
  if (op == Reduction::kLogSumExp) return reduce_log_sum_exp(k, x, split, axes, y);

  FoldKind kind = fold_kind(op);
  if (kind == FoldKind::kAbs && x.dtype() == DType::kUInt64) kind = FoldKind::kSum;
  const bool extreme = kind == FoldKind::kMax || kind == FoldKind::kMin;
  const DType compute = fold_dtype(kind, x.dtype());
  // Sums of integers are of 64 bits.
  const DType made = extreme || is_floating(compute) ? compute : DType::kInt64;
  const bool direct = made == y.dtype() || (made == DType::kInt64 && y.dtype() == DType::kUInt64);
  Tensor part = x.dtype() == DType::kBool ? x : converted(x, compute);
  FoldType type = fold_type(kind, compute);
  Tensor result;
  // The largest group first: what is left for the others is small.
  do {
    const std::size_t at = largest_reduced(split.groups);
    const Block block = block_at(split.groups, at);
    if (at < split.groups.size()) remove_group(split.groups, at);
    const bool done = largest_reduced(split.groups) == split.groups.size();
    result = done && direct ? y : allocate_checked(made, {block.outer * block.inner});
    fold_block(k, kind, type, part.raw(), block.outer, block.n, block.inner, result.raw());
    part = result;
    type = fold_type(kind, made);
    if (kind == FoldKind::kAbs || kind == FoldKind::kSquares) kind = FoldKind::kSum;
  } while (largest_reduced(split.groups) < split.groups.size());
  if (has_finish(op)) {
    if (made == DType::kInt64) {
      finish_integers(op, split.reduced, y.dtype(), static_cast<std::int64_t*>(result.raw()),
                      y.count());
    } else {
      dispatch_float(made, [&]<typename T>() {
        finish_floats(op, split.reduced, result.data<T>(), y.count());
      });
    }
  }
  store(result, y);
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
    const Tensor wide = converted(x, compute_dtype(x.dtype()));
    arg_block(k, maximum, last, wide.dtype(), wide.raw(), product(x.dims(), 0, axis), size, inner,
              y.data<std::int64_t>());
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
    if (y.count() == 0) return;
    const DType compute = compute_dtype(x.dtype());
    const Tensor wide = converted(x, compute);
    Tensor result = compute == x.dtype() ? y : allocate_checked(compute, x.dims());
    const std::int64_t size = x.dims()[axis];
    const std::int64_t inner = product(x.dims(), axis + 1, x.rank());
    const std::int64_t outer = product(x.dims(), 0, axis);
    dispatch_number(compute, [&]<typename T>() {
      using Sum = std::conditional_t<std::is_floating_point_v<T>, T, std::uint64_t>;
      const std::int64_t grain = std::max<std::int64_t>(16384 / std::max<std::int64_t>(size, 1), 1);
      k.parallel_for(outer * inner, grain, [&](std::int64_t begin, std::int64_t end) {
        // Columns beside each other go down together.
        constexpr std::int64_t kColumns = 64;
        for (std::int64_t first = begin, next; first < end; first = next) {
          const std::int64_t o = first / inner;
          next = std::min({end, (o + 1) * inner, first + kColumns});
          const std::int64_t count = next - first;
          const std::int64_t base = o * size * inner + first % inner;
          const T* const from = wide.data<T>() + base;
          T* const to = result.data<T>() + base;
          if (count == 1) {  // in a register
            Sum sum = multiply ? 1 : 0;
            for (std::int64_t i = 0; i < size; ++i) {
              const std::int64_t at = (reverse ? size - 1 - i : i) * inner;
              const Sum before = sum;
              const Sum value = static_cast<Sum>(from[at]);
              sum = multiply ? before * value : before + value;
              to[at] = static_cast<T>(exclusive ? before : sum);
            }
            continue;
          }
          Sum sums[kColumns];
          std::fill_n(sums, count, multiply ? Sum{1} : Sum{0});
          for (std::int64_t i = 0; i < size; ++i) {
            const std::int64_t at = (reverse ? size - 1 - i : i) * inner;
            const T* in = from + at;
            T* out = to + at;
            for (std::int64_t j = 0; j < count; ++j) {
              const Sum before = sums[j];
              const Sum value = static_cast<Sum>(in[j]);
              sums[j] = multiply ? before * value : before + value;
              out[j] = static_cast<T>(exclusive ? before : sums[j]);
            }
          }
        }
      });
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
