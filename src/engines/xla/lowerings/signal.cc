// SPDX-License-Identifier: Apache-2.0
// DFT and STFT by stablehlo.fft. Complex values are pairs in the last dimension. Computed in double
// precision: what cancels out should be zero to within the last bit of float32.
#include <algorithm>
#include <string>

#include "engines/xla/lowerings/take.h"

namespace xrt::xla {

namespace {

// [.., 1 or 2] → complex [..]
Hlo to_complex(NodeContext& c, const Hlo& x) {
  HloBuilder& b = c.b;
  const std::int64_t axis = x.rank() - 1;
  c.need(x.dims.back() == 1 || x.dims.back() == 2, "the last dimension");
  const Dims dims(x.dims.begin(), x.dims.end() - 1);
  const Hlo real = b.reshape(b.slice_axis(x, axis, 0, 1), dims);
  const Hlo imag =
      x.dims.back() == 2 ? b.reshape(b.slice_axis(x, axis, 1, 2), dims) : b.zeros_like(real);
  return b.complex(real, imag);
}

Hlo from_complex(HloBuilder& b, const Hlo& x) {
  Dims column = x.dims;
  column.push_back(1);
  return b.concatenate({b.reshape(b.real(x), column), b.reshape(b.imag(x), column)}, x.rank());
}

// The axis moved to the end, or back from there.
Dims to_end(std::int64_t rank, std::int64_t axis) {
  Dims out;
  for (std::int64_t i = 0; i < rank; ++i) {
    if (i != axis) out.push_back(i);
  }
  out.push_back(axis);
  return out;
}
Dims from_end(std::int64_t rank, std::int64_t axis) {
  Dims out = range_dims(0, rank - 1);
  out.insert(out.begin() + axis, rank - 1);
  return out;
}

// Zeros at the end, or cut.
Hlo with_length(HloBuilder& b, const Hlo& x, std::int64_t length) {
  const std::int64_t axis = x.rank() - 1;
  if (x.dims.back() > length) return b.slice_axis(x, axis, 0, length);
  Dims high(x.dims.size(), 0);
  high.back() = length - x.dims.back();
  return b.pad(x, b.scalar(0, x.dtype), Dims(x.dims.size(), 0), high);
}

void lower_dft(NodeContext& c) {
  HloBuilder& b = c.b;
  const DType result = c.dtype(0);
  const Hlo x = b.convert(c.in(0), DType::kFloat64);
  const std::int64_t given = c.has(2) ? c.integers(2, "the axis").at(0) : -2;
  const std::int64_t axis = c.axis(given, x.rank());
  c.need(axis < x.rank() - 1, "the axis of real and imaginary parts");
  const bool inverse = c.attr("inverse") != 0;
  const bool onesided = c.attr("onesided") != 0;
  Hlo z = to_complex(c, x);
  const Dims order = to_end(z.rank(), axis);
  z = b.transpose(z, order);
  if (inverse && onesided) {
    const std::int64_t length =
        c.has(1) ? c.integers(1, "the length").at(0) : 2 * (z.dims.back() - 1);
    const Hlo real = b.fft(with_length(b, z, length / 2 + 1), "IRFFT", {length});
    const Hlo back = b.transpose(real, from_end(real.rank(), axis));
    Dims column = back.dims;
    column.push_back(1);
    c.out(b.convert(b.reshape(back, column), result));
    return;
  }
  const std::int64_t length = c.has(1) ? c.integers(1, "the length").at(0) : z.dims.back();
  c.need(length > 0, "an empty transform");
  z = b.fft(with_length(b, z, length), inverse ? "IFFT" : "FFT", {length});
  if (onesided) z = b.slice_axis(z, z.rank() - 1, 0, length / 2 + 1);
  c.out(b.convert(from_complex(b, b.transpose(z, from_end(z.rank(), axis))), result));
}

void lower_stft(NodeContext& c) {
  HloBuilder& b = c.b;
  const DType result = c.dtype(0);
  const Hlo signal = b.convert(c.in(0), DType::kFloat64);
  c.need(signal.rank() == 3, "the signal's rank");
  const std::int64_t step = c.integers(1, "the frame step").at(0);
  const std::int64_t length =
      c.has(3) ? c.integers(3, "the frame length").at(0) : (c.has(2) ? c.dims(2).at(0) : 0);
  c.need(step > 0 && length > 0 && length <= signal.dims[1], "the frames");
  const std::int64_t frames = (signal.dims[1] - length) / step + 1;
  const Hlo z = to_complex(c, signal);
  // Frame f reads places f · step … f · step + length.
  const Dims dims{frames, length};
  const Hlo places =
      b.add(b.binary_scalar("multiply", b.iota(DType::kInt64, dims, 0), static_cast<double>(step)),
            b.iota(DType::kInt64, dims, 1));
  Hlo parts = take(b, z, places, 1);  // [batch, frames, length]
  if (c.has(2)) {
    Hlo window = b.convert(c.in(2), DType::kFloat64);
    const std::int64_t missing = length - window.dims.at(0);
    c.need(missing >= 0, "a window longer than a frame");
    window = b.pad(window, b.scalar(0, window.dtype), {missing / 2}, {missing - missing / 2});
    const Hlo factor = b.complex(window, b.zeros_like(window));
    parts = b.mul(parts, b.broadcast_in_dim(factor, parts.dims, {2}));
  }
  Hlo spectrum = b.fft(parts, "FFT", {length});
  if (c.attr("onesided") != 0) spectrum = b.slice_axis(spectrum, 2, 0, length / 2 + 1);
  c.out(b.convert(from_complex(b, spectrum), result));
}

}  // namespace

void register_signal(LoweringTable& t) {
  t.add("DFT", lower_dft);
  t.add("STFT", lower_stft);
}

}  // namespace xrt::xla
