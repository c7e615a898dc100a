// SPDX-License-Identifier: Apache-2.0
// "Update" of the domain "xrt.native": statements on float32 tensors of one shape, and on single
// numbers. Every statement works on a block that stays in the cache, so memory is read and written
// once. Attributes: `ops`; `operands`, two per statement: the number of an input, or the number of
// inputs plus that of an earlier statement, or -1; `results`: the statements whose values are the
// outputs.
#include <cmath>
#include <cstring>
#include <vector>

#include "engines/native/kernels/common/convert.h"
#include "engines/native/kernels/register.h"
#include "engines/native/kernels/vector/vector_ops.h"

namespace xrt::native {

namespace {

constexpr std::int64_t kBlock = 1024;

struct Operand {
  std::int64_t input = -1;
  std::size_t buffer = 0;  // where input is -1
};

struct Statement {
  VectorOps::Binary binary = nullptr;
  VectorOps::Unary unary = nullptr;
  Operand a, b;
  std::size_t buffer = 0;
};

VectorOps::Binary binary_loop(const std::string& op) {
  const VectorOps& ops = vector_ops();
  if (op == "Add") return ops.add;
  if (op == "Sub") return ops.sub;
  if (op == "Mul") return ops.mul;
  if (op == "Div") return ops.div;
  if (op == "Max") return ops.max;
  if (op == "Min") return ops.min;
  return nullptr;
}

VectorOps::Unary unary_loop(const std::string& op) {
  if (op == "Sqrt") return vector_ops().sqrt;
  if (op == "Neg") return vector_ops().neg;
  return nullptr;
}

class UpdateKernel final : public Kernel {
 public:
  explicit UpdateKernel(const KernelCreateContext& create)
      : Kernel({.overwrites = true}), dims_(*create.output_type(0).static_dims()) {
    const Node& node = create.node();
    const std::vector<std::string> ops = node.attr_strings("ops");
    const std::vector<std::int64_t> operands = node.attr_ints("operands");
    const std::vector<std::int64_t> results = node.attr_ints("results");
    const auto inputs = static_cast<std::int64_t>(create.input_count());
    if (operands.size() != 2 * ops.size() || results.size() != create.output_count()) {
      fail("its attributes do not fit each other");
    }
    for (std::size_t i = 0; i < create.input_count(); ++i) {
      const auto dims = create.input_type(i).static_dims();
      const bool whole = dims && *dims == dims_;
      if (!whole && !(dims && element_count(*dims) == 1)) fail("an input is of another shape");
      strides_.push_back(whole ? 1 : 0);
    }
    // A block's memory is taken again when the last statement that reads it has run.
    std::vector<std::size_t> last(ops.size());
    for (std::size_t s = 0; s < ops.size(); ++s) {
      for (std::size_t i = 0; i < 2; ++i) {
        const std::int64_t source = operands[2 * s + i];
        if (source >= inputs + static_cast<std::int64_t>(s) || source < (i == 0 ? 0 : -1)) {
          fail("an operand is not there yet");
        }
        if (source >= inputs) last[static_cast<std::size_t>(source - inputs)] = s;
      }
    }
    for (const std::int64_t r : results) {
      if (r < 0 || r >= static_cast<std::int64_t>(ops.size())) fail("a result is not there");
      last[static_cast<std::size_t>(r)] = ops.size();
    }
    std::vector<std::size_t> free;
    for (std::size_t s = 0; s < ops.size(); ++s) {
      Statement statement;
      statement.binary = binary_loop(ops[s]);
      statement.unary = unary_loop(ops[s]);
      if (statement.binary == nullptr && statement.unary == nullptr) fail("op " + ops[s]);
      if ((statement.binary != nullptr) != (operands[2 * s + 1] >= 0))
        fail("operands of " + ops[s]);
      const auto operand = [&](std::int64_t source) {
        return source < inputs
                   ? Operand{source, 0}
                   : Operand{-1, statements_[static_cast<std::size_t>(source - inputs)].buffer};
      };
      statement.a = operand(operands[2 * s]);
      statement.b = operand(operands[2 * s + 1]);
      for (std::size_t i = 0; i < 2; ++i) {
        const std::int64_t source = operands[2 * s + i] - inputs;
        const bool twice = i == 1 && operands[2 * s] == operands[2 * s + 1];
        if (source >= 0 && !twice && last[static_cast<std::size_t>(source)] == s) {
          free.push_back(statements_[static_cast<std::size_t>(source)].buffer);
        }
      }
      if (free.empty()) free.push_back(buffers_++);
      statement.buffer = free.back();
      free.pop_back();
      statements_.push_back(statement);
    }
    for (const std::int64_t r : results) {
      results_.push_back(statements_[static_cast<std::size_t>(r)].buffer);
    }
  }

  void run(KernelContext& k) const override {
    std::vector<const float*> inputs;
    for (std::size_t i = 0; i < strides_.size(); ++i) inputs.push_back(k.input(i).data<float>());
    std::vector<float*> outputs;
    for (std::size_t i = 0; i < results_.size(); ++i) {
      outputs.push_back(k.output(i, DType::kFloat32, dims_).data<float>());
    }
    k.parallel_for(element_count(dims_), 16 * kBlock, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> memory(buffers_ * kBlock);
      for (; begin < end; begin += kBlock) {
        run_block(inputs, outputs, begin, std::min(kBlock, end - begin), memory.data());
      }
    });
  }

 private:
  void run_block(const std::vector<const float*>& inputs, const std::vector<float*>& outputs,
                 std::int64_t begin, std::int64_t n, float* memory) const {
    const auto address = [&](const Operand& o) -> const float* {
      if (o.input < 0) return memory + o.buffer * kBlock;
      return inputs[static_cast<std::size_t>(o.input)] + stride(o) * begin;
    };
    for (const Statement& s : statements_) {
      float* y = memory + s.buffer * kBlock;
      if (s.unary != nullptr && stride(s.a) == 1) {
        s.unary(address(s.a), y, n, 0, 0);
      } else if (s.unary != nullptr) {
        s.unary(address(s.a), y, 1, 0, 0);
        std::fill(y + 1, y + n, y[0]);
      } else {
        s.binary(address(s.a), stride(s.a), address(s.b), stride(s.b), y, n);
      }
    }
    // Last, as an output may be the memory of any input.
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      std::memcpy(outputs[i] + begin, memory + results_[i] * kBlock,
                  static_cast<std::size_t>(n) * sizeof(float));
    }
  }

  std::int64_t stride(const Operand& o) const {
    return o.input < 0 ? 1 : strides_[static_cast<std::size_t>(o.input)];
  }

  Dims dims_;
  std::vector<std::int64_t> strides_;
  std::vector<Statement> statements_;
  std::vector<std::size_t> results_;  // buffers
  std::size_t buffers_ = 0;
};

}  // namespace

void register_update_kernels(KernelRegistry& registry) {
  registry.add({.domain = "xrt.native", .op = "Update", .create = [](const KernelCreateContext& c) {
                  return std::make_unique<UpdateKernel>(c);
                }});
}

}  // namespace xrt::native
