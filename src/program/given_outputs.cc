// SPDX-License-Identifier: Apache-2.0
#include "program/given_outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "xrt/error.h"

namespace xrt {
namespace {

struct Range {
  std::uintptr_t begin = 0, end = 0;
  std::optional<std::size_t> output;  // else it is an input's
};

std::optional<Range> range_of(const Data& data) {
  if (!data.is_tensor()) return std::nullopt;
  const Tensor& tensor = data.tensor();
  if (tensor.bytes() == 0) return std::nullopt;
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.raw());
  return Range{begin, begin + tensor.bytes(), std::nullopt};
}

}  // namespace

std::vector<std::size_t> outputs_over_inputs(std::span<const Data> inputs,
                                             std::span<const Data> outputs,
                                             const std::vector<Port>& ports) {
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    std::optional<Range> range = range_of(outputs[i]);
    if (!range) continue;
    range->output = i;
    ranges.push_back(*range);
  }
  if (ranges.empty()) return {};
  for (const Data& input : inputs) {
    if (const std::optional<Range> range = range_of(input)) ranges.push_back(*range);
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<std::size_t> over;
  const Range* output = nullptr;  // of those before the one that reaches furthest
  std::uintptr_t inputs_end = 0;
  for (const Range& range : ranges) {
    const bool meets_output = output != nullptr && range.begin < output->end;
    if (!range.output) {
      if (meets_output) over.push_back(*output->output);
      inputs_end = std::max(inputs_end, range.end);
      continue;
    }
    if (meets_output) {
      throw Error(ErrorCode::kInvalidArgument, "the memory given for the outputs '" +
                                                   ports[*output->output].name + "' and '" +
                                                   ports[*range.output].name + "' overlaps");
    }
    if (range.begin < inputs_end) over.push_back(*range.output);
    output = &range;
  }
  std::sort(over.begin(), over.end());
  over.erase(std::unique(over.begin(), over.end()), over.end());
  return over;
}

void write_given(const std::vector<Data>& given, std::vector<Data>& outputs) {
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!given[i].is_tensor() || !outputs[i].is_tensor()) continue;
    Tensor target = given[i].tensor();
    const Tensor& made = std::as_const(outputs[i]).tensor();
    if (made.raw() == target.raw()) continue;
    if (made.dtype() != target.dtype() || made.dims() != target.dims()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("output {} is {}{}; the tensor given for it is of another dtype or "
                              "shape",
                              i, to_string(made.dtype()), to_string(made.dims())));
    }
    copy_elements(made, target);
    outputs[i] = given[i];
  }
}

}  // namespace xrt
