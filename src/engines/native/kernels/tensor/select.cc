// SPDX-License-Identifier: Apache-2.0
// Ops whose result depends on the order or the values of elements: NonZero, TopK, Unique.
#include <algorithm>
#include <numeric>
#include <type_traits>

#include "base/work_scope.h"
#include "engines/native/context.h"
#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/common/strided.h"
#include "engines/native/kernels/register.h"
#include "engines/native/scratch.h"
#include "ir/attributes.h"

namespace xrt::native {

namespace {

using Created = std::unique_ptr<Kernel>;

void run_non_zero(KernelContext& k) {
  const Tensor& x = k.input(0);
  Scratch<std::int64_t> found;
  TimeCheck time;
  const auto collect = [&]<typename T>() {
    const T* in = x.data<T>();
    for (std::int64_t i = 0; i < x.count(); ++i) {
      time.spend(1);
      if (in[i] != T{}) found.push_back(i);
    }
  };
  if (x.dtype() == DType::kString) {
    collect.template operator()<std::string>();
  } else if (x.dtype() == DType::kFloat32 || x.dtype() == DType::kFloat64) {
    dispatch_float(x.dtype(), collect);
  } else if (is_floating(x.dtype())) {
    // Minus zero is zero.
    for (std::int64_t i = 0; i < x.count(); ++i) {
      float value = 0;
      time.spend(1);
      load_float(x.dtype(), x.raw(), i, 1, &value);
      if (value != 0) found.push_back(i);
    }
  } else {
    dispatch_size(element_size(x.dtype()), [&]<typename T>() {
      if constexpr (!std::is_same_v<T, Bytes16>)
        collect.template operator()<T>();
      else
        fail_dtype(x.dtype());
    });
  }
  const auto count = static_cast<std::int64_t>(found.size());
  Tensor& y = k.output(0, DType::kInt64, {static_cast<std::int64_t>(x.rank()), count});
  auto* out = y.data<std::int64_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    time.spend(static_cast<std::int64_t>(x.rank()));
    std::int64_t rest = found[i];
    for (std::size_t a = x.rank(); a-- > 0;) {
      out[static_cast<std::int64_t>(a) * count + i] = rest % x.dims()[a];
      rest /= x.dims()[a];
    }
  }
}

template <typename T>
void top_of_row(const T* x, std::int64_t n, std::int64_t step, std::int64_t count, bool largest,
                Scratch<std::int64_t>& order, T* values, std::int64_t* indices) {
  order.resize(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  // NaN counts as the largest; equal elements keep their order.
  const auto before = [&](std::int64_t a, std::int64_t b) {
    const T p = x[a * step];
    const T q = x[b * step];
    if (p != p || q != q) {
      const bool first = p != p;
      if (first != (q != q)) return first == largest;
      return a < b;
    }
    if (p != q) return largest ? p > q : p < q;
    return a < b;
  };
  const auto sort = [&](const auto& compare) {
    // A heap of many has its elements all over the memory.
    constexpr std::int64_t kHeap = 1 << 12;
    const auto middle = order.begin() + count;
    if (count <= kHeap) {
      std::partial_sort(order.begin(), middle, order.end(), compare);
    } else {
      std::nth_element(order.begin(), middle, order.end(), compare);
      std::sort(order.begin(), middle, compare);
    }
  };
  if (WorkScope::time_limit() == nullptr) {
    sort(before);
  } else {
    TimeCheck time;
    sort([&](std::int64_t a, std::int64_t b) {
      time.spend(1);
      return before(a, b);
    });
  }
  for (std::int64_t i = 0; i < count; ++i) {
    values[i * step] = x[order[i] * step];
    indices[i * step] = order[i];
  }
}

Created create_top_k(const KernelCreateContext& create) {
  const std::int64_t given_axis = need_int(create.node(), "axis");
  const bool largest = need_int(create.node(), "largest") != 0;
  return make_kernel([given_axis, largest](KernelContext& k) {
    const Tensor& x = k.input(0);
    const std::vector<std::int64_t> wanted = ints_input(k, 1);
    const std::size_t axis = normalize_axis(given_axis, x.rank());
    const std::int64_t n = x.dims()[axis];
    if (wanted.size() != 1 || wanted[0] < 0 || wanted[0] > n) {
      fail("k is not between 0 and the axis' size, " + std::to_string(n));
    }
    const std::int64_t count = wanted[0];
    Dims dims = x.dims();
    dims[axis] = count;
    const DType compute = compute_dtype(x.dtype());
    Tensor& y = k.output(0, x.dtype(), dims);
    Tensor& indices = k.output(1, DType::kInt64, dims);
    if (y.count() == 0) return;
    const Tensor wide = converted(x, compute);
    Tensor values = compute == x.dtype() ? y : allocate_checked(compute, dims);
    const std::int64_t inner = product(x.dims(), axis + 1, x.rank());
    const std::int64_t rows = x.count() / n;
    dispatch_number(compute, [&]<typename T>() {
      k.parallel_for(
          rows, std::max<std::int64_t>(2048 / n, 1), [&](std::int64_t begin, std::int64_t end) {
            Scratch<std::int64_t> order;
            for (std::int64_t row = begin; row < end; ++row) {
              const std::int64_t outer = row / inner;
              const std::int64_t column = row % inner;
              const std::int64_t to = outer * count * inner + column;
              top_of_row(wide.data<T>() + outer * n * inner + column, n, inner, count, largest,
                         order, values.data<T>() + to, indices.data<std::int64_t>() + to);
            }
          });
    });
    if (compute != x.dtype()) store_float(x.dtype(), values.data<float>(), y.count(), y.raw(), 0);
  });
}

// An order of all elements, as NumPy has it: NaN is behind all others, and like any other NaN.
template <typename T>
bool is_before(const T& p, const T& q) {
  if constexpr (std::is_floating_point_v<T>) return p < q || (p == p && q != q);
  return p < q;
}

// Slices along an axis, compared element by element.
template <typename T>
struct Slices {
  const T* data;
  std::int64_t outer, size, inner;
  TimeCheck time = {};
  int compare(std::int64_t a, std::int64_t b) {
    for (std::int64_t o = 0; o < outer; ++o) {
      time.spend(inner);
      for (std::int64_t i = 0; i < inner; ++i) {
        const T& p = data[(o * size + a) * inner + i];
        const T& q = data[(o * size + b) * inner + i];
        if (is_before(p, q)) return -1;
        if (is_before(q, p)) return 1;
      }
    }
    return 0;
  }
};

struct UniqueResult {
  Scratch<std::int64_t> first;    // of each distinct slice, in output order
  Scratch<std::int64_t> inverse;  // output position of each slice, where `wants_inverse`
  Scratch<std::int64_t> counts;
};

template <typename T>
UniqueResult find_unique(Slices<T> slices, bool sorted, bool wants_inverse) {
  UniqueResult result;
  if (slices.outer * slices.inner == 0) {  // they are all the same
    if (slices.size == 0) return result;
    result.first.push_back(0);
    result.counts.push_back(slices.size);
    if (wants_inverse) result.inverse.resize(static_cast<std::size_t>(slices.size));
    return result;
  }
  Scratch<std::int64_t> order(static_cast<std::size_t>(slices.size));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  {
    Scratch<std::int64_t> merged;  // as many as the sort takes for itself
    merged.reserve(order.size() / 2 + 1);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return slices.compare(a, b) < 0; });
  }
  Scratch<std::int64_t> group(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || slices.compare(order[i - 1], order[i]) != 0) {
      result.first.push_back(order[i]);
      result.counts.push_back(0);
    }
    group[order[i]] = static_cast<std::int64_t>(result.first.size()) - 1;
    ++result.counts.back();
  }
  if (!sorted) {
    // In the order of first occurrence.
    Scratch<std::int64_t> by_first(result.first.size());
    std::iota(by_first.begin(), by_first.end(), std::int64_t{0});
    std::sort(by_first.begin(), by_first.end(),
              [&](std::int64_t a, std::int64_t b) { return result.first[a] < result.first[b]; });
    UniqueResult reordered;
    Scratch<std::int64_t> place(by_first.size());
    for (std::size_t i = 0; i < by_first.size(); ++i) {
      place[by_first[i]] = static_cast<std::int64_t>(i);
      reordered.first.push_back(result.first[by_first[i]]);
      reordered.counts.push_back(result.counts[by_first[i]]);
    }
    for (std::int64_t& g : group) g = place[g];
    result = std::move(reordered);
  }
  result.inverse = std::move(group);
  return result;
}

Created create_unique(const KernelCreateContext& create) {
  const bool flat = !create.node().has("axis");
  const std::int64_t given_axis = flat ? 0 : need_int(create.node(), "axis");
  const bool sorted = need_int(create.node(), "sorted") != 0;
  return make_kernel([=](KernelContext& k) {
    const Tensor& x = k.input(0);
    const std::size_t axis = flat ? 0 : normalize_axis(given_axis, x.rank());
    const std::int64_t size = flat ? x.count() : x.dims()[axis];
    const std::int64_t outer = flat ? 1 : product(x.dims(), 0, axis);
    const std::int64_t inner = flat ? 1 : product(x.dims(), axis + 1, x.rank());
    const DType compute = x.dtype() == DType::kString ? DType::kString
                          : x.dtype() == DType::kBool ? DType::kUInt8
                                                      : compute_dtype(x.dtype());
    const Tensor wide = compute == DType::kString ? x : converted(x, compute);
    UniqueResult found;
    const auto search = [&]<typename T>() {
      found = find_unique(Slices<T>{wide.data<T>(), outer, size, inner}, sorted, k.wants_output(2));
    };
    if (compute == DType::kString)
      search.template operator()<std::string>();
    else
      dispatch_number(compute, search);
    const auto count = static_cast<std::int64_t>(found.first.size());
    Dims dims = flat ? Dims{count} : x.dims();
    dims[axis] = count;
    Tensor& y = k.output(0, x.dtype(), dims);
    TimeCheck time;
    for (std::int64_t o = 0; y.count() > 0 && o < outer; ++o) {
      for (std::int64_t i = 0; i < count; ++i) {
        time.spend(inner);
        copy_elements(x.dtype(), x.raw(), (o * size + found.first[i]) * inner, y.raw(),
                      (o * count + i) * inner, inner);
      }
    }
    const Scratch<std::int64_t>* lists[] = {&found.first, &found.inverse, &found.counts};
    for (std::size_t i = 0; i < 3; ++i) {
      if (!k.wants_output(i + 1)) continue;
      const auto length = static_cast<std::int64_t>(lists[i]->size());
      Tensor& t = k.output(i + 1, DType::kInt64, {length});
      std::copy(lists[i]->begin(), lists[i]->end(), t.data<std::int64_t>());
    }
  });
}

}  // namespace

void register_select_kernels(KernelRegistry& registry) {
  registry.add({.op = "NonZero",
                .supports =
                    [](const NodeView& n) {
                      return n.check_input(0,
                                           kNumericTypes | kFloat8Types | kBoolType | kStringType);
                    },
                .create = [](const KernelCreateContext&) { return make_kernel(run_non_zero); }});
  registry.add({.op = "TopK",
                .supports = [](const NodeView& n) { return n.check_input(0, kNumericTypes); },
                .create = create_top_k});
  registry.add({.op = "Unique",
                .supports =
                    [](const NodeView& n) {
                      return n.check_input(0, kNumericTypes | kBoolType | kStringType);
                    },
                .create = create_unique});
}

}  // namespace xrt::native
