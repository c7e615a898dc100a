// SPDX-License-Identifier: Apache-2.0
// Products by cuBLASLt, opened at run time. The prototypes are those of its public API.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engines/cuda/plan.h"

namespace xrt::cuda {

// Empty, or why cuBLASLt cannot be used.
const std::string& cublas_trouble();
std::string cublas_version();

using Addresses = std::function<void*(const View&)>;

// A step's description and the ways in which the library can compute it.
class Product {
 public:
  // Throws kUnsupported where the library has no way. `tf32`: whether float32 may be rounded.
  Product(int device, const ProductStep& step, bool tf32);
  ~Product();
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  std::size_t way_count() const { return ways_.size(); }
  void choose(std::size_t way) { chosen_ = way; }
  std::size_t workspace_bytes(std::size_t way) const { return ways_[way].workspace; }
  std::size_t workspace_bytes() const { return workspace_bytes(chosen_); }
  // By one thread at a time.
  void queue(const Addresses& addresses, void* workspace, void* stream) const;

 private:
  struct Way {  // cublasLtMatmulHeuristicResult_t
    std::uint64_t algorithm[8];
    std::size_t workspace;
    int state;
    float waves;
    int reserved[4];
  };
  void* layout(const ProductStep::Matrix& matrix, DType dtype) const;

  int device_;
  ProductStep step_;
  void* operation_ = nullptr;
  void *a_ = nullptr, *b_ = nullptr, *c_ = nullptr, *d_ = nullptr;
  std::vector<Way> ways_;
  std::size_t chosen_ = 0;
};

}  // namespace xrt::cuda
