// SPDX-License-Identifier: Apache-2.0
// Which form of int8 the engines of a program take.
#pragma once

#include <optional>

#include "xrt/export.h"
#include "xrt/options.h"
#include "xrt/quantize.h"

namespace xrt {

// What QuantizeOptions says of it.
struct Int8Form {
  Activations activations = Activations::kAsymmetric;
  bool float_biases = false;

  void set(QuantizeOptions& options) const {
    options.activations = activations;
    options.float_biases = float_biases;
  }
};

// The first form that each engine takes which may run nodes of a program with these options and
// takes any: asymmetric activations, whose steps are finer; symmetric ones with biases in float32,
// and with biases in int32. Symmetric ones come first where one of these engines is faster with
// them (EngineManifest). An engine is asked about a small convolution as quantize() writes it.
// Of forms of other activations than `wanted`, where that is given, none is tried. Engines that
// cannot be had do not count. Throws kEngine where one fails when it is asked.
XRT_API Int8Form int8_form_for(const ProgramOptions& options,
                               std::optional<Activations> wanted = std::nullopt);

}  // namespace xrt
