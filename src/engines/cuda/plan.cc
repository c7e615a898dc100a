// SPDX-License-Identifier: Apache-2.0
#include "engines/cuda/plan.h"

#include <algorithm>
#include <numeric>

#include "base/arena.h"

namespace xrt::cuda {

Dims row_major_strides(const Dims& dims) {
  Dims strides(dims.size());
  std::int64_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

bool View::is_row_major() const {
  std::int64_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (dims[i] != 1 && strides[i] != stride) return false;
    stride *= dims[i];
  }
  return true;
}

bool View::is_dense() const {
  std::vector<std::size_t> order(dims.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return strides[a] < strides[b]; });
  std::int64_t stride = 1;
  for (const std::size_t axis : order) {
    if (dims[axis] == 1) continue;
    if (strides[axis] != stride) return false;
    stride *= dims[axis];
  }
  return true;
}

namespace {

bool is_constant(const Plan& plan, int buffer) {
  return plan.buffers[static_cast<std::size_t>(buffer)].place == Buffer::Place::kConstant;
}

// Steps over constants alone are done when the function is loaded.
void find_constants(Plan& plan) {
  for (Step& step : plan.steps) {
    const auto is_known = [&](int buffer) { return is_constant(plan, buffer); };
    const auto is_temporary = [&](int buffer) {
      return plan.buffers[static_cast<std::size_t>(buffer)].place == Buffer::Place::kTemporary;
    };
    // Several steps may write parts of one buffer: it is constant if all of them are.
    const auto writes_same = [&](const Step& other) {
      return std::any_of(other.writes.begin(), other.writes.end(), [&](int buffer) {
        return std::find(step.writes.begin(), step.writes.end(), buffer) != step.writes.end();
      });
    };
    step.once = std::all_of(step.reads.begin(), step.reads.end(), is_known) &&
                std::all_of(step.writes.begin(), step.writes.end(), is_temporary) &&
                std::count_if(plan.steps.begin(), plan.steps.end(), writes_same) == 1;
    if (!step.once) continue;
    for (const int buffer : step.writes) {
      plan.buffers[static_cast<std::size_t>(buffer)].place = Buffer::Place::kConstant;
    }
  }
  std::vector<bool> is_read(plan.buffers.size(), false);
  for (const Step& step : plan.steps) {
    for (const int buffer : step.reads) {
      if (!step.once) is_read[static_cast<std::size_t>(buffer)] = true;
    }
  }
  for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
    Buffer& buffer = plan.buffers[b];
    if (buffer.place == Buffer::Place::kConstant && !is_read[b]) {
      buffer.place = Buffer::Place::kLoading;
    }
  }
}

// What nobody reads any longer, as widened factors of products that take them as they were.
void drop_unread_steps(Plan& plan) {
  std::vector<bool> is_read(plan.buffers.size(), false);
  for (const View& output : plan.outputs) is_read[static_cast<std::size_t>(output.buffer)] = true;
  std::vector<Step> kept;
  for (std::size_t s = plan.steps.size(); s-- > 0;) {
    Step& step = plan.steps[s];
    const bool is_needed = std::any_of(step.writes.begin(), step.writes.end(), [&](int buffer) {
      return is_read[static_cast<std::size_t>(buffer)];
    });
    if (!is_needed) continue;
    for (const int buffer : step.reads) is_read[static_cast<std::size_t>(buffer)] = true;
    kept.push_back(std::move(step));
  }
  std::reverse(kept.begin(), kept.end());
  plan.steps = std::move(kept);
}

// The last steps may write results where the caller wants them.
void find_direct_results(Plan& plan) {
  constexpr std::size_t kMostSteps = 4;  // as they are queued one by one
  // What is smaller is copied faster than a library's call takes.
  constexpr std::size_t kLarge = std::size_t{1} << 20;
  const auto count_of = [&](int buffer, std::vector<int> Step::*list) {
    return std::count_if(plan.steps.begin(), plan.steps.end(), [&](const Step& step) {
      return std::find((step.*list).begin(), (step.*list).end(), buffer) != (step.*list).end();
    });
  };
  for (std::size_t s = plan.steps.size(); s-- > 0;) {
    Step& step = plan.steps[s];
    if (plan.steps.size() - s > kMostSteps) return;
    const bool is_kernel = std::holds_alternative<KernelStep>(step.work);
    const bool fits = std::all_of(step.writes.begin(), step.writes.end(), [&](int b) {
      const Buffer& buffer = plan.buffers[static_cast<std::size_t>(b)];
      return buffer.place == Buffer::Place::kOutput && (is_kernel || buffer.bytes >= kLarge) &&
             count_of(b, &Step::writes) == 1 && count_of(b, &Step::reads) == 0;
    });
    if (!fits) return;
    step.direct = true;
    for (const int b : step.writes) plan.buffers[static_cast<std::size_t>(b)].direct = true;
  }
}

// Where much crosses the function's border, as in the halves of a training step, or where there are
// few steps, copying to and from the arena takes longer than queueing steps one by one: all of them
// use the caller's memory then, and none is recorded.
void find_direct_border(Plan& plan) {
  // A step is queued in some 3 µs, most of which the device computes with what lies there already;
  // this much is copied in the rest.
  constexpr std::size_t kBytesOfStep = std::size_t{1} << 20;
  constexpr std::size_t kFewSteps = 2;
  std::size_t bytes = 0;
  const auto crosses = [](const Buffer& buffer) {
    return buffer.place == Buffer::Place::kInput || buffer.place == Buffer::Place::kOutput;
  };
  for (const Buffer& buffer : plan.buffers) {
    if (crosses(buffer) && !buffer.direct) bytes += buffer.bytes;
  }
  const auto steps = static_cast<std::size_t>(
      std::count_if(plan.steps.begin(), plan.steps.end(), [](const Step& s) { return !s.once; }));
  if (steps > kFewSteps && bytes < steps * kBytesOfStep) return;
  for (Step& step : plan.steps) step.direct = !step.once;
  for (Buffer& buffer : plan.buffers) buffer.direct = crosses(buffer);
}

}  // namespace

std::string source_of(const Plan& plan) {
  std::string text = plan.definitions;
  for (const std::string& code : plan.kernel_codes) text += code;
  return text;
}

void lay_out(Plan& plan) {
  constexpr std::size_t kAlignment = 256;  // as memory of CUDA's is
  drop_unread_steps(plan);
  find_constants(plan);
  find_direct_results(plan);
  find_direct_border(plan);
  std::vector<std::size_t> first(plan.buffers.size(), plan.steps.size());
  std::vector<std::size_t> last(plan.buffers.size(), 0);
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    for (const auto* list : {&plan.steps[s].reads, &plan.steps[s].writes}) {
      for (const int buffer : *list) {
        const auto b = static_cast<std::size_t>(buffer);
        first[b] = std::min(first[b], s);
        last[b] = std::max(last[b], s);
      }
    }
  }
  std::vector<BufferLife> lives;
  std::vector<std::size_t> which;
  plan.offsets.assign(plan.buffers.size(), 0);
  for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    const std::size_t bytes = (buffer.bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (buffer.place == Buffer::Place::kConstant || buffer.place == Buffer::Place::kLoading) {
      std::size_t& end =
          buffer.place == Buffer::Place::kConstant ? plan.constant_bytes : plan.loading_bytes;
      plan.offsets[b] = end;
      end += bytes;
      continue;
    }
    if (buffer.direct) {
      plan.offsets[b] = plan.direct_bytes;
      plan.direct_bytes += bytes;
      continue;
    }
    // Inputs are there before the first step, and outputs until they have been copied.
    const bool is_input = buffer.place == Buffer::Place::kInput;
    const bool is_output = buffer.place == Buffer::Place::kOutput;
    if (!is_input && !is_output && first[b] > last[b]) continue;  // nobody uses it
    const std::size_t end = is_output ? plan.steps.size() : last[b];
    lives.push_back({bytes, is_input ? 0 : std::min(first[b], end), end});
    which.push_back(b);
  }
  const ArenaPlan arena = plan_arena(lives);
  for (std::size_t i = 0; i < which.size(); ++i) plan.offsets[which[i]] = arena.offsets[i];
  plan.arena_bytes = arena.bytes;
}

}  // namespace xrt::cuda
