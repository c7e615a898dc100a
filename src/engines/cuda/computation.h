// SPDX-License-Identifier: Apache-2.0
// A step that one of NVIDIA's libraries computes: its description, and the ways in which the
// library can compute it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engines/cuda/plan.h"

namespace xrt::cuda {

using Addresses = std::function<void*(const View&)>;

class Computation {
 public:
  virtual ~Computation() = default;
  Computation() = default;
  Computation(const Computation&) = delete;
  Computation& operator=(const Computation&) = delete;

  virtual std::size_t way_count() const = 0;
  virtual std::size_t workspace_bytes(std::size_t way) const = 0;
  // By one thread at a time.
  virtual void queue(const Addresses& addresses, void* workspace, void* stream) const = 0;
  // The chosen way, from which the same version of the library makes it again on such a device.
  virtual std::string save() const = 0;

  virtual void choose(std::size_t way) { chosen_ = way; }
  // Whether the chosen way is a generated kernel.
  virtual bool is_generated() const { return false; }
  std::size_t workspace_bytes() const { return workspace_bytes(chosen_); }

 protected:
  std::size_t chosen() const { return chosen_; }

 private:
  std::size_t chosen_ = 0;
};

struct LibraryOptions {
  int device = 0;
  bool tf32 = false;  // whether float32 may be rounded
};

// Null for generated kernels. Throws kUnsupported where the library has no way. `saved`: by save();
// empty: the library is asked for its ways.
std::unique_ptr<Computation> make_computation(const LibraryOptions& options, const Step& step,
                                              std::string_view saved = {});
// Of ProductStep (cublaslt.cc), ConvolutionStep, KernelStep::library and AttentionStep (the folder
// cudnn).
std::unique_ptr<Computation> make_product(const LibraryOptions& options, const ProductStep& step,
                                          std::string_view saved);
std::unique_ptr<Computation> make_convolution(const LibraryOptions& options,
                                              const ConvolutionStep& step, std::string_view saved);
std::unique_ptr<Computation> make_integer_convolution(const LibraryOptions& options,
                                                      const IntegerConvolution& step,
                                                      std::string_view saved);
std::unique_ptr<Computation> make_attention(const LibraryOptions& options,
                                            const AttentionStep& step, std::string_view saved);

// Empty, or why the library cannot be used; and its version.
const std::string& cublas_trouble();
std::string cublas_version();
const std::string& cudnn_trouble();
std::string cudnn_version();

}  // namespace xrt::cuda
