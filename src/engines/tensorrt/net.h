// SPDX-License-Identifier: Apache-2.0
// A TensorRT network while it is made: the layers that lowerings compose, checked as they are
// added, with broadcasting and shapes in the manner of ONNX.
//
// Every function here adds layers and returns the result; a layer that TensorRT does not accept
// throws Refusal with TensorRT's own message. Types are explicit (strongly typed networks): nothing
// is cast unless a lowering says so. A dimension that is not known when the network is made is -1.
#pragma once

#include <NvInfer.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engines/tensorrt/library.h"
#include "xrt/tensor.h"

namespace xrt::tensorrt {

// Why a node cannot be lowered. Caught by the engine, never seen by a caller.
struct Refusal {
  std::string reason;
};

using Value = nvinfer1::ITensor*;

// TensorRT's element type of a dtype; refuses those it has not.
nvinfer1::DataType to_trt(DType dtype);
bool has_trt_type(DType dtype);
DType from_trt(nvinfer1::DataType type);
nvinfer1::Dims to_trt(const Dims& dims);
Dims dims_of(Value x);  // -1 where unknown
DType dtype_of(Value x);
std::int64_t rank_of(Value x);
bool is_static(const Dims& dims);

// One dimension of a shape: a number, or the length of axis `axis` of `of` in the run.
struct Extent {
  std::int64_t value = -1;
  Value of = nullptr;
  std::int64_t axis = 0;
  Extent(std::int64_t v) : value(v) {}  // NOLINT(google-explicit-constructor): a number is one
  Extent(Value x, std::int64_t k);      // a number where that length is known
};
using Extents = std::vector<Extent>;
Extents extents_of(Value x);

class Net {
 public:
  explicit Net(nvinfer1::INetworkDefinition& network) : network_(network) {}

  nvinfer1::INetworkDefinition& network() { return network_; }

  // The layer if TensorRT made it; refuses otherwise.
  template <typename Layer>
  Layer* made(Layer* layer, std::string_view what) {
    if (layer == nullptr) refuse(what);
    return layer;
  }
  void made(bool accepted, std::string_view what) {
    if (!accepted) refuse(what);
  }
  // Output `k` of a layer that is set up: refuses if TensorRT cannot type it.
  Value out(nvinfer1::ILayer* layer, int k = 0);

  // --- constants ---
  // Keeps the tensor until the network is built.
  nvinfer1::Weights weights(const Tensor& tensor);
  Value constant(const Tensor& tensor);
  // One number of that type, of rank `rank` (all ones).
  Value scalar(DType dtype, double value, std::int64_t rank = 0);
  Value integers(const Dims& values);  // int64, rank 1

  // --- elementwise ---
  Value unary(Value x, nvinfer1::UnaryOperation op);
  Value binary(Value a, Value b, nvinfer1::ElementWiseOperation op);  // broadcasts
  Value binary(Value a, double b, nvinfer1::ElementWiseOperation op);
  Value activation(Value x, nvinfer1::ActivationType type, float alpha = 0, float beta = 0);
  Value select(Value condition, Value yes, Value no);  // broadcasts
  Value cast(Value x, DType dtype);                    // no layer where it is that already

  // --- shape ---
  Value shape(const Extents& extents);  // int64, rank 1
  Value reshape(Value x, const Extents& extents);
  Value pad_rank(Value x, std::int64_t rank);  // ones in front
  Value unsqueeze(Value x, const Dims& axes);  // axes of the result, sorted
  Value squeeze(Value x, const Dims& axes);
  Value transpose(Value x, const Dims& permutation);
  Value slice(Value x, const Dims& start, const Extents& size, const Dims& stride,
              nvinfer1::SampleMode mode = nvinfer1::SampleMode::kSTRICT_BOUNDS,
              Value fill = nullptr);
  Value expand(Value x, const Dims& dims);  // to static dims, NumPy's rules
  Value concat(const std::vector<Value>& values, std::int64_t axis);
  // Index `i` of axis `axis`, which goes away.
  Value take(Value x, std::int64_t axis, std::int64_t index);

  // --- reductions and products ---
  Value reduce(Value x, nvinfer1::ReduceOperation op, const Dims& axes, bool keep);
  Value softmax(Value x, std::int64_t axis);
  Value matmul(Value a, Value b, bool transpose_a = false, bool transpose_b = false);

  [[noreturn]] void refuse(std::string_view what);

 private:
  nvinfer1::INetworkDefinition& network_;
  std::vector<Tensor> weights_;  // what the network reads until it is built
};

using EW = nvinfer1::ElementWiseOperation;
using UN = nvinfer1::UnaryOperation;
using RD = nvinfer1::ReduceOperation;
using ACT = nvinfer1::ActivationType;

}  // namespace xrt::tensorrt
