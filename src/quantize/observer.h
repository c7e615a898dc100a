// SPDX-License-Identifier: Apache-2.0
// Observers: each sees the elements of one value sample by sample, in one pass and in memory that
// does not grow with their number, and says in the end which range of them gets the steps.
//
//   const std::unique_ptr<Observer> observer = make_observer(options);
//   for (const Tensor& t : values) observer->add(elements(t));
//   const ValueRange range = observer->range();
#pragma once

#include <memory>
#include <span>

#include "xrt/quantize.h"

namespace xrt::quantization {

class Observer {
 public:
  virtual ~Observer() = default;
  // The elements that one sample has, all finite.
  virtual void add(std::span<const float> elements) = 0;
  // Zero is inside. {0, 0} before the first element.
  virtual ValueRange range() const = 0;
};

// The observer of options.clipping. Throws kInvalidArgument for a percentile that is not above 50
// and at most 100, and for a factor that is not above 0 and at most 1.
std::unique_ptr<Observer> make_observer(const QuantizeOptions& options);

}  // namespace xrt::quantization
