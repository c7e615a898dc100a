// SPDX-License-Identifier: Apache-2.0
// Quantisation-aware training: a graph that quantize() made is trained on with its rounding in
// place.
//
//   open_quantised_weights(graph);      // then train: Trainer, xrt/trainer.h
//   …
//   close_quantised_weights(trained);   // after constants were folded (the standard passes)
//
// - Open: weights are float32 constants behind QuantizeLinear and DequantizeLinear, with a scale
//   that follows their largest number; biases are float32. Scales of activations stay.
// - Gradients pass straight through the rounding, and end where a number was cut off.
//
// Source: B. Jacob et al., "Quantization and Training of Neural Networks for Efficient
// Integer-Arithmetic-Only Inference", 2018.
#pragma once

#include <cstddef>

#include "xrt/export.h"
#include "xrt/graph.h"

namespace xrt {

// Every DequantizeLinear of constant bytes becomes trainable, every one of a constant int32 its
// float32 numbers. Returns how many weights were opened. Throws kInvalidArgument where there is
// none, and naming the node where its scales or zero points fit no matrix of bytes.
XRT_API std::size_t open_quantised_weights(Graph& graph);

// float32 biases of Conv and Gemm on bytes become int32 in steps of input scale × weight scale, as
// quantize() writes them. Returns how many. Throws kInvalidArgument where a weight is still
// computed: its parameters are no constants.
XRT_API std::size_t close_quantised_weights(Graph& graph);

}  // namespace xrt
