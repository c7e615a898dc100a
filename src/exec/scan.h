// SPDX-License-Identifier: Apache-2.0
// Slices that a Scan reads and parts that a Loop or Scan writes, one per iteration.
#pragma once

#include <cstdint>

#include "xrt/tensor.h"
#include "xrt/type.h"

namespace xrt {

// Cuts a tensor along one axis.
class ScanInput {
 public:
  // Throws kInvalidArgument if `axis` is not one of the tensor's.
  ScanInput(Tensor whole, std::int64_t axis, bool reverse);
  std::int64_t length() const { return count_; }
  // What is read in iteration t. The next call may overwrite it.
  Tensor at(std::int64_t t);

 private:
  Tensor whole_, part_;
  bool reverse_;
  Dims dims_;  // of a part
  std::int64_t count_ = 0, outer_ = 1, inner_ = 1;
};

// Joins the parts of all iterations along a new axis.
class ScanOutput {
 public:
  // Of a Scan: `length` iterations. `target`, where it is a tensor of the right shape, is what the
  // parts are written to.
  ScanOutput(Data target, std::int64_t length, std::int64_t axis, bool reverse);
  // Of a Loop: at most `limit` iterations, along the first axis.
  ScanOutput(Data target, std::int64_t limit);
  // Throws kInvalidArgument if the part differs from the others in dtype or shape.
  void add(const Tensor& part);
  // `part` is the type of a part as the body declares it, for the case that there was none.
  Tensor finish(const Type& part);

 private:
  void start(DType dtype, const Dims& part, std::int64_t capacity);
  void grow(std::int64_t capacity);

  Data target_;
  std::int64_t limit_;
  std::int64_t given_axis_ = 0;
  bool reverse_ = false;
  bool is_exact_ = false;  // there will be `limit_` parts
  Tensor whole_;
  Dims part_;
  std::size_t axis_ = 0;
  std::int64_t count_ = 0, capacity_ = 0, outer_ = 1, inner_ = 1;
};

}  // namespace xrt
