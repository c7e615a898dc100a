// SPDX-License-Identifier: Apache-2.0
// Rewrites the native engine's copy of a function so that fewer and better kernels compute it.
//
// What a graph output or a value read by several nodes needs stays; ops of domain kDomain appear.
// Each step leaves the graph valid, with types on every new value.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "xrt/graph.h"

namespace xrt::native::dnn {

class Int8Report;

// All of the steps below but the first two, in order.
void optimize(Graph& graph);

// What computes on float16 or bfloat16 computes in float32. Of its own, when products that read
// compressed weights were found. Weights of other products stay as they are: kernels convert them
// as they pack them.
void widen_halves(Graph& graph);
// What stands between DequantizeLinear and QuantizeLinear is computed on bytes. Of its own, before
// constants are dequantised.
// Says what became of quantised nodes.
std::vector<std::string> fuse_int8(Graph& graph);
// Sums of bytes whose scale and zero point the run computes (DynamicQuantizeLinear) become one op
// with the factors, the bias and the activations behind them. Part of fuse_int8().
void fuse_dynamic_int8(Graph& graph, Int8Report& report);
// Spelled-out formulas become one op: Gelu, HardSwish, Swish, LayerNormalization.
void fuse_formulas(Graph& graph);
// The gradient of a convolution's weight, spelled out as a convolution, becomes one op.
void recognise_weight_gradients(Graph& graph);
// Conv takes constant scales and biases, activations and residual additions that follow.
void fuse_convolutions(Graph& graph);
// MatMul and Gemm take transposes around them, biases, scales, activations and additions.
void fuse_multiplications(Graph& graph);
// Elementwise ops take the activations that follow.
void fuse_elementwise(Graph& graph);
// Relu's gradient, spelled out, becomes one op.
void fuse_gradients(Graph& graph);
// Convolutions and pools work on channels-last memory; transposes move to where they cancel.
void use_channels_last(Graph& graph);
// Products whose factors were bfloat16 read and write that again, where the CPU multiplies it.
void narrow_factors(Graph& graph);

// The attributes of the op ImageConv (dnn/image_conv.cc) that computes what `conv`, a fused Conv,
// does on an image that is given plane by plane; nothing where it does not.
std::optional<Attributes> image_convolution(const Graph& graph, const Node& conv);

}  // namespace xrt::native::dnn
