// SPDX-License-Identifier: Apache-2.0
// Running products, Fourier transforms, and columns put back into an image.
#include <algorithm>
#include <vector>

#include "autodiff/rule.h"

namespace xrt::autodiff {
namespace {

std::int64_t constant_axis(const Rule& r, std::size_t input, std::int64_t fallback,
                           std::int64_t rank) {
  if (!r.has(input)) return fallback + rank;
  return r.integers(input, "axis").at(0);
}

Dims axis_last(std::int64_t axis, std::int64_t rank) {
  Dims perm = range(0, rank);
  perm.erase(perm.begin() + axis);
  perm.push_back(axis);
  return perm;
}

// The derivative of a running product by element k is that product with 1 in place of it: exact
// also where elements are zero, at the cost of n products of n elements.
void cum_prod_rule(Rule& r) {
  const std::int64_t rank = r.x_rank();
  const std::int64_t axis = constant_axis(r, 1, 0, rank);
  const bool exclusive = r.attr("exclusive") != 0;
  const bool reverse = r.attr("reverse") != 0;
  const std::int64_t n = r.x_dims()[static_cast<std::size_t>(axis)];
  const Dims perm = axis_last(axis, rank);
  const Var x = transpose(r.x(), perm);
  std::vector<double> is_k(static_cast<std::size_t>(n * n));
  std::vector<double> holds_k(is_k.size());  // [k, j]: whether product j has element k as a factor
  for (std::int64_t k = 0; k < n; ++k) {
    for (std::int64_t j = 0; j < n; ++j) {
      const auto at = static_cast<std::size_t>(k * n + j);
      is_k[at] = k == j ? 1 : 0;
      const std::int64_t steps = reverse ? k - j : j - k;
      holds_k[at] = steps > 0 || (steps == 0 && !exclusive) ? 1 : 0;
    }
  }
  const Var ones = greater(r.e.numbers(is_k, {n, n}, x.dtype), 0.5);
  const Var row = unsqueeze(x, {rank - 1});  // [..., 1, n]
  const Var without = where(ones, r.e.scalar(1, x.dtype), row);
  const Var products = r.e.op(
      "CumProd",
      {without, r.e.constant(number_tensor(std::vector<double>{double(rank)}, {}, DType::kInt64))},
      {{"exclusive", std::int64_t{exclusive}}, {"reverse", std::int64_t{reverse}}});
  const Var dy = unsqueeze(transpose(r.dy(), perm), {rank - 1});
  const Var g = sum(products * dy * r.e.numbers(holds_k, {n, n}, x.dtype), {rank}, false);
  r.give(0, transpose(g, inverse_permutation(perm)));
}

Var resized(Var x, std::int64_t axis, std::int64_t from, std::int64_t to, std::int64_t rank) {
  Dims zeros(static_cast<std::size_t>(rank), 0);
  Dims behind = zeros;
  behind[static_cast<std::size_t>(axis)] = to - from;
  return from == to ? x : pad(x, zeros, behind);
}

// A transform is linear, and its matrix symmetric: the gradient goes through the conjugate one,
// which is the inverse but for the factor 1/length.
void dft_rule(Rule& r) {
  const std::int64_t rank = r.x_rank();
  const std::int64_t axis = constant_axis(r, 2, -2, rank);
  const bool inverse = r.attr("inverse") != 0;
  const bool onesided = r.attr("onesided") != 0;
  if (inverse && onesided) r.refuse("a one-sided inverse");
  const Dims dims = r.x_dims();
  const std::int64_t n = dims[static_cast<std::size_t>(axis)];
  const std::int64_t length = r.has(1) ? r.integers(1, "dft_length").at(0) : n;
  const Var dy = resized(r.dy(), axis, r.y_dims()[static_cast<std::size_t>(axis)], length, rank);
  const Var along = r.e.constant(
      number_tensor(std::vector<double>{static_cast<double>(axis)}, {}, DType::kInt64));
  const double factor = static_cast<double>(length);
  Var g = r.e.op("DFT", {dy, r.e.none(), along}, {{"inverse", std::int64_t{!inverse}}});
  g = inverse ? g * (1 / factor) : g * factor;
  g = resized(g, axis, length, n, rank);
  r.give(0, dims.back() == 1 ? slice(g, {0}, {1}, {rank - 1}) : g);
}

// Frames are gathered, weighted by the window and transformed.
std::vector<Var> expand_stft(Rule& r) {
  const Dims dims = r.x_dims();
  if (dims.size() != 3) r.refuse("a signal without an axis of real and imaginary part");
  const std::int64_t step = r.integers(1, "frame_step").at(0);
  std::int64_t length = 0;
  if (r.has(3)) {
    length = r.integers(3, "frame_length").at(0);
  } else if (r.has(2)) {
    length = r.x_dims(2).at(0);
  } else {
    r.refuse("neither a window nor a frame_length");
  }
  const std::int64_t frames = (dims[1] - length) / step + 1;
  Dims places;
  for (std::int64_t f = 0; f < frames; ++f) {
    for (std::int64_t i = 0; i < length; ++i) places.push_back(f * step + i);
  }
  Var x = gather(r.x(), r.e.ints(places), 1);
  x = reshape(x, {dims[0], frames, length, dims[2]});
  if (r.has(2)) x = x * reshape(r.x(2), {length, 1});
  const Var axis = r.e.constant(number_tensor(std::vector<double>{2.0}, {}, DType::kInt64));
  return {r.e.op("DFT", {x, r.e.none(), axis}, {{"onesided", r.attr("onesided")}})};
}

// Each column takes the elements of its block: the gathering that Col2Im adds up.
void col2im_rule(Rule& r) {
  const Dims image = r.integers(1, "image_shape");
  const Dims block = r.integers(2, "block_shape");
  const std::size_t axes = image.size();
  const auto attribute = [&](const char* name, std::size_t count, std::int64_t fallback) {
    Dims values = r.node.attr_ints(name);
    if (values.empty()) values.assign(count, fallback);
    return values;
  };
  const Dims dilations = attribute("dilations", axes, 1);
  const Dims strides = attribute("strides", axes, 1);
  const Dims pads = attribute("pads", 2 * axes, 0);
  const Dims y = r.y_dims();
  Dims before = {0, 0}, behind = {0, 0};
  for (std::size_t a = 0; a < axes; ++a) {
    before.push_back(pads[a]);
    behind.push_back(pads[axes + a]);
  }
  Var g = pad(r.dy(), before, behind);
  Dims shape = {y[0], y[1]};
  Dims perm = {0, 1};
  for (std::size_t a = 0; a < axes; ++a) {
    const std::int64_t reach = dilations[a] * (block[a] - 1) + 1;
    const std::int64_t count = (image[a] + pads[a] + pads[axes + a] - reach) / strides[a] + 1;
    Dims places;
    for (std::int64_t k = 0; k < block[a]; ++k) {
      for (std::int64_t o = 0; o < count; ++o) places.push_back(o * strides[a] + k * dilations[a]);
    }
    g = gather(g, g.e->ints(places), static_cast<std::int64_t>(2 + a));
    shape.push_back(block[a]);
    shape.push_back(count);
  }
  for (const std::int64_t first : {2, 3}) {  // blocks, then places
    for (std::size_t a = 0; a < axes; ++a) perm.push_back(first + 2 * static_cast<std::int64_t>(a));
  }
  r.give(0, reshape(transpose(reshape(g, shape), perm), r.x_dims()));
}

}  // namespace

void register_signal(RuleRegistry& registry) {
  registry.add("CumProd", cum_prod_rule, inputs({0}));
  registry.add("DFT", dft_rule, inputs({0}));
  registry.add_expanded("STFT", expand_stft, inputs({0, 2}));
  registry.add("Col2Im", col2im_rule, inputs({0}));
}

}  // namespace xrt::autodiff
