// SPDX-License-Identifier: Apache-2.0
// The native engine's elementary functions beside the C library's in double: a million floats over
// all of their range, in units in the last place of the result.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "native_fixture.h"

namespace xrt {
namespace {

using namespace testing_native;  // NOLINT(google-build-using-namespace)

struct Function {
  const char* op;
  double (*exact)(double);
  double ulps;
  double flushed;  // results below it may be 0
};

constexpr double kLeastNormal = std::numeric_limits<float>::min();

const Function kFunctions[] = {
    {"Exp", [](double x) { return std::exp(x); }, 1.5, 0},
    {"Log", [](double x) { return std::log(x); }, 1.5, 0},
    {"Tanh", [](double x) { return std::tanh(x); }, 6, 0},
    {"Erf", [](double x) { return std::erf(x); }, 6, 0},
    {"Sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, 3, kLeastNormal},
};

// Every 4,099th float, and those where something changes.
std::vector<float> all_floats() {
  std::vector<float> found;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 4099) {
    const auto narrow = static_cast<std::uint32_t>(bits);
    float x = 0;
    std::memcpy(&x, &narrow, sizeof(x));
    found.push_back(x);
  }
  using Limits = std::numeric_limits<float>;
  for (const float x : {0.0F, Limits::denorm_min(), Limits::min(), 0.3F, 0.5F, 1.0F, 3.92F, 4.0F,
                        88.72F, 103.9F, Limits::max(), Limits::infinity(), Limits::quiet_NaN()}) {
    for (const float signed_x : {x, -x}) {
      found.insert(found.end(),
                   {std::nextafter(signed_x, 0.0F), signed_x, std::nextafter(signed_x, 1e9F)});
    }
  }
  return found;
}

double error_in_ulps(float y, double exact, double flushed) {
  const auto rounded = static_cast<float>(exact);
  if (y == rounded || (std::isnan(y) && std::isnan(rounded))) return 0;
  if (y == 0 && std::abs(exact) < flushed) return 0;
  if (!std::isfinite(y) || !std::isfinite(rounded)) return std::numeric_limits<double>::infinity();
  const float magnitude = std::abs(rounded);
  const double ulp = std::nextafter(magnitude, std::numeric_limits<float>::infinity()) - magnitude;
  return std::abs(y - exact) / ulp;
}

TEST(VectorMath, IsRightToTheLastPlacesOverTheWholeRange) {
  // Larger functions of some of these ops run in oneDNN.
  constexpr std::size_t kRow = 1000;
  std::vector<float> xs = all_floats();
  xs.resize((xs.size() + kRow - 1) / kRow * kRow);
  for (const Function& function : kFunctions) {
    Graph g;
    g.add_output(
        g.add_op(function.op, {g.add_input("x", Type::tensor(DType::kFloat32, Dims{kRow}))}));
    const auto executable = compile(g);
    double worst = 0;
    float at = 0;
    for (auto row = xs.begin(); row != xs.end(); row += kRow) {
      const std::vector<float> some(row, row + kRow);
      const std::vector<float> found =
          elements(run(*executable, {floats({kRow}, some)}, 1)[0].tensor());
      for (std::size_t i = 0; i < kRow; ++i) {
        const double exact = function.exact(some[i]);
        const double error = error_in_ulps(found[i], exact, function.flushed);
        if (error > worst) {
          worst = error;
          at = some[i];
        }
        if (exact == 0) {
          EXPECT_EQ(std::signbit(found[i]), std::signbit(exact)) << function.op;
        }
      }
    }
    EXPECT_LE(worst, function.ulps) << function.op << " of " << at;
  }
}

// Gelu multiplies 1 + erf(x) with x: what lacks 1 would be most of it.
TEST(VectorMath, OfLargeNumbersTanhAndErfAreOne) {
  const std::vector<float> xs{-3.4e38F, -1e19F, -1000, -100,  -9.5F,
                              9.5F,     100,    1000,  1e19F, 3.4e38F};
  const auto count = static_cast<std::int64_t>(xs.size());
  const auto computed = [&](const char* op, Attributes attributes = {}) {
    Graph g;
    const ValueId x = g.add_input("x", Type::tensor(DType::kFloat32, Dims{count}));
    g.add_output(g.add_op(op, {x}, std::move(attributes)));
    return elements(run(*compile(g), {floats({count}, xs)}, 1)[0].tensor());
  };
  for (const char* form : {"none", "tanh"}) {
    const std::vector<float> found = computed("Gelu", {{"approximate", std::string(form)}});
    for (std::size_t i = 0; i < xs.size(); ++i) EXPECT_EQ(found[i], std::max(xs[i], 0.0F)) << form;
  }
  for (const char* op : {"Erf", "Tanh"}) {
    const std::vector<float> found = computed(op);
    for (std::size_t i = 0; i < xs.size(); ++i)
      EXPECT_EQ(found[i], std::copysign(1.0F, xs[i])) << op;
  }
}

TEST(VectorMath, OfManyNumbersErfIsTheSame) {
  Graph g;
  const std::vector<float> xs = all_floats();
  const auto count = static_cast<std::int64_t>(xs.size());
  g.add_output(g.add_op("Erf", {g.add_input("x", Type::tensor(DType::kFloat32, Dims{count}))}));
  const std::vector<float> found = elements(evaluate(g, {floats({count}, xs)}));
  double worst = 0;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    worst = std::max(worst, error_in_ulps(found[i], std::erf(static_cast<double>(xs[i])), 0));
  }
  EXPECT_LE(worst, 6);
}

}  // namespace
}  // namespace xrt
