// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "quantize/scheme.h"
#include "quantize/watched_values.h"
#include "quantize/weights.h"
#include "xrt/error.h"

namespace xrt {
struct ChannelWatcher::State {
  struct Sums {
    std::vector<float> low, high;
    std::vector<double> sum, square;
    std::int64_t count = 0;  // of elements per channel
  };

  quantization::WatchedValues values;
  std::vector<std::size_t> axes;  // of the values
  std::vector<Sums> sums;
};

ChannelWatcher::ChannelWatcher(const Graph& graph, const QuantizeOptions& options,
                               const GraphRunner& runner) {
  const quantization::Scheme scheme = quantization::make_scheme(graph, options);
  std::map<ValueId, std::size_t> axes;
  for (const NodeId id : scheme.sums) {
    const Node& node = graph.node(id);
    const Type& type = graph.type(node.input(0));
    if (!type.has_rank() || type.rank() < 2) continue;
    axes.try_emplace(node.input(0), quantization::channel_axis(node, type.rank()));
  }
  std::vector<ValueId> values;
  std::vector<std::size_t> places;
  for (const auto& [id, axis] : axes) {
    values.push_back(id);
    places.push_back(axis);
  }
  const std::size_t count = values.size();
  state_ = std::make_unique<State>(State{quantization::WatchedValues(graph, values, runner),
                                         std::move(places), std::vector<State::Sums>(count)});
}

ChannelWatcher::ChannelWatcher(ChannelWatcher&&) noexcept = default;
ChannelWatcher& ChannelWatcher::operator=(ChannelWatcher&&) noexcept = default;
ChannelWatcher::~ChannelWatcher() = default;

void ChannelWatcher::add(const std::vector<Tensor>& sample) {
  const std::vector<Tensor> found = state_->values.run(sample);
  for (std::size_t v = 0; v < found.size(); ++v) {
    const Tensor& t = found[v];
    const std::string& name = state_->values.names()[v];
    const quantization::AxisIndex channel(t.dims(), state_->axes[v]);
    State::Sums& s = state_->sums[v];
    if (s.low.empty()) {
      s = {std::vector<float>(channel.size()), std::vector<float>(channel.size()),
           std::vector<double>(channel.size()), std::vector<double>(channel.size())};
    }
    if (s.low.size() != channel.size()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("value '{}' has {} channels, and had {} for the samples before", name,
                              channel.size(), s.low.size()));
    }
    if (t.count() == 0) continue;
    for (std::int64_t i = 0; i < t.count(); ++i) {
      const float x = t.data<float>()[i];
      const std::size_t c = channel(i);
      s.low[c] = std::min(s.low[c], x);
      s.high[c] = std::max(s.high[c], x);
      s.sum[c] += x;
      s.square[c] += double{x} * x;
    }
    s.count += t.count() / static_cast<std::int64_t>(channel.size());
    // What is not finite has spread to the sums, whatever least and largest say.
    if (!std::all_of(s.square.begin(), s.square.end(), [](double x) { return std::isfinite(x); })) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("value '{}' is not finite: the model overflows on a sample in "
                              "float32, or the sample holds such a number",
                              name));
    }
  }
}

ChannelRanges ChannelWatcher::ranges() const {
  ChannelRanges result;
  for (std::size_t v = 0; v < state_->sums.size(); ++v) {
    const State::Sums& s = state_->sums[v];
    if (s.count == 0) continue;
    ChannelRange range{s.low, s.high, s.sum, s.square, s.count};
    for (double& m : range.mean) m /= static_cast<double>(s.count);
    for (double& m : range.square) m /= static_cast<double>(s.count);
    result[state_->values.names()[v]] = std::move(range);
  }
  return result;
}

}  // namespace xrt
