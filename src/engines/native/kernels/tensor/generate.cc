// SPDX-License-Identifier: Apache-2.0
// Ops that make elements: Range, EyeLike, random numbers, Dropout.
#include <array>
#include <atomic>
#include <cmath>
#include <random>

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

constexpr std::int64_t kBlock = 512;
constexpr std::int64_t kNumberWork = 8;  // to draw one

void run_range(KernelContext& k) {
  const DType dtype = k.input(0).dtype();
  for (std::size_t i = 0; i < 3; ++i) {
    if (k.input(i).count() != 1 || k.input(i).dtype() != dtype) {
      fail("start, limit and delta are not scalars of one type");
    }
  }
  TimeCheck time;
  if (is_floating(dtype)) {
    double v[3];
    for (std::size_t i = 0; i < 3; ++i) load_double(dtype, k.input(i).raw(), 0, 1, v + i);
    if (!std::all_of(v, v + 3, [](double x) { return std::isfinite(x); })) {
      fail("start, limit or delta is no finite number");
    }
    const double steps = std::ceil((v[1] - v[0]) / v[2]);
    if (!(steps < 1e15)) fail("the range has no end");
    const std::int64_t count = steps > 0 ? static_cast<std::int64_t>(steps) : 0;
    Tensor& y = k.output(0, dtype, {count});
    for (std::int64_t i = 0; i < count; ++i) {
      time.spend(kNumberWork);
      const double value = v[0] + static_cast<double>(i) * v[2];
      store_double(dtype, &value, 1, y.raw(), i);
    }
    return;
  }
  std::int64_t v[3];
  for (std::size_t i = 0; i < 3; ++i) load_int64(dtype, k.input(i).raw(), 0, 1, v + i);
  if (v[2] == 0) fail("the range has no end: its step is 0");
  const __int128 span =
      v[2] > 0 ? static_cast<__int128>(v[1]) - v[0] : static_cast<__int128>(v[0]) - v[1];
  const __int128 step = v[2] > 0 ? static_cast<__int128>(v[2]) : -static_cast<__int128>(v[2]);
  const __int128 steps = span <= 0 ? 0 : (span - 1) / step + 1;
  if (steps > INT64_MAX / 16) throw Error(ErrorCode::kResource, "the range is too long");
  const auto count = static_cast<std::int64_t>(steps);
  Tensor& y = k.output(0, dtype, {count});
  std::int64_t value = v[0];
  for (std::int64_t i = 0; i < count; ++i) {
    time.spend(kNumberWork);
    store_int64(dtype, &value, 1, y.raw(), i);
    if (i + 1 < count) value += v[2];
  }
}

Created create_eye_like(const KernelCreateContext& create) {
  const auto given = static_cast<DType>(create.node().attr_int("dtype", 0));
  const std::int64_t shift = need_int(create.node(), "k");
  return make_kernel([given, shift](KernelContext& k) {
    const Tensor& x = k.input(0);
    if (x.rank() != 2) fail("the input is no matrix");
    const DType dtype = given == DType::kUndefined ? x.dtype() : given;
    Tensor& y = k.output(0, dtype, x.dims());
    const std::int64_t rows = x.dims()[0], columns = x.dims()[1];
    std::fill_n(static_cast<std::byte*>(y.raw()), y.bytes(), std::byte{0});
    if (y.count() == 0 || shift >= columns || shift <= -rows) return;
    TimeCheck time;
    constexpr double kOne = 1;
    for (std::int64_t r = std::max<std::int64_t>(-shift, 0); r < std::min(rows, columns - shift);
         ++r) {
      time.spend(kNumberWork);
      store_double(dtype, &kOne, 1, y.raw(), r * columns + r + shift);
    }
  });
}

// Numbers of a Mersenne twister, one after the other. Those of a seed are the ones that NumPy's
// RandomState(seed) gives, and so ONNX's reference evaluator; the standard names no generator.
class Random {
 public:
  explicit Random(std::mt19937 generator) : generator_(generator) {}

  // In [0, 1), with 53 bits.
  double uniform() {
    const auto high = static_cast<std::uint64_t>(generator_() >> 5);
    const auto low = static_cast<std::uint64_t>(generator_() >> 6);
    return static_cast<double>(high << 26 | low) * 0x1.0p-53;
  }

  // Of the standard normal distribution (Marsaglia's polar method), which gives two at a time.
  double normal() {
    if (has_next_) {
      has_next_ = false;
      return next_;
    }
    double x = 0, y = 0, square = 0;
    do {
      x = 2 * uniform() - 1;
      y = 2 * uniform() - 1;
      square = x * x + y * y;
    } while (square >= 1 || square == 0);
    const double factor = std::sqrt(-2 * std::log(square) / square);
    next_ = factor * x;
    has_next_ = true;
    return factor * y;
  }

  bool bernoulli(double p) {
    const double u = uniform();
    return p <= 0.5 ? u > 1 - p : u <= p;
  }

 private:
  std::mt19937 generator_;
  double next_ = 0;
  bool has_next_ = false;
};

// With a seed each run gives the same numbers as the first; without one every run differs.
class Seed {
 public:
  explicit Seed(const Node& node) {
    const auto it = node.attributes.find("seed");
    if (it == node.attributes.end()) return;
    if (const auto* f = std::get_if<float>(&it->second)) {
      // The whole part; no number is no seed.
      constexpr float kLimit = 9.0e18F;
      given_ = std::fabs(*f) < kLimit;
      if (given_) seed_ = static_cast<std::uint32_t>(static_cast<std::int64_t>(*f));
    } else {
      given_ = true;
      seed_ = static_cast<std::uint32_t>(node.attr_int("seed", 0));
    }
  }
  Random generator() const {
    if (given_) return Random(std::mt19937(seed_));
    static std::atomic<std::uint32_t> runs{0};
    static const std::array<std::uint32_t, 4> process = [] {
      std::random_device device;
      return std::array<std::uint32_t, 4>{device(), device(), device(), device()};
    }();
    std::seed_seq sequence{process[0], process[1], process[2], process[3], ++runs};
    return Random(std::mt19937(sequence));
  }

 private:
  bool given_ = false;
  std::uint32_t seed_ = 0;
};

// Element i is make(i), from the first to the last.
template <typename F>
void fill_random(Tensor& y, F&& make) {
  double block[kBlock];
  TimeCheck time;
  for (std::int64_t i = 0; i < y.count(); i += kBlock) {
    time.spend(kBlock * kNumberWork);
    const std::int64_t n = std::min(kBlock, y.count() - i);
    for (std::int64_t j = 0; j < n; ++j) block[j] = make(i + j);
    store_double(y.dtype(), block, n, y.raw(), i);
  }
}

Created make_random(const KernelCreateContext& create, bool normal, bool like) {
  const Node& node = create.node();
  const auto dtype = static_cast<DType>(node.attr_int("dtype", like ? 0 : 1));
  const double a = normal ? need_float(node, "mean") : need_float(node, "low");
  const double b = normal ? need_float(node, "scale") : need_float(node, "high");
  const Dims shape = node.attr_ints("shape");
  return make_kernel([=, seed = Seed(node)](KernelContext& k) {
    const DType type = dtype != DType::kUndefined ? dtype : k.input(0).dtype();
    Tensor& y = k.output(0, type, like ? k.input(0).dims() : shape);
    Random random = seed.generator();
    fill_random(y, [&](std::int64_t) {
      return normal ? a + b * random.normal() : a + (b - a) * random.uniform();
    });
  });
}

Created create_bernoulli(const KernelCreateContext& create) {
  const auto given = static_cast<DType>(create.node().attr_int("dtype", 0));
  return make_kernel([given, seed = Seed(create.node())](KernelContext& k) {
    const Tensor& x = k.input(0);
    Tensor& y = k.output(0, given == DType::kUndefined ? x.dtype() : given, x.dims());
    Random random = seed.generator();
    fill_random(y, [&](std::int64_t i) {
      double probability = 0;
      load_double(x.dtype(), x.raw(), i, 1, &probability);
      return random.bernoulli(probability) ? 1.0 : 0.0;
    });
  });
}

Created create_multinomial(const KernelCreateContext& create) {
  const auto dtype = static_cast<DType>(need_int(create.node(), "dtype"));
  const std::int64_t samples = need_int(create.node(), "sample_size");
  return make_kernel([dtype, samples, seed = Seed(create.node())](KernelContext& k) {
    const Tensor& x = k.input(0);
    if (x.rank() != 2 || x.dims()[1] < 1) fail("the input is no matrix with columns");
    const std::int64_t classes = x.dims()[1];
    Tensor& y = k.output(0, dtype, {x.dims()[0], samples});
    if (y.count() == 0) return;
    Scratch<double> sums(static_cast<std::size_t>(classes));
    Random random = seed.generator();
    TimeCheck time;
    for (std::int64_t row = 0; row < x.dims()[0]; ++row) {
      time.spend((classes + samples) * kNumberWork);
      // The inputs are unnormalised logarithms of probabilities.
      load_double(x.dtype(), x.raw(), row * classes, classes, sums.data());
      const double highest = *std::max_element(sums.begin(), sums.end());
      double sum = 0;
      for (double& s : sums) s = sum += std::exp(s - highest);
      for (std::int64_t i = 0; i < samples; ++i) {
        const double at = random.uniform() * sum;
        const std::int64_t index = std::min<std::int64_t>(
            std::upper_bound(sums.begin(), sums.end(), at) - sums.begin(), classes - 1);
        store_int64(dtype, &index, 1, y.raw(), row * samples + i);
      }
    }
  });
}

Created create_dropout(const KernelCreateContext& create) {
  return make_kernel([seed = Seed(create.node())](KernelContext& k) {
    const Tensor& x = k.input(0);
    const bool training = k.has_input(2) && k.input(2).to_int64().at(0) != 0;
    double ratio = 0.5;
    if (const Tensor* given = k.optional_input(1)) {
      load_double(given->dtype(), given->raw(), 0, 1, &ratio);
    }
    Tensor& y = k.output(0, x.dtype(), x.dims());
    Tensor* mask = k.wants_output(1) ? &k.output(1, DType::kBool, x.dims()) : nullptr;
    if (!training || ratio == 0) {
      copy_elements(x.dtype(), x.raw(), 0, y.raw(), 0, x.count());
      if (mask != nullptr) std::fill_n(mask->data<std::uint8_t>(), mask->count(), std::uint8_t{1});
      return;
    }
    Random random = seed.generator();
    fill_random(y, [&](std::int64_t i) {
      const bool kept = random.uniform() >= ratio;
      if (mask != nullptr) mask->data<std::uint8_t>()[i] = kept ? 1 : 0;
      double value = 0;
      load_double(x.dtype(), x.raw(), i, 1, &value);
      return kept ? value / (1 - ratio) : 0.0;
    });
  });
}

}  // namespace

void register_generate_kernels(KernelRegistry& registry) {
  const auto numbers = [](const NodeView& n) { return n.check_input(0, kNumericTypes); };
  registry.add({.op = "Range", .supports = numbers, .create = [](const KernelCreateContext&) {
                  return make_kernel(run_range);
                }});
  registry.add(
      {.op = "EyeLike",
       .supports = [](const NodeView& n) { return n.check_output(0, kNumericTypes | kBoolType); },
       .create = create_eye_like});
  const auto add_random = [&](const char* op, bool normal, bool like) {
    registry.add({.op = op,
                  .supports = [](const NodeView& n) { return n.check_output(0, kFloatTypes); },
                  .create =
                      [normal, like](const KernelCreateContext& create) {
                        return make_random(create, normal, like);
                      }});
  };
  add_random("RandomNormal", true, false);
  add_random("RandomNormalLike", true, true);
  add_random("RandomUniform", false, false);
  add_random("RandomUniformLike", false, true);
  registry.add(
      {.op = "Bernoulli",
       .supports = [](const NodeView& n) { return n.check_output(0, kNumericTypes | kBoolType); },
       .create = create_bernoulli});
  registry.add({.op = "Multinomial", .create = create_multinomial});
  registry.add({.op = "Dropout",
                .supports = [](const NodeView& n) { return n.check_input(0, kFloatTypes); },
                .create = create_dropout});
}

}  // namespace xrt::native
