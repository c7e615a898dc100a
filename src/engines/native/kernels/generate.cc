// SPDX-License-Identifier: Apache-2.0
// Ops that make elements: Range, EyeLike, random numbers, Dropout.
#include <atomic>
#include <bit>
#include <cmath>
#include <random>

#include "engines/native/context.h"
#include "engines/native/kernels/convert.h"
#include "engines/native/kernels/register.h"
#include "engines/native/kernels/strided.h"

namespace xrt::native {

namespace {

using Created = std::unique_ptr<Kernel>;

constexpr std::int64_t kBlock = 512;

void run_range(KernelContext& k) {
  const DType dtype = k.input(0).dtype();
  for (std::size_t i = 0; i < 3; ++i) {
    if (k.input(i).count() != 1 || k.input(i).dtype() != dtype) {
      fail("start, limit and delta are not scalars of one type");
    }
  }
  if (is_floating(dtype)) {
    double v[3];
    for (std::size_t i = 0; i < 3; ++i) load_double(dtype, k.input(i).raw(), 0, 1, v + i);
    const double steps = std::ceil((v[1] - v[0]) / v[2]);
    if (!(steps < 1e15)) fail("the range has no end");
    const std::int64_t count = steps > 0 ? static_cast<std::int64_t>(steps) : 0;
    Tensor& y = k.output(0, dtype, {count});
    for (std::int64_t i = 0; i < count; ++i) {
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
    store_int64(dtype, &value, 1, y.raw(), i);
    if (i + 1 < count) value += v[2];
  }
}

Created create_eye_like(const KernelCreateContext& create) {
  const auto given = static_cast<DType>(create.node().attr_int("dtype", 0));
  const std::int64_t shift = create.node().attr_int("k", 0);
  return make_kernel([given, shift](KernelContext& k) {
    const Tensor& x = k.input(0);
    if (x.rank() != 2) fail("the input is no matrix");
    const DType dtype = given == DType::kUndefined ? x.dtype() : given;
    Tensor& y = k.output(0, dtype, x.dims());
    const std::int64_t columns = x.dims()[1];
    std::vector<double> row(static_cast<std::size_t>(columns));
    for (std::int64_t r = 0; r < x.dims()[0]; ++r) {
      std::fill(row.begin(), row.end(), 0.0);
      if (shift >= -r && shift < columns - r) row[r + shift] = 1.0;
      store_double(dtype, row.data(), columns, y.raw(), r * columns);
    }
  });
}

// Philox 4x32-10 (Salmon et al., 2011): a counter-based generator, so that elements can be made in
// any order.
class Philox {
 public:
  Philox(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}

  // Four random words for each counter.
  void generate(std::uint64_t counter, std::uint32_t out[4]) const {
    std::uint32_t c[4] = {
        static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32),
        static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32)};
    auto k0 = static_cast<std::uint32_t>(seed_);
    auto k1 = static_cast<std::uint32_t>(seed_ >> 32);
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c[0];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c[2];
      const std::uint32_t next[4] = {
          static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
          static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
      std::copy_n(next, 4, c);
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    std::copy_n(c, 4, out);
  }

  // The i-th number in [0, 1), with 53 bits.
  double uniform(std::uint64_t i) const {
    std::uint32_t words[4];
    generate(i, words);
    const std::uint64_t bits = static_cast<std::uint64_t>(words[0]) << 32 | words[1];
    return static_cast<double>(bits >> 11) * 0x1.0p-53;
  }

  // The i-th number of the standard normal distribution (Box and Muller).
  double normal(std::uint64_t i) const {
    std::uint32_t words[4];
    generate(i, words);
    const double u = (static_cast<double>(words[0]) + 0.5) * 0x1.0p-32;
    const double v = static_cast<double>(words[1]) * 0x1.0p-32;
    return std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v);
  }

 private:
  std::uint64_t seed_, stream_;
};

// With a seed each run gives the same numbers as the first; without one every run differs.
class Seed {
 public:
  explicit Seed(const Node& node) : given_(node.has("seed")) {
    if (given_) {
      if (const auto* f = std::get_if<float>(&node.attributes.find("seed")->second)) {
        seed_ = std::bit_cast<std::uint32_t>(*f);
      } else {
        seed_ = static_cast<std::uint64_t>(node.attr_int("seed", 0));
      }
    }
  }
  Philox generator() const {
    if (given_) return Philox(seed_, 0);
    static std::atomic<std::uint64_t> runs{0};
    static const std::uint64_t process = [] {
      std::random_device device;
      return static_cast<std::uint64_t>(device()) << 32 | device();
    }();
    return Philox(process, ++runs);
  }

 private:
  bool given_;
  std::uint64_t seed_ = 0;
};

// Element i is make(generator, i).
template <typename F>
void fill_random(const Philox& generator, Tensor& y, F&& make) {
  double block[kBlock];
  for (std::int64_t i = 0; i < y.count(); i += kBlock) {
    const std::int64_t n = std::min(kBlock, y.count() - i);
    for (std::int64_t j = 0; j < n; ++j) block[j] = make(generator, i + j);
    store_double(y.dtype(), block, n, y.raw(), i);
  }
}

Created make_random(const KernelCreateContext& create, bool normal, bool like) {
  const Node& node = create.node();
  const auto dtype = static_cast<DType>(node.attr_int("dtype", like ? 0 : 1));
  const double a = normal ? node.attr_float("mean", 0.0F) : node.attr_float("low", 0.0F);
  const double b = normal ? node.attr_float("scale", 1.0F) : node.attr_float("high", 1.0F);
  const Dims shape = node.attr_ints("shape");
  return make_kernel([=, seed = Seed(node)](KernelContext& k) {
    const DType type = dtype != DType::kUndefined ? dtype : k.input(0).dtype();
    Tensor& y = k.output(0, type, like ? k.input(0).dims() : shape);
    fill_random(seed.generator(), y, [=](const Philox& g, std::int64_t i) {
      return normal ? a + b * g.normal(i) : a + (b - a) * g.uniform(i);
    });
  });
}

Created create_bernoulli(const KernelCreateContext& create) {
  const auto given = static_cast<DType>(create.node().attr_int("dtype", 0));
  return make_kernel([given, seed = Seed(create.node())](KernelContext& k) {
    const Tensor& x = k.input(0);
    Tensor& y = k.output(0, given == DType::kUndefined ? x.dtype() : given, x.dims());
    fill_random(seed.generator(), y, [&](const Philox& g, std::int64_t i) {
      double probability = 0;
      load_double(x.dtype(), x.raw(), i, 1, &probability);
      return g.uniform(i) < probability ? 1.0 : 0.0;
    });
  });
}

Created create_multinomial(const KernelCreateContext& create) {
  const auto dtype = static_cast<DType>(create.node().attr_int("dtype", 6));
  const std::int64_t samples = create.node().attr_int("sample_size", 1);
  return make_kernel([dtype, samples, seed = Seed(create.node())](KernelContext& k) {
    const Tensor& x = k.input(0);
    if (x.rank() != 2 || x.dims()[1] < 1) fail("the input is no matrix with columns");
    const std::int64_t classes = x.dims()[1];
    Tensor& y = k.output(0, dtype, {x.dims()[0], samples});
    std::vector<double> sums(static_cast<std::size_t>(classes));
    const Philox generator = seed.generator();
    for (std::int64_t row = 0; row < x.dims()[0]; ++row) {
      // The inputs are unnormalised logarithms of probabilities.
      load_double(x.dtype(), x.raw(), row * classes, classes, sums.data());
      const double highest = *std::max_element(sums.begin(), sums.end());
      double sum = 0;
      for (double& s : sums) s = sum += std::exp(s - highest);
      for (std::int64_t i = 0; i < samples; ++i) {
        const double at = generator.uniform(row * samples + i) * sum;
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
    fill_random(seed.generator(), y, [&](const Philox& g, std::int64_t i) {
      const bool kept = g.uniform(i) >= ratio;
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
