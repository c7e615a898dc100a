// SPDX-License-Identifier: Apache-2.0
// Convolutions by cuDNN's graph API (its backend interface, in C), opened at run time. The
// prototypes and numbers are those of its public API.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "engines/cuda/cublaslt.h"
#include "engines/cuda/plan.h"

namespace xrt::cuda {

// Empty, or why cuDNN cannot be used.
const std::string& cudnn_trouble();
std::string cudnn_version();

class Convolution {
 public:
  // Throws kUnsupported where the library has no way.
  Convolution(int device, const ConvolutionStep& step, bool tf32);
  ~Convolution();
  Convolution(const Convolution&) = delete;
  Convolution& operator=(const Convolution&) = delete;

  std::size_t way_count() const { return ways_.size(); }
  void choose(std::size_t way) { chosen_ = way; }
  std::size_t workspace_bytes(std::size_t way) const { return ways_[way].workspace; }
  std::size_t workspace_bytes() const { return workspace_bytes(chosen_); }
  void queue(const Addresses& addresses, void* workspace, void* stream) const;

 private:
  struct Way {
    std::shared_ptr<void> plan;
    std::size_t workspace = 0;
  };
  int device_;
  ConvolutionStep step_;
  std::shared_ptr<void> graph_;
  std::vector<Way> ways_;
  std::size_t chosen_ = 0;
};

}  // namespace xrt::cuda
