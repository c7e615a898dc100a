// SPDX-License-Identifier: Apache-2.0
// Elementwise ops of one float input, and Abs, Neg and Sign of integers.
#include <cmath>
#include <cstring>

#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/register.h"
#include "engines/native/kernels/vector/vector_ops.h"
#include "ir/attributes.h"

namespace xrt::native {

namespace {

using Exact = double (*)(double x, double alpha, double beta);

// y = f(x) with up to two parameters.
struct Function {
  VectorOps::Unary fast = nullptr;  // on float32; absent: `exact` serves all
  Exact exact = nullptr;
  float alpha = 0;
  float beta = 0;
};

void apply(const Function& f, DType dtype, const void* source, void* target, std::int64_t begin,
           std::int64_t n) {
  if (dtype == DType::kFloat32) {
    const float* x = static_cast<const float*>(source) + begin;
    float* y = static_cast<float*>(target) + begin;
    if (f.fast != nullptr) {
      f.fast(x, y, n, f.alpha, f.beta);
    } else {
      for (std::int64_t i = 0; i < n; ++i) {
        y[i] = static_cast<float>(f.exact(x[i], f.alpha, f.beta));
      }
    }
    return;
  }
  if (dtype == DType::kFloat64) {
    const double* x = static_cast<const double*>(source) + begin;
    double* y = static_cast<double*>(target) + begin;
    for (std::int64_t i = 0; i < n; ++i) y[i] = f.exact(x[i], f.alpha, f.beta);
    return;
  }
  constexpr std::int64_t kBlock = 512;
  float block[kBlock];
  for (std::int64_t i = 0; i < n; i += kBlock) {
    const std::int64_t part = std::min(kBlock, n - i);
    load_float(dtype, source, begin + i, part, block);
    apply(f, DType::kFloat32, block, block, 0, part);
    store_float(dtype, block, part, target, begin + i);
  }
}

std::unique_ptr<Kernel> make_unary(Function f) {
  const std::int64_t grain = f.fast != nullptr ? 16384 : 2048;
  return make_kernel(
      [f, grain](KernelContext& k) {
        const Tensor& x = k.input(0);
        Tensor& y = k.output(0, x.dtype(), x.dims());
        if (x.count() <= grain) {
          apply(f, x.dtype(), x.raw(), y.raw(), 0, x.count());
          return;
        }
        k.parallel_for(x.count(), grain, [&](std::int64_t begin, std::int64_t end) {
          apply(f, x.dtype(), x.raw(), y.raw(), begin, end - begin);
        });
      },
      {.in_place = {0}});
}

// The op's parameters are its attributes; an empty name is an absent one.
struct UnaryRow {
  const char* op;
  VectorOps::Unary VectorOps::*fast;
  Exact exact;
  const char* alpha_name = "";
  float alpha = 0;
  const char* beta_name = "";
  float beta = 0;
};

double selu(double x, double alpha, double gamma) {
  return x > 0 ? gamma * x : gamma * (alpha * std::exp(x) - alpha);
}
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

const UnaryRow kRows[] = {
    {"Sqrt", &VectorOps::sqrt, [](double x, double, double) { return std::sqrt(x); }},
    {"Exp", &VectorOps::exp, [](double x, double, double) { return std::exp(x); }},
    {"Log", &VectorOps::log, [](double x, double, double) { return std::log(x); }},
    {"Reciprocal", &VectorOps::reciprocal, [](double x, double, double) { return 1 / x; }},
    {"Floor", &VectorOps::floor, [](double x, double, double) { return std::floor(x); }},
    {"Ceil", &VectorOps::ceil, [](double x, double, double) { return std::ceil(x); }},
    {"Round", &VectorOps::round, [](double x, double, double) { return std::nearbyint(x); }},
    {"Erf", &VectorOps::erf, [](double x, double, double) { return std::erf(x); }},
    {"Sigmoid", &VectorOps::sigmoid,
     [](double x, double, double) { return 1 / (1 + std::exp(-x)); }},
    {"Tanh", &VectorOps::tanh, [](double x, double, double) { return std::tanh(x); }},
    {"Sin", nullptr, [](double x, double, double) { return std::sin(x); }},
    {"Cos", nullptr, [](double x, double, double) { return std::cos(x); }},
    {"Tan", nullptr, [](double x, double, double) { return std::tan(x); }},
    {"Asin", nullptr, [](double x, double, double) { return std::asin(x); }},
    {"Acos", nullptr, [](double x, double, double) { return std::acos(x); }},
    {"Atan", nullptr, [](double x, double, double) { return std::atan(x); }},
    {"Sinh", nullptr, [](double x, double, double) { return std::sinh(x); }},
    {"Cosh", nullptr, [](double x, double, double) { return std::cosh(x); }},
    {"Asinh", nullptr, [](double x, double, double) { return std::asinh(x); }},
    {"Acosh", nullptr, [](double x, double, double) { return std::acosh(x); }},
    {"Atanh", nullptr, [](double x, double, double) { return std::atanh(x); }},
    {"LeakyRelu", &VectorOps::leaky_relu,
     [](double x, double a, double) { return x >= 0 ? x : a * x; }, "alpha", 0.01F},
    {"Elu", &VectorOps::elu,
     [](double x, double a, double) { return x > 0 ? x : a * std::expm1(x); }, "alpha", 1.0F},
    {"Celu", &VectorOps::celu,
     [](double x, double a, double) {
       return std::max(x, 0.0) + std::min(0.0, a * std::expm1(x / a));
     },
     "alpha", 1.0F},
    {"Selu", &VectorOps::selu, selu, "alpha", 1.67326319217681884765625F, "gamma",
     1.05070102214813232421875F},
    {"HardSigmoid", &VectorOps::hard_sigmoid,
     [](double x, double a, double b) { return std::clamp(a * x + b, 0.0, 1.0); }, "alpha", 0.2F,
     "beta", 0.5F},
    {"HardSwish", &VectorOps::hard_swish,
     [](double x, double, double) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }},
    {"Softplus", &VectorOps::softplus, [](double x, double, double) { return softplus(x); }},
    {"Softsign", &VectorOps::softsign,
     [](double x, double, double) { return x / (1 + std::fabs(x)); }},
    {"Mish", &VectorOps::mish, [](double x, double, double) { return x * std::tanh(softplus(x)); }},
    {"Swish", &VectorOps::silu,
     [](double x, double a, double) { return x / (1 + std::exp(-a * x)); }, "alpha", 1.0F},
    {"ThresholdedRelu", &VectorOps::thresholded_relu,
     [](double x, double a, double) { return x > a ? x : 0; }, "alpha", 1.0F},
    {"Shrink", nullptr,
     [](double x, double lambda, double bias) {
       return x < -lambda ? x + bias : x > lambda ? x - bias : 0;
     },
     "lambd", 0.5F, "bias", 0.0F},
};

void add_row(KernelRegistry& registry, const UnaryRow& row) {
  registry.add({.op = row.op,
                .supports = [](const NodeView& n) { return n.check_input(0, kFloatTypes); },
                .create =
                    [row](const KernelCreateContext& create) {
                      Function f{row.fast ? vector_ops().*row.fast : nullptr, row.exact, row.alpha,
                                 row.beta};
                      if (*row.alpha_name)
                        f.alpha = create.node().attr_float(row.alpha_name, row.alpha);
                      if (*row.beta_name)
                        f.beta = create.node().attr_float(row.beta_name, row.beta);
                      return make_unary(f);
                    }});
}

std::unique_ptr<Kernel> create_gelu(const KernelCreateContext& create) {
  if (need_string(create.node(), "approximate") == "tanh") {
    return make_unary({vector_ops().gelu_tanh, [](double x, double, double) {
                         return 0.5 * x *
                                (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
                       }});
  }
  return make_unary({vector_ops().gelu, [](double x, double, double) {
                       return 0.5 * x * (1 + std::erf(x * 0.7071067811865476));
                     }});
}

// Ops that integers have too: one function per class of type.
template <typename Integer>
std::unique_ptr<Kernel> make_number_unary(Function f, Integer integer) {
  return make_kernel(
      [f, integer](KernelContext& k) {
        const Tensor& x = k.input(0);
        Tensor& y = k.output(0, x.dtype(), x.dims());
        if (is_floating(x.dtype())) {
          k.parallel_for(x.count(), 16384, [&](std::int64_t begin, std::int64_t end) {
            apply(f, x.dtype(), x.raw(), y.raw(), begin, end - begin);
          });
          return;
        }
        dispatch_integer(x.dtype(), [&]<typename T>() {
          const T* in = x.data<T>();
          T* out = y.data<T>();
          for (std::int64_t i = 0; i < x.count(); ++i) out[i] = integer(in[i]);
        });
      },
      {.in_place = {0}});
}

template <typename Integer>
void add_number_unary(KernelRegistry& registry, const char* op, VectorOps::Unary VectorOps::*fast,
                      Exact exact, Integer integer) {
  registry.add(
      {.op = op,
       .supports = [](const NodeView& n) { return n.check_input(0, kNumericTypes); },
       .create =
           [=](const KernelCreateContext&) {
             return make_number_unary({fast ? vector_ops().*fast : nullptr, exact}, integer);
           }});
}

std::unique_ptr<Kernel> create_bit_not(const KernelCreateContext&) {
  return make_kernel(
      [](KernelContext& k) {
        const Tensor& x = k.input(0);
        Tensor& y = k.output(0, x.dtype(), x.dims());
        const auto* in = x.data<std::uint8_t>();
        auto* out = y.data<std::uint8_t>();
        for (std::size_t i = 0; i < x.bytes(); ++i) out[i] = static_cast<std::uint8_t>(~in[i]);
      },
      {.in_place = {0}});
}

std::unique_ptr<Kernel> create_not(const KernelCreateContext&) {
  return make_kernel(
      [](KernelContext& k) {
        const Tensor& x = k.input(0);
        Tensor& y = k.output(0, x.dtype(), x.dims());
        const auto* in = x.data<std::uint8_t>();
        auto* out = y.data<std::uint8_t>();
        for (std::int64_t i = 0; i < x.count(); ++i) out[i] = in[i] == 0;
      },
      {.in_place = {0}});
}

template <typename F>
void add_float_test(KernelRegistry& registry, const char* op, DTypeSet types, F make) {
  registry.add({.op = op,
                .supports = [types](const NodeView& n) { return n.check_input(0, types); },
                .create =
                    [make](const KernelCreateContext& create) {
                      return make_kernel([test = make(create.node())](KernelContext& k) {
                        const Tensor& x = k.input(0);
                        Tensor& y = k.output(0, DType::kBool, x.dims());
                        auto* out = y.data<std::uint8_t>();
                        constexpr std::int64_t kBlock = 512;
                        double block[kBlock];
                        for (std::int64_t i = 0; i < x.count(); i += kBlock) {
                          const std::int64_t n = std::min(kBlock, x.count() - i);
                          load_double(x.dtype(), x.raw(), i, n, block);
                          for (std::int64_t j = 0; j < n; ++j) out[i + j] = test(block[j]);
                        }
                      });
                    }});
}

}  // namespace

void register_unary_kernels(KernelRegistry& registry) {
  for (const UnaryRow& row : kRows) add_row(registry, row);
  registry.add({.op = "Gelu",
                .supports = [](const NodeView& n) { return n.check_input(0, kFloatTypes); },
                .create = create_gelu});
  add_number_unary(
      registry, "Abs", &VectorOps::abs, [](double x, double, double) { return std::fabs(x); },
      [](auto x) {
        using T = decltype(x);
        return x < T{0} ? static_cast<T>(T{0} - static_cast<std::make_unsigned_t<T>>(x)) : x;
      });
  add_number_unary(
      registry, "Neg", &VectorOps::neg, [](double x, double, double) { return -x; },
      [](auto x) {
        using T = decltype(x);
        return static_cast<T>(std::uint64_t{0} - static_cast<std::uint64_t>(x));
      });
  add_number_unary(
      registry, "Sign", nullptr,
      [](double x, double, double) { return x > 0   ? 1.0
                                            : x < 0 ? -1.0
                                                    : x; },
      [](auto x) {
        using T = decltype(x);
        return static_cast<T>((x > T{0}) - (x < T{0}));
      });
  add_number_unary(
      registry, "Relu", &VectorOps::relu, [](double x, double, double) { return x < 0 ? 0 : x; },
      [](auto x) {
        using T = decltype(x);
        return x < T{0} ? T{0} : x;
      });
  registry.add({.op = "BitwiseNot",
                .supports = [](const NodeView& n) { return n.check_input(0, kIntegerTypes); },
                .create = create_bit_not});
  registry.add({.op = "Not", .create = create_not});
  add_float_test(registry, "IsNaN", kFloatTypes | kFloat8Types,
                 [](const Node&) { return [](double x) { return std::isnan(x); }; });
  add_float_test(registry, "IsInf", kFloatTypes | kFloat8Types, [](const Node& node) {
    const bool negative = need_int(node, "detect_negative") != 0;
    const bool positive = need_int(node, "detect_positive") != 0;
    return [=](double x) { return std::isinf(x) && (x > 0 ? positive : negative); };
  });
}

}  // namespace xrt::native
