// SPDX-License-Identifier: Apache-2.0
// DFT, STFT and MelWeightMatrix.
#include <bit>
#include <cmath>
#include <complex>
#include <numbers>

#include "base/work_scope.h"
#include "engines/native/context.h"
#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/register.h"
#include "engines/native/scratch.h"
#include "ir/attributes.h"

namespace xrt::native {

namespace {

using Complex = std::complex<double>;
using Created = std::unique_ptr<Kernel>;

// Transforms of one length in double; any length in O(n log n).
class Fourier {
 public:
  explicit Fourier(std::size_t n) : n_(n) {
    TimeCheck time;
    if (std::has_single_bit(n)) {
      size_ = n;
    } else {
      // Bluestein: a convolution with a chirp, at a power of two.
      size_ = std::bit_ceil(2 * n - 1);
      chirp_.resize(n);
      for (std::size_t i = 0; i < n; ++i) {
        time.spend(kAngleWork);
        const auto square = static_cast<double>(i * i % (2 * n));
        chirp_[i] = std::polar(1.0, -std::numbers::pi * square / static_cast<double>(n));
      }
    }
    roots_.resize(size_ / 2);
    for (std::size_t i = 0; i < roots_.size(); ++i) {
      time.spend(kAngleWork);
      roots_[i] = std::polar(
          1.0, -2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(size_));
    }
    if (chirp_.empty()) return;
    kernel_.resize(size_);
    for (std::size_t i = 0; i < n; ++i) {
      kernel_[i] = std::conj(chirp_[i]);
      if (i > 0) kernel_[size_ - i] = kernel_[i];
    }
    radix2(kernel_);
  }

  // x[k] = Σ x[n] exp(∓2πi kn / N), without a factor.
  void run(Scratch<Complex>& x, bool inverse) const {
    if (n_ == 1) return;
    if (inverse) {
      for (Complex& c : x) c = std::conj(c);
    }
    if (chirp_.empty()) {
      radix2(x);
    } else {
      Scratch<Complex> work(size_);
      for (std::size_t i = 0; i < n_; ++i) work[i] = x[i] * chirp_[i];
      radix2(work);
      for (std::size_t i = 0; i < size_; ++i) work[i] = std::conj(work[i] * kernel_[i]);
      radix2(work);
      const double scale = 1.0 / static_cast<double>(size_);
      for (std::size_t i = 0; i < n_; ++i) x[i] = std::conj(work[i]) * scale * chirp_[i];
    }
    if (inverse) {
      for (Complex& c : x) c = std::conj(c);
    }
  }

 private:
  static constexpr std::int64_t kAngleWork = 8;  // its sine and cosine

  void radix2(Scratch<Complex>& x) const {
    TimeCheck time;
    time.spend(static_cast<std::int64_t>(size_));
    for (std::size_t i = 1, j = 0; i < size_; ++i) {
      std::size_t bit = size_ >> 1;
      for (; (j & bit) != 0; bit >>= 1) j ^= bit;
      j ^= bit;
      if (i < j) std::swap(x[i], x[j]);
    }
    for (std::size_t half = 1; half < size_; half *= 2) {
      time.spend(static_cast<std::int64_t>(size_));
      const std::size_t step = size_ / (2 * half);
      for (std::size_t start = 0; start < size_; start += 2 * half) {
        for (std::size_t i = 0; i < half; ++i) {
          const Complex odd = x[start + half + i] * roots_[i * step];
          x[start + half + i] = x[start + i] - odd;
          x[start + i] += odd;
        }
      }
    }
  }

  std::size_t n_, size_;
  Scratch<Complex> chirp_, roots_, kernel_;
};

std::int64_t scalar_input(const KernelContext& k, std::size_t i) {
  const std::vector<std::int64_t> values = ints_input(k, i);
  if (values.size() != 1) fail("input " + std::to_string(i) + " is not a scalar");
  return values[0];
}

// Longer transforms are refused: their work space would be gigabytes.
constexpr std::int64_t kMaxLength = std::int64_t{1} << 26;

void run_dft(KernelContext& k, bool inverse, bool onesided) {
  const Tensor& x = k.input(0);
  const std::int64_t given_axis = k.has_input(2) ? scalar_input(k, 2) : -2;
  const std::size_t axis = normalize_axis(given_axis, x.rank());
  if (x.rank() < 2 || axis + 1 == x.rank()) fail("the axis is that of real and imaginary parts");
  const std::int64_t parts = x.dims().back();
  if (parts != 1 && parts != 2) fail("the last axis does not hold real and imaginary parts");
  const bool half_in = inverse && onesided;
  const std::int64_t in = x.dims()[axis];
  std::int64_t n = half_in ? 2 * (in - 1) : in;
  if (k.has_input(1)) n = scalar_input(k, 1);
  if (n < 1 || n > kMaxLength) fail("a transform of length " + std::to_string(n));
  const bool half_out = onesided && !inverse;
  const std::int64_t out = half_out ? n / 2 + 1 : n;
  Dims dims = x.dims();
  dims[axis] = out;
  dims.back() = half_in ? 1 : 2;
  Tensor& y = k.output(0, x.dtype(), dims);
  if (y.count() == 0) return;
  const std::int64_t inner = product(x.dims(), axis + 1, x.rank() - 1);
  const std::int64_t rows = product(x.dims(), 0, axis) * inner;
  const Fourier fourier(static_cast<std::size_t>(n));
  const double scale = inverse ? 1.0 / static_cast<double>(n) : 1.0;
  k.parallel_for(
      rows, std::max<std::int64_t>(512 / n, 1), [&](std::int64_t begin, std::int64_t end) {
        Scratch<Complex> line;
        for (std::int64_t row = begin; row < end; ++row) {
          line.assign(static_cast<std::size_t>(n), Complex());
          for (std::int64_t i = 0; i < std::min(in, n); ++i) {
            double c[2] = {0, 0};
            const std::int64_t at = ((row / inner * in + i) * inner + row % inner) * parts;
            load_double(x.dtype(), x.raw(), at, parts, c);
            line[i] = {c[0], c[1]};
            // The other half of a real signal's spectrum.
            if (half_in && i > 0 && n - i >= in) line[n - i] = {c[0], -c[1]};
          }
          fourier.run(line, inverse);
          for (std::int64_t i = 0; i < out; ++i) {
            const double c[2] = {line[i].real() * scale, line[i].imag() * scale};
            const std::int64_t at = ((row / inner * out + i) * inner + row % inner) * dims.back();
            store_double(y.dtype(), c, dims.back(), y.raw(), at);
          }
        }
      });
}

Created create_dft(const KernelCreateContext& create) {
  const bool inverse = need_int(create.node(), "inverse") != 0;
  const bool onesided = need_int(create.node(), "onesided") != 0;
  return make_kernel([=](KernelContext& k) { run_dft(k, inverse, onesided); });
}

Created create_stft(const KernelCreateContext& create) {
  const bool onesided = need_int(create.node(), "onesided") != 0;
  return make_kernel([onesided](KernelContext& k) {
    const Tensor& x = k.input(0);
    if (x.rank() != 3 && x.rank() != 2) fail("the signal is not [batch, length, 1 or 2]");
    const std::int64_t length = x.dims()[1];
    const std::int64_t parts = x.rank() == 3 ? x.dims()[2] : 1;
    if (parts != 1 && parts != 2) fail("the last axis does not hold real and imaginary parts");
    const std::int64_t step = scalar_input(k, 1);
    const Tensor* window = k.optional_input(2);
    std::int64_t n = window != nullptr ? window->count() : length;
    if (k.has_input(3)) n = scalar_input(k, 3);
    if (step < 1 || n < 1 || n > length || n > kMaxLength)
      fail("step or frame length do not fit the signal");
    if (window != nullptr && window->count() != n) fail("the window has not the frame's length");
    const std::int64_t frames = (length - n) / step + 1;
    const std::int64_t bins = onesided && parts == 1 ? n / 2 + 1 : n;
    Tensor& y = k.output(0, x.dtype(), {x.dims()[0], frames, bins, 2});
    if (y.count() == 0) return;
    Scratch<double> weights(static_cast<std::size_t>(n), 1.0);
    if (window != nullptr) load_double(window->dtype(), window->raw(), 0, n, weights.data());
    const Fourier fourier(static_cast<std::size_t>(n));
    k.parallel_for(x.dims()[0] * frames, std::max<std::int64_t>(512 / n, 1),
                   [&](std::int64_t begin, std::int64_t end) {
                     Scratch<Complex> line(static_cast<std::size_t>(n));
                     for (std::int64_t f = begin; f < end; ++f) {
                       const std::int64_t start = f / frames * length + f % frames * step;
                       for (std::int64_t i = 0; i < n; ++i) {
                         double c[2] = {0, 0};
                         load_double(x.dtype(), x.raw(), (start + i) * parts, parts, c);
                         line[i] = Complex(c[0], c[1]) * weights[i];
                       }
                       fourier.run(line, false);
                       for (std::int64_t i = 0; i < bins; ++i) {
                         const double c[2] = {line[i].real(), line[i].imag()};
                         store_double(y.dtype(), c, 2, y.raw(), (f * bins + i) * 2);
                       }
                     }
                   });
  });
}

Created create_mel(const KernelCreateContext& create) {
  const auto dtype = static_cast<DType>(need_int(create.node(), "output_datatype"));
  return make_kernel([dtype](KernelContext& k) {
    const std::int64_t bands = scalar_input(k, 0);
    const std::int64_t length = scalar_input(k, 1);
    const std::int64_t rate = scalar_input(k, 2);
    double edges[2];
    for (std::size_t i = 0; i < 2; ++i) {
      if (k.input(3 + i).count() != 1) fail("an edge is not a scalar");
      load_double(k.input(3 + i).dtype(), k.input(3 + i).raw(), 0, 1, edges + i);
    }
    if (bands < 0 || length < 0 || rate < 1 || bands > (1 << 24) || length > kMaxLength)
      fail("an input is out of range");
    const std::int64_t bins = length / 2 + 1;
    const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
    const double low = mel(edges[0]);
    const double step = (mel(edges[1]) - low) / static_cast<double>(bands + 2);
    Scratch<std::int64_t> at(static_cast<std::size_t>(bands + 2));
    for (std::size_t i = 0; i < at.size(); ++i) {
      const double hertz = 700 * (std::pow(10.0, (static_cast<double>(i) * step + low) / 2595) - 1);
      const double bin =
          std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
      if (!(bin >= 0 && bin < static_cast<double>(bins))) fail("a band lies outside the spectrum");
      at[i] = static_cast<std::int64_t>(bin);
    }
    Tensor& y = k.output(0, dtype, {bins, bands});
    if (y.count() == 0) return;
    Scratch<double> column(static_cast<std::size_t>(bins));
    TimeCheck time;
    for (std::int64_t b = 0; b < bands; ++b) {
      time.spend(bins);
      std::fill(column.begin(), column.end(), 0.0);
      const std::int64_t first = at[b], centre = at[b + 1], last = at[b + 2];
      if (centre == first) column[centre] = 1;
      for (std::int64_t j = first; centre > first && j <= centre; ++j) {
        column[j] = static_cast<double>(j - first) / static_cast<double>(centre - first);
      }
      for (std::int64_t j = centre; j < last; ++j) {
        column[j] = static_cast<double>(last - j) / static_cast<double>(last - centre);
      }
      for (std::int64_t j = 0; j < bins; ++j) {
        store_double(dtype, &column[j], 1, y.raw(), j * bands + b);
      }
    }
  });
}

}  // namespace

void register_signal_kernels(KernelRegistry& registry) {
  const auto floats = [](const NodeView& n) { return n.check_input(0, kFloatTypes); };
  registry.add({.op = "DFT", .supports = floats, .create = create_dft});
  registry.add({.op = "STFT", .supports = floats, .create = create_stft});
  registry.add({.op = "MelWeightMatrix",
                .supports = [](const NodeView& n) { return n.check_output(0, kNumericTypes); },
                .create = create_mel});
}

}  // namespace xrt::native
