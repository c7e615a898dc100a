// SPDX-License-Identifier: Apache-2.0
// Two ops of the domain "example": SoftShrink, which every engine can run, and RunLengths, whose
// shape depends on the data and which has nothing but a kernel.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "xrt/op.h"

namespace {

// y = x - lambd where x > lambd, x + lambd where x < -lambd, else 0
// (PyTorch's torch.nn.Softshrink).
xrt::OpDefinition soft_shrink() {
  xrt::OpDefinition op;
  op.domain = "example";
  op.name = "SoftShrink";
  op.revision = "1";  // to be changed with the kernel: part of cache keys
  op.inputs = {{.name = "x", .dtypes = {xrt::DType::kFloat32}}};
  op.outputs = {{.name = "y", .dtypes = {xrt::DType::kFloat32}}};
  op.attributes = {{.name = "lambd", .value = 0.5F}};
  // Without a shape function the output is as the first input.
  op.create = [](const xrt::OpCall& call) -> xrt::OpKernel {
    const float lambd = call.attribute<float>("lambd");
    return [lambd](xrt::OpRun& run) {
      const xrt::Tensor& x = run.input(0);
      const auto* from = x.data<float>();
      auto* to = run.output(0, x.dims()).data<float>();
      run.parallel_for(x.count(), 16384, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const float v = from[i];
          to[i] = v > lambd ? v - lambd : (v < -lambd ? v + lambd : 0.0F);
        }
      });
    };
  };
  // What engines compile that do not know the op. The standard's Shrink with lambd as bias.
  op.body = "y = Shrink <lambd: float = @lambd, bias: float = @lambd> (x)";
  // XLA compiles this instead: no comparison, no branch.
  op.lowerings["xla"] =
      "l = Constant <value_float: float = @lambd> ()"
      "a = Abs (x)"
      "d = Sub (a, l)"
      "m = Relu (d)"
      "s = Sign (x)"
      "y = Mul (s, m)";
  // TVM's compiler runs this: Relax expressions in a relax.BlockBuilder.
  op.code["tvm"] = [](const xrt::OpCall& /*call*/) {
    return R"(
from tvm import te

def build(bb, x, *, lambd):
    def at(data, index):
        value, bound = data[index], te.const(lambd, data.dtype)
        return te.max(value - bound, 0.0) + te.min(value + bound, 0.0)

    return bb.emit_te(lambda data: te.compute(data.shape, lambda *i: at(data, i)), x)
)";
  };
  return op;
}

// values, lengths = RunLengths(x): the runs of equal neighbours of a vector.
xrt::OpDefinition run_lengths() {
  xrt::OpDefinition op;
  op.domain = "example";
  op.name = "RunLengths";
  op.revision = "1";
  op.inputs = {{.name = "x", .dtypes = {xrt::DType::kInt64}}};
  op.outputs = {{.name = "values"}, {.name = "lengths"}};
  op.infer = [](const xrt::OpCall& call) {
    if (call.input_types[0].has_rank() && call.input_types[0].rank() != 1) {
      throw xrt::Error(xrt::ErrorCode::kInvalidModel,
                       "x must be a vector, it is " + to_string(call.input_types[0]));
    }
    // As many as there are runs: known only when it is run.
    const xrt::Type type = xrt::Type::tensor(xrt::DType::kInt64, xrt::Shape{xrt::Dim("runs")});
    return std::vector<xrt::Type>{type, type};
  };
  op.create = [](const xrt::OpCall& /*call*/) -> xrt::OpKernel {
    return [](xrt::OpRun& run) {
      const xrt::Tensor& x = run.input(0);
      const auto* from = x.data<std::int64_t>();
      std::vector<std::int64_t> values;
      std::vector<std::int64_t> lengths;
      for (std::int64_t i = 0; i < x.count(); ++i) {
        if (i == 0 || from[i] != from[i - 1]) {
          values.push_back(from[i]);
          lengths.push_back(0);
        }
        ++lengths.back();
      }
      const auto count = static_cast<std::int64_t>(values.size());
      std::copy(values.begin(), values.end(), run.output(0, {count}).data<std::int64_t>());
      std::copy(lengths.begin(), lengths.end(), run.output(1, {count}).data<std::int64_t>());
    };
  };
  return op;
}

}  // namespace

extern "C" XRT_API void xrt_register_ops(xrt::OpRegistry* registry) {
  registry->add(soft_shrink());
  registry->add(run_lengths());
}
