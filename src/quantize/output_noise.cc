// SPDX-License-Identifier: Apache-2.0
#include "quantize/output_noise.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace xrt::quantization {
namespace {

constexpr double kBandRange = 32;       // of the peaks of one band
constexpr double kLeastPeak = 1e-5;     // of the largest: below it there is nothing to judge
constexpr std::size_t kLeastPart = 20;  // of the columns, 1 / 20 make a band
constexpr std::int64_t kMostColumns = 1 << 16;  // an axis that is longer holds positions

}  // namespace

void OutputNoise::Column::join(const Column& other) {
  peak = std::max(peak, other.peak);
  signal += other.signal;
  noise += other.noise;
}

void OutputNoise::add(const Tensor& wanted, const Tensor& found) {
  const bool has_columns = wanted.rank() >= 2 && wanted.dims().back() <= kMostColumns;
  const auto count =
      static_cast<std::size_t>(has_columns ? std::max<std::int64_t>(1, wanted.dims().back()) : 1);
  if (columns_.empty()) columns_.resize(count);
  if (columns_.size() != count) {  // the axis has no fixed meaning
    for (std::size_t c = 1; c < columns_.size(); ++c) columns_[0].join(columns_[c]);
    columns_.resize(1);
  }
  for (std::int64_t k = 0; k < wanted.count(); ++k) {
    const double w = wanted.data<float>()[k];
    const double difference = found.data<float>()[k] - w;
    Column& column = columns_[static_cast<std::size_t>(k) % columns_.size()];
    column.peak = std::max(column.peak, std::abs(w));
    column.signal += w * w;
    column.noise += difference * difference;
  }
}

double OutputNoise::decibels() const {
  std::vector<Column> sorted = columns_;
  std::sort(sorted.begin(), sorted.end(),
            [](const Column& a, const Column& b) { return a.peak > b.peak; });
  struct Band {
    Column sum;
    std::size_t columns = 0;
  };
  std::vector<Band> bands;
  double top = 0;  // the largest peak of the last band
  for (const Column& column : sorted) {
    const bool matters = column.peak > kLeastPeak * sorted[0].peak;
    const bool is_apart = matters && column.peak * kBandRange < top;
    if (bands.empty() || is_apart) {
      bands.emplace_back();
      top = column.peak;
    }
    bands.back().sum.join(column);
    ++bands.back().columns;
  }
  // Few columns of small numbers count with those above them.
  for (std::size_t b = bands.size(); b-- > 1;) {
    if (bands[b].columns * kLeastPart >= sorted.size()) continue;
    bands[b - 1].sum.join(bands[b].sum);
    bands[b - 1].columns += bands[b].columns;
    bands.erase(bands.begin() + static_cast<std::ptrdiff_t>(b));
  }
  double worst = std::numeric_limits<double>::infinity();
  for (const Band& band : bands) {
    if (band.sum.noise == 0 || band.sum.signal == 0) continue;  // nothing to compare
    worst = std::min(worst, 10 * std::log10(band.sum.signal / band.sum.noise));
  }
  return worst;
}

}  // namespace xrt::quantization
