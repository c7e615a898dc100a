// SPDX-License-Identifier: Apache-2.0
// Post-training quantisation to int8: samples give the ranges of values, then QuantizeLinear and
// DequantizeLinear are put around what engines compute in integers. The graph stays a standard
// ONNX graph; an engine with integer kernels computes what stands between Q and DQ in int8.
//
//   Calibrator calibrator(graph, options, program_runner());   // xrt/graph_runner.h
//   for (const std::vector<Tensor>& sample : samples) calibrator.add(sample);
//   quantize(graph, calibrator.ranges(), options);
//
// - Conv, Gemm and MatMul by constant float32 weights are quantised, with the Add of a residual and
//   the Relu or Clip behind them; everything else stays in floating point and reads dequantised
//   values. Ops that move values (MaxPool, Concat, Reshape, …) keep the scale of what they move.
// - Weights: int8, symmetric, a scale per output channel. Activations: uint8, asymmetric, a scale
//   per tensor, zero exactly representable. Biases: int32.
// - Types must be known and constants folded: run the standard passes first (batch normalisations
//   belong into convolutions).
//
// Source: B. Jacob et al., "Quantization and Training of Neural Networks for Efficient
// Integer-Arithmetic-Only Inference", 2018; S. Migacz, "8-bit Inference with TensorRT", 2017 (the
// entropy method).
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "xrt/export.h"
#include "xrt/graph.h"
#include "xrt/tensor.h"

namespace xrt {

// Which part of what a value was seen to hold gets the 256 steps.
enum class Clipping {
  kMinMax,         // all of it
  kMovingAverage,  // of each sample's least and largest: see QuantizeOptions::average_factor
  kPercentile,     // all but the outermost: see QuantizeOptions::percentile
  kEntropy,        // the part that changes the distribution least (Kullback-Leibler divergence)
  kMse,            // the part with the least mean squared error
};

struct QuantizeOptions {
  Clipping clipping = Clipping::kMinMax;
  double percentile = 99.99;        // of the elements; as many are cut off below as above
  double average_factor = 0.01;     // how far a sample moves the average: the first one all the way
  std::set<std::string> skip = {};  // names of nodes that stay in floating point
  // A sum of products that a residual is added to is quantised of its own. ONNX Runtime has no
  // kernel for both and needs it; others lose accuracy by it.
  bool round_sums = false;
};

// "minmax", "moving_average", "percentile", "entropy" and "mse", in the order of Clipping.
XRT_API const std::vector<std::string>& clipping_names();
// Throws kInvalidArgument for another text.
XRT_API Clipping clipping_of(std::string_view text);

struct ValueRange {
  float low = 0, high = 0;
};
using ValueRanges = std::map<std::string, ValueRange>;  // by the value's name

// Computes a graph for inputs in the graph's order: all its outputs in order.
using GraphRun = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;
using GraphRunner = std::function<GraphRun(Graph graph)>;

// Watches the values that quantize() needs the ranges of, in one pass over the samples and in
// memory that does not grow with their number. Not thread-safe.
class XRT_API Calibrator {
 public:
  // Throws kInvalidArgument where the graph has nothing to quantise, and for a percentile or a
  // factor out of its range.
  Calibrator(const Graph& graph, const QuantizeOptions& options, const GraphRunner& runner);
  Calibrator(Calibrator&&) noexcept;
  Calibrator& operator=(Calibrator&&) noexcept;
  ~Calibrator();

  // One value per graph input, in order. Throws kInvalidArgument naming sample and input where
  // their count, a dtype or a shape is another than the graph's, or a number is not finite; and
  // naming the value where the graph makes one that is not finite.
  void add(const std::vector<Tensor>& sample);
  std::size_t samples() const;
  // Throws kInvalidArgument before the first sample.
  ValueRanges ranges() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct QuantizeSummary {
  std::size_t sums = 0;    // Conv, Gemm and MatMul nodes that became int8
  std::size_t kept = 0;    // those that stayed in floating point
  std::size_t values = 0;  // activations with a scale
};

// Puts Q/DQ into the graph. Throws kInvalidArgument naming a value whose range is missing or not
// finite.
XRT_API QuantizeSummary quantize(Graph& graph, const ValueRanges& ranges,
                                 const QuantizeOptions& options);

struct AccuracySearch {
  double decibels = 0;            // signal over noise of the outputs that was reached
  std::vector<std::string> kept;  // nodes that stay in floating point for it, the worst first
  ValueRanges ranges;             // for quantize() with those nodes skipped
};

// Finds which Conv, Gemm and MatMul nodes have to stay in floating point so that the outputs for
// `samples`, each of the float32 ones, have at least `decibels` of signal over noise against the
// graph as it is. Each node's noise is measured with all others in floating point; the noisiest
// are kept, as few as will do. Takes about as many compilations as there are such nodes.
// `samples` calibrate, too; the first `judged` of them are judged. Throws what Calibrator throws,
// and kInvalidArgument without a sample or an output of float32.
XRT_API AccuracySearch reach_accuracy(const Graph& graph,
                                      const std::vector<std::vector<Tensor>>& samples,
                                      std::size_t judged, double decibels,
                                      const QuantizeOptions& options, const GraphRunner& runner);

}  // namespace xrt
