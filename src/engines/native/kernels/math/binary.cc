// SPDX-License-Identifier: Apache-2.0
// Elementwise arithmetic on two or more broadcast inputs.
#include <cmath>

#include "engines/native/kernels/common/broadcast.h"
#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/register.h"
#include "engines/native/kernels/vector/vector_ops.h"
#include "ir/attributes.h"

namespace xrt::native {

namespace {

// Unsigned arithmetic wraps where signed arithmetic would be undefined.
template <typename T>
using Wrap = std::conditional_t<(sizeof(T) < 8), std::uint32_t, std::uint64_t>;

struct Add {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>)
      return a + b;
    else
      return static_cast<T>(static_cast<Wrap<T>>(a) + static_cast<Wrap<T>>(b));
  }
};
struct Sub {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>)
      return a - b;
    else
      return static_cast<T>(static_cast<Wrap<T>>(a) - static_cast<Wrap<T>>(b));
  }
};
struct Mul {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>)
      return a * b;
    else
      return static_cast<T>(static_cast<Wrap<T>>(a) * static_cast<Wrap<T>>(b));
  }
};
struct Div {
  // An integer division by zero has no defined result in ONNX; NumPy's is 0.
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return a / b;
    } else {
      if (b == T{0}) return T{0};
      if constexpr (std::is_signed_v<T>) {
        if (b == T{-1}) return static_cast<T>(Wrap<T>{0} - static_cast<Wrap<T>>(a));
      }
      return static_cast<T>(a / b);
    }
  }
};
// The sign of the divisor.
struct Modulo {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      const T r = std::fmod(a, b);
      return r != T{0} && (r < T{0}) != (b < T{0}) ? r + b : r;
    } else {
      if (b == T{0}) return T{0};
      if constexpr (std::is_signed_v<T>) {
        if (b == T{-1}) return T{0};
        const T r = static_cast<T>(a % b);
        return r != T{0} && (r < T{0}) != (b < T{0}) ? static_cast<T>(r + b) : r;
      } else {
        return static_cast<T>(a % b);
      }
    }
  }
};
// The sign of the dividend.
struct Remainder {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return std::fmod(a, b);
    } else {
      if (b == T{0}) return T{0};
      if constexpr (std::is_signed_v<T>) {
        if (b == T{-1}) return T{0};
      }
      return static_cast<T>(a % b);
    }
  }
};
struct Maximum {
  template <typename T>
  T operator()(T a, T b) const {
    return a != a || a > b ? a : b;
  }
};
struct Minimum {
  template <typename T>
  T operator()(T a, T b) const {
    return a != a || a < b ? a : b;
  }
};
struct ParametricRelu {
  template <typename T>
  T operator()(T x, T slope) const {
    return x < T{0} ? Mul{}(x, slope) : x;
  }
};

template <typename T, typename Op>
void apply_row(const T* a, bool a_dense, const T* b, bool b_dense, T* y, std::int64_t n, Op op) {
  if (a_dense && b_dense) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = op(a[i], b[i]);
  } else if (a_dense) {
    const T q = b[0];
    for (std::int64_t i = 0; i < n; ++i) y[i] = op(a[i], q);
  } else {
    const T p = a[0];
    for (std::int64_t i = 0; i < n; ++i) y[i] = op(p, b[b_dense ? i : 0]);
  }
}

// y = op(a, b) elementwise; all three of one compute type.
template <typename Op>
void apply_binary(const KernelContext& k, const Tensor& a, const Tensor& b, Tensor& y,
                  VectorOps::Binary fast) {
  if (y.count() == 0) return;
  const Tensor* inputs[] = {&a, &b};
  const BroadcastLoop loop(y.dims(), inputs);
  const bool a_dense = loop.dense(0);
  const bool b_dense = loop.dense(1);
  if (fast != nullptr && y.dtype() == DType::kFloat32) {
    const float* pa = a.data<float>();
    const float* pb = b.data<float>();
    float* py = y.data<float>();
    loop.run(k, 1, [=](std::int64_t out, const auto& offsets, std::int64_t n) {
      fast(pa + offsets[0], a_dense ? 1 : 0, pb + offsets[1], b_dense ? 1 : 0, py + out, n);
    });
    return;
  }
  dispatch_number(y.dtype(), [&]<typename T>() {
    const T* pa = a.data<T>();
    const T* pb = b.data<T>();
    T* py = y.data<T>();
    loop.run(k, 4, [=](std::int64_t out, const auto& offsets, std::int64_t n) {
      apply_row(pa + offsets[0], a_dense, pb + offsets[1], b_dense, py + out, n, Op{});
    });
  });
}

template <typename Op>
std::unique_ptr<Kernel> make_binary(VectorOps::Binary fast) {
  return make_kernel(
      [fast](KernelContext& k) {
        const Tensor& a = k.input(0);
        const Tensor& b = k.input(1);
        const DType dtype = a.dtype();
        if (b.dtype() != dtype) fail("the inputs have different element types");
        const DType compute = compute_dtype(dtype);
        if (compute == dtype) {
          if (a.dims() == b.dims()) {
            apply_binary<Op>(k, a, b, k.output(0, dtype, a.dims()), fast);
          } else {
            apply_binary<Op>(k, a, b, k.output(0, dtype, broadcast_dims(a.dims(), b.dims())), fast);
          }
          return;
        }
        Tensor& y = k.output(0, dtype, broadcast_dims(a.dims(), b.dims()));
        Tensor wide = allocate_checked(compute, y.dims());
        apply_binary<Op>(k, converted(a, compute), converted(b, compute), wide, fast);
        store_float(dtype, wide.data<float>(), wide.count(), y.raw(), 0);
      },
      {.in_place = {0, 1}});
}

template <typename Op>
void add_binary(KernelRegistry& registry, const char* op, VectorOps::Binary VectorOps::*fast) {
  registry.add({.op = op,
                .supports =
                    [](const NodeView& n) {
                      const Support first = n.check_input(0, kNumericTypes);
                      return first ? n.check_input(1, kNumericTypes) : first;
                    },
                .create =
                    [fast](const KernelCreateContext&) {
                      return make_binary<Op>(fast ? vector_ops().*fast : nullptr);
                    }});
}

// Max, Min, Sum and Mean: any number of inputs, folded from the left.
template <typename Op>
void add_variadic(KernelRegistry& registry, const char* op, VectorOps::Binary VectorOps::*fast,
                  bool mean, DTypeSet types) {
  registry.add({.op = op,
                .supports =
                    [types](const NodeView& n) {
                      for (std::size_t i = 0; i < n.input_count(); ++i) {
                        const Support s = n.check_input(i, types);
                        if (!s) return s;
                      }
                      return Support::yes();
                    },
                .create =
                    [fast, mean](const KernelCreateContext&) {
                      return make_kernel([row = vector_ops().*fast, mean](KernelContext& k) {
                        const DType dtype = k.input(0).dtype();
                        const DType compute = compute_dtype(dtype);
                        const Dims dims = broadcast_inputs(k, k.input_count());
                        Tensor& y = k.output(0, dtype, dims);
                        Tensor sum = compute == dtype ? y : allocate_checked(compute, dims);
                        const std::size_t count = k.input_count();
                        Tensor first = converted(k.input(0), compute);
                        if (count == 1) {
                          std::copy_n(first.data<std::byte>(), first.bytes(),
                                      sum.data<std::byte>());
                        }
                        for (std::size_t i = 1; i < count; ++i) {
                          apply_binary<Op>(k, first, converted(k.input(i), compute), sum, row);
                          first = sum;
                        }
                        if (mean) {
                          dispatch_float(compute, [&]<typename T>() {
                            T* p = sum.data<T>();
                            for (std::int64_t i = 0; i < sum.count(); ++i)
                              p[i] /= static_cast<T>(count);
                          });
                        }
                        if (compute != dtype) {
                          store_float(dtype, sum.data<float>(), sum.count(), y.raw(), 0);
                        }
                      });
                    }});
}

std::unique_ptr<Kernel> create_mod(const KernelCreateContext& create) {
  return need_int(create.node(), "fmod") != 0 ? make_binary<Remainder>(nullptr)
                                              : make_binary<Modulo>(nullptr);
}

template <typename T>
T integer_power(T base, T exponent) {
  if (exponent < T{0}) {
    if (base == T{1}) return T{1};
    if constexpr (std::is_signed_v<T>) {
      if (base == T{-1}) return exponent % 2 == 0 ? T{1} : T{-1};
    }
    return T{0};
  }
  T result = 1;
  while (exponent > T{0}) {
    if (exponent % 2 != 0) result = Mul{}(result, base);
    base = Mul{}(base, base);
    exponent = static_cast<T>(exponent / 2);
  }
  return result;
}

struct Power {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::pow(a, b);
    else
      return integer_power(a, b);
  }
};

void run_pow(KernelContext& k) {
  const Tensor& a = k.input(0);
  const Tensor& b = k.input(1);
  const DType dtype = a.dtype();
  Tensor& y = k.output(0, dtype, broadcast_dims(a.dims(), b.dims()));
  // An integer to the power of a float is computed in double.
  DType compute = compute_dtype(dtype);
  if (is_integer(dtype) && is_floating(b.dtype())) compute = DType::kFloat64;
  const Tensor exponent = converted(b, compute);
  if (compute == DType::kFloat32 && dtype == compute && exponent.count() == 1 &&
      y.count() == a.count()) {
    const float p = exponent.data<float>()[0];
    const float* x = a.data<float>();
    float* out = y.data<float>();
    if (p == 2.0F || p == 0.5F) {
      const auto row = p == 2.0F ? vector_ops().square : vector_ops().sqrt;
      k.parallel_for(a.count(), 32768, [&](std::int64_t begin, std::int64_t end) {
        row(x + begin, out + begin, end - begin, 0, 0);
      });
      return;
    }
  }
  if (compute == dtype) {
    apply_binary<Power>(k, a, exponent, y, nullptr);
    return;
  }
  Tensor wide = allocate_checked(compute, y.dims());
  apply_binary<Power>(k, converted(a, compute), exponent, wide, nullptr);
  if (compute == DType::kFloat64) {
    store_double(dtype, wide.data<double>(), wide.count(), y.raw(), 0);
  } else {
    store_float(dtype, wide.data<float>(), wide.count(), y.raw(), 0);
  }
}

}  // namespace

void register_binary_kernels(KernelRegistry& registry) {
  add_binary<Add>(registry, "Add", &VectorOps::add);
  add_binary<Sub>(registry, "Sub", &VectorOps::sub);
  add_binary<Mul>(registry, "Mul", &VectorOps::mul);
  add_binary<Div>(registry, "Div", &VectorOps::div);
  add_binary<ParametricRelu>(registry, "PRelu", &VectorOps::prelu);
  add_variadic<Maximum>(registry, "Max", &VectorOps::max, false, kNumericTypes);
  add_variadic<Minimum>(registry, "Min", &VectorOps::min, false, kNumericTypes);
  add_variadic<Add>(registry, "Sum", &VectorOps::add, false, kFloatTypes);
  add_variadic<Add>(registry, "Mean", &VectorOps::add, true, kFloatTypes);
  const auto numbers = [](const NodeView& n) {
    const Support first = n.check_input(0, kNumericTypes);
    return first ? n.check_input(1, kNumericTypes) : first;
  };
  registry.add({.op = "Mod", .supports = numbers, .create = create_mod});
  registry.add({.op = "Pow", .supports = numbers, .create = [](const KernelCreateContext&) {
                  return make_kernel(run_pow);
                }});
}

}  // namespace xrt::native
