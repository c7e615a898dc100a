// SPDX-License-Identifier: Apache-2.0
// Ops that ONNX Runtime's quantiser writes (domain com.microsoft) in those of the standard.
//
// QLinearAdd, QLinearMul, QLinearSigmoid, QLinearLeakyRelu, QLinearSoftmax, QLinearConcat,
// QLinearAveragePool, QLinearGlobalAveragePool, QLinearReduceMean, QLinearWhere, QGemm,
// DynamicQuantizeMatMul, MatMulIntegerToFloat, and QuantizeLinear, DequantizeLinear and Gelu, which
// the standard has by now. The first ten become DequantizeLinear, the op, QuantizeLinear: what an
// engine makes of those it makes of models in QOperator form, too.
#pragma once

#include "onnx/reader.h"
#include "xrt/graph.h"

namespace xrt {

// Rewrites the draft where it is one of the above; may add nodes and constants in front of it. Any
// other node stays. Throws kInvalidModel where inputs are missing, kUnsupported for channels_last.
void translate_onnxruntime_op(Graph& graph, NodeDraft& draft);

}  // namespace xrt
