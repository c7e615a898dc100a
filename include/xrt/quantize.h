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
// - Weights: int8, symmetric, a scale per output channel. Activations: a scale per tensor, zero
//   exactly representable, in the form that the engines take (Activations). Biases: int32.
// - Rules (OpRule) choose node by node: ConvTranspose, products of two activations and what Softmax
//   and norms read become int8 where a rule asks for it.
// - What samples tell of single channels (ChannelWatcher) makes int8 more exact: smooth() before
//   the ranges are taken, and a correction of biases in quantize().
// - Types must be known and constants folded: run the standard passes first (batch normalisations
//   belong into convolutions).
//
// Source: B. Jacob et al., "Quantization and Training of Neural Networks for Efficient
// Integer-Arithmetic-Only Inference", 2018; S. Migacz, "8-bit Inference with TensorRT", 2017 (the
// entropy method); M. Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias
// Correction", 2019; G. Xiao et al., "SmoothQuant", 2022.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
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

// What the bytes of activations are.
enum class Activations {
  kAsymmetric,  // uint8, any zero point
  kSymmetric,   // int8, zero point 0
};

// What is to be done with some nodes. What is left out stays as it would be.
struct OpRule {
  // An op type, or a node's name in which '*' is any text and '?' any character.
  std::string pattern;
  // False: floating point. True makes int8, besides Conv, Gemm and MatMul by constants, also
  // ConvTranspose and products of two activations; and where the pattern is an op type or one
  // node's name, what any other node reads (Softmax, LayerNormalization, Add, …).
  std::optional<bool> int8 = {};
  std::optional<Activations> form = {};   // of what the node reads and its chain makes
  std::optional<Clipping> clipping = {};  // of the same
};

struct QuantizeOptions {
  Clipping clipping = Clipping::kMinMax;
  double percentile = 99.99;        // of the elements; as many are cut off below as above
  double average_factor = 0.01;     // how far a sample moves the average: the first one all the way
  std::set<std::string> skip = {};  // names of nodes that stay in floating point
  // A sum of products that a residual is added to is quantised of its own. ONNX Runtime has no
  // kernel for both and needs it; others lose accuracy by it.
  bool round_sums = false;
  // Results of matrix products are quantised also where only float ops, or the caller, read them.
  // For engines whose integer kernels give no float32; others lose accuracy by it.
  bool round_results = false;
  // Results of convolutions stay in float32 where only float ops, or the caller, read them, as
  // those of matrix products do; see gains_by_float_results().
  bool float_results = false;
  Activations activations = Activations::kAsymmetric;
  // Biases stay in float32. Else they are int32 in steps of input and weights, which integer
  // kernels on CPUs add before they round.
  bool float_biases = false;
  // Of the rules that fit a node, the last one that says something counts; `skip` is above them.
  std::vector<OpRule> rules = {};
};

// "asymmetric" (or "uint8") or "symmetric" ("int8"); throws kInvalidArgument for another text.
XRT_API Activations activations_of(std::string_view text);
// "PATTERN=WORD,WORD": words are float, int8, the two of activations_of() that are no number type
// (asymmetric, symmetric) and those of clipping_of(). Throws kInvalidArgument naming what is wrong.
XRT_API OpRule op_rule_of(std::string_view text);
// Throws kInvalidArgument naming a rule that no node of the graph fits.
XRT_API void check_rules(const Graph& graph, const std::vector<OpRule>& rules);

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
  // factor out of its range. `clippings`: those that ranges(clipping) is to be asked for; none:
  // options.clipping. What a rule says of a node's clipping holds for each of them.
  Calibrator(const Graph& graph, const QuantizeOptions& options, const GraphRunner& runner,
             std::vector<Clipping> clippings = {});
  Calibrator(Calibrator&&) noexcept;
  Calibrator& operator=(Calibrator&&) noexcept;
  ~Calibrator();

  // One value per graph input, in order. Throws kInvalidArgument naming sample and input where
  // their count, a dtype or a shape is another than the graph's, or a number is not finite; and
  // naming the value where the graph makes one that is not finite. A sample of which nothing that
  // is watched has elements does not count.
  void add(const std::vector<Tensor>& sample);
  std::size_t samples() const;
  // Of the first of the clippings, or of one of them. Throw kInvalidArgument before the first
  // sample.
  ValueRanges ranges() const;
  ValueRanges ranges(Clipping clipping) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What samples say of the channels of one value. The channels of what a Conv or ConvTranspose reads
// are axis 1, else the last one.
struct ChannelRange {
  std::vector<float> low, high;      // zero is among them
  std::vector<double> mean, square;  // of the elements, and of their squares
  std::int64_t count = 0;            // of the elements seen, per channel
};
using ChannelRanges = std::map<std::string, ChannelRange>;  // by the value's name

// Watches what sums of products read, channel by channel, in one pass over the samples. Not
// thread-safe.
class XRT_API ChannelWatcher {
 public:
  ChannelWatcher(const Graph& graph, const QuantizeOptions& options, const GraphRunner& runner);
  ChannelWatcher(ChannelWatcher&&) noexcept;
  ChannelWatcher& operator=(ChannelWatcher&&) noexcept;
  ~ChannelWatcher();

  // One value per graph input, in order. Throws kInvalidArgument naming the value where one is not
  // finite, or where its channels are as many as the last sample's no more.
  void add(const std::vector<Tensor>& sample);
  ChannelRanges ranges() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct SmoothOptions {
  double strength = 0.5;  // 0: what is read stays as it is; 1: the weights take all of it
  bool layers = false;    // Conv, Relu, Conv: cross-layer equalisation
  bool products = true;   // MatMul and Gemm: SmoothQuant
};

struct SmoothSummary {
  std::size_t layers = 0;    // values whose channels were equalised between two layers
  std::size_t products = 0;  // those that a norm, or a Mul that was put in, brings to one size
};

// Moves large channels of what sums of products read into their weights: each channel is divided by
// a factor, where it is made (a Conv, Gemm or MatMul, with Relu, LeakyRelu and pools between; a
// norm's scale) or by a Mul, and the weights that meet it are multiplied. Outputs stay what they
// are but for rounding. Done only where the noise of int8 that follows from `channels` gets less;
// `channels` is brought up to date. Throws kInvalidArgument for a strength outside of 0 and 1.
XRT_API SmoothSummary smooth(Graph& graph, ChannelRanges& channels, const QuantizeOptions& options,
                             const SmoothOptions& how);

struct QuantizeSummary {
  std::size_t sums = 0;    // Conv, Gemm, MatMul and ConvTranspose nodes that became int8
  std::size_t kept = 0;    // those that stayed in floating point
  std::size_t values = 0;  // activations with a scale
  // Nodes among `kept` whose weights are all less than 1e-30.
  std::vector<std::string> too_small = {};
  // Values whose ranges are less than 1e-30: all that they hold becomes 0.
  std::vector<std::string> zeros = {};
};

// What of it a user should know, a sentence each: nodes that stay in floating point for their
// weights, values without a range.
XRT_API std::vector<std::string> notes_of(const QuantizeSummary& summary);
// The sentence about nodes whose weights are too small; empty without any.
XRT_API std::string too_small_note(const std::vector<std::string>& names);

// Puts Q/DQ into the graph. With `channels` biases are corrected: the mean of what rounding the
// weights adds to each output channel is taken off. Throws kInvalidArgument naming a value whose
// range is missing or not finite.
XRT_API QuantizeSummary quantize(Graph& graph, const ValueRanges& ranges,
                                 const QuantizeOptions& options,
                                 const ChannelRanges& channels = {});

// How good a quantised graph is: larger is better.
using Judge = std::function<double(const Graph& quantized)>;

// Decibels of signal over noise of the worst output against `graph` as it is, over the first
// `judged` samples. Throws kInvalidArgument without a sample or an output of float32.
XRT_API Judge decibel_judge(const Graph& graph, const std::vector<std::vector<Tensor>>& samples,
                            std::size_t judged, const GraphRunner& runner);

// The one of `clippings`, which `calibrator` was made for, whose ranges give the most decibels
// (decibel_judge()) in int8. Another one than the first counts only where it is better by one
// decibel: what is less differs from sample to sample. Throws what quantize() and `judge` throw.
XRT_API Clipping choose_clipping(const Graph& graph, const Calibrator& calibrator,
                                 std::span<const Clipping> clippings, const Judge& judge,
                                 const QuantizeOptions& options,
                                 const ChannelRanges& channels = {});

// Whether QuantizeOptions::float_results is worth the time that it costs: it gives three decibels
// (decibel_judge()) more. Not where options.round_sums or round_results are set. Spectra and their
// logarithms are such results: eight bits of what is loud leave nothing of what is soft.
XRT_API bool gains_by_float_results(const Graph& graph, const ValueRanges& ranges,
                                    const Judge& judge, const QuantizeOptions& options,
                                    const ChannelRanges& channels = {});

// What one node costs when it is computed in int8.
struct NodeNoise {
  std::string name, op;
  double alone = 0;          // dB of the worst output with all others in floating point
  double weights = 0;        // dB of its weights; infinity where it has none, or they are exact
  double reached = 0;        // dB of what its chain makes with all in int8; infinity: not quantised
  ValueRange input, output;  // of what it reads and its chain makes
  bool kept = false;         // it stays in floating point
};

struct AccuracySearch {
  double reached = 0;             // what the judge said of the result
  std::vector<std::string> kept;  // nodes that stay in floating point for it, the worst first
  ValueRanges ranges;             // for quantize() with those nodes skipped
};

// Finds which nodes have to stay in floating point so that `judge` says at least `wanted`. Each
// node's noise is measured in decibels on the first `judged` samples with all others in floating
// point; the noisiest are kept, as few as will do. Takes about as many compilations as there are
// such nodes. `samples` calibrate, too. Throws what Calibrator and decibel_judge() throw.
XRT_API AccuracySearch reach_accuracy(const Graph& graph,
                                      const std::vector<std::vector<Tensor>>& samples,
                                      std::size_t judged, const Judge& judge, double wanted,
                                      const QuantizeOptions& options, const GraphRunner& runner,
                                      const ChannelRanges& channels = {});

// The nodes that int8 is for, the noisiest first, and behind them those that `options` keep in
// floating point. `graph` is the float one, `ranges` those of it. Takes about as many compilations
// as there are nodes.
XRT_API std::vector<NodeNoise> rank_nodes(const Graph& graph, const ValueRanges& ranges,
                                          const std::vector<std::vector<Tensor>>& samples,
                                          std::size_t judged, const QuantizeOptions& options,
                                          const GraphRunner& runner,
                                          const ChannelRanges& channels = {});

}  // namespace xrt
