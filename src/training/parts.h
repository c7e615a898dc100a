// SPDX-License-Identifier: Apache-2.0
// What the trainer is made of beside its programs: checkpoints and the search for values that are
// not finite.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "training/loss_scale.h"
#include "xrt/graph.h"
#include "xrt/tensor.h"

namespace xrt {

struct Checkpoint {
  std::int64_t step = 0;
  double learning_rate = 0;
  bool scaled = false;  // by `loss_scale`
  LossScale::State loss_scale;
  std::map<std::string, Tensor> state;
};

void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);
// kInvalidModel where the file is truncated or its checksum does not fit.
Checkpoint read_checkpoint(const std::filesystem::path& path);

// The first element that is NaN or infinite; nothing for other than float32 and float64.
std::optional<std::int64_t> first_not_finite(const Tensor& tensor);

// Runs `graph` on the native engine with every intermediate value as an output; says which node
// made the first value that is not finite, or which input already held one.
std::string find_not_finite(const Graph& graph, const std::map<std::string, Data>& inputs);

}  // namespace xrt
